//! What agents propose about the screens of the person who runs this host, kept in that person's files.
//!
//! Invariants: only the host of those files writes them, so that a screen that looks at a host elsewhere changes
//! nothing on its own machine; a file that a person wrote is never replaced; nothing is written that the screen would
//! not read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use countersign_server::{ScreenFiles, ScreenLayout};
use countersign_tui::layout::{built_in_layouts, layout_toml};
use countersign_tui::proposal::{Proposal, proposed_keys_toml, was_proposed};

use super::settings_files::{
    FILES_MAX, PROPOSED_KEYS, read_if_there, read_text, write_file, write_whole,
};

/// The asks whose proposals were saved, one in a line, the oldest first.
const SAVED_ASKS: &str = "saved-proposals";
const SAVED_ASKS_MAX: usize = 500;

#[derive(Debug)]
pub(crate) struct ProposedFiles {
    folder: PathBuf,
    /// One change at a time.
    writing: Mutex<()>,
}

impl ProposedFiles {
    pub(crate) fn new(config_dir: &Path) -> Self {
        Self {
            folder: config_dir.join("tui"),
            writing: Mutex::new(()),
        }
    }

    fn parse(&self, tool: &str, input: &str) -> Result<Proposal, String> {
        let proposal = Proposal::parse(tool, input)?;
        match &proposal {
            Proposal::Layout { layout, .. } => self.check_file("layouts", &layout.name)?,
            Proposal::Theme { colors, .. } => self.check_file("themes", &colors.name)?,
            Proposal::Key { command, keys } => {
                self.changed_keys(command.id, keys)?;
            }
        }
        Ok(proposal)
    }

    /// Refuses a name that a person uses.
    fn check_file(&self, kind: &str, name: &str) -> Result<(), String> {
        let folder = self.folder.join(kind);
        let path = folder.join(format!("{name}.toml"));
        if fs::symlink_metadata(&path).is_ok() {
            let text = read_text(&path)?;
            return if was_proposed(&text) {
                Ok(())
            } else {
                Err(format!("`{name}` is a person's own: choose another name"))
            };
        }
        let count = fs::read_dir(folder).map_or(0, Iterator::count);
        if count >= FILES_MAX {
            return Err(format!(
                "there are {count} {kind}, the most that screens read"
            ));
        }
        Ok(())
    }

    /// Whether what this ask proposed was saved before: a person may have changed or removed it since.
    fn was_saved(&self, ask: &str) -> Result<bool, String> {
        let saved = read_if_there(&self.folder.join(SAVED_ASKS))?;
        Ok(saved.lines().any(|line| line == ask))
    }

    fn note_saved(&self, ask: &str) -> Result<(), String> {
        let saved = read_if_there(&self.folder.join(SAVED_ASKS))?;
        let mut asks: Vec<&str> = saved.lines().chain([ask]).collect();
        asks.drain(..asks.len().saturating_sub(SAVED_ASKS_MAX));
        let text = asks.join("\n") + "\n";
        write_whole(&self.folder, SAVED_ASKS, &text).map_err(|error| error.to_string())
    }

    /// The proposed keys with one command's changed, if they fit to the person's own.
    fn changed_keys(&self, command: &str, keys: &[String]) -> Result<String, String> {
        let own = read_if_there(&self.folder.join("keys.toml"))?;
        let proposed = read_if_there(&self.folder.join(PROPOSED_KEYS))?;
        let mut table: BTreeMap<String, Vec<String>> =
            toml::from_str(&proposed).map_err(|error| error.message().to_owned())?;
        table.insert(command.to_owned(), keys.to_vec());
        let rows: Vec<_> = table.into_iter().collect();
        let text = proposed_keys_toml(&rows);
        let (_, problem) = countersign_tui::keymap::Keymap::with_proposed(&text, &own)?;
        match problem {
            None => Ok(text),
            Some(why) => Err(why),
        }
    }
}

impl ScreenFiles for ProposedFiles {
    fn check(&self, tool: &str, input: &str) -> Result<String, String> {
        self.parse(tool, input).map(|proposal| proposal.describe())
    }

