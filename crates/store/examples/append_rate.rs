//! Prints how fast the log takes asks and answers, and what it costs to look into it.
//!
//! `cargo run --release -p countersign-store --example append_rate [-- ASKS [EVENTS_PER_COMMIT…]]`
#![expect(clippy::print_stdout, reason = "it prints a table")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails stops")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_core::event::{
    ApprovalRequested, ApprovalResolved, Ask, Attachment, Delivery, Ending, Outcome,
};
use countersign_core::{
    AgentId, Approval, ApprovalId, By, Changes, ClientId, Committed, Ended, PrincipalKey, Role,
    Seq, Timestamp,
};
use countersign_store::memory::open_memory;
use countersign_store::{ApprovalQuery, EventQuery, History as _, Log, open, verify};

const AGENTS: u64 = 64;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let asks = arguments
        .next()
        .map_or(40_000, |asks| asks.parse::<u64>().unwrap());
    let mut sizes: Vec<u64> = arguments.map(|size| size.parse().unwrap()).collect();
    if sizes.is_empty() {
        sizes = vec![1, 64, 512];
    }
    println!(
        "{:8} {:>12} {:>12} {:>14}",
        "backend", "events/commit", "events/s", "CPU µs/event"
    );
    for per_commit in sizes {
        let asks = if per_commit == 1 {
            asks.min(4_000)
        } else {
            asks
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let (log, _history) = open(&path).unwrap();
        measure("sqlite", Box::new(log), asks, per_commit);
        read(&path);
        measure("memory", Box::new(open_memory().0), asks, per_commit);
    }
}

