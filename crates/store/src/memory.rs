//! The same contract in memory: a yardstick for tests and benches. It keeps nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use countersign_core::event::{AnswerDelivery, Device, ProcessKey, TranscriptEntry};
use countersign_core::limits::RECENT_ENDED_KEPT;
use countersign_core::{
    AccessToken, Agent, AgentId, Approval, ApprovalId, Ask, Checkpoint, CommitChanges,
    CommittedEvent, DeviceId, Event, GrantId, GrantState, Json, PrincipalKey, ProcessMark,
    Question, QuestionId, Seq, Snapshot, Timestamp, TokenId,
};

use crate::failure::AppendRefusal;
use crate::search::SearchCollector;
use crate::{
    ApprovalQuery, EventHistory, EventLog, EventQuery, QuestionQuery, SearchPage, SearchQuery,
    StatusFilter, StoreError,
};

/// An empty log and its readers.
pub fn open_memory() -> (MemoryLog, Arc<MemoryHistory>) {
    let tables = Arc::new(RwLock::new(MemoryTables::default()));
    (
        MemoryLog {
            tables: tables.clone(),
        },
        Arc::new(MemoryHistory { tables }),
    )
}

/// The writer.
pub struct MemoryLog {
    tables: Arc<RwLock<MemoryTables>>,
}

/// The readers.
pub struct MemoryHistory {
    tables: Arc<RwLock<MemoryTables>>,
}

#[derive(Default)]
struct MemoryTables {
    head: Seq,
    events: BTreeMap<Seq, CommittedEvent>,
    approvals: BTreeMap<Seq, Approval>,
    open: BTreeSet<Seq>,
    ended: BTreeMap<Seq, Seq>,
    approval_ids: HashMap<ApprovalId, Seq>,
    approval_keys: HashMap<(PrincipalKey, String), Seq>,
    questions: BTreeMap<Seq, Question>,
    agents: BTreeMap<AgentId, Agent>,
    devices: BTreeMap<DeviceId, Arc<Device>>,
    tokens: BTreeMap<TokenId, AccessToken>,
    marks: BTreeMap<ProcessKey, ProcessMark>,
    grants: BTreeMap<GrantId, GrantState>,
    trusted: BTreeMap<String, String>,
    checkpoints: BTreeMap<AgentId, Checkpoint>,
    notify_documents: BTreeMap<String, Json>,
}

impl EventLog for MemoryLog {
    fn load(&mut self) -> Result<Snapshot, StoreError> {
        Ok(self
            .tables
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .snapshot())
    }

    fn append(
        &mut self,
        entries: &[CommittedEvent],
        changes: &CommitChanges,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.check(entries, changes)?;
        tables.write(entries, changes);
        Ok(())
    }
}

impl MemoryTables {
    fn snapshot(&self) -> Snapshot {
        let listed = self
            .ended
            .values()
            .rev()
            .filter_map(|opened| self.approvals.get(opened));
        let listed = listed.filter(|approval| !approval.dismissed && self.is_whole(approval));
        let mut recent: Vec<Approval> = listed.take(RECENT_ENDED_KEPT).cloned().collect();
        recent.reverse();
        Snapshot {
            head: self.head,
            agents: self.agents.values().cloned().collect(),
            open_approvals: self
                .open
                .iter()
                .filter_map(|opened| self.approvals.get(opened))
                .cloned()
                .collect(),
            recent_approvals: recent,
            undelivered: self.undelivered(),
            open_questions: self
                .questions
                .values()
                .filter(|question| question.is_pending())
                .cloned()
                .collect(),
            devices: self.devices.values().cloned().collect(),
            tokens: self.tokens.values().cloned().collect(),
            marks: self.marks.values().cloned().collect(),
            grants: self.grants.values().cloned().collect(),
            trusted: self.trusted.clone().into_iter().collect(),
            checkpoints: self.checkpoints.values().cloned().collect(),
        }
    }

    fn undelivered(&self) -> Vec<Approval> {
        let approvals = self.approvals.values();
        approvals
            .filter(|approval| approval.delivery == AnswerDelivery::Attempted)
            .filter(|approval| approval.ask.request.is_some() && self.is_whole(approval))
            .cloned()
            .collect()
    }

