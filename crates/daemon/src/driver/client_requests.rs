//! Client requests: files and terminals that an agent wants of the host.
//!
//! Invariants: nothing runs and nothing is read or written before the loop allowed exactly that; the
//! file that was judged is the file that is used; what was withdrawn is not answered.

mod resume;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use countersign_agents::adapter::{
    ClientRequest, ClientRequestError, ClientResponse, PermissionAnswer, RequestId, RunRequest,
    WriteId,
};
use countersign_agents::runner::RunnerLink;
use countersign_agents::{
    CommandSpec, EditorCall, EditorLink as _, EditorReply, FileError, ReadTarget, ShellBackend,
    ShellError, TerminalId, WriteTarget, open_for_read, open_for_write, read_text, write_text,
};
use countersign_core::event::{AnswerDelivery, ApprovalOutcome};
use countersign_core::limits::{AGENT_FILE_BYTES_MAX, EDITOR_READ_MS, SERVED_AT_ONCE_MAX};
use countersign_core::{Approval, ApprovalId, Json};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent_editors::AgentEditorLink;
use crate::crash;

use super::agent_connection::{
    LinkLost, OpenRequest, RequestKey, SharedConnection, StartedRequest,
};
use super::connection_state::SentAnswer;
use super::deliveries::Deliveries;
use super::request_description::AgentWorkspace;
use super::requested_file::RequestedFile;
pub(super) use resume::RecordedAsks;

/// A request, with what was opened for it.
pub(super) enum OpenedRequest {
    Run {
        run: RunRequest,
        output_bytes_max: usize,
    },
    Read {
        file: RequestedFile<ReadTarget>,
        line: Option<u32>,
        limit: Option<u32>,
    },
    Write {
        file: RequestedFile<WriteTarget>,
        content: String,
    },
    /// What waits at the runner.
    Hold,
}

/// See the module.
pub(super) struct ClientRequests {
    pub(super) workspace: AgentWorkspace,
    pub(super) shells: Arc<dyn ShellBackend>,
    /// The editor that the agent is open in, for files with what was not saved.
    pub(super) editor: Option<AgentEditorLink>,
    pub(super) link: Arc<dyn RunnerLink>,
    pub(super) connection: SharedConnection,
    pub(super) deliveries: Arc<Deliveries>,
    pub(super) tasks: TaskTracker,
    pub(super) over: CancellationToken,
}

impl ClientRequests {
    /// Where the agent works.
    pub(super) fn workspace(&self) -> &AgentWorkspace {
        &self.workspace
    }

    /// Remembers a request until it is answered.
    pub(super) fn add(
        &self,
        request: &RequestKey,
        ask: Option<ApprovalId>,
        want: &ClientRequest,
        opened: Option<OpenedRequest>,
    ) {
        let open = OpenRequest {
            line: request.line,
            ask,
            want: Some(want.clone()),
            opened,
            started: false,
        };
        self.connection.lock().add_request(request.id.clone(), open);
    }

    /// Answers a request that is not served.
    pub(super) fn cancel(&self, request: RequestKey, reason: &str) {
        let cancelled = ClientRequestError::Cancelled(reason.to_owned());
        self.send_response(request, Err(cancelled));
    }

    /// Answers an ask for permission that is no longer open.
    fn cancel_ask(&self, request: &RequestId, ask: &ApprovalId) {
        let cancelled = PermissionAnswer::Cancelled;
        let sent = self.connection.lock().refuse(request, ask, cancelled);
        self.connection.confirm_when_written(sent);
    }

    /// Serves a request that an earlier ask allowed.
    pub(super) fn serve_covered(self: &Arc<Self>, request: RequestKey, ask: &ApprovalId) {
        let Some(started) = self.connection.lock().start_request(&request.id, ask) else {
            return;
        };
        let requests = self.clone();
        self.tasks.spawn(async move {
            if let Ok(done) = requests.serve_started(started, None).await {
                requests.send_response(request, done.response);
            }
        });
    }

