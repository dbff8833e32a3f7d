//! What an installation puts in place, and a host that starts at login.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::host::{Host, command};
use crate::managed::PROGRAM;

#[test]
fn an_installation_has_the_program_its_manual_pages_and_completions() {
    let root = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install-files");
    let done = Command::new(script)
        .args([PROGRAM, "/opt/cs"])
        .env("DESTDIR", root.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let prefix = root.path().join("opt/cs");
    for file in [
        "bin/countersign",
        "share/man/man1/countersign.1",
        "share/man/man1/countersign-rules-add.1",
        "share/bash-completion/completions/countersign",
        "share/zsh/site-functions/_countersign",
        "share/fish/vendor_completions.d/countersign.fish",
    ] {
        assert!(prefix.join(file).is_file(), "{file}");
    }
    let version = Command::new(prefix.join("bin/countersign"))
        .arg("--version")
        .output()
        .unwrap();
    assert!(version.status.success(), "{version:?}");
}

#[test]
fn an_installation_refuses_a_prefix_that_is_not_absolute() {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install-files");
    let done = Command::new(script.canonicalize().unwrap())
        .args([PROGRAM, "~/.local"])
        .env_remove("DESTDIR")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(done.stderr).unwrap();
    assert_eq!(
        (done.status.code(), text.as_str()),
        (
            Some(2),
            "install: PREFIX must be an absolute path, and is '~/.local'\n"
        )
    );
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

/// A `systemctl` that records how it was called, and knows one service.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$*" >> "$CALLS"
case "$*" in
    *is-active*) test -e "$CALLS.active" ;;
    *enable\ --now*) touch "$CALLS.active" ;;
    *disable\ --now*) rm -f "$CALLS.active" ;;
esac
"#;

struct ServiceDesk {
    folder: tempfile::TempDir,
}

impl ServiceDesk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let systemctl = folder.path().join("systemctl");
        std::fs::write(&systemctl, SYSTEMCTL).unwrap();
        std::fs::set_permissions(&systemctl, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(folder.path().join("home")).unwrap();
        Self { folder }
    }

    fn unit(&self) -> std::path::PathBuf {
        self.folder
            .path()
            .join("config/systemd/user/countersign.service")
    }

    /// The exit code and what was printed, data first.
    fn run(&self, path: &str, words: &[&str]) -> (Option<i32>, String) {
        let done = command(&self.folder.path().join("home"))
            .arg("service")
            .args(words)
            .env("PATH", path)
            .env("XDG_CONFIG_HOME", self.folder.path().join("config"))
            .env("CALLS", self.folder.path().join("calls"))
            .output()
            .unwrap();
        let text = [done.stdout, done.stderr].concat();
        (done.status.code(), String::from_utf8(text).unwrap())
    }
}

#[test]
fn a_service_is_installed_started_and_removed() {
    let desk = ServiceDesk::new();
    let path = format!("{}:/usr/bin:/bin", desk.folder.path().display());
    assert_eq!(desk.run(&path, &["status"]).0, Some(7));
    let (code, text) = desk.run(&path, &["install"]);
    assert_eq!(code, Some(0), "{text}");
    let unit = std::fs::read_to_string(desk.unit()).unwrap();
    let home = desk.folder.path().join("home");
    for line in [
        format!("ExecStart=\"{PROGRAM}\" up\n"),
        format!("Environment=\"PATH={path}\"\n"),
        format!("Environment=\"COUNTERSIGN_HOME={}\"\n", home.display()),
        "KillMode=process\n".to_owned(),
    ] {
        assert!(unit.contains(&line), "{line} in {unit}");
    }
    assert_eq!(desk.run(&path, &["status"]).0, Some(0));
    let (code, text) = desk.run(&path, &["uninstall"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(!desk.unit().exists());
    let calls = std::fs::read_to_string(desk.folder.path().join("calls")).unwrap();
    let changes: Vec<_> = calls
        .lines()
        .filter(|call| call.contains("--now"))
        .collect();
    assert_eq!(
        changes,
        [
            "--user enable --now countersign.service",
            "--user disable --now countersign.service"
        ]
    );
}

#[test]
fn a_service_that_cannot_be_started_is_not_written_unless_told_so() {
    let desk = ServiceDesk::new();
    let (code, text) = desk.run("/nowhere", &["install"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("cannot be started here") && text.contains("--no-start"),
        "{text}"
    );
    assert!(!desk.unit().exists());
    let (code, text) = desk.run("/nowhere", &["install", "--no-start"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("systemctl --user enable --now countersign.service"),
        "{text}"
    );
    // A file of somebody else is neither replaced nor removed.
    std::fs::write(desk.unit(), "[Service]\n").unwrap();
    assert_eq!(desk.run("/nowhere", &["install", "--no-start"]).0, Some(1));
    assert_eq!(desk.run("/nowhere", &["uninstall"]).0, Some(1));
    assert_eq!(std::fs::read_to_string(desk.unit()).unwrap(), "[Service]\n");
}

#[test]
fn a_service_is_refused_while_another_host_runs() {
    let desk = ServiceDesk::new();
    let host = Host::start();
    let path = format!("{}:/usr/bin:/bin", desk.folder.path().display());
    let done = command(host.home())
        .args(["service", "install"])
        .env("PATH", path)
        .env("XDG_CONFIG_HOME", desk.folder.path().join("config"))
        .env("CALLS", desk.folder.path().join("calls"))
        .output()
        .unwrap();
    let text = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{text}");
    assert!(text.contains("countersign down"), "{text}");
    assert!(!desk.unit().exists());
}

/// What systemd itself says of a unit file; nothing if it is not installed here.
#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
fn systemd_complaints(desk: &ServiceDesk, unit: &Path) -> Option<String> {
    // It reads units as a user's manager would, which needs a folder of its own and no running systemd.
    let checked = Command::new("systemd-analyze")
        .args(["--user", "--man=no", "verify"])
        .arg(unit)
        .env("XDG_RUNTIME_DIR", desk.folder.path())
        .env("XDG_CONFIG_HOME", desk.folder.path().join("config"))
        .env("SYSTEMD_LOG_LEVEL", "notice")
        .output();
    let Ok(checked) = checked else {
        eprintln!("skipped: systemd-analyze is not installed here (Debian: apt install systemd)");
        return None;
    };
    let text = String::from_utf8(checked.stderr).unwrap();
    let status = checked.status;
    Some(if status.success() {
        text
    } else {
        format!("{status}\n{text}")
    })
}

#[test]
fn systemd_understands_every_line_of_the_unit() {
    let desk = ServiceDesk::new();
    // Whatever begins a specifier, a variable, a quote or a comment in a unit file.
    let home = desk
        .folder
        .path()
        .join("a 100% \"home\" of 'me' #1 $HOME; \\n");
    std::fs::create_dir(&home).unwrap();
    let done = command(&home)
        .args(["service", "install", "--no-start"])
        .env("XDG_CONFIG_HOME", desk.folder.path().join("config"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let Some(complaints) = systemd_complaints(&desk, &desk.unit()) else {
        return;
    };
    assert_eq!(complaints, "");
    // It would say so: a line that it ignores is not a failure to it.
    let unit = std::fs::read_to_string(desk.unit()).unwrap();
    let wrong = desk.folder.path().join("wrong.service");
    std::fs::write(&wrong, unit.replace("KillMode=process", "KillMode=some")).unwrap();
    let complaints = systemd_complaints(&desk, &wrong).unwrap();
    assert!(complaints.contains("kill mode"), "{complaints}");
}
