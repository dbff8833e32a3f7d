//! Decides whether an act of a person may answer an ask. Pure: the same events always give the same decisions.
//!
//! Invariants: an allow takes a subject whose whole content was on screen, some time since it appeared, changed or
//! the window got focus, and (unless the host says otherwise) a second act at another place, some time after the
//! first; only real, single acts count. A denial takes one act after the same time. The web page has the same guard,
//! and both pass the same cases (`web/test/guard_cases.json`).

use countersign_protocol::{DecideConfirm, HostApproval, HostEffect};

/// Acts do not count for this long after the subject appeared or changed, or the window got focus.
pub const SETTLE_MS: u64 = 500;
/// Nobody reads the question for the second act faster than this.
pub const PROMPT_MS: u64 = 250;

/// What makes an ask deserve a second look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskRisk {
    /// The host warns about it, or nobody knows whether it does.
    pub warned: bool,
    /// A rule or the built-in floor says that a person is asked; else nothing covers it.
    pub asked_by_rule: bool,
}

impl AskRisk {
    pub fn of(row: &HostApproval) -> Self {
        let parts = row.verdict.iter().flat_map(|verdict| &verdict.parts);
        Self {
            warned: row
                .view
                .as_ref()
                .is_none_or(|view| !view.warnings.is_empty()),
            asked_by_rule: parts
                .filter(|part| part.effect != HostEffect::Allow)
                .any(|part| part.floor || part.rule.is_some()),
        }
    }
}

/// Whether an allow takes a second act. The setting is about asks without warnings alone.
pub fn needs_second_act(setting: DecideConfirm, risk: AskRisk) -> bool {
    match setting {
        _ if risk.warned => true,
        DecideConfirm::Always | DecideConfirm::Unknown => true,
        DecideConfirm::Risky => risk.asked_by_rule,
        DecideConfirm::Never => false,
    }
}

/// How an act was made.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says by itself why an act does not count"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActOrigin {
    /// A program made it, not a person.
    pub scripted: bool,
    /// A key that is held down.
    pub repeated: bool,
    /// Part of an input method's composition.
    pub composed: bool,
    /// With Ctrl, Alt or Meta held.
    pub modified: bool,
    /// Comes from a paste or a drop.
    pub pasted: bool,
    /// When it was made, if it is handled later. Nobody reads faster because a screen is busy.
    pub pressed_at: Option<u64>,
}

impl ActOrigin {
    fn is_single(self) -> bool {
        // When a key was pressed says nothing about how. The time is compared with the settle time instead.
        let bare = Self {
            pressed_at: None,
            ..self
        };
        bare == Self::default()
    }

    fn press_time(self, at: u64) -> u64 {
        // A press time ahead of the clock would make a key look as if it came after the settle time.
        self.pressed_at.unwrap_or(at).min(at)
    }
}

/// What the guard is told, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardEvent<'a> {
    /// A subject is shown. `version` changes with its content; `confirm` says whether a second act is needed.
    Show {
        subject: &'a str,
        version: &'a str,
        confirm: bool,
    },
    Hide,
    /// The last unseen part of the content was on screen.
    Seen,
    /// The content was laid out anew and has to be read again.
    Unseen,
    Focus,
    Blur,
    Lost,
    Connected,
    /// The subject ended elsewhere.
    Ended,
    /// A person wants to allow; `place` is the key. With `form`, a form follows whose key is the second act.
    Allow {
        place: &'a str,
        option: Option<&'a str>,
        form: bool,
        origin: ActOrigin,
    },
    Confirm {
        place: &'a str,
        origin: ActOrigin,
    },
    Deny {
        origin: ActOrigin,
    },
    /// A person sends what they typed or chose: one act, on a subject that was read.
    Answer {
        origin: ActOrigin,
    },
    Cancel,
    /// Another key in between: somebody types, and the second act would be one of their letters.
    OtherKey,
}

/// Why an act decides nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardRefusal {
    NothingShown,
    Ended,
    NotConnected,
    NotFocused,
    NotASingleAct,
    TooSoon,
    NotSeen,
    NotAsked,
    SamePlace,
}

impl GuardRefusal {
    /// For people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::NothingShown => "nothing is selected",
            Self::Ended => "it has ended: j or k to continue",
            Self::NotConnected => "not connected: nothing can be sent",
            Self::NotFocused => "this window does not have the focus",
            Self::NotASingleAct => "key ignored: it was pasted, repeated or held with another key",
            Self::TooSoon => "key ignored: this just appeared or changed; read it first",
            Self::NotSeen => "read it to the end first: PgDn",
            Self::NotAsked => "nothing waits for a y: begin with a",
            Self::SamePlace => "key ignored: the second key is another one",
        }
    }
}

