//! What every backend must do, as tests over nothing but the contract.

use std::sync::Arc;

use countersign_core::event::{
    AgentDisplay, AgentProfile, AnswerDelivery, BaseState, Device, Effect, Grant, GrantScope,
    HostStarted, LoginDevice, ProcessKey,
};
use countersign_core::limits::RECENT_ENDED_KEPT;
use countersign_core::{
    AccessToken, Agent, AgentId, AnswerChange, Approval, ApprovalId, Checkpoint, ClientId,
    CommitChanges, CommittedEvent, DeviceId, GrantId, GrantState, Json, ManagedAgent, PrincipalKey,
    ProcessMark, QuestionId, Role, Seq, Snapshot, Timestamp, TokenId,
};
use countersign_store::{ApprovalQuery, EventQuery, QuestionQuery, StatusFilter};

use crate::fixture::{
    Script, ask, by, committed, ending, json, keyed, notified, opening, pruned, redacted,
};

pub(crate) use crate::search::{
    a_page_of_long_parts_ends_early, all_words_are_found_in_old_and_new_parts,
    erased_text_is_not_found, hits_are_paged, transcripts_are_searched_newest_first,
};

pub(crate) fn empty_log_loads_as_nothing(mut script: Script) {
    assert_eq!(script.log.load().unwrap(), Snapshot::default());
    assert_eq!(script.events(), []);
    assert_eq!(
        script
            .history
            .find_approval(&ApprovalId::new("none"))
            .unwrap(),
        None
    );
}

pub(crate) fn what_was_appended_is_read_back_whole(mut script: Script) {
    let (one, opened) = opening(Seq(1), ask("approval-1", Some("a")));
    let two = committed(Seq(2), notified(None, "\u{0} \u{202e} \u{1f600}"));
    let (three, ended) = ending(Seq(3), &opened);
    let four = committed(
        Seq(4),
        HostStarted {
            version: "1".to_owned(),
            pid: 7,
            lapses_at: Timestamp(u64::MAX),
        },
    );
    let changes = CommitChanges {
        approvals: vec![opened],
        ..CommitChanges::default()
    };
    script
        .append(&[one.clone(), two.clone()], &changes)
        .unwrap();
    let changes = CommitChanges {
        approvals: vec![ended.clone()],
        ..CommitChanges::default()
    };
    script
        .append(&[three.clone(), four.clone()], &changes)
        .unwrap();
    assert_eq!(script.events(), [one, two, three, four]);
    assert_eq!(
        script.history.find_approval(&ended.ask.id).unwrap(),
        Some(ended)
    );
}

fn managed() -> ManagedAgent {
    let document = r#"{"options":{"agent":"codex","cwd":"/srv/app","env":[{"name":"KEY"}]},"has_operator_name":true,"run":2,
        "run_state":"ready","process":{"pid":9,"start_time":8},"runner":{"mark":"ab"},"session":"s1",
        "resumable":true,"turns":3,"turn":{"number":3,"messages":[],"started_at":5,"interrupted":false,"calls":[]},
        "queue":[],"used":{},"session_usage":{},"plan":{"steps":[]},"archived":false,"configured":0,
        "allowed":{"count":0,"newest":[]},"last_activity":6,
        "passes":[{"approval":"a1","digest":"d1"}]}"#;
    serde_json::from_str(document).unwrap()
}

