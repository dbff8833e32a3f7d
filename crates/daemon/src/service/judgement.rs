//! Asking the rules: before an ask enters the loop, and again about what is open when rules change.
//!
//! No ask falls between the two. Grants are looked at inside the loop, so an ask is decided before
//! a grant is made, and then it is open when everything open is looked at again after that; or
//! later, and then it is judged with the grant. Files are looked at before the loop, so an ask that
//! is still open after they changed meanwhile is looked at again by whoever asked it.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::AgentSandbox;
use countersign_core::limits::RECOVERY_MS;
use countersign_core::{ApprovalId, Ask, AskRequest, Checkpoint, Input, Rejection, is_own_tool};
use tokio::sync::oneshot;

use crate::gate::{AskFacts, AssessedAsk};
use crate::reply::{CommandReply, ServiceError};
use crate::supervisor::{AskCommand, OutputStep, StateView, SupervisorCommand};

use super::{Service, ServiceResult, approval};

/// Asks that are assessed at a time.
const BATCH_ASKS: usize = 64;

/// How long to wait before what failed is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(RECOVERY_MS);

/// Batches that may fail before the other open asks are left as they are: each takes long.
const FAILED_BATCHES_MAX: usize = 3;

impl Service {
    /// Assesses an ask outside the loop and off the async threads. Nothing if that fails: then no rule
    /// can settle it, and it waits for a person.
    pub(super) async fn assess(&self, facts: AskFacts) -> Option<Box<AssessedAsk>> {
        self.read_rules(move |rulebook| Box::new(AssessedAsk::assess(rulebook, &facts)))
            .await
    }

    async fn assess_all(&self, facts: Vec<AskFacts>) -> Option<Vec<Box<AssessedAsk>>> {
        self.read_rules(move |rulebook| {
            facts
                .iter()
                .map(|facts| Box::new(AssessedAsk::assess(rulebook, facts)))
                .collect()
        })
        .await
    }

    /// Assesses an ask that names a tool and sends it to the loop, its only pass there. Any other
    /// ask, and one that cannot be assessed, waits for a person.
    pub(super) async fn assess_and_send(&self, command: AskCommand) -> ServiceResult<PendingAsk> {
        let (answer, pending) = self.pending_ask();
        let command = self.assess_command(command).await;
        self.send(SupervisorCommand::Ask(command, answer)).await?;
        Ok(pending)
    }

    /// An ask that is about to be assessed and sent, and where its reply goes.
    fn pending_ask(&self) -> (oneshot::Sender<ServiceResult<CommandReply>>, PendingAsk) {
        let (answer, wait) = oneshot::channel();
        let pending = PendingAsk {
            service: self.clone(),
            // Read before the assessment: a change during it must look like one after it.
            rules_revision: *self.shared.rulebook.changes().borrow(),
            wait,
        };
        (answer, pending)
    }

    async fn assess_command(&self, mut command: AskCommand) -> AskCommand {
        if command.request.tool.is_some() {
            let facts = self.request_facts(&command.request);
            command.assessed = self.assess(facts).await;
        }
        command
    }

    /// Records what an agent said and asked, and how far its output was read with that, in one
    /// commit: it is on the record when this returns. Gives what the loop made of each ask; what
    /// follows from an ask is a duty, so nobody has to wait for more.
    ///
    /// If an input is refused, the others are on the record and the checkpoint is not. What is about
    /// a run that is over is dropped.
    pub(crate) async fn record_output(
        &self,
        output: Vec<AgentOutput>,
        checkpoint: Option<Checkpoint>,
    ) -> ServiceResult<Vec<ServiceResult<CommandReply>>> {
        let mut steps = Vec::with_capacity(output.len());
        let mut asks = Vec::new();
        for one in output {
            steps.push(match one {
                AgentOutput::Input(input) => OutputStep::Input(input),
                AgentOutput::Ask(request) => {
                    let (answer, pending) = self.pending_ask();
                    asks.push(pending);
                    let command = self.assess_command(AskCommand::new(*request)).await;
                    OutputStep::Ask(command, answer)
                }
            });
        }
        let (answer, wait) = oneshot::channel();
        self.send(SupervisorCommand::RecordOutput {
            steps,
            checkpoint,
            answer,
        })
        .await?;
        wait.await.map_err(|_| self.unavailable())??;
        let mut replies = Vec::with_capacity(asks.len());
        for ask in asks {
            replies.push(ask.accepted().await);
        }
        Ok(replies)
    }

    /// Project and ancestors are read from the directory: assessing takes place outside the loop in
    /// any case, so they can be as old as the newest commit before the ask.
    fn request_facts(&self, request: &AskRequest) -> AskFacts {
        let directory = self.shared.directory.read();
        let agent = request.asking_agent();
        let project = agent.filter(|_| request.cwd.is_none());
        AskFacts {
            tool: request.tool.clone().unwrap_or_default(),
            input: request.input.clone(),
            cwd: request.cwd.clone(),
            project: project.and_then(|agent| directory.project_of(agent)),
            own_tool: self.is_about_own_tool(request),
            // Others may ask in an agent's name, for what runs outside its sandbox.
            in_sandbox: request.managed.is_some()
                && agent.is_some_and(|agent| directory.is_confined(agent)),
            ancestors: agent.map_or_else(Vec::new, |agent| directory.ancestor_folders(agent)),
        }
    }

