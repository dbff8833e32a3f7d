//! What orchestrators may do for their descendants: steer, start and answer for them.
//!
//! Invariants: an orchestrator reaches only its own descendants; it allows only what a person's
//! ceiling covers at the instant of the answer, and never what it could not do itself; a child gets
//! no more than its parent has.

use std::path::{Component, Path};

use super::{Decision, DecisionSubject, check_size};
use crate::approval::Approval;
use crate::event::{
    AgentCeilingChanged, ApprovalOutcome, Ceiling, Effect, Event, GrantEnd, SpawnOptions,
    TerminalBackend,
};
use crate::ids::{AgentId, GrantId};
use crate::input::{ApprovalAnswer, DecisionContext, DelegationVerdict, GrantDraft};
use crate::limits::{CEILING_RULES_MAX, HIERARCHY_DEPTH_MAX, RULE_BYTES_MAX};
use crate::managed::ManagedAgent;
use crate::principal::{Caller, RecordedActor, Role};
use crate::rejection::Rejection;
use crate::state::State;

use super::grants;

/// The tool by which orchestrators ask for agents of their own.
pub const SPAWN_TOOL: &str = "mcp__countersign__spawn_agent";
/// The tool of an ask whether an editor may run the commands of a new agent.
pub const EDITOR_TERMINALS_TOOL: &str = "EditorTerminals";
/// Modes that every runtime understands as asking no less than usual.
const CAREFUL_MODES: [&str; 4] = ["default", "plan", "ask", "read-only"];

/// Operators steer everybody, orchestrators those below them.
pub(super) fn may_steer(state: &State, caller: &Caller, id: &AgentId) -> Result<(), Rejection> {
    match &caller.principal.role {
        Role::Agent(above) if state.is_ancestor(above, id) => Ok(()),
        Role::Agent(agent) if state.find_orchestrator(agent).is_some() => {
            Err(Rejection::NotADescendant(id.clone()))
        }
        Role::Agent(_) | Role::Operator | Role::Observer | Role::Host => caller.require_operator(),
    }
}

/// Gives or takes what an orchestrator may settle.
pub(super) fn set_ceiling(
    state: &State,
    context: DecisionContext<'_>,
    caller: &Caller,
    agent: AgentId,
    ceiling: Option<Ceiling>,
) -> Result<Decision, Rejection> {
    caller.require_operator()?;
    let Some(managed) = state.find_orchestrator(&agent) else {
        return Err(Rejection::NotAnOrchestrator(agent));
    };
    if let Some(ceiling) = &ceiling {
        check_size("the ceiling", ceiling.rules.len(), CEILING_RULES_MAX)?;
        for rule in ceiling.rules.iter() {
            check_size("the rule", rule.len(), RULE_BYTES_MAX)?;
        }
        if ceiling.rules.is_empty() || ceiling.until.is_some_and(|end| end <= context.now) {
            return Err(Rejection::BadGrant("it would allow nothing".to_owned()));
        }
        // The end of a run takes the ceiling with it, so one given after that would never end.
        if !managed.is_live() {
            return Err(Rejection::AgentEnded(agent));
        }
    }
    let same = managed.ceiling == ceiling;
    let event = ceiling_changed(agent.clone(), ceiling, RecordedActor::from(caller));
    let events = if same { Vec::new() } else { vec![event] };
    Ok(Decision::new(events, DecisionSubject::Agent(agent)))
}

/// The fact that a ceiling changed.
pub(super) fn ceiling_changed(
    agent: AgentId,
    ceiling: Option<Ceiling>,
    by: RecordedActor,
) -> Event {
    AgentCeilingChanged { agent, ceiling, by }.into()
}

/// Adds the end of ceilings whose orchestrator the events end, and of what was remembered under
/// every ceiling that they end or change.
pub(super) fn end_ceilings(state: &State, events: &mut Vec<Event>) {
    let ended: Vec<Event> = events
        .iter()
        .filter_map(|event| end_of_ceiling(state, event))
        .collect();
    events.extend(ended);
    // Also where a ceiling is only replaced: what the old one covered may be above the new one.
    let changed = events.iter().filter_map(|event| {
        let Event::AgentCeilingChanged(changed) = event else {
            return None;
        };
        Some(&changed.agent)
    });
    let removed: Vec<Event> = changed
        .flat_map(|agent| state.ceiling_grants(agent))
        .filter(|id| !is_removed(events, id))
        .map(|id| grants::grant_removed(id.clone(), GrantEnd::CeilingEnded))
        .collect();
    events.extend(removed);
}

