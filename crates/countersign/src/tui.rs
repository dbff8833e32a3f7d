//! The terminal UI: moves keys, news and answers between the person, the screen and the host.
//!
//! What a message means and what is drawn are pure functions in `countersign_tui`. Invariant: news is taken before
//! keys, and each key is judged by when it was typed.

mod command_runs;
mod host_link;
mod key_events;
mod notes_file;
mod outside;
mod plain;
pub(crate) mod proposals;
mod screen_cells;
mod settings;
mod settings_files;
mod state_file;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use countersign_tui::message::{Effect, Message, Moment};
use countersign_tui::model::Model;
use countersign_tui::replay::replay_log;
use countersign_tui::update::update;
use crossterm::event::Event;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::command_runs::CommandRuns;
use self::host_link::HostLinks;
use self::notes_file::NotesFile;
use self::screen_cells::{ScreenCells, StdoutBackend};
use self::settings_files::SettingsFolder;
use self::state_file::StateFile;
use crate::client::{HostClient, HostEndpoint};
use crate::duration;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::screen::{KeyboardReader, RawTerminal, terminal_error};

/// At most thirty pictures a second, whatever comes.
const FRAME: Duration = Duration::from_millis(33);
/// How often ages and warnings are brought up to date.
const TICK: Duration = Duration::from_secs(1);
/// News taken in before the screen is drawn again.
const NEWS_PER_FRAME: usize = 1_000;

pub(crate) const HELP: &str = "Examples:
  countersign tui
  countersign tui --next
  countersign tui --plain
  countersign tui --replay log.jsonl --size 100x30

Keys: `?` shows those of the panel that has the focus, `:` finds every command by its words, Tab goes
to the next panel. `a` and then `y` approve the ask that is shown, `d` denies it. `countersign keys`
prints all commands with their keys.

An ask is approved by two keys, after all of it was on the screen and half a second has passed.
Decision keys work only while the ask has the focus. The mouse never decides.";

#[derive(Args, Clone, Default)]
pub(crate) struct TuiArgs {
    /// Lines instead of a screen, for screen readers and plain terminals
    #[arg(long)]
    plain: bool,
    /// Draw with ASCII characters only
    #[arg(long)]
    ascii: bool,
    /// Begin at the ask that has waited longest
    #[arg(long)]
    next: bool,
    /// Draw a recorded log without a host and print the picture: a snapshot or events, one JSON document a line
    #[arg(long, value_name = "LOG")]
    replay: Option<PathBuf>,
    /// The size of that picture
    #[arg(
        long,
        value_name = "WxH",
        default_value = "120x40",
        requires = "replay"
    )]
    size: PictureSize,
}

/// Columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PictureSize {
    width: u16,
    height: u16,
}

impl Default for PictureSize {
    fn default() -> Self {
        Self {
            width: 120,
            height: 40,
        }
    }
}

impl std::str::FromStr for PictureSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('x').and_then(|(width, height)| {
            let (width, height) = (width.parse().ok()?, height.parse().ok()?);
            // As large as a wall of screens; a mistyped number must not take all memory.
            ((1..=1_000).contains(&width) && (1..=1_000).contains(&height))
                .then_some(Self { width, height })
        });
        parsed.ok_or_else(|| format!("`{text}` is not a size like 120x40"))
    }
}

/// Prints the picture of a recorded log.
fn replay(path: &Path, size: PictureSize) -> Result<CliExit, CliError> {
    let log =
        std::fs::read_to_string(path).map_err(|source| CliError::file("read", path, source))?;
    let picture = replay_log(&log, settings::replay(), size.width, size.height)
        .map_err(|why| CliError::usage(format!("`{}`: {why}", path.display())))?;
    crate::output::print(&picture)?;
    Ok(CliExit::Ok)
}

/// Runs until the person leaves; `note` is what they are told first.
pub(crate) async fn tui(
    endpoint: &HostEndpoint,
    args: &TuiArgs,
    note: &str,
) -> Result<CliExit, CliError> {
    if let Some(path) = &args.replay {
        return replay(path, args.size);
    }
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(CliError::usage("the terminal UI needs a terminal").with_hint(
            "list asks with `countersign inbox`, or new events with `countersign events --follow`",
        ));
    }
    // An error before the screen is taken over is printed on an ordinary one, with its hint.
    drop(HostClient::connect(endpoint).await?);
    if args.plain || settings::is_dumb_terminal() {
        return plain::run(endpoint).await;
    }
    let started = Instant::now();
    // Before the keyboard is read: the answer of the terminal would look like keys.
    let screen_settings = settings::load(endpoint, args.ascii);
    let mut model = Model::new(screen_settings, Moment::default());
    if args.next {
        model
            .workspace
            .open(countersign_tui::layout::PanelKind::Ask, 0);
    }
    if !note.is_empty() {
        model.notices.say(note, 0);
    }
    let terminal = RawTerminal::enter().map_err(terminal_error)?;
    let mut screen = ScreenLoop {
        links: HostLinks::open(endpoint.clone()),
        keyboard: KeyboardReader::open().map_err(terminal_error)?,
        cells: ScreenCells::open().map_err(terminal_error)?,
        terminal: Some(terminal),
        settings: SettingsFolder::find(),
        commands: CommandRuns::default(),
        state: StateFile::find(endpoint),
        notes: NotesFile::find(),
        model,
        started,
        drawn_at: None,
        is_stale: true,
        is_urgent: true,
    };
    // What was typed before the first picture was meant for something else.
    for _ in screen.keyboard.drain() {}
    screen.run().await.map_err(terminal_error)?;
    Ok(CliExit::Ok)
}

