//! Serving: files and terminals that an agent wants of the host.
//!
//! Invariants: nothing runs and nothing is read or written before the loop allowed exactly that; the
//! file that was judged is the file that is used; what was withdrawn is not answered.

use std::path::PathBuf;
use std::sync::Arc;

use countersign_agents::adapter::{Order, RequestId, RunRequest, ServeError, Served, Want};
use countersign_agents::{
    CommandSpec, FileError, Opened, ShellError, TerminalId, WriteTarget, open_for_read,
    open_for_write, read_text, write_text,
};
use countersign_core::event::{Delivery, Outcome};
use countersign_core::limits::{
    AGENT_WISHES_MAX, SERVED_AT_ONCE_MAX, TERMINAL_OUTPUT_BYTES, TERMINAL_OUTPUT_BYTES_MAX,
};
use countersign_core::{Approval, ApprovalId, AskRequest, Json, ManagedAsk};
use serde_json::json;

use crate::crash;
use crate::reply::Reply;
use crate::supervisor::chain;

use super::binding::{digest_run, digest_write};
use super::found::Found;
use super::hearing::Hearing;
use super::run::Run;
use super::telling::all_written;

/// A wish that waits for an answer.
pub(super) enum Pending {
    Run {
        run: RunRequest,
        output_bytes_max: usize,
    },
    Read {
        file: Found<Opened>,
        line: Option<u32>,
        limit: Option<u32>,
    },
    Write {
        file: Found<WriteTarget>,
        content: String,
    },
}

/// An ask for a wish, as rules and people see it.
struct Wish {
    pending: Pending,
    action: String,
    tool: &'static str,
    input: serde_json::Value,
    covered_by: Vec<String>,
}

impl Run {
    /// Takes a wish: what is done by then needs nobody's word, everything else is asked.
    pub(super) async fn wanted(
        self: &Arc<Self>,
        request: RequestId,
        want: Want,
        hearing: &mut Hearing,
    ) {
        let wish = match want {
            Want::Output { .. }
            | Want::WaitForExit { .. }
            | Want::Kill { .. }
            | Want::Release { .. } => return self.serve_terminal(request, want),
            _ if self.wishes_kept() >= AGENT_WISHES_MAX => Err(ServeError::Failed(
                "too many requests wait for an answer".to_owned(),
            )),
            Want::CreateTerminal {
                run,
                output_bytes_max,
            } => Ok(self.wish_to_run(run, output_bytes_max)),
            Want::Read { path, line, limit } => self.wish_to_read(path, line, limit).await,
            Want::Write { path, content } => self.wish_to_write(path, content).await,
        };
        match wish {
            Ok(wish) => self.ask_for(request, wish, hearing).await,
            Err(error) => self.serve(request, Err(error)),
        }
    }

    fn wish_to_run(&self, run: RunRequest, output_bytes_max: Option<u64>) -> Wish {
        let wanted = output_bytes_max.and_then(|max| usize::try_from(max).ok());
        let output_bytes_max = wanted.unwrap_or(TERMINAL_OUTPUT_BYTES);
        let command = with_variables(&run);
        let mut input = json!({ "command": command });
        if let Some(cwd) = run.cwd.as_ref().filter(|cwd| **cwd != self.folder) {
            input["cwd"] = json!(cwd.to_string_lossy());
        }
        Wish {
            action: command,
            tool: "Bash",
            input,
            covered_by: vec![digest_run(&run, &self.folder)],
            pending: Pending::Run {
                run,
                output_bytes_max: output_bytes_max.min(TERMINAL_OUTPUT_BYTES_MAX),
            },
        }
    }

    async fn wish_to_read(
        &self,
        path: PathBuf,
        line: Option<u32>,
        limit: Option<u32>,
    ) -> Result<Wish, ServeError> {
        let roots = self.roots.clone();
        let file = blocking(move || Found::of(&path, open_for_read(&path, &roots))).await?;
        let real = file.real(Opened::real_path).to_string_lossy().into_owned();
        Ok(Wish {
            action: format!("Read {real}"),
            tool: "Read",
            input: json!({ "file_path": real }),
            covered_by: Vec::new(),
            pending: Pending::Read { file, line, limit },
        })
    }

