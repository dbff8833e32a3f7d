//! Describes requests for files and terminals, so that rules and people can judge them.
//!
//! Invariant: what is shown is what would be done; the file that is judged is the file that is used.

use std::net::SocketAddr;
use std::path::PathBuf;

use countersign_agents::adapter::{ClientRequest, ClientRequestError, RunRequest};
use countersign_agents::runner::{ConnectHost, ConnectTarget, HeldFile, HeldTarget};
use countersign_agents::{
    FileRoots, ReadTarget, WriteTarget, open_for_read, open_for_write, read_text,
};
use countersign_core::limits::{TERMINAL_OUTPUT_BYTES, TERMINAL_OUTPUT_BYTES_MAX};
use countersign_sandbox::OpenKind;
use serde_json::json;

use super::client_requests::{OpenedRequest, run_blocking};
use super::request_digest::{digest_run, digest_write};
use super::requested_file::RequestedFile;

/// A request as rules and people see it.
pub(super) struct RequestDescription {
    pub(super) opened: OpenedRequest,
    pub(super) action: String,
    pub(super) tool: &'static str,
    pub(super) input: serde_json::Value,
    /// What else people should know.
    pub(super) details: Option<serde_json::Value>,
    /// Digests of what an earlier ask may have allowed already.
    pub(super) covered_by: Vec<String>,
}

/// Where an agent works.
pub(super) struct AgentWorkspace {
    pub(super) folder: PathBuf,
    pub(super) roots: FileRoots,
}

impl AgentWorkspace {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            roots: FileRoots::resolve([folder.clone()]),
            folder,
        }
    }

    /// Describes a request, and opens the file that it names. Refuses what cannot be opened, and
    /// requests about a terminal that exists, which need no permission.
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
            ClientRequest::ReleaseHold { target, .. } => Ok(match target {
                HeldTarget::Connect(place) => describe_connect(&place),
                HeldTarget::Open(file) => describe_open(&file),
            }),
            ClientRequest::Output { .. }
            | ClientRequest::WaitForExit { .. }
            | ClientRequest::Kill { .. }
            | ClientRequest::Release { .. } => {
                let message = "a terminal needs no permission".to_owned();
                Err(ClientRequestError::Failed(message))
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
            details: None,
            covered_by: vec![digest_run(&run, &self.folder)],
            opened: OpenedRequest::Run {
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
            details: None,
            covered_by: Vec::new(),
            opened: OpenedRequest::Read { file, line, limit },
        })
    }

    async fn describe_write(
        &self,
        path: PathBuf,
        content: String,
    ) -> Result<RequestDescription, ClientRequestError> {
        let roots = self.roots.clone();
        let asked = path.clone();
        let (file, old) = run_blocking(move || {
            let file = RequestedFile::classify(&path, open_for_write(&path, &roots))?;
            // What cannot be read as text was not shown as such either.
            let old = open_for_read(&path, &roots).and_then(|old| read_text(old, None, None));
            Ok((file, old.ok()))
        })
        .await?;
        let real = file.real_path(WriteTarget::real_path);
        // An earlier ask allowed a path, not a file: behind a link the same path may mean another
        // file by now, so only a path that leads to itself is covered.
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
            details: None,
            covered_by,
            opened: OpenedRequest::Write { file, content },
        })
    }
}

fn describe_connect(target: &ConnectTarget) -> RequestDescription {
    let port = target.port;
    let (place, input) = match &target.host {
        ConnectHost::Domain(name) => (
            format!("{name}:{port}"),
            json!({ "domain": name, "port": port }),
        ),
        ConnectHost::Address(address) => (
            SocketAddr::new(*address, port).to_string(),
            json!({ "address": address.to_string(), "port": port }),
        ),
    };
    RequestDescription {
        action: format!("Connect to {place} (held by the sandbox)"),
        tool: "Network",
        input,
        details: Some(json!({ "held_by": "sandbox" })),
        covered_by: Vec::new(),
        opened: OpenedRequest::Hold,
    }
}

/// The path is that of a handle which the runner has open already, so nothing is looked up here.
fn describe_open(file: &HeldFile) -> RequestDescription {
    let path = &file.path;
    let action = match file.kind {
        OpenKind::File => format!("Write {path} (held by the sandbox)"),
        OpenKind::Folder => format!("Make the folder {path} (held by the sandbox)"),
    };
    RequestDescription {
        action,
        tool: "Write",
        input: json!({ "file_path": path }),
        details: Some(json!({ "held_by": "sandbox", "process": file.command })),
        covered_by: Vec::new(),
        opened: OpenedRequest::Hold,
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
