//! From keys to commands: the keys of the table, changed by a file.
//!
//! Invariant: in one panel a sequence of keys means one command, and none that begins another.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::command::{Action, COMMANDS, Command, CommandPlace, find_command_by_id};
use crate::files::line_of;
use crate::key::{Key, KeyCode, sequence_text};
use crate::layout::PanelKind;

/// The keys of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Binding {
    keys: Vec<Key>,
    command: &'static Command,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap {
    bindings: Vec<Binding>,
}

/// What keys mean so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLookup {
    Found(Action),
    /// The beginning of something.
    Prefix,
    Unknown,
}

impl Default for Keymap {
    fn default() -> Self {
        let bindings = COMMANDS.iter().flat_map(|command| {
            let sequences = command
                .keys
                .iter()
                .filter_map(|keys| Key::parse_sequence(keys));
            sequences.map(move |keys| Binding { keys, command })
        });
        Self {
            bindings: bindings.collect(),
        }
    }
}

/// Keys that answer, leave or go back on every screen.
const FIXED_KEYS: [Key; 6] = [
    Key::char('y'),
    Key::char('Y'),
    Key::char('n'),
    Key::plain(KeyCode::Escape),
    Key::plain(KeyCode::Enter),
    Key::ctrl('c'),
];

/// What a text may change.
#[derive(Clone, Copy)]
enum KeyChanges<'a> {
    Any,
    /// What an agent may propose to a person with these keys.
    Proposed(&'a Keymap),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum KeyNames {
    One(String),
    Several(Vec<String>),
}

impl Keymap {
    /// Reads a file: `"ask.approve" = "A"`, or a list of keys; an empty list takes a command's keys away.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::default().changed(text, KeyChanges::Any)
    }

    /// The keys of the table, changed by what agents proposed and was allowed, and then by the person's own file,
    /// which counts first. A proposal that does not fit is left out and named.
    pub fn with_proposed(proposed: &str, own: &str) -> Result<(Self, Option<String>), String> {
        // A file that is wrong by itself is named below.
        let person = Self::parse(own).unwrap_or_default();
        let problem = match Self::default().changed(proposed, KeyChanges::Proposed(&person)) {
            Err(why) => why,
            Ok(keymap) => match keymap.changed(own, KeyChanges::Any) {
                Ok(keymap) => return Ok((keymap, None)),
                Err(why) => why,
            },
        };
        // A proposal must not stop the person's own file from counting. If that file is wrong, the
        // error is its own.
        Ok((Self::parse(own)?, Some(problem)))
    }

    fn changed(mut self, text: &str, allowed: KeyChanges<'_>) -> Result<Self, String> {
        let table: BTreeMap<String, KeyNames> =
            toml::from_str(text).map_err(|error| crate::files::toml_error(text, &error))?;
        for (id, names) in table {
            let line = line_of(text, &id);
            let Some(command) = find_command_by_id(&id) else {
                return Err(format!(
                    "line {line}: there is no command `{id}`; see `countersign keys`"
                ));
            };
            let names = match names {
                KeyNames::One(name) => vec![name],
                KeyNames::Several(names) => names,
            };
            if let KeyChanges::Proposed(person) = allowed {
                self.check_proposed(person, command, &names)
                    .map_err(|why| format!("line {line}: {why}"))?;
            }
            self.bindings.retain(|binding| binding.command.id != id);
            for name in names {
                let keys = Key::parse_sequence(&name);
                // `y` is the second key of every allow, so it must never be the first key of anything.
                let Some(keys) = keys.filter(|keys| keys != &[Key::char('y')]) else {
                    return Err(format!(
                        "line {line}: `{name}` cannot be the key of a command"
                    ));
                };
                self.bindings.push(Binding { keys, command });
            }
        }
        // After all changes, because a file may exchange the keys of two commands.
        match self.conflict() {
            None => Ok(self),
            Some((one, other)) => {
                let line = line_of(text, one.command.id).max(line_of(text, other.command.id));
                Err(format!(
                    "line {line}: `{}` is a key of both `{}` and `{}`",
                    sequence_text(&one.keys),
                    one.command.id,
                    other.command.id
                ))
            }
        }
    }

    /// Refuses what no agent may change: commands that decide or lead to a question for a second key, their keys in
    /// any panel, whether they come from the table or from the person, and the keys that answer and leave.
    fn check_proposed(
        &self,
        person: &Self,
        command: &Command,
        names: &[String],
    ) -> Result<(), String> {
        if command.is_protected() {
            return Err(format!(
                "the keys of `{}` can be changed by a person alone",
                command.id
            ));
        }
        if names.is_empty() {
            return Err(format!("give at least one key for `{}`", command.id));
        }
        let protected = self
            .bindings
            .iter()
            .chain(&person.bindings)
            .filter(|binding| binding.command.is_protected());
        let protected: Vec<&[Key]> = protected.map(|binding| binding.keys.as_slice()).collect();
        for name in names {
            let Some(keys) = Key::parse_sequence(name) else {
                return Err(format!("`{name}` is not a key"));
            };
            let is_fixed = keys.iter().any(|key| FIXED_KEYS.contains(key));
            // As a beginning as well: a longer sequence would take the shorter one's key away.
            let is_taken = protected
                .iter()
                .any(|own| own.starts_with(&keys) || keys.starts_with(own));
            if is_fixed || is_taken {
                return Err(format!("`{name}` can be changed by a person alone"));
            }
        }
        Ok(())
    }

    /// What keys mean in a panel.
    pub fn lookup(&self, panel: PanelKind, keys: &[Key]) -> KeyLookup {
        let here = self
            .bindings
            .iter()
            .filter(|binding| binding.command.place.includes(panel));
        let mut is_prefix = false;
        let mut found: Option<&Binding> = None;
        for binding in here {
            if binding.keys == keys {
                // What a panel says itself counts before what counts everywhere.
                let is_own = matches!(binding.command.place, CommandPlace::Panels(_));
                if found.is_none() || is_own {
                    found = Some(binding);
                }
            } else if binding.keys.starts_with(keys) {
                is_prefix = true;
            }
        }
        match found {
            Some(binding) => KeyLookup::Found(binding.command.action),
            None if is_prefix => KeyLookup::Prefix,
            None => KeyLookup::Unknown,
        }
    }

    /// The key that a command is shown with.
    pub fn key_of(&self, action: Action) -> Option<String> {
        let mut bindings = self.bindings.iter();
        let found = bindings.find(|binding| binding.command.action == action)?;
        Some(sequence_text(&found.keys))
    }

    /// What can follow the keys so far: each with the rest of its keys.
    pub fn followers(&self, panel: PanelKind, keys: &[Key]) -> Vec<(String, &'static Command)> {
        let here = self
            .bindings
            .iter()
            .filter(|binding| binding.command.place.includes(panel));
        let longer = here
            .filter(|binding| binding.keys.len() > keys.len() && binding.keys.starts_with(keys));
        longer
            .map(|binding| (sequence_text(&binding.keys[keys.len()..]), binding.command))
            .collect()
    }

    /// The commands of a panel with their keys, in the order of the table.
    pub fn commands_in(&self, panel: PanelKind) -> Vec<(String, &'static Command)> {
        let here = COMMANDS
            .iter()
            .filter(|command| command.place.includes(panel));
        here.filter_map(|command| Some((self.key_of(command.action)?, command)))
            .collect()
    }

    /// Two commands that the same keys would mean somewhere.
    fn conflict(&self) -> Option<(&Binding, &Binding)> {
        for (index, one) in self.bindings.iter().enumerate() {
            for other in &self.bindings[index + 1..] {
                let overlaps =
                    one.keys.starts_with(&other.keys) || other.keys.starts_with(&one.keys);
                if overlaps
                    && one.command.id != other.command.id
                    && share_panel(one.command, other.command)
                {
                    return Some((one, other));
                }
            }
        }
        None
    }
}

