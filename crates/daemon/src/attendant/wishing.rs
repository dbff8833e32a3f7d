//! Wishing: what an agent wants of the host becomes an ask that rules and people can read.
//!
//! Invariant: what is shown is what would be done; the file that is judged is the file that is used.

use std::path::PathBuf;
use std::sync::Arc;

use countersign_agents::adapter::{RunRequest, ServeError, Want};
use countersign_agents::{Opened, WriteTarget, open_for_read, open_for_write, read_text};
use countersign_core::limits::{TERMINAL_OUTPUT_BYTES, TERMINAL_OUTPUT_BYTES_MAX};
use countersign_core::{AskRequest, Json, ManagedAsk};
use serde_json::json;

use crate::reply::Reply;

use super::asking::NotAsked;
use super::binding::{digest_run, digest_write};
use super::found::Found;
use super::hearing::Hearing;
use super::run::Run;
use super::serving::{Asking, Pending, blocking};
use super::talk::Lost;

/// An ask for a wish, as rules and people see it.
pub(super) struct Described {
    pub(super) pending: Pending,
    action: String,
    tool: &'static str,
    pub(super) input: serde_json::Value,
    covered_by: Vec<String>,
}

impl Run {
    pub(super) async fn describe(&self, want: Want) -> Result<Described, ServeError> {
        match want {
            Want::CreateTerminal {
                run,
                output_bytes_max,
            } => Ok(self.wish_to_run(run, output_bytes_max)),
            Want::Read { path, line, limit } => self.wish_to_read(path, line, limit).await,
            Want::Write { path, content } => self.wish_to_write(path, content).await,
            Want::Output { .. }
            | Want::WaitForExit { .. }
            | Want::Kill { .. }
            | Want::Release { .. } => {
                let words = "a terminal needs no permission".to_owned();
                Err(ServeError::Failed(words))
            }
        }
    }

    fn wish_to_run(&self, run: RunRequest, output_bytes_max: Option<u64>) -> Described {
        let wanted = output_bytes_max.and_then(|max| usize::try_from(max).ok());
        let output_bytes_max = wanted.unwrap_or(TERMINAL_OUTPUT_BYTES);
        let command = with_variables(&run);
        let mut input = json!({ "command": command });
        if let Some(cwd) = run.cwd.as_ref().filter(|cwd| **cwd != self.folder) {
            input["cwd"] = json!(cwd.to_string_lossy());
        }
        Described {
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
    ) -> Result<Described, ServeError> {
        let roots = self.roots.clone();
        let file = blocking(move || Found::of(&path, open_for_read(&path, &roots))).await?;
        let real = file.real(Opened::real_path).to_string_lossy().into_owned();
        Ok(Described {
            action: format!("Read {real}"),
            tool: "Read",
            input: json!({ "file_path": real }),
            covered_by: Vec::new(),
            pending: Pending::Read { file, line, limit },
        })
    }

    async fn wish_to_write(&self, path: PathBuf, content: String) -> Result<Described, ServeError> {
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
        Ok(Described {
            action: format!("Write {real}"),
            tool: "Write",
            input: json!({ "file_path": real, "content": content }),
            covered_by,
            pending: Pending::Write { file, content },
        })
    }

    pub(super) async fn ask_for(
        self: &Arc<Self>,
        request: Asking,
        want: Want,
        described: Described,
        hearing: &mut Hearing,
    ) -> Result<(), Lost> {
        let own = ManagedAsk {
            request: request.0.0.clone(),
            hears_words: true,
            covered_by: described.covered_by,
            ..ManagedAsk::default()
        };
        let ask = AskRequest {
            tool: Some(described.tool.to_owned()),
            input: Json::from_value(&described.input).ok(),
            tool_call: Some(format!("request {}", request.0.0)),
            ..self.ask_request(described.action, own, hearing)
        };
        let id = ask.id.clone();
        self.keep(&request, Some(id.clone()), &want, Some(described.pending));
        match self.enter(ask, hearing).await {
            Ok(Reply::Covered(_)) => self.go_ahead(request, &id),
            // The rest is a duty.
            Ok(_) => {}
            Err(NotAsked::Refused(error)) => {
                let words = format!("this could not be asked: {error}");
                self.serve(request, Err(ServeError::NotPermitted(words)));
            }
            Err(NotAsked::Lost) => return Err(Lost),
        }
        Ok(())
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
