//! The git repository of a folder: whether its settings let reading commands run a program.
//!
//! `git status` and `git diff` can run programs that the repository's own configuration names: a file
//! system monitor, filters, diff drivers, a hook. Invariant: a setting that is not known to be
//! harmless counts as one that runs something, and so does a file that cannot be read.

use crate::facts::{FileFacts, FileText};
use crate::path::{clean, resolve};
use crate::request::RequestPlace;

/// A repository whose root is a given folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitRepository {
    /// The folder of this checkout's own state.
    git_dir: String,
    /// The folder that all worktrees of the repository share.
    common_dir: String,
    /// Whether it is a worktree beside the repository's main one.
    pub(crate) is_linked_worktree: bool,
}

impl GitRepository {
    /// The repository whose root is `folder`; a reason if there is none, or it cannot be known.
    pub(crate) fn at(
        folder: &str,
        place: &RequestPlace,
        facts: &dyn FileFacts,
    ) -> Result<Self, &'static str> {
        let dot_git = format!("{folder}/.git");
        match facts.read_text(&dot_git) {
            FileText::Folder => Ok(Self {
                common_dir: dot_git.clone(),
                git_dir: dot_git,
                is_linked_worktree: false,
            }),
            FileText::Text(pointer) => Self::linked(folder, &dot_git, &pointer, place, facts)
                .ok_or("the repository of the agent's folder cannot be found"),
            FileText::Absent => Err("the agent's folder is not the root of a git repository"),
            FileText::Unknown => Err("the repository of the agent's folder cannot be read"),
        }
    }

    /// The repository that a `.git` file names, if it names this folder as its worktree in turn.
    fn linked(
        folder: &str,
        dot_git: &str,
        pointer: &str,
        place: &RequestPlace,
        facts: &dyn FileFacts,
    ) -> Option<Self> {
        let real = |path: &str, base: &str| {
            let found = resolve(path, base, place, facts).ok()?;
            Some(found.real_path().to_owned())
        };
        let pointed = |path: String, base: &str| match facts.read_text(&path) {
            FileText::Text(text) => real(text.trim_end_matches(['\n', '\r']), base),
            FileText::Folder | FileText::Absent | FileText::Unknown => None,
        };
        let named = pointer
            .trim_end_matches(['\n', '\r'])
            .strip_prefix("gitdir:")?;
        let git_dir = real(named.trim(), folder)?;
        let common_dir = pointed(format!("{git_dir}/commondir"), &git_dir)?;
        let back = pointed(format!("{git_dir}/gitdir"), &git_dir)?;
        // Anybody can make a folder that points both ways; only the repository's own list counts.
        let (list, _) = git_dir.rsplit_once('/')?;
        let is_listed = list == format!("{common_dir}/worktrees");
        (is_listed && back == real(dot_git, folder)?).then_some(Self {
            git_dir,
            common_dir,
            is_linked_worktree: true,
        })
    }

    /// Why a command that only reads may run a program that this repository names.
    pub(crate) fn find_program(
        &self,
        folder: &str,
        place: &RequestPlace,
        facts: &dyn FileFacts,
    ) -> Option<String> {
        let shared = format!("{}/config", self.common_dir);
        let own = format!("{}/config.worktree", self.git_dir);
        let mut hooks = format!("{}/hooks", self.common_dir);
        for (path, is_optional) in [(shared, false), (own, true)] {
            let text = match facts.read_text(&path) {
                FileText::Text(text) => text,
                FileText::Absent if is_optional => continue,
                FileText::Folder | FileText::Absent | FileText::Unknown => {
                    return Some(format!("the settings in `{path}` cannot be read"));
                }
            };
            match check_settings(&text) {
                Ok(None) => {}
                Ok(Some(named)) => {
                    let found = resolve(&named, folder, place, facts).ok();
                    let Some(found) = found else {
                        return Some("the folder of the repository's hooks is not known".into());
                    };
                    found.real_path().clone_into(&mut hooks);
                }
                Err(setting) => {
                    return Some(format!(
                        "the repository's setting `{setting}` may make git run a program"
                    ));
                }
            }
        }
        if facts.read_text(&format!("{folder}/.gitmodules")) != FileText::Absent {
            return Some("its submodules have settings of their own".into());
        }
        let hooks = facts.list_folder(&clean(&hooks));
        let is_hooked = hooks.is_none_or(|entries| {
            let mut names = entries.iter().map(|entry| entry.name.to_lowercase());
            // The only hook that a command which reads can run: it refreshes the index.
            names.any(|name| name == "post-index-change")
        });
        is_hooked.then(|| "the repository has a hook that reading commands run".into())
    }
}

