//! The shapes of the screen, with plain ones for terminals that have no others.

use countersign_protocol::HostAgentState;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glyphs {
    pub horizontal: char,
    pub vertical: char,
    /// In front of the selected row.
    pub selected: char,
    /// Where a line goes on below.
    pub continued: char,
    /// Where something is left out.
    pub cut: char,
    pub times: char,
    /// A bar: the part that is over, and the rest.
    pub full: char,
    pub rest: char,
    pub cursor: char,
    pub asks: char,
    pub question: char,
    pub note: char,
    pub running: char,
    pub idle: char,
    pub starting: char,
    pub done: char,
    pub error: char,
    pub stopped: char,
}

pub const UNICODE: Glyphs = Glyphs {
    horizontal: '─',
    vertical: '│',
    selected: '▸',
    continued: '↳',
    cut: '…',
    times: '×',
    full: '▮',
    rest: '▯',
    cursor: '▏',
    asks: '◐',
    question: '?',
    note: '·',
    running: '●',
    idle: '○',
    starting: '◌',
    done: '✓',
    error: '✕',
    stopped: '■',
};

pub const ASCII: Glyphs = Glyphs {
    horizontal: '-',
    vertical: '|',
    selected: '>',
    continued: '\\',
    cut: '~',
    times: 'x',
    full: '#',
    rest: '.',
    cursor: '_',
    asks: '@',
    question: '?',
    note: '-',
    running: '*',
    idle: 'o',
    starting: '.',
    done: '+',
    error: 'X',
    stopped: '=',
};

impl Glyphs {
    /// The shape of what an agent does. The word stands beside it.
    pub fn agent(&self, state: HostAgentState) -> char {
        match state {
            HostAgentState::Running => self.running,
            HostAgentState::AwaitingPermission => self.asks,
            HostAgentState::Waiting => self.question,
            HostAgentState::Starting => self.starting,
            HostAgentState::Done => self.done,
            HostAgentState::Error => self.error,
            HostAgentState::Stopped => self.stopped,
            HostAgentState::Idle | HostAgentState::Paused | HostAgentState::Unknown => self.idle,
        }
    }
}
