//! What is known of programs: which run others, which read and write files, and which arguments
//! make a harmless one run or write something else.

/// Wrappers whose grammar is known, so that an allow looks through them.
pub(crate) const TRANSPARENT: [&str; 6] = ["timeout", "time", "nice", "nohup", "stdbuf", "command"];

/// Programs that run what they are given. A rule with a wildcard never allows them; the number says
/// how many plain words come before the program they run.
const RUNNERS: [(&str, usize); 88] = [
    ("chronic", 0),
    ("ifne", 0),
    ("pee", 0),
    ("mispipe", 0),
    ("lckdo", 0),
    ("eatmydata", 0),
    ("cpulimit", 0),
    ("dtach", 0),
    ("tmux", 0),
    ("screen", 0),
    ("caffeinate", 0),
    ("daemonize", 0),
    ("rlwrap", 0),
    ("sshpass", 0),
    ("torify", 0),
    ("dotenv", 0),
    ("cross-env", 0),
    ("dumb-init", 0),
    ("tini", 0),
    ("hyperfine", 0),
    ("nodemon", 0),
    ("concurrently", 0),
    ("aws-vault", 0),
    ("doppler", 0),
    ("foreman", 0),
    ("op", 0),
    ("setarch", 0),
    ("linux64", 0),
    ("jobs", 0),
    ("gosu", 1),
    ("su-exec", 1),
    ("env", 0),
    ("sudo", 0),
    ("doas", 0),
    ("su", 1),
    ("runuser", 1),
    ("pkexec", 0),
    ("xargs", 0),
    ("watch", 0),
    ("setsid", 0),
    ("ionice", 0),
    ("chrt", 1),
    ("taskset", 1),
    ("flock", 1),
    ("exec", 0),
    ("builtin", 0),
    ("eval", 0),
    ("trap", 0),
    ("coproc", 0),
    ("ssh", 1),
    ("chroot", 1),
    ("script", 0),
    ("strace", 0),
    ("ltrace", 0),
    ("gdb", 0),
    ("perf", 1),
    ("valgrind", 0),
    ("busybox", 0),
    ("toybox", 0),
    ("parallel", 0),
    ("unshare", 0),
    ("nsenter", 0),
    ("bwrap", 0),
    ("firejail", 0),
    ("proxychains", 0),
    ("proxychains4", 0),
    ("torsocks", 0),
    ("tsocks", 0),
    ("systemd-run", 0),
    ("systemd-inhibit", 0),
    ("dbus-run-session", 0),
    ("setpriv", 0),
    ("prlimit", 0),
    ("numactl", 0),
    ("catchsegv", 0),
    ("ld.so", 0),
    ("entr", 0),
    ("at", 1),
    ("batch", 0),
    ("expect", 0),
    ("unbuffer", 0),
    ("socat", 0),
    ("cgexec", 0),
    ("start-stop-daemon", 0),
    ("faketime", 1),
    ("fakeroot", 0),
    ("wine", 0),
    ("time", 0),
];

/// Programs that fetch or find another program by name and run it: a rule must name that one.
const LAUNCHERS: [&str; 8] = [
    "npx",
    "bunx",
    "uvx",
    "pnpx",
    "pipx",
    "dlx",
    "corepack",
    "nix-shell",
];

/// The same by subcommand.
const LAUNCHING: [(&str, &str); 44] = [
    ("docker-compose", "exec"),
    ("docker-compose", "run"),
    ("npm", "init"),
    ("npm", "create"),
    ("npm", "explore"),
    ("pnpm", "create"),
    ("yarn", "create"),
    ("yarn", "node"),
    ("bun", "create"),
    ("cargo", "watch"),
    ("kubectl", "attach"),
    ("docker", "attach"),
    ("docker", "exec"),
    ("docker", "run"),
    ("podman", "exec"),
    ("podman", "run"),
    ("kubectl", "exec"),
    ("kubectl", "run"),
    ("kubectl", "debug"),
    ("devbox", "run"),
    ("npm", "exec"),
    ("npm", "x"),
    ("yarn", "dlx"),
    ("yarn", "exec"),
    ("pnpm", "dlx"),
    ("pnpm", "exec"),
    ("bun", "x"),
    ("pipx", "run"),
    ("uv", "run"),
    ("poetry", "run"),
    ("pipenv", "run"),
    ("hatch", "run"),
    ("pdm", "run"),
    ("rye", "run"),
    ("bundle", "exec"),
    ("nix", "run"),
    ("nix", "shell"),
    ("nix", "develop"),
    ("direnv", "exec"),
    ("mise", "exec"),
    ("asdf", "exec"),
    ("rbenv", "exec"),
    ("pyenv", "exec"),
    ("heroku", "run"),
];

const SHELLS: [&str; 14] = [
    "sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "yash",
    "pwsh", "nu",
];

