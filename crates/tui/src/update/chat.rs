//! Words with a slash in a message to an orchestrator: what they do instead of being sent.

use countersign_protocol::{
    AgentTarget, BypassBody, RenameBody, SpawnAgentParams, WorktreeParams, method,
};

use crate::agent_list::living_descendants;
use crate::duration;
use crate::host_call::{CallLane, HostCall, ReplyTag};
use crate::layout::PanelKind;
use crate::message::Effect;
use crate::model::{ConfirmPurpose, Model, Overlay};
use crate::render::escape;

use super::{commands, say};

pub(super) const HELP: &str = "/reset: new session  /cd FOLDER: new session there  /project FOLDER: narrow every panel  /resume: history  /rename NAME  \
/bypass-permissions 30m  /require-permissions  /help; to send a message that begins with a slash, type two";

/// What a text beginning with a slash does; nothing if it is to be sent.
pub(super) fn slash_command(model: &mut Model, agent: &str, text: &str) -> Option<Vec<Effect>> {
    let command = text.strip_prefix('/')?;
    if command.starts_with('/') {
        return None;
    }
    let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
    let rest = rest.trim();
    let effects = match word {
        "reset" => start_again(model, agent, None),
        "cd" if rest.starts_with('/') => start_again(model, agent, Some(rest)),
        "cd" => say(model, "/cd takes an absolute path"),
        "project" if rest.is_empty() => commands::set_project(model, commands::EVERY_FOLDER),
        "project" => commands::set_project(model, rest),
        "resume" => commands::go(model, PanelKind::History),
        "rename" if rest.is_empty() => say(model, "/rename takes a name"),
        "rename" => {
            let done = format!("renamed to {}", escape::line(rest));
            let params = target(
                agent,
                RenameBody {
                    name: rest.to_owned(),
                },
            );
            act::<method::RenameAgent>(&params, done)
        }
        "bypass-permissions" | "bypass" => ask_to_bypass(model, agent, rest),
        "require-permissions" | "require" => {
            let done = format!(
                "bypass off: {} asks again",
                escape::line(model.host.agent_name(agent))
            );
            act::<method::SetBypass>(&target(agent, BypassBody { for_ms: None }), done)
        }
        "help" => say(model, HELP),
        _ => say(
            model,
            format!("there is no /{}: {HELP}", escape::line(word)),
        ),
    };
    Some(effects)
}

fn target<B>(agent: &str, body: B) -> AgentTarget<B> {
    AgentTarget {
        agent_id: agent.to_owned(),
        body,
    }
}

fn act<M: countersign_protocol::Method>(params: &M::Params, done: String) -> Vec<Effect> {
    let tag = ReplyTag::AgentChanged { done };
    vec![Effect::Call(HostCall::new::<M>(
        CallLane::Decide,
        params,
        tag,
    ))]
}

/// Starts an agent like this one on a session of its own, here or in another folder. Refused while agents below it
/// run: they would be left without their orchestrator.
fn start_again(model: &mut Model, agent: &str, folder: Option<&str>) -> Vec<Effect> {
    let below = living_descendants(&model.host.agents, agent);
    if below > 0 {
        return say(
            model,
            format!("{below} agents below it run: end them first"),
        );
    }
    let Some(mut params) = spawn_params_like(model, agent) else {
        return say(model, "the host did not start this agent");
    };
    if let Some(folder) = folder {
        folder.clone_into(&mut params.cwd);
        params.worktree = None;
    }
    let call = HostCall::new::<method::SpawnAgent>(CallLane::Decide, &params, ReplyTag::Spawned);
    vec![Effect::Call(call)]
}

fn ask_to_bypass(model: &mut Model, agent: &str, span: &str) -> Vec<Effect> {
    let Ok(span) = duration::parse(span) else {
        return say(model, "/bypass-permissions takes a time, such as 30m");
    };
    let minutes = (span.as_secs() / 60).max(1);
    let name = escape::line(model.host.agent_name(agent)).into_owned();
    model.overlay = Some(Overlay::Confirm {
        question: format!("allow all asks of {name} without you for {minutes} minutes?"),
        purpose: ConfirmPurpose::Bypass {
            agent: agent.to_owned(),
            minutes,
        },
        asked_at: model.now.ms,
    });
    Vec::new()
}

/// A fork: a second agent from a copy of the session.
pub(super) fn fork(agent: &str) -> Vec<Effect> {
    let params = target(agent, countersign_protocol::ForkBody::default());
    vec![Effect::Call(HostCall::new::<method::ForkAgent>(
        CallLane::Decide,
        &params,
        ReplyTag::Spawned,
    ))]
}

/// Starts an agent like one there was, with another prompt.
pub(super) fn run_again(model: &mut Model, agent: &str, prompt: &str) -> Vec<Effect> {
    match spawn_params_like(model, agent) {
        Some(params) => {
            let params = SpawnAgentParams {
                prompt: Some(prompt.to_owned()),
                ..params
            };
            let call =
                HostCall::new::<method::SpawnAgent>(CallLane::Decide, &params, ReplyTag::Spawned);
            vec![Effect::Call(call)]
        }
        None => say(model, "the host did not start this agent"),
    }
}

/// What an agent was started with, as far as it is known.
fn spawn_params_like(model: &Model, agent: &str) -> Option<SpawnAgentParams> {
    let managed = model.host.agents.get(agent)?.managed.as_ref()?;
    let repository = managed
        .worktree
        .as_ref()
        .map(|worktree| worktree.repository.clone());
    Some(SpawnAgentParams {
        agent: managed.agent.clone(),
        command: managed.command.clone(),
        cwd: repository.unwrap_or(managed.cwd.clone()),
        model: managed.model.clone(),
        mode: managed.mode.clone(),
        allowed_tools: managed.allowed_tools.clone(),
        disallowed_tools: managed.disallowed_tools.clone(),
        labels: managed.labels.clone(),
        role: managed.role,
        worktree: managed.worktree.as_ref().map(|_| WorktreeParams::default()),
        ..SpawnAgentParams::default()
    })
}