fn agent(id: &str) -> Agent {
    Agent {
        profile: Arc::new(AgentProfile {
            id: AgentId::new(id),
            name: "Ann".to_owned(),
            kind: "coder".to_owned(),
            capabilities: vec!["shell".to_owned()],
            project: Some("/srv/app".to_owned()),
            pid: Some(7),
            display: AgentDisplay {
                label: Some("A".to_owned()),
                icon: None,
                accent: None,
            },
            metadata: json(r#"{"n": 1.50}"#),
        }),
        base: BaseState::Running,
        current_task: Some("tests".to_owned()),
        owner: PrincipalKey::new("uid:1"),
        client: Some(ClientId::new("c1")),
        lapses_at: Some(Timestamp(u64::MAX)),
        bypass_until: Some(Timestamp(7)),
        managed: Some(Arc::new(managed())),
        registered_at: Timestamp(1),
        updated_at: Timestamp(2),
    }
}

fn device(id: &str) -> Device {
    Device {
        id: DeviceId::new(id),
        name: "phone".to_owned(),
        platform: "any".to_owned(),
        capabilities: Vec::new(),
        status: "online".to_owned(),
        client: None,
        owner: PrincipalKey::new("uid:1"),
        updated_at: Timestamp(3),
        metadata: json("[1, 2]"),
    }
}

fn token(id: &str) -> AccessToken {
    AccessToken {
        id: TokenId::new(id),
        role: Role::Agent(AgentId::new("a")),
        name: "ci".to_owned(),
        hash: "00ff".to_owned(),
        created_at: Timestamp(4),
        expires_at: Some(Timestamp(5)),
        device: Some(LoginDevice {
            name: "phone".to_owned(),
            session_ms: 6,
        }),
        last_seen: Some(Timestamp(4)),
    }
}

fn grant(id: &str) -> GrantState {
    GrantState {
        grant: Arc::new(Grant {
            id: GrantId::new(id),
            rule: "Bash(git status:*)".to_owned(),
            effect: Effect::Allow,
            scope: GrantScope {
                agent: Some("Ann".to_owned()),
                project: Some("/srv/app".to_owned()),
                session: Some(AgentId::new("a")),
                labels: [("team".to_owned(), "web".to_owned())].into(),
            },
            by: by("person"),
            origin: Some(ApprovalId::new("approval-1")),
            expires_at: Some(Timestamp(u64::MAX)),
            uses: Some(u32::MAX),
            ceiling: Some(AgentId::new("lead")),
        }),
        created_at: Timestamp(6),
        uses_left: Some(u32::MAX - 1),
        fired: 1,
        last_used: Some(Timestamp(7)),
    }
}

fn pair(file: &str, digest: &str) -> (String, String) {
    (file.to_owned(), digest.to_owned())
}

fn checkpoint(agent: &str) -> Checkpoint {
    Checkpoint {
        agent: AgentId::new(agent),
        run: 3,
        offset: u64::MAX,
        state: json(r#"{"b": 1.50, "a": ["\u202e", ""], "b": 2}"#),
    }
}

fn mark(pid: u32) -> ProcessMark {
    ProcessMark {
        process: ProcessKey {
            pid,
            start_time: u64::MAX,
        },
        agent: AgentId::new("a"),
    }
}

fn lists() -> CommitChanges {
    CommitChanges {
        agents: vec![
            (AgentId::new("b"), Some(agent("b"))),
            (AgentId::new("a"), Some(agent("a"))),
        ],
        devices: vec![Arc::new(device("d2")), Arc::new(device("d1"))],
        tokens: vec![
            (TokenId::new("t1"), Some(token("t1"))),
            (TokenId::new("t2"), Some(token("t2"))),
        ],
        marks_added: vec![mark(2), mark(1)],
        grants: vec![
            (GrantId::new("g2"), Some(grant("g2"))),
            (GrantId::new("g1"), Some(grant("g1"))),
        ],
        trusted: vec![pair("/b", "00"), pair("/a", "ff")],
        checkpoints: vec![
            (AgentId::new("b"), Some(checkpoint("b"))),
            (AgentId::new("a"), Some(checkpoint("a"))),
        ],
        ..CommitChanges::default()
    }
}

pub(crate) fn load_gives_everything_that_lives_in_memory(mut script: Script) {
    let open = script.open(ask("approval-1", Some("a")));
    let ended = script.settle(ask("approval-2", None));
    let question = script.ask_question("question-1", "a");
    let answered = script.ask_question("question-2", "a");
    script.end_question(&answered);
    script
        .append(&[committed(Seq(7), notified(None, "lists"))], &lists())
        .unwrap();
    let expected = Snapshot {
        undelivered: Vec::new(),
        head: Seq(7),
        agents: vec![agent("a"), agent("b")],
        open_approvals: vec![open],
        recent_approvals: vec![ended],
        open_questions: vec![question],
        devices: vec![Arc::new(device("d1")), Arc::new(device("d2"))],
        tokens: vec![token("t1"), token("t2")],
        marks: vec![mark(1), mark(2)],
        grants: vec![grant("g1"), grant("g2")],
        trusted: vec![pair("/a", "ff"), pair("/b", "00")],
        checkpoints: vec![checkpoint("a"), checkpoint("b")],
    };
    assert_eq!(script.log.load().unwrap(), expected);
}

pub(crate) fn things_change_and_go(mut script: Script) {
    let open = script.open(ask("approval-1", None));
    script.append(&[], &lists()).unwrap();
    let agent = Agent {
        base: BaseState::Idle,
        current_task: None,
        client: None,
        lapses_at: None,
        bypass_until: None,
        managed: None,
        ..agent("a")
    };
    let device = Arc::new(Device {
        status: "away".to_owned(),
        ..device("d1")
    });
    let token = AccessToken {
        expires_at: None,
        device: None,
        last_seen: Some(Timestamp(9)),
        ..token("t1")
    };
    let used = GrantState {
        uses_left: None,
        fired: 2,
        last_used: None,
        ..grant("g1")
    };
    let moved = Approval {
        client: Some(ClientId::new("c2")),
        lapses_at: Some(Timestamp(8)),
        ..open
    };
    let changes = CommitChanges {
        agents: vec![
            (AgentId::new("a"), Some(agent.clone())),
            (AgentId::new("b"), None),
        ],
        approvals: vec![moved.clone()],
        devices: vec![device.clone()],
        tokens: vec![
            (TokenId::new("t1"), Some(token.clone())),
            (TokenId::new("t2"), None),
        ],
        marks_removed: vec![mark(1).process],
        grants: vec![
            (GrantId::new("g1"), Some(used.clone())),
            (GrantId::new("g2"), None),
        ],
        trusted: vec![pair("/a", "01")],
        ..CommitChanges::default()
    };
    script
        .append(&[committed(Seq(2), notified(None, "changed"))], &changes)
        .unwrap();
    let loaded = script.log.load().unwrap();
    assert_eq!(loaded.agents, [agent]);
    assert_eq!(loaded.open_approvals, [moved]);
    assert_eq!(loaded.devices[0], device);
    assert_eq!(loaded.tokens, [token]);
    assert_eq!(loaded.marks, [mark(2)]);
    assert_eq!(loaded.grants, [used]);
    assert_eq!(loaded.trusted, [pair("/a", "01"), pair("/b", "00")]);
}

pub(crate) fn documents_of_the_notifier_are_committed_and_dropped(mut script: Script) {
    let document = |number: u32| Json::from_value(&number).unwrap();
    let only = |notify_documents| CommitChanges {
        notify_documents,
        ..CommitChanges::default()
    };
    let named = |name: &str, body: Option<u32>| (name.to_owned(), body.map(document));
    let first = vec![
        named("b", Some(1)),
        named("a", Some(1)),
        named("a", Some(2)),
    ];
    script.append(&[], &only(first)).unwrap();
    let second = vec![
        named("b", None),
        named("c", Some(3)),
        named("missing", None),
    ];
    let event = committed(Seq(1), notified(None, "one"));
    script.append(&[event], &only(second)).unwrap();
    let expected = [("a".to_owned(), document(2)), ("c".to_owned(), document(3))];
    assert_eq!(script.history.notify_documents().unwrap(), expected);
    // They are for the notifier alone: what memory must hold does not grow with them.
    let head = Snapshot {
        head: Seq(1),
        ..Snapshot::default()
    };
    assert_eq!(script.log.load().unwrap(), head);
}

pub(crate) fn checkpoints_are_committed_with_events_and_without(mut script: Script) {
    let (ann, bob) = (AgentId::new("a"), AgentId::new("b"));
    assert_eq!(script.history.find_checkpoint(&ann).unwrap(), None);
    script.tell(notified(None, "one"));
    let only = |checkpoints| CommitChanges {
        checkpoints,
        ..CommitChanges::default()
    };
    let both = vec![
        (bob.clone(), Some(checkpoint("b"))),
        (ann.clone(), Some(checkpoint("a"))),
    ];
    script.append(&[], &only(both)).unwrap();
    assert_eq!(
        script.history.find_checkpoint(&ann).unwrap(),
        Some(checkpoint("a"))
    );
    let further = Checkpoint {
        run: 4,
        offset: 0,
        state: Json::null(),
        ..checkpoint("a")
    };
    let changes = only(vec![
        (ann.clone(), Some(further.clone())),
        (bob.clone(), None),
        (AgentId::new("c"), None),
    ]);
    let two = committed(Seq(2), notified(None, "two"));
    script.append(&[two], &changes).unwrap();
    assert_eq!(script.history.find_checkpoint(&bob).unwrap(), None);
    assert_eq!(
        script.history.find_checkpoint(&ann).unwrap(),
        Some(further.clone())
    );
    let expected = Snapshot {
        head: Seq(2),
        checkpoints: vec![further],
        ..Snapshot::default()
    };
    assert_eq!(script.log.load().unwrap(), expected);
    // The numbers go on where they were.
    script.tell(notified(None, "three"));
}

pub(crate) fn opened_and_ended_in_one_append(mut script: Script) {
    let (one, opened) = opening(Seq(1), ask("approval-1", Some("a")));
    let (two, ended) = ending(Seq(2), &opened);
    let changes = CommitChanges {
        approvals: vec![ended.clone()],
        ..CommitChanges::default()
    };
    script
        .append(&[one.clone(), two.clone()], &changes)
        .unwrap();
    let expected = Snapshot {
        head: Seq(2),
        recent_approvals: vec![ended],
        ..Snapshot::default()
    };
    assert_eq!(script.log.load().unwrap(), expected);
    assert_eq!(script.events(), [one, two]);
}

pub(crate) fn load_lists_the_newest_ended_by_their_end(mut script: Script) {
    let early = script.open(ask("approval-early", None));
    let mut ended = Vec::new();
    for number in 0..RECENT_ENDED_KEPT {
        ended.push(script.settle(ask(&format!("approval-{number}"), None)));
    }
    ended.push(script.end(&early));
    let dismissed = Approval {
        dismissed: true,
        ..ended[100].clone()
    };
    script
        .append(
            &[],
            &CommitChanges {
                approvals: vec![dismissed],
                ..CommitChanges::default()
            },
        )
        .unwrap();
    ended.remove(100);
    assert_eq!(ended.len(), RECENT_ENDED_KEPT);
    assert_eq!(script.log.load().unwrap().recent_approvals, ended);
    ended.push(script.settle(ask("approval-last", None)));
    assert_eq!(script.log.load().unwrap().recent_approvals, ended[1..]);
}

pub(crate) fn numbers_with_a_gap_are_refused(mut script: Script) {
    let one = script.tell(notified(None, "one"));
    for wrong in [1, 3] {
        let entry = committed(Seq(wrong), notified(None, "wrong"));
        script
            .append(&[entry], &CommitChanges::default())
            .unwrap_err();
    }
    let pair = [
        committed(Seq(2), notified(None, "two")),
        committed(Seq(4), notified(None, "four")),
    ];
    script.append(&pair, &CommitChanges::default()).unwrap_err();
    assert_eq!(script.events(), std::slice::from_ref(&one));
    let two = script.tell(notified(None, "two"));
    assert_eq!(script.events(), [one, two]);
}

pub(crate) fn failed_append_leaves_nothing(mut script: Script) {
    let open = script.open(ask("approval-1", Some("a")));
    let before = script.log.load().unwrap();
    let (two, new) = opening(Seq(2), ask("approval-2", Some("new")));
    let (three, ended) = ending(Seq(3), &open);
    let changes = CommitChanges {
        approvals: vec![new, ended],
        redacted: vec![Seq(99)],
        ..lists()
    };
    script.append(&[two, three], &changes).unwrap_err();
    assert_eq!(script.log.load().unwrap(), before);
    assert_eq!(script.events().len(), 1);
    let checkpoint = script.history.find_checkpoint(&AgentId::new("a"));
    assert_eq!(checkpoint.unwrap(), None);
    assert_eq!(
        script
            .history
            .find_approval(&ApprovalId::new("approval-2"))
            .unwrap(),
        None
    );
    let ended = script.end(&open);
    let about_new = script.tell(notified(Some("new"), "again"));
    assert_eq!(script.log.load().unwrap().recent_approvals, [ended]);
    let query = EventQuery {
        agent: Some(AgentId::new("new")),
        limit: 9,
        ..EventQuery::default()
    };
    assert_eq!(script.history.events(&query).unwrap(), [about_new]);
}

pub(crate) fn events_are_paged_both_ways(mut script: Script) {
    for number in 0..10 {
        script.tell(notified(None, &number.to_string()));
    }
    let page = |after: Option<u64>, before: Option<u64>, newest| {
        let query = EventQuery {
            after: after.map(Seq),
            before: before.map(Seq),
            newest,
            limit: 3,
            ..EventQuery::default()
        };
        script.numbers(&query)
    };
    assert_eq!(page(None, None, false), [1, 2, 3]);
    assert_eq!(page(Some(3), None, false), [4, 5, 6]);
    assert_eq!(page(Some(9), None, false), [10]);
    assert_eq!(page(Some(10), None, false), [0; 0]);
    assert_eq!(page(None, None, true), [8, 9, 10]);
    assert_eq!(page(None, Some(8), true), [5, 6, 7]);
    assert_eq!(page(None, Some(2), true), [1]);
    assert_eq!(page(Some(3), Some(6), false), [4, 5]);
    assert_eq!(page(Some(3), Some(6), true), [4, 5]);
    assert_eq!(page(Some(6), Some(3), true), [0; 0]);
    assert_eq!(script.numbers(&EventQuery::default()), [0; 0]);
}

pub(crate) fn events_are_filtered_by_kind_and_agent(mut script: Script) {
    script.settle(ask("approval-1", Some("a")));
    script.tell(notified(Some("b"), "3"));
    script.settle(ask("approval-2", Some("b")));
    script.tell(notified(Some("a"), "6"));
    let find = |kinds: Option<&[&str]>, agent: Option<&str>, newest| {
        let kinds = kinds.map(|kinds| kinds.iter().map(|kind| (*kind).to_owned()).collect());
        script.numbers(&EventQuery {
            kinds,
            agent: agent.map(AgentId::new),
            newest,
            limit: 2,
            ..EventQuery::default()
        })
    };
    assert_eq!(find(Some(&["host.notification_sent"]), None, false), [3, 6]);
    assert_eq!(
        find(
            Some(&["approval.requested", "host.notification_sent"]),
            None,
            true
        ),
        [4, 6]
    );
    assert_eq!(find(None, Some("a"), false), [1, 2]);
    assert_eq!(find(None, Some("a"), true), [2, 6]);
    assert_eq!(find(Some(&["approval.resolved"]), Some("b"), true), [5]);
    assert_eq!(find(Some(&["no.such"]), None, true), [0; 0]);
    assert_eq!(find(Some(&[]), None, false), [0; 0]);
    assert_eq!(find(None, Some("nobody"), false), [0; 0]);
}

pub(crate) fn rare_events_are_found_far_apart(mut script: Script) {
    let rare = || HostStarted {
        version: "1".to_owned(),
        pid: 7,
        lapses_at: Timestamp(1),
    };
    for round in 0..4 {
        script.tell(notified(Some("rare"), "first of the round"));
        let first = script.head.next().0;
        let common: Vec<_> = (first..first + 1_500)
            .map(|seq| committed(Seq(seq), notified(Some("common"), "x")))
            .collect();
        script.append(&common, &CommitChanges::default()).unwrap();
        if round % 2 == 0 {
            script.tell(rare());
        }
    }
    // Events 1, 1502 + 1, … begin a round; rounds 0 and 2 end with a start.
    let find = |kind: Option<&str>, agent: Option<&str>, after: Option<u64>, newest| {
        script.numbers(&EventQuery {
            kinds: kind.map(|kind| vec![kind.to_owned()]),
            agent: agent.map(AgentId::new),
            after: after.map(Seq),
            newest,
            limit: 3,
            ..EventQuery::default()
        })
    };
    assert_eq!(find(None, Some("rare"), None, false), [1, 1503, 3004]);
    assert_eq!(find(None, Some("rare"), None, true), [1503, 3004, 4506]);
    assert_eq!(find(Some("host.started"), None, None, true), [1502, 4505]);
    assert_eq!(find(Some("host.started"), None, Some(1502), false), [4505]);
    assert_eq!(
        find(
            Some("host.notification_sent"),
            Some("rare"),
            Some(3004),
            false
        ),
        [4506]
    );
    assert_eq!(
        find(Some("host.started"), Some("rare"), None, false),
        [0; 0]
    );
}

fn ids(script: &Script, query: ApprovalQuery) -> Vec<String> {
    let query = ApprovalQuery {
        limit: if query.limit == 0 { 100 } else { query.limit },
        ..query
    };
    let found = script.history.approvals(&query).unwrap();
    found
        .iter()
        .map(|approval| approval.ask.id.to_string())
        .collect()
}

pub(crate) fn approvals_are_paged_newest_first(mut script: Script) {
    for number in 1..=7 {
        let approval = script.open(ask(&format!("approval-{number}"), None));
        if number % 2 == 0 {
            script.end(&approval);
        }
    }
    let mut pages = Vec::new();
    let mut opened_before = None;
    loop {
        let query = ApprovalQuery {
            opened_before,
            limit: 3,
            ..ApprovalQuery::default()
        };
        let page = script.history.approvals(&query).unwrap();
        let Some(last) = page.last() else { break };
        opened_before = Some(last.opened);
        pages.push(
            page.iter()
                .map(|approval| approval.ask.id.to_string())
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(
        pages,
        [
            vec!["approval-7", "approval-6", "approval-5"],
            vec!["approval-4", "approval-3", "approval-2"],
            vec!["approval-1"]
        ]
    );
    assert_eq!(
        script.history.approvals(&ApprovalQuery::default()).unwrap(),
        []
    );
}

pub(crate) fn approvals_are_filtered(mut script: Script) {
    script.open(ask("approval-1", Some("a")));
    script.settle(ask("approval-2", Some("a")));
    script.open(ask("approval-3", Some("b")));
    script.settle(ask("approval-4", Some("b")));
    script.open(ask("approval-5", None));
    let find = |status, agent: Option<&str>| {
        ids(
            &script,
            ApprovalQuery {
                status,
                agent: agent.map(AgentId::new),
                ..ApprovalQuery::default()
            },
        )
    };
    assert_eq!(
        find(Some(StatusFilter::Pending), None),
        ["approval-5", "approval-3", "approval-1"]
    );
    assert_eq!(
        find(Some(StatusFilter::Ended), None),
        ["approval-4", "approval-2"]
    );
    assert_eq!(find(None, Some("a")), ["approval-2", "approval-1"]);
    assert_eq!(find(Some(StatusFilter::Pending), Some("b")), ["approval-3"]);
    assert_eq!(find(Some(StatusFilter::Ended), Some("b")), ["approval-4"]);
    assert_eq!(find(None, Some("nobody")), [""; 0]);
    let older = ApprovalQuery {
        status: Some(StatusFilter::Pending),
        opened_before: Some(Seq(4)),
        ..ApprovalQuery::default()
    };
    assert_eq!(ids(&script, older), ["approval-1"]);
}

pub(crate) fn approvals_are_found_by_prefix(mut script: Script) {
    for id in [
        "approval-0a",
        "approval-0b",
        "approval-1a",
        "approval-\u{10ffff}",
        "other",
    ] {
        script.open(ask(id, None));
    }
    let find = |prefix: &str| {
        ids(
            &script,
            ApprovalQuery {
                id_prefix: Some(prefix.to_owned()),
                ..ApprovalQuery::default()
            },
        )
    };
    assert_eq!(find("approval-0"), ["approval-0b", "approval-0a"]);
    assert_eq!(find("approval-1a"), ["approval-1a"]);
    assert_eq!(find("approval-1a1"), [""; 0]);
    assert_eq!(find("%"), [""; 0]);
    assert_eq!(find("approval-").len(), 4);
    assert_eq!(find("").len(), 5);
    let one = ApprovalQuery {
        id_prefix: Some("approval-0".to_owned()),
        limit: 1,
        ..ApprovalQuery::default()
    };
    assert_eq!(ids(&script, one), ["approval-0b"]);
}

pub(crate) fn approvals_are_found_by_key(mut script: Script) {
    let one = script.open(keyed("approval-1", "k"));
    let other = script.open(countersign_core::Ask {
        by: by("other"),
        ..keyed("approval-2", "k")
    });
    script.open(ask("approval-3", None));
    let find =
        |key: &PrincipalKey, word: &str| script.history.find_keyed_approval(key, word).unwrap();
    assert_eq!(find(&one.ask.by.key, "k"), Some(one.clone()));
    assert_eq!(find(&other.ask.by.key, "k"), Some(other));
    assert_eq!(find(&one.ask.by.key, "l"), None);
    let ended = script.end(&one);
    let found = script
        .history
        .find_keyed_approval(&one.ask.by.key, "k")
        .unwrap();
    assert_eq!(found, Some(ended));
}

pub(crate) fn dismissed_approvals_are_shown_on_request(mut script: Script) {
    let kept = script.settle(ask("approval-1", Some("a")));
    let ended = script.settle(ask("approval-2", Some("a")));
    let dismissed = Approval {
        dismissed: true,
        delivery: AnswerDelivery::Delivered,
        ..ended
    };
    script
        .append(
            &[],
            &CommitChanges {
                approvals: vec![dismissed.clone()],
                ..CommitChanges::default()
            },
        )
        .unwrap();
    assert_eq!(ids(&script, ApprovalQuery::default()), ["approval-1"]);
    assert_eq!(
        ids(
            &script,
            ApprovalQuery {
                dismissed: true,
                ..ApprovalQuery::default()
            }
        ),
        ["approval-2", "approval-1"]
    );
    assert_eq!(
        script.history.find_approval(&dismissed.ask.id).unwrap(),
        Some(dismissed)
    );
    assert_eq!(script.log.load().unwrap().recent_approvals, [kept]);
}

pub(crate) fn questions_are_listed_and_found(mut script: Script) {
    let one = script.ask_question("question-1", "a");
    let two = script.ask_question("question-2", "b");
    let one = script.end_question(&one);
    let find = |status, agent: Option<&str>, prefix: Option<&str>| {
        let query = QuestionQuery {
            status,
            agent: agent.map(AgentId::new),
            id_prefix: prefix.map(str::to_owned),
            limit: 10,
        };
        script.history.questions(&query).unwrap()
    };
    assert_eq!(find(None, None, None), [two.clone(), one.clone()]);
    assert_eq!(
        find(Some(StatusFilter::Pending), None, None),
        std::slice::from_ref(&two)
    );
    assert_eq!(
        find(Some(StatusFilter::Ended), None, None),
        std::slice::from_ref(&one)
    );
    assert_eq!(find(None, Some("a"), None), std::slice::from_ref(&one));
    assert_eq!(
        find(None, None, Some("question-2")),
        std::slice::from_ref(&two)
    );
    assert_eq!(find(None, None, Some("question-")).len(), 2);
    let by = &one.text.by.key;
    let keyed = |key: &str| script.history.find_keyed_question(by, key).unwrap();
    assert_eq!(keyed("key of question-1"), Some(one.clone()));
    assert_eq!(keyed("key of question-2"), Some(two.clone()));
    assert_eq!(keyed("question-2"), None);
    let other = PrincipalKey::new("token:other");
    assert_eq!(
        script
            .history
            .find_keyed_question(&other, "key of question-1")
            .unwrap(),
        None
    );
    assert_eq!(
        script.history.find_question(&one.text.id).unwrap(),
        Some(one)
    );
    assert_eq!(
        script
            .history
            .find_question(&QuestionId::new("question-3"))
            .unwrap(),
        None
    );
}

pub(crate) fn erased_ask_is_left_out(mut script: Script) {
    let ended = script.settle(ask("approval-1", Some("a")));
    script.redact(1).unwrap();
    let events = script.events();
    assert_eq!(
        events
            .iter()
            .map(|committed| committed.seq.0)
            .collect::<Vec<_>>(),
        [2, 3]
    );
    assert_eq!(events[0].ask, None);
    assert_eq!(script.history.find_approval(&ended.ask.id).unwrap(), None);
    assert_eq!(ids(&script, ApprovalQuery::default()), [""; 0]);
    assert_eq!(
        script.log.load().unwrap(),
        Snapshot {
            head: Seq(3),
            ..Snapshot::default()
        }
    );
    script.redact(1).unwrap();
    script.redact(99).unwrap_err();
}

pub(crate) fn erased_end_does_not_read_as_open(mut script: Script) {
    let ended = script.settle(ask("approval-1", Some("a")));
    script.redact(2).unwrap();
    assert_eq!(script.history.find_approval(&ended.ask.id).unwrap(), None);
    let pending = ApprovalQuery {
        status: Some(StatusFilter::Pending),
        ..ApprovalQuery::default()
    };
    assert_eq!(ids(&script, pending), [""; 0]);
    assert_eq!(
        script.log.load().unwrap(),
        Snapshot {
            head: Seq(3),
            ..Snapshot::default()
        }
    );
}

pub(crate) fn erased_key_can_be_used_again(mut script: Script) {
    let ended = script.settle(keyed("approval-1", "k"));
    script.redact(1).unwrap();
    assert_eq!(
        script
            .history
            .find_keyed_approval(&ended.ask.by.key, "k")
            .unwrap(),
        None
    );
    let again = script.open(keyed("approval-2", "k"));
    assert_eq!(
        script
            .history
            .find_keyed_approval(&ended.ask.by.key, "k")
            .unwrap(),
        Some(again)
    );
}

pub(crate) fn key_is_free_in_the_append_that_erases_it(mut script: Script) {
    let first = script.settle(keyed("approval-1", "k"));
    let (again, second) = opening(Seq(4), keyed("approval-2", "k"));
    let changes = CommitChanges {
        approvals: vec![second.clone()],
        redacted: vec![Seq(2)],
        ..CommitChanges::default()
    };
    script
        .append(&[committed(Seq(3), redacted(2)), again], &changes)
        .unwrap();
    let find = |script: &Script| {
        script
            .history
            .find_keyed_approval(&first.ask.by.key, "k")
            .unwrap()
    };
    assert_eq!(find(&script), Some(second.clone()));
    script.end(&second);
    let (again, third) = opening(Seq(7), keyed("approval-3", "k"));
    let changes = CommitChanges {
        approvals: vec![third.clone()],
        pruned_before: Some(Seq(6)),
        ..CommitChanges::default()
    };
    script
        .append(&[committed(Seq(6), pruned(6)), again], &changes)
        .unwrap();
    assert_eq!(find(&script), Some(third));
}

pub(crate) fn answers_and_dismissals_change_what_ended(mut script: Script) {
    let one = script.settle(ask("approval-1", None));
    let two = script.settle(ask("approval-2", None));
    let open = script.open(ask("approval-3", None));
    assert_eq!(
        script.history.attempted_answers(None).unwrap(),
        [one.clone(), two.clone()]
    );
    let after = |seq| script.history.attempted_answers(Some(seq)).unwrap();
    assert_eq!(after(one.opened), std::slice::from_ref(&two));
    assert_eq!(after(two.opened), []);
    assert_eq!(after(Seq(u64::MAX)), []);
    let (entry, three) = ending(Seq(6), &open);
    let answer = |opened, delivery, deliveries| AnswerChange {
        opened,
        delivery,
        deliveries,
    };
    let changes = CommitChanges {
        approvals: vec![three.clone()],
        answers: vec![
            answer(one.opened, AnswerDelivery::Delivered, None),
            answer(two.opened, AnswerDelivery::Attempted, Some(2)),
            answer(three.opened, AnswerDelivery::Attempted, Some(7)),
            answer(three.opened, AnswerDelivery::Unknown, None),
        ],
        dismissed: vec![two.opened],
        ..CommitChanges::default()
    };
    script.append(&[entry], &changes).unwrap();
    let one = Approval {
        delivery: AnswerDelivery::Delivered,
        ..one
    };
    let two = Approval {
        deliveries: 2,
        dismissed: true,
        ..two
    };
    let three = Approval {
        delivery: AnswerDelivery::Unknown,
        deliveries: 7,
        ..three
    };
    assert_eq!(
        script.history.attempted_answers(None).unwrap(),
        std::slice::from_ref(&two)
    );
    assert_eq!(
        script.history.find_approval(&two.ask.id).unwrap(),
        Some(two)
    );
    assert_eq!(script.log.load().unwrap().recent_approvals, [one, three]);
}

pub(crate) fn first_event_since_an_instant_is_found(mut script: Script) {
    for (seq, at) in [(1, 10), (2, 30), (3, 20), (4, 40)] {
        let entry = CommittedEvent {
            at: Timestamp(at),
            ..committed(Seq(seq), notified(None, "tick"))
        };
        script.append(&[entry], &CommitChanges::default()).unwrap();
    }
    let find = |at| script.history.first_event_since(Timestamp(at)).unwrap();
    assert_eq!(
        [find(0), find(10), find(11), find(31)],
        [1, 1, 2, 4].map(|seq| Some(Seq(seq)))
    );
    assert_eq!(find(41), None);
    assert_eq!(find(u64::MAX), None);
}

pub(crate) fn open_ask_cannot_be_erased(mut script: Script) {
    let open = script.open(ask("approval-1", None));
    let question = script.ask_question("question-1", "a");
    script.redact(1).unwrap_err();
    script.redact(2).unwrap_err();
    let loaded = script.log.load().unwrap();
    assert_eq!(
        (loaded.open_approvals, loaded.open_questions),
        (vec![open], vec![question])
    );
}

pub(crate) fn record_of_an_erasure_cannot_be_erased(mut script: Script) {
    script.tell(notified(None, "secret"));
    script.redact(1).unwrap();
    script.redact(2).unwrap_err();
    assert_eq!(script.events(), [committed(Seq(2), redacted(1))]);
}

pub(crate) fn pruned_history_is_gone(mut script: Script) {
    let old = script.settle(keyed("approval-1", "k"));
    let across = script.open(ask("approval-2", Some("a")));
    script.tell(notified(None, "kept"));
    script.end(&across);
    let kept = script.settle(ask("approval-3", Some("a")));
    script.prune(4).unwrap();
    let all = EventQuery {
        limit: 100,
        ..EventQuery::default()
    };
    assert_eq!(script.numbers(&all), [4, 5, 6, 7, 8]);
    assert_eq!(script.history.find_approval(&old.ask.id).unwrap(), None);
    assert_eq!(script.history.find_approval(&across.ask.id).unwrap(), None);
    assert_eq!(
        script
            .history
            .find_keyed_approval(&old.ask.by.key, "k")
            .unwrap(),
        None
    );
    assert_eq!(
        ids(
            &script,
            ApprovalQuery {
                dismissed: true,
                ..ApprovalQuery::default()
            }
        ),
        ["approval-3"]
    );
    let expected = Snapshot {
        head: Seq(8),
        recent_approvals: vec![kept],
        ..Snapshot::default()
    };
    assert_eq!(script.log.load().unwrap(), expected);
    script.prune(2).unwrap();
    script.prune(99).unwrap_err();
    script.redact(1).unwrap();
    script.open(keyed("approval-1", "k"));
}

pub(crate) fn open_ask_is_not_pruned(mut script: Script) {
    let open = script.open(ask("approval-1", None));
    script.tell(notified(None, "newer"));
    script.prune(2).unwrap_err();
    assert_eq!(
        script.log.load().unwrap().open_approvals,
        std::slice::from_ref(&open)
    );
    script.end(&open);
    script.prune(2).unwrap();
}

pub(crate) fn bounds_beyond_the_log_are_harmless(mut script: Script) {
    script.settle(ask("approval-1", Some("a")));
    let far = Some(Seq(u64::MAX));
    let agent = Some(AgentId::new("a"));
    for agent in [None, agent] {
        let newest = EventQuery {
            before: far,
            agent: agent.clone(),
            newest: true,
            limit: 9,
            ..EventQuery::default()
        };
        assert_eq!(script.numbers(&newest), [1, 2]);
        let none = EventQuery {
            after: far,
            agent: agent.clone(),
            limit: 9,
            ..EventQuery::default()
        };
        assert_eq!(script.numbers(&none), [0; 0]);
        let query = ApprovalQuery {
            opened_before: far,
            agent: agent.clone(),
            ..ApprovalQuery::default()
        };
        assert_eq!(ids(&script, query), ["approval-1"]);
        let none = ApprovalQuery {
            opened_before: Some(Seq(0)),
            agent,
            ..ApprovalQuery::default()
        };
        assert_eq!(ids(&script, none), [""; 0]);
    }
}
