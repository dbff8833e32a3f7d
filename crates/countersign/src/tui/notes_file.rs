//! The notes of a person, kept for each folder in which the screen is opened.
//!
//! Invariant: notes that another screen saved meanwhile are not replaced: then both are kept, in files of their own.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use countersign_core::hex;
use countersign_core::limits::PEOPLE_FILE_BYTES_MAX;
use countersign_tui::message::KeptNotes;
use sha2::{Digest as _, Sha256};

use crate::paths::make_private_folder;

/// Letters of a folder's digest in the name of its file: the name of a folder may stand in many places.
const DIGEST_CHARS: usize = 16;

pub(super) struct NotesFile {
    /// The folder that the notes are about.
    about: PathBuf,
    file: PathBuf,
    /// What was read or written last.
    known: String,
}

impl NotesFile {
    /// The notes of the folder in which this process runs.
    pub(super) fn find() -> Option<Self> {
        let state = state_folder(|name| std::env::var_os(name))?;
        Some(Self::of(&state, &std::env::current_dir().ok()?))
    }

    fn of(state: &Path, about: &Path) -> Self {
        let digest = hex(&Sha256::digest(about.as_os_str().as_encoded_bytes()));
        let name = about.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{name}-{}.md", &digest[..DIGEST_CHARS]);
        Self {
            about: about.to_owned(),
            file: state.join("notes").join(name),
            known: String::new(),
        }
    }

    pub(super) fn read(&mut self) -> Result<KeptNotes, String> {
        self.known = self.load().map_err(|error| {
            format!(
                "the notes in {} could not be read: {error}",
                self.file.display()
            )
        })?;
        Ok(KeptNotes {
            folder: self.about.display().to_string(),
            text: self.known.clone(),
        })
    }

    fn load(&self) -> io::Result<String> {
        let bytes = match fs::metadata(&self.file) {
            Ok(found) => found.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
            Err(error) => return Err(error),
        };
        if bytes > PEOPLE_FILE_BYTES_MAX as u64 {
            return Err(io::Error::other("they are too large"));
        }
        fs::read_to_string(&self.file)
    }

    /// Keeps a text; says where, if that is not the usual place.
    pub(super) fn save(&mut self, text: &str) -> Result<Option<String>, String> {
        let saved = self.replace(text);
        saved.map_err(|error| format!("the notes were not saved: {error}"))
    }

    fn replace(&mut self, text: &str) -> io::Result<Option<String>> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        make_private_folder(folder).map_err(|error| io::Error::other(error.to_string()))?;
        let mut note = None;
        if self.load()? != self.known {
            self.file = self
                .file
                .with_extension(format!("{}.md", std::process::id()));
            note = Some(format!(
                "another screen changed these notes: yours are kept in {}",
                self.file.display()
            ));
        }
        // Written beside it first: a reader never sees half of it.
        let part = self
            .file
            .with_extension(format!("part-{}", std::process::id()));
        fs::write(&part, text)?;
        fs::rename(part, &self.file)?;
        text.clone_into(&mut self.known);
        Ok(note)
    }
}

/// Where a screen keeps what it remembers.
fn state_folder(find: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| {
        find(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    if let Some(home) = absolute("COUNTERSIGN_HOME") {
        return Some(home.join("tui"));
    }
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")));
    Some(state?.join("countersign/tui"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_kept_by_folder_and_never_replaced_unseen() {
        let state = tempfile::tempdir().unwrap();
        let (app, other) = (Path::new("/srv/app"), Path::new("/tmp/app"));
        let mut notes = NotesFile::of(state.path(), app);
        assert_eq!(notes.read().unwrap().text, "");
        assert_eq!(notes.save("ask Ada"), Ok(None));
        let mut second = NotesFile::of(state.path(), app);
        assert_eq!(second.read().unwrap().text, "ask Ada");
        assert_eq!(NotesFile::of(state.path(), other).read().unwrap().text, "");
        assert_eq!(second.save("done"), Ok(None));
        let said = notes.save("mine").unwrap().unwrap();
        assert!(said.starts_with("another screen changed"), "{said}");
        assert_eq!(notes.save("mine 2"), Ok(None));
        assert_eq!(second.read().unwrap().text, "done");
    }
}