const INTERPRETERS: [&str; 22] = [
    "python",
    "python2",
    "python3",
    "node",
    "nodejs",
    "deno",
    "bun",
    "ruby",
    "perl",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "wish",
    "Rscript",
    "julia",
    "osascript",
    "groovy",
    "scala",
    "ghci",
    "irb",
    "ts-node",
];

/// Commands of the shell that change what later commands mean, or run text.
const SHELL_CHANGING: [&str; 34] = [
    "export",
    "declare",
    "typeset",
    "local",
    "readonly",
    "alias",
    "unalias",
    "hash",
    "enable",
    "set",
    "shopt",
    "source",
    ".",
    "eval",
    "trap",
    "exec",
    "builtin",
    "coproc",
    "read",
    "mapfile",
    "readarray",
    "let",
    "bind",
    "complete",
    "compgen",
    "compopt",
    "unset",
    "getopts",
    "fc",
    "history",
    "popd",
    "dirs",
    "caller",
    "suspend",
];

pub(crate) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Runs whatever code it is given.
pub(crate) fn is_interpreter(name: &str) -> bool {
    let versionless = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    is_shell(name) || INTERPRETERS.contains(&name) || INTERPRETERS.contains(&versionless)
}

/// Runs whatever program it is given.
pub(crate) fn is_wrapper(name: &str) -> bool {
    runner(name).is_some() || LAUNCHERS.contains(&name) || TRANSPARENT.contains(&name)
}

/// How many plain words a runner takes before the program it runs.
pub(crate) fn runner(name: &str) -> Option<usize> {
    RUNNERS
        .iter()
        .find(|(own, _)| *own == name)
        .map(|(_, words)| *words)
}

/// How many words belong to a launcher itself, before the program it runs.
pub(crate) fn launcher_words(words: &[String]) -> Option<usize> {
    let name = words.first()?.as_str();
    if LAUNCHERS.contains(&name) {
        return Some(1);
    }
    if !LAUNCHING.iter().any(|(own, _)| *own == name) {
        return None;
    }
    // Options with values may stand before the subcommand, so every word counts. Behind `--` they
    // are the words of the program that is run.
    let own = words.iter().take_while(|word| *word != "--");
    let mut behind_option = false;
    for (at, word) in own.enumerate().skip(1) {
        if LAUNCHING.contains(&(name, word.as_str())) {
            return Some(at + 1);
        }
        // A word behind an option may be that option's value, and then the subcommand is still to
        // come.
        if !behind_option && settles_the_subcommand(name, word) {
            return None;
        }
        behind_option = word.starts_with('-');
    }
    None
}

/// Launchers that name a container or image before the program.
pub(crate) fn is_container_launcher(name: &str) -> bool {
    matches!(
        name,
        "docker" | "podman" | "kubectl" | "docker-compose" | "heroku" | "direnv"
    )
}

/// Subcommands that run nothing by name: the words after them are theirs.
fn settles_the_subcommand(name: &str, word: &str) -> bool {
    match name {
        "npm" | "pnpm" | "yarn" | "bun" => matches!(
            word,
            "run"
                | "run-script"
                | "test"
                | "t"
                | "start"
                | "stop"
                | "ci"
                | "ls"
                | "list"
                | "install"
                | "i"
                | "add"
                | "audit"
                | "outdated"
                | "view"
                | "why"
                | "config"
                | "pack"
                | "publish"
        ),
        "cargo" => matches!(
            word,
            "build"
                | "test"
                | "check"
                | "clippy"
                | "fmt"
                | "tree"
                | "bench"
                | "doc"
                | "run"
                | "add"
        ),
        "kubectl" => matches!(
            word,
            "get" | "describe" | "logs" | "top" | "apply" | "delete"
        ),
        "docker" | "podman" => matches!(
            word,
            "ps" | "images" | "logs" | "inspect" | "build" | "pull" | "push" | "stop" | "rm"
        ),
        _ => false,
    }
}

pub(crate) fn changes_the_shell(name: &str) -> bool {
    SHELL_CHANGING.contains(&name)
}

/// What a program does to the files its arguments name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FileUse {
    Nothing,
    /// A shell reads the names that a wildcard fits.
    Lists,
    Reads,
    Writes,
    /// What is done to them is not known.
    Unknown,
}

/// What git does to the files its arguments name.
pub(crate) fn git_touches(words: &[String]) -> FileUse {
    let sub = words.iter().skip(1).find(|word| !word.starts_with('-'));
    match sub.map(String::as_str) {
        Some(
            "status" | "diff" | "log" | "show" | "branch" | "add" | "commit" | "rev-parse"
            | "ls-files" | "blame" | "grep" | "tag" | "remote" | "describe" | "fetch",
        ) => FileUse::Reads,
        _ => FileUse::Unknown,
    }
}

