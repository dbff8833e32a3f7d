//! A writer that numbers its events and keeps the read models the way the host does.

use std::sync::Arc;

use countersign_core::event::{
    AnswerDelivery, ApprovalEnding, ApprovalOutcome, ApprovalRequested, ApprovalResolved, Ask,
    AskAttachment, Effect, GrantUse, NotificationSent, PartKind, QuestionAsked,
    QuestionEnded as QuestionEndedEvent, QuestionEnding, QuestionOutcome, QuestionText,
    RecordPruned, RecordRedacted, RuleRef, Verdict, VerdictPart,
};
use countersign_core::{
    AgentId, Approval, ApprovalEnd, ApprovalId, ClientId, CommitChanges, CommittedEvent, Event,
    GrantId, Json, PrincipalKey, Question, QuestionEnd, QuestionId, RecordedActor, Role, Seq,
    Timestamp,
};
use countersign_store::{EventHistory, EventLog, EventQuery, StoreError};

pub(crate) struct Script {
    pub(crate) log: Box<dyn EventLog>,
    pub(crate) history: Arc<dyn EventHistory>,
    pub(crate) head: Seq,
}

pub(crate) fn by(name: &str) -> RecordedActor {
    RecordedActor {
        role: Role::Operator,
        name: name.into(),
        key: PrincipalKey::new(format!("uid:{name}")),
    }
}

pub(crate) fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

