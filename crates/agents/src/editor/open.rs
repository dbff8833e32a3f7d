//! Sessions: opened, followed, closed.

use serde_json::{Value, json};

use super::host_call::{EditorHostCall, HostCallError, PendingCall, refuse};
use super::session::{
    AgentPhase, EditorSession, SessionChoices, SessionEvent, SessionFact, SessionOpenKind,
    SessionOpening, SessionOption, SessionSnapshot,
};
use super::{EditorConnection, EditorOutput, updates};
use crate::acp::envelope;
use crate::adapter::RequestId;

impl EditorConnection {
    /// Begins to follow an agent; the request is answered when it is known how the agent is.
    pub(super) fn follow(
        &mut self,
        output: &mut EditorOutput,
        session: String,
        request: RequestId,
        kind: SessionOpenKind,
    ) {
        let opening = SessionOpening {
            request,
            kind,
            snapshot: None,
            held: Vec::new(),
        };
        let opened = EditorSession {
            opening: Some(opening),
            ..EditorSession::default()
        };
        // Loaded again in the same process, a session begins anew: its open requests are withdrawn.
        self.forget(output, &session);
        self.sessions.insert(session.clone(), opened);
        let replay = kind == SessionOpenKind::Load;
        let call = EditorHostCall::Follow {
            session,
            replay,
            terminals: self.shows_terminals(),
            serves: self.serves(),
        };
        self.call(output, call, PendingCall::Unanswered);
    }

    /// Ends what this process does for a session. The agent lives on.
    pub(super) fn forget(&mut self, output: &mut EditorOutput, session: &str) {
        let Some(closed) = self.sessions.remove(session) else {
            return;
        };
        if let Some(opening) = &closed.opening {
            let message = "the session was closed before it was open";
            output.error(&opening.request, envelope::REQUEST_CANCELLED, message);
        }
        for prompt in &closed.prompts {
            // The turn may go on with the agent; only this editor does not hear of its end.
            output.result(&prompt.request, &json!({"stopReason": "cancelled"}));
        }
        let asked = closed.asks.values().filter_map(|open| open.request);
        let questions = closed.questions.values();
        for request in asked.chain(questions.filter_map(|open| open.request)) {
            self.cancel_request(output, request);
        }
        let call = EditorHostCall::Unfollow {
            session: session.to_owned(),
        };
        self.call(output, call, PendingCall::Unanswered);
    }

    pub(super) fn apply_fact(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        fact: SessionFact,
    ) {
        match fact {
            SessionFact::Replayed(entries) => {
                for entry in entries {
                    self.show_entry(output, session, entry);
                }
            }
            SessionFact::Attached(snapshot) => self.attach(output, session, snapshot),
            SessionFact::Event(event) => self.apply_or_hold(output, session, event),
            SessionFact::Failed(error) => self.fail_session(output, session, &error),
        }
    }

    fn attach(&mut self, output: &mut EditorOutput, session: &str, snapshot: Box<SessionSnapshot>) {
        let Some(opening) = self.find_opening(session) else {
            return;
        };
        let is_new = opening.kind == SessionOpenKind::New;
        let phase = snapshot.phase.clone();
        opening.snapshot = Some(snapshot);
        match phase {
            // Why it cannot start (no login, no program) is the answer to the request that starts it.
            AgentPhase::Starting if is_new => {}
            AgentPhase::Ended { message } if is_new => self.fail_start(output, session, &message),
            AgentPhase::Starting | AgentPhase::Ready | AgentPhase::Ended { .. } => {
                self.finish_opening(output, session);
            }
        }
    }

    fn apply_or_hold(&mut self, output: &mut EditorOutput, session: &str, event: SessionEvent) {
        let Some(opening) = self.find_opening(session) else {
            return self.apply_event(output, session, event);
        };
        match event {
            SessionEvent::Ready => self.finish_opening(output, session),
            SessionEvent::Exited { message } => self.fail_start(output, session, &message),
            SessionEvent::ChoicesChanged(choices) => {
                if let Some(snapshot) = &mut opening.snapshot {
                    // Into the snapshot, because the answer to the request carries the choices.
                    snapshot.choices = *choices;
                }
            }
            // Updates have to follow the answer to the request, which is what opens the session.
            event => opening.held.push(event),
        }
    }

