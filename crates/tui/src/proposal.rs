//! What agents propose about this screen: a layout, a theme, a key. Read as strictly for the host, which saves what was
//! allowed, as for the ask, which shows it.
//!
//! Invariants: no proposal touches a key that decides, `y`, or text that has to be read (contrast is checked); a name
//! is a plain file name; a proposed layout starts no program.

mod picture;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::command::{Command, find_command_by_id};
use crate::keymap::Keymap;
use crate::layout::{Layout, PanelKind, built_in_layouts, parse_layout};
use crate::theme::{ThemeColors, built_in_themes, check_readable, parse_theme};

pub use picture::{PicturedLine, proposal_picture};

/// The longest layout or theme, in bytes.
const TEXT_BYTES_MAX: usize = 16 * 1024;
const NAME_CHARS_MAX: usize = 40;
/// Of a tab. The title stands in the top line.
const TITLE_CHARS_MAX: usize = 24;
const KEYS_MAX: usize = 4;

/// First lines of files that were proposed: with them, an agent may propose another in their place.
const KEPT: &str = "# Proposed by an agent.";
const SHOWN: &str = "# Proposed by an agent, to be shown at once.";

/// One change of what a screen looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposal {
    Layout {
        layout: Layout,
        text: String,
        /// Whether screens show it at once.
        is_shown: bool,
    },
    Theme {
        colors: ThemeColors,
        text: String,
    },
    Key {
        command: &'static Command,
        keys: Vec<String>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayoutInput {
    name: String,
    layout: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThemeInput {
    name: String,
    theme: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyInput {
    command: String,
    keys: Vec<String>,
}

/// Whether a tool, by the name in its ask, proposes a change of the screen.
pub fn is_proposal(tool: &str) -> bool {
    short_name(tool).is_some()
}

fn short_name(tool: &str) -> Option<&str> {
    let name = tool.strip_prefix("mcp__countersign__")?;
    let known = [
        "propose_layout",
        "save_layout",
        "propose_theme",
        "propose_key_binding",
    ];
    known.contains(&name).then_some(name)
}

impl Proposal {
    /// Reads the input of a tool, by the name that its ask has.
    pub fn parse(tool: &str, input: &str) -> Result<Self, String> {
        match short_name(tool) {
            Some("propose_layout") => read_layout(input, true),
            Some("save_layout") => read_layout(input, false),
            Some("propose_theme") => read_theme(input),
            Some(_) => read_key(input),
            None => Err("it proposes nothing about a screen".to_owned()),
        }
    }

    /// In one line, what it would change.
    pub fn describe(&self) -> String {
        match self {
            Self::Layout {
                layout, is_shown, ..
            } => {
                let what = if *is_shown { "show and save" } else { "save" };
                format!("{what} the layout {}", layout.name)
            }
            Self::Theme { colors, .. } => format!("use and save the theme {}", colors.name),
            Self::Key { command, keys } => {
                format!("bind {} to {}", keys.join(" or "), command.id)
            }
        }
    }

    /// The text of its file, with a first line that says where it came from.
    pub fn file_text(&self) -> Option<String> {
        match self {
            Self::Layout { text, is_shown, .. } => {
                let mark = if *is_shown { SHOWN } else { KEPT };
                Some(format!("{mark}\n{text}"))
            }
            Self::Theme { text, .. } => Some(format!("{SHOWN}\n{text}")),
            Self::Key { .. } => None,
        }
    }
}

/// Whether the text of a file was proposed by an agent and not written by a person.
pub fn was_proposed(text: &str) -> bool {
    [KEPT, SHOWN].contains(&text.lines().next().unwrap_or_default())
}

/// Whether screens show what is in a file as soon as it is there.
pub fn is_shown_at_once(text: &str) -> bool {
    text.lines().next() == Some(SHOWN)
}

/// The names of layouts, themes and panels in files: no path, nothing hidden.
pub fn is_file_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_plain)
}

fn parse_input<T: DeserializeOwned>(input: &str) -> Result<T, String> {
    serde_json::from_str(input).map_err(|error| error.to_string())
}

fn check_text(name: &str, text: &str, is_built_in: bool) -> Result<(), String> {
    if !is_file_name(name) {
        return Err(format!(
            "a name has 1 to {NAME_CHARS_MAX} letters, digits, - and _"
        ));
    }
    if is_built_in {
        return Err(format!(
            "`{name}` comes with the program: choose another name"
        ));
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("the text is longer than {TEXT_BYTES_MAX} bytes"));
    }
    Ok(())
}

