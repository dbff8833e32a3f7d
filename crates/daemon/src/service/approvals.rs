//! Approvals: asked, answered, waited for, told.

use std::time::Duration;

use countersign_core::event::{AnswerDelivery, ApprovalOutcome, Effect};
use countersign_core::{
    Approval, ApprovalAnswer, ApprovalId, AskRequest, Caller, Input, Rejection, ResolveApproval,
    answer_again,
};
use countersign_store::ApprovalQuery;
use tokio::sync::oneshot;

use crate::ids::new_grant_id;
use crate::reply::{CommandReply, ServiceError, StopCounts};
use crate::supervisor::{AskCommand, SupervisorCommand};

use super::rules::warnings_of;
use super::{Service, ServiceResult, approval, mismatch, settle_input};

/// Approvals.
impl Service {
    /// Opens an ask, or finds the one its key stands for.
    pub async fn request_approval(&self, request: AskRequest) -> ServiceResult<Approval> {
        self.submit_ask(AskCommand::new(request)).await
    }

    /// As [`Service::request_approval`], for a tool call about which several hooks may ask: an open
    /// ask about the same call is given back instead of a second one.
    pub async fn request_call_approval(&self, request: AskRequest) -> ServiceResult<Approval> {
        self.submit_ask(AskCommand {
            joins_open_call: true,
            ..AskCommand::new(request)
        })
        .await
    }

    async fn submit_ask(&self, mut command: AskCommand) -> ServiceResult<Approval> {
        let request = &mut command.request;
        if let Some(key) = request.idempotency_key.clone() {
            let principal = request.caller.principal.key.clone();
            request.keyed = self
                .history(move |history| history.find_keyed_approval(&principal, &key))
                .await?;
        }
        let pending = self.assess_and_send(command).await?;
        approval(pending.accepted().await?)
    }

    /// Answers an ask. The second value says that its owner was told and decides. What is
    /// remembered settles whatever else it covers.
    pub async fn resolve_approval(
        &self,
        caller: Caller,
        id: ApprovalId,
        answer: ApprovalAnswer,
    ) -> ServiceResult<(Approval, bool)> {
        if caller.principal.agent().is_some() {
            return self.answer_as_orchestrator(caller, id, answer).await;
        }
        if answer.remember.is_empty() {
            return self.answer_as_person(caller, id, answer).await;
        }
        let found = self.load_approval(&caller, id.clone()).await?;
        // Before the answer is committed: a rule that cannot be read refuses the whole answer.
        if let Some(effect) = effect_of(found.outcome_of(&answer.resolution)) {
            for draft in &answer.remember {
                warnings_of(effect, &draft.rule)?;
            }
        }
        let service = self.clone();
        // A caller that goes away after the commit must not leave what the grant covers unsettled.
        self.run_to_end(async move {
            let answered = service.answer_as_person(caller, id, answer).await?;
            service.rejudge_open_logged().await;
            Ok(answered)
        })
        .await
    }

    async fn answer_as_person(
        &self,
        caller: Caller,
        id: ApprovalId,
        answer: ApprovalAnswer,
    ) -> ServiceResult<(Approval, bool)> {
        let input = resolve_input(&caller, &id, &answer);
        let reply = self.submit(Input::ResolveApproval(input)).await;
        self.finish_answer(reply, &caller, id, &answer).await
    }

    /// What an orchestrator answers is held against its ceiling inside the loop. Any other agent's
    /// attempt is refused on the record, whatever it would have remembered.
    async fn answer_as_orchestrator(
        &self,
        caller: Caller,
        id: ApprovalId,
        answer: ApprovalAnswer,
    ) -> ServiceResult<(Approval, bool)> {
        let wanted = id.clone();
        let ask = self.read(move |view| Some(view.state.find_approval(&wanted)?.ask.clone()));
        let assessed = match ask.await?.filter(|ask| ask.tool.is_some()) {
            Some(ask) => self.assess(self.open_ask_facts(&ask)).await,
            None => None,
        };
        let (reply, wait) = oneshot::channel();
        let input = Box::new(resolve_input(&caller, &id, &answer));
        self.send(SupervisorCommand::Delegate {
            input,
            assessed,
            answer: reply,
        })
        .await?;
        let reply = wait.await.map_err(|_| self.unavailable())?;
        let remembers = !answer.remember.is_empty();
        let answered = self.finish_answer(reply, &caller, id, &answer).await?;
        if remembers {
            self.rejudge_open_logged().await;
        }
        Ok(answered)
    }

    async fn finish_answer(
        &self,
        reply: ServiceResult<CommandReply>,
        caller: &Caller,
        id: ApprovalId,
        answer: &ApprovalAnswer,
    ) -> ServiceResult<(Approval, bool)> {
        match reply {
            Ok(CommandReply::Passed(approval)) => Ok((*approval, true)),
            Ok(reply) => Ok((approval(reply)?, false)),
            // What memory no longer holds has ended for good, so history can answer.
            Err(ServiceError::Rejected(Rejection::UnknownApproval(_))) => {
                let ended = self.load_ended(caller, id).await?;
                let (checked, answer) = (ended.clone(), answer.clone());
                self.read(move |view| answer_again(view.state, &checked, &answer))
                    .await??;
                Ok((ended, false))
            }
            Err(error) => Err(error),
        }
    }

