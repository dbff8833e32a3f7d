//! Serving: files and terminals that an agent wants of the host.
//!
//! Invariants: nothing runs and nothing is read or written before the loop allowed exactly that; the
//! file that was judged is the file that is used; what was withdrawn is not answered.

use std::sync::Arc;

use countersign_agents::adapter::{
    ClientRequest, ClientRequestError, ClientResponse, RequestId, RunRequest, WriteId,
};
use countersign_agents::{
    CommandSpec, FileError, ReadTarget, ShellError, TerminalId, WriteTarget, open_for_read,
    open_for_write, read_text, write_text,
};
use countersign_core::event::{AnswerDelivery, ApprovalOutcome};
use countersign_core::limits::{AGENT_WISHES_MAX, SERVED_AT_ONCE_MAX};
use countersign_core::{Approval, ApprovalId, Json};
use serde_json::json;

use crate::crash;

use super::agent_connection::{LinkLost, OpenRequest, StartedRequest};
use super::output_reader::OutputReader;
use super::requested_file::RequestedFile;
use super::run::Run;

/// A wish, with what was opened for it.
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
}

/// A request of the agent, and the line it came with.
pub(super) type RequestLine = (RequestId, u64);

impl Run {
    /// Takes a wish: what is done by then needs nobody's word, everything else is asked.
    pub(super) async fn handle_request(
        self: &Arc<Self>,
        request: RequestLine,
        want: ClientRequest,
        reader: &mut OutputReader,
    ) -> Result<(), LinkLost> {
        if is_terminal_request(&want) {
            self.keep(&request, None, &want, None);
            self.serve_terminal(request, want);
            return Ok(());
        }
        let described = if self.connection().count_asked_requests() >= AGENT_WISHES_MAX {
            Err(ClientRequestError::Failed(
                "too many requests wait for an answer".to_owned(),
            ))
        } else {
            self.describe(want.clone()).await
        };
        match described {
            Ok(described) => self.ask_permission(request, want, described, reader).await,
            Err(error) => {
                self.keep(&request, None, &want, None);
                self.send_result(request, Err(error));
                Ok(())
            }
        }
    }

    pub(super) fn keep(
        &self,
        (request, line): &RequestLine,
        ask: Option<ApprovalId>,
        want: &ClientRequest,
        held: Option<OpenedRequest>,
    ) {
        let open = OpenRequest {
            line: *line,
            ask,
            want: Some(want.clone()),
            opened: held,
            started: false,
        };
        self.connection().add_request(request.clone(), open);
    }

    /// Does what an earlier ask allowed.
    pub(super) fn serve_covered(self: &Arc<Self>, request: RequestLine, ask: &ApprovalId) {
        let Some(wish) = self.connection().start_request(&request.0, ask) else {
            return;
        };
        let run = self.clone();
        self.tasks.spawn(async move {
            if let Ok(done) = run.serve_started(wish, None).await {
                run.send_result(request, done.served);
            }
        });
    }

    /// Does what was allowed, or says why not, and records what became of the answer.
    pub(super) async fn serve_decided(
        self: Arc<Self>,
        request: RequestId,
        wish: StartedRequest,
        approval: &Approval,
    ) {
        let line = wish.line;
        let done = match refusal_reason(approval) {
            None => self.serve_started(wish, Some(approval)).await,
            Some(words) => Ok(ServedRequest::certain(Err(
                ClientRequestError::NotPermitted(words),
            ))),
        };
        // Whoever goes on from here finds out by asking the runner.
        let Ok(done) = done else { return };
        let mut connection = self.connection();
        let sent = connection.serve((request, line), done.served, Some(approval.opened));
        match sent {
            Ok(sent) if done.is_uncertain => {
                self.confirm_when_written(sent);
                self.record_delivery(approval, AnswerDelivery::Unknown);
            }
            Ok(sent) => self.record_when_written(approval, &connection, sent),
            Err(_) => self.record_delivery(approval, AnswerDelivery::Withdrawn),
        }
        drop(connection);
        crash::point("wish_served");
    }

    async fn serve_started(
        &self,
        wish: StartedRequest,
        approval: Option<&Approval>,
    ) -> Result<ServedRequest, LinkLost> {
        crash::point("wish_allowed");
        let line = wish.line;
        let pending = match wish.held {
            Some(pending) => Ok(pending),
            None => self.reopen_request(wish.want, approval).await,
        };
        let done = match pending {
            Ok(pending) => self.serve_opened(pending, line).await?,
            Err(error) => ServedRequest::certain(Err(error)),
        };
        crash::point("wish_fulfilled");
        Ok(done)
    }

    /// What an earlier host had opened is opened again, if it is still what was asked about.
    async fn reopen_request(
        &self,
        want: ClientRequest,
        approval: Option<&Approval>,
    ) -> Result<OpenedRequest, ClientRequestError> {
        let described = self.describe(want.clone()).await?;
        let shown = match approval {
            Some(approval) => approval.ask.input.clone(),
            // Only what is where its name says is ever covered by an earlier ask.
            None => named_input(&want),
        };
        let same = match (&shown, &want) {
            (_, ClientRequest::CreateTerminal { .. }) => true,
            (Some(shown), _) => {
                let shown: Option<serde_json::Value> = serde_json::from_str(shown.text()).ok();
                shown.is_some_and(|shown| shown["file_path"] == described.input["file_path"])
            }
            (None, _) => false,
        };
        if same {
            Ok(described.pending)
        } else {
            let words = "the file is no longer the one that was asked about".to_owned();
            Err(ClientRequestError::NotPermitted(words))
        }
    }

