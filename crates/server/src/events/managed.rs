//! Words for what happens to agents that the host runs.

use countersign_core::Event;

/// What to tell people; `None` for events of other kinds. The payload stays as it is stored.
pub(super) fn words(event: &Event) -> Option<String> {
    Some(match event {
        Event::AgentSpawned(e) => format!("{} was started by {}", e.agent.name, e.by.name),
        Event::WorktreeChanged(e) => match &e.worktree {
            Some(worktree) => format!("{} works in {}", e.agent, worktree.path),
            None => format!("the worktree of {} was removed", e.agent),
        },
        Event::AgentStopRequested(e) => format!("{} was killed by {}", e.agent, e.by.name),
        Event::AgentExited(e) => format!("{} ended: {}", e.agent, e.message),
        Event::AgentRenamed(e) => format!("{} was renamed to {}", e.agent, e.name),
        Event::AgentArchived(e) if e.archived => {
            format!("{} was archived by {}", e.agent, e.by.name)
        }
        Event::AgentArchived(e) => format!("{} was restored by {}", e.agent, e.by.name),
        Event::AgentConfigured(e) => format!("{} was configured by {}", e.agent, e.by.name),
        Event::MessageQueued(e) => format!("{} sent a message to {}", e.message.by.name, e.agent),
        Event::MessagesDropped(e) => format!("messages to {} were dropped: {}", e.agent, e.reason),
        Event::ParentNotified(e) => format!("{} says: {}", e.agent, e.text),
        Event::AgentCeilingChanged(e) => match &e.ceiling {
            Some(ceiling) => format!(
                "{} may approve {} for the agents it started, set by {}",
                e.agent,
                ceiling.rules.join(", "),
                e.by.name
            ),
            None => format!("{} may approve nothing for the agents it started", e.agent),
        },
        Event::QuestionEscalated(e) => {
            format!(
                "{} was not answered by an orchestrator: people are asked",
                e.question
            )
        }
        Event::TurnStarted(e) => format!("{} started turn {}", e.agent, e.turn),
        Event::TurnInterrupted(e) => {
            let why = e.reason.as_deref().map(|why| format!(": {why}"));
            let who = &e.by.name;
            format!(
                "{} was interrupted in turn {} by {who}{}",
                e.agent,
                e.turn,
                why.unwrap_or_default()
            )
        }
        Event::TurnEnded(e) => {
            let what = e.message.as_deref().map(|what| format!(", {what}"));
            format!(
                "{} ended turn {}: {}{}",
                e.agent,
                e.turn,
                e.reason,
                what.unwrap_or_default()
            )
        }
        _ => return None,
    })
}
