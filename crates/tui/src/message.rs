//! What reaches the screen, and what it wants done.

use countersign_protocol::{AskViewerRow, HostEvent, HostSnapshot, Time};

use crate::command_panel::{CommandEnd, CommandRun, CommandSpec};
use crate::draw::DrawReport;
use crate::host_call::{CallResult, HostCall, ReplyTag};
use crate::key::Key;
use crate::keymap::Keymap;
use crate::layout::Layout;
use crate::theme::ThemeColors;

/// One instant: of a monotonic clock in milliseconds, and of the wall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    pub ms: u64,
    pub wall: Time,
}

/// A layout or theme by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposedView {
    Layout(String),
    Theme(String),
}

/// What the files of a person say.
#[derive(Clone, Debug, Default)]
pub struct SettingsFiles {
    pub layouts: Vec<Layout>,
    pub themes: Vec<ThemeColors>,
    /// Commands of the person's that panels show.
    pub commands: Vec<CommandSpec>,
    pub keymap: Option<Keymap>,
    /// Layouts and themes that an agent proposed.
    pub proposed: Vec<ProposedView>,
    /// Those of them that are to be shown as soon as the person does nothing else.
    pub shown: Vec<ProposedView>,
    /// What is wrong, with file and line. What a broken file had before stays.
    pub problems: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum Message {
    Key {
        key: Key,
        /// When it was typed, which may be a while ago.
        at: u64,
        /// Whether it is held down.
        is_repeat: bool,
    },
    /// Text that was pasted at this time.
    Paste(String),
    /// The wheel was turned over a place.
    Wheel {
        x: u16,
        y: u16,
        is_down: bool,
    },
    Click {
        x: u16,
        y: u16,
    },
    Resized,
    Focused(bool),
    Tick,
    /// A picture was shown.
    Drawn(DrawReport),
    /// A connection was made; recent notes come with what is open.
    Connected {
        snapshot: Box<HostSnapshot>,
        notes: Vec<HostEvent>,
    },
    Lost,
    Event(Box<HostEvent>),
    /// What is open on other screens, all of it.
    Viewers(Vec<AskViewerRow>),
    /// There is more to read of the transcript that is followed.
    TranscriptGrew {
        agent: String,
    },
    Reply {
        tag: ReplyTag,
        result: CallResult,
    },
    /// The editor was closed, with what was written; nothing if it failed.
    Edited(Option<String>),
    /// Files of settings were read.
    Settings(Box<SettingsFiles>),
    /// A command of the person's ended.
    CommandEnded {
        name: String,
        output: Vec<u8>,
        end: CommandEnd,
    },
    /// The notes of the person were read; else why not.
    Notes(Result<KeptNotes, String>),
    /// Something failed outside the screen.
    Failed(String),
}

/// Notes as they are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptNotes {
    /// The folder that they are about.
    pub folder: String,
    pub text: String,
}

/// What is to be done outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Call(HostCall),
    /// Tell when the transcript of this agent grows, and of no other.
    FollowTranscript(Option<String>),
    /// Put it where the terminal pastes from.
    Copy(String),
    /// Let the person write it in their editor.
    OpenEditor(String),
    CaptureMouse(bool),
    /// Keep a layout in a file.
    SaveLayout {
        name: String,
        text: String,
    },
    /// Run a command of the person's, with bounds on time and output.
    RunCommand(CommandRun),
    ReadNotes,
    /// Keep these notes of the person.
    SaveNotes(String),
    Redraw,
    Suspend,
    Quit,
}
