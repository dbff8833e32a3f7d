//! What a message says: a title, a line of text, and where to read on.
//!
//! Invariants: text of agents is escaped and short; whatever is cut says so; only a message about one
//! open ask that can be denied carries an address to deny it, and none carries one that allows.

use std::sync::Arc;

use countersign_core::event::{AgentState, QuestionText};
use countersign_core::limits::NOTIFY_TEXT_CHARS_MAX;
use countersign_core::{AgentId, Ask, AskView, DENY, State, TextLayout, visible};
use countersign_notify::NotifyMessage;

use super::deny_link::DenyLinks;
use super::planner::{Delivery, NoticeSubject};

/// How much of what agents say may leave the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeContent {
    /// Names of agents and tools.
    Names,
    /// What they ask as well.
    Full,
}

const CUT: &str = "… (open to read all)";

/// What a notice is about, as it is now.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NoticeDetail {
    Ask {
        ask: Arc<Ask>,
        agent: Option<String>,
    },
    Question {
        question: Arc<QuestionText>,
        agent: Option<String>,
    },
    Agent {
        id: AgentId,
        name: String,
        state: AgentState,
    },
}

impl NoticeDetail {
    /// `None` if what the notice says is no longer so.
    pub(super) fn find(state: &State, subject: &NoticeSubject) -> Option<Self> {
        match subject {
            NoticeSubject::Ask(id) => {
                let found = state.find_approval(id)?;
                found.is_pending().then(|| Self::Ask {
                    ask: found.ask.clone(),
                    agent: find_name(state, found.ask.agent.as_ref()),
                })
            }
            NoticeSubject::Question(id) => {
                let found = state.find_question(id)?;
                (found.is_pending() && found.is_for_people()).then(|| Self::Question {
                    question: found.text.clone(),
                    agent: find_name(state, found.text.agent.as_ref()),
                })
            }
            NoticeSubject::Exited(id) => {
                find_agent(state, id, &[AgentState::Done, AgentState::Error])
            }
            NoticeSubject::TurnEnded(id) => find_agent(state, id, &[AgentState::Idle]),
        }
    }
}

fn find_name(state: &State, agent: Option<&AgentId>) -> Option<String> {
    let agent = state.find_agent(agent?)?;
    Some(agent.profile.name.clone())
}

fn find_agent(state: &State, id: &AgentId, wanted: &[AgentState]) -> Option<NoticeDetail> {
    let agent = state.find_agent(id)?;
    let found = agent.state(state.open_of(id));
    wanted.contains(&found).then(|| NoticeDetail::Agent {
        id: id.clone(),
        name: agent.profile.name.clone(),
        state: found,
    })
}

/// What a message is made from.
pub(super) struct MessageParts<'a> {
    pub(super) delivery: &'a Delivery,
    pub(super) details: Vec<NoticeDetail>,
    /// All asks and questions that are open, told or not.
    pub(super) open: usize,
    pub(super) content: NoticeContent,
    pub(super) public_url: Option<String>,
    pub(super) deny_links: &'a DenyLinks<'a>,
}