fn measure(backend: &str, mut log: Box<dyn Log>, asks: u64, per_commit: u64) {
    let mut load = Load {
        head: log.load().unwrap().head.0,
        open: Vec::new(),
    };
    let pairs = (per_commit / 2).max(1);
    let (mut events, mut wall, mut cpu) = (0, Duration::ZERO, Duration::ZERO);
    let half = per_commit == 1;
    for _ in 0..asks.div_ceil(pairs) {
        for (entries, changes) in load.batch(pairs, half) {
            let (began, cpu_began) = (Instant::now(), cpu_time());
            log.append(&entries, &changes).unwrap();
            wall += began.elapsed();
            cpu += cpu_time().saturating_sub(cpu_began);
            events += entries.len();
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let count = events as f64;
    let (rate, each) = (count / wall.as_secs_f64(), cpu.as_secs_f64() * 1e6 / count);
    println!("{backend:8} {per_commit:>12} {rate:>12.0} {each:>14.2}");
}

/// What it costs to start from the file, and to look into it.
fn read(path: &Path) {
    let began = Instant::now();
    let (mut log, history) = open(path).unwrap();
    let snapshot = log.load().unwrap();
    println!("{:>50}: {:?}", "open and load", began.elapsed());
    let time = |what: &str, read: &dyn Fn() -> usize| {
        let began = Instant::now();
        let found = read();
        println!("{what:>50}: {:?} for {found}", began.elapsed());
    };
    let page = EventQuery {
        limit: 100,
        ..EventQuery::default()
    };
    let agent = Some(AgentId::new(format!("agent-{:012x}", 7)));
    let kinds = Some(vec!["host.started".to_owned()]);
    let middle = Some(Seq(snapshot.head.0 / 2));
    time("100 events from the middle", &|| {
        history
            .events(&EventQuery {
                after: middle,
                ..page.clone()
            })
            .unwrap()
            .len()
    });
    time("newest 100 of an agent", &|| {
        history
            .events(&EventQuery {
                agent: agent.clone(),
                newest: true,
                ..page.clone()
            })
            .unwrap()
            .len()
    });
    time("newest 100 of a kind that is rare", &|| {
        history
            .events(&EventQuery {
                kinds: kinds.clone(),
                newest: true,
                ..page.clone()
            })
            .unwrap()
            .len()
    });
    time("100 approvals of an agent", &|| {
        let query = ApprovalQuery {
            agent: agent.clone(),
            limit: 100,
            ..ApprovalQuery::default()
        };
        history.approvals(&query).unwrap().len()
    });
    time("an old approval by id", &|| {
        usize::from(history.find_approval(&ask(1).id).unwrap().is_some())
    });
    time("an approval that never was", &|| {
        usize::from(
            history
                .find_approval(&ApprovalId::new("approval-x"))
                .unwrap()
                .is_some(),
        )
    });
    time("approvals by prefix", &|| {
        let id_prefix = Some("approval-000".to_owned());
        let query = ApprovalQuery {
            id_prefix,
            limit: 100,
            ..ApprovalQuery::default()
        };
        history.approvals(&query).unwrap().len()
    });
    time("the whole record verified", &|| {
        let report = verify(path, None).unwrap();
        assert_eq!(report.problems, []);
        usize::try_from(report.events).unwrap()
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap_or_default();
    println!("{:>50}: {resident}", "resident with all of this");
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime)
        .try_into()
        .unwrap()
}

/// Each ask is answered one commit later, as by people who are quick.
struct Load {
    head: u64,
    open: Vec<Approval>,
}

impl Load {
    fn batch(&mut self, pairs: u64, half: bool) -> Vec<(Vec<Committed>, Changes)> {
        let mut entries = Vec::new();
        let mut changes = Changes::default();
        let answered = std::mem::take(&mut self.open);
        for _ in 0..pairs {
            let (entry, approval) = self.ask();
            entries.push(entry);
            changes.approvals.push(approval.clone());
            self.open.push(approval);
        }
        let mut batches = Vec::new();
        if half {
            batches.push((std::mem::take(&mut entries), std::mem::take(&mut changes)));
        }
        for approval in answered {
            let (entry, ended) = self.answer(approval);
            entries.push(entry);
            changes.approvals.push(ended);
        }
        batches.push((entries, changes));
        batches
    }

    fn next(&mut self) -> (Seq, Timestamp) {
        self.head += 1;
        (
            Seq(self.head),
            Timestamp(1_700_000_000_000_000 + self.head * 100),
        )
    }

    fn ask(&mut self) -> (Committed, Approval) {
        let (seq, at) = self.next();
        let ask = Arc::new(ask(seq.0));
        let approval = Approval {
            ask: ask.clone(),
            opened: seq,
            created_at: at,
            client: ask.client.clone(),
            lapses_at: None,
            ended: None,
            delivery: Delivery::Waiting,
            deliveries: 0,
            dismissed: false,
        };
        (
            Committed {
                seq,
                at,
                event: ApprovalRequested { ask }.into(),
                ask: None,
            },
            approval,
        )
    }

    fn answer(&mut self, approval: Approval) -> (Committed, Approval) {
        let (seq, at) = self.next();
        let ending = Arc::new(Ending {
            outcome: Outcome::Allowed,
            resolution: "approve".to_owned(),
            by: By {
                role: Role::Operator,
                name: "person".into(),
                key: PrincipalKey::new("uid:1000"),
            },
            message: None,
            edited_input: None,
            stop: false,
            verdict: None,
        });
        let event = ApprovalResolved {
            approval: approval.ask.id.clone(),
            opened: approval.opened,
            agent: approval.ask.agent.clone(),
            ending: ending.clone(),
            delivery: Delivery::Waiting,
            grants_used: Vec::new(),
        };
        let ask = Some(approval.ask.clone());
        let ended = Approval {
            ended: Some(Ended { ending, seq, at }),
            ..approval
        };
        (
            Committed {
                seq,
                at,
                event: event.into(),
                ask,
            },
            ended,
        )
    }
}

fn ask(number: u64) -> Ask {
    // Spread like random ids: the worst case for an index.
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    Ask {
        id: ApprovalId::new(format!("approval-{spread:012x}")),
        agent: Some(AgentId::new(format!("agent-{:012x}", number % AGENTS))),
        turn: None,
        tool_call: None,
        action: "run a command".to_owned(),
        tool: Some("Bash".to_owned()),
        input: Some(
            serde_json::from_str(r#"{"command":"cargo test --workspace --quiet"}"#).unwrap(),
        ),
        input_digest: Some(
            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824".to_owned(),
        ),
        cwd: None,
        verdict: None,
        details: serde_json::from_str(r#"{"cwd":"/srv/app"}"#).unwrap(),
        a2ui: None,
        options: vec!["approve".to_owned(), "deny".to_owned()],
        approving: vec!["approve".to_owned()],
        request: None,
        hears_words: false,
        can_edit: false,
        passes: Vec::new(),
        repeats: None,
        by: By {
            role: Role::Agent(AgentId::new(format!("agent-{:012x}", number % AGENTS))),
            name: "agent".into(),
            key: PrincipalKey::new("agent:1"),
        },
        client: Some(ClientId::new(format!("{:012x}", number % AGENTS))),
        attachment: Attachment::Owner,
        asked_at: Timestamp(5),
        idempotency_key: None,
        request_digest: None,
        deadline: None,
    }
}
