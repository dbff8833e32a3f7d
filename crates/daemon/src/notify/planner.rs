//! Decides what one channel tells next, and when.
//!
//! Plain functions over [`ChannelState`]: the time, what people look at and what still holds are passed
//! in. The state is committed before a delivery is sent and after it was; it holds no text of an agent,
//! so that erasing a payload stays enough.
//!
//! Invariants: what no longer holds is never told; each event is taken in once, because the cursor is
//! committed together with what it led to; a delivery keeps its id over every attempt and every host.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use countersign_core::event::BaseState;
use countersign_core::limits::{
    NOTIFY_AGENT_PAUSE_MS, NOTIFY_DIGEST_ABOVE, NOTIFY_DIGEST_MS, NOTIFY_LIFE_MS, NOTIFY_RETRY_MS,
    NOTIFY_RETRY_MS_MAX, NOTIFY_SETTLE_MS, NOTIFY_WAITING_MAX,
};
use countersign_core::{AgentId, ApprovalId, CommittedEvent, Event, QuestionId, Seq, Timestamp};
use serde::{Deserialize, Serialize};

use super::quiet_hours::QuietHours;
use super::screens::ScreenFocus;

const HOUR_MS: u64 = 3_600_000;

/// What a channel can be told about, by the kind of event that it follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    ApprovalRequested,
    QuestionAsked,
    AgentExited,
    TurnEnded,
}

impl NoticeKind {
    pub const ALL: [Self; 4] = [
        Self::ApprovalRequested,
        Self::QuestionAsked,
        Self::AgentExited,
        Self::TurnEnded,
    ];

    /// The name of the event.
    pub fn name(self) -> &'static str {
        match self {
            Self::ApprovalRequested => "approval.requested",
            Self::QuestionAsked => "question.asked",
            Self::AgentExited => "agent.exited",
            Self::TurnEnded => "turn.ended",
        }
    }
}

/// What a notice is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NoticeSubject {
    Ask(ApprovalId),
    Question(QuestionId),
    Exited(AgentId),
    TurnEnded(AgentId),
}

impl NoticeSubject {
    pub(crate) fn kind(&self) -> NoticeKind {
        match self {
            Self::Ask(_) => NoticeKind::ApprovalRequested,
            Self::Question(_) => NoticeKind::QuestionAsked,
            Self::Exited(_) => NoticeKind::AgentExited,
            Self::TurnEnded(_) => NoticeKind::TurnEnded,
        }
    }

    /// Whether somebody waits for an answer.
    pub(crate) fn waits(&self) -> bool {
        matches!(self, Self::Ask(_) | Self::Question(_))
    }

    /// The id that a screen names when it shows this.
    fn id(&self) -> &str {
        match self {
            Self::Ask(id) => id.as_str(),
            Self::Question(id) => id.as_str(),
            Self::Exited(id) | Self::TurnEnded(id) => id.as_str(),
        }
    }
}

/// Something that a channel has not told yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    /// The event it follows from.
    pub(crate) seq: Seq,
    pub(crate) at: Timestamp,
    pub(crate) subject: NoticeSubject,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<AgentId>,
}

/// One message on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delivery {
    /// The same for each attempt.
    pub(crate) id: String,
    pub(crate) notices: Vec<Notice>,
    pub(crate) digest: bool,
    attempts: u32,
    retry_at: Timestamp,
}

impl Delivery {
    #[cfg(test)]
    pub(super) fn new(id: &str, notices: Vec<Notice>) -> Self {
        Self {
            id: id.to_owned(),
            notices,
            digest: false,
            attempts: 0,
            retry_at: Timestamp(0),
        }
    }
}

/// What a channel has told and has yet to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChannelState {
    /// Events up to this one were taken in.
    pub(crate) cursor: Seq,
    /// Oldest first.
    #[serde(default)]
    waiting: Vec<Notice>,
    #[serde(default)]
    sending: Option<Delivery>,
    /// When single messages were told in the last hour.
    #[serde(default)]
    told: Vec<Timestamp>,
    /// When each agent was last told about, in the last minute.
    #[serde(default)]
    told_agents: BTreeMap<AgentId, Timestamp>,
    #[serde(default)]
    last_digest: Option<Timestamp>,
    /// Whether quiet hours held something back, which is told together then.
    #[serde(skip)]
    held: bool,
}

/// What holds for a channel.
#[derive(Clone, Debug)]
pub(crate) struct ChannelPolicy {
    pub(crate) kinds: Vec<NoticeKind>,
    pub(crate) quiet: Option<QuietHours>,
}

