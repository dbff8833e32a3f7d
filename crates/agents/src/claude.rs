//! Claude Code by its own stream of JSON lines, with permissions asked over the same pipe.
//!
//! [`ClaudeAdapter`] is a machine without I/O over a [`ClaudeState`](state::ClaudeState) that is plain data. What other
//! protocols say in a handshake, this agent takes on its command line: [`arguments`].
//!
//! Invariants: each ask is answered at most once; an allow is written only for [`AgentCommand::Answer`] and
//! says what runs; a control request that nobody serves is answered with an error, so that the agent
//! never waits for it; text that was streamed is not told again with the whole message.
//!
//! Names and ids are made of what a message is about, and never counted, as in [`crate::acp`]. The
//! agent may begin a turn of its own accord (a timer of its own, a task in the background); its end
//! is not taken for the end of ours, because each prompt has an id that the agent speaks of.
//!
//! Deliberately absent: files and terminals. This agent runs its tools itself.

mod arguments;
mod control;
mod messages;
mod state;
mod stream;
mod turn;
mod wire;

#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod tests;

use countersign_core::{Json, ManagedAgent};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::adapter::{
    Adapter, AdapterOutput, AgentCommand, AgentEvent, AgentWrite, CommandError, RestoreError,
    SessionSpec,
};
use crate::protocols::{ProtocolSupport, SessionToOpen};
use crate::truncate::truncate_noise;
pub(crate) use arguments::server_entries;
use state::ClaudeState;

/// One connection to Claude Code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaudeAdapter {
    state: ClaudeState,
}

impl ClaudeAdapter {
    /// A connection on which nothing was said yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on with a connection from what [`Adapter::state`] gave.
    pub fn restore(state: &Json) -> Result<Self, RestoreError> {
        Ok(Self {
            state: serde_json::from_str(state.text())?,
        })
    }
}

/// Claude Code's own protocol, as the host has to know it.
pub(crate) struct ClaudeProtocol;

impl ProtocolSupport for ClaudeProtocol {
    fn new_adapter(&self) -> Box<dyn Adapter> {
        Box::new(ClaudeAdapter::new())
    }

    fn restore_adapter(&self, state: &Json) -> Result<Box<dyn Adapter>, RestoreError> {
        Ok(Box::new(ClaudeAdapter::restore(state)?))
    }

    fn arguments(&self, start: &SessionSpec) -> Vec<String> {
        arguments::arguments(start)
    }

    fn new_session_id(&self, unique: &str) -> Option<String> {
        Some(wire::new_session_id(unique))
    }

    fn session_to_open(&self, managed: &ManagedAgent) -> SessionToOpen {
        // Claude Code stores no session in which nothing was said, so before the first turn there is
        // none of this agent's own, and the one it was forked from has to be forked again.
        if managed.turns == 0 {
            return SessionToOpen {
                session: managed.options.fork.clone(),
                fork: managed.options.fork.is_some(),
            };
        }
        SessionToOpen {
            session: managed.session.clone().filter(|_| managed.resumable),
            fork: false,
        }
    }

    fn session_to_fork(&self, managed: &ManagedAgent) -> Result<String, &'static str> {
        let session = managed.session.clone().filter(|_| managed.turns > 0);
        session.ok_or("nothing was said to it yet")
    }
}

/// A line of the agent: what it is, and all of it.
struct ClaudeMessage<'a> {
    kind: String,
    subtype: Option<String>,
    /// The tool call of the agent that a part of it works for, if it is not the agent itself.
    parent: Option<String>,
    raw: &'a RawValue,
    /// The number of the line.
    line: u64,
}

#[derive(Deserialize)]
struct MessageHead {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    subtype: Option<String>,
    #[serde(default)]
    parent_tool_use_id: Option<String>,
}

impl<'a> ClaudeMessage<'a> {
    fn read(line: &'a [u8], number: u64) -> Option<Self> {
        let raw: &RawValue = serde_json::from_slice(line).ok()?;
        let head: MessageHead = serde_json::from_str(raw.get()).ok()?;
        Some(Self {
            kind: head.kind,
            subtype: head.subtype,
            parent: head.parent_tool_use_id,
            raw,
            line: number,
        })
    }

    fn parse<T: Deserialize<'a>>(&self) -> Option<T> {
        serde_json::from_str(self.raw.get()).ok()
    }
}

impl Adapter for ClaudeAdapter {
    fn handle_line(&mut self, line: &[u8], number: u64) -> AdapterOutput {
        let mut output = AdapterOutput::default();
        let state = &mut self.state;
        // Before anything of this line: an ask in it may use the id of one that was withdrawn.
        for request in std::mem::take(&mut state.withdrawn) {
            output.withdraw(request);
        }
        let Some(message) = ClaudeMessage::read(line, number) else {
            let noise = String::from_utf8_lossy(line);
            if !noise.trim().is_empty() {
                let noise = truncate_noise(&noise);
                output.events.push(AgentEvent::Noise(noise));
            }
            return output;
        };
        let understood = match message.kind.as_str() {
            "control_request" => control::handle_request(state, &mut output, &message),
            "control_response" => control::handle_response(state, &mut output, &message),
            "control_cancel_request" => control::handle_cancellation(state, &mut output, &message),
            "command_lifecycle" => turn::handle_lifecycle(state, &mut output, &message),
            "result" => turn::handle_result(state, &mut output, &message),
            "stream_event" => stream::handle_piece(state, &mut output, &message),
            "assistant" => messages::handle_assistant(state, &mut output, &message),
            "user" => messages::handle_user(state, &mut output, &message),
            "system" => messages::handle_system(state, &mut output, &message),
            // How long a tool runs, that the line is in use, how much may still be used.
            "tool_progress" | "keep_alive" | "rate_limit_event" => Some(()),
            _ => None,
        };
        if understood.is_none() {
            output.record_unknown(message.raw);
        }
        output
    }

    fn apply_command(&mut self, order: AgentCommand) -> Result<Vec<AgentWrite>, CommandError> {
        let state = &mut self.state;
        match order {
            AgentCommand::Start(start) => control::start(state, &start),
            AgentCommand::Prompt {
                turn,
                messages,
                attachments,
            } => turn::prompt(state, turn, &messages, &attachments),
            AgentCommand::Answer { request, answer } => control::answer(state, &request, answer),
            AgentCommand::Serve { .. } => Err(CommandError::Unsupported(
                "it runs its tools itself".to_owned(),
            )),
            AgentCommand::Interrupt => Ok(turn::interrupt(state)),
            AgentCommand::SetMode { revision, mode } => control::set_mode(state, revision, &mode),
            AgentCommand::SetModel { revision, model } => {
                control::set_model(state, revision, &model)
            }
        }
    }

    fn state(&self) -> Json {
        Json::from_value(&self.state).unwrap_or_default()
    }

    fn open_requests(&self) -> Vec<u64> {
        let mut lines: Vec<u64> = self
            .state
            .pending_asks
            .values()
            .map(|ask| ask.line)
            .collect();
        lines.sort_unstable();
        lines
    }
}