    /// Serves a request that was allowed, or says why it was not, and records what became of the answer.
    pub(super) async fn serve_decided(
        &self,
        request: RequestId,
        started: StartedRequest,
        approval: &Approval,
    ) {
        if let ClientRequest::ReleaseHold { hold, .. } = started.want {
            return self.release_decided(&request, hold, approval).await;
        }
        let line = started.line;
        let done = match refusal_reason(approval) {
            None => self.serve_started(started, Some(approval)).await,
            Some(reason) => Ok(ServedRequest::certain(Err(
                ClientRequestError::NotPermitted(reason),
            ))),
        };
        // The link was lost, so the answer stays owed. The next host serves the request again, and
        // the runner knows by the line's number what was done before.
        let Ok(done) = done else { return };
        let answer = SentAnswer {
            is_uncertain: done.is_uncertain,
            ..SentAnswer::to_request(line, done.response.is_ok())
        };
        let mut connection = self.connection.lock();
        // Under one lock: a checkpoint with the response has the answer as well.
        connection.performed.serving.remove(&approval.opened);
        let sent = connection.serve(RequestKey { id: request, line }, done.response);
        let sent = if let Ok(Some(sent)) = sent {
            connection.performed.answers.insert(approval.opened, answer);
            sent
        } else {
            connection.probe_answer(approval.opened, answer)
        };
        self.deliveries.record_when_written(approval, sent);
        drop(connection);
        crash::point("request_served");
    }

    /// Tells the runner what was decided about a hold. If the link was lost, the next host does.
    async fn release_decided(&self, request: &RequestId, hold: u64, approval: &Approval) {
        crash::point("request_allowed");
        let allow = refusal_reason(approval).is_none();
        let Ok(is_known) = self.link.release(hold, allow).await else {
            return;
        };
        let delivery = if is_known {
            AnswerDelivery::Delivered
        } else {
            AnswerDelivery::Withdrawn
        };
        let answer = SentAnswer {
            delivery: Some(delivery),
            // No line of the agent: it came from the runner.
            ..SentAnswer::to_request(0, allow)
        };
        let mut connection = self.connection.lock();
        connection.finish_hold(request, approval.opened, answer);
        drop(connection);
        self.deliveries.record(approval, delivery);
        crash::point("request_served");
    }

    /// Ends holds whose asks are over, such as those of a turn that ended.
    pub(super) fn end_holds(&self) {
        let holds = self.connection.lock().take_holds();
        for hold in holds {
            self.end_hold(hold);
        }
    }

    fn end_hold(&self, hold: u64) {
        let link = self.link.clone();
        self.tasks.spawn(async move {
            // Without the link it ends by itself, or the next host is told of it.
            let _ = link.release(hold, false).await;
        });
    }

    async fn serve_started(
        &self,
        started: StartedRequest,
        approval: Option<&Approval>,
    ) -> Result<ServedRequest, LinkLost> {
        crash::point("request_allowed");
        let line = started.line;
        let opened = match started.opened {
            Some(opened) => Ok(opened),
            None => self.reopen_request(started.want, approval).await,
        };
        let done = match opened {
            Ok(opened) => self.serve_opened(opened, line).await?,
            Err(error) => ServedRequest::certain(Err(error)),
        };
        crash::point("request_done");
        Ok(done)
    }

    /// Opens again what an earlier host had opened. Refuses a file that is no longer the one that was
    /// asked about.
    async fn reopen_request(
        &self,
        want: ClientRequest,
        approval: Option<&Approval>,
    ) -> Result<OpenedRequest, ClientRequestError> {
        let described = self.workspace.describe(want.clone()).await?;
        let shown = match approval {
            Some(approval) => approval.ask.input.clone(),
            // An earlier ask covers only a path that leads to itself.
            None => named_input(&want),
        };
        let is_same = match (&shown, &want) {
            // A command is its text. Nothing on the disk makes it another one.
            (_, ClientRequest::CreateTerminal { .. }) => true,
            (Some(shown), _) => {
                let shown: Option<serde_json::Value> = serde_json::from_str(shown.text()).ok();
                shown.is_some_and(|shown| shown["file_path"] == described.input["file_path"])
            }
            (None, _) => false,
        };
        if is_same {
            Ok(described.opened)
        } else {
            let message = "the file is no longer the one that was asked about".to_owned();
            Err(ClientRequestError::NotPermitted(message))
        }
    }

    async fn serve_opened(
        &self,
        opened: OpenedRequest,
        line: u64,
    ) -> Result<ServedRequest, LinkLost> {
        match opened {
            OpenedRequest::Run {
                run,
                output_bytes_max,
            } => self.create_terminal(run, output_bytes_max, line).await,
            OpenedRequest::Read { file, line, limit } => {
                let text = self.read_file(file, line, limit).await;
                Ok(ServedRequest::certain(text.map(ClientResponse::Text)))
            }
            OpenedRequest::Hold => Ok(ServedRequest::certain(Ok(ClientResponse::Done))),
            OpenedRequest::Write { file, content } => self.write_once(file, content, line).await,
        }
    }