fn end_of_ceiling(state: &State, event: &Event) -> Option<Event> {
    let Event::AgentExited(exited) = event else {
        return None;
    };
    let managed = state.find_orchestrator(&exited.agent)?;
    managed.ceiling.as_ref()?;
    let host = RecordedActor::from(&Caller::host());
    Some(ceiling_changed(exited.agent.clone(), None, host))
}

fn is_removed(events: &[Event], grant: &GrantId) -> bool {
    events
        .iter()
        .any(|event| matches!(event, Event::GrantRemoved(e) if e.grant == *grant))
}

/// An orchestrator's answer to an ask.
pub(super) struct DelegatedAnswer<'a> {
    pub(super) orchestrator: &'a AgentId,
    pub(super) approval: &'a Approval,
    pub(super) answer: &'a ApprovalAnswer,
    /// What its ceiling and the rules say of the ask now.
    pub(super) verdict: Option<DelegationVerdict>,
}

/// Whether an orchestrator may give this answer.
pub(super) fn check_answer(
    state: &State,
    context: DecisionContext<'_>,
    given: &DelegatedAnswer<'_>,
) -> Result<(), Rejection> {
    let agent = given.orchestrator;
    let asker = given.approval.ask.agent.as_ref();
    // Nobody is its own ancestor, so this refuses an agent's answer to its own ask as well.
    if !asker.is_some_and(|asker| state.is_ancestor(agent, asker)) {
        return Err(Rejection::AgentsCannotAnswer(agent.clone()));
    }
    // At this instant: one that has expired may still be in the state.
    let ceiling = state
        .find_orchestrator(agent)
        .and_then(|managed| managed.ceiling_at(context.now));
    if ceiling.is_none() {
        return Err(Rejection::NoCeiling(agent.clone()));
    }
    let outcome = given.approval.outcome_of(&given.answer.resolution);
    // A denial only makes the child do less, so it needs no rule of the ceiling.
    if outcome == ApprovalOutcome::Denied {
        return Ok(());
    }
    let is_covered = given.verdict.is_some_and(|verdict| {
        // It must not have a child do what it is denied itself.
        verdict.by_ceiling == Effect::Allow && verdict.to_itself != Effect::Deny
    });
    // An edited input was never held against the ceiling.
    let is_edited = given.answer.edited_input.is_some();
    if is_covered && outcome == ApprovalOutcome::Allowed && !is_edited {
        Ok(())
    } else {
        Err(Rejection::AboveCeiling(agent.clone()))
    }
}

/// What an orchestrator remembers: a rule of its ceiling, for the agent that asked, while both last.
pub(super) fn limit_draft(
    state: &State,
    context: DecisionContext<'_>,
    orchestrator: &AgentId,
    asker: Option<&AgentId>,
    mut draft: GrantDraft,
) -> Result<GrantDraft, Rejection> {
    let ceiling = state
        .find_orchestrator(orchestrator)
        .and_then(|managed| managed.ceiling_at(context.now));
    // Compared as text: whether another rule allows no more than these cannot be decided here.
    if !ceiling.is_some_and(|ceiling| ceiling.rules.contains(&draft.rule)) {
        return Err(Rejection::AboveCeiling(orchestrator.clone()));
    }
    draft.scope.session = asker.cloned();
    Ok(draft)
}

/// Whether an orchestrator may start this agent, and what it is started with then.
pub(super) fn limit_child(
    state: &State,
    caller: &Caller,
    mut options: SpawnOptions,
) -> Result<SpawnOptions, Rejection> {
    let Some(parent) = caller.principal.agent() else {
        caller.require_operator()?;
        // Only an orchestrator makes children, and only by itself.
        options.parent = None;
        if options.terminals == TerminalBackend::Editor {
            check_editor_terminals(state, &options)?;
        } else {
            options.allowed_by = None;
        }
        return Ok(options);
    };
    let Some(managed) = state.find_orchestrator(parent).filter(|m| m.is_live()) else {
        return Err(Rejection::AgentNotAllowed(parent.clone()));
    };
    if state.ancestors_of(parent).count() + 1 >= HIERARCHY_DEPTH_MAX {
        return Err(Rejection::TooMany {
            what: "generations of agents",
            limit: HIERARCHY_DEPTH_MAX,
        });
    }
    check_spawn_allowed(state, parent, &options)?;
    options.parent = Some(parent.clone());
    narrow_options(managed, options)
}

