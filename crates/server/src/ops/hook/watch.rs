//! Sessions whose process ended without calling a hook: their agents are set to stopped, and the
//! oldest of those that ended leave the list.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::BaseState;
use countersign_core::limits::{GONE_AGENTS_KEPT, HOOK_SWEEP_MS};
use countersign_core::{Agent, Caller};
use countersign_daemon::procfs;

use super::super::Result;
use super::sessions::{caller_of, was_found};
use super::{asking, set_base};
use crate::ServerState;

/// Sweeps at intervals until the host ends.
pub(crate) async fn watch(state: Arc<ServerState>) {
    loop {
        sweep(&state).await;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(HOOK_SWEEP_MS)) => {}
            () = state.shutdown.cancelled() => return,
        }
    }
}

/// Sweeps once. What fails is done the next time.
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
        if processes.into_iter().any(procfs::exists) {
            continue;
        }
        // Before its state is set, because what is open is part of the state that is shown.
        asking::withdraw_all(state, agent, "the session's process is gone").await;
        let message = Some("its process ended without reporting the end of the session".to_owned());
        let caller = caller_of(&state.service, agent.id());
        set_base(state, &caller, agent, BaseState::Stopped, message).await?;
    }
    make_room(state, hooked).await
}

async fn make_room(state: &ServerState, mut ended: Vec<Agent>) -> Result<()> {
    ended.retain(|agent| agent.base.is_terminal());
    ended.sort_by_key(|agent| agent.updated_at);
    let surplus = ended.len().saturating_sub(GONE_AGENTS_KEPT);
    for agent in ended.into_iter().take(surplus) {
        // A session can be over while its process lives, and the next event of that process belongs
        // to the same agent.
        let processes = state.service.processes_of(agent.id());
        if !processes.into_iter().any(procfs::exists) {
            let id = agent.id().clone();
            state
                .service
                .unregister_agent(caller_of(&state.service, &id), id)
                .await?;
        }
    }
    Ok(())
}
