//! The one table of commands: what each is called, which keys it has, and where it exists.
//!
//! Invariants: keys, palette, help and `countersign keys` come from this table; no command allows, denies with a
//! rule or ends anything by itself, since those lead to a question that takes another key.

mod table;

use std::fmt::Write as _;

use crate::layout::PanelKind;

pub use table::COMMANDS;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    FocusNext,
    FocusPrevious,
    FocusLeft,
    FocusDown,
    FocusUp,
    FocusRight,
    NextWaiting,
    NextWaitingHere,
    OpenPalette,
    ShowKeys,
    Go(PanelKind),
    ZoomPanel,
    Back,
    Cancel,
    Quit,
    Filter,
    ShowNotices,
    ReleaseMouse,
    Redraw,
    Suspend,
    LineDown,
    LineUp,
    PageDown,
    PageUp,
    HalfDown,
    HalfUp,
    Top,
    Bottom,
    Open,
    Snooze,
    Copy,
    Approve,
    Remember,
    Deny,
    DenyWithMessage,
    AllowWithMessage,
    EditInput,
    Reply,
    ShowRaw,
    SameAgain,
    NextAsk,
    PreviousAsk,
    OpenAgent,
    MessageAgent,
    MessageOrchestrator,
    InterruptAgent,
    KillAgent,
    ResumeAgent,
    ForkAgent,
    ArchiveAgent,
    RenameAgent,
    BypassAgent,
    ConfigureAgent,
    SpawnAgent,
    RunAgain,
    ShowArchived,
    ToggleFollow,
    Unfold,
    Fold,
    TurnBefore,
    TurnAfter,
    NextHunk,
    PreviousHunk,
    NextFile,
    PreviousFile,
    CommentLine,
    RemoveComment,
    MarkViewed,
    SendReview,
    OnlyNew,
    NextTerminal,
    PreviousTerminal,
    OpenOwnTerminal,
    NextOwnTerminal,
    PreviousOwnTerminal,
    CloseOwnTerminal,
    CycleShow,
    CycleRows,
    Search,
    TryRule,
    AddRule,
    RemoveRule,
    Reload,
    ChooseLayout,
    ChooseTheme,
    ChooseProject,
    SaveLayout,
    ResetLayout,
    Grow,
    Shrink,
    NewTab,
    CloseTab,
    NextTab,
    PreviousTab,
    Tab(u8),
    StopAll,
    File(FileCommand),
}

/// What is done with files of agents and with notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileCommand {
    Fold,
    Unfold,
    View,
    Edit,
    Tail,
    New,
    Find,
    Format,
    NextPage,
    PreviousPage,
    Write,
    Save,
    ShowOther,
    ExternalEditor,
}

/// Where a command exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandPlace {
    Anywhere,
    /// Every panel in which something is selected or scrolled.
    Lists,
    Panels(&'static [PanelKind]),
    /// In the palette alone.
    Palette,
}

impl CommandPlace {
    pub fn includes(self, panel: PanelKind) -> bool {
        match self {
            Self::Anywhere | Self::Lists => true,
            Self::Panels(panels) => panels.contains(&panel),
            Self::Palette => false,
        }
    }

    /// For people.
    pub fn describe(self) -> String {
        match self {
            Self::Anywhere => "anywhere".to_owned(),
            Self::Lists => "lists and texts".to_owned(),
            Self::Palette => "palette".to_owned(),
            Self::Panels(panels) => {
                let names: Vec<&str> = panels.iter().map(|panel| panel.name()).collect();
                names.join(", ")
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its name in files.
    pub id: &'static str,
    /// Its name for people.
    pub word: &'static str,
    /// Its keys, the first of which is shown.
    pub keys: &'static [&'static str],
    pub place: CommandPlace,
    pub action: Action,
}

impl Command {
    /// Whether its keys are a person's alone: what decides, leads to deciding, ends something or gives rights, and
    /// what leaves.
    pub fn is_protected(&self) -> bool {
        let families = ["agent.", "ask.", "inbox.", "rules.", "stop.", "terminal."];
        let single = [
            "back",
            "cancel",
            "diff.send",
            "go.ask",
            "go.inbox",
            "palette",
            "quit",
        ];
        families.iter().any(|family| self.id.starts_with(family)) || single.contains(&self.id)
    }
}

/// The command that does this.
pub fn find_command(action: Action) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.action == action)
}

/// The command with this name in files.
pub fn find_command_by_id(id: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.id == id)
}

/// The table as Markdown, with the keys that it comes with.
pub fn keys_markdown() -> String {
    let mut text = String::from("| command | key | where | what it does |\n|---|---|---|---|\n");
    for command in COMMANDS {
        let keys: Vec<String> = command.keys.iter().map(|key| format!("`{key}`")).collect();
        let row = [
            format!("`{}`", command.id),
            keys.join(" "),
            command.place.describe(),
            command.word.to_owned(),
        ];
        let _ = writeln!(text, "| {} |", row.join(" | ").replace("`|`", "`\\|`"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::key::Key;

    #[test]
    fn every_command_has_a_word_a_place_and_keys_that_can_be_typed() {
        let mut ids = BTreeSet::new();
        let mut actions = BTreeSet::new();
        for command in COMMANDS {
            assert!(ids.insert(command.id), "{}", command.id);
            assert!(actions.insert(command.action), "{}", command.id);
            assert!(!command.word.is_empty(), "{}", command.id);
            assert_eq!(
                command.keys.is_empty(),
                command.place == CommandPlace::Palette,
                "{}",
                command.id
            );
            for key in command.keys {
                assert!(Key::parse_sequence(key).is_some(), "{}: {key}", command.id);
            }
        }
    }

    #[test]
    fn y_is_the_key_of_no_command() {
        let keys = COMMANDS.iter().flat_map(|command| command.keys);
        assert!(!keys.into_iter().any(|key| *key == "y"));
    }

    #[test]
    fn the_table_is_printed_with_one_row_for_each_command() {
        let text = keys_markdown();
        assert_eq!(text.lines().count(), COMMANDS.len() + 2);
        assert!(
            text.contains("| `ask.approve` | `a` | ask | approve this ask, after a second key |\n"),
            "{text}"
        );
    }
}
