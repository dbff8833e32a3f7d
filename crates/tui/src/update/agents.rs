//! What can be done with agents.

use std::collections::BTreeSet;

use countersign_protocol::{
    AgentParams, AgentTarget, ArchiveBody, BypassBody, ChildrenFate, ConfigureBody, InterruptBody,
    KillBody, Method, NoParams, PromptBody, RenameBody, SpawnAgentParams, WorktreeParams, method,
};

use crate::agent_list::{is_archived, living_descendants, project_of};
use crate::command::Action;
use crate::host_call::{CallLane, HostCall, ReplyTag};
use crate::layout::{PanelKind, PanelSpec};
use crate::message::Effect;
use crate::model::{ConfirmPurpose, Model, Overlay, TextPurpose};
use crate::render::escape;

use super::{diff, files, overlays, rules, say};

/// Rows of agents are read at most this often.
const READ_EVERY_MS: u64 = 250;
/// Above this many, all rows are read at once.
const SINGLE_ROWS_MAX: usize = 3;

/// Reads the rows of agents that something happened to.
pub(super) fn load_stale(model: &mut Model) -> Vec<Effect> {
    let stale: Vec<String> = model.host.stale_agents.iter().cloned().collect();
    let is_due =
        model.agents_asked_at == 0 || model.now.ms >= model.agents_asked_at + READ_EVERY_MS;
    if stale.is_empty() || !is_due || !model.host.is_up() {
        return Vec::new();
    }
    model.agents_asked_at = model.now.ms;
    model.host.stale_agents.clear();
    if stale.len() > SINGLE_ROWS_MAX {
        let call =
            HostCall::new::<method::Agents>(CallLane::Read, &NoParams {}, ReplyTag::AgentRows);
        return vec![Effect::Call(call)];
    }
    let rows = stale.into_iter().map(|agent_id| {
        let params = AgentParams { agent_id };
        Effect::Call(HostCall::new::<method::Agent>(
            CallLane::Read,
            &params,
            ReplyTag::AgentRow,
        ))
    });
    rows.collect()
}

/// The agents of the project that the selected one works in.
pub(super) fn agents_of_project(model: &Model) -> BTreeSet<String> {
    let selected = model
        .selected_agent
        .as_ref()
        .and_then(|id| model.host.agents.get(id));
    let Some(project) = selected.map(project_of) else {
        return BTreeSet::new();
    };
    let agents = model
        .host
        .agents
        .values()
        .filter(|agent| project_of(agent) == project);
    agents.map(|agent| agent.id.clone()).collect()
}

/// Why something cannot be done with the agent that a command is about.
pub(super) fn why_not(model: &Model, action: Action) -> Option<String> {
    let Some(agent) = model.subject_agent() else {
        return Some("no agent is selected".to_owned());
    };
    if action == Action::OpenAgent {
        return None;
    }
    if !model.host.is_up() {
        return Some("not connected: nothing can be sent".to_owned());
    }
    if !model.host.can_decide() {
        return Some("an observer can look, and not decide".to_owned());
    }
    let name = escape::line(&agent.name);
    let Some(managed) = &agent.managed else {
        return Some(format!("{name} was not started by the host"));
    };
    match action {
        Action::InterruptAgent if managed.turn.is_none() => {
            Some(format!("no turn of {name} is running"))
        }
        Action::KillAgent if agent.state.is_ended() => Some(format!("{name} has ended")),
        Action::ResumeAgent if !agent.state.is_ended() => Some(format!("{name} has not ended")),
        Action::ResumeAgent if !managed.resumable => {
            Some(format!("the session of {name} cannot be resumed"))
        }
        _ => None,
    }
}

pub(super) fn move_cursor(model: &mut Model, panel: &PanelSpec, steps: isize) -> Vec<Effect> {
    let entries = model.agent_entries(panel);
    let last = entries.len().saturating_sub(1);
    let index = model
        .agent_index(panel)
        .saturating_add_signed(steps)
        .min(last);
    let id = entries.get(index).map(|entry| entry.agent.id.clone());
    model.agent_cursor.clone_from(&id);
    model.selected_agent = id.or(model.selected_agent.take());
    Vec::new()
}

