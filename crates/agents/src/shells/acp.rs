//! Commands as processes of an editor, over `terminal/*` of the Agent Client Protocol.
//!
//! Such a command is outside the agent's process tree and any sandbox, so a person has to agree before an
//! agent gets this backend.
//!
//! Invariants: a command succeeded only if the editor that ran it said so; an editor that is lost, says
//! nothing or contradicts itself never becomes a success. The first end that is known of a command stays.
//! A key starts one command, ever.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_core::limits::{
    AGENT_TERMINALS_MAX, EDITOR_CALL_MS, EDITOR_POLL_MS, RELEASED_OUTPUT_BYTES_MAX,
    RELEASED_TERMINALS_KEPT, TERMINAL_KEYS_KEPT, TERMINAL_OUTPUT_BYTES_MAX,
    TERMINAL_PIECE_BYTES_MAX, TERMINAL_WAIT_MS, WORD_BYTES_MAX,
};
use countersign_core::truncate_to_tail;
use tokio::time::{Instant, sleep, timeout};

use super::editor_call::{EditorCall, EditorCallError, EditorLink, EditorReply};
use super::local::find_shell;
use super::readable_output::now_ms;
use super::{
    CommandSpec, ShellBackend, ShellError, ShellFuture, TerminalId, TerminalOutput, TerminalPiece,
    TerminalSummary,
};
use crate::adapter::{ProcessExit, WriteId};
use crate::runner::RunnerLink;

const ID_PREFIX: &str = "editor-";

/// Runs the commands of one agent in the editor that it is open in.
pub struct AcpShells {
    editor: Arc<dyn EditorLink>,
    /// Says whether an earlier host may have started a command already. It outlives hosts.
    claims: Option<Arc<dyn RunnerLink>>,
    terminals: Mutex<EditorTerminalTable>,
}

#[derive(Default)]
struct EditorTerminalTable {
    open: BTreeMap<String, EditorTerminal>,
    /// The newest that were released, for people to read.
    released: VecDeque<(String, EditorTerminal)>,
    /// The newest keys with what they gave.
    keys: VecDeque<(u64, TerminalId)>,
}

/// What is known of one terminal.
#[derive(Clone)]
struct EditorTerminal {
    command: String,
    cwd: std::path::PathBuf,
    started_ms: u64,
    bytes_max: usize,
    /// What it wrote, as it was last seen.
    text: String,
    truncated: bool,
    end: Option<(ProcessExit, u64)>,
}

impl AcpShells {
    /// Commands go to the editor behind `editor`.
    pub fn new(editor: Arc<dyn EditorLink>, claims: Option<Arc<dyn RunnerLink>>) -> Self {
        Self {
            editor,
            claims,
            terminals: Mutex::default(),
        }
    }

    fn terminals(&self) -> MutexGuard<'_, EditorTerminalTable> {
        self.terminals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn create_once(&self, spec: CommandSpec) -> Result<TerminalId, ShellError> {
        if let Some(id) = self.terminals().find_key(spec.key) {
            return Ok(id);
        }
        if self.terminals().open.len() >= AGENT_TERMINALS_MAX {
            let reason = "too many terminals are open; release some".to_owned();
            return Err(ShellError::NotPermitted(reason));
        }
        let what = format!("run a command in `{}`", spec.cwd.display());
        let call = self.create_call(&spec, &what).await?;
        let (editor, reply) = self.call_within(None, call, &what).await?;
        let EditorReply::Terminal { terminal } = reply else {
            return Err(failed(&what, "the editor answered something else"));
        };
        let id = format!("{ID_PREFIX}{editor}:{terminal}");
        let is_name = !terminal.is_empty() && !editor.contains(':');
        let mut terminals = self.terminals();
        // A terminal that is known already runs another command.
        if !is_name || id.len() > WORD_BYTES_MAX || terminals.knows(&id) {
            return Err(failed(&what, "the editor named no terminal of its own"));
        }
        terminals
            .open
            .insert(id.clone(), EditorTerminal::new(&spec));
        let id = TerminalId::new(id);
        if terminals.keys.len() >= TERMINAL_KEYS_KEPT {
            terminals.keys.pop_front();
        }
        terminals.keys.push_back((spec.key, id.clone()));
        Ok(id)
    }

