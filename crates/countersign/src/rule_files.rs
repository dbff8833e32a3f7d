//! The rule files of this user, and the files of the host that no agent may touch.

use std::path::{Path, PathBuf};

use countersign_daemon::RulebookConfig;

use crate::config::HostConfig;
use crate::paths::HostPaths;

/// Where an administrator puts settings for Claude Code.
const MANAGED_CLAUDE: &str = "/etc/claude-code/managed-settings.json";

/// Where rules are, seen from this process.
pub(crate) fn rulebook_config(paths: &HostPaths) -> RulebookConfig {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    RulebookConfig {
        user_file: paths.rules.clone(),
        home: home.unwrap_or_default(),
        host_paths: host_paths(paths),
        managed_claude: MANAGED_CLAUDE.into(),
    }
}

/// The database, the log, the sockets, the keys and secrets of notifications, the configuration, the rules, what runners
/// keep, and notes and screens of people. Folders of our own are named whole, because they can be copied or moved with
/// all that is in them. A folder that `COUNTERSIGN_HOME` names may hold other things, so there our files are named one
/// by one.
fn host_paths(paths: &HostPaths) -> Vec<PathBuf> {
    let config = paths.config_dir();
    let mut own = vec![paths.runtime_dir.clone(), paths.runners.clone()];
    own.extend(paths.runner_sockets.clone());
    own.extend(paths.terminal_sockets.clone());
    own.push(paths.state_dir.clone());
    if config == paths.data_dir {
        // SQLite keeps parts of the record in files beside the database, and the lock keeps a second
        // host out.
        let endings = ["", "-wal", "-shm", "-journal", ".lock", ".rescued"];
        own.extend(endings.map(|ending| with_suffix(&paths.database, ending)));
        let files = [&paths.log, &paths.notify_keys, &paths.config, &paths.rules];
        own.extend(files.map(PathBuf::clone));
        // Panels of the terminal UI name programs that run as the person.
        own.extend([config.join("tui"), paths.data_dir.join("terminals")]);
        own.push(paths.own_terminals.clone());
    } else {
        own.extend([config.to_owned(), paths.data_dir.clone()]);
    }
    own.extend(secret_files(paths));
    own
}

/// Files with the secrets of notifications.
fn secret_files(paths: &HostPaths) -> Vec<PathBuf> {
    // With a configuration that cannot be read no host starts, and nobody asks.
    let config = HostConfig::load(&paths.config).unwrap_or_default();
    config.notify.secret_files(paths.config_dir())
}

fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}
