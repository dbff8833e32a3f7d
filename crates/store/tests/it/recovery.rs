//! Read models that lag behind the log: after a crash at any append they are what a fold of the log gives,
//! and meanwhile readers see no difference.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use countersign_core::event::{
    AnswerAttempted, AnswerDelivery, AnswerSettled, ApprovalDismissed, ProcessKey, ProcessMarked,
    RulesTrusted, TokenCreated, TokenRevoked,
};
use countersign_core::{AgentId, Approval, Event, Role, Seq, State, TokenId};
use countersign_store::memory::{MemoryHistory, MemoryLog, open_memory};
use countersign_store::{
    ApprovalQuery, EventHistory, EventLog as _, SearchPage, SqliteHistory, SqliteLog, open,
};
use tempfile::TempDir;

use crate::fixture::{ask, by, committed, ending, keyed, notified, opening};
use crate::search;

/// More events than the store defers, so that their changes are written more than once.
const EVENTS: u64 = 2_600;

/// A host's state, its log, and a twin of the log that writes everything at once.
struct TwinLogs {
    folder: TempDir,
    state: State,
    log: SqliteLog,
    history: Arc<SqliteHistory>,
    twin: MemoryLog,
    twin_history: Arc<MemoryHistory>,
}

impl TwinLogs {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (log, history) = open(&folder.path().join("log.db")).unwrap();
        let (twin, twin_history) = open_memory();
        Self {
            folder,
            state: State::default(),
            log,
            history,
            twin,
            twin_history,
        }
    }

    /// Commits an event with the changes that follow from it, as the host does.
    fn commit(&mut self, event: Event) {
        let mut entry = committed(self.state.head().next(), event);
        entry.ask = self.state.apply(entry.seq, entry.at, &entry.event);
        let changes = self.state.take_changes();
        let entries = [entry];
        self.log.append(&entries, &changes).unwrap();
        self.twin.append(&entries, &changes).unwrap();
    }

    /// What a host finds that starts on the files as they are at this moment.
    fn crash(&self) -> (TempDir, SqliteLog, Arc<SqliteHistory>) {
        let copy = tempfile::tempdir().unwrap();
        for name in ["log.db", "log.db-wal"] {
            fs::copy(self.folder.path().join(name), copy.path().join(name)).unwrap();
        }
        let path: PathBuf = copy.path().join("log.db");
        let (log, history) = open(&path).unwrap();
        (copy, log, history)
    }

    fn check(&mut self) {
        let expected = self.twin.load().unwrap();
        assert_eq!(self.log.load().unwrap(), expected);
        let lists = lists(&*self.twin_history);
        let found = searches(&*self.twin_history);
        assert_eq!(self::lists(&*self.history), lists);
        assert_eq!(searches(&*self.history), found);
        let (_copy, mut restarted, history) = self.crash();
        assert_eq!(restarted.load().unwrap(), expected);
        assert_eq!(self::lists(&*history), lists);
        assert_eq!(searches(&*history), found);
    }
}

/// What readers find in transcripts, page by page.
fn searches(history: &dyn EventHistory) -> Vec<SearchPage> {
    let mut pages = Vec::new();
    for text in ["event", "thousand event 10", "event-1", "none"] {
        let mut query = search::query(text);
        loop {
            let page = history.search(&query).unwrap();
            query.before = page.next;
            pages.push(page);
            if query.before.is_none() {
                break;
            }
        }
    }
    pages
}

/// What readers are given: lists of each kind, and single approvals.
fn lists(history: &dyn EventHistory) -> Vec<Vec<Approval>> {
    let query = |dismissed, agent: Option<&str>, prefix: Option<&str>| ApprovalQuery {
        dismissed,
        agent: agent.map(AgentId::new),
        id_prefix: prefix.map(str::to_owned),
        limit: 700,
        ..ApprovalQuery::default()
    };
    let queries = [
        query(false, None, None),
        query(true, None, None),
        query(true, Some("a"), None),
        query(true, None, Some("approval-1")),
    ];
    let mut lists: Vec<_> = queries
        .iter()
        .map(|query| history.approvals(query).unwrap())
        .collect();
    lists.push(history.attempted_answers(None).unwrap());
    let keyed = history.find_keyed_approval(&by("asker").key, "key-40");
    lists.push(keyed.unwrap().into_iter().collect());
    lists
}