/// Shows the transcript of the agent that a command is about.
pub(super) fn open(model: &mut Model) -> Vec<Effect> {
    let Some(id) = model.subject_agent().map(|agent| agent.id.clone()) else {
        return say(model, "no agent is selected");
    };
    model.selected_agent = Some(id);
    super::commands::go(model, PanelKind::Transcript)
}

/// Opens a text box about the agent that a command is about.
pub(super) fn open_text(
    model: &mut Model,
    purpose: impl FnOnce(String) -> TextPurpose,
) -> Vec<Effect> {
    let Some(agent) = model.subject_agent() else {
        return say(model, "no agent is selected");
    };
    let (id, name) = (agent.id.clone(), agent.name.clone());
    let purpose = purpose(id);
    let start = match purpose {
        TextPurpose::Rename { .. } => name,
        _ => String::new(),
    };
    overlays::open_text(model, purpose, &start)
}

/// A call about one agent, with what to say when it was done.
fn act<M: Method>(params: &M::Params, done: String) -> Vec<Effect> {
    let tag = ReplyTag::AgentChanged { done };
    vec![Effect::Call(HostCall::new::<M>(
        CallLane::Decide,
        params,
        tag,
    ))]
}

fn target<B>(agent: &str, body: B) -> AgentTarget<B> {
    AgentTarget {
        agent_id: agent.to_owned(),
        body,
    }
}

pub(super) fn interrupt(model: &mut Model) -> Vec<Effect> {
    let Some(agent) = model.subject_agent() else {
        return Vec::new();
    };
    let done = format!("interrupting {}", escape::line(&agent.name));
    let params = target(&agent.id, InterruptBody::default());
    act::<method::InterruptAgent>(&params, done)
}

pub(super) fn resume(model: &mut Model) -> Vec<Effect> {
    let Some(agent) = model.subject_agent() else {
        return Vec::new();
    };
    let done = format!("resumed {}", escape::line(&agent.name));
    let params = AgentParams {
        agent_id: agent.id.clone(),
    };
    act::<method::ResumeAgent>(&params, done)
}

pub(super) fn archive(model: &mut Model) -> Vec<Effect> {
    let Some(agent) = model.subject_agent() else {
        return Vec::new();
    };
    let archived = !is_archived(agent);
    let word = if archived { "archived" } else { "restored" };
    let done = format!("{word} {}", escape::line(&agent.name));
    let params = target(&agent.id, ArchiveBody { archived });
    act::<method::ArchiveAgent>(&params, done)
}

/// Asks whether to kill, with what would go as well.
pub(super) fn ask_to_kill(model: &mut Model) -> Vec<Effect> {
    let Some(agent) = model.subject_agent() else {
        return Vec::new();
    };
    let below = living_descendants(&model.host.agents, &agent.id);
    let name = escape::line(&agent.name);
    let question = match below {
        0 => format!("kill {name}, with every process it started?"),
        count => format!("kill {name} and the {count} running agents below it?"),
    };
    model.overlay = Some(Overlay::Confirm {
        purpose: ConfirmPurpose::Kill {
            agent: agent.id.clone(),
            with_children: below > 0,
        },
        question,
        asked_at: model.now.ms,
    });
    Vec::new()
}

pub(super) fn ask_to_stop_all(model: &mut Model) -> Vec<Effect> {
    model.overlay = Some(Overlay::Confirm {
        purpose: ConfirmPurpose::StopAll,
        question: "stop all: deny every open ask and interrupt every agent?".to_owned(),
        asked_at: model.now.ms,
    });
    Vec::new()
}

/// Ends a bypass at once; one that begins takes its minutes and a second key.
pub(super) fn begin_bypass(model: &mut Model) -> Vec<Effect> {
    let Some(agent) = model.subject_agent() else {
        return Vec::new();
    };
    if agent
        .bypass_until
        .is_some_and(|until| until > model.now.wall)
    {
        let done = format!("bypass off: {} asks again", escape::line(&agent.name));
        let params = target(&agent.id, BypassBody { for_ms: None });
        return act::<method::SetBypass>(&params, done);
    }
    open_text(model, |agent| TextPurpose::Bypass { agent })
}