fn read_layout(input: &str, is_shown: bool) -> Result<Proposal, String> {
    let LayoutInput { name, layout: text } = parse_input(input)?;
    let is_built_in = built_in_layouts().iter().any(|layout| layout.name == name);
    check_text(&name, &text, is_built_in)?;
    let layout = parse_layout(&name, &text)?;
    for tab in &layout.tabs {
        check_title(&tab.title)?;
        let trees = [Some(&tab.root), tab.medium.as_ref(), tab.narrow.as_ref()];
        let panels = trees.into_iter().flatten().flat_map(|tree| tree.panels());
        for panel in panels {
            if !may_be_proposed(panel.kind) {
                let kind = panel.kind.name();
                return Err(format!(
                    "a person alone can add a panel `{kind}` to a layout"
                ));
            }
            // The focus stays with an id, and keys mean other things in a panel of another kind.
            if PanelKind::parse(&panel.id).is_some_and(|kind| kind != panel.kind) {
                return Err(format!(
                    "the id `{}` is the name of another panel",
                    panel.id
                ));
            }
        }
    }
    Ok(Proposal::Layout {
        layout,
        text,
        is_shown,
    })
}

/// No signs: with them a title could look like the counts that stand beside it.
fn check_title(title: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let length = title.chars().count();
    if (1..=TITLE_CHARS_MAX).contains(&length) && title.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!(
        "the title of a tab has 1 to {TITLE_CHARS_MAX} letters, digits, blanks, - and _"
    ))
}

/// Panels that only show what the host knows. A panel that starts a program is for people to add.
fn may_be_proposed(kind: PanelKind) -> bool {
    matches!(
        kind,
        PanelKind::Inbox
            | PanelKind::Ask
            | PanelKind::Agents
            | PanelKind::Transcript
            | PanelKind::Chat
            | PanelKind::Feed
            | PanelKind::History
            | PanelKind::Rules
            | PanelKind::Diff
            | PanelKind::Search
            | PanelKind::Usage
            | PanelKind::Terminals
    )
}

fn read_theme(input: &str) -> Result<Proposal, String> {
    let ThemeInput { name, theme: text } = parse_input(input)?;
    let is_built_in = built_in_themes().iter().any(|theme| theme.name == name);
    check_text(&name, &text, is_built_in)?;
    let colors = parse_theme(&name, &text)?;
    check_readable(&colors)?;
    Ok(Proposal::Theme { colors, text })
}

fn read_key(input: &str) -> Result<Proposal, String> {
    let KeyInput { command, keys } = parse_input(input)?;
    let Some(found) = find_command_by_id(&command) else {
        return Err("there is no such command: `countersign keys` prints all of them".to_owned());
    };
    if keys.len() > KEYS_MAX {
        return Err(format!("a command has at most {KEYS_MAX} keys"));
    }
    let text = proposed_keys_toml(&[(found.id.to_owned(), keys.clone())]);
    let (_, problem) = Keymap::with_proposed(&text, "")?;
    match problem {
        None => Ok(Proposal::Key {
            command: found,
            keys,
        }),
        Some(why) => Err(why.trim_start_matches("line 1: ").to_owned()),
    }
}

/// Keys of commands as a file has them.
pub fn proposed_keys_toml(keys: &[(String, Vec<String>)]) -> String {
    let lines = keys.iter().map(|(command, keys)| {
        let names: Vec<String> = keys.iter().map(|key| quoted(key)).collect();
        format!("{} = [{}]\n", quoted(command), names.join(", "))
    });
    lines.collect()
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests;
