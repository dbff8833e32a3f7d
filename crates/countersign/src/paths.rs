//! Where the files are.
//!
//! Invariants: what the host makes is for its user alone, and a folder in a shared place is
//! used only if it is ours, real and closed to others.

use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// The longest path a Unix socket can have.
const SOCKET_BYTES_MAX: usize = 107;

/// A runner's socket in its folder: a name, and `.sock`.
const RUNNER_SOCKET_NAME_BYTES_MAX: usize = 40 + ".sock".len();

/// Every file of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPaths {
    pub(crate) config: PathBuf,
    pub(crate) rules: PathBuf,
    /// Left where a person declined the starter rules.
    pub(crate) declined_rules: PathBuf,
    /// The folder of the record.
    pub(crate) data_dir: PathBuf,
    /// What screens keep between two starts.
    pub(crate) state_dir: PathBuf,
    pub(crate) database: PathBuf,
    pub(crate) log: PathBuf,
    /// The host's own keys for notifications.
    pub(crate) notify_keys: PathBuf,
    /// The folder of the socket.
    pub(crate) runtime_dir: PathBuf,
    pub(crate) socket: PathBuf,
    /// The folder of what runners keep, one folder each.
    pub(crate) runners: PathBuf,
    /// Folders for the sockets of runners, the best first: one may vanish when its user logs out.
    pub(crate) runner_sockets: Vec<PathBuf>,
    /// The folder of people's own terminals, one folder each, and folders for their sockets.
    pub(crate) own_terminals: PathBuf,
    pub(crate) terminal_sockets: Vec<PathBuf>,
}

impl HostPaths {
    /// From the environment of this process.
    pub(crate) fn from_environment() -> Result<Self, CliError> {
        Self::resolve(environment_path, current_uid())
    }

    /// Everything under one folder.
    pub(crate) fn in_home(home: &Path, uid: u32) -> Self {
        Self::assemble(home, home, home.join("state"), home.join("run"), uid)
    }

    fn resolve(find: impl Fn(&str) -> Option<PathBuf>, uid: u32) -> Result<Self, CliError> {
        if let Some(home) = find("COUNTERSIGN_HOME") {
            let home = std::path::absolute(&home).map_err(|source| {
                CliError::io(
                    format!("`COUNTERSIGN_HOME={}` is not a folder", home.display()),
                    source,
                )
            })?;
            return Ok(Self::in_home(&home, uid));
        }
        // A relative path in these variables is to be ignored, says the XDG specification.
        let [home, config, data, state, runtime] = [
            "HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_STATE_HOME",
            "XDG_RUNTIME_DIR",
        ]
        .map(|name| find(name).filter(|path| path.is_absolute()));
        let config = config.or_else(|| Some(home.as_ref()?.join(".config")));
        let data = data.or_else(|| Some(home.as_ref()?.join(".local/share")));
        let state = state.or_else(|| Some(home.as_ref()?.join(".local/state")));
        let (Some(config), Some(data), Some(state)) = (config, data, state) else {
            return Err(
                CliError::failed("neither `HOME` nor `COUNTERSIGN_HOME` is set")
                    .with_hint("set COUNTERSIGN_HOME to a folder of your own"),
            );
        };
        let data = data.join("countersign");
        let runtime = runtime.map_or_else(|| data.join("run"), |run| run.join("countersign"));
        let config = config.join("countersign");
        let state = state.join("countersign");
        Ok(Self::assemble(&config, &data, state, runtime, uid))
    }

    fn assemble(
        config: &Path,
        data: &Path,
        state_dir: PathBuf,
        runtime: PathBuf,
        uid: u32,
    ) -> Self {
        let runtime = shorten_if_needed(runtime, "host.sock".len(), uid);
        let runners = data.join("runners");
        let mut runner_sockets: Vec<_> = [runtime.join("runners"), runners.clone()]
            .map(|folder| shorten_if_needed(folder, RUNNER_SOCKET_NAME_BYTES_MAX, uid))
            .into();
        runner_sockets.dedup();
        let own_terminals = data.join("own-terminals");
        let mut terminal_sockets: Vec<_> = [runtime.join("terminals"), own_terminals.clone()]
            .map(|folder| shorten_if_needed(folder, RUNNER_SOCKET_NAME_BYTES_MAX, uid))
            .into();
        terminal_sockets.dedup();
        Self {
            config: config.join("config.toml"),
            rules: config.join("rules.toml"),
            declined_rules: data.join("starter-rules-declined"),
            data_dir: data.to_owned(),
            state_dir,
            database: data.join("countersign.db"),
            log: data.join("host.log"),
            notify_keys: data.join("notify.keys"),
            socket: runtime.join("host.sock"),
            runtime_dir: runtime,
            runners,
            runner_sockets,
            own_terminals,
            terminal_sockets,
        }
    }