/// Does what a person said yes to.
pub(super) fn perform_confirmed(model: &mut Model, purpose: &ConfirmPurpose) -> Vec<Effect> {
    match purpose {
        ConfirmPurpose::CloseTerminal { terminal } => super::own_terminals::close(terminal),
        ConfirmPurpose::Kill {
            agent,
            with_children,
        } => {
            let done = format!("ending {}", escape::line(model.host.agent_name(agent)));
            let children = with_children.then_some(ChildrenFate::End);
            act::<method::KillAgent>(&target(agent, KillBody { children }), done)
        }
        ConfirmPurpose::Bypass { agent, minutes } => {
            let name = escape::line(model.host.agent_name(agent)).into_owned();
            let done =
                format!("{name} is bypassed for {minutes}m: its asks are allowed without you");
            let body = BypassBody {
                for_ms: Some(minutes * 60_000),
            };
            act::<method::SetBypass>(&target(agent, body), done)
        }
        ConfirmPurpose::StopAll => {
            let call = HostCall::new::<method::StopAll>(
                CallLane::Decide,
                &NoParams {},
                ReplyTag::StoppedAll,
            );
            vec![Effect::Call(call)]
        }
        ConfirmPurpose::SendReview { agent } => diff::send(model, agent),
        ConfirmPurpose::RemoveRule { id } => rules::remove(id),
        ConfirmPurpose::AddRule { rule } => rules::add(model, rule),
        ConfirmPurpose::DiscardText => files::discard_text(model),
        ConfirmPurpose::LeaveUnsaved => vec![Effect::Quit],
    }
}

pub(super) fn send_message(model: &mut Model, agent: &str, text: &str) -> Vec<Effect> {
    let done = format!("sent to {}", escape::line(model.host.agent_name(agent)));
    let body = PromptBody {
        message: text.to_owned(),
        attachments: Vec::new(),
    };
    act::<method::PromptAgent>(&target(agent, body), done)
}

pub(super) fn rename(model: &mut Model, agent: &str, name: &str) -> Vec<Effect> {
    let done = format!(
        "renamed {} to {}",
        escape::line(model.host.agent_name(agent)),
        escape::line(name)
    );
    let body = RenameBody {
        name: name.to_owned(),
    };
    act::<method::RenameAgent>(&target(agent, body), done)
}

/// Takes `mode=plan`, `model=NAME` or both.
pub(super) fn configure(model: &mut Model, agent: &str, text: &str) -> Vec<Effect> {
    let mut body = ConfigureBody::default();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("mode", mode)) => body.mode = Some(mode.to_owned()),
            Some(("model", name)) => body.model = Some(name.to_owned()),
            _ => return say(model, "type mode=NAME, model=NAME or both"),
        }
    }
    let done = format!(
        "{}: {}",
        escape::line(model.host.agent_name(agent)),
        escape::line(text)
    );
    act::<method::ConfigureAgent>(&target(agent, body), done)
}

pub(super) fn ask_catalog() -> Vec<Effect> {
    let call = HostCall::new::<method::Catalog>(CallLane::Read, &NoParams {}, ReplyTag::Catalog);
    vec![Effect::Call(call)]
}

/// Starts an agent where the selected one works, in a worktree of its own if that one has one.
pub(super) fn spawn(model: &mut Model, agent: &str, prompt: &str) -> Vec<Effect> {
    let near = model
        .selected_agent
        .as_ref()
        .and_then(|id| model.host.agents.get(id))
        .filter(|near| model.is_in_project(near));
    let managed = near.and_then(|near| near.managed.as_ref());
    let worktree = managed.and_then(|managed| managed.worktree.as_ref());
    let folder = worktree
        .map(|worktree| worktree.repository.clone())
        .or(managed.map(|managed| managed.cwd.clone()))
        .or(model.project.clone())
        .or(model.folder.clone());
    let Some(cwd) = folder else {
        return say(model, "no folder is known to start it in");
    };
    let params = SpawnAgentParams {
        agent: Some(agent.to_owned()),
        prompt: Some(prompt.to_owned()).filter(|prompt| !prompt.trim().is_empty()),
        worktree: worktree.map(|_| WorktreeParams::default()),
        cwd,
        ..SpawnAgentParams::default()
    };
    let call = HostCall::new::<method::SpawnAgent>(CallLane::Decide, &params, ReplyTag::Spawned);
    vec![Effect::Call(call)]
}
