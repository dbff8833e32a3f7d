//! The floor: what no rule, grant or bypass lifts.
//!
//! The host's own files are denied to agents. Rule files, the insides of `.git`, the settings of
//! agents and editors, and files that shells run at their start at least ask before they change, and
//! so do agents that an orchestrator would start with more than is usual.

use countersign_core::event::Effect;

use crate::assess::{Assessment, PartBody, RequestPart};
use crate::glob::{GlobToken, PathSegment, may_be_name, path_meets};
use crate::locate::AccessedPath;
use crate::path::{ResolvedPath, below, is_standard_stream};
use crate::shell::FileUse;
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
    pub(crate) fn judge(
        &self,
        assessment: &Assessment,
        part: &RequestPart,
    ) -> Option<(Effect, String)> {
        let home = assessment.place.home.as_str();
        match &part.body {
            PartBody::Path(spots) => {
                let writes = part.kind == PartKind::Write;
                let walked =
                    |spot: &ResolvedPath| part.below.as_ref().and(self.judge_tree(spot, false));
                spots
                    .iter()
                    .find_map(|spot| self.judge_path(spot, writes, home).or_else(|| walked(spot)))
            }
            PartBody::Command { touched, .. } => {
                let said = touched.iter().filter_map(|touch| {
                    let writes = matches!(touch.touches, FileUse::Writes | FileUse::Unknown);
                    match &touch.at {
                        AccessedPath::Path(spot) => self.judge_path(spot, writes, home),
                        AccessedPath::Glob(globs) => self.judge_globs(globs, writes),
                        AccessedPath::Tree(root, names) => {
                            let guarded = writes && guarded_names().any(|name| names.holds(name));
                            self.judge_tree(root, guarded)
                        }
                        AccessedPath::Copied(root, names) => self.judge_tree(
                            root,
                            guarded_names().any(|name| names.may_hold_name(name)),
                        ),
                    }
                });
                said.max_by_key(|(effect, _)| *effect)
            }
            // A person decides about whatever reaches further than its orchestrator does.
            PartBody::Spawn { beyond, .. } => beyond.clone().map(|reason| (Effect::Ask, reason)),
            PartBody::Fetch(_)
            | PartBody::Network(_)
            | PartBody::Mcp { .. }
            | PartBody::Tool
            | PartBody::Nothing => None,
        }
    }

    fn judge_path(
        &self,
        spot: &ResolvedPath,
        writes: bool,
        home: &str,
    ) -> Option<(Effect, String)> {
        // Reading too: what the host keeps about others and how it is reached is not for agents.
        if spot.forms().any(|path| self.is_host_path(path)) {
            return Some((
                Effect::Deny,
                format!("`{}` belongs to the host", spot.lexical),
            ));
        }
        if !writes {
            None
        } else if spot.forms().any(|path| is_guarded(path, home)) {
            Some(ask_about(spot, "decides what may run later"))
        } else if spot.forms().any(|path| self.contains_host_path(path)) {
            Some(ask_about(spot, "holds files of the host"))
        } else {
            None
        }
    }

    fn is_host_path(&self, path: &str) -> bool {
        let mut paths = self.host_paths.iter();
        paths.any(|own| below(path, own, true).is_some())
    }

    /// A folder above the host's files can be moved or removed with them.
    fn contains_host_path(&self, path: &str) -> bool {
        let mut paths = self.host_paths.iter();
        paths.any(|own| below(own, path, true).is_some())
    }

    /// A program that walks a folder reads or changes what is below it.
    fn judge_tree(&self, root: &ResolvedPath, changes_guarded: bool) -> Option<(Effect, String)> {
        if root.forms().any(|path| self.contains_host_path(path)) {
            Some(ask_about(root, "holds files of the host"))
        } else if changes_guarded {
            let reason = "contains files that decide what may run later and would change";
            Some(ask_about(root, reason))
        } else {
            None
        }
    }

    fn judge_globs(&self, globs: &[Vec<GlobToken>], writes: bool) -> Option<(Effect, String)> {
        let reaches_host = self.host_paths.iter().any(|own| {
            let mut pattern: Vec<PathSegment> = own
                .split('/')
                .filter(|name| !name.is_empty())
                .map(|name| PathSegment::Name(name.to_owned()))
                .collect();
            // The host's paths are folders as well as files, and all below a folder is the host's.
            pattern.push(PathSegment::Any);
            path_meets(&pattern, globs, true)
        });
        if reaches_host {
            let reason = "its wildcard reaches the host's files";
            return Some((Effect::Deny, reason.to_owned()));
        }
        // Names that do not begin with a dot fit too many wildcards; they count where they are.
        let may_be_guarded = guarded_names().any(|name| {
            name.starts_with('.') && globs.iter().any(|tokens| may_be_name(tokens, name))
        });
        let reason = "its wildcard may name a file that decides what may run later";
        (writes && may_be_guarded).then(|| (Effect::Ask, reason.to_owned()))
    }
}

fn ask_about(path: &ResolvedPath, why: &str) -> (Effect, String) {
    (Effect::Ask, format!("`{}` {why}", path.lexical))
}

/// Every name that at least asks before it changes.
fn guarded_names() -> impl Iterator<Item = &'static str> {
    GUARDED_FOLDERS.into_iter().chain(GUARDED_FILES)
}

fn is_guarded(path: &str, home: &str) -> bool {
    // Whatever the file system: `.GIT` is the same folder on one that ignores case, and on others
    // it is so rare that to ask about it costs nothing.
    let names: Vec<String> = path
        .split('/')
        .filter(|name| !name.is_empty())
        .map(str::to_lowercase)
        .collect();
    let in_folder = names
        .iter()
        .any(|name| GUARDED_FOLDERS.contains(&name.as_str()));
    // A folder of that name takes the place of the file.
    let is_file = names
        .iter()
        .any(|name| GUARDED_FILES.contains(&name.as_str()));
    let in_home = GUARDED_PATHS
        .iter()
        .any(|folder| !home.is_empty() && below(path, &format!("{home}/{folder}"), true).is_some());
    let in_system = [
        "/etc", "/usr", "/bin", "/sbin", "/lib", "/boot", "/proc", "/sys", "/dev",
    ]
    .iter()
    .any(|folder| below(path, folder, false).is_some())
        // Writing to these changes nothing that runs later.
        && !is_standard_stream(path)
        && below(path, "/dev/shm", false).is_none();
    in_folder || is_file || in_home || in_system
}