    async fn wish_to_write(&self, path: PathBuf, content: String) -> Result<Wish, ServeError> {
        let roots = self.roots.clone();
        let asked = path.clone();
        let look = move || {
            let file = Found::of(&path, open_for_write(&path, &roots))?;
            // What cannot be read as text was not shown as such either.
            let old = open_for_read(&path, &roots).and_then(|old| read_text(old, None, None));
            Ok((file, old.ok()))
        };
        let (file, old) = blocking(look).await?;
        let real = file.real(WriteTarget::real_path);
        // What was allowed by name holds only where the name leads to itself.
        let olds = [None, old.as_deref()].into_iter().filter(|_| real == asked);
        let mut covered_by: Vec<_> = olds
            .map(|old| digest_write(&asked, &content, old))
            .collect();
        covered_by.dedup();
        let real = real.to_string_lossy().into_owned();
        Ok(Wish {
            action: format!("Write {real}"),
            tool: "Write",
            input: json!({ "file_path": real, "content": content }),
            covered_by,
            pending: Pending::Write { file, content },
        })
    }

    async fn ask_for(self: &Arc<Self>, request: RequestId, wish: Wish, hearing: &mut Hearing) {
        let own = ManagedAsk {
            request: request.0.clone(),
            hears_words: true,
            covered_by: wish.covered_by,
            ..ManagedAsk::default()
        };
        let ask = AskRequest {
            tool: Some(wish.tool.to_owned()),
            input: Json::from_value(&wish.input).ok(),
            tool_call: Some(format!("request {}", request.0)),
            ..self.ask_request(wish.action, own, hearing)
        };
        let id = ask.id.clone();
        self.keep(request.clone(), id.clone(), Some(wish.pending));
        let run = self.clone();
        let entered = self.enter(ask).await;
        self.tasks.spawn(async move {
            let reply = match entered {
                Ok(asked) => asked.accepted().await,
                Err(error) => Err(error),
            };
            match reply {
                // The rest is a duty.
                Ok(Reply::Covered(_)) => run.go_ahead(request, &id).await,
                Ok(_) => {}
                Err(error) => {
                    let words = format!("this could not be asked: {error}");
                    if run.take_wish(&request, &id).is_some() {
                        run.serve(request, Err(ServeError::NotPermitted(words)));
                    }
                }
            }
        });
    }

    /// Does what an earlier ask allowed.
    async fn go_ahead(&self, request: RequestId, ask: &ApprovalId) {
        if let Some(wish) = self.take_wish(&request, ask) {
            let served = self.fulfil(wish).await;
            self.serve(request, served);
        }
    }

    /// Does what was allowed, or says why not. Gives what became of the answer.
    pub(super) async fn grant(
        &self,
        request: RequestId,
        wish: Pending,
        approval: &Approval,
    ) -> Delivery {
        let served = match refusal(approval) {
            None => self.fulfil(wish).await,
            Some(words) => Err(ServeError::NotPermitted(words)),
        };
        let ordered = self.order(Order::Serve { request, served });
        let delivery = match ordered {
            Ok(written) => all_written(written).await,
            Err(_) => Delivery::Withdrawn,
        };
        crash::point("wish_served");
        delivery
    }

    async fn fulfil(&self, wish: Pending) -> Result<Served, ServeError> {
        crash::point("wish_allowed");
        let served = self.do_it(wish).await;
        crash::point("wish_fulfilled");
        served
    }

    async fn do_it(&self, wish: Pending) -> Result<Served, ServeError> {
        match wish {
            Pending::Run {
                run,
                output_bytes_max,
            } => self.create_terminal(run, output_bytes_max).await,
            Pending::Read { file, line, limit } => {
                let roots = self.roots.clone();
                let text = move || {
                    let file = file.open(&roots, open_for_read)?;
                    read_text(file, line, limit)
                };
                blocking(text).await.map(Served::Text)
            }
            Pending::Write { file, content } => {
                let roots = self.roots.clone();
                let write = move || {
                    let file = file.open(&roots, open_for_write)?;
                    write_text(&file, &content)
                };
                blocking(write).await.map(|()| Served::Done)
            }
        }
    }