pub(crate) fn ask(id: &str, agent: Option<&str>) -> Ask {
    Ask {
        id: ApprovalId::new(id),
        agent: agent.map(AgentId::new),
        turn: Some("turn-1".to_owned()),
        tool_call: None,
        action: "run `ls -la`".to_owned(),
        tool: Some("Bash".to_owned()),
        input: Some(json(r#"{"command": "ls  -la"}"#)),
        input_digest: Some("d1".to_owned()),
        cwd: Some("/srv/app".to_owned()),
        verdict: Some(Arc::new(verdict())),
        details: json(r#"{ "why":"to see" }"#),
        a2ui: None,
        options: vec!["approve".to_owned(), "deny".to_owned()],
        approving: vec!["approve".to_owned()],
        request: None,
        takes_denial_message: false,
        can_edit: false,
        passes: Vec::new(),
        repeats: None,
        sandbox: None,
        by: by("asker"),
        client: Some(ClientId::new("c1")),
        attachment: AskAttachment::Owner,
        asked_at: Timestamp(5),
        idempotency_key: None,
        request_digest: None,
        deadline: Some(Timestamp(9_000_000)),
    }
}

fn verdict() -> Verdict {
    Verdict {
        effect: Effect::Allow,
        parts: vec![VerdictPart {
            kind: PartKind::Command,
            subject: "ls -la".to_owned(),
            effect: Effect::Allow,
            rule: Some(RuleRef {
                rule: "Bash(ls:*)".to_owned(),
                effect: Effect::Allow,
                source: "grant".to_owned(),
                line: None,
                grant: Some(GrantId::new("g1")),
            }),
            reason: None,
            floor: false,
        }],
    }
}

pub(crate) fn keyed(id: &str, key: &str) -> Ask {
    Ask {
        idempotency_key: Some(key.to_owned()),
        ..ask(id, None)
    }
}

pub(crate) fn notified(agent: Option<&str>, message: &str) -> Event {
    NotificationSent {
        kind: "note".to_owned(),
        agent: agent.map(AgentId::new),
        message: message.to_owned(),
        payload: Json::null(),
        by: by("asker"),
    }
    .into()
}

pub(crate) fn at(seq: Seq) -> Timestamp {
    Timestamp(1_000_000 + seq.0 * 1_000)
}

pub(crate) fn committed(seq: Seq, event: impl Into<Event>) -> CommittedEvent {
    CommittedEvent {
        seq,
        at: at(seq),
        event: event.into(),
        ask: None,
    }
}

/// The event that opens an ask, and the approval it leads to.
pub(crate) fn opening(seq: Seq, ask: Ask) -> (CommittedEvent, Approval) {
    let ask = Arc::new(ask);
    let approval = Approval {
        ask: ask.clone(),
        opened: seq,
        created_at: at(seq),
        client: ask.client.clone(),
        lapses_at: None,
        ended: None,
        delivery: AnswerDelivery::Waiting,
        deliveries: 0,
        dismissed: false,
    };
    (committed(seq, ApprovalRequested { ask }), approval)
}

/// The event that ends an approval, and the approval as it is then.
pub(crate) fn ending(seq: Seq, approval: &Approval) -> (CommittedEvent, Approval) {
    let ending = Arc::new(ApprovalEnding {
        message: Some("go on".to_owned()),
        verdict: Some(Arc::new(verdict())),
        ..ApprovalEnding::new(ApprovalOutcome::Allowed, "approve", by("person"))
    });
    let resolved = ApprovalResolved {
        approval: approval.ask.id.clone(),
        opened: approval.opened,
        agent: approval.ask.agent.clone(),
        ending: ending.clone(),
        delivery: AnswerDelivery::Attempted,
        grants_used: vec![GrantUse {
            grant: GrantId::new("g1"),
            times: 2,
        }],
    };
    let ended = Approval {
        ended: Some(ApprovalEnd {
            ending,
            seq,
            at: at(seq),
        }),
        delivery: AnswerDelivery::Attempted,
        deliveries: 1,
        ..approval.clone()
    };
    (
        CommittedEvent {
            ask: Some(approval.ask.clone()),
            ..committed(seq, resolved)
        },
        ended,
    )
}

pub(crate) fn redacted(seq: u64) -> Event {
    RecordRedacted {
        seq: Seq(seq),
        reason: "a secret".to_owned(),
        by: by("person"),
    }
    .into()
}

pub(crate) fn pruned(before: u64) -> Event {
    RecordPruned {
        before: Seq(before),
        by: by("person"),
    }
    .into()
}

impl Script {
    pub(crate) fn new(log: Box<dyn EventLog>, history: Arc<dyn EventHistory>) -> Self {
        Self {
            log,
            history,
            head: Seq(0),
        }
    }

    pub(crate) fn append(
        &mut self,
        entries: &[CommittedEvent],
        changes: &CommitChanges,
    ) -> Result<(), StoreError> {
        self.log.append(entries, changes)?;
        self.head = entries.last().map_or(self.head, |entry| entry.seq);
        Ok(())
    }

    /// Commits one event that changes no list.
    pub(crate) fn tell(&mut self, event: impl Into<Event>) -> CommittedEvent {
        let entry = committed(self.head.next(), event);
        self.append(std::slice::from_ref(&entry), &CommitChanges::default())
            .unwrap();
        entry
    }

    pub(crate) fn open(&mut self, ask: Ask) -> Approval {
        let (entry, approval) = opening(self.head.next(), ask);
        self.append(
            &[entry],
            &CommitChanges {
                approvals: vec![approval.clone()],
                ..CommitChanges::default()
            },
        )
        .unwrap();
        approval
    }

    pub(crate) fn end(&mut self, approval: &Approval) -> Approval {
        let (entry, ended) = ending(self.head.next(), approval);
        self.append(
            &[entry],
            &CommitChanges {
                approvals: vec![ended.clone()],
                ..CommitChanges::default()
            },
        )
        .unwrap();
        ended
    }

    pub(crate) fn settle(&mut self, ask: Ask) -> Approval {
        let approval = self.open(ask);
        self.end(&approval)
    }

    pub(crate) fn ask_question(&mut self, id: &str, agent: &str) -> Question {
        let seq = self.head.next();
        let text = Arc::new(QuestionText {
            id: QuestionId::new(id),
            agent: Some(AgentId::new(agent)),
            text: "which port?".to_owned(),
            by: by("asker"),
            deadline: None,
            to: Some(AgentId::new("lead")),
            escalates_at: Some(Timestamp(7)),
            key: Some(format!("key of {id}")),
        });
        let question = Question {
            text: text.clone(),
            opened: seq,
            created_at: at(seq),
            escalated: true,
            ended: None,
        };
        let changes = CommitChanges {
            questions: vec![question.clone()],
            ..CommitChanges::default()
        };
        self.append(
            &[committed(seq, QuestionAsked { question: text })],
            &changes,
        )
        .unwrap();
        question
    }

    pub(crate) fn end_question(&mut self, question: &Question) -> Question {
        let seq = self.head.next();
        let ending = Arc::new(QuestionEnding {
            outcome: QuestionOutcome::Answered,
            answer: "80".to_owned(),
            by: by("person"),
            door: None,
            considered_ms: None,
        });
        let event = QuestionEndedEvent {
            question: question.text.id.clone(),
            opened: question.opened,
            agent: question.text.agent.clone(),
            ending: ending.clone(),
        };
        let ended = Question {
            ended: Some(QuestionEnd {
                ending,
                seq,
                at: at(seq),
            }),
            ..question.clone()
        };
        let changes = CommitChanges {
            questions: vec![ended.clone()],
            ..CommitChanges::default()
        };
        self.append(&[committed(seq, event)], &changes).unwrap();
        ended
    }

    pub(crate) fn redact(&mut self, seq: u64) -> Result<(), StoreError> {
        let changes = CommitChanges {
            redacted: vec![Seq(seq)],
            ..CommitChanges::default()
        };
        self.append(&[committed(self.head.next(), redacted(seq))], &changes)
    }

    pub(crate) fn prune(&mut self, before: u64) -> Result<(), StoreError> {
        let changes = CommitChanges {
            pruned_before: Some(Seq(before)),
            ..CommitChanges::default()
        };
        self.append(&[committed(self.head.next(), pruned(before))], &changes)
    }

    pub(crate) fn events(&self) -> Vec<CommittedEvent> {
        self.history
            .events(&EventQuery {
                limit: usize::MAX,
                ..EventQuery::default()
            })
            .unwrap()
    }

    pub(crate) fn numbers(&self, query: &EventQuery) -> Vec<u64> {
        self.history
            .events(query)
            .unwrap()
            .iter()
            .map(|committed| committed.seq.0)
            .collect()
    }
}