    async fn serve_opened(
        &self,
        wish: OpenedRequest,
        line: u64,
    ) -> Result<ServedRequest, LinkLost> {
        match wish {
            OpenedRequest::Run {
                run,
                output_bytes_max,
            } => self.create_terminal(run, output_bytes_max, line).await,
            OpenedRequest::Read { file, line, limit } => {
                let roots = self.roots.clone();
                let text = move || {
                    let file = file.open(&roots, open_for_read)?;
                    read_text(file, line, limit)
                };
                Ok(ServedRequest::certain(
                    run_blocking(text).await.map(ClientResponse::Text),
                ))
            }
            OpenedRequest::Write { file, content } => self.write_once(file, content, line).await,
        }
    }

    /// A file is written once: a host that was ended in the middle may have written it already.
    async fn write_once(
        &self,
        file: RequestedFile<WriteTarget>,
        content: String,
        line: u64,
    ) -> Result<ServedRequest, LinkLost> {
        let claim = self.connection().link().clone();
        let is_fresh = claim
            .claim(WriteId::Line(line))
            .await
            .map_err(|_| LinkLost)?;
        let roots = self.roots.clone();
        if is_fresh {
            let write = move || {
                let file = file.open(&roots, open_for_write)?;
                write_text(&file, &content)
            };
            return Ok(ServedRequest::certain(
                run_blocking(write).await.map(|()| ClientResponse::Done),
            ));
        }
        let path = file.real_path(WriteTarget::real_path).to_owned();
        let roots = roots.admit_exact(path.clone());
        let look = move || {
            let found = open_for_read(&path, &roots).and_then(|old| read_text(old, None, None));
            Ok(found.is_ok_and(|found| found == content))
        };
        if run_blocking(look).await.unwrap_or(false) {
            return Ok(ServedRequest::certain(Ok(ClientResponse::Done)));
        }
        let words = "the host was ended while it wrote; the file may or may not be written";
        Ok(ServedRequest {
            served: Err(ClientRequestError::Failed(words.to_owned())),
            is_uncertain: true,
        })
    }

    /// The key makes it one terminal, however often it is asked for.
    async fn create_terminal(
        &self,
        run: RunRequest,
        output_bytes_max: usize,
        line: u64,
    ) -> Result<ServedRequest, LinkLost> {
        let env = run.env.into_iter();
        let spec = CommandSpec {
            key: line,
            command: run.command,
            cwd: run.cwd.unwrap_or_else(|| self.folder.clone()),
            env: env
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            output_bytes_max,
        };
        let created = self.shells.create(spec).await;
        if created.is_err() && self.is_lost() {
            return Err(LinkLost);
        }
        let served = match created {
            Ok(created) => Ok(ClientResponse::Terminal(created.as_str().to_owned())),
            Err(error) => Err(shell_error(&error)),
        };
        Ok(ServedRequest::certain(served))
    }

    fn is_lost(&self) -> bool {
        self.connection().link().is_lost()
    }

    /// A terminal belongs to its agent: what it does with it needs no word of anybody.
    pub(super) fn serve_terminal(self: &Arc<Self>, request: RequestLine, want: ClientRequest) {
        if self.tasks.len() > SERVED_AT_ONCE_MAX {
            let words = "too many requests at once".to_owned();
            return self.send_result(request, Err(ClientRequestError::Failed(words)));
        }
        let run = self.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                served = run.use_terminal(want) => {
                    if served.is_ok() || !run.is_lost() {
                        run.send_result(request, served);
                    }
                }
                () = run.over.cancelled() => {}
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
            | ClientRequest::CreateTerminal { .. } => {
                let words = "this has to be asked first".to_owned();
                return Err(ClientRequestError::NotPermitted(words));
            }
        };
        served.map_err(|error| shell_error(&error))
    }

    pub(super) fn send_result(
        self: &Arc<Self>,
        request: RequestLine,
        served: Result<ClientResponse, ClientRequestError>,
    ) {
        // It may have been withdrawn meanwhile.
        let sent = self.connection().serve(request, served, None);
        self.confirm_when_written(sent.ok().flatten());
    }
}

/// What came of a wish.
struct ServedRequest {
    served: Result<ClientResponse, ClientRequestError>,
    /// Whether nobody can say if it was done.
    is_uncertain: bool,
}

impl ServedRequest {
    fn certain(served: Result<ClientResponse, ClientRequestError>) -> Self {
        Self {
            served,
            is_uncertain: false,
        }
    }
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

/// Why an agent may not, unless it may.
fn refusal_reason(approval: &Approval) -> Option<String> {
    let Some(ended) = &approval.ended else {
        return Some("it was not decided".to_owned());
    };
    let ending = &ended.ending;
    if ending.outcome == ApprovalOutcome::Allowed {
        return None;
    }
    let words = ending.message.clone();
    Some(words.unwrap_or_else(|| format!("{} by {}", ending.resolution, ending.by.name)))
}

pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, ClientRequestError> {
    let done = tokio::task::spawn_blocking(work).await;
    let failed = || ClientRequestError::Failed("the host is ending".to_owned());
    done.map_err(|_| failed())?.map_err(|error| match error {
        FileError::NotFound { .. } => ClientRequestError::NotFound(error.to_string()),
        FileError::Outside { .. } => ClientRequestError::NotPermitted(error.to_string()),
        error => ClientRequestError::Failed(countersign_core::error_chain(&error)),
    })
}

fn shell_error(error: &ShellError) -> ClientRequestError {
    match error {
        ShellError::NotFound(_) => ClientRequestError::NotFound(error.to_string()),
        ShellError::NotPermitted(words) => ClientRequestError::NotPermitted(words.clone()),
        ShellError::Failed { .. } => {
            ClientRequestError::Failed(countersign_core::error_chain(error))
        }
    }
}
