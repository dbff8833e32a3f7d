//! Files and terminals that an agent wants of us: read from its requests, and answered in the
//! protocol's shapes.
//!
//! Invariant: what is not offered is refused, and what is malformed is refused before anybody is
//! asked about it. Nothing here orders the requests: each is answered when its turn comes.

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
    CommandError, ProcessExit, RequestId, meaning,
};

type ParsedRequest = (String, PendingKind, ClientRequest);

/// Hands a wish up, or refuses it.
pub(super) fn handle_request(
    state: &mut AcpState,
    heard: &mut AdapterOutput,
    request: &AcpRequest<'_>,
) {
    let method = request.method;
    let refuse = |heard: &mut AdapterOutput, code, words: &str| {
        heard.writes.push(encode_refusal(request, code, words));
    };
    if !is_offered(state, method) {
        let words = format!("method not found: {}", envelope::truncate_noise(method));
        return refuse(heard, envelope::METHOD_NOT_FOUND, &words);
    }
    match parse_request(method, request.params, &state.cwd) {
        Ok((session, wish, _)) if state.is_ours(&session) && state.is_over_for(&wish) => {
            let words = "the turn was interrupted";
            refuse(heard, envelope::REQUEST_CANCELLED, words);
        }
        Ok((session, wish, want)) if state.is_ours(&session) => {
            let line = request.line;
            let theirs = PendingRequest { line, wish };
            state.theirs.insert(request.id.clone(), theirs);
            let request = request.id.clone();
            let wanted = AgentEvent::ClientRequested {
                request,
                line,
                want,
            };
            heard.events.push(wanted);
        }
        Ok(_) => refuse(heard, envelope::INVALID_PARAMS, "that session is not open"),
        Err(words) => refuse(heard, envelope::INVALID_PARAMS, &words),
    }
}

/// The answer to a request that nobody serves.
pub(super) fn encode_refusal(request: &AcpRequest<'_>, code: i64, words: &str) -> AgentWrite {
    let meaning = if code == envelope::REQUEST_CANCELLED {
        meaning::CANCELLED
    } else {
        meaning::REFUSED
    };
    let bytes = envelope::error(&request.id, code, words);
    AgentWrite::reply_to(request.line, meaning, bytes)
}

fn is_offered(state: &AcpState, method: &str) -> bool {
    let files = [METHODS.fs_read_text_file, METHODS.fs_write_text_file];
    let terminals = [
        METHODS.terminal_create,
        METHODS.terminal_output,
        METHODS.terminal_wait_for_exit,
        METHODS.terminal_kill,
        METHODS.terminal_release,
    ];
    (state.serves_files && files.contains(&method))
        || (state.serves_terminals && terminals.contains(&method))
}

fn parse_request(
    method: &str,
    params: Option<&RawValue>,
    cwd: &str,
) -> Result<ParsedRequest, String> {
    if method == METHODS.fs_read_text_file {
        let wish: ReadTextFileRequest = parse(params)?;
        let want = ClientRequest::Read {
            path: absolute(wish.path)?,
            line: wish.line,
            limit: wish.limit,
        };
        Ok((wish.session_id.to_string(), PendingKind::Read, want))
    } else if method == METHODS.fs_write_text_file {
        let wish: WriteTextFileRequest = parse(params)?;
        let want = ClientRequest::Write {
            path: absolute(wish.path)?,
            content: wish.content,
        };
        Ok((wish.session_id.to_string(), PendingKind::Write, want))
    } else if method == METHODS.terminal_create {
        parse_create_terminal(params, cwd)
    } else {
        let wish: TerminalOutputRequest = parse(params)?;
        let terminal = wish.terminal_id.to_string();
        let (theirs, want) = match method {
            "terminal/output" => (PendingKind::Output, ClientRequest::Output { terminal }),
            "terminal/wait_for_exit" => (
                PendingKind::WaitForExit,
                ClientRequest::WaitForExit { terminal },
            ),
            "terminal/kill" => (PendingKind::Kill, ClientRequest::Kill { terminal }),
            _ => (PendingKind::Release, ClientRequest::Release { terminal }),
        };
        Ok((wish.session_id.to_string(), theirs, want))
    }
}

fn parse_create_terminal(params: Option<&RawValue>, cwd: &str) -> Result<ParsedRequest, String> {
    let wish: CreateTerminalRequest = parse(params)?;
    let given = wish.cwd.map(absolute).transpose()?;
    let given = given.as_deref().and_then(Path::to_str);
    if let Some(var) = wish.env.iter().find(|var| !is_variable(var)) {
        let name = envelope::truncate(&var.name, WORD_BYTES_MAX);
        return Err(format!("`{name}` cannot be a variable with that value"));
    }
    let env = wish.env.into_iter().map(|var| (var.name, var.value));
    let run = command::run_request(&wish.command, &wish.args, env.collect(), given, cwd);
    let want = ClientRequest::CreateTerminal {
        run: run.ok_or("there is no command")?,
        output_bytes_max: wish.output_byte_limit,
    };
    Ok((
        wish.session_id.to_string(),
        PendingKind::CreateTerminal,
        want,
    ))
}

/// Names that a shell would not take for one could hide from rules and people what is run.
fn is_variable(var: &EnvVariable) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = |c: char| !c.is_ascii_digit();
    var.name.chars().all(plain) && var.name.starts_with(begins) && !var.value.contains('\0')
}

fn parse<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, String> {
    let params = params.map_or("null", RawValue::get);
    serde_json::from_str(params).map_err(|error| format!("invalid params: {error}"))
}

fn absolute(path: PathBuf) -> Result<PathBuf, String> {
    if path.is_absolute() {
        Ok(path)
    } else {
        Err("the path must be absolute".to_owned())
    }
}

/// Answers a wish with what came of it.
pub(super) fn answer(
    state: &mut AcpState,
    request: &RequestId,
    served: Result<ClientResponse, ClientRequestError>,
) -> Result<Vec<AgentWrite>, CommandError> {
    let line = match state.theirs.get(request) {
        Some(PendingRequest { line, wish }) if !wish.is_permission() => *line,
        _ => return Err(CommandError::NotWaiting),
    };
    state.theirs.remove(request);
    let (meaning, bytes) = match served {
        Ok(served) => {
            let bytes = envelope::result(request, &to_result(served));
            (meaning::SERVED, bytes)
        }
        Err(error) => {
            let bytes = envelope::error(request, error_code(&error), &error.to_string());
            (meaning::REFUSED, bytes)
        }
    };
    Ok(vec![AgentWrite::reply_to(line, meaning, bytes)])
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
