//! Sessions that ended without a word: their agents are said to have stopped, and the oldest of those
//! that ended leave the list.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::BaseState;
use countersign_core::limits::{GONE_AGENTS_KEPT, HOOK_SWEEP_MS};
use countersign_core::{Agent, Caller};

use super::super::Result;
use super::sessions::{caller_of, lives, was_found};
use super::{asking, set_base};
use crate::ServerState;

/// Looks again and again until the host ends.
pub(crate) async fn watch(state: Arc<ServerState>) {
    loop {
        sweep(&state).await;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(HOOK_SWEEP_MS)) => {}
            () = state.shutdown.cancelled() => return,
        }
    }
}

/// Looks once. What could not be done is done the next time.
pub(super) async fn sweep(state: &ServerState) {
    if let Err(error) = try_sweep(state).await {
        tracing::warn!(?error, "sessions that ended were not all looked at");
    }
}

async fn try_sweep(state: &ServerState) -> Result<()> {
    let agents = state.service.agents(&Caller::host()).await?;
    let hooked = agents.into_iter().map(|(agent, _)| agent);
    let hooked: Vec<Agent> = hooked
        .filter(|agent| agent.managed.is_none() && was_found(agent))
        .collect();
    for agent in hooked.iter().filter(|agent| !agent.base.is_terminal()) {
        let processes = state.service.processes_of(agent.id());
        if processes.into_iter().any(lives) {
            continue;
        }
        asking::withdraw_all(state, agent, "the session's process is gone").await;
        let words = Some("its process ended without a word".to_owned());
        let caller = caller_of(agent.id());
        set_base(state, &caller, agent, BaseState::Stopped, words).await?;
    }
    make_room(state, hooked).await
}

async fn make_room(state: &ServerState, mut ended: Vec<Agent>) -> Result<()> {
    ended.retain(|agent| agent.base.is_terminal());
    ended.sort_by_key(|agent| agent.updated_at);
    let surplus = ended.len().saturating_sub(GONE_AGENTS_KEPT);
    for agent in ended.into_iter().take(surplus) {
        let processes = state.service.processes_of(agent.id());
        if !processes.into_iter().any(lives) {
            let id = agent.id().clone();
            state.service.unregister_agent(caller_of(&id), id).await?;
        }
    }
    Ok(())
}
