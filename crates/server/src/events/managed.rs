//! Messages about what happens to agents that the host runs.

use countersign_core::event::TranscriptEntry;
use countersign_core::{AgentId, Event, truncate_with_ellipsis};

use super::shown_name;
use crate::convert::AgentNames;

/// How much of a text is in a message; the whole of it is in the payload.
const EXCERPT_BYTES: usize = 120;

/// The message for people; `None` for events of other kinds. The payload stays as it is stored.
pub(super) fn message(event: &Event, names: AgentNames<'_>) -> Option<String> {
    let name = |agent: &AgentId| shown_name(agent, names);
    Some(match event {
        Event::AgentSpawned(e) => format!("{} was started by {}", e.agent.name, e.by.name),
        Event::WorktreeChanged(e) => match &e.worktree {
            Some(worktree) => format!("{} works in {}", name(&e.agent), worktree.path),
            None => format!("the worktree of {} was removed", name(&e.agent)),
        },
        Event::AgentStopRequested(e) => format!("{} was killed by {}", name(&e.agent), e.by.name),
        Event::AgentExited(e) => format!("{} ended: {}", name(&e.agent), e.message),
        Event::AgentRenamed(e) => format!("{} was renamed to {}", e.agent, e.name),
        Event::AgentArchived(e) if e.archived => {
            format!("{} was archived by {}", name(&e.agent), e.by.name)
        }
        Event::AgentArchived(e) => format!("{} was restored by {}", name(&e.agent), e.by.name),
        Event::AgentConfigured(e) => format!("{} was configured by {}", name(&e.agent), e.by.name),
        Event::MessageQueued(e) => format!(
            "{} sent a message to {}: {}",
            e.message.by.name,
            name(&e.agent),
            truncate_with_ellipsis(&e.message.text, EXCERPT_BYTES)
        ),
        Event::TranscriptAdded(e) => {
            let entries = e.entries.iter().map(describe_entry);
            let entries: Vec<String> = entries.collect();
            format!("{} {}", name(&e.agent), entries.join("; "))
        }
        Event::MessageWithdrawn(e) => format!(
            "{} withdrew a message to {}: {}",
            e.by.name,
            name(&e.agent),
            truncate_with_ellipsis(&e.text, EXCERPT_BYTES)
        ),
        Event::MessagesDropped(e) => {
            format!("messages to {} were dropped: {}", name(&e.agent), e.reason)
        }
        Event::ParentNotified(e) => format!("{} says: {}", name(&e.agent), e.text),
        Event::AgentCeilingChanged(e) => match &e.ceiling {
            Some(ceiling) => format!(
                "{} may approve {} for the agents it started, set by {}",
                name(&e.agent),
                ceiling.rules.join(", "),
                e.by.name
            ),
            None => format!(
                "{} may approve nothing for the agents it started",
                name(&e.agent)
            ),
        },
        Event::QuestionEscalated(e) => {
            format!(
                "{} was not answered by an orchestrator: people are asked",
                e.question
            )
        }
        Event::TurnStarted(e) => format!("{} started turn {}", name(&e.agent), e.turn),
        Event::TurnInterrupted(e) => {
            let why = e.reason.as_deref().map(|why| format!(": {why}"));
            let who = &e.by.name;
            format!(
                "{} was interrupted in turn {} by {who}{}",
                name(&e.agent),
                e.turn,
                why.unwrap_or_default()
            )
        }
        Event::TurnEnded(e) => {
            let what = e.message.as_deref().map(|what| format!(", {what}"));
            format!(
                "{} ended turn {}: {}{}",
                name(&e.agent),
                e.turn,
                e.reason,
                what.unwrap_or_default()
            )
        }
        _ => return None,
    })
}

fn describe_entry(entry: &TranscriptEntry) -> String {
    match entry {
        TranscriptEntry::User { text, .. } => excerpt("was told", text),
        TranscriptEntry::Assistant { text } => excerpt("said", text),
        TranscriptEntry::Thinking { text } => excerpt("thought", text),
        TranscriptEntry::Notice { text } => excerpt("notice", text),
        TranscriptEntry::ToolUse { title, tool, .. } => {
            let title = title.as_ref().or(tool.as_ref());
            excerpt("used a tool", title.map_or("", String::as_str))
        }
        TranscriptEntry::ToolResult { text, .. } => excerpt("got a result", text),
        TranscriptEntry::Plan { .. } => "changed its plan".to_owned(),
        TranscriptEntry::Other { .. } => "sent another update".to_owned(),
    }
}

fn excerpt(what: &str, text: &str) -> String {
    format!("{what}: {}", truncate_with_ellipsis(text, EXCERPT_BYTES))
}
