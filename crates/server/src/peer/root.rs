//! The process that an agent's hook was started by: the root of that agent.
//!
//! Invariants: a root is found by walking up from the calling process and never by what it says. If
//! a person's own shell or session is reached first there is no root, because everything that the
//! person starts would become the agent.

use std::fs;

use countersign_core::event::ProcessKey;
use countersign_daemon::{TERMINAL_RUNNER_COMMAND, procfs};

/// What this program is called.
const OWN_PROGRAM: &str = "countersign";

/// Shells, by the names of their programs.
const SHELLS: [&str; 16] = [
    "ash", "bash", "busybox", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "oksh", "pwsh",
    "sh", "tcsh", "xonsh", "zsh",
];

// A name that is missing here makes that program, and all it starts, an agent: people then cannot
// answer from it. A name too many refuses the hooks of what it starts. Neither allows anything.
/// Programs that a person's session consists of, and those that start services.
const SESSIONS: [&str; 36] = [
    "abduco",
    "alacritty",
    "atd",
    "containerd-shim",
    "cron",
    "crond",
    "dbus-daemon",
    "docker-init",
    "doas",
    "dtach",
    "dumb-init",
    "foot",
    "ghostty",
    "gnome-shell",
    "gnome-terminal-server",
    "init",
    "kitty",
    "konsole",
    "login",
    "mosh-server",
    "plasmashell",
    "ptyxis",
    "runit",
    "s6-svscan",
    "screen",
    "script",
    "sshd",
    "sshd-session",
    "su",
    "sudo",
    "systemd",
    "tini",
    "tmux",
    "wezterm-gui",
    "xterm",
    "zellij",
];

/// Options of shells that take the word after them.
const WITH_VALUE: [&str; 10] = [
    "--rcfile",
    "--init-file",
    "--init-command",
    "--features",
    "--profile",
    "-o",
    "+o",
    "-O",
    "+O",
    "-C",
];

/// What an ancestor of a hook is.
#[derive(Debug, PartialEq, Eq)]
enum AncestorRole {
    /// A shell that only runs a command for its own parent.
    PassesOn,
    /// The program that called the hook.
    Root,
    /// A person's session, or a process above everybody; with a description.
    Person(String),
}

/// The root above a calling process. `lineage` begins with the caller.
pub(crate) fn find_root(lineage: &[ProcessKey]) -> Result<ProcessKey, String> {
    let mut above = lineage.iter().copied().peekable();
    let caller = above.peek().copied();
    // Only the first process, and by arguments that it could have forged: a caller that claims to
    // be our command is skipped, and its parent becomes the root, which includes the caller.
    if caller.is_some_and(|caller| is_messenger(&read_arguments(caller.pid))) {
        above.next();
    }
    for process in above {
        let step = if process.pid == 1 {
            AncestorRole::Person("the first process of the machine".to_owned())
        } else {
            classify_process(process.pid)
        };
        // After it was classified: if it still exists, its number was not reused while its program
        // and arguments were read.
        if !procfs::exists(process) {
            return Err("a process above it has ended".to_owned());
        }
        match step {
            AncestorRole::PassesOn => {}
            AncestorRole::Root => return Ok(process),
            AncestorRole::Person(what) => return Err(format!("it was started by {what}")),
        }
    }
    Err("no process above it is known".to_owned())
}

/// Whether these are the arguments of `countersign hook` or `countersign mcp`, which agents start.
fn is_messenger(arguments: &[String]) -> bool {
    let command = arguments.get(1).map(String::as_str);
    matches!(command, Some("hook" | "mcp"))
}

fn classify_process(pid: u32) -> AncestorRole {
    match read_program_name(pid) {
        Some(program) => classify_program(&program, &read_arguments(pid)),
        None => AncestorRole::Person("a process whose program cannot be seen".to_owned()),
    }
}

