//! Commands in one form: whether an agent asks for one or starts one in a terminal, the same
//! command has the same text.
//!
//! Invariant: two different commands never get one text. A shell is looked through only where its
//! name can mean nothing but the shell that runs our text.

use std::path::{Component, Path, PathBuf};

use crate::adapter::RunRequest;

/// Shells whose text we run as it is. Others, a `bash` in some folder or one with another syntax,
/// stay words like any program.
const SHELLS: [&str; 6] = [
    "bash",
    "sh",
    "/bin/bash",
    "/bin/sh",
    "/usr/bin/bash",
    "/usr/bin/sh",
];

/// `["bash", "-lc", text]` is the text; any other words are quoted and joined.
pub(super) fn join_args(args: &[&str]) -> Option<String> {
    match args {
        [] => None,
        [shell, "-c" | "-lc", text] if SHELLS.contains(shell) => Some((*text).to_owned()),
        _ => Some(
            args.iter()
                .map(|word| quote(word))
                .collect::<Vec<_>>()
                .join(" "),
        ),
    }
}

/// What `terminal/create` runs. A command without arguments is text for a shell, as editors read it.
pub(super) fn run_request(
    command: &str,
    args: &[String],
    env: Vec<(String, String)>,
    cwd: Option<&str>,
    session_cwd: &str,
) -> Option<RunRequest> {
    let argv: Vec<&str> = std::iter::once(command)
        .chain(args.iter().map(String::as_str))
        .collect();
    let command = match argv.as_slice() {
        [text] => (*text).to_owned(),
        argv => join_args(argv)?,
    };
    // The kernel would end the command at the zero byte, after another text was judged.
    if command.trim().is_empty() || command.contains('\0') {
        return None;
    }
    Some(RunRequest {
        command,
        cwd: folder(cwd, session_cwd),
        env,
    })
}

/// A folder that is not the session's own, absolute.
pub(super) fn folder(cwd: Option<&str>, session_cwd: &str) -> Option<PathBuf> {
    let folder = absolute(cwd?, session_cwd);
    (folder != absolute("", session_cwd)).then_some(folder)
}

/// A path as it stands from the session's folder, without `.`; `..` stays, because only the file
/// system knows what it means behind a link.
pub(super) fn absolute(path: &str, session_cwd: &str) -> PathBuf {
    Path::new(session_cwd)
        .join(path)
        .components()
        .filter(|part| !matches!(part, Component::CurDir))
        .collect()
}

fn quote(word: &str) -> String {
    let is_plain = word
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "_-./:=@%+,".contains(letter));
    if !word.is_empty() && is_plain {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_the_text_a_shell_would_run() {
        for (args, text) in [
            (&["bash", "-lc", "ls && id"][..], Some("ls && id")),
            (&["/bin/sh", "-c", "ls"], Some("ls")),
            (&["/tmp/bash", "-c", "ls"], Some("/tmp/bash -c ls")),
            (&["zsh", "-lc", "ls"], Some("zsh -lc ls")),
            (&["bash", "-c", "ls", "x"], Some("bash -c ls x")),
            (&["echo", "a b", "it's"], Some(r"echo 'a b' 'it'\''s'")),
            (&["rm", "-rf", "$HOME;x"], Some("rm -rf '$HOME;x'")),
            (&[""], Some("''")),
            (&[], None),
        ] {
            assert_eq!(join_args(args).as_deref(), text, "{args:?}");
        }
    }

    #[test]
    fn a_terminal_and_an_ask_give_one_request() {
        let run = |command, args: &[&str], cwd| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            run_request(command, &args, Vec::new(), cwd, "/p")
        };
        let expected = RunRequest {
            command: "touch a".into(),
            cwd: None,
            env: Vec::new(),
        };
        assert_eq!(
            run("/bin/sh", &["-c", "touch a"], Some("/p/.")),
            Some(expected.clone())
        );
        assert_eq!(run("touch", &["a"], None), Some(expected.clone()));
        assert_eq!(run("touch a", &[], Some("/p")), Some(expected.clone()));
        assert_eq!(
            run("touch", &["a"], Some("sub")),
            Some(RunRequest {
                cwd: Some("/p/sub".into()),
                ..expected
            })
        );
        assert_eq!(run(" ", &[], None), None);
    }
}
