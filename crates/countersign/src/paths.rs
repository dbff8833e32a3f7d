//! Where the files are.
//!
//! Invariants: what the host makes is for its user alone, and a folder in a shared place is
//! used only if it is ours, real and closed to others.

use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::failure::CliError;

/// The longest path a Unix socket can have.
const SOCKET_BYTES_MAX: usize = 107;

/// Every file of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    pub(crate) config: PathBuf,
    pub(crate) rules: PathBuf,
    /// The folder of the record.
    pub(crate) data_dir: PathBuf,
    pub(crate) database: PathBuf,
    pub(crate) log: PathBuf,
    /// The folder of the socket.
    pub(crate) runtime_dir: PathBuf,
    pub(crate) socket: PathBuf,
    pub(crate) auth_token: PathBuf,
}

impl Paths {
    /// From the environment of this process.
    pub(crate) fn from_environment() -> Result<Self, CliError> {
        Self::resolve(
            |name| std::env::var_os(name).filter(|value| !value.is_empty()),
            current_uid(),
        )
    }

    /// Everything under one folder.
    pub(crate) fn in_home(home: &Path, uid: u32) -> Self {
        Self::assemble(home, home, home.join("run"), uid)
    }

    fn resolve(find: impl Fn(&str) -> Option<OsString>, uid: u32) -> Result<Self, CliError> {
        if let Some(home) = find("COUNTERSIGN_HOME") {
            let home = std::path::absolute(&home).map_err(|source| {
                CliError::io(
                    format!("`COUNTERSIGN_HOME={}` is no folder", home.display()),
                    source,
                )
            })?;
            return Ok(Self::in_home(&home, uid));
        }
        // A relative path in these variables is to be ignored, says the XDG specification.
        let absolute = |name| {
            find(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let under_home = |rest: &str| absolute("HOME").map(|home| home.join(rest));
        let missing = || CliError::Failed {
            what: "neither `HOME` nor `COUNTERSIGN_HOME` is set".into(),
            hint: Some("set COUNTERSIGN_HOME to a folder of your own".into()),
        };
        let config = absolute("XDG_CONFIG_HOME")
            .or_else(|| under_home(".config"))
            .ok_or_else(missing)?;
        let data = absolute("XDG_DATA_HOME")
            .or_else(|| under_home(".local/share"))
            .ok_or_else(missing)?;
        let data = data.join("countersign");
        let runtime = absolute("XDG_RUNTIME_DIR")
            .map_or_else(|| data.join("run"), |run| run.join("countersign"));
        Ok(Self::assemble(
            &config.join("countersign"),
            &data,
            runtime,
            uid,
        ))
    }

    fn assemble(config: &Path, data: &Path, runtime: PathBuf, uid: u32) -> Self {
        let socket_bytes = runtime.join("host.sock").as_os_str().as_bytes().len();
        let runtime = if socket_bytes > SOCKET_BYTES_MAX {
            short_folder(&runtime, uid)
        } else {
            runtime
        };
        Self {
            config: config.join("config.toml"),
            rules: config.join("rules.toml"),
            data_dir: data.to_owned(),
            database: data.join("countersign.db"),
            log: data.join("host.log"),
            socket: runtime.join("host.sock"),
            auth_token: runtime.join("auth-token"),
            runtime_dir: runtime,
        }
    }

    /// Makes the folders a host needs, closed to others, and refuses those that are not ours.
    pub(crate) fn prepare(&self) -> Result<(), CliError> {
        for folder in [&self.data_dir, &self.runtime_dir] {
            let failed = |source| {
                CliError::io(
                    format!("could not make the folder `{}`", folder.display()),
                    source,
                )
            };
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(failed)?;
        }
        self.check_runtime_dir()
    }

    /// Refuses a socket folder that somebody else could have put there.
    pub(crate) fn check_runtime_dir(&self) -> Result<(), CliError> {
        match std::fs::symlink_metadata(&self.runtime_dir) {
            Ok(found) => private_folder(&found, current_uid()).map_err(|why| CliError::Failed {
                what: format!("`{}` cannot be trusted: {why}", self.runtime_dir.display()),
                hint: Some(format!(
                    "`chmod 700 {0}` if it is yours, or set COUNTERSIGN_HOME",
                    self.runtime_dir.display()
                )),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(CliError::io(
                format!("could not look at `{}`", self.runtime_dir.display()),
                source,
            )),
        }
    }
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

/// A folder whose socket has a path short enough, the same for everyone who asks.
fn short_folder(long: &Path, uid: u32) -> PathBuf {
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

    fn resolve(variables: &[(&str, &str)]) -> Result<Paths, CliError> {
        let find = |name: &str| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.into())
        };
        Paths::resolve(find, 1000)
    }

    #[test]
    fn one_folder_holds_everything_when_told_so() {
        let expected = Paths {
            config: "/h/config.toml".into(),
            rules: "/h/rules.toml".into(),
            data_dir: "/h".into(),
            database: "/h/countersign.db".into(),
            log: "/h/host.log".into(),
            runtime_dir: "/h/run".into(),
            socket: "/h/run/host.sock".into(),
            auth_token: "/h/run/auth-token".into(),
        };
        assert_eq!(
            resolve(&[("COUNTERSIGN_HOME", "/h"), ("HOME", "/x")]).unwrap(),
            expected
        );
    }

    #[test]
    fn without_a_runtime_folder_the_socket_lies_with_the_record() {
        let paths = resolve(&[("HOME", "/home/ada"), ("XDG_RUNTIME_DIR", "relative")]).unwrap();
        let expected = Paths {
            config: "/home/ada/.config/countersign/config.toml".into(),
            rules: "/home/ada/.config/countersign/rules.toml".into(),
            data_dir: "/home/ada/.local/share/countersign".into(),
            database: "/home/ada/.local/share/countersign/countersign.db".into(),
            log: "/home/ada/.local/share/countersign/host.log".into(),
            runtime_dir: "/home/ada/.local/share/countersign/run".into(),
            socket: "/home/ada/.local/share/countersign/run/host.sock".into(),
            auth_token: "/home/ada/.local/share/countersign/run/auth-token".into(),
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
    fn nowhere_to_go_is_an_error() {
        assert!(resolve(&[]).is_err());
    }

    #[test]
    fn an_open_or_borrowed_folder_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let paths = Paths::in_home(scratch.path(), current_uid());
        paths.prepare().unwrap();
        std::fs::set_permissions(&paths.runtime_dir, std::fs::Permissions::from_mode(0o755))
            .unwrap();
        assert!(paths.check_runtime_dir().is_err());
        std::fs::remove_dir(&paths.runtime_dir).unwrap();
        std::os::unix::fs::symlink(scratch.path(), &paths.runtime_dir).unwrap();
        assert!(paths.check_runtime_dir().is_err());
    }
}