    async fn create_call(&self, spec: &CommandSpec, what: &str) -> Result<EditorCall, ShellError> {
        let is_fresh = match &self.claims {
            Some(claims) => {
                let claim = claims.claim(WriteId::Line(spec.key)).await;
                claim.map_err(|error| failed(what, error))?
            }
            None => true,
        };
        let env = spec.env.iter();
        let env: Result<Vec<_>, ShellError> = env
            .map(|(name, value)| Ok((editor_text(name, what)?, editor_text(value, what)?)))
            .collect();
        Ok(EditorCall::CreateTerminal {
            key: spec.key,
            only_known: !is_fresh,
            program: editor_text(find_shell(spec).as_os_str(), what)?,
            args: vec!["-c".to_owned(), spec.command.clone()],
            title: spec.command.clone(),
            env: env?,
            cwd: editor_text(spec.cwd.as_os_str(), what)?,
            output_bytes_max: u64::try_from(spec.output_bytes_max).unwrap_or(u64::MAX),
        })
    }

    async fn call_within(
        &self,
        editor: Option<&str>,
        call: EditorCall,
        what: &str,
    ) -> Result<(String, EditorReply), ShellError> {
        let limit = Duration::from_millis(EDITOR_CALL_MS);
        let called = timeout(limit, self.editor.call(editor, call)).await;
        let called = called.unwrap_or(Err(EditorCallError::Late));
        called.map_err(|error| failed(what, error))
    }

    /// What the editor shows of a terminal now.
    async fn refresh(&self, id: &TerminalId) -> Result<EditorTerminal, ShellError> {
        let place = self.find(id)?;
        let call = EditorCall::TerminalOutput {
            terminal: place.terminal.clone(),
        };
        let limit = Duration::from_millis(EDITOR_CALL_MS);
        let called = timeout(limit, self.editor.call(Some(&place.editor), call)).await;
        match called.unwrap_or(Err(EditorCallError::Late)) {
            Ok((
                _,
                EditorReply::Output {
                    text,
                    truncated,
                    exit,
                },
            )) => self.note_output(id, text, truncated, exit),
            Ok(_) => Err(failed(
                "read the output",
                "the editor answered something else",
            )),
            Err(EditorCallError::Lost) => self.note_exit(id, killed()),
            // What ended stays readable, whatever its editor does.
            Err(error) => match self.find_terminal(id) {
                Ok(known) if known.end.is_some() => Ok(known),
                _ => Err(failed("read the output", error)),
            },
        }
    }

    fn note_output(
        &self,
        id: &TerminalId,
        mut text: String,
        truncated: bool,
        exit: Option<ProcessExit>,
    ) -> Result<EditorTerminal, ShellError> {
        self.change(id, |terminal| {
            terminal.truncated = truncated || text.len() > terminal.bytes_max;
            truncate_to_tail(&mut text, terminal.bytes_max);
            terminal.text = text;
            if let (None, Some(exit)) = (&terminal.end, exit) {
                terminal.end = Some((honest_exit(exit), now_ms()));
            }
        })
    }

    fn note_exit(&self, id: &TerminalId, exit: ProcessExit) -> Result<EditorTerminal, ShellError> {
        self.change(id, |terminal| {
            if terminal.end.is_none() {
                terminal.end = Some((honest_exit(exit), now_ms()));
            }
        })
    }

    fn change(
        &self,
        id: &TerminalId,
        change: impl FnOnce(&mut EditorTerminal),
    ) -> Result<EditorTerminal, ShellError> {
        let mut terminals = self.terminals();
        let open = terminals.open.get_mut(id.as_str());
        let terminal = open.ok_or_else(|| ShellError::NotFound(id.clone()))?;
        change(terminal);
        Ok(terminal.clone())
    }

    fn find_terminal(&self, id: &TerminalId) -> Result<EditorTerminal, ShellError> {
        let terminals = self.terminals();
        let open = terminals.open.get(id.as_str()).cloned();
        open.ok_or_else(|| ShellError::NotFound(id.clone()))
    }

    /// Where a terminal is. One that this host does not know may be an earlier host's, unless it was
    /// released: its editor knows.
    fn find(&self, id: &TerminalId) -> Result<EditorTerminalId, ShellError> {
        let place = EditorTerminalId::parse(id).ok_or_else(|| ShellError::NotFound(id.clone()))?;
        let mut terminals = self.terminals();
        if terminals.was_released(id.as_str()) {
            return Err(ShellError::NotFound(id.clone()));
        }
        if !terminals.open.contains_key(id.as_str()) {
            if self.claims.is_none() || terminals.open.len() >= AGENT_TERMINALS_MAX {
                return Err(ShellError::NotFound(id.clone()));
            }
            let inherited = EditorTerminal::inherited();
            terminals.open.insert(id.as_str().to_owned(), inherited);
        }
        Ok(place)
    }