    /// Reads a file that was judged: as the editor has it, if one is there that gives files, else from the disk.
    async fn read_file(
        &self,
        file: RequestedFile<ReadTarget>,
        line: Option<u32>,
        limit: Option<u32>,
    ) -> Result<String, ClientRequestError> {
        let path = file.real_path(ReadTarget::real_path).to_owned();
        let roots = self.workspace.roots.clone();
        let on_disk = run_blocking(move || {
            let file = file.open(&roots, open_for_read)?;
            read_text(file, line, limit)
        });
        // First from the disk: what cannot be read there is not read elsewhere either.
        let on_disk = on_disk.await?;
        let unsaved = self.read_in_editor(path, line, limit).await;
        Ok(unsaved.unwrap_or(on_disk))
    }

    /// The text in the editor. Nothing if there is none, or if the path may have led the editor to another file than
    /// the one that was judged.
    async fn read_in_editor(
        &self,
        path: PathBuf,
        line: Option<u32>,
        limit: Option<u32>,
    ) -> Option<String> {
        let editor = self.editor.as_ref().filter(|editor| editor.has_files())?;
        let call = EditorCall::ReadFile {
            path: path.to_str()?.to_owned(),
            line,
            limit,
        };
        // The editor opens the path by its name, and nothing but the path says which file was
        // judged.
        if !leads_to_itself(path.clone()).await {
            return None;
        }
        let time = Duration::from_millis(EDITOR_READ_MS);
        let read = tokio::time::timeout(time, editor.call(None, call)).await;
        let (_, EditorReply::Text { text }) = read.ok()?.ok()? else {
            return None;
        };
        // Looked at again: a link may have been put in its place while the editor read.
        let is_usable = text.len() <= AGENT_FILE_BYTES_MAX && leads_to_itself(path).await;
        is_usable.then_some(text)
    }

    /// Writes a file, unless an earlier host may have written it already.
    async fn write_once(
        &self,
        file: RequestedFile<WriteTarget>,
        content: String,
        line: u64,
    ) -> Result<ServedRequest, LinkLost> {
        // The runner outlives hosts, so its claim says whether one of them came this far before.
        let claim = self.link.claim(WriteId::Line(line));
        let is_fresh = claim.await.map_err(|_| LinkLost)?;
        let roots = self.workspace.roots.clone();
        if is_fresh {
            let written = run_blocking(move || {
                let file = file.open(&roots, open_for_write)?;
                write_text(&file, &content)
            })
            .await;
            return Ok(ServedRequest::certain(
                written.map(|()| ClientResponse::Done),
            ));
        }
        let path = file.real_path(WriteTarget::real_path).to_owned();
        let roots = roots.admit_exact(path.clone());
        let is_written = run_blocking(move || {
            let found = open_for_read(&path, &roots).and_then(|old| read_text(old, None, None));
            Ok(found.is_ok_and(|found| found == content))
        });
        if is_written.await.unwrap_or(false) {
            return Ok(ServedRequest::certain(Ok(ClientResponse::Done)));
        }
        let message = "the host ended while it was writing; the file may or may not be written";
        Ok(ServedRequest {
            response: Err(ClientRequestError::Failed(message.to_owned())),
            is_uncertain: true,
        })
    }

    /// Runs a command in a terminal. The runner knows it by its key and starts it once, whichever
    /// hosts ask for it.
    async fn create_terminal(
        &self,
        run: RunRequest,
        output_bytes_max: usize,
        line: u64,
    ) -> Result<ServedRequest, LinkLost> {
        let spec = CommandSpec {
            key: line,
            command: run.command,
            cwd: run.cwd.unwrap_or_else(|| self.workspace.folder.clone()),
            env: run
                .env
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            output_bytes_max,
        };
        let created = self.shells.create(spec).await;
        // Without the link an error does not say that the command was not started.
        if created.is_err() && self.link.is_lost() {
            return Err(LinkLost);
        }
        let created =
            created.map(|terminal| ClientResponse::Terminal(terminal.as_str().to_owned()));
        Ok(ServedRequest::certain(
            created.map_err(|error| shell_error(&error)),
        ))
    }