/// What a decision needs to know besides the state.
pub(crate) struct NotifyFacts<'a> {
    pub(crate) now: Timestamp,
    /// How far local time is ahead of UTC.
    pub(crate) utc_offset_s: i64,
    pub(crate) screens: &'a ScreenFocus,
    /// Whether what a notice says is still so.
    pub(crate) holds: &'a dyn Fn(&NoticeSubject) -> bool,
}

/// What a channel does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlannerStep {
    Send(Delivery),
    /// Nothing until then, unless an event comes or somebody looks at or away from a screen.
    Wait(Option<Timestamp>),
}

impl ChannelState {
    /// A channel that tells what happens after `cursor`.
    pub(crate) fn starting_at(cursor: Seq) -> Self {
        Self {
            cursor,
            ..Self::default()
        }
    }

    /// What an earlier host left. If a message must not be repeated, one that was on its way counts as
    /// told: it was begun right after it was committed.
    pub(crate) fn resumed(mut self, repeats: bool, now: Timestamp) -> Self {
        if repeats {
            if let Some(delivery) = &mut self.sending {
                delivery.retry_at = now;
            }
        } else {
            self.note_told(now);
        }
        self
    }

    /// Everything that is not told yet.
    pub(crate) fn open_subjects(&self) -> impl Iterator<Item = &NoticeSubject> {
        let sending = self.sending.iter().flat_map(|delivery| &delivery.notices);
        let notices = self.waiting.iter().chain(sending);
        notices.map(|notice| &notice.subject)
    }

    /// Skips an event that there is nothing to tell about.
    pub(crate) fn skip_event(&mut self, seq: Seq) {
        self.cursor = self.cursor.max(seq);
    }

    /// Takes an event in.
    pub(crate) fn take_event(&mut self, committed: &CommittedEvent, policy: &ChannelPolicy) {
        self.cursor = self.cursor.max(committed.seq);
        let Some(subject) = subject_of(&committed.event) else {
            return;
        };
        if !policy.kinds.contains(&subject.kind()) {
            return;
        }
        let notice = Notice {
            seq: committed.seq,
            at: committed.at,
            agent: committed.event.agent().cloned(),
            subject,
        };
        self.add(notice);
    }

    fn add(&mut self, notice: Notice) {
        let (subject, agent) = (&notice.subject, &notice.agent);
        self.waiting.retain(|earlier| {
            // A question that an orchestrator left to people is the same question, and only the
            // newest state of an agent is of interest.
            let replaced = !subject.waits() && !earlier.subject.waits() && earlier.agent == *agent;
            earlier.subject != *subject && !replaced
        });
        if self.waiting.len() >= NOTIFY_WAITING_MAX {
            // A digest says how many asks are open, so that one which is left out here is counted.
            let Some(dropped) = self.waiting.iter().position(|old| !old.subject.waits()) else {
                return;
            };
            self.waiting.remove(dropped);
        }
        self.waiting.push(notice);
    }

    /// Says what to do now. A delivery has to be committed before it is sent.
    pub(crate) fn next_step(
        &mut self,
        policy: &ChannelPolicy,
        facts: &NotifyFacts<'_>,
    ) -> PlannerStep {
        self.forget(facts);
        if let Some(delivery) = &self.sending {
            return if facts.now < delivery.retry_at {
                PlannerStep::Wait(Some(delivery.retry_at))
            } else {
                PlannerStep::Send(delivery.clone())
            };
        }
        if let Some(focused_until) = facts.screens.focused_until(facts.now) {
            // Whoever sits in front of the page sees what agents do; an ask is told once they left.
            self.waiting.retain(|notice| notice.subject.waits());
            return self.wait_if_any(focused_until);
        }
        if let Some(end) = policy.quiet.and_then(|quiet| quiet.end_after(facts)) {
            self.held |= !self.waiting.is_empty();
            return self.wait_if_any(end);
        }
        self.choose(facts)
    }

    fn wait_if_any(&self, until: Timestamp) -> PlannerStep {
        PlannerStep::Wait((!self.waiting.is_empty()).then_some(until))
    }