/// One step of a story in which asks are made, answered and delivered at different distances.
fn next_event(state: &State) -> Event {
    let seq = state.head().next();
    let number = seq.0;
    let oldest_open = || {
        let open = state.open_approvals();
        open.min_by_key(|approval| approval.opened).cloned()
    };
    let ended = |distance| state.recent_approvals().nth(distance).cloned();
    let asked = |ask| opening(seq, ask).0.event;
    match number % 8 {
        1 if number.is_multiple_of(3) => said(number),
        1 => asked(ask(&format!("approval-{number}"), Some("a"))),
        0 if number.is_multiple_of(40) => asked(keyed(
            &format!("approval-{number}"),
            &format!("key-{number}"),
        )),
        0 | 2 => asked(ask(&format!("approval-{number}"), None)),
        3 | 4 if !number.is_multiple_of(5) => oldest_open().map_or_else(
            || notified(None, "nothing is open"),
            |open| ending(seq, &open).0.event,
        ),
        5 => ended(2).map_or_else(
            || notified(None, "nothing ended"),
            |ended| settled(&ended, AnswerDelivery::Delivered),
        ),
        6 => ended(300).map_or_else(
            || notified(None, "nothing ended long ago"),
            |ended| attempted(&ended),
        ),
        7 => ended(20).map_or_else(|| notified(None, "few ended"), |ended| dismissed(&ended)),
        _ => other_event(number),
    }
}

/// Enough text for some of it to be indexed on the way.
fn said(number: u64) -> Event {
    let text = format!("event-{number} {}", "thousand words ".repeat(150));
    search::part("a", 1, vec![search::said(&text)]).into()
}

fn other_event(number: u64) -> Event {
    let token = TokenId::new(format!("token-{}", number % 7));
    match number % 3 {
        0 => TokenCreated {
            token,
            role: Role::Operator,
            name: "script".to_owned(),
            expires_at: None,
            device: None,
            hash: format!("{number}"),
            by: by("person"),
        }
        .into(),
        1 if number.is_multiple_of(2) => TokenRevoked {
            token,
            by: by("person"),
        }
        .into(),
        1 => RulesTrusted {
            file: format!("/p/{}/rules.toml", number % 5),
            digest: format!("{number}"),
            by: by("person"),
        }
        .into(),
        _ => ProcessMarked {
            agent: AgentId::new("a"),
            process: ProcessKey {
                pid: u32::try_from(number).unwrap(),
                start_time: 1,
            },
        }
        .into(),
    }
}

fn attempted(approval: &Approval) -> Event {
    AnswerAttempted {
        approval: approval.ask.id.clone(),
        opened: approval.opened,
        deliveries: approval.deliveries + 1,
    }
    .into()
}

fn settled(approval: &Approval, delivery: AnswerDelivery) -> Event {
    AnswerSettled {
        approval: approval.ask.id.clone(),
        opened: approval.opened,
        delivery,
    }
    .into()
}

fn dismissed(approval: &Approval) -> Event {
    ApprovalDismissed {
        approval: approval.ask.id.clone(),
        opened: approval.opened,
        by: by("person"),
    }
    .into()
}

#[test]
fn models_after_a_crash_are_a_fold_of_the_log() {
    let mut logs = TwinLogs::new();
    while logs.state.head() < Seq(EVENTS) {
        let event = next_event(&logs.state);
        logs.commit(event);
        let head = logs.state.head().0;
        // At every event around a write of the models, and now and then between.
        if (1_020..1_030).contains(&head) || head.is_multiple_of(97) {
            logs.check();
        }
    }
    logs.check();
}

/// The append that writes the models may change what was opened since they were last written.
#[test]
fn an_ask_may_end_in_the_append_that_writes_the_models() {
    for ends_at in 1_020..1_030 {
        let mut logs = TwinLogs::new();
        let (asked, open) = opening(Seq(1), ask("approval-1", Some("a")));
        logs.commit(asked.event);
        while logs.state.head().0 + 1 < ends_at {
            logs.commit(notified(None, "one of many"));
        }
        logs.commit(ending(Seq(ends_at), &open).0.event);
        logs.check();
    }
}

#[test]
fn an_orderly_end_leaves_nothing_to_fold() {
    let mut logs = TwinLogs::new();
    while logs.state.head() < Seq(50) {
        let event = next_event(&logs.state);
        logs.commit(event);
    }
    let TwinLogs { folder, log, .. } = logs;
    drop(log);
    let conn = rusqlite::Connection::open_with_flags(
        folder.path().join("log.db"),
        rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
    )
    .unwrap();
    let counted: i64 = conn
        .query_row("SELECT value FROM meta WHERE key = 'models'", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(counted, 50);
}
