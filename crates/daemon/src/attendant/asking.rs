//! Asking: an ask of an agent enters the loop, with all that came before it.

use std::sync::Arc;

use countersign_agents::adapter::{Answer, PermissionAsk, RequestId};
use countersign_core::limits::MANAGED_ASK_TIMEOUT_MS;
use countersign_core::{APPROVE, ApprovalId, AskRequest, DENY, Json, ManagedAsk};

use crate::crash;
use crate::names::random_hex;
use crate::reply::{Reply, ServiceError};

use super::binding;
use super::hearing::Hearing;
use super::run::Run;
use super::talk::{Lost, OpenRequest};

/// Why an ask did not come about.
pub(super) enum NotAsked {
    /// The loop said no.
    Refused(ServiceError),
    /// Nobody knows what became of it.
    Lost,
}

impl Run {
    pub(super) async fn asked(
        self: &Arc<Self>,
        ask: PermissionAsk,
        hearing: &mut Hearing,
    ) -> Result<(), Lost> {
        hearing.in_turn = true;
        let passes = ask.binds.iter();
        let passes = passes.map(|bound| binding::digest(bound, &self.folder));
        let options = [(ask.can_allow, APPROVE), (true, DENY)];
        let options = options.into_iter().filter(|(can, _)| *can);
        let own = ManagedAsk {
            request: ask.request.0.clone(),
            passes: passes.collect(),
            hears_words: ask.hears_words,
            can_edit: ask.can_edit,
            ..ManagedAsk::default()
        };
        let request = AskRequest {
            tool_call: Some(ask.tool_call),
            tool: ask.tool,
            input: ask.input,
            details: ask.details,
            options: options.map(|(_, option)| option.to_owned()).collect(),
            ..self.ask_request(ask.title, own, hearing)
        };
        let id = request.id.clone();
        let open = OpenRequest {
            line: ask.line,
            ask: Some(id.clone()),
            want: None,
            held: None,
            under_way: false,
        };
        self.talk().keep(ask.request.clone(), open);
        match self.enter(request, hearing).await {
            Ok(_) => Ok(()),
            Err(NotAsked::Refused(error)) => {
                self.refuse(&ask.request, &id, &error.to_string());
                Ok(())
            }
            Err(NotAsked::Lost) => Err(Lost),
        }
    }

    /// An ask that cannot even be asked is denied, with the reason.
    fn refuse(self: &Arc<Self>, request: &RequestId, ask: &ApprovalId, why: &str) {
        let message = Some(format!("this could not be asked: {why}"));
        let stop = false;
        let answer = Answer::Deny { message, stop };
        let sent = self.talk().refuse(request, ask, answer);
        self.follow(sent);
    }

    /// Sends an ask into the loop, with what became of earlier answers and how far the agent was
    /// heard. What comes after it in the pipe waits for the commit: it must not overtake an ask that
    /// could not be committed.
    pub(super) async fn enter(
        &self,
        request: AskRequest,
        hearing: &mut Hearing,
    ) -> Result<Reply, NotAsked> {
        let mut before = self.take_told();
        before.extend(self.reported(&mut hearing.story));
        let mark = self.mark_unless_partial(hearing);
        let bookmark = mark.as_ref().map(|mark| self.bookmark(mark));
        crash::point("ask_heard");
        let asked = match self.service.send_ask(request, before, bookmark).await {
            Ok(asked) => asked.accepted().await,
            Err(error) => Err(error),
        };
        match asked {
            Ok(reply) => {
                crash::point("ask_accepted");
                self.acknowledge(hearing, mark);
                crash::point("ask_acknowledged");
                Ok(reply)
            }
            Err(error @ ServiceError::Rejected(_)) => Err(NotAsked::Refused(error)),
            Err(error) => {
                tracing::warn!(agent = %self.agent, %error, "an ask was not recorded");
                Err(NotAsked::Lost)
            }
        }
    }

    /// What every ask of this agent has in common.
    pub(super) fn ask_request(
        &self,
        action: String,
        own: ManagedAsk,
        hearing: &mut Hearing,
    ) -> AskRequest {
        let timeout = self.ask_timeout_ms.unwrap_or(MANAGED_ASK_TIMEOUT_MS);
        AskRequest {
            caller: self.caller.clone(),
            id: ApprovalId::new(format!("approval-{}", random_hex::<6>())),
            agent: Some(self.agent.clone()),
            turn: None,
            tool_call: None,
            action,
            tool: None,
            input: None,
            details: Json::null(),
            a2ui: None,
            options: Vec::new(),
            approving: None,
            system_level: true,
            idempotency_key: None,
            timeout_ms: (timeout > 0).then_some(timeout),
            cwd: Some(self.folder.to_string_lossy().into_owned()),
            judged: None,
            keyed: None,
            managed: Some(Box::new(ManagedAsk {
                run: self.number,
                said: hearing.story.take(),
                ..own
            })),
        }
    }
}