    fn choose(&mut self, facts: &NotifyFacts<'_>) -> PlannerStep {
        let now = facts.now;
        let due_at: Vec<_> = self
            .waiting
            .iter()
            .map(|notice| self.due_at(notice, facts))
            .collect();
        let due = due_at.iter().filter(|at| **at <= now).count();
        if due == 0 {
            return PlannerStep::Wait(due_at.into_iter().min());
        }
        let room = NOTIFY_DIGEST_ABOVE.saturating_sub(self.told.len());
        let after_quiet = std::mem::take(&mut self.held) && due > 1;
        let is_digest = after_quiet || due > room;
        let next_digest = self.last_digest.map(|last| last.plus_ms(NOTIFY_DIGEST_MS));
        if let Some(next) = next_digest.filter(|next| is_digest && now < *next) {
            return PlannerStep::Wait(Some(next));
        }
        let mut due_at = due_at.into_iter();
        let mut left = if is_digest { usize::MAX } else { 1 };
        let chosen: Vec<Notice> = self
            .waiting
            .extract_if(.., |_| {
                let taken = left > 0 && due_at.next().is_some_and(|at| at <= now);
                left -= usize::from(taken);
                taken
            })
            .collect();
        let Some(id) = delivery_id(&chosen, is_digest) else {
            return PlannerStep::Wait(None);
        };
        let delivery = Delivery {
            id,
            notices: chosen,
            digest: is_digest,
            attempts: 0,
            retry_at: now,
        };
        self.sending = Some(delivery.clone());
        PlannerStep::Send(delivery)
    }

    fn due_at(&self, notice: &Notice, facts: &NotifyFacts<'_>) -> Timestamp {
        let opened_until = facts.screens.opened_until(notice.subject.id());
        let ready = if notice.subject.waits() {
            notice.at
        } else {
            let agent = notice.agent.as_ref();
            let told = agent.and_then(|agent| self.told_agents.get(agent));
            let pause = told.map(|told| told.plus_ms(NOTIFY_AGENT_PAUSE_MS));
            notice
                .at
                .plus_ms(NOTIFY_SETTLE_MS)
                .max(pause.unwrap_or_default())
        };
        ready.max(opened_until.unwrap_or_default())
    }

    /// Drops what is over or too old.
    fn forget(&mut self, facts: &NotifyFacts<'_>) {
        let now = facts.now;
        let still_told = |notice: &Notice| {
            let old = !notice.subject.waits() && now.ms_since(notice.at) > NOTIFY_LIFE_MS;
            !old && (facts.holds)(&notice.subject)
        };
        self.waiting.retain(still_told);
        if let Some(delivery) = &mut self.sending {
            delivery.notices.retain(still_told);
        }
        self.sending.take_if(|delivery| delivery.notices.is_empty());
        self.told.retain(|told| now.ms_since(*told) < HOUR_MS);
        self.told_agents
            .retain(|_, told| now.ms_since(*told) < NOTIFY_AGENT_PAUSE_MS);
    }

    /// The delivery arrived, or counts as if it had.
    pub(crate) fn note_told(&mut self, now: Timestamp) {
        let Some(delivery) = self.sending.take() else {
            return;
        };
        if delivery.digest {
            self.last_digest = Some(now);
        } else {
            self.told.push(now);
        }
        let agents = delivery
            .notices
            .into_iter()
            .filter_map(|notice| notice.agent);
        self.told_agents.extend(agents.map(|agent| (agent, now)));
    }

    /// The delivery did not arrive and is tried again later.
    pub(crate) fn note_failed(&mut self, now: Timestamp) {
        if let Some(delivery) = &mut self.sending {
            delivery.attempts = delivery.attempts.saturating_add(1);
            let doubled =
                NOTIFY_RETRY_MS.saturating_mul(1 << delivery.attempts.min(20).saturating_sub(1));
            delivery.retry_at = now.plus_ms(doubled.min(NOTIFY_RETRY_MS_MAX));
        }
    }

    /// The receiver will never take the delivery.
    pub(crate) fn note_refused(&mut self) {
        self.sending = None;
    }
}

fn delivery_id(notices: &[Notice], is_digest: bool) -> Option<String> {
    let last = notices.last()?;
    // With the time of the event: another record may have an event of the same number.
    let prefix = if is_digest { "digest" } else { "evt" };
    Some(format!("{prefix}_{}_{}", last.seq, last.at.0))
}

/// What an event would be told as.
pub(crate) fn subject_of(event: &Event) -> Option<NoticeSubject> {
    match event {
        Event::ApprovalRequested(asked) => Some(NoticeSubject::Ask(asked.ask.id.clone())),
        Event::QuestionAsked(asked) => Some(NoticeSubject::Question(asked.question.id.clone())),
        Event::QuestionEscalated(left) => Some(NoticeSubject::Question(left.question.clone())),
        Event::TurnEnded(ended) => Some(NoticeSubject::TurnEnded(ended.agent.clone())),
        Event::AgentStatusChanged(changed) => {
            let ended = matches!(changed.base, BaseState::Done | BaseState::Error);
            ended.then(|| NoticeSubject::Exited(changed.agent.id.clone()))
        }
        _ => None,
    }
}

/// The kinds of events that a channel has to read.
pub(crate) const KINDS_READ: [&str; 5] = [
    "approval.requested",
    "question.asked",
    "question.escalated",
    "turn.ended",
    "agent.status_changed",
];