    async fn create_terminal(
        &self,
        run: RunRequest,
        output_bytes_max: usize,
    ) -> Result<Served, ServeError> {
        let mut env = self.env.clone();
        for (name, value) in run.env {
            env.retain(|(found, _)| *found != *name);
            env.push((name.into(), value.into()));
        }
        let spec = CommandSpec {
            command: run.command,
            cwd: run.cwd.unwrap_or_else(|| self.folder.clone()),
            env,
            pty: None,
            output_bytes_max,
        };
        let created = self
            .shells
            .create(spec)
            .await
            .map_err(|error| shell_error(&error))?;
        Ok(Served::Terminal(created.as_str().to_owned()))
    }

    /// A terminal belongs to its agent: what it does with it needs no word of anybody.
    fn serve_terminal(self: &Arc<Self>, request: RequestId, want: Want) {
        if self.tasks.len() > SERVED_AT_ONCE_MAX {
            let words = "too many requests at once".to_owned();
            return self.serve(request, Err(ServeError::Failed(words)));
        }
        let run = self.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                served = run.use_terminal(want) => run.serve(request, served),
                () = run.over.cancelled() => {}
            }
        });
    }

    async fn use_terminal(&self, want: Want) -> Result<Served, ServeError> {
        let shells = &self.shells;
        let served = match want {
            Want::Output { terminal } => {
                let output = shells.output(&TerminalId::new(terminal)).await;
                output.map(|output| Served::Output {
                    text: output.text,
                    truncated: output.truncated,
                    exit: output.exit,
                })
            }
            Want::WaitForExit { terminal } => {
                let exit = shells.wait_for_exit(&TerminalId::new(terminal)).await;
                exit.map(Served::Exited)
            }
            Want::Kill { terminal } => {
                let killed = shells.kill(&TerminalId::new(terminal)).await;
                killed.map(|()| Served::Done)
            }
            Want::Release { terminal } => {
                let released = shells.release(&TerminalId::new(terminal)).await;
                released.map(|()| Served::Done)
            }
            Want::Read { .. } | Want::Write { .. } | Want::CreateTerminal { .. } => {
                let words = "this has to be asked first".to_owned();
                return Err(ServeError::NotPermitted(words));
            }
        };
        served.map_err(|error| shell_error(&error))
    }

    pub(super) fn serve(&self, request: RequestId, served: Result<Served, ServeError>) {
        // It may have been withdrawn meanwhile.
        drop(self.order(Order::Serve { request, served }));
    }
}

/// Variables are part of what is judged, and of what a person sees.
fn with_variables(run: &RunRequest) -> String {
    let mut command = String::new();
    for (name, value) in &run.env {
        let value = value.replace('\'', r"'\''");
        command.push_str(&["export ", name, "='", &value, "'; "].concat());
    }
    command.push_str(&run.command);
    command
}

/// Why an agent may not, unless it may.
fn refusal(approval: &Approval) -> Option<String> {
    let Some(ended) = &approval.ended else {
        return Some("it was not decided".to_owned());
    };
    let ending = &ended.ending;
    if ending.outcome == Outcome::Allowed {
        return None;
    }
    let words = ending.message.clone();
    Some(words.unwrap_or_else(|| format!("{} by {}", ending.resolution, ending.by.name)))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, ServeError> {
    let done = tokio::task::spawn_blocking(work).await;
    let failed = || ServeError::Failed("the host is ending".to_owned());
    done.map_err(|_| failed())?.map_err(|error| match error {
        FileError::NotFound { .. } => ServeError::NotFound(error.to_string()),
        FileError::Outside { .. } => ServeError::NotPermitted(error.to_string()),
        error => ServeError::Failed(chain(&error)),
    })
}

fn shell_error(error: &ShellError) -> ServeError {
    match error {
        ShellError::NotFound(_) => ServeError::NotFound(error.to_string()),
        ShellError::NotPermitted(words) => ServeError::NotPermitted(words.clone()),
        ShellError::Failed { .. } => ServeError::Failed(chain(error)),
    }
}