    fn apply(&self, ask: &str, tool: &str, input: &str) -> Result<String, String> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.was_saved(ask)? {
            return Ok("it was saved before; nothing was changed now".to_owned());
        }
        // Checked again: much may have happened while a person decided.
        let proposal = self.parse(tool, input)?;
        let text = proposal.file_text().unwrap_or_default();
        let (written, done) = match &proposal {
            Proposal::Layout {
                layout, is_shown, ..
            } => {
                let written = write_file(&self.folder.join("layouts"), &layout.name, &text);
                let how = if *is_shown {
                    "open screens show it within seconds"
                } else {
                    "people choose it with L"
                };
                (
                    written,
                    format!("saved the layout `{}`; {how}", layout.name),
                )
            }
            Proposal::Theme { colors, .. } => {
                let written = write_file(&self.folder.join("themes"), &colors.name, &text);
                let name = &colors.name;
                (
                    written,
                    format!("saved the theme `{name}`; open screens use it within seconds"),
                )
            }
            Proposal::Key { command, keys } => {
                let text = self.changed_keys(command.id, keys)?;
                let name = PROPOSED_KEYS.trim_end_matches(".toml");
                let written = write_file(&self.folder, name, &text);
                (
                    written,
                    format!("bound {} to `{}`", keys.join(" or "), command.id),
                )
            }
        };
        written.map_err(|error| format!("it was allowed and could not be saved: {error}"))?;
        // Afterwards: a host that ends in between saves the same once more, and loses nothing.
        self.note_saved(ask)
            .map_err(|error| format!("it was saved, and that could not be noted: {error}"))?;
        Ok(done)
    }

    fn layouts(&self) -> Vec<ScreenLayout> {
        let built_in = built_in_layouts().into_iter().map(|layout| ScreenLayout {
            text: layout_toml(&layout),
            name: layout.name,
            is_built_in: true,
        });
        let found = fs::read_dir(self.folder.join("layouts"));
        let paths = found.into_iter().flatten().take(FILES_MAX);
        let paths = paths.filter_map(|entry| Some(entry.ok()?.path()));
        let mut own: Vec<ScreenLayout> = paths
            .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
            .filter_map(|path| {
                Some(ScreenLayout {
                    name: path.file_stem()?.to_str()?.to_owned(),
                    text: read_text(&path).ok()?,
                    is_built_in: false,
                })
            })
            .collect();
        own.sort_by(|one, other| one.name.cmp(&other.name));
        built_in.chain(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LAYOUT: &str = "[[tab]]\ntitle = \"One\"\nroot = { panel = \"inbox\" }\n";

    fn layout(name: &str) -> String {
        json!({ "name": name, "layout": LAYOUT }).to_string()
    }

    #[test]
    fn what_was_allowed_is_saved_and_a_persons_file_stays() {
        let home = tempfile::tempdir().unwrap();
        let files = ProposedFiles::new(home.path());
        let tool = "mcp__countersign__propose_layout";
        assert_eq!(
            files.check(tool, &layout("wide")).unwrap(),
            "show and save the layout wide"
        );
        assert!(!home.path().join("tui").exists(), "a check writes nothing");
        files.apply("one", tool, &layout("wide")).unwrap();
        let path = home.path().join("tui/layouts/wide.toml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.ends_with(LAYOUT), "{text}");
        // Its own proposal may be replaced, what a person wrote may not.
        files.apply("two", tool, &layout("wide")).unwrap();
        fs::write(&path, LAYOUT).unwrap();
        let refused = files.apply("three", tool, &layout("wide")).unwrap_err();
        assert_eq!(refused, "`wide` is a person's own: choose another name");
        assert_eq!(fs::read_to_string(&path).unwrap(), LAYOUT);
        let names: Vec<String> = files
            .layouts()
            .into_iter()
            .map(|layout| layout.name)
            .collect();
        assert_eq!(names, ["home", "review", "orchestrator", "wide"]);
    }

    #[test]
    fn an_ask_is_saved_once_however_often_its_call_is_repeated() {
        let home = tempfile::tempdir().unwrap();
        let files = ProposedFiles::new(home.path());
        let tool = "mcp__countersign__propose_layout";
        let path = home.path().join("tui/layouts/wide.toml");
        files.apply("one", tool, &layout("wide")).unwrap();
        fs::remove_file(&path).unwrap();
        // Another host, which knows only the files.
        let files = ProposedFiles::new(home.path());
        let again = files.apply("one", tool, &layout("wide")).unwrap();
        assert_eq!(again, "it was saved before; nothing was changed now");
        assert!(!path.exists());
        for ask in 0..SAVED_ASKS_MAX + 10 {
            files.note_saved(&ask.to_string()).unwrap();
        }
        let noted = fs::read_to_string(home.path().join("tui").join(SAVED_ASKS)).unwrap();
        assert_eq!(noted.lines().count(), SAVED_ASKS_MAX);
        files.apply("two", tool, &layout("wide")).unwrap();
        assert!(path.exists());
    }

    #[test]
    fn a_link_at_the_name_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let victim = home.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        let folder = home.path().join("tui/layouts");
        fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(&victim, folder.join("wide.toml")).unwrap();
        let files = ProposedFiles::new(home.path());
        let tool = "mcp__countersign__save_layout";
        let refused = files.apply("one", tool, &layout("wide")).unwrap_err();
        assert_eq!(refused, "`wide` is a person's own: choose another name");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    }

    #[test]
    fn keys_are_kept_apart_from_those_that_a_person_wrote() {
        let home = tempfile::tempdir().unwrap();
        let files = ProposedFiles::new(home.path());
        let folder = home.path().join("tui");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("keys.toml"), "\"go.rules\" = \"Ctrl-x\"\n").unwrap();
        let tool = "mcp__countersign__propose_key_binding";
        let key =
            |command: &str, key: &str| json!({ "command": command, "keys": [key] }).to_string();
        files.apply("one", tool, &key("go.feed", "Ctrl-o")).unwrap();
        files
            .apply("two", tool, &key("go.usage", "Ctrl-y"))
            .unwrap();
        let text = fs::read_to_string(folder.join(PROPOSED_KEYS)).unwrap();
        assert_eq!(
            text,
            "\"go.feed\" = [\"Ctrl-o\"]\n\"go.usage\" = [\"Ctrl-y\"]\n"
        );
        for (command, taken) in [
            ("go.feed", "Ctrl-x"),
            ("go.feed", "a"),
            ("ask.deny", "Ctrl-v"),
        ] {
            let refused = files.apply("three", tool, &key(command, taken));
            assert!(refused.is_err(), "{command} {taken}: {refused:?}");
        }
        assert_eq!(
            fs::read_to_string(folder.join(PROPOSED_KEYS)).unwrap(),
            text
        );
    }
}
