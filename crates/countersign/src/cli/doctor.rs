//! `doctor`: everything a host needs, checked one by one.

mod tools;

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anstyle::Style;
use countersign_core::event::{SandboxLevel, SpawnOptions};
use countersign_daemon::SandboxSettings;
use countersign_protocol::{Containment, HostStatus, NoParams, NotifyStatus, method};
use countersign_rules::{FileKind, parse_file};
use countersign_sandbox::SandboxProfile;
use serde::Serialize;

use super::CommonArgs;
use super::agents::local_catalog;
use super::runners::runners;
use crate::config::HostConfig;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::host;
use crate::output;
use crate::paths::{self, HostPaths};
use crate::render::escape;
use tools::tools;

/// Less free space than this and a busy day may not fit.
const FREE_BYTES_LOW: u64 = 512 * 1024 * 1024;
/// Less than this and the next commits may fail.
const FREE_BYTES_MIN: u64 = 32 * 1024 * 1024;

/// What to do for a record that only a running host still has.
const RESCUE: &str = "save it with `countersign audit rescue FILE` before you end the host; nothing is allowed until then";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckGrade {
    Ok,
    Warn,
    Fail,
}

/// What was looked at, what was found, and what to do.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct DoctorCheck {
    pub(super) grade: CheckGrade,
    pub(super) what: &'static str,
    pub(super) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

pub(super) fn ok(what: &'static str, found: impl Into<String>) -> DoctorCheck {
    DoctorCheck {
        grade: CheckGrade::Ok,
        what,
        found: found.into(),
        advice: None,
    }
}

pub(super) fn warn(
    what: &'static str,
    found: impl Into<String>,
    advice: impl Into<String>,
) -> DoctorCheck {
    DoctorCheck {
        grade: CheckGrade::Warn,
        what,
        found: found.into(),
        advice: Some(advice.into()),
    }
}

fn fail(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> DoctorCheck {
    DoctorCheck {
        grade: CheckGrade::Fail,
        what,
        found: found.into(),
        advice: Some(advice.into()),
    }
}

pub(super) async fn doctor(common: &CommonArgs) -> Result<CliExit, CliError> {
    let paths = HostPaths::from_environment()?;
    let mut checks = vec![
        // What lies in it is closed to others by itself.
        folder("data folder", &paths.data_dir, CheckGrade::Warn),
        folder("socket folder", &paths.runtime_dir, CheckGrade::Fail),
        space(&paths.data_dir),
    ];
    let (config, check) = config(&paths.config);
    checks.push(check);
    checks.push(rules(&paths.rules));
    let status = common.call::<method::Status>(&NoParams {}).await;
    checks.insert(2, database(&paths.database, status.is_ok()));
    checks.extend(running_host(&status));
    if status.is_ok() {
        let channels = common.call::<method::NotifyStatus>(&NoParams {}).await;
        checks.extend(channels.ok().map(|found| notifications(&found)));
    }
    // A host that runs holds its own port, which is no fault.
    if status.is_err() {
        checks.push(port(&config));
    }
    let catalog = common.call::<method::Catalog>(&NoParams {}).await;
    checks.extend(tools(&catalog.unwrap_or_else(|_| local_catalog())).await);
    checks.push(sandbox(&host::sandbox_settings(&paths, &config)));
    checks.extend(runners(&paths, status.is_ok()));
    checks.extend(guarantees());
    let document = BTreeMap::from([("checks", &checks)]);
    common.print(&document, || checks.iter().map(line).collect())?;
    let failed = checks.iter().any(|check| check.grade == CheckGrade::Fail);
    Ok(CliExit::failure_if(failed))
}

/// The user's rule file: a host does not start with one that is not understood.
fn rules(path: &Path) -> DoctorCheck {
    let name = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return no_rules(&name);
        }
        Err(error) => return fail("rules", format!("{name}: {error}"), "make it readable"),
    };
    match parse_file(&text, &name, FileKind::User) {
        Err(problems) => fail(
            "rules",
            problems.to_string().replace('\n', "; "),
            "fix it; until then no host starts, and a running one allows nothing by rule",
        ),
        Ok(file) if file.entries.is_empty() && file.warnings.is_empty() => no_rules(&name),
        Ok(file) => match file.warnings.first() {
            None => ok("rules", format!("{} in {name}", file.entries.len())),
            Some(warning) => {
                let line = warning.line.unwrap_or_default();
                let found = format!("{name}:{line}: {}", warning.message);
                warn("rules", found, "see all with `countersign rules list`")
            }
        },
    }
}

fn no_rules(name: &str) -> DoctorCheck {
    warn(
        "rules",
        format!("none in {name}: every action of an agent asks"),
        "begin with some: `countersign rules init`",
    )
}