    /// Serves a request about a terminal, which belongs to its agent and so needs no permission.
    pub(super) fn serve_terminal(self: &Arc<Self>, request: RequestKey, want: ClientRequest) {
        if self.tasks.len() > SERVED_AT_ONCE_MAX {
            let message = "too many requests at once".to_owned();
            return self.send_response(request, Err(ClientRequestError::Failed(message)));
        }
        let requests = self.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                served = requests.use_terminal(want) => {
                    if served.is_ok() || !requests.link.is_lost() {
                        requests.send_response(request, served);
                    }
                }
                () = requests.over.cancelled() => {}
            }
        });
    }

    async fn use_terminal(
        &self,
        want: ClientRequest,
    ) -> Result<ClientResponse, ClientRequestError> {
        let shells = &self.shells;
        let served = match want {
            ClientRequest::Output { terminal } => {
                let output = shells.output(&TerminalId::new(terminal)).await;
                output.map(|output| ClientResponse::Output {
                    text: output.text,
                    truncated: output.truncated,
                    exit: output.exit,
                })
            }
            ClientRequest::WaitForExit { terminal } => {
                let exit = shells.wait_for_exit(&TerminalId::new(terminal)).await;
                exit.map(ClientResponse::Exited)
            }
            ClientRequest::Kill { terminal } => {
                let killed = shells.kill(&TerminalId::new(terminal)).await;
                killed.map(|()| ClientResponse::Done)
            }
            ClientRequest::Release { terminal } => {
                let released = shells.release(&TerminalId::new(terminal)).await;
                released.map(|()| ClientResponse::Done)
            }
            ClientRequest::Read { .. }
            | ClientRequest::Write { .. }
            | ClientRequest::ReleaseHold { .. }
            | ClientRequest::CreateTerminal { .. } => {
                let message = "this needs permission first".to_owned();
                return Err(ClientRequestError::NotPermitted(message));
            }
        };
        served.map_err(|error| shell_error(&error))
    }

    /// Answers a request, if the agent still waits for it.
    pub(super) fn send_response(
        &self,
        request: RequestKey,
        response: Result<ClientResponse, ClientRequestError>,
    ) {
        if let Some(hold) = self.connection.lock().take_hold(&request.id) {
            // Only a decision lets anything through.
            return self.end_hold(hold);
        }
        // An error says that the agent took the request back, and then nobody waits for this.
        let sent = self.connection.lock().serve(request, response);
        self.connection.confirm_when_written(sent.ok().flatten());
    }
}

/// What came of a request.
struct ServedRequest {
    response: Result<ClientResponse, ClientRequestError>,
    /// Whether nobody can say if it was done. Then the answer is settled as unknown.
    is_uncertain: bool,
}

impl ServedRequest {
    fn certain(response: Result<ClientResponse, ClientRequestError>) -> Self {
        Self {
            response,
            is_uncertain: false,
        }
    }
}

/// Whether no part of a path is a link.
async fn leads_to_itself(path: PathBuf) -> bool {
    let checked = tokio::task::spawn_blocking(move || {
        std::fs::canonicalize(&path).is_ok_and(|real| real == path)
    });
    checked.await.unwrap_or(false)
}

pub(super) fn is_terminal_request(want: &ClientRequest) -> bool {
    matches!(
        want,
        ClientRequest::Output { .. }
            | ClientRequest::WaitForExit { .. }
            | ClientRequest::Kill { .. }
            | ClientRequest::Release { .. }
    )
}

/// The file by the name the agent has for it.
fn named_input(want: &ClientRequest) -> Option<Json> {
    let (ClientRequest::Read { path, .. } | ClientRequest::Write { path, .. }) = want else {
        return None;
    };
    Json::from_value(&json!({ "file_path": path.to_string_lossy() })).ok()
}

/// Why a request was not allowed; nothing if it was.
fn refusal_reason(approval: &Approval) -> Option<String> {
    let Some(ended) = &approval.ended else {
        return Some("it was not decided".to_owned());
    };
    let ending = &ended.ending;
    if ending.outcome == ApprovalOutcome::Allowed {
        return None;
    }
    let message = ending.message.clone();
    Some(message.unwrap_or_else(|| format!("{} by {}", ending.resolution, ending.by.name)))
}

pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, ClientRequestError> {
    let Ok(done) = tokio::task::spawn_blocking(work).await else {
        return Err(ClientRequestError::Failed("the host is ending".to_owned()));
    };
    done.map_err(|error| match error {
        FileError::NotFound { .. } => ClientRequestError::NotFound(error.to_string()),
        FileError::Outside { .. } => ClientRequestError::NotPermitted(error.to_string()),
        error => ClientRequestError::Failed(countersign_core::error_chain(&error)),
    })
}

fn shell_error(error: &ShellError) -> ClientRequestError {
    match error {
        ShellError::NotFound(_) => ClientRequestError::NotFound(error.to_string()),
        ShellError::NotPermitted(reason) => ClientRequestError::NotPermitted(reason.clone()),
        ShellError::Failed { .. } => {
            ClientRequestError::Failed(countersign_core::error_chain(error))
        }
    }
}
