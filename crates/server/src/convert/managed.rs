//! Agents that the host runs, as the wire has them.

use countersign_core::event::{
    AgentRole, AgentSandbox, Ceiling, EnvVar, OfferedChoice, OfferedCommand, PlanStep, Protocol,
    TerminalBackend, TokenUsage, ToolStatus, TranscriptEntry, Worktree,
};
use countersign_core::limits::QUEUED_TEXT_SHOWN;
use countersign_core::{ManagedAgent, Turn, truncate_text};
use countersign_daemon::catalog::ResolvedAgent;
use countersign_daemon::{CatalogEntry, MergeOutcome, TranscriptPage, WorktreeOutcome};
use countersign_protocol as wire;

use crate::api_error::ApiError;
use crate::ops::managed::WaitingMessage;

use super::{AgentNames, name_of, raw, time, who};

pub(crate) fn managed(managed: &ManagedAgent, names: AgentNames<'_>) -> wire::ManagedRow {
    let options = &managed.options;
    wire::ManagedRow {
        agent: options.agent.clone(),
        allowed_tools: options.allowed_tools.clone(),
        archived: managed.archived,
        ceiling: managed.ceiling.as_ref().map(ceiling),
        command: options.command.clone(),
        commands: slash_commands(managed.offers.commands.as_deref()),
        cwd: managed.folder().to_owned(),
        disallowed_tools: options.disallowed_tools.clone(),
        ended_at: managed.ended_at.map(time),
        env: options.env.iter().map(variable).collect(),
        labels: options.labels.clone(),
        last_activity: time(managed.last_activity),
        message: managed.message.clone(),
        mode: managed.mode.clone(),
        model: managed.model.clone(),
        models: choices(managed.offers.models.as_deref()),
        modes: choices(managed.offers.modes.as_deref()),
        parent: options.parent.as_ref().map(ToString::to_string),
        parent_name: name_of(options.parent.as_ref(), names),
        plan: managed.plan.steps.iter().map(step).collect(),
        queued: managed.queue.len(),
        resumable: managed.resumable,
        role: options
            .role
            .map(|AgentRole::Orchestrator| wire::HostAgentRole::Orchestrator),
        run: managed.run,
        sandbox: managed.sandbox.as_ref().map(sandbox),
        session: managed.session.clone(),
        title: managed.title.clone(),
        turn: managed.turn.as_ref().map(turn),
        turns: managed.turns,
        usage: usage(managed.usage()),
        worktree: managed.worktree.as_ref().map(worktree),
    }
}

/// The role that a caller names. An unknown one gives no rights.
pub(crate) fn agent_role(role: wire::HostAgentRole) -> Option<AgentRole> {
    match role {
        wire::HostAgentRole::Orchestrator => Some(AgentRole::Orchestrator),
        wire::HostAgentRole::Unknown => None,
    }
}

fn choices(offered: Option<&[OfferedChoice]>) -> Vec<wire::ChoiceRow> {
    let offered = offered.unwrap_or_default().iter();
    let rows = offered.map(|choice| wire::ChoiceRow {
        description: choice.description.clone(),
        id: choice.id.clone(),
        name: choice.name.clone(),
    });
    rows.collect()
}

fn slash_commands(offered: Option<&[OfferedCommand]>) -> Vec<wire::SlashCommandRow> {
    let offered = offered.unwrap_or_default().iter();
    let rows = offered.map(|command| wire::SlashCommandRow {
        description: command.description.clone(),
        hint: command.hint.clone(),
        name: command.name.clone(),
    });
    rows.collect()
}

/// Where commands are to run.
pub(crate) fn terminal_backend(named: Option<&str>) -> Result<TerminalBackend, ApiError> {
    match named {
        None | Some("host") => Ok(TerminalBackend::Host),
        Some("editor") => Ok(TerminalBackend::Editor),
        Some("none") => Ok(TerminalBackend::None),
        Some(_) => Err(ApiError::plain(
            wire::Reason::InvalidParams,
            "terminals must be `host`, `editor` or `none`",
        )),
    }
}

pub(super) fn sandbox(sandbox: &AgentSandbox) -> wire::SandboxRow {
    wire::SandboxRow {
        profile: sandbox.profile.clone(),
        level: sandbox.level.as_str().to_owned(),
        terminals: (sandbox.terminals != TerminalBackend::Host)
            .then(|| sandbox.terminals.as_str().to_owned()),
    }
}

fn ceiling(ceiling: &Ceiling) -> wire::CeilingRow {
    wire::CeilingRow {
        rules: ceiling.rules.to_vec(),
        until: ceiling.until.map(time),
    }
}

fn variable(variable: &EnvVar) -> wire::EnvVariable {
    wire::EnvVariable {
        name: variable.name.clone(),
        value: variable.value.clone(),
        secret: variable.value.is_none(),
    }
}

fn step(step: &PlanStep) -> wire::PlanStepRow {
    wire::PlanStepRow {
        status: step.status.clone(),
        text: step.text.clone(),
    }
}

fn turn(turn: &Turn) -> wire::TurnRow {
    wire::TurnRow {
        deadline: turn.deadline.map(time),
        interrupted: turn.interrupted,
        number: turn.number,
        started_at: time(turn.started_at),
    }
}