/// Whether a program that usually reads writes its files back.
pub(crate) fn edits_in_place(name: &str, words: &[String]) -> bool {
    matches!(name, "sed" | "yq" | "perl" | "ruby")
        && words.iter().skip(1).any(|word| {
            word.starts_with("--in-place") || (word.starts_with("-i") && !word.starts_with("--"))
        })
}

/// Whether a program can leave a link where it writes, so that what a path leads to is not known
/// afterwards.
pub(crate) fn makes_links(name: &str, words: &[String]) -> bool {
    match name {
        // Without options it follows links and leaves plain files.
        "cp" => words.iter().any(|word| word.starts_with('-')),
        _ => matches!(name, "ln" | "link" | "mv" | "rename" | "stow"),
    }
}

/// Whether a program puts files in place whose names and kinds come from elsewhere: an archive, a
/// patch, a branch, another machine.
pub(crate) fn unpacks(name: &str, arguments: &[String]) -> bool {
    match name {
        "git" => changes_work_tree(arguments),
        _ => matches!(
            name,
            "rsync"
                | "scp"
                | "sftp"
                | "tar"
                | "bsdtar"
                | "gtar"
                | "cpio"
                | "pax"
                | "unzip"
                | "7z"
                | "7za"
                | "7zr"
                | "unar"
                | "unrar"
                | "patch"
                | "mount"
                | "umount"
                | "fusermount"
        ),
    }
}

fn changes_work_tree(arguments: &[String]) -> bool {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["checkout", "-b", _] | ["switch", "-c", _] = words.as_slice() {
        // A new branch at the same commit.
        return false;
    }
    let sub = arguments.iter().find(|word| !word.starts_with('-'));
    !matches!(
        sub.map(String::as_str),
        Some(
            "status"
                | "diff"
                | "log"
                | "show"
                | "branch"
                | "add"
                | "commit"
                | "rev-parse"
                | "ls-files"
                | "ls-tree"
                | "blame"
                | "grep"
                | "tag"
                | "remote"
                | "describe"
                | "fetch"
                | "push"
                | "cat-file"
                | "rev-list"
                | "shortlog"
                | "reflog"
                | "config"
                | "merge-base"
                | "name-rev"
                | "for-each-ref"
                | "show-ref"
                | "count-objects"
                | "version"
                | "help"
        )
    )
}

/// Programs to which the directory they run in means nothing but where paths begin.
const DIRECTORY_FREE: [&str; 80] = [
    "echo",
    "printf",
    "true",
    "false",
    ":",
    "sleep",
    "pwd",
    "date",
    "whoami",
    "id",
    "uname",
    "hostname",
    "basename",
    "dirname",
    "seq",
    "yes",
    "which",
    "type",
    "kill",
    "expr",
    "cd",
    "cat",
    "head",
    "tail",
    "less",
    "more",
    "bat",
    "nl",
    "tac",
    "rev",
    "wc",
    "sort",
    "uniq",
    "cut",
    "tr",
    "paste",
    "join",
    "comm",
    "fold",
    "fmt",
    "column",
    "expand",
    "unexpand",
    "grep",
    "egrep",
    "fgrep",
    "zgrep",
    "rg",
    "ag",
    "ack",
    "sed",
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "jq",
    "yq",
    "diff",
    "cmp",
    "file",
    "stat",
    "ls",
    "dir",
    "tree",
    "du",
    "find",
    "fd",
    "xxd",
    "od",
    "hexdump",
    "strings",
    "base64",
    "base32",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "cksum",
    "readlink",
    "realpath",
];

/// Whether neither settings nor scripts of the directory it runs in change what a program does.
pub(crate) fn ignores_its_directory(name: &str) -> bool {
    DIRECTORY_FREE.contains(&name)
}

/// Whether an argument that begins with a wildcard cannot turn into an option that matters.
pub(crate) fn has_no_options_that_matter(name: &str) -> bool {
    matches!(
        name,
        "ls" | "cat"
            | "head"
            | "tail"
            | "wc"
            | "echo"
            | "printf"
            | "stat"
            | "nl"
            | "tac"
            | "cut"
            | "md5sum"
            | "sha1sum"
            | "sha256sum"
            | "sha512sum"
            | "cksum"
            | "basename"
            | "dirname"
            | "du"
            | "grep"
            | "egrep"
            | "fgrep"
            | "diff"
            | "cmp"
            | "comm"
            | "strings"
    )
}

/// Variables that change no program's behaviour in a way that matters.
pub(crate) fn is_safe_variable(name: &str) -> bool {
    matches!(
        name,
        "NODE_ENV"
            | "RUST_BACKTRACE"
            | "RUST_LOG"
            | "NO_COLOR"
            | "FORCE_COLOR"
            | "LANG"
            | "LC_ALL"
            | "TZ"
            | "PYTHONUNBUFFERED"
    )
}
