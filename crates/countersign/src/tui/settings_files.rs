//! The files of a person: keys, layouts and themes, read again when they are saved.
//!
//! Invariant: a file is taken whole or not at all; one that is wrong is named with its line.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use countersign_tui::command_panel::parse_command_panel;
use countersign_tui::keymap::Keymap;
use countersign_tui::layout::parse_layout;
use countersign_tui::message::{ProposedView, SettingsFiles};
use countersign_tui::proposal::{is_shown_at_once, was_proposed};
use countersign_tui::theme::parse_theme;

use crate::paths::{HostPaths, make_private_folder};

/// Files that are looked at in one folder, and the largest that is read.
pub(super) const FILES_MAX: usize = 100;
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Keys that agents proposed, apart from those that a person wrote.
pub(super) const PROPOSED_KEYS: &str = "proposed-keys.toml";

pub(super) struct SettingsFolder {
    folder: PathBuf,
    /// When each file was changed that was read.
    seen: BTreeMap<PathBuf, SystemTime>,
    /// Whether the files were read before: what changes then is shown if it says so.
    is_running: bool,
}

impl SettingsFolder {
    /// Beside the other settings of this user.
    pub(super) fn find() -> Option<Self> {
        let paths = HostPaths::from_environment().ok()?;
        Some(Self::new(paths.config_dir().join("tui")))
    }

    fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            seen: BTreeMap::new(),
            is_running: false,
        }
    }

    /// What the files say that were saved since the last time; nothing if none was.
    pub(super) fn read_changes(&mut self) -> Option<SettingsFiles> {
        let mut files = SettingsFiles::default();
        let mut is_changed = false;
        for path in self.paths() {
            let Ok(changed_at) = fs::metadata(&path).and_then(|found| found.modified()) else {
                continue;
            };
            if self.seen.insert(path.clone(), changed_at) == Some(changed_at) {
                continue;
            }
            is_changed = true;
            if let Err(why) = self.read_file(&path, &mut files) {
                let name = path.strip_prefix(&self.folder).unwrap_or(&path);
                let problem = format!("{}: {why}", name.display());
                files.problems.push(problem);
            }
        }
        if !std::mem::replace(&mut self.is_running, true) {
            files.shown.clear();
        }
        is_changed.then_some(files)
    }

    fn paths(&self) -> Vec<PathBuf> {
        let mut paths = vec![
            self.folder.join("keys.toml"),
            self.folder.join(PROPOSED_KEYS),
        ];
        for folder in ["layouts", "panels", "themes"] {
            let found = fs::read_dir(self.folder.join(folder));
            let found = found.into_iter().flatten().take(FILES_MAX);
            let found = found.filter_map(|entry| Some(entry.ok()?.path()));
            paths.extend(found.filter(|path| path.extension() == Some(OsStr::new("toml"))));
        }
        paths.sort();
        paths
    }

    pub(super) fn save_layout(&self, name: &str, text: &str) -> io::Result<()> {
        write_file(&self.folder.join("layouts"), name, text)
    }

    /// Both files of keys: what a person wrote counts before what an agent proposed.
    fn read_keys(&self, files: &mut SettingsFiles) -> Result<(), String> {
        let own = read_if_there(&self.folder.join("keys.toml"))?;
        let proposed = read_if_there(&self.folder.join(PROPOSED_KEYS))?;
        let (keymap, problem) = Keymap::with_proposed(&proposed, &own)?;
        files.keymap = Some(keymap);
        let problem = problem.map(|why| format!("{PROPOSED_KEYS}: {why}"));
        files.problems.extend(problem);
        Ok(())
    }

    fn read_file(&self, path: &Path, files: &mut SettingsFiles) -> Result<(), String> {
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let view = match folder.to_str() {
            Some("layouts") => {
                files.layouts.push(parse_layout(&name, &read_text(path)?)?);
                ProposedView::Layout(name.into_owned())
            }
            Some("themes") => {
                files.themes.push(parse_theme(&name, &read_text(path)?)?);
                ProposedView::Theme(name.into_owned())
            }
            Some("panels") => {
                files
                    .commands
                    .push(parse_command_panel(&name, &read_text(path)?)?);
                return Ok(());
            }
            _ => return self.read_keys(files),
        };
        let text = read_text(path)?;
        if is_shown_at_once(&text) {
            files.shown.push(view.clone());
        }
        if was_proposed(&text) {
            files.proposed.push(view);
        }
        Ok(())
    }
}

/// Writes `name.toml`.
pub(super) fn write_file(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    write_whole(folder, &format!("{name}.toml"), text)
}

/// Writes a file: beside it first, so that a reader never sees half of it.
pub(super) fn write_whole(folder: &Path, file: &str, text: &str) -> io::Result<()> {
    make_private_folder(folder).map_err(|error| io::Error::other(error.to_string()))?;
    let part = folder.join(format!(".{file}.part"));
    fs::write(&part, text)?;
    fs::rename(part, folder.join(file))
}

/// The text of a file; an error if it is too large to be one of settings.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("larger than {FILE_BYTES_MAX} bytes"));
    }
    fs::read_to_string(path).map_err(|error| error.to_string())
}

/// The same; empty without a file.
pub(super) fn read_if_there(path: &Path) -> Result<String, String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        _ => read_text(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_once_and_again_when_they_are_saved() {
        let home = tempfile::tempdir().unwrap();
        let mut folder = SettingsFolder::new(home.path().join("tui"));
        assert!(folder.read_changes().is_none());
        let layout = "[[tab]]\ntitle = \"One\"\nroot = { panel = \"inbox\" }\n";
        folder.save_layout("mine", layout).unwrap();
        let read = folder.read_changes().unwrap();
        assert_eq!(
            (read.layouts[0].name.as_str(), read.problems.len()),
            ("mine", 0)
        );
        assert!(folder.read_changes().is_none());
        fs::write(home.path().join("tui/keys.toml"), "\"keys\" = \"g\"\n").unwrap();
        let read = folder.read_changes().unwrap();
        assert_eq!(
            read.problems,
            ["keys.toml: line 1: `g g` is a key of both `list.top` and `keys`"]
        );
    }
}
