//! Hearing: what an agent says becomes inputs of the loop, in the order it was said.
//!
//! Text is held and committed in pieces, and before everything it came before. An ask enters the loop
//! and is not waited for.

use std::sync::Arc;

use countersign_agents::PipeEvent;
use countersign_agents::adapter::{
    Answer, Exit, Happening, PermissionAsk, Ready, Report, RequestId, TurnEnd,
};
use countersign_core::event::TurnEnded;
use countersign_core::limits::{
    AGENT_LINE_BYTES_SHORT, AGENT_LOG_BYTES_KEPT, MANAGED_ASK_TIMEOUT_MS,
};
use countersign_core::{APPROVE, ApprovalId, AskRequest, DENY, Json, ManagedAsk, Ran};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::crash;
use crate::names::random_hex;
use crate::service::Asked;

use super::binding;
use super::pace::Pace;
use super::run::{Last, Run};
use super::story::Story;

/// What the hearing side keeps.
#[derive(Default)]
pub(super) struct Hearing {
    pub(super) story: Story,
    log: String,
    in_turn: bool,
}

impl Run {
    /// Hears an agent to its end.
    pub(super) async fn hear_all(self: Arc<Self>, mut events: mpsc::Receiver<PipeEvent>) -> Last {
        let mut hearing = Hearing::default();
        let mut pace = Pace::begin(Instant::now());
        let exit = loop {
            match next(&mut events, &hearing.story).await {
                Next::Due => self.commit_story(&mut hearing.story).await,
                Next::Came(Some(PipeEvent::Exited(exit))) => break exit,
                Next::Came(None) => break Exit::default(),
                Next::Came(Some(event)) => {
                    let rest = pace.heard(size_of(&event), Instant::now());
                    self.take(event, &mut hearing).await;
                    if let Some(until) = rest {
                        tokio::time::sleep_until(until).await;
                    }
                }
            }
        };
        self.commit_report(&mut hearing.story).await;
        Last {
            said: hearing.story.take(),
            exit,
            in_turn: hearing.in_turn,
            log: hearing.log,
        }
    }

    async fn take(self: &Arc<Self>, event: PipeEvent, hearing: &mut Hearing) {
        match event {
            PipeEvent::Line(line) => {
                let heard = aside(line.len(), || self.hear(&line));
                for happening in heard.happenings {
                    self.happen(happening, hearing).await;
                }
            }
            PipeEvent::Oversized { bytes } => {
                let words = format!("a line of {bytes} bytes was too long to be read");
                hearing.story.note(words);
            }
            PipeEvent::Stderr(text) => {
                tracing::debug!(agent = %self.agent, text, "log of an agent");
                keep_end(&mut hearing.log, &text);
            }
            PipeEvent::Exited(_) => {}
        }
        if hearing.story.is_full() {
            self.commit_story(&mut hearing.story).await;
        }
    }

    async fn happen(self: &Arc<Self>, happening: Happening, hearing: &mut Hearing) {
        match happening {
            Happening::Said(entry) => {
                hearing.in_turn = true;
                hearing.story.add(entry);
            }
            Happening::Reported(report) => hearing.story.report(report),
            Happening::Ready(ready) => self.is_ready(ready, hearing).await,
            Happening::StartFailed { message } => {
                self.useless.send_replace(Some(message));
            }
            Happening::Asked(ask) => self.asked(*ask, hearing).await,
            Happening::Withdrawn { request } => self.withdrew(request, hearing).await,
            Happening::Wanted { request, want } => self.wanted(request, want, hearing).await,
            Happening::TurnEnded { turn, end } => self.turn_ended(turn, end, hearing).await,
            Happening::Noise(text) => {
                tracing::debug!(agent = %self.agent, text, "noise of an agent");
            }
        }
    }

    async fn is_ready(&self, ready: Ready, hearing: &mut Hearing) {
        hearing.in_turn = false;
        for warning in ready.warnings {
            hearing.story.note(warning);
        }
        hearing.story.report(Report {
            mode: ready.mode,
            ..Report::default()
        });
        self.commit_story(&mut hearing.story).await;
        self.say(Ran::Ready {
            session: ready.session,
            resumable: ready.resumable,
        })
        .await;
        crash::point("session_recorded");
        self.ready.send_replace(true);
    }