    /// Refuses before anything is written, so that there is nothing to undo.
    fn check(
        &self,
        entries: &[CommittedEvent],
        changes: &CommitChanges,
    ) -> Result<(), AppendRefusal> {
        let mut head = self.head;
        for entry in entries {
            if entry.seq != head.next() {
                return Err(AppendRefusal::OutOfOrder {
                    head,
                    found: entry.seq,
                });
            }
            head = entry.seq;
        }
        for seq in &changes.redacted {
            if *seq == Seq(0) || *seq > head {
                return Err(AppendRefusal::NotRecorded(*seq));
            }
            if let Some(Event::RecordRedacted(_) | Event::RecordPruned(_)) =
                self.event(entries, *seq)
            {
                return Err(AppendRefusal::RecordOfErasure(*seq));
            }
            if self.oldest_open(changes, *seq, seq.next()).is_some() {
                return Err(AppendRefusal::StillOpen(*seq));
            }
        }
        let Some(before) = changes.pruned_before else {
            return Ok(());
        };
        if before > head {
            return Err(AppendRefusal::NotRecorded(before));
        }
        self.oldest_open(changes, Seq(0), before)
            .map_or(Ok(()), |open| Err(AppendRefusal::StillOpen(open)))
    }

    fn event<'a>(&'a self, entries: &'a [CommittedEvent], seq: Seq) -> Option<&'a Event> {
        let known = self.events.get(&seq);
        known
            .or_else(|| entries.iter().find(|entry| entry.seq == seq))
            .map(|committed| &committed.event)
    }

    fn oldest_open(&self, changes: &CommitChanges, from: Seq, before: Seq) -> Option<Seq> {
        let questions = self
            .questions
            .range(from..before)
            .filter(|(_, question)| question.is_pending())
            .map(|(opened, _)| *opened);
        let mut open: BTreeSet<Seq> = self
            .open
            .range(from..before)
            .copied()
            .chain(questions)
            .collect();
        let approvals = changes
            .approvals
            .iter()
            .map(|approval| (approval.opened, approval.is_pending()));
        let questions = changes
            .questions
            .iter()
            .map(|question| (question.opened, question.is_pending()));
        // As it is after this append: what ends with it may be erased by it.
        for (opened, is_pending) in approvals.chain(questions) {
            if is_pending {
                open.insert(opened);
            } else {
                open.remove(&opened);
            }
        }
        open.range(from..before).next().copied()
    }

    fn write(&mut self, entries: &[CommittedEvent], changes: &CommitChanges) {
        for entry in entries {
            self.head = entry.seq;
            self.events.insert(entry.seq, entry.clone());
        }
        for approval in &changes.approvals {
            self.write_approval(approval);
        }
        // After the approvals: what an append says about an answer is newer than the approval with
        // it.
        for change in &changes.answers {
            if let Some(approval) = self.approvals.get_mut(&change.opened) {
                approval.delivery = change.delivery;
                approval.deliveries = change.deliveries.unwrap_or(approval.deliveries);
            }
        }
        for opened in &changes.dismissed {
            if let Some(approval) = self.approvals.get_mut(opened) {
                approval.dismissed = true;
            }
        }
        self.questions.extend(
            changes
                .questions
                .iter()
                .map(|question| (question.opened, question.clone())),
        );
        put(&mut self.agents, &changes.agents);
        put(&mut self.tokens, &changes.tokens);
        put(&mut self.grants, &changes.grants);
        put(&mut self.checkpoints, &changes.checkpoints);
        put(&mut self.notify_documents, &changes.notify_documents);
        self.trusted.extend(changes.trusted.iter().cloned());
        self.devices.extend(
            changes
                .devices
                .iter()
                .map(|device| (device.id.clone(), device.clone())),
        );
        self.marks.extend(
            changes
                .marks_added
                .iter()
                .map(|mark| (mark.process, mark.clone())),
        );
        self.marks
            .retain(|process, _| !changes.marks_removed.contains(process));
        for seq in &changes.redacted {
            // The end of an approval names its ask: erasing either of the two releases the key.
            let erased = self.events.remove(seq);
            let opened = erased
                .and_then(|committed| committed.event.opened())
                .unwrap_or(*seq);
            self.approval_keys.retain(|_, keyed| *keyed != opened);
        }
        if let Some(before) = changes.pruned_before {
            self.prune(before);
        }
    }