fn line(check: &DoctorCheck) -> String {
    let (word, style): (_, Style) = match check.grade {
        CheckGrade::Ok => ("ok  ", output::GOOD),
        CheckGrade::Warn => ("warn", output::WARNING),
        CheckGrade::Fail => ("fail", output::BAD),
    };
    let advice = check.advice.as_ref();
    let advice = advice.map_or(String::new(), |advice| format!("\n      {advice}"));
    format!(
        "{style}{word}{style:#}  {}: {}{advice}\n",
        check.what, check.found
    )
}

/// `open` is how bad it is if others may use the folder.
fn folder(what: &'static str, path: &Path, open: CheckGrade) -> DoctorCheck {
    let shown = path.display();
    match std::fs::symlink_metadata(path) {
        Ok(found) => match paths::private_folder(&found, paths::current_uid()) {
            Ok(()) => ok(what, format!("`{shown}`, private")),
            Err(why) => DoctorCheck {
                grade: open,
                what,
                found: format!("`{shown}`: {why}"),
                advice: Some(format!("chmod 700 {shown}")),
            },
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => ok(
            what,
            format!("`{shown}` does not exist yet; `countersign up` creates it"),
        ),
        Err(error) => fail(what, format!("`{shown}`: {error}"), "make it readable"),
    }
}

/// `in_use` says that a host has it open.
fn database(path: &Path, in_use: bool) -> DoctorCheck {
    const WHAT: &str = "database";
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let shown = path.display();
    // Read as a plain file: SQLite could create files beside it or take a lock that a host needs.
    let mut begin = [0; 16];
    let read = std::fs::File::open(path).and_then(|mut file| {
        file.read_exact(&mut begin)?;
        file.metadata()
    });
    match read {
        Ok(found) if begin != *MAGIC => fail(
            WHAT,
            format!("`{shown}` ({} bytes) is not a database", found.len()),
            "move it elsewhere; Countersign did not write it",
        ),
        Ok(found) if found.mode() & 0o077 != 0 => warn(
            WHAT,
            format!("`{shown}` can be read by others"),
            format!("chmod 600 {shown}"),
        ),
        Ok(found) => ok(
            WHAT,
            format!(
                "`{shown}`, {} kB; check it with `countersign audit verify`",
                found.len() / 1024
            ),
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound && in_use => fail(
            WHAT,
            format!("`{shown}` was removed while a host uses it"),
            RESCUE,
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => ok(
            WHAT,
            format!("`{shown}` does not exist yet; `countersign up` creates it"),
        ),
        Err(error) => fail(
            WHAT,
            format!("`{shown}`: {error}"),
            "restore it from a backup, or move it elsewhere",
        ),
    }
}

fn space(folder: &Path) -> DoctorCheck {
    const WHAT: &str = "free space";
    // The folder may not exist yet; the file system that it will be on does.
    let existing = folder
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"));
    let free = match rustix::fs::statvfs(existing) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => return warn(WHAT, format!("unknown: {error}"), "see `df`"),
    };
    let free_text = format!("{} MB", free / (1024 * 1024));
    match free {
        ..FREE_BYTES_MIN => fail(
            WHAT,
            free_text,
            "free disk space: without it nothing can be recorded or allowed",
        ),
        FREE_BYTES_MIN..FREE_BYTES_LOW => warn(
            WHAT,
            free_text,
            "free disk space soon, or run `countersign audit prune`",
        ),
        _ => ok(WHAT, free_text),
    }
}

fn config(path: &Path) -> (HostConfig, DoctorCheck) {
    const WHAT: &str = "configuration";
    match HostConfig::load(path) {
        Ok(config) if path.exists() => (config, ok(WHAT, format!("`{}`", path.display()))),
        Ok(config) => (
            config,
            ok(
                WHAT,
                format!("none at `{}`; using the defaults", path.display()),
            ),
        ),
        Err(error) => (
            HostConfig::default(),
            fail(
                WHAT,
                error.to_string(),
                "fix that line; until then no host starts",
            ),
        ),
    }
}

fn running_host(status: &Result<HostStatus, CliError>) -> Vec<DoctorCheck> {
    const WHAT: &str = "host";
    let status = match status {
        Ok(status) => status,
        Err(error @ CliError::NoHost { .. }) => {
            return vec![warn(
                WHAT,
                error.to_string(),
                "start one with `countersign up --detach`",
            )];
        }
        Err(error) => {
            return vec![fail(
                WHAT,
                error.to_string(),
                error.hint().unwrap_or_default(),
            )];
        }
    };
    let mut checks = vec![ok(
        WHAT,
        format!(
            "running, pid {}, you are {} ({})",
            status.pid, status.you.name, status.you.role
        ),
    )];
    let own = env!("CARGO_PKG_VERSION");
    checks.push(if status.version == own {
        ok("version", own)
    } else {
        warn(
            "version",
            format!("the host is {}, this is {own}", status.version),
            "replace it with `countersign up --replace --detach`; agents keep running",
        )
    });
    checks.push(match &status.listen {
        Some(listen) => ok("listen", listen),
        None => ok("listen", "no TCP, only the Unix socket"),
    });
    checks.push(web_page(status));
    if status.unnamed_callers {
        checks.push(warn(
            "unnamed callers",
            "over TCP a token is enough, even if the calling process cannot be identified",
            "remove `unnamed_callers` under `[server]` in config.toml unless a forwarded port needs it",
        ));
    }
    checks.extend(status.containment.as_ref().map(containment));
    if let Some(error) = &status.store_error {
        let advice = if status.record_lost {
            RESCUE
        } else {
            "free disk space or make it writable; nothing is allowed until then"
        };
        checks.push(fail(
            "record",
            format!("cannot be written: {error}"),
            advice,
        ));
    }
    checks
}

fn web_page(status: &HostStatus) -> DoctorCheck {
    const WHAT: &str = "web page";
    if status.web.as_ref().is_some_and(|web| web.built) {
        ok(WHAT, "built; open it with `countersign open`")
    } else {
        warn(
            WHAT,
            "not in this build",
            "run `make web` (it needs Node), build the host again and restart it",
        )
    }
}

/// How the channels of notifications fare, the first that fails in words.
fn notifications(status: &NotifyStatus) -> DoctorCheck {
    const WHAT: &str = "notifications";
    let failing = status.channels.iter().find_map(|channel| {
        let error = channel.last_error.as_ref()?;
        Some(format!(
            "{}: {}",
            escape::line(&channel.name),
            escape::line(error)
        ))
    });
    match (failing, status.channels.len()) {
        (Some(found), _) => warn(WHAT, found, "see `countersign notify status`"),
        (None, 0) => ok(WHAT, "no channels"),
        (None, channels) => ok(WHAT, format!("{channels} channels")),
    }
}

fn containment(held: &Containment) -> DoctorCheck {
    const WHAT: &str = "agents";
    let found = format!("contained by {}", held.means);
    if held.holds_detached {
        ok(WHAT, found)
    } else {
        warn(
            WHAT,
            found,
            "start the host in its own writable cgroup, for example as a systemd user service",
        )
    }
}

/// How much of a sandbox this machine enforces, and what agents get.
fn sandbox(settings: &SandboxSettings) -> DoctorCheck {
    const WHAT: &str = "sandbox";
    let support = settings.support();
    let level = support.level.as_str();
    let agents = describe_usual_sandbox(settings);
    match support.missing {
        Some(missing) if support.level != SandboxLevel::Full => {
            let found = format!("level {level}: {}; {agents}", missing.what);
            warn(WHAT, found, missing.advice)
        }
        _ => ok(WHAT, format!("level {level}; {agents}")),
    }
}

/// What becomes of agents that are started without a word about their sandbox.
fn describe_usual_sandbox(settings: &SandboxSettings) -> String {
    if settings.usual == SandboxProfile::OPEN {
        return "agents are started without a sandbox".to_owned();
    }
    let profile = escape::line(&settings.usual);
    match settings.check(&SpawnOptions::default()) {
        Ok(()) => format!("agents get the profile `{profile}`"),
        Err(_) => {
            format!("agents are not started with the profile `{profile}`, which is the default")
        }
    }
}

fn port(config: &HostConfig) -> DoctorCheck {
    const WHAT: &str = "port";
    let Some(address) = config.listen() else {
        return ok(WHAT, "not used");
    };
    match TcpListener::bind(address) {
        Ok(_) => ok(WHAT, format!("{address} is free")),
        Err(error) => fail(
            WHAT,
            format!("{address}: {error}"),
            "choose another with `countersign up --listen 127.0.0.1:PORT`",
        ),
    }
}

/// Which promises hold on this system.
fn guarantees() -> Vec<DoctorCheck> {
    let proc = Path::new("/proc/self/stat").exists();
    vec![
        ok("socket", "callers are identified by their user"),
        if proc {
            ok(
                "ancestry",
                "a process that an agent starts is treated as that agent",
            )
        } else {
            warn(
                "ancestry",
                "without /proc, processes cannot be traced to the agent that started them",
                "run agents as another user, or run the host on Linux",
            )
        },
        if cfg!(target_os = "linux") {
            ok("system", "Linux: every guarantee holds")
        } else {
            warn(
                "system",
                std::env::consts::OS,
                "only Linux is tested; see SECURITY.md for what is weaker here",
            )
        },
    ]
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_that_is_no_database_fails() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("countersign.db");
        assert_eq!(database(&path, false).grade, CheckGrade::Ok);
        assert_eq!(database(&path, true).grade, CheckGrade::Fail);
        std::fs::write(&path, "not a database, but long enough").unwrap();
        assert_eq!(database(&path, false).grade, CheckGrade::Fail);
        std::fs::write(&path, b"SQLite format 3\0rest").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(database(&path, false).grade, CheckGrade::Warn);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(database(&path, false).grade, CheckGrade::Ok);
    }

    #[test]
    fn a_line_says_the_grade_in_words() {
        let check = fail("port", "in use", "choose another");
        assert_eq!(
            anstream::adapter::strip_str(&line(&check)).to_string(),
            "fail  port: in use\n      choose another\n"
        );
    }
}
