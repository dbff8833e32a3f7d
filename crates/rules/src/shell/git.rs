//! Dangerous arguments of git: its configuration, other repositories, and helpers it runs.

use super::hazards::abbreviates;

/// Options before the subcommand that change nothing that matters.
const GLOBAL_HARMLESS: [&str; 9] = [
    "--no-pager",
    "-P",
    "--version",
    "-v",
    "--help",
    "-h",
    "--no-optional-locks",
    "--literal-pathspecs",
    "--no-advice",
];

/// Subcommands that run nothing but git by themselves. Any other is one, an extension or an alias.
const KNOWN: [&str; 69] = [
    "gc",
    "fsck",
    "help",
    "show-branch",
    "check-attr",
    "lfs",
    "version",
    "hash-object",
    "status",
    "diff",
    "log",
    "show",
    "branch",
    "add",
    "commit",
    "fetch",
    "pull",
    "push",
    "clone",
    "ls-files",
    "ls-tree",
    "ls-remote",
    "blame",
    "annotate",
    "rev-parse",
    "rev-list",
    "switch",
    "checkout",
    "tag",
    "describe",
    "shortlog",
    "stash",
    "reset",
    "restore",
    "rm",
    "mv",
    "merge",
    "rebase",
    "cherry-pick",
    "revert",
    "clean",
    "remote",
    "worktree",
    "config",
    "grep",
    "cat-file",
    "name-rev",
    "merge-base",
    "reflog",
    "apply",
    "am",
    "format-patch",
    "archive",
    "bisect",
    "submodule",
    "sparse-checkout",
    "notes",
    "show-ref",
    "for-each-ref",
    "symbolic-ref",
    "diff-tree",
    "diff-index",
    "diff-files",
    "count-objects",
    "check-ignore",
    "whatchanged",
    "range-diff",
    "cherry",
    "init",
];

/// Long options that run or write, in any subcommand.
const LONG: [&str; 27] = [
    "no-index",
    "untracked",
    "no-exclude-standard",
    "include-untracked",
    "stdin-paths",
    "batch",
    "batch-check",
    "batch-command",
    "pathspec-from-file",
    "web",
    "strategy",
    "upload-pack",
    "receive-pack",
    "exec",
    "open-files-in-pager",
    "ext-diff",
    "textconv",
    "output",
    "output-directory",
    "template",
    "separate-git-dir",
    "config",
    "tree-filter",
    "index-filter",
    "env-filter",
    "editor",
    "unsafe-paths",
];

/// Their harmless namesakes.
const BUT: [&str; 12] = [
    "strategy-option",
    "stat",
    "text",
    "output-indicator-new",
    "output-indicator-old",
    "exclude",
    "exclude-standard",
    "edit",
    "end-of-options",
    "exit-code",
    "no-ext-diff",
    "no-textconv",
];

/// Says which argument is dangerous, if one is.
pub(crate) fn hazard(arguments: &[String]) -> Option<String> {
    let at = arguments.iter().position(|word| !word.starts_with('-'))?;
    // Options before the subcommand change the repository, its settings or the programs git runs.
    // In `git -C x log` the word `x` is taken for the subcommand, but `-C` has been refused before
    // that.
    let mut globals = arguments[..at].iter();
    if let Some(global) = globals.find(|word| !GLOBAL_HARMLESS.contains(&word.as_str())) {
        return Some(global.clone());
    }
    let (sub, rest) = (arguments[at].as_str(), &arguments[at + 1..]);
    // An alias of the repository's settings can run any program under any other name.
    if !KNOWN.contains(&sub) {
        return Some(sub.to_owned());
    }
    rest.iter()
        .find(|word| is_dangerous(sub, word) || is_magic_path(word) || leaves_tree(sub, word))
        .or_else(|| dangerous_word(sub, rest))
        .cloned()
}

/// A pathspec that git reads in its own way: `:(top)x`, `:/x`, `:!x`.
fn is_magic_path(word: &str) -> bool {
    word.strip_prefix(':')
        .is_some_and(|rest| rest.starts_with(['(', '/', '!', '^']))
}

/// With a path outside its work tree `git diff` compares any two folders.
fn leaves_tree(sub: &str, word: &str) -> bool {
    let outside = word.starts_with(['/', '~']) || word == ".." || word.starts_with("../");
    sub == "diff" && (outside || word.contains("/../"))
}

fn is_dangerous(sub: &str, word: &str) -> bool {
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        // Git takes the beginning of a long option for it, so `--upl` is as dangerous as the whole.
        return abbreviates(name, &LONG) && !BUT.contains(&name);
    }
    let talks = matches!(
        sub,
        "fetch" | "pull" | "push" | "clone" | "ls-remote" | "archive"
    );
    if talks && word.contains("::") {
        // A transport helper: `ext::command`.
        return true;
    }
    let letters = match sub {
        "grep" => "O",
        "clean" => "xX",
        "stash" => "ua",
        "help" => "wi",
        "clone" => "uc",
        "rebase" => "xis",
        "merge" | "pull" => "s",
        "format-patch" | "archive" => "o",
        _ => return false,
    };
    // Anywhere in the word: letters are bundled, and which of them takes the rest is not worked
    // out.
    let short = word.strip_prefix('-').unwrap_or_default();
    short.contains(|letter| letters.contains(letter))
}

fn dangerous_word<'w>(sub: &str, rest: &'w [String]) -> Option<&'w String> {
    let first = rest.iter().find(|word| !word.starts_with('-'));
    match (sub, first.map(String::as_str)) {
        ("apply" | "am", _) if !only_shows(rest) => rest.first(),
        ("stash", _) if rest.iter().any(|word| word == "--all") => rest.first(),
        ("sparse-checkout", Some(_))
        | ("lfs", Some("install" | "update" | "uninstall"))
        | ("bisect", Some("run"))
        | ("submodule", Some("foreach" | "update" | "add"))
        | ("remote", Some("add" | "set-url" | "update"))
        | ("worktree", Some("add"))
        | ("notes" | "replace", Some("edit"))
        | ("maintenance", Some("start" | "register")) => first,
        ("config", _) if !reads_config(rest) => rest.first(),
        _ => None,
    }
}

/// A patch names the files it changes itself, guarded ones too.
fn only_shows(rest: &[String]) -> bool {
    let shows = ["--check", "--stat", "--numstat", "--summary"];
    rest.iter().any(|word| shows.contains(&word.as_str()))
        && !rest.iter().any(|word| word == "--apply")
}

/// Setting a value can name a program to run; reading one cannot.
fn reads_config(rest: &[String]) -> bool {
    let by_option = rest.iter().any(|word| {
        matches!(
            word.as_str(),
            "--get" | "--get-all" | "--get-regexp" | "--get-urlmatch" | "--list" | "-l"
        )
    });
    let changes = rest.iter().any(|word| {
        matches!(
            word.as_str(),
            "-e" | "--edit" | "--add" | "--unset" | "--unset-all" | "--replace-all"
        )
    });
    let by_name = matches!(rest.first().map(String::as_str), Some("get" | "list"));
    (by_option || by_name) && !changes
}
