//! Calls of the host that the editor serves: terminals that it runs, and files as it has them.
//!
//! Invariants: a command is started once for its key, whichever hosts ask for it; a call is answered with
//! what the editor said or with an error, and an answer that cannot be read is an error.

use std::collections::{BTreeMap, VecDeque};

use agent_client_protocol_schema::v1::CLIENT_METHOD_NAMES as METHODS;
use countersign_core::limits::EDITOR_KEYS_KEPT;
use countersign_core::{TextLayout, visible};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::host_call::{EditorHostCall, PendingCall};
use super::{AskedRequest, EditorConnection, EditorOutput};
use crate::acp::envelope::{AcpError, truncate_noise};
use crate::adapter::ProcessExit;
use crate::shells::{EditorAbilities, EditorCall, EditorCallError, EditorReply};

/// Commands that this process had the editor start, by session and key.
#[derive(Debug, Default)]
pub(super) struct StartedCommands {
    commands: BTreeMap<(String, u64), StartedCommand>,
    oldest: VecDeque<(String, u64)>,
}

#[derive(Clone, Debug)]
enum StartedCommand {
    /// The editor has not answered; these calls wait for it.
    Asked(Vec<u64>),
    Done(Result<EditorReply, EditorCallError>),
}

/// What a request to the editor was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServedKind {
    Create { key: u64, title: String },
    Output { terminal: String },
    Wait { terminal: String },
    Command,
    Read,
}

impl EditorConnection {
    /// What this editor does for the host.
    pub(super) fn serves(&self) -> EditorAbilities {
        EditorAbilities {
            terminals: self.runs_commands(),
            files: self.client.read_files,
        }
    }

    /// Asks the editor for what the host wants of it.
    pub(super) fn serve_call(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        call: u64,
        wanted: EditorCall,
    ) {
        let can = self.serves();
        let is_able = match wanted {
            EditorCall::ReadFile { .. } => can.files,
            _ => can.terminals,
        };
        if !is_able {
            return self.answer_call(output, session, call, Err(refused("it cannot do this")));
        }
        let terminal_params =
            |terminal: &str| json!({"sessionId": session, "terminalId": terminal});
        let (method, params, kind) = match wanted {
            create @ EditorCall::CreateTerminal { .. } => {
                return self.start_command(output, session, call, create);
            }
            EditorCall::TerminalOutput { terminal } => (
                METHODS.terminal_output,
                terminal_params(&terminal),
                ServedKind::Output { terminal },
            ),
            EditorCall::WaitForExit { terminal } => (
                METHODS.terminal_wait_for_exit,
                terminal_params(&terminal),
                ServedKind::Wait { terminal },
            ),
            EditorCall::KillTerminal { terminal } => (
                METHODS.terminal_kill,
                terminal_params(&terminal),
                ServedKind::Command,
            ),
            EditorCall::ReleaseTerminal { terminal } => (
                METHODS.terminal_release,
                terminal_params(&terminal),
                ServedKind::Command,
            ),
            EditorCall::ReadFile { path, line, limit } => {
                let mut params = json!({"sessionId": session, "path": path});
                if let Some(line) = line {
                    params["line"] = json!(line);
                }
                if let Some(limit) = limit {
                    params["limit"] = json!(limit);
                }
                (METHODS.fs_read_text_file, params, ServedKind::Read)
            }
        };
        self.ask_for(output, session, call, method, &params, kind);
    }

    fn ask_for(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        call: u64,
        method: &str,
        params: &Value,
        kind: ServedKind,
    ) {
        let about = AskedRequest::Served {
            session: session.to_owned(),
            call,
            kind,
        };
        self.ask_editor(output, method, params, about);
    }

    fn start_command(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        call: u64,
        create: EditorCall,
    ) {
        let EditorCall::CreateTerminal {
            key,
            only_known,
            program,
            args,
            title,
            env,
            cwd,
            output_bytes_max,
        } = create
        else {
            return;
        };
        match self.started.find(session, key) {
            Some(StartedCommand::Asked(waiting)) => return waiting.push(call),
            Some(StartedCommand::Done(reply)) => {
                let reply = reply.clone();
                return self.answer_call(output, session, call, reply);
            }
            // It was another process that started it, if anybody did.
            None if only_known => {
                return self.answer_call(output, session, call, Err(EditorCallError::Lost));
            }
            None => {}
        }
        // Before it is asked for: a second call for the same key waits for this one's terminal.
        self.started.add(session, key, call);
        let env: Vec<Value> = env
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let params = json!({
            "sessionId": session, "command": program, "args": args, "env": env, "cwd": cwd,
            "outputByteLimit": output_bytes_max,
        });
        let kind = ServedKind::Create { key, title };
        self.ask_for(
            output,
            session,
            call,
            METHODS.terminal_create,
            &params,
            kind,
        );
    }

