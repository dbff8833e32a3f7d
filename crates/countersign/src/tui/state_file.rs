//! What is open on a screen, in a file for each folder in which screens were opened.
//!
//! Invariant: the file is complete or absent, and one that is broken is ignored.

use std::fs;
use std::path::{Path, PathBuf};

use countersign_tui::model::Model;
use countersign_tui::saved_screen::SavedScreen;
use sha2::{Digest as _, Sha256};

use super::settings_files::{read_text, write_file};
use crate::client::{HostAddress, HostEndpoint};
use crate::paths::HostPaths;

pub(super) struct StateFile {
    folder: PathBuf,
    /// The folder that the screen was opened in, with the host's address where that is elsewhere.
    place: String,
    saved: Option<SavedScreen>,
    has_failed: bool,
}

impl StateFile {
    pub(super) fn find(endpoint: &HostEndpoint) -> Option<Self> {
        let paths = HostPaths::from_environment().ok()?;
        let opened_in = std::env::current_dir().ok()?;
        let opened_in = opened_in.to_str()?;
        let place = match &endpoint.address {
            HostAddress::Socket(_) => opened_in.to_owned(),
            address @ HostAddress::Tcp { .. } => format!("{opened_in} at {address}"),
        };
        Some(Self::new(paths.state_dir.join("tui"), place))
    }

    fn new(folder: PathBuf, place: String) -> Self {
        Self {
            folder,
            place,
            saved: None,
            has_failed: false,
        }
    }

    fn name(&self) -> String {
        countersign_core::hex(&Sha256::digest(self.place.as_bytes())[..8])
    }

    fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.toml", self.name()))
    }

    pub(super) fn restore(&mut self, model: &mut Model) {
        let saved =
            read_state(&self.path()).and_then(|text| SavedScreen::parse(&text, &self.place));
        if let Some(saved) = saved {
            self.saved = Some(saved.clone());
            saved.restore(model);
        }
    }

    /// Writes what is open if that is something else than before. Says why it could not, once.
    pub(super) fn save(&mut self, model: &Model) -> Option<String> {
        let now = SavedScreen::of(model, &self.place);
        if self.saved.as_ref() == Some(&now) {
            return None;
        }
        let text = now.text()?;
        self.saved = Some(now);
        let error = write_file(&self.folder, &self.name(), &text).err()?;
        let is_first = !std::mem::replace(&mut self.has_failed, true);
        is_first.then(|| format!("what is open here is not kept: {error}"))
    }
}

/// Only an ordinary file: a pipe would hold up the start.
fn read_state(path: &Path) -> Option<String> {
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file.then(|| read_text(path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use countersign_tui::message::Moment;

    use super::*;
    use crate::tui::settings;

    fn model() -> Model {
        Model::new(settings::replay(), Moment::default())
    }

    #[test]
    fn what_is_open_is_kept_for_each_folder_and_a_broken_file_is_ignored() {
        let home = tempfile::tempdir().unwrap();
        let file = |place: &str| StateFile::new(home.path().join("tui"), place.to_owned());
        let mut screen = model();
        screen.project = Some("/srv/app".to_owned());
        let mut state = file("/srv/app");
        assert_eq!(state.save(&screen), None);
        let written = fs::metadata(state.path()).unwrap().modified().unwrap();
        assert_eq!(state.save(&screen), None);
        assert_eq!(
            fs::metadata(state.path()).unwrap().modified().unwrap(),
            written
        );
        let mut later = model();
        file("/srv/app").restore(&mut later);
        assert_eq!(later.project.as_deref(), Some("/srv/app"));
        let mut elsewhere = model();
        file("/srv/other").restore(&mut elsewhere);
        assert_eq!(elsewhere.project, None);
        fs::write(state.path(), "broken = [").unwrap();
        let mut later = model();
        file("/srv/app").restore(&mut later);
        assert_eq!(later.project, None);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named_once() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("tui"), "in the way").unwrap();
        let mut state = StateFile::new(home.path().join("tui"), "/srv".to_owned());
        let mut screen = model();
        assert!(state.save(&screen).is_some());
        screen.project = Some("/srv".to_owned());
        assert_eq!(state.save(&screen), None);
    }
}
