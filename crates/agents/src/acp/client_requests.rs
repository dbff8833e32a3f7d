//! Client requests: the files and terminals that the agent asks its client for.
//!
//! Invariants: a method that is not offered and parameters that are malformed are refused here, before
//! any rule or person is asked; each request is answered once, in whatever order the answers come.

use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES as METHODS, CreateTerminalRequest, EnvVariable, ReadTextFileRequest,
    TerminalOutputRequest, WriteTextFileRequest,
};
use countersign_core::limits::WORD_BYTES_MAX;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::state::{AcpState, PendingKind, PendingRequest};
use super::{AcpRequest, command, envelope};
use crate::adapter::{
    AdapterOutput, AgentEvent, AgentWrite, ClientRequest, ClientRequestError, ClientResponse,
    CommandError, ProcessExit, RequestId, WriteKind,
};

/// A request that could be read.
struct ParsedRequest {
    session: String,
    /// What is kept until it is answered.
    kind: PendingKind,
    request: ClientRequest,
}

/// Hands a request up, or refuses it.
pub(super) fn handle_request(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    request: &AcpRequest<'_>,
) {
    let (code, reason) = match parse_request(request.method, request.params, &state.cwd) {
        Ok(None) => (
            envelope::METHOD_NOT_FOUND,
            format!(
                "method not found: {}",
                envelope::truncate_noise(request.method)
            ),
        ),
        Ok(Some(parsed)) if !state.is_our_session(&parsed.session) => (
            envelope::INVALID_PARAMS,
            "that session is not open".to_owned(),
        ),
        // The turn is ending: whatever this would begin could outlive it.
        Ok(Some(parsed)) if state.is_over_for(&parsed.kind) => (
            envelope::REQUEST_CANCELLED,
            "the turn was interrupted".to_owned(),
        ),
        Ok(Some(parsed)) => {
            let pending = PendingRequest {
                line: request.line,
                kind: parsed.kind,
            };
            state.pending.insert(request.id.clone(), pending);
            output.events.push(AgentEvent::ClientRequested {
                request: request.id.clone(),
                line: request.line,
                client_request: parsed.request,
            });
            return;
        }
        Err(reason) => (envelope::INVALID_PARAMS, reason),
    };
    output.writes.push(encode_refusal(request, code, &reason));
}

/// The answer to a request that nobody serves.
pub(super) fn encode_refusal(request: &AcpRequest<'_>, code: i64, reason: &str) -> AgentWrite {
    let kind = if code == envelope::REQUEST_CANCELLED {
        WriteKind::Cancelled
    } else {
        WriteKind::Refused
    };
    let bytes = envelope::error(&request.id, code, reason);
    AgentWrite::reply_to(request.line, kind, bytes)
}

/// `None` for a method that is not offered; fails with what is wrong with the parameters.
fn parse_request(
    method: &str,
    params: Option<&RawValue>,
    cwd: &str,
) -> Result<Option<ParsedRequest>, String> {
    let parsed = match method {
        _ if method == METHODS.fs_read_text_file => {
            let params: ReadTextFileRequest = parse(params)?;
            ParsedRequest {
                session: params.session_id.to_string(),
                kind: PendingKind::Read,
                request: ClientRequest::Read {
                    path: absolute(params.path)?,
                    line: params.line,
                    limit: params.limit,
                },
            }
        }
        _ if method == METHODS.fs_write_text_file => {
            let params: WriteTextFileRequest = parse(params)?;
            ParsedRequest {
                session: params.session_id.to_string(),
                kind: PendingKind::Write,
                request: ClientRequest::Write {
                    path: absolute(params.path)?,
                    content: params.content,
                },
            }
        }
        _ if method == METHODS.terminal_create => parse_create_terminal(params, cwd)?,
        _ => return parse_terminal_request(method, params),
    };
    Ok(Some(parsed))
}