impl MessageParts<'_> {
    /// `None` if nothing of it is so any more.
    pub(super) fn compose(&self) -> Option<NotifyMessage> {
        let first = self.details.first()?;
        let at = self.delivery.notices.last()?.at;
        let kind = self.delivery.notices.first()?.subject.kind().name();
        let text = match self.details.len() {
            1 => self.describe_one(first),
            _ => self.describe_many(),
        };
        let subject = match first {
            NoticeDetail::Ask { ask, .. } => Some(ask.id.to_string()),
            NoticeDetail::Question { question, .. } => Some(question.id.to_string()),
            NoticeDetail::Agent { id, .. } => Some(id.to_string()),
        };
        let waits = self
            .details
            .iter()
            .any(|detail| !matches!(detail, NoticeDetail::Agent { .. }));
        let is_one = self.details.len() == 1;
        Some(NotifyMessage {
            id: self.delivery.id.clone(),
            kind: if is_one { kind } else { "digest" },
            title: text.title,
            text: shorten(&text.body),
            public_url: self.public_url.clone(),
            path: Some(text.path),
            deny_path: self.deny_links.path_for(first).filter(|_| is_one),
            agent: text.agent,
            subject: subject.filter(|_| is_one),
            at,
            waits,
        })
    }

    fn describe_one(&self, detail: &NoticeDetail) -> MessageText {
        match detail {
            NoticeDetail::Ask { ask, agent } => {
                let who = agent.as_deref().map_or_else(|| line(&ask.by.name), line);
                let tool = ask
                    .tool
                    .as_deref()
                    .map_or_else(|| "permission".to_owned(), line);
                MessageText {
                    title: shorten(&format!("{who} asks: {tool}")),
                    body: self.body_of(|| ask_summary(ask)),
                    path: format!("/ask/{}", ask.id),
                    agent: agent.as_deref().map(line),
                }
            }
            NoticeDetail::Question { question, agent } => {
                let who = agent
                    .as_deref()
                    .map_or_else(|| line(&question.by.name), line);
                MessageText {
                    title: shorten(&format!("{who} has a question")),
                    body: self.body_of(|| line(&question.text)),
                    path: format!("/ask/{}", question.id),
                    agent: agent.as_deref().map(line),
                }
            }
            NoticeDetail::Agent { id, name, state } => {
                let name = line(name);
                let (title, body) = match state {
                    AgentState::Error => ("failed", "It ended with an error."),
                    AgentState::Done => ("is done", "It ended."),
                    _ => ("is idle", "Its turn ended."),
                };
                MessageText {
                    title: shorten(&format!("{name} {title}")),
                    body: body.to_owned(),
                    path: format!("/agents/{id}"),
                    agent: Some(name),
                }
            }
        }
    }

    fn body_of(&self, full: impl FnOnce() -> String) -> String {
        match self.content {
            NoticeContent::Full => full(),
            NoticeContent::Names => "Open to read it.".to_owned(),
        }
    }

    fn describe_many(&self) -> MessageText {
        let agents = self
            .details
            .iter()
            .filter(|detail| matches!(detail, NoticeDetail::Agent { .. }));
        let agents = agents.count();
        let title = match (self.details.len() > agents, agents) {
            (true, _) => format!("{} wait for you", count(self.open, "ask")),
            (false, agents) => format!("{} ended a turn or are over", count(agents, "agent")),
        };
        let mut names: Vec<String> = Vec::new();
        for detail in &self.details {
            let name = match detail {
                NoticeDetail::Ask { agent, .. } | NoticeDetail::Question { agent, .. } => {
                    agent.as_deref()
                }
                NoticeDetail::Agent { name, .. } => Some(name.as_str()),
            };
            let name = name.map_or_else(|| "somebody".to_owned(), line);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        MessageText {
            title,
            body: format!("from {}", names.join(", ")),
            path: if self.details.len() > agents {
                "/"
            } else {
                "/agents"
            }
            .to_owned(),
            agent: None,
        }
    }
}

struct MessageText {
    title: String,
    body: String,
    path: String,
    agent: Option<String>,
}