    /// Takes what the editor answered.
    pub(super) fn finish_served(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        call: u64,
        kind: ServedKind,
        outcome: Result<&RawValue, AcpError>,
    ) {
        let reply = read_reply(&kind, outcome);
        match (kind, &reply) {
            (ServedKind::Create { key, title }, _) => {
                if let Ok(EditorReply::Terminal { terminal }) = &reply {
                    let title = visible(&title, TextLayout::Line).into_owned();
                    self.show_command(output, session, terminal, &title);
                }
                let waiting = self.started.finish(session, key, &reply);
                for call in waiting {
                    self.answer_call(output, session, call, reply.clone());
                }
                return;
            }
            (ServedKind::Wait { terminal }, Ok(EditorReply::Exited { exit })) => {
                self.show_command_end(output, session, &terminal, exit);
            }
            _ => {}
        }
        self.answer_call(output, session, call, reply);
    }

    fn answer_call(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        call: u64,
        reply: Result<EditorReply, EditorCallError>,
    ) {
        let answer = EditorHostCall::AnswerEditorCall {
            session: session.to_owned(),
            call,
            reply,
        };
        self.call(output, answer, PendingCall::Unanswered);
    }

    fn show_command(&self, output: &mut EditorOutput, session: &str, terminal: &str, title: &str) {
        if self.sessions.contains_key(session) {
            let update = json!({
                "sessionUpdate": "tool_call", "toolCallId": call_id(terminal), "title": title,
                "kind": "execute", "status": "in_progress",
                "content": [{"type": "terminal", "terminalId": terminal}],
            });
            output.update(session, &update);
        }
    }

    fn show_command_end(
        &self,
        output: &mut EditorOutput,
        session: &str,
        terminal: &str,
        exit: &ProcessExit,
    ) {
        if self.sessions.contains_key(session) {
            let succeeded = exit.code == Some(0) && exit.signal.is_none();
            let status = if succeeded { "completed" } else { "failed" };
            let update = json!({
                "sessionUpdate": "tool_call_update", "toolCallId": call_id(terminal), "status": status,
            });
            output.update(session, &update);
        }
    }
}

/// No agent's id of a call has this form.
fn call_id(terminal: &str) -> String {
    format!("countersign/command/{terminal}")
}

fn refused(message: &str) -> EditorCallError {
    EditorCallError::Refused {
        message: message.to_owned(),
    }
}

fn read_reply(
    kind: &ServedKind,
    outcome: Result<&RawValue, AcpError>,
) -> Result<EditorReply, EditorCallError> {
    let result = outcome.map_err(|error| refused(&truncate_noise(&error.message)))?;
    let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
    let reply = match kind {
        ServedKind::Create { .. } => {
            text_field(&result, "terminalId").map(|terminal| EditorReply::Terminal { terminal })
        }
        ServedKind::Output { .. } => {
            text_field(&result, "output").map(|text| EditorReply::Output {
                text,
                // Without the field nobody knows, and people must not take a part for the whole.
                truncated: result["truncated"].as_bool().unwrap_or(true),
                exit: result
                    .get("exitStatus")
                    .filter(|exit| !exit.is_null())
                    .map(read_exit),
            })
        }
        ServedKind::Wait { .. } => Some(EditorReply::Exited {
            exit: read_exit(&result),
        }),
        ServedKind::Command => Some(EditorReply::Done),
        ServedKind::Read => text_field(&result, "content").map(|text| EditorReply::Text { text }),
    };
    reply.ok_or_else(|| refused("its answer does not fit the protocol"))
}

fn text_field(result: &Value, name: &str) -> Option<String> {
    result.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// A code that is out of range, or none at all, is -1. A signal is given as it is.
fn read_exit(exit: &Value) -> ProcessExit {
    let signal = exit.get("signal").and_then(Value::as_str);
    let code = match exit.get("exitCode") {
        // Neither a code nor a signal is no success: `-1` stands for an end that is not understood.
        Some(Value::Null) | None if signal.is_some() => None,
        Some(code) => code
            .as_i64()
            .and_then(|code| i32::try_from(code).ok())
            .or(Some(-1)),
        None => Some(-1),
    };
    ProcessExit {
        code,
        signal: signal.map(str::to_owned),
    }
}

impl StartedCommands {
    fn find(&mut self, session: &str, key: u64) -> Option<&mut StartedCommand> {
        self.commands.get_mut(&(session.to_owned(), key))
    }

    fn add(&mut self, session: &str, key: u64, call: u64) {
        let place = (session.to_owned(), key);
        self.oldest.push_back(place.clone());
        self.commands
            .insert(place, StartedCommand::Asked(vec![call]));
        if self.oldest.len() > EDITOR_KEYS_KEPT
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.commands.remove(&oldest);
        }
    }

    /// Remembers what came of a command, and gives the calls that wait for it.
    fn finish(
        &mut self,
        session: &str,
        key: u64,
        reply: &Result<EditorReply, EditorCallError>,
    ) -> Vec<u64> {
        let Some(command) = self.find(session, key) else {
            return Vec::new();
        };
        match std::mem::replace(command, StartedCommand::Done(reply.clone())) {
            StartedCommand::Asked(waiting) => waiting,
            StartedCommand::Done(_) => Vec::new(),
        }
    }
}
