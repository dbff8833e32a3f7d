//! Words for what happens to agents that the host runs.

use countersign_core::Event;

/// What to tell people; `None` for events of other kinds. The payload stays as it is stored.
pub(super) fn words(event: &Event) -> Option<String> {
    Some(match event {
        Event::AgentSpawned(e) => format!("{} was started by {}", e.agent.name, e.by.name),
        Event::WorktreeChanged(e) => match &e.worktree {
            Some(worktree) => format!("{} works in {}", e.agent, worktree.path),
            None => format!("{} has no worktree any more", e.agent),
        },
        Event::AgentStopRequested(e) => format!("{} is being ended by {}", e.agent, e.by.name),
        Event::AgentExited(e) => format!("{} ended: {}", e.agent, e.message),
        Event::AgentRenamed(e) => format!("{} is called {} now", e.agent, e.name),
        Event::AgentArchived(e) if e.archived => {
            format!("{} was put away by {}", e.agent, e.by.name)
        }
        Event::AgentArchived(e) => format!("{} was taken out again by {}", e.agent, e.by.name),
        Event::AgentConfigured(e) => format!("{} was configured by {}", e.agent, e.by.name),
        Event::MessageQueued(e) => format!("{} tells {} something", e.message.by.name, e.agent),
        Event::MessagesDropped(e) => format!("{} is not told: {}", e.agent, e.reason),
        Event::ParentNotified(e) => format!("{} says: {}", e.agent, e.text),
        Event::AgentCeilingChanged(e) => match &e.ceiling {
            Some(ceiling) => format!(
                "{} may settle {} for those below it, by {}",
                e.agent,
                ceiling.rules.join(", "),
                e.by.name
            ),
            None => format!("{} may settle nothing for those below it", e.agent),
        },
        Event::QuestionEscalated(e) => {
            format!(
                "No orchestrator has answered {}: people are asked",
                e.question
            )
        }
        Event::TurnStarted(e) => format!("{} began turn {}", e.agent, e.turn),
        Event::TurnInterrupted(e) => {
            let why = e.reason.as_deref().map(|why| format!(": {why}"));
            let who = &e.by.name;
            format!(
                "{} was told to end turn {} by {who}{}",
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