/// One ask starts one agent; a command, or another orchestrator, only if a person said yes to it.
fn check_spawn_allowed(
    state: &State,
    parent: &AgentId,
    options: &SpawnOptions,
) -> Result<(), Rejection> {
    let approval = options
        .allowed_by
        .as_ref()
        .and_then(|id| state.find_approval(id));
    if approval.is_some_and(|approval| allows_spawn(approval, parent, options)) {
        Ok(())
    } else {
        Err(Rejection::SpawnNotAllowed(parent.clone()))
    }
}

fn allows_spawn(approval: &Approval, parent: &AgentId, options: &SpawnOptions) -> bool {
    let ask = &approval.ask;
    let is_asked = ask.agent.as_ref() == Some(parent) && ask.tool.as_deref() == Some(SPAWN_TOOL);
    let is_usual = options.command.is_empty() && options.role.is_none();
    approval.ended.as_ref().is_some_and(|ended| {
        ended.ending.outcome == ApprovalOutcome::Allowed
            && is_asked
            && (is_usual || ended.ending.by.role == Role::Operator)
    })
}

/// Whether a person agreed that an editor runs the commands of a new agent in this folder. One ask starts one agent.
fn check_editor_terminals(state: &State, options: &SpawnOptions) -> Result<(), Rejection> {
    let asked = options.allowed_by.as_ref();
    let approval = asked.and_then(|id| state.find_approval(id));
    let is_agreed = approval.is_some_and(|approval| {
        let ask = &approval.ask;
        let is_asked = ask.agent.is_none()
            && ask.tool.as_deref() == Some(EDITOR_TERMINALS_TOOL)
            && ask.cwd.as_deref() == Some(&options.cwd);
        let is_allowed = approval.ended.as_ref().is_some_and(|ended| {
            // A rule is not a person.
            ended.ending.outcome == ApprovalOutcome::Allowed
                && ended.ending.by.role == Role::Operator
        });
        is_asked && is_allowed && state.find_started_by(&ask.id).is_none()
    });
    if is_agreed {
        Ok(())
    } else {
        Err(Rejection::EditorTerminalsNotAllowed)
    }
}

/// A child has no wider folder, no more tools and no laxer mode than its parent.
fn narrow_options(
    parent: &ManagedAgent,
    mut options: SpawnOptions,
) -> Result<SpawnOptions, Rejection> {
    let cwd = Path::new(&options.cwd);
    // `starts_with` compares components as they are written, and would accept
    // `/parent/../elsewhere`.
    let climbs = cwd.components().any(|part| part == Component::ParentDir);
    if climbs || !cwd.starts_with(parent.folder()) {
        return Err(Rejection::Wider("a folder"));
    }
    let own = &parent.options;
    // Rules reach agents by their labels, so a child has those of its parent: others could allow it
    // more, and none would take it out of the reach of a deny.
    options.labels.clone_from(&own.labels);
    // The one it runs in, whatever the default is by now.
    let sandbox = parent.sandbox.as_ref().map(|sandbox| &sandbox.profile);
    options.sandbox = sandbox.or(own.sandbox.as_ref()).cloned();
    // A child is not open in the editor of its parent.
    options.terminals = match own.terminals {
        TerminalBackend::None => TerminalBackend::None,
        TerminalBackend::Host | TerminalBackend::Editor => TerminalBackend::Host,
    };
    let is_careful = options
        .mode
        .as_deref()
        .is_none_or(|mode| CAREFUL_MODES.contains(&mode) || own.mode.as_deref() == Some(mode));
    if !is_careful {
        return Err(Rejection::Wider("a mode"));
    }
    if !own.allowed_tools.is_empty() {
        // An empty list means every tool, which is more than a parent with a list has.
        if options.allowed_tools.is_empty() {
            options.allowed_tools.clone_from(&own.allowed_tools);
        }
        if !options
            .allowed_tools
            .iter()
            .all(|tool| own.allowed_tools.contains(tool))
        {
            return Err(Rejection::Wider("a tool"));
        }
    }
    for tool in &own.disallowed_tools {
        if !options.disallowed_tools.contains(tool) {
            options.disallowed_tools.push(tool.clone());
        }
    }
    Ok(options)
}
