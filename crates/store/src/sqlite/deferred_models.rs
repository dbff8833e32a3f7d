//! Changes of the read models that are not in their tables yet.
//!
//! The events of an append are durable when it returns. What they change in the read models is kept
//! here and written with a later append, many at a time: an ask that is answered soon is then written
//! once, in its last form. Readers look here as well as into the tables. After a crash the next host
//! applies the events whose changes are missing (`recover.rs`).
//!
//! Invariant: the tables hold everything up to the event `base`, and this everything after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_core::event::{AnswerDelivery, Device, ProcessKey};
use countersign_core::{
    AccessToken, Agent, AgentId, AnswerChange, Approval, CommitChanges, DeviceId, GrantId,
    GrantState, ProcessMark, Seq, Snapshot, TokenId,
};

use super::erase;
use super::rows::ApprovalRow;

/// Events whose changes are kept here before they are written: enough that most asks are answered
/// by then, and few enough that writing them takes some milliseconds and a start after a crash is not
/// noticed.
pub(super) const EVENTS_MAX: u64 = 1_024;

/// The same bound in bytes of asks.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The changes since `base`, each thing in its last form.
#[derive(Clone, Debug, Default)]
pub(super) struct DeferredModels {
    /// The newest event that the tables count in.
    pub(super) base: Seq,
    approvals: BTreeMap<Seq, Approval>,
    bytes: usize,
    /// Answers of approvals that are not among the above.
    answers: BTreeMap<Seq, AnswerChange>,
    dismissed: BTreeSet<Seq>,
    agents: BTreeMap<AgentId, Option<Agent>>,
    devices: BTreeMap<DeviceId, Arc<Device>>,
    tokens: BTreeMap<TokenId, Option<AccessToken>>,
    marks: BTreeMap<ProcessKey, Option<ProcessMark>>,
    grants: BTreeMap<GrantId, Option<GrantState>>,
    trusted: BTreeMap<String, String>,
}

impl DeferredModels {
    pub(super) fn new(base: Seq) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }

    /// Whether changes have to be written with their own append: readers look for questions in the
    /// tables only, and what is erased has to be there to be erased.
    pub(super) fn must_be_written(changes: &CommitChanges) -> bool {
        !changes.questions.is_empty() || erase::is_needed(changes)
    }

    /// Whether there is no room for the changes of more events up to `head`.
    pub(super) fn is_full(&self, head: Seq) -> bool {
        head.0 - self.base.0 >= EVENTS_MAX || self.bytes >= BYTES_MAX
    }

    /// Adds the changes of an append that was committed.
    pub(super) fn add(&mut self, changes: &CommitChanges) {
        for approval in &changes.approvals {
            self.put_approval(approval.clone());
        }
        for change in &changes.answers {
            self.put_answer(*change);
        }
        for opened in &changes.dismissed {
            match self.approvals.get_mut(opened) {
                Some(approval) => approval.dismissed = true,
                None => _ = self.dismissed.insert(*opened),
            }
        }
        self.agents.extend(changes.agents.iter().cloned());
        self.tokens.extend(changes.tokens.iter().cloned());
        self.grants.extend(changes.grants.iter().cloned());
        self.trusted.extend(changes.trusted.iter().cloned());
        let devices = changes.devices.iter();
        self.devices
            .extend(devices.map(|device| (device.id.clone(), device.clone())));
        let added = changes.marks_added.iter();
        self.marks
            .extend(added.map(|mark| (mark.process, Some(mark.clone()))));
        let removed = changes.marks_removed.iter();
        self.marks.extend(removed.map(|process| (*process, None)));
    }

    fn put_approval(&mut self, approval: Approval) {
        let opened = approval.opened;
        // The whole approval has what was known about its answer.
        self.answers.remove(&opened);
        self.dismissed.remove(&opened);
        let bytes = approval.ask.bytes();
        // The ask stays the same in every later form, so it is counted once.
        if self.approvals.insert(opened, approval).is_none() {
            self.bytes += bytes;
        }
    }

    fn put_answer(&mut self, change: AnswerChange) {
        if let Some(approval) = self.approvals.get_mut(&change.opened) {
            approval.delivery = change.delivery;
            approval.deliveries = change.deliveries.unwrap_or(approval.deliveries);
            return;
        }
        let answer = self.answers.entry(change.opened).or_insert(change);
        answer.delivery = change.delivery;
        // A change without a number of deliveries does not take back an earlier one.
        answer.deliveries = change.deliveries.or(answer.deliveries);
    }

    /// Everything, as one append would have brought it.
    pub(super) fn to_changes(&self) -> CommitChanges {
        let (added, removed): (Vec<_>, Vec<_>) =
            self.marks.iter().partition(|(_, mark)| mark.is_some());
        CommitChanges {
            agents: to_pairs(&self.agents),
            approvals: self.approvals.values().cloned().collect(),
            answers: self.answers.values().copied().collect(),
            dismissed: self.dismissed.iter().copied().collect(),
            devices: self.devices.values().cloned().collect(),
            tokens: to_pairs(&self.tokens),
            marks_added: added
                .into_iter()
                .filter_map(|(_, mark)| mark.clone())
                .collect(),
            marks_removed: removed.into_iter().map(|(process, _)| *process).collect(),
            grants: to_pairs(&self.grants),
            trusted: to_pairs(&self.trusted),
            ..CommitChanges::default()
        }
    }
}