struct ScreenLoop {
    links: HostLinks,
    keyboard: KeyboardReader,
    cells: ScreenCells<StdoutBackend>,
    /// Absent only while another program has the terminal.
    terminal: Option<RawTerminal>,
    /// The files of this person, if they can be found.
    settings: Option<SettingsFolder>,
    /// Commands of the person's that panels show.
    commands: CommandRuns,
    /// What is open here, for the next start in this folder.
    state: Option<StateFile>,
    /// The notes of this folder, if there is a place for them.
    notes: Option<NotesFile>,
    model: Model,
    started: Instant,
    drawn_at: Option<Instant>,
    /// Whether the picture may differ from what is known.
    is_stale: bool,
    /// Whether it is drawn at once: a person waits for it.
    is_urgent: bool,
}

enum Wake {
    News(Message),
    Input(Option<(Instant, Event)>),
    Timer,
    Ended,
}

/// Whether the loop goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoopStep {
    Continue,
    Leave,
}

impl ScreenLoop {
    async fn run(&mut self) -> io::Result<()> {
        // Signals end the loop instead of the process, so that the terminal is restored on the way out.
        let mut ends = [
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::interrupt())?,
        ];
        let mut ticked_at = Instant::now();
        self.read_settings()?;
        // After the settings: sizes that were changed here count before those of the file.
        if let Some(state) = &mut self.state {
            state.restore(&mut self.model);
        }
        loop {
            self.draw_if_due()?;
            let wake = self.next_wake(&mut ends, ticked_at + TICK).await;
            let step = match wake {
                Wake::Ended | Wake::Input(None) => self.leave_at_signal(),
                Wake::News(message) => self.take_news(message)?,
                Wake::Input(Some((at, event))) => self.take_input(at, event)?,
                Wake::Timer => LoopStep::Continue,
            };
            if step == LoopStep::Leave {
                self.save_state()?;
                return Ok(());
            }
            if ticked_at.elapsed() >= TICK {
                ticked_at = Instant::now();
                self.apply(Message::Tick)?;
                self.read_settings()?;
                self.save_state()?;
            }
            self.is_stale = true;
        }
    }

    /// Takes in files that were saved.
    fn read_settings(&mut self) -> io::Result<()> {
        let changed = self
            .settings
            .as_mut()
            .and_then(SettingsFolder::read_changes);
        if let Some(files) = changed {
            self.apply(Message::Settings(Box::new(files)))?;
        }
        Ok(())
    }

    /// Once a second at most, and only if something else is open.
    fn save_state(&mut self) -> io::Result<()> {
        let failed = self
            .state
            .as_mut()
            .and_then(|state| state.save(&self.model));
        if let Some(why) = failed {
            self.apply(Message::Failed(why))?;
        }
        Ok(())
    }

    fn save_layout(&mut self, name: &str, text: &str) -> io::Result<LoopStep> {
        let saved = self
            .settings
            .as_ref()
            .map(|settings| settings.save_layout(name, text));
        let said = match saved {
            Some(Ok(())) => format!("saved the layout {name}"),
            Some(Err(error)) => format!("the layout was not saved: {error}"),
            None => "the layout was not saved: no folder for settings was found".to_owned(),
        };
        self.apply(Message::Failed(said))
    }

    fn read_notes(&mut self) -> io::Result<LoopStep> {
        let kept = match &mut self.notes {
            Some(notes) => notes.read(),
            None => Err("no folder for notes was found".to_owned()),
        };
        self.apply(Message::Notes(kept))
    }

    fn save_notes(&mut self, text: &str) -> io::Result<LoopStep> {
        let saved = self.notes.as_mut().map(|notes| notes.save(text));
        match saved {
            Some(Ok(Some(said)) | Err(said)) => self.apply(Message::Failed(said)),
            Some(Ok(None)) | None => Ok(LoopStep::Continue),
        }
    }

    /// Nobody can be told any more, but what was written is kept.
    fn leave_at_signal(&mut self) -> LoopStep {
        let unsaved = self.model.files.notes.unsaved();
        if let (Some(text), Some(notes)) = (unsaved, &mut self.notes) {
            notes.save(&text).ok();
        }
        LoopStep::Leave
    }

    fn moment_at(&self, at: Instant) -> Moment {
        Moment {
            ms: u64::try_from(at.saturating_duration_since(self.started).as_millis())
                .unwrap_or(u64::MAX),
            wall: duration::now(),
        }
    }

    fn draw_if_due(&mut self) -> io::Result<()> {
        let is_due = self.is_urgent || self.drawn_at.is_none_or(|at| at.elapsed() >= FRAME);
        if !self.is_stale || !is_due {
            return Ok(());
        }
        (self.is_stale, self.is_urgent) = (false, false);
        self.model.now = self.moment_at(Instant::now());
        let report = self.cells.draw(&self.model)?;
        self.drawn_at = Some(Instant::now());
        let before = self.model.drawn.clone();
        self.apply(Message::Drawn(report))?;
        // Panels are laid out by what was drawn last: another size shows them once more.
        self.is_stale = self.model.drawn != before;
        Ok(())
    }

    /// When the loop wakes although nothing happens.
    fn next_timer(&self, tick_at: Instant) -> Instant {
        let change = self.model.next_change();
        let change = change.map(|ms| self.started + Duration::from_millis(ms + 1));
        let frame = self.drawn_at.filter(|_| self.is_stale).map(|at| at + FRAME);
        [Some(tick_at), change, frame]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(tick_at)
    }

    async fn next_wake(&mut self, ends: &mut [Signal; 3], tick_at: Instant) -> Wake {
        let timer = tokio::time::sleep_until(self.next_timer(tick_at).into());
        let [terminate, hangup, interrupt] = ends;
        tokio::select! {
            biased;
            _ = terminate.recv() => Wake::Ended,
            _ = hangup.recv() => Wake::Ended,
            _ = interrupt.recv() => Wake::Ended,
            // News before keys: a key is judged against what the host has said by then.
            message = self.links.next_message() => Wake::News(message),
            message = self.commands.next_ended() => Wake::News(message),
            input = self.keyboard.next() => Wake::Input(input),
            () = timer => Wake::Timer,
        }
    }

    /// Takes in news and what came with it.
    fn take_news(&mut self, first: Message) -> io::Result<LoopStep> {
        // A person waits for these. Other news may come in floods, and is drawn at the usual pace.
        self.is_urgent |= matches!(first, Message::Reply { .. } | Message::Connected { .. });
        let mut step = self.apply(first)?;
        for _ in 0..NEWS_PER_FRAME {
            let Some(message) = self.links.try_next_message() else {
                break;
            };
            if self.apply(message)? == LoopStep::Leave {
                step = LoopStep::Leave;
            }
        }
        Ok(step)
    }

    fn take_input(&mut self, at: Instant, event: Event) -> io::Result<LoopStep> {
        self.is_urgent = true;
        // When it was typed and not the present: a key that waited must not gain reading time by that.
        let ms = self.moment_at(at).ms;
        match key_events::message_of(event, ms) {
            Some(message) => self.apply(message),
            None => Ok(LoopStep::Continue),
        }
    }

    /// Takes in a message, and does what it asks for.
    fn apply(&mut self, message: Message) -> io::Result<LoopStep> {
        // Before the model learns of it: calls that it makes from then on must not use a connection
        // to the host that was lost.
        if matches!(message, Message::Lost) {
            self.links.forget_connections();
        }
        let now = self.moment_at(Instant::now());
        let effects = update(&mut self.model, message, now);
        self.links.show(self.model.shown_subject());
        for effect in effects {
            if self.perform(effect)? == LoopStep::Leave {
                return Ok(LoopStep::Leave);
            }
        }
        Ok(LoopStep::Continue)
    }

    fn perform(&mut self, effect: Effect) -> io::Result<LoopStep> {
        match effect {
            Effect::Quit => return Ok(LoopStep::Leave),
            Effect::Call(call) => {
                if let Err(message) = self.links.call(call) {
                    return self.apply(*message);
                }
            }
            Effect::FollowTranscript(agent) => self.links.follow(agent),
            Effect::RunCommand(run) => self.commands.start(run),
            Effect::SaveLayout { name, text } => return self.save_layout(&name, &text),
            Effect::ReadNotes => return self.read_notes(),
            Effect::SaveNotes(text) => return self.save_notes(&text),
            Effect::Copy(text) => outside::copy(&text)?,
            Effect::CaptureMouse(captures) => outside::capture_mouse(captures)?,
            Effect::Redraw => self.cells.clear()?,
            Effect::Suspend => {
                self.give_terminal_away(outside::suspend)?;
            }
            Effect::OpenEditor(text) => {
                let written = self.give_terminal_away(|| outside::edit(&text))?;
                return self.apply(Message::Edited(written));
            }
        }
        Ok(LoopStep::Continue)
    }

    /// Lets another program have the terminal, and draws everything anew afterwards.
    fn give_terminal_away<T>(&mut self, run: impl FnOnce() -> T) -> io::Result<T> {
        // Both before the other program starts: the reader would take its keys, and it expects a
        // terminal in the usual mode.
        self.keyboard.close();
        self.terminal = None;
        let result = run();
        self.terminal = Some(RawTerminal::enter()?);
        self.keyboard = KeyboardReader::open()?;
        self.cells.clear()?;
        // The other program's screen was no place to read an ask.
        self.apply(Message::Focused(true))?;
        Ok(result)
    }
}