/// Whether two commands exist in the same panel. What a panel says itself may take a key that counts everywhere.
fn share_panel(one: &Command, other: &Command) -> bool {
    match (one.place, other.place) {
        (CommandPlace::Panels(one), CommandPlace::Panels(other)) => {
            one.iter().any(|panel| other.contains(panel))
        }
        (CommandPlace::Panels(_) | CommandPlace::Palette, _)
        | (_, CommandPlace::Panels(_) | CommandPlace::Palette) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(keymap: &Keymap, panel: PanelKind, keys: &str) -> KeyLookup {
        keymap.lookup(panel, &Key::parse_sequence(keys).unwrap())
    }

    #[test]
    fn the_keys_of_the_table_do_not_conflict() {
        let keymap = Keymap::default();
        let names = keymap
            .conflict()
            .map(|(one, other)| (one.command.id, other.command.id));
        assert_eq!(names, None);
    }

    #[test]
    fn keys_that_decide_exist_in_the_ask_panel_alone() {
        let keymap = Keymap::default();
        assert_eq!(
            lookup(&keymap, PanelKind::Ask, "a"),
            KeyLookup::Found(Action::Approve)
        );
        for (_, panel) in PanelKind::ALL {
            let decides = |keys: &str| {
                matches!(
                    lookup(&keymap, panel, keys),
                    KeyLookup::Found(
                        Action::Approve
                            | Action::Remember
                            | Action::Deny
                            | Action::DenyWithMessage
                            | Action::AllowWithMessage
                            | Action::SameAgain
                            | Action::EditInput
                    )
                )
            };
            for key in ["a", "s", "d", "m", "t", "e", "="] {
                assert_eq!(
                    decides(key),
                    panel == PanelKind::Ask,
                    "{key} in {}",
                    panel.name()
                );
            }
        }
    }

    #[test]
    fn proposed_keys_change_nothing_that_decides() {
        let person = Keymap::default();
        let proposed = |text: &str| Keymap::default().changed(text, KeyChanges::Proposed(&person));
        let keymap = proposed("\"go.feed\" = [\"Ctrl-x f\"]\n").unwrap();
        assert_eq!(
            keymap.key_of(Action::Go(PanelKind::Feed)).as_deref(),
            Some("Ctrl-x f")
        );
        let refused = |text: &str| match proposed(text) {
            Err(why) => why,
            Ok(_) => panic!("{text} was taken"),
        };
        for command in COMMANDS.iter().filter(|command| command.is_protected()) {
            let why = refused(&format!("\"{}\" = \"Ctrl-x x\"\n", command.id));
            assert!(why.ends_with("can be changed by a person alone"), "{why}");
            for keys in command.keys {
                for keys in [(*keys).to_owned(), format!("{keys} x")] {
                    let why = refused(&format!("\"go.feed\" = \"{keys}\"\n"));
                    assert!(why.ends_with("can be changed by a person alone"), "{why}");
                }
            }
        }
        for keys in ["y", "g y", "Esc", "Enter", "Ctrl-c", "n", "g"] {
            refused(&format!("\"go.feed\" = \"{keys}\"\n"));
        }
        assert_eq!(
            refused("\"go.feed\" = []\n"),
            "line 1: give at least one key for `go.feed`"
        );
    }

    #[test]
    fn a_persons_own_keys_count_before_proposed_ones() {
        let proposed = "\"go.feed\" = \"Ctrl-x\"\n";
        let read = |own: &str| {
            let (keymap, problem) = Keymap::with_proposed(proposed, own).unwrap();
            (keymap.key_of(Action::Go(PanelKind::Feed)), problem)
        };
        assert_eq!(read(""), (Some("Ctrl-x".into()), None));
        assert_eq!(
            read("\"go.feed\" = \"Ctrl-o\"\n"),
            (Some("Ctrl-o".into()), None)
        );
        // A conflict leaves the proposal out, and the person's keys as they are.
        let (key, problem) = read("\"go.rules\" = \"Ctrl-x\"\n");
        assert_eq!(key.as_deref(), Some("g f"));
        let problem = problem.unwrap();
        assert!(problem.contains("`Ctrl-x` is a key of both"), "{problem}");
    }

    #[test]
    fn proposed_keys_take_no_key_that_a_person_gave_to_what_decides() {
        let own = "\"ask.approve\" = \"P a\"\n\"inbox.next_waiting\" = \"Ctrl-k\"\n";
        for keys in ["P", "P a", "P a x", "Ctrl-k"] {
            // The feed is everywhere, the hunk in one panel, where its key would come first.
            for command in ["go.feed", "diff.next_hunk"] {
                let proposed = format!("\"{command}\" = \"{keys}\"\n");
                let (keymap, problem) = Keymap::with_proposed(&proposed, own).unwrap();
                let problem = problem.unwrap_or_else(|| panic!("{proposed} was taken"));
                assert!(
                    problem.ends_with("can be changed by a person alone"),
                    "{problem}"
                );
                assert_eq!(keymap, Keymap::parse(own).unwrap());
            }
        }
    }

    #[test]
    fn a_prefix_waits_for_what_follows() {
        let keymap = Keymap::default();
        assert_eq!(lookup(&keymap, PanelKind::Inbox, "g"), KeyLookup::Prefix);
        assert_eq!(
            lookup(&keymap, PanelKind::Inbox, "g i"),
            KeyLookup::Found(Action::Go(PanelKind::Inbox))
        );
        assert_eq!(lookup(&keymap, PanelKind::Inbox, "g z"), KeyLookup::Unknown);
        let followers = keymap.followers(PanelKind::Transcript, &[Key::char('z')]);
        let followers: Vec<_> = followers
            .iter()
            .map(|(keys, command)| (keys.as_str(), command.id))
            .collect();
        assert_eq!(
            followers,
            [("o", "transcript.unfold"), ("c", "transcript.fold")]
        );
    }

    #[test]
    fn a_file_changes_keys_by_command_and_a_conflict_names_its_line() {
        let keymap = Keymap::parse(
            "\"ask.approve\" = \"P\"\n\"inbox.next_waiting\" = [\"n\", \"Ctrl-n\"]\n",
        )
        .unwrap();
        assert_eq!(
            lookup(&keymap, PanelKind::Ask, "P"),
            KeyLookup::Found(Action::Approve)
        );
        assert_eq!(lookup(&keymap, PanelKind::Ask, "a"), KeyLookup::Unknown);
        assert_eq!(keymap.key_of(Action::NextWaiting).as_deref(), Some("n"));
        let wrong = |text: &str| Keymap::parse(text).unwrap_err();
        assert_eq!(
            wrong("# mine\n\"ask.approve\" = \"d\"\n"),
            "line 2: `d` is a key of both `ask.deny` and `ask.approve`"
        );
        assert_eq!(
            wrong("\"ask.approve\" = \"y\"\n"),
            "line 1: `y` cannot be the key of a command"
        );
        assert_eq!(
            wrong("\"ask.aprove\" = \"x\"\n"),
            "line 1: there is no command `ask.aprove`; see `countersign keys`"
        );
        assert_eq!(
            wrong("\"keys\" = \"g\"\n"),
            "line 1: `g g` is a key of both `list.top` and `keys`"
        );
    }
}
