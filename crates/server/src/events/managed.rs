//! Messages about what happens to agents that the host runs.

use countersign_core::event::{
    AgentCeilingChanged, TranscriptAdded, TranscriptEntry, TurnEnded, TurnInterrupted,
    WorktreeChanged,
};
use countersign_core::{Event, truncate_with_ellipsis};

use super::shown_name;
use crate::convert::AgentNames;

/// How much of a text is in a message; the whole of it is in the payload.
const EXCERPT_BYTES: usize = 120;

/// The message for people; `None` for events of other kinds. The payload stays as it is stored.
pub(super) fn message(event: &Event, names: AgentNames<'_>) -> Option<String> {
    Some(match event {
        Event::AgentSpawned(e) => format!("{} was started by {}", e.agent.name, e.by.name),
        Event::TerminalOpened(e) => {
            let what = format!("{} opened a terminal in {}", e.by.name, e.cwd);
            excerpt(&what, &e.command)
        }
        Event::TerminalEnded(e) => match &e.by {
            Some(by) => format!("{} closed terminal {}", by.name, e.terminal),
            None => format!("terminal {} ended", e.terminal),
        },
        Event::WorktreeChanged(e) => worktree_changed(&shown_name(&e.agent, names), e),
        Event::AgentStopRequested(e) => {
            let name = shown_name(&e.agent, names);
            format!("{name} was killed by {}", e.by.name)
        }
        Event::AgentExited(e) => format!("{} ended: {}", shown_name(&e.agent, names), e.message),
        Event::AgentRenamed(e) => format!("{} was renamed to {}", e.agent, e.name),
        Event::AgentArchived(e) => {
            let name = shown_name(&e.agent, names);
            let what = if e.archived { "archived" } else { "restored" };
            format!("{name} was {what} by {}", e.by.name)
        }
        Event::AgentConfigured(e) => {
            let name = shown_name(&e.agent, names);
            format!("{name} was configured by {}", e.by.name)
        }
        Event::MessageQueued(e) => {
            let name = shown_name(&e.agent, names);
            let what = format!("{} sent a message to {name}", e.message.by.name);
            excerpt(&what, &e.message.text)
        }
        Event::MessageWithdrawn(e) => {
            let name = shown_name(&e.agent, names);
            excerpt(
                &format!("{} withdrew a message to {name}", e.by.name),
                &e.text,
            )
        }
        Event::MessagesDropped(e) => {
            let name = shown_name(&e.agent, names);
            format!("messages to {name} were dropped: {}", e.reason)
        }
        Event::TranscriptAdded(e) => transcript_added(&shown_name(&e.agent, names), e),
        Event::ParentNotified(e) => format!("{} says: {}", shown_name(&e.agent, names), e.text),
        Event::AgentCeilingChanged(e) => ceiling_changed(&shown_name(&e.agent, names), e),
        Event::QuestionEscalated(e) => {
            let id = &e.question;
            format!("{id} was not answered by an orchestrator: people are asked")
        }
        Event::TurnStarted(e) => {
            format!("{} started turn {}", shown_name(&e.agent, names), e.turn)
        }
        Event::TurnInterrupted(e) => turn_interrupted(&shown_name(&e.agent, names), e),
        Event::TurnEnded(e) => turn_ended(&shown_name(&e.agent, names), e),
        _ => return None,
    })
}

fn worktree_changed(name: &str, event: &WorktreeChanged) -> String {
    match &event.worktree {
        Some(worktree) => format!("{name} works in {}", worktree.path),
        None => format!("the worktree of {name} was removed"),
    }
}

fn transcript_added(name: &str, event: &TranscriptAdded) -> String {
    let entries: Vec<String> = event.entries.iter().map(describe_entry).collect();
    format!("{name} {}", entries.join("; "))
}

fn ceiling_changed(name: &str, event: &AgentCeilingChanged) -> String {
    let Some(ceiling) = &event.ceiling else {
        return format!("{name} may approve nothing for the agents it started");
    };
    let rules = ceiling.rules.join(", ");
    let by = &event.by.name;
    format!("{name} may approve {rules} for the agents it started, set by {by}")
}

fn turn_interrupted(name: &str, event: &TurnInterrupted) -> String {
    let why = event.reason.as_deref().map(|why| format!(": {why}"));
    let (turn, by) = (event.turn, &event.by.name);
    let why = why.unwrap_or_default();
    format!("{name} was interrupted in turn {turn} by {by}{why}")
}

fn turn_ended(name: &str, event: &TurnEnded) -> String {
    let what = event.message.as_deref().map(|what| format!(", {what}"));
    let (turn, reason) = (event.turn, &event.reason);
    format!(
        "{name} ended turn {turn}: {reason}{}",
        what.unwrap_or_default()
    )
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