    fn write_approval(&mut self, approval: &Approval) {
        let opened = approval.opened;
        match &approval.ended {
            None => {
                self.open.insert(opened);
            }
            Some(ended) => {
                self.open.remove(&opened);
                self.ended.insert(ended.seq, opened);
            }
        }
        // Only once: a key that an erasure released must not return with a later change of the row.
        if self.approvals.insert(opened, approval.clone()).is_none() {
            self.approval_ids.insert(approval.ask.id.clone(), opened);
            if let Some(key) = &approval.ask.idempotency_key {
                self.approval_keys
                    .insert((approval.ask.by.key.clone(), key.clone()), opened);
            }
        }
    }

    fn prune(&mut self, before: Seq) {
        self.events = self.events.split_off(&before);
        self.approvals = self.approvals.split_off(&before);
        self.questions = self.questions.split_off(&before);
        self.ended.retain(|_, opened| *opened >= before);
        self.approval_ids.retain(|_, opened| *opened >= before);
        self.approval_keys.retain(|_, opened| *opened >= before);
    }

    /// Whether neither the ask nor its end was erased.
    fn is_whole(&self, approval: &Approval) -> bool {
        self.events.contains_key(&approval.opened)
            && approval
                .ended
                .as_ref()
                .is_none_or(|ended| self.events.contains_key(&ended.seq))
    }

    fn approval(&self, opened: Option<&Seq>) -> Option<Approval> {
        opened
            .and_then(|opened| self.approvals.get(opened))
            .filter(|approval| self.is_whole(approval))
            .cloned()
    }

    fn is_whole_question(&self, question: &Question) -> bool {
        self.events.contains_key(&question.opened)
            && question
                .ended
                .as_ref()
                .is_none_or(|ended| self.events.contains_key(&ended.seq))
    }

    fn ask(&self, opened: Seq) -> Option<Arc<Ask>> {
        match &self.events.get(&opened)?.event {
            Event::ApprovalRequested(requested) => Some(requested.ask.clone()),
            _ => None,
        }
    }
}

fn put<K: Ord + Clone, V: Clone>(table: &mut BTreeMap<K, V>, changes: &[(K, Option<V>)]) {
    for (id, value) in changes {
        match value {
            Some(value) => table.insert(id.clone(), value.clone()),
            None => table.remove(id),
        };
    }
}

impl MemoryHistory {
    fn tables(&self) -> RwLockReadGuard<'_, MemoryTables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventHistory for MemoryHistory {
    fn events(&self, query: &EventQuery) -> Result<Vec<CommittedEvent>, StoreError> {
        let tables = self.tables();
        let first = query
            .after
            .map_or(Seq(0), |after| Seq(after.0.saturating_add(1)));
        let before = query.before.unwrap_or(Seq(u64::MAX)).max(first);
        let wanted = tables
            .events
            .range(first..before)
            .map(|(_, committed)| committed)
            .filter(|committed| {
                let event = &committed.event;
                query
                    .kinds
                    .as_ref()
                    .is_none_or(|kinds| kinds.iter().any(|kind| kind == event.kind()))
                    && (query.agent.is_none() || event.agent() == query.agent.as_ref())
            });
        let mut found: Vec<CommittedEvent> = if query.newest {
            wanted.rev().take(query.limit).cloned().collect()
        } else {
            wanted.take(query.limit).cloned().collect()
        };
        if query.newest {
            found.reverse();
        }
        for committed in &mut found {
            let opened = committed.event.opened();
            committed.ask = opened.and_then(|opened| tables.ask(opened));
        }
        Ok(found)
    }

    fn find_approval(&self, id: &ApprovalId) -> Result<Option<Approval>, StoreError> {
        let tables = self.tables();
        Ok(tables.approval(tables.approval_ids.get(id)))
    }

    fn find_keyed_approval(
        &self,
        principal: &PrincipalKey,
        key: &str,
    ) -> Result<Option<Approval>, StoreError> {
        let tables = self.tables();
        Ok(tables.approval(
            tables
                .approval_keys
                .get(&(principal.clone(), key.to_owned())),
        ))
    }