/// Reads a configuration: the folder of its hooks, if it names one; the setting that is not known to
/// be harmless, or a line that was not understood.
fn check_settings(text: &str) -> Result<Option<String>, String> {
    let mut section = String::new();
    let mut has_name = false;
    let mut hooks = None;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            // A setting may follow on the same line; git never writes that, so it is not read.
            let header = header.strip_suffix(']').ok_or(line)?;
            let (name, sub) = header.split_once(' ').unwrap_or((header, ""));
            if name.contains(['.', '[', ']', '"']) {
                return Err(line.to_owned());
            }
            section = name.to_lowercase();
            has_name = !sub.is_empty();
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        let (key, value) = (key.trim().to_lowercase(), value.trim());
        let is_plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        // A backslash at the end continues the value on the next line.
        if !is_plain || line.ends_with('\\') {
            return Err(line.to_owned());
        }
        if (section.as_str(), has_name, key.as_str()) == ("core", false, "hookspath") {
            hooks = Some(value.trim_matches('"').to_owned());
        } else if !is_harmless(&section, has_name, &key, value) {
            return Err(format!("{section}.{key}"));
        }
    }
    Ok(hooks)
}

/// Whether a setting cannot make a command that only reads run a program or read another place. A
/// list of what is known: a git that gains a setting must not gain an allow.
fn is_harmless(section: &str, has_name: bool, key: &str, value: &str) -> bool {
    match (section, has_name) {
        ("core", false) => {
            CORE_SETTINGS.contains(&key)
                || key == "fsmonitor" && matches!(value, "true" | "false")
                || key == "bare" && value == "false"
        }
        ("remote", true) => REMOTE_SETTINGS.contains(&key),
        ("diff", false) => !matches!(key, "external" | "orderfile"),
        ("extensions", false) => matches!(
            key,
            "objectformat" | "worktreeconfig" | "refstorage" | "relativeworktrees"
        ),
        // What `git lfs install --local` writes.
        ("filter", true) => matches!(
            (key, value),
            ("clean", "git-lfs clean -- %f")
                | ("smudge", "git-lfs smudge -- %f")
                | ("process", "git-lfs filter-process")
                | ("required", "true")
        ),
        _ => HARMLESS_SECTIONS.contains(&section),
    }
}

const CORE_SETTINGS: [&str; 22] = [
    "repositoryformatversion",
    "filemode",
    "logallrefupdates",
    "ignorecase",
    "precomposeunicode",
    "symlinks",
    "autocrlf",
    "safecrlf",
    "eol",
    "quotepath",
    "abbrev",
    "whitespace",
    "untrackedcache",
    "preloadindex",
    "longpaths",
    "protecthfs",
    "protectntfs",
    "checkstat",
    "trustctime",
    "compression",
    "sparsecheckout",
    "sparsecheckoutcone",
];

/// Without those for objects that are fetched when they are needed.
const REMOTE_SETTINGS: [&str; 11] = [
    "url",
    "pushurl",
    "fetch",
    "push",
    "mirror",
    "tagopt",
    "prune",
    "prunetags",
    "skipdefaultupdate",
    "skipfetchall",
    "gh-resolved",
];

/// Sections none of whose settings matter to a command that only reads.
const HARMLESS_SECTIONS: [&str; 28] = [
    "advice",
    "alias",
    "author",
    "blame",
    "branch",
    "color",
    "column",
    "commit",
    "committer",
    "credential",
    "feature",
    "fetch",
    "gc",
    "gui",
    "http",
    "index",
    "init",
    "lfs",
    "maintenance",
    "pack",
    "pull",
    "push",
    "rebase",
    "receive",
    "tag",
    "transfer",
    "url",
    "user",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_writes_itself_is_harmless() {
        let text = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
                    [remote \"origin\"]\n\turl = https://example.org/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                    # a comment\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\
                    [user]\n\tname = Ann\n[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n";
        assert_eq!(check_settings(text), Ok(None));
        let husky = "[core]\n\thooksPath = .husky/_\n";
        assert_eq!(check_settings(husky), Ok(Some(".husky/_".to_owned())));
    }

    #[test]
    fn what_may_run_a_program_is_found() {
        for (text, setting) in [
            ("[core]\n\tfsmonitor = ./evil", "core.fsmonitor"),
            ("[core]\n\tpager = ./evil", "core.pager"),
            ("[CORE]\n\tFsMonitor = ./evil", "core.fsmonitor"),
            ("[core]\n\tworktree = /etc", "core.worktree"),
            ("[diff]\n\texternal = ./evil", "diff.external"),
            ("[diff \"x\"]\n\ttextconv = ./evil", "diff.textconv"),
            ("[diff \"x\"]\n\tcommand = ./evil", "diff.command"),
            ("[filter \"x\"]\n\tclean = ./evil", "filter.clean"),
            ("[include]\n\tpath = ../evil", "include.path"),
            (
                "[includeIf \"gitdir:.\"]\n\tpath = ../evil",
                "includeif.path",
            ),
            ("[gpg]\n\tprogram = ./evil", "gpg.program"),
            ("[pager]\n\tdiff = ./evil", "pager.diff"),
            ("[remote \"o\"]\n\tuploadpack = ./evil", "remote.uploadpack"),
            ("[remote \"o\"]\n\tpromisor = true", "remote.promisor"),
            ("[core] fsmonitor = ./evil", "[core] fsmonitor = ./evil"),
            ("[diff.x]\n\tcommand = ./evil", "[diff.x]"),
            ("[core]\n\tabbrev = 7\\\n", "abbrev = 7\\"),
        ] {
            assert_eq!(check_settings(text), Err(setting.to_owned()), "{text}");
        }
    }
}