    /// What is to be assessed about an ask that is open.
    pub(super) fn open_ask_facts(&self, ask: &Ask) -> AskFacts {
        let directory = self.shared.directory.read();
        let agent = ask.agent.as_ref();
        let project = agent.filter(|_| ask.cwd.is_none());
        // As in `is_about_own_tool`: an ask that would also let other requests pass is about more
        // than the tool it names.
        let alone = ask.request.is_some() && ask.passes.is_empty();
        AskFacts {
            tool: ask.tool.clone().unwrap_or_default(),
            input: ask.input.clone(),
            cwd: ask.cwd.clone(),
            project: project.and_then(|agent| directory.project_of(agent)),
            own_tool: alone && ask.tool.as_deref().is_some_and(is_own_tool),
            in_sandbox: ask.request.is_some()
                && ask
                    .sandbox
                    .as_ref()
                    .is_some_and(AgentSandbox::confines_commands),
            ancestors: agent.map_or_else(Vec::new, |agent| directory.ancestor_folders(agent)),
        }
    }

    /// Whether a managed agent asks to call what the host gave it. What the host asks on behalf of an
    /// agent that called is another matter, although it is about the same tool.
    fn is_about_own_tool(&self, request: &AskRequest) -> bool {
        let managed = request.managed.as_ref();
        let given = self.shared.runners.tools.is_some();
        // Nothing else may come in under the name.
        let alone = managed.is_some_and(|managed| managed.passes.is_empty());
        given && alone && request.tool.as_deref().is_some_and(is_own_tool)
    }

    /// Asks the rules again about what is open: at the start, and whenever files changed.
    pub(super) async fn rejudge_when_rules_change(self) {
        let mut changes = self.shared.rulebook.changes();
        loop {
            let failed = self.rejudge_open().await.is_err();
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = self.shared.rejudge.notified() => {}
                () = tokio::time::sleep(RETRY_DELAY), if failed => {}
                () = self.shared.commands.closed() => return,
            }
        }
    }

    /// As [`Service::rejudge_open`], for callers whose own work is done whatever comes of it. What
    /// could not be settled is tried again.
    pub(super) async fn rejudge_open_logged(&self) -> usize {
        self.rejudge_open().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "what is open could not be settled by rules");
            self.shared.rejudge.notify_one();
            0
        })
    }

    /// Asks the rules again about everything open. Gives how many asks have ended by that.
    async fn rejudge_open(&self) -> ServiceResult<usize> {
        // Through the loop: whatever was asked before a grant was made must be on this list.
        let open = self.read(open_asks).await?;
        let (mut settled, mut failed) = (0, 0);
        for some in open.chunks(BATCH_ASKS) {
            let facts = some.iter().map(|ask| self.open_ask_facts(ask)).collect();
            let Some(assessed) = self.assess_all(facts).await else {
                failed += 1;
                if failed == FAILED_BATCHES_MAX {
                    break;
                }
                continue;
            };
            let mut waits = Vec::with_capacity(some.len());
            // All are sent before the first is waited for, so that they share commits.
            for (ask, assessed) in some.iter().zip(assessed) {
                waits.push(self.send_rejudge(ask.id.clone(), assessed).await?);
            }
            for wait in waits {
                match wait.await.map_err(|_| self.unavailable())? {
                    Ok(reply) => settled += usize::from(!approval(reply)?.is_pending()),
                    // It ended meanwhile and memory has let go of it.
                    Err(ServiceError::Rejected(Rejection::UnknownApproval(_))) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(settled)
    }

    async fn send_rejudge(
        &self,
        approval: ApprovalId,
        assessed: Box<AssessedAsk>,
    ) -> ServiceResult<oneshot::Receiver<ServiceResult<CommandReply>>> {
        let (answer, wait) = oneshot::channel();
        self.send(SupervisorCommand::Rejudge {
            approval,
            assessed,
            answer,
        })
        .await?;
        Ok(wait)
    }
}

/// What an agent said or asked, on its way to the record.
pub(crate) enum AgentOutput {
    Input(Box<Input>),
    Ask(Box<AskRequest>),
}

impl From<Input> for AgentOutput {
    fn from(input: Input) -> Self {
        Self::Input(Box::new(input))
    }
}

/// An ask that was sent to the loop.
pub(super) struct PendingAsk {
    service: Service,
    /// The revision of the rule files that it was assessed with, or an earlier one.
    rules_revision: u64,
    wait: oneshot::Receiver<ServiceResult<CommandReply>>,
}

impl PendingAsk {
    /// What the loop made of it: an approval, or an earlier one that allowed exactly this.
    pub(super) async fn accepted(self) -> ServiceResult<CommandReply> {
        let service = self.service;
        let reply = self.wait.await.map_err(|_| service.unavailable())??;
        let changed = *service.shared.rulebook.changes().borrow() != self.rules_revision;
        if changed && matches!(&reply, CommandReply::Approval(asked) if asked.is_pending()) {
            service.shared.rejudge.notify_one();
        }
        Ok(reply)
    }
}

/// Everything open that has a tool, oldest first: what came first is first to use a grant.
pub(super) fn open_asks(view: StateView<'_>) -> Vec<Arc<Ask>> {
    let mut open: Vec<_> = view
        .state
        .open_approvals()
        .filter(|approval| approval.ask.tool.is_some())
        .collect();
    open.sort_by_key(|approval| approval.opened);
    open.into_iter()
        .map(|approval| approval.ask.clone())
        .collect()
}
