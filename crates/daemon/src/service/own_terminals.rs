//! Terminals of people: opened, typed into, read and closed by operators, and by nobody else.
//!
//! Invariants: an agent reaches none of them; who opened and closed which is on the record, and what was typed or
//! written is not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use countersign_agents::TerminalPiece;
use countersign_agents::adapter::ProcessExit;
use countersign_agents::own_terminal::{
    self, EndedTerminal, OwnTerminal, OwnTerminalError, OwnTerminalProgram, OwnTerminalStart,
    OwnTerminalStatus, TerminalSize,
};
use countersign_core::limits::{
    OWN_TERMINAL_SIDE_MAX, OWN_TERMINAL_WRITE_BYTES_MAX, OWN_TERMINALS_ENDED_MAX, TERMINAL_WAIT_MS,
};
use countersign_core::{Caller, Input, Rejection, error_chain};

use super::{Service, ServiceResult};
use crate::own_terminals::{OwnTerminalSettings, RegisteredTerminal};
use crate::reply::ServiceError;

/// How soon a terminal whose runner could not be reached is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What somebody wants to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTerminalRequest {
    /// What the shell runs; without it the shell is interactive.
    pub command: Option<String>,
    /// The home of the host's user, if it is not given.
    pub cwd: Option<PathBuf>,
    pub size: TerminalSize,
}

/// Terminals of people.
impl Service {
    /// Opens a terminal, which outlives this host.
    pub async fn open_own_terminal(
        &self,
        caller: &Caller,
        request: OwnTerminalRequest,
    ) -> ServiceResult<OwnTerminalStatus> {
        caller.require_operator()?;
        check_size(request.size)?;
        let terminals = &self.shared.own_terminals;
        let settings = terminals.settings.clone();
        let settings = settings.ok_or_else(|| not_opened("this host runs no terminals"))?;
        self.clear_ended_terminals().await;
        let _place = terminals.reserve()?;
        let start = prepare(settings, request)?;
        // On the record before it runs, so that nothing runs that nobody opened.
        self.submit(Input::OpenTerminal {
            caller: caller.clone(),
            terminal: start.id.clone(),
            cwd: start.cwd.to_string_lossy().into_owned(),
            command: start.title.clone(),
        })
        .await?;
        let id = start.id.clone();
        match own_terminal::start(start).await {
            Ok(terminal) => {
                terminals.add(terminal.clone());
                self.watch_own_terminal(terminal.clone());
                Ok(reached(&id, terminal.status().await)?)
            }
            Err(error) => {
                self.record_terminal_end(None, &id, None).await?;
                Err(not_opened(&error_chain(&error)).into())
            }
        }
    }

    /// All of them, the oldest first.
    pub async fn own_terminals(&self, caller: &Caller) -> ServiceResult<Vec<OwnTerminalStatus>> {
        caller.require_operator()?;
        let mut found = Vec::new();
        for registered in self.shared.own_terminals.all() {
            // One that cannot be reached now is looked at by its watcher.
            found.extend(registered.terminal.status().await.ok());
        }
        Ok(found)
    }

    /// Output from a byte on. With `wait_ms` it returns when there is some, or when that time is over.
    pub async fn read_own_terminal(
        &self,
        caller: &Caller,
        id: &str,
        after: u64,
        wait_ms: u64,
    ) -> ServiceResult<TerminalPiece> {
        let registered = self.find_own_terminal(caller, id)?;
        Ok(reached(id, registered.terminal.read(after, wait_ms).await)?)
    }

    /// Types something; how many bytes of it were taken.
    pub async fn write_own_terminal(
        &self,
        caller: &Caller,
        id: &str,
        bytes: &[u8],
    ) -> ServiceResult<usize> {
        let registered = self.find_own_terminal(caller, id)?;
        if bytes.len() > OWN_TERMINAL_WRITE_BYTES_MAX {
            let rejection = Rejection::TooLarge {
                what: "what is typed at once",
                limit: OWN_TERMINAL_WRITE_BYTES_MAX,
            };
            return Err(rejection.into());
        }
        let _typing = registered.typing.lock().await;
        Ok(reached(id, registered.terminal.write(bytes).await)?)
    }

    pub async fn resize_own_terminal(
        &self,
        caller: &Caller,
        id: &str,
        size: TerminalSize,
    ) -> ServiceResult<()> {
        let registered = self.find_own_terminal(caller, id)?;
        check_size(size)?;
        Ok(reached(id, registered.terminal.resize(size).await)?)
    }

    /// Ends everything that runs in it.
    pub async fn close_own_terminal(&self, caller: &Caller, id: &str) -> ServiceResult<()> {
        let registered = self.find_own_terminal(caller, id)?;
        let was_over = registered.terminal.is_recorded();
        self.end_own_terminal(&registered).await?;
        if was_over {
            return Ok(());
        }
        self.record_terminal_end(Some(caller), id, None).await
    }

    async fn end_own_terminal(&self, registered: &RegisteredTerminal) -> ServiceResult<()> {
        let terminal = &registered.terminal;
        let id = &terminal.record.id;
        // Taken off the list first, so that its watcher does not record an end of its own.
        self.shared.own_terminals.remove(id);
        match terminal.close().await {
            Ok(()) | Err(OwnTerminalError::Gone) => {}
            Err(error) => {
                tracing::warn!(terminal = %id, error = error_chain(&error), "a terminal is ended from outside");
            }
        }
        let left = own_terminal::end_left_over(&terminal.record).await;
        left.map(drop).map_err(|error| {
            let why = error_chain(&error);
            ServiceError::Rejected(Rejection::UnreadableTerminal {
                terminal: id.clone(),
                why,
            })
        })
    }