    fn find_opening(&mut self, session: &str) -> Option<&mut SessionOpening> {
        self.sessions.get_mut(session)?.opening.as_mut()
    }

    fn fail_start(&mut self, output: &mut EditorOutput, session: &str, message: &str) {
        let error = HostCallError {
            message: format!("the agent could not start: {message}"),
            not_found: false,
        };
        self.fail_session(output, session, &error);
    }

    fn fail_session(&mut self, output: &mut EditorOutput, session: &str, error: &HostCallError) {
        let Some(failed) = self.sessions.get_mut(session) else {
            return;
        };
        if let Some(opening) = failed.opening.take() {
            refuse(output, &opening.request, error);
        }
        // Before `forget`, which would tell the editor that they were cancelled.
        for prompt in std::mem::take(&mut failed.prompts) {
            refuse(output, &prompt.request, error);
        }
        self.forget(output, session);
    }

    fn finish_opening(&mut self, output: &mut EditorOutput, session: &str) {
        let Some(opened) = self.sessions.get_mut(session) else {
            return;
        };
        let Some(opening) = opened.opening.take() else {
            return;
        };
        let snapshot = opening.snapshot.unwrap_or_default();
        // The opening is over before anything is sent: what follows is applied and no longer held.
        opened.choices = snapshot.choices;
        let mut result = choices(&opened.choices);
        if opening.kind == SessionOpenKind::New {
            result["sessionId"] = json!(session);
        }
        // First of all: of a new session the editor learns the id only by this answer.
        output.result(&opening.request, &result);
        if let Some(title) = &snapshot.title {
            output.update(session, &updates::title(title));
        }
        if !opened.choices.commands.is_empty() {
            output.update(session, &updates::commands(&opened.choices.commands));
        }
        for ask in &snapshot.asks {
            self.open_ask(output, session, ask);
        }
        for question in snapshot.questions {
            self.open_question(output, session, question);
        }
        // Last: they came after the snapshot, and may end an ask that it has open.
        for event in opening.held {
            self.apply_event(output, session, event);
        }
    }
}

/// What a session lets be chosen, as the answer to what opens it.
fn choices(choices: &SessionChoices) -> Value {
    let mut result = json!({});
    if let Some(mode) = &choices.mode
        && !choices.modes.is_empty()
    {
        let modes: Vec<Value> = choices.modes.iter().map(mode_row).collect();
        result["modes"] = json!({"currentModeId": mode, "availableModes": modes});
    }
    let options = config_options(choices);
    if !options.is_empty() {
        result["configOptions"] = json!(options);
    }
    result
}

fn mode_row(mode: &SessionOption) -> Value {
    let mut row = json!({"id": mode.id, "name": mode.name});
    if let Some(description) = &mode.description {
        row["description"] = json!(description);
    }
    row
}

/// The choices as options of the session, for editors that know those.
pub(super) fn config_options(choices: &SessionChoices) -> Vec<Value> {
    let all = [
        ("mode", "Mode", &choices.mode, &choices.modes),
        ("model", "Model", &choices.model, &choices.models),
    ];
    all.into_iter()
        .filter_map(|(id, name, current, values)| {
            let current = current.as_ref().filter(|_| !values.is_empty())?;
            let values: Vec<Value> = values.iter().map(value_row).collect();
            Some(json!({
                "id": id, "name": name, "category": id, "type": "select",
                "currentValue": current, "options": values,
            }))
        })
        .collect()
}

fn value_row(value: &SessionOption) -> Value {
    let mut row = json!({"value": value.id, "name": value.name});
    if let Some(description) = &value.description {
        row["description"] = json!(description);
    }
    row
}