    pub(crate) fn config_dir(&self) -> &Path {
        self.config.parent().unwrap_or(&self.config)
    }

    /// Makes the folders a host needs, closed to others, and refuses those that are not ours.
    pub(crate) fn prepare(&self) -> Result<(), CliError> {
        let folders = [
            &self.data_dir,
            // A sandbox can hide only what is there when an agent starts.
            &self.state_dir,
            &self.runtime_dir,
            &self.runners,
            &self.own_terminals,
        ];
        let sockets = self.runner_sockets.iter().chain(&self.terminal_sockets);
        for folder in folders.into_iter().chain(sockets) {
            make_private_folder(folder)?;
        }
        // Making a folder that exists succeeds, whoever made it: hence the check afterwards.
        self.check_runtime_dir()?;
        self.runner_sockets
            .iter()
            .chain(&self.terminal_sockets)
            .chain([&self.runners, &self.own_terminals])
            .try_for_each(|folder| check_private(folder))
    }

    /// Refuses a socket folder that somebody else could have put there.
    pub(crate) fn check_runtime_dir(&self) -> Result<(), CliError> {
        check_private(&self.runtime_dir)
    }
}

/// A folder that only its user can enter, with those above it.
pub(crate) fn make_private_folder(folder: &Path) -> Result<(), CliError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| CliError::file("make the folder", folder, source))
}