/// A request about a terminal that is open. All of them have the same parameters.
fn parse_terminal_request(
    method: &str,
    params: Option<&RawValue>,
) -> Result<Option<ParsedRequest>, String> {
    let kind = match method {
        _ if method == METHODS.terminal_output => PendingKind::Output,
        _ if method == METHODS.terminal_wait_for_exit => PendingKind::WaitForExit,
        _ if method == METHODS.terminal_kill => PendingKind::Kill,
        _ if method == METHODS.terminal_release => PendingKind::Release,
        _ => return Ok(None),
    };
    let params: TerminalOutputRequest = parse(params)?;
    let terminal = params.terminal_id.to_string();
    let request = match kind {
        PendingKind::Output => ClientRequest::Output { terminal },
        PendingKind::WaitForExit => ClientRequest::WaitForExit { terminal },
        PendingKind::Kill => ClientRequest::Kill { terminal },
        _ => ClientRequest::Release { terminal },
    };
    Ok(Some(ParsedRequest {
        session: params.session_id.to_string(),
        kind,
        request,
    }))
}

fn parse_create_terminal(params: Option<&RawValue>, cwd: &str) -> Result<ParsedRequest, String> {
    let params: CreateTerminalRequest = parse(params)?;
    let given = params.cwd.map(absolute).transpose()?;
    let given = given.as_deref().and_then(Path::to_str);
    // Refused rather than left out: what runs must be what was asked.
    if let Some(var) = params.env.iter().find(|var| !is_variable(var)) {
        let name = envelope::truncate(&var.name, WORD_BYTES_MAX);
        return Err(format!("`{name}` cannot be a variable with that value"));
    }
    let env = params.env.into_iter().map(|var| (var.name, var.value));
    let run = command::run_request(&params.command, &params.args, env.collect(), given, cwd);
    Ok(ParsedRequest {
        session: params.session_id.to_string(),
        kind: PendingKind::CreateTerminal,
        request: ClientRequest::CreateTerminal {
            run: run.ok_or("there is no command")?,
            output_bytes_max: params.output_byte_limit,
        },
    })
}

/// Names that a shell would not take for one could hide from rules and people what is run.
fn is_variable(var: &EnvVariable) -> bool {
    let has_only_name_letters = var
        .name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    has_only_name_letters
        && var
            .name
            .starts_with(|letter: char| !letter.is_ascii_digit())
        && !var.value.contains('\0')
}

fn parse<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, String> {
    let params = params.map_or("null", RawValue::get);
    serde_json::from_str(params).map_err(|error| format!("invalid params: {error}"))
}

fn absolute(path: PathBuf) -> Result<PathBuf, String> {
    // Only the agent knows what a relative path is relative to.
    if path.is_absolute() {
        Ok(path)
    } else {
        Err("the path must be absolute".to_owned())
    }
}

/// Answers a client request with its result.
pub(super) fn answer(
    state: &mut AcpState,
    request: &RequestId,
    served: Result<ClientResponse, ClientRequestError>,
) -> Result<Vec<AgentWrite>, CommandError> {
    let line = match state.pending.get(request) {
        Some(PendingRequest { line, kind }) if !kind.is_ask() => *line,
        _ => return Err(CommandError::NotWaiting),
    };
    // Removed with the answer, so that a second answer finds nothing.
    state.pending.remove(request);
    let (kind, bytes) = match served {
        Ok(served) => {
            let bytes = envelope::result(request, &to_result(served));
            (WriteKind::Served, bytes)
        }
        Err(error) => {
            let bytes = envelope::error(request, error_code(&error), &error.to_string());
            (WriteKind::Refused, bytes)
        }
    };
    Ok(vec![AgentWrite::reply_to(line, kind, bytes)])
}

fn error_code(error: &ClientRequestError) -> i64 {
    match error {
        ClientRequestError::NotFound(_) => envelope::RESOURCE_NOT_FOUND,
        ClientRequestError::NotPermitted(_) => envelope::NOT_PERMITTED,
        ClientRequestError::Cancelled(_) => envelope::REQUEST_CANCELLED,
        ClientRequestError::Failed(_) => envelope::FAILED,
    }
}

fn to_result(served: ClientResponse) -> Value {
    match served {
        ClientResponse::Text(content) => json!({"content": content}),
        ClientResponse::Terminal(terminal) => json!({"terminalId": terminal}),
        ClientResponse::Output {
            text,
            truncated,
            exit,
        } => {
            let mut output = json!({"output": text, "truncated": truncated});
            if let Some(exit) = exit {
                output["exitStatus"] = exit_status(&exit);
            }
            output
        }
        ClientResponse::Exited(exit) => exit_status(&exit),
        ClientResponse::Done => json!({}),
    }
}

fn exit_status(exit: &ProcessExit) -> Value {
    json!({"exitCode": exit.code, "signal": exit.signal})
}