/// What may happen because of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardDecision {
    None,
    /// The first act counts, and the second is to be asked for.
    Confirm {
        subject: String,
    },
    Allow {
        subject: String,
        option: Option<String>,
        considered_ms: u64,
    },
    Deny {
        subject: String,
        considered_ms: u64,
    },
    Answer {
        subject: String,
        considered_ms: u64,
    },
    Refused(GuardRefusal),
}

/// The first act of an allow that waits for its second.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FirstAct {
    at: u64,
    place: String,
    option: Option<String>,
}

/// What is known about the subject on screen. Times are milliseconds of one monotonic clock.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about the screen"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionGuard {
    subject: Option<String>,
    version: String,
    needs_confirm: bool,
    settled_from: u64,
    focused: bool,
    connected: bool,
    ended: bool,
    seen: bool,
    first: Option<FirstAct>,
    /// Time for which the whole subject was on a focused screen, up to `counted_from`.
    considered_ms: u64,
    counted_from: Option<u64>,
}

impl DecisionGuard {
    pub fn new(focused: bool, connected: bool) -> Self {
        Self {
            subject: None,
            version: String::new(),
            needs_confirm: true,
            settled_from: 0,
            focused,
            connected,
            ended: false,
            seen: false,
            first: None,
            considered_ms: 0,
            counted_from: None,
        }
    }

    /// Takes in one event and says what may happen because of it.
    pub fn step(&mut self, event: &GuardEvent<'_>, at: u64) -> GuardDecision {
        match event {
            GuardEvent::Show {
                subject,
                version,
                confirm,
            } => self.show(subject, version, *confirm, at),
            // Focus and connection belong to the window and not to the subject: no event repeats
            // them for the next subject.
            GuardEvent::Hide => *self = Self::new(self.focused, self.connected),
            GuardEvent::Seen => {
                self.seen = true;
                self.count_time(at);
            }
            GuardEvent::Unseen => {
                // The time until now was spent on a subject that was read to its end, so it still counts.
                self.count_time(at);
                self.seen = false;
                self.counted_from = None;
            }
            GuardEvent::Focus => self.restart(at, |guard| guard.focused = true),
            GuardEvent::Blur => self.restart(at, |guard| guard.focused = false),
            GuardEvent::Lost => self.restart(at, |guard| guard.connected = false),
            GuardEvent::Connected => self.restart(at, |guard| guard.connected = true),
            GuardEvent::Ended => self.restart(at, |guard| guard.ended = true),
            GuardEvent::Cancel | GuardEvent::OtherKey => self.first = None,
            GuardEvent::Allow {
                place,
                option,
                form,
                origin,
            } => return self.allow(place, *option, *form, *origin, at),
            GuardEvent::Confirm { place, origin } => return self.confirm(place, *origin, at),
            GuardEvent::Deny { origin } => return self.deny(*origin, at),
            GuardEvent::Answer { origin } => return self.answer(*origin, at),
        }
        GuardDecision::None
    }

    /// Why an allow is not possible now, whatever the act. Screens show it beside keys that do not count yet.
    pub fn refusal_of_allow(&self, at: u64) -> Option<GuardRefusal> {
        self.refusal_of_act(ActOrigin::default(), at)
            .or((!self.seen).then_some(GuardRefusal::NotSeen))
    }

    /// The same for a denial.
    pub fn refusal_of_deny(&self, at: u64) -> Option<GuardRefusal> {
        self.refusal_of_act(ActOrigin::default(), at)
    }

    /// When the second act begins to count, while one is waited for.
    pub fn confirmable_from(&self) -> Option<u64> {
        let first = self.first.as_ref()?;
        Some((first.at + PROMPT_MS).max(self.settled_from + SETTLE_MS))
    }

    /// When acts on what is shown begin to count.
    pub fn settled_at(&self) -> u64 {
        self.settled_from + SETTLE_MS
    }

    /// Whether all of it was on screen.
    pub fn is_seen(&self) -> bool {
        self.seen
    }

    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// How long the whole subject was on a focused screen.
    pub fn considered_ms(&self, at: u64) -> u64 {
        let running = self.counted_from.map_or(0, |from| at.saturating_sub(from));
        self.considered_ms + running
    }