fn usage(usage: TokenUsage) -> wire::UsageRow {
    wire::UsageRow {
        context_size: usage.context_size,
        context_used: usage.context_used,
        cost_micro_usd: usage.cost_micro_usd,
        tokens_in: usage.tokens_in,
        tokens_out: usage.tokens_out,
    }
}

fn worktree(worktree: &Worktree) -> wire::WorktreeRow {
    wire::WorktreeRow {
        base: worktree.base.clone(),
        branch: worktree.branch.clone(),
        path: worktree.path.clone(),
        repository: worktree.repository.clone(),
    }
}

pub(super) fn transcript(page: &TranscriptPage) -> wire::TranscriptResult {
    let parts = page
        .parts
        .iter()
        .map(|(seq, at, added)| wire::TranscriptPart {
            entries: added.entries.iter().map(entry).collect(),
            sequence: seq.0,
            timestamp: time(*at),
            turn: added.turn,
        });
    wire::TranscriptResult {
        first: page.first.map(|seq| seq.0),
        more: page.more,
        next: page.next.0,
        parts: parts.collect(),
    }
}

fn entry(entry: &TranscriptEntry) -> wire::TranscriptRow {
    use TranscriptEntry as Entry;
    use wire::TranscriptRow as Row;
    match entry {
        Entry::User { text, from } => Row::User {
            from: from.as_ref().map(ToString::to_string),
            text: text.clone(),
        },
        Entry::Assistant { text } => Row::Assistant { text: text.clone() },
        Entry::Thinking { text } => Row::Thinking { text: text.clone() },
        Entry::Notice { text } => Row::Notice { text: text.clone() },
        Entry::Plan { plan } => Row::Plan {
            steps: plan.steps.iter().map(step).collect(),
        },
        Entry::Other { update } => Row::Other {
            update: raw(update),
        },
        Entry::ToolResult { id, status, text } => Row::ToolResult {
            id: id.clone(),
            status: tool_status(*status).to_owned(),
            text: text.clone(),
        },
        Entry::ToolUse {
            id,
            title,
            tool,
            input,
            status,
        } => Row::ToolUse {
            id: id.clone(),
            input: input.as_ref().map(raw),
            status: status.map(|status| tool_status(status).to_owned()),
            title: title.clone(),
            tool: tool.clone(),
        },
    }
}

pub(crate) fn tool_status(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Pending => "pending",
        ToolStatus::InProgress => "in_progress",
        ToolStatus::Completed => "completed",
        ToolStatus::Failed => "failed",
        ToolStatus::Unknown => "unknown",
    }
}

pub(super) fn removed(outcome: &WorktreeOutcome) -> wire::RemovedWorktree {
    let (branch_kept, why) = match outcome {
        WorktreeOutcome::Removed { branch_kept } => (branch_kept.clone(), None),
        WorktreeOutcome::Kept { why } => (None, Some(why.clone())),
    };
    wire::RemovedWorktree {
        branch_kept,
        removed: why.is_none(),
        why,
    }
}

pub(super) fn merged(outcome: &MergeOutcome) -> wire::MergedWorktree {
    let nothing = wire::MergedWorktree::default();
    match outcome.clone() {
        MergeOutcome::Merged {
            into,
            commit,
            fast_forward,
        } => wire::MergedWorktree {
            merged: true,
            into: Some(into),
            commit: Some(commit),
            fast_forward,
            ..nothing
        },
        MergeOutcome::UpToDate { into } => wire::MergedWorktree {
            merged: true,
            into: Some(into),
            ..nothing
        },
        MergeOutcome::Conflicts { into, files } => wire::MergedWorktree {
            into: Some(into),
            conflicts: files,
            why: Some("both branches changed the same lines".into()),
            ..nothing
        },
        MergeOutcome::Refused { why } => wire::MergedWorktree {
            why: Some(why),
            ..nothing
        },
    }
}

pub(crate) fn protocol(protocol: Option<wire::AgentProtocol>) -> Protocol {
    match protocol.unwrap_or_default() {
        wire::AgentProtocol::Acp => Protocol::Acp,
        wire::AgentProtocol::Claude => Protocol::Claude,
    }
}

pub(super) fn catalog_row(known: &CatalogEntry) -> wire::CatalogRow {
    let (command, hint) = match &known.resolved {
        ResolvedAgent::Found { command } => (command.clone(), known.entry.hint.to_owned()),
        ResolvedAgent::Missing { advice } => (Vec::new(), advice.clone()),
    };
    wire::CatalogRow {
        installed: !command.is_empty(),
        command,
        hint: Some(hint).filter(|hint| !hint.is_empty()),
        name: known.entry.name.to_owned(),
        title: known.entry.title.to_owned(),
    }
}

pub(super) fn queued_message(waiting: &WaitingMessage) -> wire::QueuedMessageRow {
    let WaitingMessage {
        message,
        withdrawable,
    } = waiting;
    let text = message.full_text();
    let shown = truncate_text(&text, QUEUED_TEXT_SHOWN);
    wire::QueuedMessageRow {
        number: message.number,
        sent_at: time(message.at),
        sent_by: who(&message.by),
        truncated: shown.len() < text.len(),
        text: shown.to_owned(),
        withdrawable: *withdrawable,
    }
}
