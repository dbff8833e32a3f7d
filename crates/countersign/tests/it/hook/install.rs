//! The settings file: shown, changed where it must be, and given back as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host::command;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.0.path().join("work")).unwrap();
        place
    }

    fn with(text: &str) -> Self {
        let place = Self::new();
        fs::create_dir(place.0.path().join("work/.claude")).unwrap();
        fs::write(place.file(), text).unwrap();
        place
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("work/.claude/settings.json")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn hook(&self, words: &[&str]) -> Output {
        let mut hook = command(&self.0.path().join("home"));
        hook.arg("hook").args(words);
        hook.env("HOME", self.0.path())
            .env_remove("CLAUDE_CONFIG_DIR");
        hook.current_dir(self.0.path().join("work"))
            .output()
            .unwrap()
    }

    fn ok(&self, words: &[&str]) -> String {
        let output = self.hook(words);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, words: &[&str]) -> String {
        let output = self.hook(words);
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

const INSTALL: [&str; 4] = ["install", "claude", "--project", "--yes"];
const UNINSTALL: [&str; 4] = ["uninstall", "claude", "--project", "--yes"];

#[test]
fn install_shows_what_it_changes_and_uninstall_takes_exactly_that_back() {
    let text =
        "{\n    \"model\":   \"opus\",\n    \"hooks\": { \"Stop\": [] },\n    \"z\": [1,2]\n}";
    let place = Place::with(text);
    fs::set_permissions(place.file(), fs::Permissions::from_mode(0o640)).unwrap();
    let diff = place.ok(&INSTALL);
    assert!(
        diff.contains("hook claude --timeout 615 || exit 2"),
        "{diff}"
    );
    let with = place.text();
    let mode = fs::metadata(place.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(place.ok(&INSTALL), "");
    assert_eq!(place.text(), with);
    place.ok(&UNINSTALL);
    assert_eq!(place.text(), text);
    place.ok(&UNINSTALL);
    assert_eq!(place.text(), text);
}

#[test]
fn a_file_that_install_made_goes_with_it() {
    let place = Place::new();
    let said = place.ok(&["--json", "install", "claude", "--project", "--yes"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    let file = place.file().canonicalize().unwrap();
    assert_eq!(said, json!({ "file": file, "changed": true }));
    place.ok(&UNINSTALL);
    assert!(!place.file().exists());
}

#[test]
fn the_limit_is_the_configured_one() {
    let place = Place::new();
    let home = place.0.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("config.toml"), "[hook]\nlimit_seconds = 30\n").unwrap();
    place.ok(&INSTALL);
    let document: Value = serde_json::from_str(&place.text()).unwrap();
    let hook = &document["hooks"]["PreToolUse"][0]["hooks"][0];
    assert_eq!(hook["timeout"], 45);
    let status = hook["statusMessage"].as_str().unwrap();
    assert!(status.contains("countersign watch"), "{status}");
    let line = hook["command"].as_str().unwrap();
    assert!(
        line.ends_with("hook claude --timeout 45 || exit 2"),
        "{line}"
    );
    let line = &document["hooks"]["Stop"][0]["hooks"][0];
    assert_eq!(line["timeout"], 10);
    assert_eq!(line.get("statusMessage"), None);
}

#[test]
fn a_persons_own_settings_are_meant_unless_told() {
    let place = Place::new();
    place.ok(&["install", "claude", "--yes"]);
    assert!(place.0.path().join(".claude/settings.json").exists());
    assert!(!place.file().exists());
    place.ok(&["install", "claude", "--local", "--yes"]);
    assert!(
        place
            .0
            .path()
            .join("work/.claude/settings.local.json")
            .exists()
    );
    place.ok(&["uninstall", "claude", "--user", "--yes"]);
    assert!(!place.0.path().join(".claude/settings.json").exists());
}

#[test]
fn nothing_is_written_without_a_yes() {
    let place = Place::with("{}");
    let said = place.refused(&["install", "claude", "--project"]);
    assert!(said.contains("confirm with --yes"), "{said}");
    assert_eq!(place.text(), "{}");
}

#[test]
fn what_cannot_be_changed_safely_is_left_alone() {
    for (text, words) in [
        ("{", "is not JSON"),
        ("// x\n{}", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("{\"hooks\": 1}", "has `hooks` that is not an object"),
    ] {
        let place = Place::with(text);
        for line in [INSTALL, UNINSTALL] {
            let said = place.refused(&line);
            assert!(said.contains(words), "{said}");
            assert_eq!(place.text(), text);
        }
    }
    let place = Place::with("{}");
    fs::set_permissions(place.file(), fs::Permissions::from_mode(0o444)).unwrap();
    let said = place.refused(&INSTALL);
    assert!(said.contains("is not a writable file"), "{said}");
    let place = Place::with("{}");
    let elsewhere = place.0.path().join("elsewhere");
    fs::rename(place.file(), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, place.file()).unwrap();
    let said = place.refused(&INSTALL);
    assert!(said.contains("is a link"), "{said}");
    assert_eq!(fs::read_to_string(elsewhere).unwrap(), "{}");
}