    fn approvals(&self, query: &ApprovalQuery) -> Result<Vec<Approval>, StoreError> {
        let tables = self.tables();
        let before = query.opened_before.unwrap_or(Seq(u64::MAX));
        let prefix = query.id_prefix.as_deref().unwrap_or_default();
        let wanted = tables
            .approvals
            .range(..before)
            .rev()
            .map(|(_, approval)| approval)
            .filter(|approval| {
                has_status(query.status, approval.is_pending())
                    && (query.agent.is_none() || approval.ask.agent == query.agent)
                    && (query.dismissed || !approval.dismissed)
                    && approval.ask.id.as_str().starts_with(prefix)
                    && tables.is_whole(approval)
            });
        Ok(wanted.take(query.limit).cloned().collect())
    }

    fn attempted_answers(&self, after: Option<Seq>) -> Result<Vec<Approval>, StoreError> {
        let tables = self.tables();
        let first = after.map_or(Seq(0), |after| Seq(after.0.saturating_add(1)));
        let ended = tables
            .approvals
            .range(first..)
            .map(|(_, approval)| approval)
            .filter(|approval| !approval.is_pending());
        let attempted = ended.filter(|approval| approval.delivery == AnswerDelivery::Attempted);
        Ok(attempted
            .filter(|approval| tables.is_whole(approval))
            .cloned()
            .collect())
    }

    fn find_checkpoint(&self, agent: &AgentId) -> Result<Option<Checkpoint>, StoreError> {
        Ok(self.tables().checkpoints.get(agent).cloned())
    }

    fn notify_documents(&self) -> Result<Vec<(String, Json)>, StoreError> {
        let tables = self.tables();
        let documents = tables.notify_documents.iter();
        Ok(documents
            .map(|(name, body)| (name.clone(), body.clone()))
            .collect())
    }

    fn first_event_since(&self, at: Timestamp) -> Result<Option<Seq>, StoreError> {
        let tables = self.tables();
        Ok(tables
            .events
            .values()
            .find(|committed| committed.at >= at)
            .map(|committed| committed.seq))
    }

    fn find_question(&self, id: &QuestionId) -> Result<Option<Question>, StoreError> {
        let tables = self.tables();
        let found = tables
            .questions
            .values()
            .find(|question| question.text.id == *id);
        Ok(found
            .filter(|question| tables.is_whole_question(question))
            .cloned())
    }

    fn find_keyed_question(
        &self,
        principal: &PrincipalKey,
        key: &str,
    ) -> Result<Option<Question>, StoreError> {
        let tables = self.tables();
        let found = tables.questions.values().find(|question| {
            let text = &question.text;
            text.by.key == *principal && text.key.as_deref() == Some(key)
        });
        Ok(found
            .filter(|question| tables.is_whole_question(question))
            .cloned())
    }

    fn questions(&self, query: &QuestionQuery) -> Result<Vec<Question>, StoreError> {
        let tables = self.tables();
        let prefix = query.id_prefix.as_deref().unwrap_or_default();
        let wanted = tables.questions.values().rev().filter(|question| {
            has_status(query.status, question.is_pending())
                && (query.agent.is_none() || question.text.agent == query.agent)
                && question.text.id.as_str().starts_with(prefix)
                && tables.is_whole_question(question)
        });
        Ok(wanted.take(query.limit).cloned().collect())
    }

    fn search(&self, query: &SearchQuery) -> Result<SearchPage, StoreError> {
        let tables = self.tables();
        let before = query.before.unwrap_or(Seq(u64::MAX));
        let mut collector = SearchCollector::new(query);
        for committed in tables.events.range(..before).rev().map(|(_, event)| event) {
            let Event::TranscriptAdded(part) = &committed.event else {
                continue;
            };
            // The size of the payload is not known here, only that of the entries.
            let bytes = part.entries.iter().map(TranscriptEntry::weight).sum();
            if collector.wants(&part.agent)
                && collector
                    .take(committed.seq, committed.at, part, bytes)
                    .is_break()
            {
                break;
            }
        }
        Ok(collector.finish())
    }
}

fn has_status(wanted: Option<StatusFilter>, pending: bool) -> bool {
    wanted.is_none_or(|status| (status == StatusFilter::Pending) == pending)
}
