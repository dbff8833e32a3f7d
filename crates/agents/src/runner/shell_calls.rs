//! Calls of the shell backend, each answered under its own number.
//!
//! Invariants: no call waits for another; what one host called for is not told to the next, which
//! asks again.

use std::sync::Arc;

use countersign_core::error_chain;
use tokio::sync::{OwnedSemaphorePermit, TryAcquireError};

use super::Runner;
use super::agent::LaunchedAgent;
use super::state::HostHandle;
use super::wire::{ShellCall, ShellFailure, ShellReply, ToHost};
use crate::shells::{CommandSpec, ShellBackend as _, ShellError, TerminalId};

type CallOutcome = Result<(ShellReply, Vec<u8>), ShellFailure>;

pub(super) fn call(runner: &Arc<Runner>, host: &HostHandle, id: u64, call: ShellCall) {
    let slot = host.calls.clone().try_acquire_owned();
    match (begin(runner), slot) {
        (Err(why), _) => answer(runner, host, id, Err(ShellFailure::Failed(why)), None),
        (Ok(_), Err(TryAcquireError::NoPermits | TryAcquireError::Closed)) => {
            let reason = "too many calls at once".to_owned();
            answer(runner, host, id, Err(ShellFailure::Failed(reason)), None);
        }
        (Ok(agent), Ok(slot)) => {
            // Each call is a task of its own: one that waits for a command's exit may take hours.
            let (runner, host) = (runner.clone(), host.clone());
            let tasks = runner.tree.tasks().clone();
            tasks.spawn(async move {
                let over = host.over.clone();
                let work = perform_and_answer(&runner, &host, &agent, id, call);
                over.run_until_cancelled(work).await;
                drop(slot);
            });
        }
    }
}

fn begin(runner: &Runner) -> Result<Arc<LaunchedAgent>, String> {
    let state = runner.state();
    match &state.agent {
        Some(agent) => Ok(agent.clone()),
        None => Err("the agent was not started".to_owned()),
    }
}

async fn perform_and_answer(
    runner: &Runner,
    host: &HostHandle,
    agent: &LaunchedAgent,
    id: u64,
    call: ShellCall,
) {
    // Output is long: one at a time is taken from where it is kept.
    let room = match &call {
        ShellCall::Output { .. } => host.long.clone().acquire_owned().await.ok(),
        _ => None,
    };
    let outcome = perform(runner, agent, call).await;
    answer(runner, host, id, outcome, room);
}

fn answer(
    runner: &Runner,
    host: &HostHandle,
    id: u64,
    outcome: CallOutcome,
    room: Option<OwnedSemaphorePermit>,
) {
    let (result, body) = match outcome {
        Ok((done, body)) => (Ok(done), body),
        Err(failure) => (Err(failure), Vec::new()),
    };
    let told = ToHost::Shell { id, result };
    let mut state = runner.state();
    state.send_to(host.number, &told, &body, room);
}

async fn perform(runner: &Runner, agent: &LaunchedAgent, call: ShellCall) -> CallOutcome {
    let shells = &agent.shells;
    let done = match call {
        // It could be started after everything of the agent was ended.
        ShellCall::Create { .. } if runner.state().stopped => {
            let reason = "the agent is being ended".to_owned();
            return Err(ShellFailure::Failed(reason));
        }
        ShellCall::Create {
            key,
            command,
            cwd,
            env,
            output_bytes_max,
        } => {
            let spec = CommandSpec {
                key,
                command,
                cwd,
                env,
                output_bytes_max,
            };
            let created = shells.create(spec).await;
            created.map(|id| created_as(&id))
        }
        ShellCall::Output { terminal } => return read(agent, terminal).await,
        ShellCall::List => {
            let listed = shells.list().await;
            listed.map(|terminals| ShellReply::Listed { terminals })
        }
        ShellCall::ReadFrom {
            terminal,
            after,
            wait_ms,
        } => return read_from(agent, terminal, after, wait_ms).await,
        ShellCall::WaitForExit { terminal } => {
            let exit = shells.wait_for_exit(&TerminalId::new(terminal)).await;
            exit.map(|exit| ShellReply::Exited { exit })
        }
        ShellCall::Kill { terminal } => {
            let killed = shells.kill(&TerminalId::new(terminal)).await;
            killed.map(|()| ShellReply::Done)
        }
        ShellCall::Release { terminal } => {
            let released = shells.release(&TerminalId::new(terminal)).await;
            released.map(|()| ShellReply::Done)
        }
    };
    match done {
        Ok(done) => Ok((done, Vec::new())),
        Err(error) => Err(to_failure(&error)),
    }
}

fn created_as(id: &TerminalId) -> ShellReply {
    ShellReply::Created {
        terminal: id.as_str().to_owned(),
    }
}

async fn read(agent: &LaunchedAgent, terminal: String) -> CallOutcome {
    let output = agent.shells.output(&TerminalId::new(terminal)).await;
    let output = output.map_err(|error| to_failure(&error))?;
    let done = ShellReply::Output {
        truncated: output.truncated,
        exit: output.exit,
    };
    Ok((done, output.text.into_bytes()))
}

async fn read_from(
    agent: &LaunchedAgent,
    terminal: String,
    after: u64,
    wait_ms: u64,
) -> CallOutcome {
    let terminal = TerminalId::new(terminal);
    let piece = agent.shells.read_from(&terminal, after, wait_ms).await;
    let piece = piece.map_err(|error| to_failure(&error))?;
    let done = ShellReply::Piece {
        from: piece.from,
        is_end: piece.is_end,
    };
    Ok((done, piece.bytes))
}

fn to_failure(error: &ShellError) -> ShellFailure {
    match error {
        ShellError::NotFound(id) => ShellFailure::NotFound(id.as_str().to_owned()),
        ShellError::NotPermitted(reason) => ShellFailure::NotPermitted(reason.clone()),
        ShellError::Failed { .. } => ShellFailure::Failed(error_chain(error)),
    }
}
