//! The floor: each denial and each ask, against rules that allow everything.

use std::collections::HashMap;

use countersign_rules::{Effect, Floor, ToolAction, Verdict};

use crate::support::{Links, place, verdict_at};

const EVERYTHING: [&str; 4] = ["+Bash", "+Read", "+Edit", "+Write"];

fn floor() -> Floor {
    Floor {
        host_paths: [
            "/home/dev/.config/countersign",
            "/home/dev/.local/share/countersign",
            "/run/user/1000/countersign",
        ]
        .map(str::to_owned)
        .into(),
    }
}

fn said(action: ToolAction) -> (Effect, bool) {
    let links = Links(HashMap::from([(
        "/home/dev/proj/db",
        "/home/dev/.local/share/countersign",
    )]));
    let verdict: Verdict = verdict_at(action, place(), &links, &floor(), &EVERYTHING);
    (verdict.effect, verdict.is_on_the_floor())
}

fn shell(command: &str) -> (Effect, bool) {
    said(ToolAction::Shell {
        command: command.into(),
    })
}

#[test]
fn the_hosts_files_are_denied() {
    for path in [
        "~/.local/share/countersign/countersign.db",
        "~/.config/countersign/config.toml",
        "~/.config/countersign/rules.toml",
        "/run/user/1000/countersign/host.sock",
        "/home/dev/proj/../.config/countersign",
        "db/countersign.db",
    ] {
        assert_eq!(
            said(ToolAction::Read { path: path.into() }),
            (Effect::Deny, true),
            "{path}"
        );
        assert_eq!(
            said(ToolAction::Edit { path: path.into() }),
            (Effect::Deny, true),
            "{path}"
        );
    }
    for command in [
        "cat ~/.local/share/countersign/countersign.db",
        "sqlite3 /home/dev/.local/share/countersign/countersign.db .dump",
        "echo x > ~/.config/countersign/rules.toml",
        "curl --unix-socket /run/user/1000/countersign/host.sock http://x/",
        "cp db/countersign.db /tmp/x",
        "cd ~/.config && cat countersign/config.toml",
        "cat ~/.config/counter*/config.toml",
        "cat $HOME/.config/countersign/config.toml",
        "bash -c 'cat ~/.config/countersign/config.toml'",
        "rm -rf /home/dev/.local/share/countersign",
    ] {
        assert_eq!(shell(command), (Effect::Deny, true), "{command}");
    }
}

#[test]
fn what_decides_later_at_least_asks_before_it_changes() {
    for path in [
        ".countersign/rules.toml",
        ".git/hooks/pre-commit",
        ".git/config",
        ".claude/settings.json",
        ".codex/config.toml",
        ".cursor/mcp.json",
        ".vscode/tasks.json",
        ".mcp.json",
        "opencode.json",
        "~/.bashrc",
        "~/.profile",
        "~/.zshrc",
        "~/.config/fish/config.fish",
        "~/.gitconfig",
        "~/.ssh/authorized_keys",
        "/etc/profile",
        "sub/.GIT/config",
    ] {
        assert_eq!(
            said(ToolAction::Edit { path: path.into() }),
            (Effect::Ask, true),
            "{path}"
        );
    }
    for command in [
        "echo x > .git/hooks/pre-commit",
        "cp x .git/hooks/pre-commit",
        "tee .claude/settings.json",
        "cd .git && touch config",
        "mv x ~/.bashrc",
        "tool --out=.vscode/tasks.json",
        "sed -i s/a/b/ ~/.zshrc",
    ] {
        assert_eq!(shell(command), (Effect::Ask, true), "{command}");
    }
}

#[test]
fn reading_them_is_a_matter_of_rules() {
    for path in [".git/config", "~/.bashrc", ".claude/settings.json"] {
        assert_eq!(
            said(ToolAction::Read { path: path.into() }),
            (Effect::Allow, false),
            "{path}"
        );
    }
    assert_eq!(shell("cat .git/config"), (Effect::Allow, false));
}

#[test]
fn a_folder_that_holds_the_hosts_files_at_least_asks_before_it_changes() {
    for command in ["mv ~/.local/share /tmp/x", "rm -rf /run/user/1000"] {
        assert_eq!(shell(command), (Effect::Ask, true), "{command}");
    }
    assert_eq!(shell("ls ~/.local/share"), (Effect::Allow, false));
}
