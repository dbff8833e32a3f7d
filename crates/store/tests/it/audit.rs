//! The audit finds what was changed behind the host's back, and only that.

use countersign_core::Seq;
use countersign_store::{AuditProblem, AuditReport, StoreError, export, verify};
use serde_json::{Value, json};

use crate::file::Host;
use crate::fixture::{ask, notified};

/// Five events: an ask and its end, two notes, and a redaction of the first note.
fn recorded() -> Host {
    let host = Host::new();
    let mut script = host.script();
    script.settle(ask("approval-1", Some("a")));
    script.tell(notified(None, "secret"));
    script.tell(notified(None, "kept"));
    script.redact(3).unwrap();
    host
}

fn audit(host: &Host) -> AuditReport {
    verify(&host.path, None).unwrap()
}

fn problems_after(sql: &str) -> Vec<AuditProblem> {
    let host = recorded();
    host.tamper(sql);
    audit(&host).problems
}

#[test]
fn whole_record_verifies_beside_its_host() {
    let host = Host::new();
    let empty = host.script();
    let report = audit(&host);
    assert_eq!(
        (report.events, report.first, report.head, report.problems),
        (0, None, Seq(0), Vec::new())
    );
    drop(empty);
    let host = recorded();
    let script = host.script();
    let report = audit(&host);
    assert_eq!(
        (report.events, report.first, report.head),
        (5, Some(Seq(1)), Seq(5))
    );
    assert_eq!(
        (report.redacted, report.pruned_before, report.problems),
        (vec![Seq(3)], None, Vec::new())
    );
    drop(script);
    let (_log, history) = countersign_store::open(&host.path).unwrap();
    assert_eq!(history.head().unwrap(), (report.head, report.head_hash));
}

#[test]
fn pruned_record_verifies_and_says_so() {
    let host = recorded();
    let mut script = host.script();
    script.prune(3).unwrap();
    script.tell(notified(None, "later"));
    let report = audit(&host);
    assert_eq!(
        (report.events, report.first, report.head),
        (5, Some(Seq(3)), Seq(7))
    );
    assert_eq!(
        (report.redacted, report.pruned_before, report.problems),
        (vec![Seq(3)], Some(Seq(3)), Vec::new())
    );
    script.prune(8).unwrap();
    let report = audit(&host);
    assert_eq!(
        (report.events, report.first, report.pruned_before),
        (1, Some(Seq(8)), Some(Seq(8)))
    );
    assert_eq!(report.problems, []);
}

#[test]
fn changed_payload_is_found() {
    let problems = problems_after(
        "UPDATE payloads SET body = CAST(replace(CAST(body AS TEXT), 'kept', 'kepT') AS BLOB) WHERE seq = 4",
    );
    assert_eq!(problems, [AuditProblem::DigestMismatch { seq: Seq(4) }]);
    let problems = problems_after("UPDATE payloads SET salt = zeroblob(16) WHERE seq = 2");
    assert_eq!(problems, [AuditProblem::DigestMismatch { seq: Seq(2) }]);
}

#[test]
fn changed_header_is_found() {
    let here = [AuditProblem::HashMismatch { seq: Seq(2) }];
    assert_eq!(
        problems_after("UPDATE events SET at = at + 1 WHERE seq = 2"),
        here
    );
    assert_eq!(
        problems_after(
            "UPDATE events SET kind = (SELECT kind FROM events WHERE seq = 1) WHERE seq = 2"
        ),
        here
    );
    assert_eq!(
        problems_after("UPDATE events SET version = 2 WHERE seq = 2"),
        here
    );
    assert_eq!(
        problems_after("UPDATE events SET stream = kind WHERE seq = 2"),
        here
    );
    let both = problems_after("UPDATE events SET hash = zeroblob(32) WHERE seq = 2");
    assert_eq!(
        both,
        [2, 3].map(|seq| AuditProblem::HashMismatch { seq: Seq(seq) })
    );
}

#[test]
fn payload_erased_behind_the_back_is_found() {
    let problems = problems_after("DELETE FROM payloads WHERE seq = 4");
    assert_eq!(problems, [AuditProblem::MissingPayload { seq: Seq(4) }]);
    let problems = problems_after("DELETE FROM payloads WHERE seq = 5");
    assert_eq!(
        problems,
        [3, 5].map(|seq| AuditProblem::MissingPayload { seq: Seq(seq) })
    );
}

