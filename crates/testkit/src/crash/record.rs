//! The record as the file has it, read without any host, and what must hold of it.
//!
//! Invariant: it is read only while no host runs, so whatever a host acknowledged is there or is lost.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use countersign_core::event::ApprovalOutcome;
use countersign_core::{Event, Seq};
use countersign_store::ExportedEvent;

use super::ledger::Promise;
use super::load::{Ask, Fate};

/// An event as far as a reader's view of it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) sequence: u64,
    pub(super) kind: String,
    /// The ask and, where it ended, its resolution.
    pub(super) about: String,
}

/// One ask on the record.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) ask: Ask,
    pub(super) ended: Option<(ApprovalOutcome, String)>,
    pub(super) deliveries: u32,
}

/// Everything read so far, and everything found wrong with it.
pub(super) struct Record {
    path: PathBuf,
    seed: u64,
    head: u64,
    audited: Option<(Seq, String)>,
    pub(super) entries: HashMap<String, Entry>,
    asked: HashMap<u64, String>,
    undelivered: HashSet<String>,
    tellings: HashSet<(String, u32)>,
    facts: Vec<Fact>,
    public: Vec<Fact>,
    pub(super) wrong: Vec<String>,
}

impl Record {
    pub(super) fn new(path: &Path, seed: u64) -> Self {
        Self {
            path: path.to_owned(),
            seed,
            head: 0,
            audited: None,
            entries: HashMap::new(),
            asked: HashMap::new(),
            undelivered: HashSet::new(),
            tellings: HashSet::new(),
            facts: Vec::new(),
            public: Vec::new(),
            wrong: Vec::new(),
        }
    }

    /// Events so far.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Answers that a host began to tell and did not settle.
    pub(super) fn undelivered(&self) -> usize {
        self.undelivered.len()
    }

    pub(super) fn open(&self) -> impl Iterator<Item = (&String, &Entry)> {
        let entries = self.entries.iter();
        entries.filter(|(_, entry)| entry.ended.is_none())
    }

    /// What a reader must see.
    pub(super) fn facts(&self, all: bool) -> &[Fact] {
        if all { &self.facts } else { &self.public }
    }

    /// Walks the chain, against the head it had the last time.
    pub(super) fn audit(&mut self) -> Result<()> {
        let report = countersign_store::verify(&self.path, self.audited.take())
            .context("the record cannot be verified")?;
        for problem in &report.problems {
            self.wrong.push(format!("audit: {problem}"));
        }
        self.audited = Some((report.head, report.head_hash));
        Ok(())
    }

    /// Reads what was committed since the last time.
    pub(super) fn read_on(&mut self) -> Result<()> {
        let mut fresh = Vec::new();
        let mut take = |event: ExportedEvent| {
            fresh.push(event);
            Ok(())
        };
        countersign_store::export(&self.path, Some(Seq(self.head + 1)), None, &mut take)
            .context("the record cannot be read")?;
        for event in fresh {
            if event.seq != self.head + 1 {
                self.wrong
                    .push(format!("event {} follows {}", event.seq, self.head));
            }
            self.head = event.seq;
            self.take(&event)?;
        }
        Ok(())
    }

    fn take(&mut self, exported: &ExportedEvent) -> Result<()> {
        let payload = exported.payload.as_ref();
        let event = payload
            .and_then(|payload| Event::decode(&exported.kind, payload.get().as_bytes()))
            .with_context(|| format!("event {} is of no known kind", exported.seq))??;
        let fact = Fact {
            sequence: exported.seq,
            kind: exported.kind.clone(),
            about: about(&event),
        };
        if event.is_public() {
            self.public.push(fact.clone());
        }
        self.facts.push(fact);
        if let Err(wrong) = self.fold(&event) {
            self.wrong.push(format!("event {}: {wrong}", exported.seq));
        }
        Ok(())
    }

