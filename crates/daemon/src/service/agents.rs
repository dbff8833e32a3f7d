//! Agents, devices and notifications.

use std::sync::Arc;

use countersign_core::event::Device;
use countersign_core::{
    Agent, AgentId, Caller, Input, OpenCounts, PutDevice, RegisterAgent, Rejection,
    SendNotification, SetStatus,
};

use crate::feed::FeedEntry;

use super::connections::{sorted_agents, sorted_devices};
use super::{Service, ServiceResult, agent, device, event};

/// Agents, devices and notifications.
impl Service {
    /// Agents by name, with what each has open. An agent sees itself alone.
    pub async fn agents(&self, caller: &Caller) -> ServiceResult<Vec<(Agent, OpenCounts)>> {
        let mut agents = self.read(|view| sorted_agents(view.state)).await?;
        if let Some(bound) = caller.principal.agent() {
            agents.retain(|(agent, _)| agent.id() == bound);
        }
        Ok(agents)
    }

    /// One agent. An agent reaches itself and its descendants.
    pub async fn load_agent(
        &self,
        caller: &Caller,
        id: AgentId,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        self.check_reach(caller, &id).await?;
        self.read_agent(id).await
    }

    /// One agent, for the host itself.
    pub(crate) async fn read_agent(&self, id: AgentId) -> ServiceResult<(Agent, OpenCounts)> {
        let found = self.read(move |view| {
            let agent = view.state.find_agent(&id).cloned();
            agent
                .map(|agent| (agent, view.state.open_of(&id)))
                .ok_or_else(|| Rejection::UnknownAgent(id.clone()))
        });
        Ok(found.await??)
    }

    /// Takes an agent's own description.
    pub async fn register_agent(&self, input: RegisterAgent) -> ServiceResult<(Agent, OpenCounts)> {
        agent(self.submit(Input::RegisterAgent(input)).await?)
    }

    /// Takes an agent off the list.
    pub async fn unregister_agent(&self, caller: Caller, agent: AgentId) -> ServiceResult<()> {
        self.submit(Input::UnregisterAgent { caller, agent })
            .await
            .map(drop)
    }

    /// Takes an owner's word for what its agent does.
    pub async fn set_status(&self, input: SetStatus) -> ServiceResult<(Agent, OpenCounts)> {
        agent(self.submit(Input::SetStatus(input)).await?)
    }

    /// Devices by name. They are no secret to anybody who was let in.
    pub async fn devices(&self, _caller: &Caller) -> ServiceResult<Vec<Arc<Device>>> {
        self.read(|view| sorted_devices(view.state)).await
    }

    /// Takes a device's own description.
    pub async fn register_device(&self, input: PutDevice) -> ServiceResult<Arc<Device>> {
        device(self.submit(Input::RegisterDevice(input)).await?)
    }

    /// Takes what changed about a device.
    pub async fn update_device(&self, input: PutDevice) -> ServiceResult<Arc<Device>> {
        device(self.submit(Input::UpdateDevice(input)).await?)
    }

    /// Tells everybody something.
    pub async fn notify(&self, input: SendNotification) -> ServiceResult<Arc<FeedEntry>> {
        event(self.submit(Input::SendNotification(input)).await?)
    }
}
