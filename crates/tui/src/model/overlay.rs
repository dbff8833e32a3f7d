//! What stands over the panels and takes the keys: text boxes, lists, questions.

use countersign_protocol::CatalogRow;

use crate::agent_files::AgentFile;
use crate::command::Action;
use crate::text_box::TextBox;

/// What a text is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextPurpose {
    Deny {
        id: String,
    },
    AllowWithMessage {
        id: String,
        option: String,
    },
    EditInput {
        id: String,
        option: String,
    },
    AnswerQuestion {
        id: String,
    },
    /// The answers to the earlier questions of the same ask come with it.
    AnswerAsk {
        id: String,
        given: Vec<Vec<String>>,
    },
    Message {
        agent: String,
    },
    Rename {
        agent: String,
    },
    Bypass {
        agent: String,
    },
    Configure {
        agent: String,
    },
    Filter {
        panel: String,
    },
    Spawn {
        agent: String,
    },
    Comment {
        agent: String,
        row: usize,
    },
    /// Words to search for in transcripts.
    Search,
    TryRule,
    AddRule,
    RunAgain {
        agent: String,
    },
    SaveLayout,
    /// The path of a file that is to be made.
    NewFile {
        agent: String,
    },
}

impl TextPurpose {
    /// Under which a text that was not sent is kept.
    pub fn draft_key(&self) -> String {
        match self {
            Self::Deny { id } => format!("deny {id}"),
            Self::AllowWithMessage { id, .. } => format!("allow {id}"),
            Self::EditInput { id, .. } => format!("edit {id}"),
            Self::AnswerQuestion { id } => format!("answer {id}"),
            Self::AnswerAsk { id, given } => format!("answer {id} {}", given.len()),
            Self::Message { agent } => format!("message {agent}"),
            Self::Rename { agent } => format!("rename {agent}"),
            Self::Bypass { agent } => format!("bypass {agent}"),
            Self::Configure { agent } => format!("configure {agent}"),
            Self::Filter { panel } => format!("filter {panel}"),
            Self::Spawn { agent } => format!("spawn {agent}"),
            Self::Comment { agent, row } => format!("comment {agent} {row}"),
            Self::Search => "search".to_owned(),
            Self::TryRule => "try".to_owned(),
            Self::AddRule => "rule".to_owned(),
            Self::RunAgain { agent } => format!("again {agent}"),
            Self::SaveLayout => "layout".to_owned(),
            Self::NewFile { agent } => format!("new file {agent}"),
        }
    }

    /// Whether the text may have several lines.
    pub fn is_multiline(&self) -> bool {
        matches!(
            self,
            Self::EditInput { .. }
                | Self::Message { .. }
                | Self::AnswerQuestion { .. }
                | Self::Spawn { .. }
                | Self::RunAgain { .. }
        )
    }
}

/// What a list of choices is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPurpose {
    Option { id: String },
    Layout,
    NewTab,
    Theme,
    Agent,
    Project,
    CommandPanel,
}

/// One of several choices; escaped when it is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListChoice {
    pub value: String,
    pub note: String,
}

/// What a yes would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfirmPurpose {
    Kill {
        agent: String,
        with_children: bool,
    },
    Bypass {
        agent: String,
        minutes: u64,
    },
    StopAll,
    SendReview {
        agent: String,
    },
    RemoveRule {
        id: String,
    },
    AddRule {
        rule: String,
    },
    /// Drop what was typed in the editor.
    DiscardText,
    /// Leave the screen although something typed is not saved.
    LeaveUnsaved,
    CloseTerminal {
        terminal: String,
    },
}

/// What an entry of the palette does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaletteTarget {
    Command(Action),
    Agent(String),
    Item(String),
    Layout(String),
    Theme(String),
    CommandPanel(String),
    File(AgentFile),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaletteEntry {
    pub target: PaletteTarget,
    /// As it is shown and searched; escaped.
    pub text: String,
    pub key: String,
    /// Why it cannot be done now.
    pub why_not: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overlay {
    Text {
        purpose: TextPurpose,
        text: TextBox,
    },
    List {
        purpose: ListPurpose,
        title: String,
        choices: Vec<ListChoice>,
        selected: usize,
    },
    Confirm {
        purpose: ConfirmPurpose,
        question: String,
        asked_at: u64,
    },
    Palette {
        text: TextBox,
        selected: usize,
    },
    Keys {
        scroll: usize,
    },
    Notices {
        scroll: usize,
    },
}

/// The agents of a catalog as choices.
pub fn catalog_choices(rows: &[CatalogRow]) -> Vec<ListChoice> {
    let choices = rows.iter().map(|row| ListChoice {
        value: row.name.clone(),
        note: match (&row.hint, row.installed) {
            (_, true) => row.title.clone(),
            (Some(hint), false) => format!("{}: not installed: {hint}", row.title),
            (None, false) => format!("{}: not installed", row.title),
        },
    });
    choices.collect()
}