/// Refuses a folder that somebody else could have put there; one that is not there is no harm.
fn check_private(folder: &Path) -> Result<(), CliError> {
    let shown = folder.display();
    // Without following links: one that somebody else made could point elsewhere after the check.
    match std::fs::symlink_metadata(folder) {
        Ok(found) => private_folder(&found, current_uid()).map_err(|why| {
            CliError::failed(format!("`{shown}` cannot be trusted: {why}")).with_hint(format!(
                "`chmod 700 {shown}` if it is yours, or set COUNTERSIGN_HOME"
            ))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(CliError::io(format!("could not inspect `{shown}`"), source)),
    }
}

/// A path from the environment; an empty variable is the same as none.
pub(crate) fn environment_path(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// The user this process runs as.
pub(crate) fn current_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Says what is wrong with a folder that must be for `uid` alone.
pub(crate) fn private_folder(found: &Metadata, uid: u32) -> Result<(), String> {
    if !found.is_dir() {
        return Err("it is not a folder".into());
    }
    if found.uid() != uid {
        return Err(format!("it belongs to user {}", found.uid()));
    }
    if found.mode() & 0o077 != 0 {
        return Err(format!(
            "others may use it (mode {:o})",
            found.mode() & 0o7777
        ));
    }
    Ok(())
}

/// The folder, or a short one in its place where the path of a socket in it would be too long.
fn shorten_if_needed(folder: PathBuf, name_bytes: usize, uid: u32) -> PathBuf {
    if folder.as_os_str().as_bytes().len() + 1 + name_bytes > SOCKET_BYTES_MAX {
        short_folder(&folder, uid)
    } else {
        folder
    }
}

/// A folder whose socket has a path short enough, the same for everyone who asks.
fn short_folder(long: &Path, uid: u32) -> PathBuf {
    // Anybody may make folders in /tmp, and guess this name: `check_private` refuses one that is not
    // ours.
    PathBuf::from(format!(
        "/tmp/countersign-{uid}-{:016x}",
        fnv1a(long.as_os_str().as_bytes())
    ))
}

/// FNV-1a: stable between builds, which the standard hasher does not promise to be.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn resolve(variables: &[(&str, &str)]) -> Result<HostPaths, CliError> {
        let find = |name: &str| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.into())
        };
        HostPaths::resolve(find, 1000)
    }

    #[test]
    fn one_folder_holds_everything_when_told_so() {
        let expected = HostPaths {
            config: "/h/config.toml".into(),
            rules: "/h/rules.toml".into(),
            declined_rules: "/h/starter-rules-declined".into(),
            data_dir: "/h".into(),
            state_dir: "/h/state".into(),
            database: "/h/countersign.db".into(),
            log: "/h/host.log".into(),
            notify_keys: "/h/notify.keys".into(),
            runtime_dir: "/h/run".into(),
            socket: "/h/run/host.sock".into(),
            runners: "/h/runners".into(),
            runner_sockets: vec!["/h/run/runners".into(), "/h/runners".into()],
            own_terminals: "/h/own-terminals".into(),
            terminal_sockets: vec!["/h/run/terminals".into(), "/h/own-terminals".into()],
        };
        assert_eq!(
            resolve(&[("COUNTERSIGN_HOME", "/h"), ("HOME", "/x")]).unwrap(),
            expected
        );
    }

    #[test]
    fn without_a_runtime_folder_the_socket_lies_with_the_record() {
        let paths = resolve(&[("HOME", "/home/ada"), ("XDG_RUNTIME_DIR", "relative")]).unwrap();
        let expected = HostPaths {
            config: "/home/ada/.config/countersign/config.toml".into(),
            rules: "/home/ada/.config/countersign/rules.toml".into(),
            declined_rules: "/home/ada/.local/share/countersign/starter-rules-declined".into(),
            data_dir: "/home/ada/.local/share/countersign".into(),
            state_dir: "/home/ada/.local/state/countersign".into(),
            database: "/home/ada/.local/share/countersign/countersign.db".into(),
            log: "/home/ada/.local/share/countersign/host.log".into(),
            notify_keys: "/home/ada/.local/share/countersign/notify.keys".into(),
            runtime_dir: "/home/ada/.local/share/countersign/run".into(),
            socket: "/home/ada/.local/share/countersign/run/host.sock".into(),
            runners: "/home/ada/.local/share/countersign/runners".into(),
            runner_sockets: vec![
                "/home/ada/.local/share/countersign/run/runners".into(),
                "/home/ada/.local/share/countersign/runners".into(),
            ],
            own_terminals: "/home/ada/.local/share/countersign/own-terminals".into(),
            terminal_sockets: vec![
                "/home/ada/.local/share/countersign/run/terminals".into(),
                "/home/ada/.local/share/countersign/own-terminals".into(),
            ],
        };
        assert_eq!(paths, expected);
        let paths =
            resolve(&[("HOME", "/home/ada"), ("XDG_RUNTIME_DIR", "/run/user/1000")]).unwrap();
        assert_eq!(
            paths.socket,
            PathBuf::from("/run/user/1000/countersign/host.sock")
        );
    }

    #[test]
    fn a_long_path_gets_a_short_socket() {
        let paths = resolve(&[("COUNTERSIGN_HOME", &format!("/{}", "d".repeat(120)))]).unwrap();
        assert!(paths.socket.as_os_str().len() <= SOCKET_BYTES_MAX);
        assert!(paths.socket.starts_with(&paths.runtime_dir));
        assert_eq!(paths.runtime_dir.parent(), Some(Path::new("/tmp")));
    }

    #[test]
    fn every_runner_has_room_for_its_socket() {
        for length in [1, 40, 50, 60, 90, 120] {
            let home = format!("/{}", "d".repeat(length));
            let paths = resolve(&[("COUNTERSIGN_HOME", &home)]).unwrap();
            assert_eq!(paths.runners, Path::new(&home).join("runners"));
            assert_eq!(paths.runner_sockets.len(), 2, "{paths:?}");
            for folder in &paths.runner_sockets {
                let longest = folder.join("n".repeat(40)).with_extension("sock");
                assert!(longest.as_os_str().len() <= SOCKET_BYTES_MAX, "{folder:?}");
            }
        }
    }

    #[test]
    fn nowhere_to_go_is_an_error() {
        assert!(resolve(&[]).is_err());
    }

    #[test]
    fn an_open_or_borrowed_folder_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let paths = HostPaths::in_home(scratch.path(), current_uid());
        paths.prepare().unwrap();
        std::fs::set_permissions(&paths.runtime_dir, std::fs::Permissions::from_mode(0o755))
            .unwrap();
        assert!(paths.check_runtime_dir().is_err());
        std::fs::remove_dir_all(&paths.runtime_dir).unwrap();
        std::os::unix::fs::symlink(scratch.path(), &paths.runtime_dir).unwrap();
        assert!(paths.check_runtime_dir().is_err());
    }
}
