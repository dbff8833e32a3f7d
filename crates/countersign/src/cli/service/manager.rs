//! The program that runs services: systemd's user manager, or launchd.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::definition::{LABEL, ServiceDefinition, UNIT};
use crate::error::CliError;
use crate::render::escape;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServiceManager {
    kind: ManagerKind,
    file: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ManagerKind {
    Systemd,
    /// With the domain of the user's login session.
    Launchd {
        domain: String,
    },
}

impl ServiceManager {
    pub(super) fn of_this_system() -> Result<Self, CliError> {
        let home = absolute_variable("HOME");
        let config =
            absolute_variable("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
        let found = if cfg!(target_os = "macos") {
            home.map(|home| Self::launchd(&home, rustix::process::getuid().as_raw()))
        } else {
            config.map(|config| Self::systemd(&config))
        };
        found.ok_or_else(|| CliError::usage("`HOME` is not set"))
    }

    fn systemd(config: &Path) -> Self {
        Self {
            kind: ManagerKind::Systemd,
            file: config.join("systemd/user").join(UNIT),
        }
    }

    fn launchd(home: &Path, uid: u32) -> Self {
        let domain = format!("gui/{uid}");
        Self {
            kind: ManagerKind::Launchd { domain },
            file: home
                .join("Library/LaunchAgents")
                .join(format!("{LABEL}.plist")),
        }
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn render(&self, definition: &ServiceDefinition) -> String {
        match self.kind {
            ManagerKind::Systemd => definition.systemd_unit(),
            ManagerKind::Launchd { .. } => definition.launchd_plist(),
        }
    }

    /// Refuses where services of a user cannot be started, as in most containers.
    pub(super) fn check_available(&self) -> Result<(), CliError> {
        let words = match &self.kind {
            ManagerKind::Systemd => ["systemctl", "--user", "show-environment"],
            ManagerKind::Launchd { domain } => ["launchctl", "print", domain],
        };
        let answer = run(&words);
        if answer.as_ref().is_ok_and(|output| output.status.success()) {
            return Ok(());
        }
        let why = match answer {
            Ok(output) => first_line(&output.stderr),
            Err(error) => format!("could not run `{}`: {error}", words[0]),
        };
        Err(CliError::Failed {
            what: format!("services of a user cannot be started here: {why}"),
            hint: Some(
                "start the host with `countersign up --detach`, or only write the file with --no-start"
                    .into(),
            ),
        })
    }

    pub(super) fn start(&self) -> Result<(), CliError> {
        // The file may have replaced one that the manager has read already.
        match &self.kind {
            ManagerKind::Systemd => expect_success(&["systemctl", "--user", "daemon-reload"])?,
            ManagerKind::Launchd { .. } => {
                drop(run(&self.stop_words()));
            }
        }
        expect_success(&self.start_words())
    }

    pub(super) fn stop(&self) -> Result<(), CliError> {
        match &self.kind {
            ManagerKind::Systemd => expect_success(&self.stop_words()),
            // It fails for a service that was never loaded, which is what is wanted.
            ManagerKind::Launchd { .. } => {
                drop(run(&self.stop_words()));
                Ok(())
            }
        }
    }

    /// Makes systemd forget a file that was removed.
    pub(super) fn reload(&self) {
        if self.kind == ManagerKind::Systemd {
            drop(run(&["systemctl", "--user", "daemon-reload"]));
        }
    }

    pub(super) fn is_active(&self) -> bool {
        let output = match &self.kind {
            ManagerKind::Systemd => run(&["systemctl", "--user", "is-active", "--quiet", UNIT]),
            ManagerKind::Launchd { domain } => {
                run(&["launchctl", "print", &format!("{domain}/{LABEL}")])
            }
        };
        output.is_ok_and(|output| output.status.success())
    }

    /// What a person types to start it.
    pub(super) fn start_command(&self) -> String {
        self.start_words().join(" ")
    }

    fn start_words(&self) -> Vec<String> {
        match &self.kind {
            ManagerKind::Systemd => ["systemctl", "--user", "enable", "--now", UNIT]
                .map(str::to_owned)
                .into(),
            ManagerKind::Launchd { domain } => {
                let file = self.file.to_string_lossy();
                ["launchctl", "bootstrap", domain, &file]
                    .map(str::to_owned)
                    .into()
            }
        }
    }

    fn stop_words(&self) -> Vec<String> {
        match &self.kind {
            ManagerKind::Systemd => ["systemctl", "--user", "disable", "--now", UNIT]
                .map(str::to_owned)
                .into(),
            ManagerKind::Launchd { domain } => {
                let service = format!("{domain}/{LABEL}");
                ["launchctl", "bootout", &service].map(str::to_owned).into()
            }
        }
    }
}

fn absolute_variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).map(PathBuf::from);
    value.filter(|path| path.is_absolute())
}

fn run<W: AsRef<str>>(words: &[W]) -> std::io::Result<Output> {
    let mut words = words.iter().map(AsRef::as_ref);
    Command::new(words.next().unwrap_or_default())
        .args(words)
        .stdin(Stdio::null())
        .output()
}

fn expect_success<W: AsRef<str>>(words: &[W]) -> Result<(), CliError> {
    let line: Vec<_> = words.iter().map(AsRef::as_ref).collect();
    let line = line.join(" ");
    let output =
        run(words).map_err(|source| CliError::io(format!("could not run `{line}`"), source))?;
    if output.status.success() {
        return Ok(());
    }
    Err(CliError::Failed {
        what: format!("`{line}` failed: {}", first_line(&output.stderr)),
        hint: Some(
            "see the log of the host; under systemd: `journalctl --user -u countersign`".into(),
        ),
    })
}

fn first_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    escape::line(text.lines().next().unwrap_or("no reason was given")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchd_gets_the_file_in_the_domain_of_the_user() {
        let manager = ServiceManager::launchd(Path::new("/Users/ann"), 501);
        let file = "/Users/ann/Library/LaunchAgents/countersign.host.plist";
        assert_eq!(manager.file(), Path::new(file));
        assert_eq!(
            manager.start_command(),
            format!("launchctl bootstrap gui/501 {file}")
        );
        assert_eq!(
            manager.stop_words(),
            ["launchctl", "bootout", "gui/501/countersign.host"]
        );
    }

    #[test]
    fn systemd_gets_a_unit_of_the_user() {
        let manager = ServiceManager::systemd(Path::new("/home/ann/.config"));
        assert_eq!(
            manager.file(),
            Path::new("/home/ann/.config/systemd/user/countersign.service")
        );
        assert_eq!(
            manager.start_command(),
            "systemctl --user enable --now countersign.service"
        );
    }
}