    fn fold(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::ApprovalRequested(e) => {
                let details: serde_json::Value =
                    serde_json::from_str(e.ask.details.text()).unwrap_or_default();
                let n = details["n"].as_u64().ok_or("an ask that nobody made")?;
                self.open_entry(n, e.ask.id.as_str(), e.ask.idempotency_key.as_ref())
            }
            Event::ApprovalResolved(e) => {
                let entry = self.entries.get_mut(e.approval.as_str());
                let ending = &e.ending;
                end_entry(entry, ending.outcome, &ending.resolution)
                    .map_err(|wrong| format!("`{}` {wrong}", e.approval.as_str()))
            }
            Event::AnswerAttempted(e) => {
                let id = e.approval.as_str();
                self.undelivered.insert(id.to_owned());
                let entry = self.entries.get_mut(id);
                attempt(entry, e.deliveries).map_err(|wrong| format!("`{id}` {wrong}"))
            }
            Event::AnswerSettled(e) => {
                self.undelivered.remove(e.approval.as_str());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn open_entry(&mut self, n: u64, id: &str, key: Option<&String>) -> Result<(), String> {
        let ask = Ask::new(self.seed, n);
        if key != ask.key().as_ref() {
            return Err(format!("ask {n} has the key {key:?}"));
        }
        if let Some(earlier) = self.asked.insert(n, id.to_owned()) {
            return Err(format!("ask {n} is there as `{earlier}` and as `{id}`"));
        }
        let entry = Entry {
            ask,
            ended: None,
            deliveries: 0,
        };
        match self.entries.insert(id.to_owned(), entry) {
            None => Ok(()),
            Some(earlier) => Err(format!("`{id}` is both ask {} and ask {n}", earlier.ask.n)),
        }
    }

    /// Holds what was acknowledged against what is there.
    pub(super) fn check_promise(&mut self, promise: &Promise) {
        if let Err(wrong) = self.keeps(promise) {
            self.wrong.push(format!("{promise:?}: {wrong}"));
        }
    }

    fn keeps(&mut self, promise: &Promise) -> Result<(), String> {
        match promise {
            Promise::Asked { n, approval } => match self.asked.get(n) {
                Some(id) if id == approval => Ok(()),
                Some(id) => Err(format!("ask {n} is `{id}`")),
                None => Err(format!("ask {n} is lost")),
            },
            Promise::Answered {
                approval,
                resolution,
            } => {
                let (_, committed) = self.load_end(approval)?;
                same("the answer", committed, resolution)
            }
            Promise::Told {
                approval,
                state,
                resolution,
                deliveries,
            } => {
                let (outcome, committed) = self.load_end(approval)?;
                same("the resolution", committed, resolution)?;
                same("the state", state_of(*outcome), state)?;
                let attempts = self.entries[approval].deliveries;
                if attempts < *deliveries {
                    return Err(format!("only {attempts} attempts were committed"));
                }
                if !self.tellings.insert((approval.clone(), *deliveries)) {
                    return Err("two tellings have the same number".to_owned());
                }
                Ok(())
            }
        }
    }

    fn load_end(&self, approval: &str) -> Result<&(ApprovalOutcome, String), String> {
        let entry = self.entries.get(approval).ok_or("there is no such ask")?;
        let ended = entry.ended.as_ref();
        ended.ok_or_else(|| "the ask is still open".to_owned())
    }
}

fn about(event: &Event) -> String {
    match event {
        Event::ApprovalRequested(e) => e.ask.id.as_str().to_owned(),
        Event::ApprovalResolved(e) => format!("{} {}", e.approval.as_str(), e.ending.resolution),
        _ => String::new(),
    }
}

fn end_entry(
    entry: Option<&mut Entry>,
    outcome: ApprovalOutcome,
    resolution: &str,
) -> Result<(), String> {
    let entry = entry.ok_or("ended without having been asked")?;
    let fate = entry.ask.fate();
    if let Some((_, earlier)) = &entry.ended {
        return Err(format!("ended as `{earlier}` and again as `{resolution}`"));
    }
    entry.ended = Some((outcome, resolution.to_owned()));
    if outcome == fate.outcome() && resolution == fate.resolution() {
        Ok(())
    } else {
        Err(format!("must end as {fate:?}, not as `{resolution}`"))
    }
}

fn attempt(entry: Option<&mut Entry>, deliveries: u32) -> Result<(), String> {
    let entry = entry.ok_or("was told without having been asked")?;
    if entry.ended.is_none() {
        return Err("was told before it ended".to_owned());
    }
    let expected = entry.deliveries + 1;
    entry.deliveries = deliveries;
    if deliveries == expected {
        Ok(())
    } else {
        Err(format!("telling {deliveries} should be telling {expected}"))
    }
}

fn same(what: &str, committed: &str, acknowledged: &str) -> Result<(), String> {
    if committed == acknowledged {
        Ok(())
    } else {
        Err(format!("{what} on the record is `{committed}`"))
    }
}

/// The wire's word for how an ask ended.
pub(super) fn state_of(outcome: ApprovalOutcome) -> &'static str {
    let fates = [Fate::Approved, Fate::Denied, Fate::Expired];
    let fate = fates.into_iter().find(|fate| fate.outcome() == outcome);
    fate.map_or("unexpected", Fate::state)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 7;

    fn approved() -> Ask {
        let asks = (0..).map(|n| Ask::new(SEED, n));
        let mut approved = asks.filter(|ask| ask.fate() == Fate::Approved);
        approved.next().unwrap()
    }

    fn record_with(ask: &Ask) -> Record {
        let mut record = Record::new(Path::new("none"), SEED);
        record
            .open_entry(ask.n, "approval-1", ask.key().as_ref())
            .unwrap();
        record
    }

    #[test]
    fn a_lost_ask_is_found() {
        let mut record = Record::new(Path::new("none"), SEED);
        let approval = "approval-1".to_owned();
        record.check_promise(&Promise::Asked { n: 3, approval });
        assert!(
            record.wrong[0].ends_with("ask 3 is lost"),
            "{:?}",
            record.wrong
        );
    }

    #[test]
    fn a_doubled_ask_is_found() {
        let ask = approved();
        let mut record = record_with(&ask);
        let doubled = record.open_entry(ask.n, "approval-2", ask.key().as_ref());
        assert!(
            doubled
                .unwrap_err()
                .contains("as `approval-1` and as `approval-2`")
        );
    }

    #[test]
    fn an_allow_that_was_never_committed_is_found() {
        let mut record = record_with(&approved());
        record.check_promise(&Promise::Told {
            approval: "approval-1".to_owned(),
            state: "allowed".to_owned(),
            resolution: "approve".to_owned(),
            deliveries: 1,
        });
        assert!(
            record.wrong[0].ends_with("the ask is still open"),
            "{:?}",
            record.wrong
        );
    }

    #[test]
    fn a_second_end_and_a_wrong_end_are_found() {
        let mut record = record_with(&approved());
        let entry = record.entries.get_mut("approval-1");
        let wrong = end_entry(entry, ApprovalOutcome::Denied, "deny").unwrap_err();
        assert_eq!(wrong, "must end as Approved, not as `deny`");
        let entry = record.entries.get_mut("approval-1");
        let second = end_entry(entry, ApprovalOutcome::Allowed, "approve").unwrap_err();
        assert_eq!(second, "ended as `deny` and again as `approve`");
    }
}