    async fn wait(&self, id: &TerminalId) -> Result<ProcessExit, ShellError> {
        let place = self.find(id)?;
        if let Some((exit, _)) = self.find_terminal(id)?.end {
            return Ok(exit);
        }
        let call = EditorCall::WaitForExit {
            terminal: place.terminal.clone(),
        };
        let exit = match self.editor.call(Some(&place.editor), call).await {
            Ok((_, EditorReply::Exited { exit })) => exit,
            Ok(_) => {
                return Err(failed(
                    "wait for the end",
                    "the editor answered something else",
                ));
            }
            Err(EditorCallError::Lost) => killed(),
            Err(error) => {
                // Released meanwhile: editors end a wait with an error then.
                let released = self.terminals().find_released(id.as_str());
                let end = released.and_then(|terminal| terminal.end);
                return end
                    .map(|(exit, _)| exit)
                    .ok_or_else(|| failed("wait for the end", error));
            }
        };
        match self.note_exit(id, exit.clone()) {
            Ok(terminal) => Ok(terminal.end.map_or_else(killed, |(exit, _)| exit)),
            Err(_) => Ok(honest_exit(exit)),
        }
    }

    /// Ends the command, and waits until its editor says how it ended.
    async fn end_command(&self, id: &TerminalId) -> Result<(), ShellError> {
        let place = self.find(id)?;
        if self.find_terminal(id)?.end.is_some() {
            return Ok(());
        }
        let what = "end the command";
        let call = EditorCall::KillTerminal {
            terminal: place.terminal.clone(),
        };
        let limit = Duration::from_millis(EDITOR_CALL_MS);
        let ended = async {
            match self.editor.call(Some(&place.editor), call).await {
                Ok((_, EditorReply::Done)) => self.wait(id).await.map(drop),
                Ok(_) => Err(failed(what, "the editor answered something else")),
                Err(EditorCallError::Lost) => self.note_exit(id, killed()).map(drop),
                Err(error) => Err(failed(what, error)),
            }
        };
        let ended = timeout(limit, ended).await;
        ended.unwrap_or_else(|_| Err(failed(what, EditorCallError::Late)))
    }

    async fn end(&self, id: &TerminalId) -> Result<(), ShellError> {
        if self.terminals().was_released(id.as_str()) {
            return Ok(());
        }
        let place = self.find(id)?;
        self.end_command(id).await?;
        // For people who read it afterwards. Without it there is what was seen before.
        self.refresh(id).await.ok();
        let call = EditorCall::ReleaseTerminal {
            terminal: place.terminal.clone(),
        };
        let released = self.call_within(Some(&place.editor), call, "release the terminal");
        // Nothing runs in it any more, so a window that stays open in the editor harms nobody.
        released.await.ok();
        self.terminals().release(id.as_str());
        Ok(())
    }

    async fn read(
        &self,
        id: &TerminalId,
        after: u64,
        wait_ms: u64,
    ) -> Result<TerminalPiece, ShellError> {
        let released = self.terminals().find_released(id.as_str());
        if let Some(released) = released {
            return Ok(released.read_from(after));
        }
        let until = Instant::now() + Duration::from_millis(wait_ms.min(TERMINAL_WAIT_MS));
        loop {
            let piece = self.refresh(id).await?.read_from(after);
            let now = Instant::now();
            if !piece.bytes.is_empty() || piece.is_end || now >= until {
                return Ok(piece);
            }
            // An editor does not say when there is more.
            sleep(Duration::from_millis(EDITOR_POLL_MS).min(until - now)).await;
        }
    }
}

/// An editor that is gone took its command with it, as far as anybody can say.
fn killed() -> ProcessExit {
    ProcessExit {
        code: None,
        signal: Some("SIGKILL".to_owned()),
    }
}

/// An end that says nothing, or two things, is not a success.
fn honest_exit(exit: ProcessExit) -> ProcessExit {
    match exit {
        ProcessExit {
            signal: Some(mut signal),
            ..
        } => {
            truncate_to_tail(&mut signal, WORD_BYTES_MAX);
            ProcessExit {
                code: None,
                signal: Some(signal),
            }
        }
        ProcessExit { code: None, .. } => ProcessExit {
            code: Some(-1),
            signal: None,
        },
        exit => exit,
    }
}

