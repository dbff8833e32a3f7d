//! Layouts: which panels a screen has, and where.
//!
//! Invariants: every panel of a tab has an id of its own; a layout is read whole or not at all; the top line is no
//! part of any layout, so none can hide it.

mod file;
mod solve;

pub use file::{layout_toml, parse_layout};
pub use solve::{PlacedPanel, SolvedLayout, last_focused, solve};

/// What a panel shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PanelKind {
    Inbox,
    Ask,
    Agents,
    Transcript,
    Chat,
    Feed,
    History,
    Rules,
    Diff,
    Usage,
    Terminals,
    Command,
    Files,
    Viewer,
    Editor,
    Tail,
    Notes,
    OwnTerminal,
    Search,
}

impl PanelKind {
    /// All of them, by their names in files.
    pub const ALL: [(&'static str, Self); 19] = [
        ("inbox", Self::Inbox),
        ("ask", Self::Ask),
        ("agents", Self::Agents),
        ("transcript", Self::Transcript),
        ("chat", Self::Chat),
        ("feed", Self::Feed),
        ("history", Self::History),
        ("rules", Self::Rules),
        ("diff", Self::Diff),
        ("usage", Self::Usage),
        ("terminals", Self::Terminals),
        ("command", Self::Command),
        ("files", Self::Files),
        ("viewer", Self::Viewer),
        ("editor", Self::Editor),
        ("tail", Self::Tail),
        ("notes", Self::Notes),
        ("terminal", Self::OwnTerminal),
        ("search", Self::Search),
    ];

    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, kind)| *kind == self);
        found.map_or("", |(name, _)| name)
    }

    pub fn parse(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind)
    }
}

/// The agent that a panel shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PanelAgent {
    /// The one that is selected in a list.
    #[default]
    Selected,
    /// The one with this name or id.
    Named(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanelSpec {
    pub kind: PanelKind,
    pub id: String,
    pub agent: PanelAgent,
    /// What of it is shown, for panels that have a choice.
    pub show: Option<String>,
    /// Which of the person's own panels it is, for those from files.
    pub name: Option<String>,
}

impl PanelSpec {
    /// The panel of a command of the person's.
    pub fn command(name: &str) -> Self {
        Self {
            id: format!("command {name}"),
            name: Some(name.to_owned()),
            ..Self::new(PanelKind::Command)
        }
    }

    pub fn new(kind: PanelKind) -> Self {
        Self {
            kind,
            id: kind.name().to_owned(),
            agent: PanelAgent::Selected,
            show: None,
            name: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitDirection {
    /// Beside each other.
    Right,
    /// Above each other.
    Down,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartSize {
    Percent(u16),
    Cells(u16),
    #[default]
    Fill,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutPart {
    pub node: LayoutNode,
    pub size: PartSize,
    /// Cells without which it does not stand beside its neighbours.
    pub min: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutNode {
    Panel(PanelSpec),
    Split {
        direction: SplitDirection,
        parts: Vec<LayoutPart>,
    },
    /// One place for several panels: the one with focus, or the last that had it, is shown.
    Stack(Vec<PanelSpec>),
}

impl LayoutNode {
    /// Its panels in the order in which they are read.
    pub fn panels(&self) -> Vec<&PanelSpec> {
        match self {
            Self::Panel(panel) => vec![panel],
            Self::Stack(panels) => panels.iter().collect(),
            Self::Split { parts, .. } => parts.iter().flat_map(|part| part.node.panels()).collect(),
        }
    }
}

/// One tab: a tree, with others for less room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TabSpec {
    pub title: String,
    pub root: LayoutNode,
    /// Instead, below 120 columns.
    pub medium: Option<LayoutNode>,
    /// Instead, below 80 columns.
    pub narrow: Option<LayoutNode>,
}

/// Columns from which the whole layout is shown, and below which one panel is.
pub const WIDE_COLUMNS: u16 = 120;
pub const MEDIUM_COLUMNS: u16 = 80;

impl TabSpec {
    /// The tree for a width.
    pub fn tree(&self, width: u16) -> &LayoutNode {
        let narrow = self.narrow.as_ref().filter(|_| width < MEDIUM_COLUMNS);
        let medium = self.medium.as_ref().filter(|_| width < WIDE_COLUMNS);
        narrow.or(medium).unwrap_or(&self.root)
    }
}

/// A named set of tabs; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub name: String,
    pub tabs: Vec<TabSpec>,
}

fn panel(kind: PanelKind) -> LayoutNode {
    LayoutNode::Panel(PanelSpec::new(kind))
}

fn stack(kinds: &[PanelKind]) -> LayoutNode {
    LayoutNode::Stack(kinds.iter().map(|kind| PanelSpec::new(*kind)).collect())
}

fn split(direction: SplitDirection, parts: Vec<(LayoutNode, PartSize)>) -> LayoutNode {
    let parts = parts
        .into_iter()
        .map(|(node, size)| LayoutPart { node, size, min: 0 });
    LayoutNode::Split {
        direction,
        parts: parts.collect(),
    }
}

/// The layouts that come with the program; the first is the default.
pub fn built_in_layouts() -> Vec<Layout> {
    use PanelKind::{Agents, Ask, Chat, Diff, Feed, Inbox, Transcript};
    use PartSize::{Fill, Percent};
    use SplitDirection::{Down, Right};
    let left = split(
        Down,
        vec![(panel(Inbox), Percent(50)), (panel(Agents), Fill)],
    );
    let right = split(
        Down,
        vec![(panel(Ask), Percent(60)), (panel(Transcript), Fill)],
    );
    let home = TabSpec {
        title: "Home".to_owned(),
        root: split(Right, vec![(left, Percent(45)), (right, Fill)]),
        medium: Some(split(
            Down,
            vec![
                (stack(&[Inbox, Agents]), Percent(35)),
                (stack(&[Ask, Transcript]), Fill),
            ],
        )),
        narrow: Some(stack(&[Inbox, Ask, Agents, Transcript])),
    };
    let review = TabSpec {
        title: "Review".to_owned(),
        root: split(
            Right,
            vec![
                (
                    split(Down, vec![(panel(Inbox), Percent(40)), (panel(Ask), Fill)]),
                    Percent(40),
                ),
                (
                    split(
                        Down,
                        vec![
                            (panel(Diff), Percent(60)),
                            (stack(&[Transcript, Feed]), Fill),
                        ],
                    ),
                    Fill,
                ),
            ],
        ),
        medium: Some(stack(&[Inbox, Ask, Diff, Transcript, Feed])),
        narrow: Some(stack(&[Inbox, Ask, Diff, Transcript, Feed])),
    };
    let orchestra = TabSpec {
        title: "Orchestrator".to_owned(),
        root: split(
            Right,
            vec![
                (panel(Chat), Fill),
                (
                    split(
                        Down,
                        vec![
                            (panel(Inbox), Percent(30)),
                            (panel(Ask), Fill),
                            (panel(Agents), Percent(30)),
                        ],
                    ),
                    Percent(45),
                ),
            ],
        ),
        medium: Some(stack(&[Chat, Inbox, Ask, Agents])),
        narrow: Some(stack(&[Chat, Inbox, Ask, Agents])),
    };
    [
        ("home", home),
        ("review", review),
        ("orchestrator", orchestra),
    ]
    .into_iter()
    .map(|(name, tab)| Layout {
        name: name.to_owned(),
        tabs: vec![tab],
    })
    .collect()
}

#[cfg(test)]
mod tests;