    /// Makes room: of those that have ended only the newest are kept.
    async fn clear_ended_terminals(&self) {
        let all = self.shared.own_terminals.all();
        let ended: Vec<_> = all
            .into_iter()
            .filter(|registered| registered.terminal.is_recorded())
            .collect();
        let excess = (ended.len() + 1).saturating_sub(OWN_TERMINALS_ENDED_MAX);
        for registered in ended.iter().take(excess) {
            if let Err(error) = self.end_own_terminal(registered).await {
                tracing::warn!(%error, "an ended terminal could not be cleared away");
            }
        }
    }

    fn find_own_terminal(&self, caller: &Caller, id: &str) -> ServiceResult<RegisteredTerminal> {
        caller.require_operator()?;
        Ok(self.shared.own_terminals.find(id)?)
    }

    async fn record_terminal_end(
        &self,
        caller: Option<&Caller>,
        id: &str,
        exit: Option<ProcessExit>,
    ) -> ServiceResult<()> {
        let exit = exit.unwrap_or_default();
        self.submit(Input::EndTerminal {
            caller: caller.cloned(),
            terminal: id.to_owned(),
            exit_code: exit.code,
            signal: exit.signal,
        })
        .await
        .map(drop)
    }

    /// Finds the terminals that an earlier host left.
    pub(super) async fn adopt_own_terminals(&self) -> ServiceResult<()> {
        let Some(settings) = &self.shared.own_terminals.settings else {
            return Ok(());
        };
        let folder = settings.folder.clone();
        let found = tokio::task::spawn_blocking(move || own_terminal::find_left(&folder)).await;
        let (living, over) = found.unwrap_or_default();
        for (record, runner) in living {
            let terminal = OwnTerminal { record, runner };
            self.shared.own_terminals.add(terminal.clone());
            self.watch_own_terminal(terminal);
        }
        for ended in over {
            self.settle_ended_terminal(ended).await?;
        }
        Ok(())
    }

    async fn settle_ended_terminal(&self, ended: EndedTerminal) -> ServiceResult<()> {
        if !ended.record.is_recorded() {
            let exit = ended.status.and_then(|status| status.summary.exit);
            self.record_terminal_end(None, &ended.record.id, exit)
                .await?;
        }
        if let Err(error) = own_terminal::end_left_over(&ended.record).await {
            tracing::error!(
                error = error_chain(&error),
                "processes of a terminal may still run"
            );
        }
        Ok(())
    }

    /// Records the end of its program, when that comes.
    fn watch_own_terminal(&self, terminal: OwnTerminal) {
        if terminal.is_recorded() {
            return;
        }
        let service = self.clone();
        let ending = self.shared.own_terminals.ending.clone();
        let watch = async move { service.follow_own_terminal(&terminal).await };
        self.shared
            .tasks
            .spawn(ending.run_until_cancelled_owned(watch));
    }

    async fn follow_own_terminal(&self, terminal: &OwnTerminal) {
        let id = &terminal.record.id;
        let exit = loop {
            match terminal.wait_for_exit(TERMINAL_WAIT_MS).await {
                Ok(status) if status.summary.ended_ms.is_some() => break status.summary.exit,
                Ok(_) => {}
                Err(OwnTerminalError::Gone) => break None,
                Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        };
        // Somebody closed it, and that is what is recorded.
        if self.shared.own_terminals.find(id).is_err() {
            return;
        }
        let is_gone = exit.is_none();
        terminal.note_recorded();
        if let Err(error) = self.record_terminal_end(None, id, exit).await {
            tracing::warn!(%error, "the end of a terminal was not recorded");
        }
        if is_gone {
            self.shared.own_terminals.remove(id);
            drop(own_terminal::end_left_over(&terminal.record).await);
        }
    }
}

fn prepare(
    settings: OwnTerminalSettings,
    request: OwnTerminalRequest,
) -> Result<OwnTerminalStart, Rejection> {
    let program = OwnTerminalProgram::of_person(request.command.as_deref(), std::env::vars_os());
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let cwd = request.cwd.or_else(home).unwrap_or_else(|| "/".into());
    check_folder(&cwd)?;
    let shell = program.program.to_string_lossy().into_owned();
    Ok(OwnTerminalStart {
        command: settings.command,
        id: own_terminal::new_id().map_err(|error| not_opened(&error.to_string()))?,
        folder: settings.folder,
        sockets: settings.sockets,
        host_lock: settings.host_lock,
        title: request.command.unwrap_or(shell),
        program,
        cwd,
        size: request.size,
    })
}

fn check_folder(cwd: &Path) -> Result<(), Rejection> {
    if !cwd.is_absolute() {
        return Err(Rejection::NotAbsolute("the folder"));
    }
    if !cwd.is_dir() {
        return Err(not_opened(&format!("`{}` is not a folder", cwd.display())));
    }
    Ok(())
}

fn check_size(size: TerminalSize) -> Result<(), Rejection> {
    let sides = [size.columns, size.rows];
    if sides
        .iter()
        .all(|side| (1..=OWN_TERMINAL_SIDE_MAX).contains(side))
    {
        return Ok(());
    }
    Err(not_opened(&format!(
        "{}×{} is not the size of a terminal",
        size.columns, size.rows
    )))
}

fn not_opened(why: &str) -> Rejection {
    Rejection::TerminalNotOpened(why.to_owned())
}

fn reached<T>(id: &str, result: Result<T, OwnTerminalError>) -> Result<T, Rejection> {
    result.map_err(|error| Rejection::UnreadableTerminal {
        terminal: id.to_owned(),
        why: error_chain(&error),
    })
}