fn failed(what: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ShellError {
    ShellError::Failed {
        what: what.to_owned(),
        source: io::Error::other(source),
    }
}

/// Refused rather than changed: what runs must be what was allowed.
fn editor_text(value: &OsStr, what: &str) -> Result<String, ShellError> {
    let text = value.to_str();
    let text = text.ok_or_else(|| failed(what, "it is not text that an editor can be sent"))?;
    Ok(text.to_owned())
}

/// Which terminal of which editor.
struct EditorTerminalId {
    editor: String,
    terminal: String,
}

impl EditorTerminalId {
    fn parse(id: &TerminalId) -> Option<Self> {
        let (editor, terminal) = id.as_str().strip_prefix(ID_PREFIX)?.split_once(':')?;
        Some(Self {
            editor: editor.to_owned(),
            terminal: terminal.to_owned(),
        })
    }
}

impl EditorTerminalTable {
    fn find_key(&self, key: u64) -> Option<TerminalId> {
        let mut keys = self.keys.iter();
        keys.find(|(found, _)| *found == key)
            .map(|(_, id)| id.clone())
    }

    fn knows(&self, id: &str) -> bool {
        self.open.contains_key(id) || self.was_released(id)
    }

    /// Also of those that people can no longer read.
    fn was_released(&self, id: &str) -> bool {
        let has_key = self.keys.iter().any(|(_, made)| made.as_str() == id);
        self.find_released(id).is_some() || (has_key && !self.open.contains_key(id))
    }

    fn find_released(&self, id: &str) -> Option<EditorTerminal> {
        let mut released = self.released.iter();
        released
            .find(|(found, _)| found == id)
            .map(|(_, terminal)| terminal.clone())
    }

    fn release(&mut self, id: &str) {
        let Some(mut terminal) = self.open.remove(id) else {
            return;
        };
        truncate_to_tail(&mut terminal.text, RELEASED_OUTPUT_BYTES_MAX);
        self.released.push_back((id.to_owned(), terminal));
        if self.released.len() > RELEASED_TERMINALS_KEPT {
            self.released.pop_front();
        }
    }
}

impl EditorTerminal {
    fn new(spec: &CommandSpec) -> Self {
        Self {
            command: spec.command.clone(),
            cwd: spec.cwd.clone(),
            started_ms: now_ms(),
            bytes_max: spec.output_bytes_max.min(TERMINAL_OUTPUT_BYTES_MAX),
            text: String::new(),
            truncated: false,
            end: None,
        }
    }

    /// One that an earlier host made.
    fn inherited() -> Self {
        Self {
            command: "(started before the host was replaced)".to_owned(),
            cwd: std::path::PathBuf::new(),
            started_ms: now_ms(),
            bytes_max: TERMINAL_OUTPUT_BYTES_MAX,
            text: String::new(),
            truncated: false,
            end: None,
        }
    }

    /// Bytes are counted from the oldest that the editor still shows.
    fn read_from(&self, after: u64) -> TerminalPiece {
        let bytes = self.text.as_bytes();
        let from = usize::try_from(after)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let end = bytes
            .len()
            .min(from.saturating_add(TERMINAL_PIECE_BYTES_MAX));
        TerminalPiece {
            from: from as u64,
            bytes: bytes[from..end].to_vec(),
            is_end: self.end.is_some() && end == bytes.len(),
        }
    }

    fn summary(&self, id: &str) -> TerminalSummary {
        let end = self.end.clone();
        TerminalSummary {
            id: id.to_owned(),
            command: self.command.clone(),
            cwd: self.cwd.clone(),
            started_ms: self.started_ms,
            ended_ms: end.as_ref().map(|(_, at_ms)| *at_ms),
            exit: end.map(|(exit, _)| exit),
            bytes: self.text.len() as u64,
            first_offset: 0,
        }
    }
}

impl ShellBackend for AcpShells {
    fn create(&self, spec: CommandSpec) -> ShellFuture<'_, TerminalId> {
        Box::pin(self.create_once(spec))
    }

    fn output<'a>(&'a self, id: &'a TerminalId) -> ShellFuture<'a, TerminalOutput> {
        Box::pin(async move {
            let terminal = self.refresh(id).await?;
            Ok(TerminalOutput {
                text: terminal.text,
                truncated: terminal.truncated,
                exit: terminal.end.map(|(exit, _)| exit),
            })
        })
    }

    fn wait_for_exit<'a>(&'a self, id: &'a TerminalId) -> ShellFuture<'a, ProcessExit> {
        Box::pin(self.wait(id))
    }

    fn kill<'a>(&'a self, id: &'a TerminalId) -> ShellFuture<'a, ()> {
        Box::pin(self.end_command(id))
    }

    fn release<'a>(&'a self, id: &'a TerminalId) -> ShellFuture<'a, ()> {
        Box::pin(self.end(id))
    }

    fn list(&self) -> ShellFuture<'_, Vec<TerminalSummary>> {
        Box::pin(async {
            let terminals = self.terminals();
            let released = terminals.released.iter().map(|(id, known)| (id, known));
            let mut rows: Vec<_> = released
                .chain(terminals.open.iter())
                .map(|(id, terminal)| terminal.summary(id))
                .collect();
            rows.sort_by_key(|row| row.started_ms);
            Ok(rows)
        })
    }

    fn read_from<'a>(
        &'a self,
        id: &'a TerminalId,
        after: u64,
        wait_ms: u64,
    ) -> ShellFuture<'a, TerminalPiece> {
        Box::pin(self.read(id, after, wait_ms))
    }
}