#[test]
fn missing_events_are_found() {
    let problems =
        problems_after("DELETE FROM events WHERE seq = 2; DELETE FROM payloads WHERE seq = 2");
    assert_eq!(
        problems,
        [AuditProblem::Gap {
            after: Seq(1),
            before: Seq(3)
        }]
    );
    let problems =
        problems_after("DELETE FROM events WHERE seq = 5; DELETE FROM payloads WHERE seq = 5");
    let moved = AuditProblem::HeadMoved {
        newest: Seq(4),
        counted: Seq(5),
    };
    assert_eq!(
        problems,
        [AuditProblem::MissingPayload { seq: Seq(3) }, moved]
    );
}

#[test]
fn unrecorded_prune_is_found() {
    let problems = problems_after(
        "INSERT INTO meta SELECT 'pruned_hash', hash FROM events WHERE seq = 2;
         INSERT INTO meta VALUES ('pruned_seq', 2);
         DELETE FROM events WHERE seq <= 2; DELETE FROM payloads WHERE seq <= 2",
    );
    assert_eq!(problems, [AuditProblem::UnrecordedPrune { before: Seq(3) }]);
}

#[test]
fn head_kept_elsewhere_is_held_against_the_record() {
    let host = recorded();
    let earlier = audit(&host);
    let against = |seq, hash: &str| {
        verify(&host.path, Some((Seq(seq), hash.to_owned())))
            .unwrap()
            .problems
    };
    assert_eq!(against(5, &earlier.head_hash), []);
    assert_eq!(against(5, &earlier.head_hash.to_uppercase()), []);
    assert_eq!(
        against(4, &earlier.head_hash),
        [AuditProblem::HeadMismatch { seq: Seq(4) }]
    );
    host.script().tell(notified(None, "later"));
    assert_eq!(against(5, &earlier.head_hash), []);
    host.script().prune(6).unwrap();
    assert_eq!(against(5, &earlier.head_hash), []);
    assert_eq!(
        against(5, "00"),
        [AuditProblem::HeadMismatch { seq: Seq(5) }]
    );
    assert_eq!(against(4, "00"), [AuditProblem::HeadGone { seq: Seq(4) }]);
}

#[test]
fn tail_cut_off_with_care_is_found_against_a_head() {
    let host = Host::new();
    let mut script = host.script();
    script.tell(notified(None, "one"));
    script.tell(notified(None, "two"));
    drop(script);
    let before = audit(&host);
    host.tamper(
        "DELETE FROM events WHERE seq = 2; DELETE FROM payloads WHERE seq = 2;
         UPDATE meta SET value = 1 WHERE key = 'head'",
    );
    assert_eq!(audit(&host).problems, []);
    let head = Some((before.head, before.head_hash));
    assert_eq!(
        verify(&host.path, head).unwrap().problems,
        [AuditProblem::HeadNotReached { seq: Seq(2) }]
    );
}

#[test]
fn audit_refuses_what_is_no_record() {
    let host = Host::new();
    assert!(matches!(
        verify(&host.path, None),
        Err(StoreError::Backend { .. })
    ));
    std::fs::write(&host.path, "").unwrap();
    assert!(matches!(
        verify(&host.path, None),
        Err(StoreError::Damaged { .. })
    ));
    let host = recorded();
    host.tamper("PRAGMA user_version = 99");
    assert!(matches!(
        verify(&host.path, None),
        Err(StoreError::Newer { .. })
    ));
}

#[test]
fn export_hands_out_every_event_in_order() {
    let host = recorded();
    let mut rows = Vec::new();
    export(&host.path, Some(Seq(2)), Some(Seq(4)), &mut |event| {
        rows.push(serde_json::to_value(event).unwrap());
        Ok(())
    })
    .unwrap();
    let of = |field: &str| {
        rows.iter()
            .map(|row| row[field].clone())
            .collect::<Vec<Value>>()
    };
    assert_eq!(of("seq"), [2, 3, 4].map(Value::from));
    assert_eq!(
        of("kind"),
        [
            "approval.resolved",
            "host.notification_sent",
            "host.notification_sent"
        ]
        .map(Value::from)
    );
    assert_eq!(rows[1]["payload"], Value::Null);
    assert_eq!(rows[1]["salt"], Value::Null);
    assert_eq!(rows[2]["payload"]["message"], json!("kept"));
    assert_eq!(
        (rows[2]["version"].clone(), rows[2]["at"].clone()),
        (json!(1), json!(1_004_000))
    );
    let mut count = 0;
    let stopped = export(&host.path, None, None, &mut |_| {
        count += 1;
        Err(std::io::ErrorKind::BrokenPipe.into())
    });
    assert!(matches!(
        stopped,
        Err(StoreError::Backend {
            doing: "writing the export",
            ..
        })
    ));
    assert_eq!(count, 1);
}