/// For readers.
impl DeferredModels {
    /// Approvals in their last form, newest first.
    pub(super) fn approvals(&self) -> impl Iterator<Item = &Approval> {
        self.approvals.values().rev()
    }

    /// Approvals that are not among [`Self::approvals`] and whose answer is on its way now, by the
    /// events that opened them.
    pub(super) fn attempted_answers(&self) -> impl Iterator<Item = Seq> {
        let answers = self.answers.values();
        answers
            .filter(|answer| answer.delivery == AnswerDelivery::Attempted)
            .map(|answer| answer.opened)
    }

    /// The row of the table as it is now; nothing if the approval is among [`Self::approvals`].
    pub(super) fn update_row(&self, mut row: ApprovalRow) -> Option<ApprovalRow> {
        let opened = row.opened_seq();
        if self.approvals.contains_key(&opened) {
            return None;
        }
        if let Some(answer) = self.answers.get(&opened) {
            row.set_answer(answer);
        }
        // Never the other way: what was dismissed stays dismissed.
        row.dismissed |= self.dismissed.contains(&opened);
        Some(row)
    }

    /// What the tables have of everything that is not an approval, brought up to date.
    pub(super) fn update_snapshot(&self, snapshot: &mut Snapshot) {
        update(&mut snapshot.agents, &self.agents, |agent| {
            agent.id().clone()
        });
        update(&mut snapshot.tokens, &self.tokens, |token| token.id.clone());
        update(&mut snapshot.marks, &self.marks, |mark| mark.process);
        update(&mut snapshot.grants, &self.grants, |grant| {
            grant.grant.id.clone()
        });
        let devices = self.devices.iter();
        let devices = devices.map(|(id, device)| (id.clone(), Some(device.clone())));
        update(&mut snapshot.devices, &devices.collect(), |device| {
            device.id.clone()
        });
        let trusted = self.trusted.iter();
        let trusted =
            trusted.map(|(file, digest)| (file.clone(), Some((file.clone(), digest.clone()))));
        update(&mut snapshot.trusted, &trusted.collect(), |(file, _)| {
            file.clone()
        });
    }
}

fn to_pairs<K: Clone, V: Clone>(map: &BTreeMap<K, V>) -> Vec<(K, V)> {
    map.iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Brings a list that is sorted by its keys up to date.
fn update<K: Ord + Clone, V: Clone>(
    list: &mut Vec<V>,
    changes: &BTreeMap<K, Option<V>>,
    key_of: impl Fn(&V) -> K,
) {
    if changes.is_empty() {
        return;
    }
    list.retain(|value| !changes.contains_key(&key_of(value)));
    list.extend(changes.values().flatten().cloned());
    list.sort_by_key(key_of);
}

/// The changes, shared by the writer and its readers.
#[derive(Debug)]
pub(super) struct SharedModels(Mutex<Arc<DeferredModels>>);

impl SharedModels {
    pub(super) fn new(models: DeferredModels) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Arc::new(models))))
    }

    /// The changes as they are now. They stay so for whoever holds them.
    pub(super) fn get(&self) -> Arc<DeferredModels> {
        self.lock().clone()
    }

    /// Adds changes. They are copied first if a reader is looking at them.
    pub(super) fn add(&self, changes: &CommitChanges) {
        Arc::make_mut(&mut self.lock()).add(changes);
    }

    /// The tables hold everything up to this event.
    pub(super) fn reset(&self, base: Seq) {
        *self.lock() = Arc::new(DeferredModels::new(base));
    }

    fn lock(&self) -> MutexGuard<'_, Arc<DeferredModels>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