    async fn load_ended(&self, caller: &Caller, id: ApprovalId) -> ServiceResult<Approval> {
        let wanted = id.clone();
        let found = self
            .history(move |history| history.find_approval(&wanted))
            .await?;
        let found = found.ok_or(Rejection::UnknownApproval(id))?;
        // As the loop would have refused them: where an ask is kept changes nothing about who may
        // answer.
        if let Some(agent) = caller.principal.agent() {
            return Err(Rejection::AgentsCannotAnswer(agent.clone()).into());
        }
        caller.refuse_observers()?;
        Ok(found)
    }

    /// Takes an ask back.
    pub async fn cancel_approval(
        &self,
        caller: Caller,
        id: ApprovalId,
        message: Option<String>,
    ) -> ServiceResult<Approval> {
        approval(
            self.submit(Input::CancelApproval {
                caller,
                approval: id,
                message,
            })
            .await?,
        )
    }

    /// Takes an ended ask off the list.
    pub async fn dismiss_approval(
        &self,
        caller: Caller,
        id: ApprovalId,
    ) -> ServiceResult<Approval> {
        let found = Box::new(self.load_approval(&caller, id).await?);
        approval(
            self.submit(Input::DismissApproval {
                caller,
                approval: found,
            })
            .await?,
        )
    }

    /// One approval, wherever it is. An agent sees only its own, and those of agents below it.
    pub async fn load_approval(&self, caller: &Caller, id: ApprovalId) -> ServiceResult<Approval> {
        self.load_item(caller, id).await
    }

    /// One approval, as its asker fetches it: if it ended, that is a delivery.
    pub async fn fetch_approval(&self, caller: &Caller, id: ApprovalId) -> ServiceResult<Approval> {
        let found = self.load_approval(caller, id).await?;
        if found.is_pending() || caller.principal.agent().is_none() {
            return Ok(found);
        }
        approval(self.submit(Input::DeliverAnswer(Box::new(found))).await?)
    }

    /// Waits until an approval ends, or `limit` is over; then it is given as it is.
    /// Any number may wait, and a wait that starts after the answer returns at once.
    pub async fn wait_approval(
        &self,
        caller: &Caller,
        id: ApprovalId,
        limit: Option<Duration>,
    ) -> ServiceResult<Approval> {
        let found = self.load_approval(caller, id.clone()).await?;
        // Only a wait of the asker is a delivery. Anybody else who waits just looks.
        let is_asker = found.was_asked_by(&caller.principal);
        if !found.is_pending() {
            let told = Input::DeliverAnswer(Box::new(found.clone()));
            return if is_asker {
                approval(self.submit(told).await?)
            } else {
                Ok(found)
            };
        }
        let wanted = id.clone();
        let ended = self.wait_in_loop(limit, |answer| SupervisorCommand::WaitApproval {
            id: wanted,
            is_asker,
            answer,
        });
        match ended.await {
            Ok(Some(ended)) => Ok(ended),
            Ok(None) => self.load_approval(caller, id).await,
            Err(ServiceError::Rejected(Rejection::UnknownApproval(_))) => {
                // It ended between the read and the wait, and memory has let go of it.
                Box::pin(self.wait_approval(caller, id, limit)).await
            }
            Err(error) => Err(error),
        }
    }

    /// Records what became of telling an answer.
    pub async fn settle_answer(
        &self,
        approval: &Approval,
        delivery: AnswerDelivery,
    ) -> ServiceResult<()> {
        self.send(SupervisorCommand::Input(
            settle_input(approval, delivery),
            None,
        ))
        .await
    }

    /// What the agent that calls has open, newest first; nothing for anybody else.
    pub async fn own_open_asks(&self, caller: &Caller) -> ServiceResult<Vec<Approval>> {
        let Some(agent) = caller.principal.agent().cloned() else {
            return Ok(Vec::new());
        };
        self.read(move |view| {
            let open = view.state.open_approvals();
            let own = open.filter(|approval| approval.ask.agent.as_ref() == Some(&agent));
            let mut own: Vec<Approval> = own.cloned().collect();
            own.sort_by_key(|approval| std::cmp::Reverse(approval.opened));
            own
        })
        .await
    }

    /// Approvals from history, newest first. An agent sees its own alone.
    pub async fn approvals(
        &self,
        caller: &Caller,
        mut query: ApprovalQuery,
    ) -> ServiceResult<Vec<Approval>> {
        query.agent = caller.principal.agent().cloned().or(query.agent);
        self.history(move |history| history.approvals(&query)).await
    }

    /// Denies everything open and interrupts every agent. Gives both numbers.
    pub async fn stop_all(&self, caller: Caller) -> ServiceResult<StopCounts> {
        let (answer, wait) = oneshot::channel();
        self.send(SupervisorCommand::StopAll(caller, answer))
            .await?;
        match wait.await.map_err(|_| self.unavailable())?? {
            CommandReply::StoppedAll(counts) => Ok(counts),
            other => Err(mismatch(&other)),
        }
    }
}

fn resolve_input(caller: &Caller, id: &ApprovalId, answer: &ApprovalAnswer) -> ResolveApproval {
    ResolveApproval {
        caller: caller.clone(),
        approval: id.clone(),
        grant_ids: answer.remember.iter().map(|_| new_grant_id()).collect(),
        answer: answer.clone(),
        delegated: None,
    }
}

/// What an answer is remembered as, if it can be.
fn effect_of(outcome: ApprovalOutcome) -> Option<Effect> {
    match outcome {
        ApprovalOutcome::Allowed => Some(Effect::Allow),
        ApprovalOutcome::Denied => Some(Effect::Deny),
        ApprovalOutcome::Answered
        | ApprovalOutcome::Cancelled
        | ApprovalOutcome::Expired
        | ApprovalOutcome::Gone => None,
    }
}