    async fn turn_ended(&self, turn: u32, end: TurnEnd, hearing: &mut Hearing) {
        hearing.in_turn = false;
        self.commit_report(&mut hearing.story).await;
        self.settle_told().await;
        self.say(Ran::TurnEnded {
            said: hearing.story.take(),
            end: Box::new(TurnEnded {
                agent: self.agent.clone(),
                turn,
                reason: end.reason,
                message: end.message,
                usage: end.usage,
            }),
            left_open: end.left_open,
        })
        .await;
    }

    async fn withdrew(&self, request: RequestId, hearing: &mut Hearing) {
        self.commit_story(&mut hearing.story).await;
        self.say(Ran::Withdrew { request: request.0 }).await;
    }

    async fn asked(self: &Arc<Self>, ask: PermissionAsk, hearing: &mut Hearing) {
        hearing.in_turn = true;
        let passes = ask.binds.iter();
        let passes = passes.map(|bound| binding::digest(bound, &self.folder));
        let options = [(ask.can_allow, APPROVE), (true, DENY)];
        let options = options.into_iter().filter(|(can, _)| *can);
        let own = ManagedAsk {
            request: ask.request.0.clone(),
            passes: passes.collect(),
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
        self.keep(ask.request.clone(), id.clone(), None);
        let run = self.clone();
        match self.enter(request).await {
            Ok(asked) => {
                self.tasks.spawn(async move {
                    if let Err(error) = asked.accepted().await {
                        run.refuse(ask.request, &id, &error.to_string());
                    }
                });
            }
            Err(error) => self.refuse(ask.request, &id, &error.to_string()),
        }
    }

    /// An ask that cannot even be asked is denied, with the reason.
    fn refuse(&self, request: RequestId, ask: &ApprovalId, why: &str) {
        let message = Some(format!("this could not be asked: {why}"));
        let answer = Answer::Deny { message };
        // It may have been withdrawn meanwhile.
        drop(self.answer_request(request, ask, answer));
    }

    /// Sends an ask into the loop; what became of earlier answers comes right after it.
    pub(super) async fn enter(&self, request: AskRequest) -> Result<Asked, crate::ServiceError> {
        let asked = self.service.send_ask(request, Vec::new(), None).await;
        self.settle_told().await;
        asked
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

    async fn commit_story(&self, story: &mut Story) {
        self.commit_report(story).await;
        let said = story.take();
        if !said.is_empty() {
            self.say(Ran::Said(said)).await;
        }
    }

    async fn commit_report(&self, story: &mut Story) {
        if let Some(report) = story.take_report(&self.agent) {
            self.say(Ran::Reported(Box::new(report))).await;
        }
    }
}

/// What takes long to understand must not hold up whoever shares the thread.
fn aside<T>(bytes: usize, understand: impl FnOnce() -> T) -> T {
    let shares = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if shares && bytes > AGENT_LINE_BYTES_SHORT {
        tokio::task::block_in_place(understand)
    } else {
        understand()
    }
}

enum Next {
    Came(Option<PipeEvent>),
    Due,
}

async fn next(events: &mut mpsc::Receiver<PipeEvent>, story: &Story) -> Next {
    let Some(due) = story.due() else {
        return Next::Came(events.recv().await);
    };
    tokio::select! {
        event = events.recv() => Next::Came(event),
        () = tokio::time::sleep_until(due) => Next::Due,
    }
}

fn size_of(event: &PipeEvent) -> usize {
    match event {
        PipeEvent::Line(line) => line.len(),
        PipeEvent::Stderr(text) => text.len(),
        PipeEvent::Oversized { .. } | PipeEvent::Exited(_) => 0,
    }
}

fn keep_end(log: &mut String, text: &str) {
    log.push_str(text);
    if !text.ends_with('\n') {
        log.push('\n');
    }
    let surplus = log.len().saturating_sub(AGENT_LOG_BYTES_KEPT);
    let cut = (surplus..=log.len()).find(|at| log.is_char_boundary(*at));
    log.drain(..cut.unwrap_or(0));
}