fn count(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// What an ask is about, in the words that every screen shows. The title has the tool's name already.
fn ask_summary(ask: &Ask) -> String {
    let summary = AskView::short(ask, &ask.choice_questions(), None).summary;
    let tool = ask.tool.as_deref().map(|tool| format!("{}: ", line(tool)));
    let named = tool.and_then(|tool| summary.strip_prefix(&tool).map(str::to_owned));
    named.unwrap_or(summary)
}

fn line(text: &str) -> String {
    visible(text, TextLayout::Line).into_owned()
}

/// At most [`NOTIFY_TEXT_CHARS_MAX`] characters, and a word that something is missing.
fn shorten(text: &str) -> String {
    if text.chars().count() <= NOTIFY_TEXT_CHARS_MAX {
        return text.to_owned();
    }
    let kept = NOTIFY_TEXT_CHARS_MAX - CUT.chars().count();
    text.chars().take(kept).chain(CUT.chars()).collect()
}

/// Whether a denial can be given without looking at the ask.
pub(super) fn can_be_denied(ask: &Ask) -> bool {
    ask.options
        .iter()
        .any(|option| option == DENY && !ask.approving.contains(option))
}

#[cfg(test)]
mod tests {
    use countersign_core::{ApprovalId, Seq, Timestamp};
    use countersign_notify::NotifyKeys;
    use serde_json::json;

    use super::super::planner::Notice;
    use super::super::test_support;
    use super::*;

    fn delivery(count: u64) -> Delivery {
        let notices = (1..=count).map(|seq| Notice {
            seq: Seq(seq),
            at: Timestamp(seq),
            subject: NoticeSubject::Ask(ApprovalId::new("approval-1")),
            agent: None,
        });
        Delivery::new("evt_1_1", notices.collect())
    }

    fn ask_detail(fields: serde_json::Value) -> NoticeDetail {
        NoticeDetail::Ask {
            ask: Arc::new(test_support::ask(fields)),
            agent: Some("fix".to_owned()),
        }
    }

    fn compose(details: Vec<NoticeDetail>, content: NoticeContent) -> NotifyMessage {
        let keys = NotifyKeys::generate().unwrap();
        let count = u64::try_from(details.len()).unwrap();
        let parts = MessageParts {
            delivery: &delivery(count),
            details,
            open: 7,
            content,
            public_url: Some("https://box.example".to_owned()),
            deny_links: &DenyLinks {
                keys: &keys,
                channel: "ntfy",
            },
        };
        let mut message = parts.compose().unwrap();
        // The code is random; that it is there is what counts.
        message.deny_path = message.deny_path.map(|path| path[..13].to_owned());
        message
    }

    fn bash(command: &str) -> NoticeDetail {
        ask_detail(json!({"tool": "Bash", "input": {"command": command}}))
    }

    #[test]
    fn an_ask_says_who_wants_to_do_what() {
        let expected = NotifyMessage {
            id: "evt_1_1".to_owned(),
            kind: "approval.requested",
            title: "fix asks: Bash".to_owned(),
            text: "cargo test\\u{202e}\\n&& x".to_owned(),
            public_url: Some("https://box.example".to_owned()),
            path: Some("/ask/approval-1".to_owned()),
            deny_path: Some("/notify/deny/".to_owned()),
            agent: Some("fix".to_owned()),
            subject: Some("approval-1".to_owned()),
            at: Timestamp(1),
            waits: true,
        };
        let full = compose(vec![bash("cargo test\u{202e}\n&& x")], NoticeContent::Full);
        assert_eq!(full, expected);
        let names = compose(vec![bash("cargo test")], NoticeContent::Names);
        let expected = NotifyMessage {
            text: "Open to read it.".to_owned(),
            ..expected
        };
        assert_eq!(names, expected);
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let message = compose(vec![bash(&"x".repeat(500))], NoticeContent::Full);
        assert_eq!(message.text, format!("{}{CUT}", "x".repeat(120)));
        assert_eq!(message.text.chars().count(), NOTIFY_TEXT_CHARS_MAX);
        let exact = "é".repeat(NOTIFY_TEXT_CHARS_MAX);
        assert_eq!(compose(vec![bash(&exact)], NoticeContent::Full).text, exact);
    }

    #[test]
    fn an_ask_without_a_plain_denial_has_no_address_to_deny_it() {
        for fields in [
            json!({"options": ["yes", "no"], "approving": ["yes"]}),
            json!({"options": ["deny"], "approving": ["deny"]}),
        ] {
            let message = compose(vec![ask_detail(fields)], NoticeContent::Full);
            assert_eq!(message.deny_path, None);
        }
    }

    #[test]
    fn a_digest_says_how_many_wait_and_denies_nothing() {
        let agent = NoticeDetail::Agent {
            id: AgentId::new("agent-1"),
            name: "docs".to_owned(),
            state: AgentState::Idle,
        };
        let message = compose(vec![bash("a"), bash("b"), agent], NoticeContent::Names);
        let expected = NotifyMessage {
            id: "evt_1_1".to_owned(),
            kind: "digest",
            title: "7 asks wait for you".to_owned(),
            text: "from fix, docs".to_owned(),
            public_url: Some("https://box.example".to_owned()),
            path: Some("/".to_owned()),
            deny_path: None,
            agent: None,
            subject: None,
            at: Timestamp(3),
            waits: true,
        };
        assert_eq!(message, expected);
    }

    #[test]
    fn an_agent_that_rests_is_told_in_a_word() {
        let told = [AgentState::Idle, AgentState::Done, AgentState::Error].map(|state| {
            let agent = NoticeDetail::Agent {
                id: AgentId::new("agent-1"),
                name: "docs".to_owned(),
                state,
            };
            let message = compose(vec![agent], NoticeContent::Full);
            (message.title, message.waits, message.path)
        });
        let path = || Some("/agents/agent-1".to_owned());
        let expected = [
            ("docs is idle".to_owned(), false, path()),
            ("docs is done".to_owned(), false, path()),
            ("docs failed".to_owned(), false, path()),
        ];
        assert_eq!(told, expected);
    }
}