fn classify_program(program: &str, arguments: &[String]) -> AncestorRole {
    if SESSIONS.contains(&program) {
        return AncestorRole::Person(format!("`{program}`, which is no agent"));
    }
    // What runs a person's own terminal, as a terminal emulator does.
    let command = arguments.get(1).map(String::as_str);
    if program == OWN_PROGRAM && command == Some(TERMINAL_RUNNER_COMMAND) {
        return AncestorRole::Person("a terminal of a person".to_owned());
    }
    if !SHELLS.contains(&program) {
        return AncestorRole::Root;
    }
    match classify_shell(arguments) {
        ShellInput::CommandText => AncestorRole::PassesOn,
        ShellInput::ScriptFile => AncestorRole::Root,
        ShellInput::Person => AncestorRole::Person(format!("a person's shell, `{program}`")),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum ShellInput {
    /// The text after `-c`.
    CommandText,
    ScriptFile,
    /// What a person types.
    Person,
}

fn classify_shell(arguments: &[String]) -> ShellInput {
    // `login` and terminals put a dash before the name of a login shell.
    if arguments.first().is_none_or(|name| name.starts_with('-')) {
        return ShellInput::Person;
    }
    let mut rest = arguments.iter().skip(1).map(String::as_str);
    let mut interactive = false;
    while let Some(word) = rest.next() {
        let letters = word.strip_prefix('-').filter(|_| !word.starts_with("--"));
        match letters {
            _ if WITH_VALUE.contains(&word) => drop(rest.next()),
            Some("Command" | "command") => return ShellInput::CommandText,
            // Letters that stand together, as in `-lc`. A longer word is an option with a name that
            // happens to contain a `c`, as `pwsh -ExecutionPolicy`.
            Some(letters) if letters.contains('c') && letters.len() <= 4 => {
                return ShellInput::CommandText;
            }
            Some(letters) => interactive |= letters.contains('i') || letters.is_empty(),
            None if word == "--command" => return ShellInput::CommandText,
            None if word.starts_with("--") || word.starts_with('+') => {}
            None if interactive => return ShellInput::Person,
            // The applet of `busybox sh`, not a script.
            None if SHELLS.contains(&word) => {}
            None => return ShellInput::ScriptFile,
        }
    }
    ShellInput::Person
}

fn read_program_name(pid: u32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    // The kernel adds this to a program that was replaced while it runs, as by an update.
    Some(name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned())
}

fn read_arguments(pid: u32) -> Vec<String> {
    let words = procfs::read_arguments(pid).unwrap_or_default();
    words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(line: &str) -> ShellInput {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        classify_shell(&arguments)
    }

    #[test]
    fn a_shell_with_words_of_another_passes_them_on() {
        for line in [
            "/bin/sh -c x",
            "bash -lc x",
            "zsh -c -l x",
            "bash -o pipefail -c x",
            "bash --norc -ec x",
            "pwsh -Command x",
            "fish --command x",
            "busybox sh -c x",
        ] {
            assert_eq!(runs(line), ShellInput::CommandText, "{line}");
        }
    }

    #[test]
    fn a_shell_that_somebody_types_into_is_a_persons() {
        for line in [
            "",
            "bash",
            "-bash",
            "-zsh -c x",
            "bash -l",
            "bash --login",
            "bash --init-file /x/integration.sh",
            "bash --rcfile f -i",
            "zsh -o nohup",
            "bash -i script",
            "fish --init-command x",
            "busybox sh",
            "sh -s",
        ] {
            assert_eq!(runs(line), ShellInput::Person, "{line}");
        }
    }

    #[test]
    fn a_script_is_a_program_like_any_other() {
        for line in ["sh ./agent.sh --cc", "bash -eu x.sh", "dash x -c y"] {
            assert_eq!(runs(line), ShellInput::ScriptFile, "{line}");
        }
        let arguments = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            classify_program("claude", &arguments("claude -p x")),
            AncestorRole::Root
        );
        assert_eq!(
            classify_program("node", &arguments("node cli.js")),
            AncestorRole::Root
        );
        assert_eq!(
            classify_program("tmux", &arguments("tmux new")),
            AncestorRole::Person("`tmux`, which is no agent".to_owned())
        );
    }

    #[test]
    fn only_our_own_messengers_are_passed_over() {
        let arguments = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(is_messenger(&arguments("/usr/bin/countersign hook claude")));
        assert!(is_messenger(&arguments("countersign mcp --socket s")));
        assert!(!is_messenger(&arguments("curl --unix-socket s")));
    }

    #[test]
    fn nobody_above_is_no_root() {
        assert!(find_root(&[]).is_err());
        let first = ProcessKey {
            pid: 1,
            start_time: 0,
        };
        assert!(find_root(&[first]).is_err());
    }
}
