//! Wishing: what an agent wants of the host becomes an ask that rules and people can read.
//!
//! Invariant: what is shown is what would be done; the file that is judged is the file that is used.

use std::path::PathBuf;
use std::sync::Arc;

use countersign_agents::adapter::{ClientRequest, ClientRequestError, RunRequest};
use countersign_agents::{ReadTarget, WriteTarget, open_for_read, open_for_write, read_text};
use countersign_core::limits::{TERMINAL_OUTPUT_BYTES, TERMINAL_OUTPUT_BYTES_MAX};
use countersign_core::{AskRequest, Json, ManagedAsk};
use serde_json::json;

use crate::reply::CommandReply;

use super::agent_connection::LinkLost;
use super::client_requests::{OpenedRequest, RequestLine, run_blocking};
use super::output_reader::OutputReader;
use super::permission_asks::AskError;
use super::request_digest::{digest_run, digest_write};
use super::requested_file::RequestedFile;
use super::run::Run;

/// An ask for a wish, as rules and people see it.
pub(super) struct RequestDescription {
    pub(super) pending: OpenedRequest,
    action: String,
    tool: &'static str,
    pub(super) input: serde_json::Value,
    covered_by: Vec<String>,
}

impl Run {
    pub(super) async fn describe(
        &self,
        want: ClientRequest,
    ) -> Result<RequestDescription, ClientRequestError> {
        match want {
            ClientRequest::CreateTerminal {
                run,
                output_bytes_max,
            } => Ok(self.describe_run(run, output_bytes_max)),
            ClientRequest::Read { path, line, limit } => {
                self.describe_read(path, line, limit).await
            }
            ClientRequest::Write { path, content } => self.describe_write(path, content).await,
            ClientRequest::Output { .. }
            | ClientRequest::WaitForExit { .. }
            | ClientRequest::Kill { .. }
            | ClientRequest::Release { .. } => {
                let words = "a terminal needs no permission".to_owned();
                Err(ClientRequestError::Failed(words))
            }
        }
    }

    fn describe_run(&self, run: RunRequest, output_bytes_max: Option<u64>) -> RequestDescription {
        let wanted = output_bytes_max.and_then(|max| usize::try_from(max).ok());
        let output_bytes_max = wanted.unwrap_or(TERMINAL_OUTPUT_BYTES);
        let command = command_with_variables(&run);
        let mut input = json!({ "command": command });
        if let Some(cwd) = run.cwd.as_ref().filter(|cwd| **cwd != self.folder) {
            input["cwd"] = json!(cwd.to_string_lossy());
        }
        RequestDescription {
            action: command,
            tool: "Bash",
            input,
            covered_by: vec![digest_run(&run, &self.folder)],
            pending: OpenedRequest::Run {
                run,
                output_bytes_max: output_bytes_max.min(TERMINAL_OUTPUT_BYTES_MAX),
            },
        }
    }

    async fn describe_read(
        &self,
        path: PathBuf,
        line: Option<u32>,
        limit: Option<u32>,
    ) -> Result<RequestDescription, ClientRequestError> {
        let roots = self.roots.clone();
        let file =
            run_blocking(move || RequestedFile::classify(&path, open_for_read(&path, &roots)))
                .await?;
        let real = file
            .real_path(ReadTarget::real_path)
            .to_string_lossy()
            .into_owned();
        Ok(RequestDescription {
            action: format!("Read {real}"),
            tool: "Read",
            input: json!({ "file_path": real }),
            covered_by: Vec::new(),
            pending: OpenedRequest::Read { file, line, limit },
        })
    }

    async fn describe_write(
        &self,
        path: PathBuf,
        content: String,
    ) -> Result<RequestDescription, ClientRequestError> {
        let roots = self.roots.clone();
        let asked = path.clone();
        let look = move || {
            let file = RequestedFile::classify(&path, open_for_write(&path, &roots))?;
            // What cannot be read as text was not shown as such either.
            let old = open_for_read(&path, &roots).and_then(|old| read_text(old, None, None));
            Ok((file, old.ok()))
        };
        let (file, old) = run_blocking(look).await?;
        let real = file.real_path(WriteTarget::real_path);
        // What was allowed by name holds only where the name leads to itself.
        let olds = [None, old.as_deref()].into_iter().filter(|_| real == asked);
        let mut covered_by: Vec<_> = olds
            .map(|old| digest_write(&asked, &content, old))
            .collect();
        covered_by.dedup();
        let real = real.to_string_lossy().into_owned();
        Ok(RequestDescription {
            action: format!("Write {real}"),
            tool: "Write",
            input: json!({ "file_path": real, "content": content }),
            covered_by,
            pending: OpenedRequest::Write { file, content },
        })
    }

    pub(super) async fn ask_permission(
        self: &Arc<Self>,
        request: RequestLine,
        want: ClientRequest,
        described: RequestDescription,
        reader: &mut OutputReader,
    ) -> Result<(), LinkLost> {
        let own = ManagedAsk {
            request: request.0.0.clone(),
            takes_denial_message: true,
            covered_by: described.covered_by,
            ..ManagedAsk::default()
        };
        let ask = AskRequest {
            tool: Some(described.tool.to_owned()),
            input: Json::from_value(&described.input).ok(),
            tool_call: Some(format!("request {}", request.0.0)),
            ..self.ask_request(described.action, own, reader)
        };
        let id = ask.id.clone();
        self.keep(&request, Some(id.clone()), &want, Some(described.pending));
        match self.submit_ask(ask, reader).await {
            Ok(CommandReply::Covered(_)) => self.serve_covered(request, &id),
            // The rest is a duty.
            Ok(_) => {}
            Err(AskError::Refused(error)) => {
                let words = format!("this could not be asked: {error}");
                self.send_result(request, Err(ClientRequestError::NotPermitted(words)));
            }
            Err(AskError::Lost) => return Err(LinkLost),
        }
        Ok(())
    }
}

/// Variables are part of what is judged, and of what a person sees.
fn command_with_variables(run: &RunRequest) -> String {
    let mut command = String::new();
    for (name, value) in &run.env {
        let value = value.replace('\'', r"'\''");
        command.push_str(&["export ", name, "='", &value, "'; "].concat());
    }
    command.push_str(&run.command);
    command
}