    fn show(&mut self, subject: &str, version: &str, confirm: bool, at: u64) {
        // An event may repeat what is shown. It must not restart the time of an ask that looks the same as before.
        let is_same = self.subject.as_deref() == Some(subject) && self.version == version;
        if !is_same {
            *self = Self {
                subject: Some(subject.to_owned()),
                version: version.to_owned(),
                settled_from: at,
                ..Self::new(self.focused, self.connected)
            };
        }
        // Also for a subject that is shown already: the setting can change without a new version.
        self.needs_confirm = confirm;
    }

    /// Something changed around the subject: an act that was under way is void, and the time begins again.
    fn restart(&mut self, at: u64, change: impl FnOnce(&mut Self)) {
        change(self);
        // An act that began before the change was about what was shown then.
        self.first = None;
        self.settled_from = at;
        // After the change, because it decides whether time counts from here on.
        self.count_time(at);
    }

    /// Adds the time until now, and continues to count if the subject is whole on a focused screen.
    fn count_time(&mut self, at: u64) {
        let counts = self.subject.is_some() && self.seen && self.focused && !self.ended;
        self.considered_ms = self.considered_ms(at);
        self.counted_from = counts.then_some(at);
    }

    /// Why an act decides nothing, whatever it wants.
    pub fn refusal_of_act(&self, origin: ActOrigin, at: u64) -> Option<GuardRefusal> {
        if !origin.is_single() {
            return Some(GuardRefusal::NotASingleAct);
        }
        if self.subject.is_none() {
            return Some(GuardRefusal::NothingShown);
        }
        if self.ended {
            return Some(GuardRefusal::Ended);
        }
        if !self.connected {
            return Some(GuardRefusal::NotConnected);
        }
        if !self.focused {
            return Some(GuardRefusal::NotFocused);
        }
        (origin.press_time(at) < self.settled_from + SETTLE_MS).then_some(GuardRefusal::TooSoon)
    }

    fn refusal_of_read_act(&self, origin: ActOrigin, at: u64) -> Option<GuardRefusal> {
        self.refusal_of_act(origin, at)
            .or((!self.seen).then_some(GuardRefusal::NotSeen))
    }

    fn allow(
        &mut self,
        place: &str,
        option: Option<&str>,
        form: bool,
        origin: ActOrigin,
        at: u64,
    ) -> GuardDecision {
        if let Some(refusal) = self.refusal_of_read_act(origin, at) {
            return GuardDecision::Refused(refusal);
        }
        let option = option.map(str::to_owned);
        if !self.needs_confirm && !form {
            self.first = None;
            return self.allowed(option, at);
        }
        self.first = Some(FirstAct {
            at,
            place: place.to_owned(),
            option,
        });
        GuardDecision::Confirm {
            subject: self.subject.clone().unwrap_or_default(),
        }
    }

    fn confirm(&mut self, place: &str, origin: ActOrigin, at: u64) -> GuardDecision {
        let refusal = self
            .refusal_of_read_act(origin, at)
            .or(self.refusal_of_second(place, origin.press_time(at)));
        if let Some(refusal) = refusal {
            return GuardDecision::Refused(refusal);
        }
        // Taken and not copied, so that one first act leads to one allow.
        let option = self.first.take().and_then(|first| first.option);
        self.allowed(option, at)
    }

    fn refusal_of_second(&self, place: &str, pressed_at: u64) -> Option<GuardRefusal> {
        let Some(first) = &self.first else {
            return Some(GuardRefusal::NotAsked);
        };
        if pressed_at < first.at + PROMPT_MS {
            return Some(GuardRefusal::TooSoon);
        }
        (place == first.place).then_some(GuardRefusal::SamePlace)
    }

    fn deny(&mut self, origin: ActOrigin, at: u64) -> GuardDecision {
        // Not the refusal of a read act: nothing runs because of a denial, so a person may stop an
        // ask without reading it to its end.
        if let Some(refusal) = self.refusal_of_act(origin, at) {
            return GuardDecision::Refused(refusal);
        }
        self.first = None;
        GuardDecision::Deny {
            subject: self.subject.clone().unwrap_or_default(),
            considered_ms: self.considered_ms(at),
        }
    }

    fn answer(&mut self, origin: ActOrigin, at: u64) -> GuardDecision {
        if let Some(refusal) = self.refusal_of_read_act(origin, at) {
            return GuardDecision::Refused(refusal);
        }
        self.first = None;
        GuardDecision::Answer {
            subject: self.subject.clone().unwrap_or_default(),
            considered_ms: self.considered_ms(at),
        }
    }

    fn allowed(&self, option: Option<String>, at: u64) -> GuardDecision {
        GuardDecision::Allow {
            subject: self.subject.clone().unwrap_or_default(),
            option,
            considered_ms: self.considered_ms(at),
        }
    }
}

#[cfg(test)]
mod tests;
