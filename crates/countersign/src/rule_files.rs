//! The rule files of this user, and the files of the host that no agent may touch.

use std::path::PathBuf;

use countersign_daemon::RulebookConfig;

use crate::paths::Paths;

/// Where an administrator puts settings for Claude Code.
const MANAGED_CLAUDE: &str = "/etc/claude-code/managed-settings.json";

/// Where rules are, seen from this process.
pub(crate) fn rulebook_config(paths: &Paths) -> RulebookConfig {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    RulebookConfig {
        user_file: paths.rules.clone(),
        home: home.unwrap_or_default(),
        host_paths: host_paths(paths),
        managed_claude: MANAGED_CLAUDE.into(),
    }
}

/// The database with what lies beside it, the socket with its folder, the token, the
/// configuration, the log.
fn host_paths(paths: &Paths) -> Vec<PathBuf> {
    let beside = |ending: &str| {
        let mut path = paths.database.clone().into_os_string();
        path.push(ending);
        PathBuf::from(path)
    };
    vec![
        paths.database.clone(),
        beside("-wal"),
        beside("-shm"),
        beside("-journal"),
        beside(".lock"),
        paths.runtime_dir.clone(),
        paths.config.clone(),
        paths.log.clone(),
    ]
}
