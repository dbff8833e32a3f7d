//! The floor: what no rule, grant or bypass lifts.
//!
//! The host's own files are denied to agents. Rule files, the insides of `.git`, the settings of
//! agents and editors, and files that shells run at their start at least ask before they change, and
//! so do agents that an orchestrator would start with more than is usual.

use countersign_core::event::Effect;

use crate::assess::{Assessment, At, Body, Part};
use crate::path::{Spot, below};
use crate::shell::Touches;
use countersign_core::event::PartKind;

/// The host's own files, which are denied to agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// Absolute paths of the host's files and folders: database, sockets, tokens, configuration.
    pub host_paths: Vec<String>,
}

/// Folders whose insides at least ask, wherever they are.
const GUARDED_FOLDERS: [&str; 18] = [
    ".git",
    ".countersign",
    ".claude",
    ".codex",
    ".cursor",
    ".vscode",
    ".idea",
    ".gemini",
    ".goose",
    ".opencode",
    ".continue",
    ".windsurf",
    ".zed",
    ".aider",
    ".husky",
    ".githooks",
    ".devcontainer",
    ".kiro",
];

/// Files that at least ask, wherever they are.
const GUARDED_FILES: [&str; 33] = [
    ".mcp.json",
    "mcp.json",
    ".claude.json",
    "opencode.json",
    "opencode.jsonc",
    ".cursorrules",
    ".windsurfrules",
    ".aider.conf.yml",
    ".envrc",
    ".gitconfig",
    ".gitmodules",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".inputrc",
    ".vimrc",
    ".exrc",
    ".npmrc",
    ".pypirc",
    "config.fish",
    "authorized_keys",
];

/// Folders below the home or the root that at least ask.
const GUARDED_PATHS: [&str; 8] = [
    ".config/countersign",
    ".config/goose",
    ".config/opencode",
    ".config/fish",
    ".config/systemd",
    ".config/autostart",
    ".config/git",
    ".ssh",
];

impl Floor {
    /// What the floor says of a part, if it says anything, and why.
    pub(crate) fn says(&self, assessment: &Assessment, part: &Part) -> Option<(Effect, String)> {
        let home = assessment.place.home.as_str();
        match &part.body {
            Body::Path(spots) => {
                let writes = part.kind == PartKind::Write;
                spots
                    .iter()
                    .find_map(|spot| self.of_spot(spot, writes, home))
            }
            Body::Command { touched, .. } => {
                let said = touched.iter().filter_map(|touch| {
                    let writes = matches!(touch.touches, Touches::Writes | Touches::Unknown);
                    match &touch.at {
                        At::Spot(spot) => self.of_spot(spot, writes, home),
                        At::Glob(globs) => self.of_globs(globs),
                    }
                });
                said.max_by_key(|(effect, _)| *effect)
            }
            // A person decides about whatever reaches further than its orchestrator does.
            Body::Spawn { beyond, .. } => beyond.clone().map(|reason| (Effect::Ask, reason)),
            Body::Fetch(_) | Body::Mcp { .. } | Body::Tool | Body::Nothing => None,
        }
    }

    fn of_spot(&self, spot: &Spot, writes: bool, home: &str) -> Option<(Effect, String)> {
        if spot.forms().any(|path| self.is_hosts(path)) {
            return Some((
                Effect::Deny,
                format!("`{}` belongs to the host", spot.lexical),
            ));
        }
        let ask = |why: &str| Some((Effect::Ask, format!("`{}` {why}", spot.lexical)));
        if !writes {
            None
        } else if spot.forms().any(|path| is_guarded(path, home)) {
            ask("decides what may run later")
        } else if spot.forms().any(|path| self.holds_hosts(path)) {
            ask("holds files of the host")
        } else {
            None
        }
    }

    fn is_hosts(&self, path: &str) -> bool {
        let mut paths = self.host_paths.iter();
        paths.any(|own| below(path, own, true).is_some())
    }

    /// A folder above the host's files can be moved or removed with them.
    fn holds_hosts(&self, path: &str) -> bool {
        let mut paths = self.host_paths.iter();
        paths.any(|own| below(own, path, true).is_some())
    }

    fn of_globs(&self, globs: &[Vec<crate::glob::Token>]) -> Option<(Effect, String)> {
        use crate::glob::{Segment, path_meets};
        let meets = |own: &String| {
            let mut pattern: Vec<Segment> = own
                .split('/')
                .filter(|name| !name.is_empty())
                .map(|name| Segment::Name(name.to_owned()))
                .collect();
            pattern.push(Segment::Any);
            path_meets(&pattern, globs, true)
        };
        self.host_paths.iter().any(meets).then(|| {
            (
                Effect::Deny,
                "its wildcard reaches the host's files".to_owned(),
            )
        })
    }
}

fn is_guarded(path: &str, home: &str) -> bool {
    let names: Vec<String> = path
        .split('/')
        .filter(|name| !name.is_empty())
        .map(str::to_lowercase)
        .collect();
    let in_folder = names
        .iter()
        .any(|name| GUARDED_FOLDERS.contains(&name.as_str()));
    let is_file = names
        .last()
        .is_some_and(|name| GUARDED_FILES.contains(&name.as_str()));
    let in_home = GUARDED_PATHS
        .iter()
        .any(|folder| !home.is_empty() && below(path, &format!("{home}/{folder}"), true).is_some());
    let in_system = ["/etc", "/usr", "/bin", "/sbin", "/lib", "/boot"]
        .iter()
        .any(|folder| below(path, folder, false).is_some());
    in_folder || is_file || in_home || in_system
}
