//! Commands with wildcards and links: whatever is allowed is run in a real bash, in a scratch tree
//! full of hostile links, and must touch nothing that is denied or guarded.
#![no_main]

use std::sync::{LazyLock, Mutex};

use countersign_rules::Effect;
use libfuzzer_sys::fuzz_target;

// The same tree that the tests of the rules use; they have no library of their own to share.
#[path = "../../crates/rules/tests/it/scratch.rs"]
mod scratch;

static TREE: LazyLock<Mutex<scratch::ScratchTree>> =
    LazyLock::new(|| Mutex::new(scratch::ScratchTree::new()));

/// Commands; `@` is a path that is made of the input.
const TEMPLATES: &[&str] = &[
    "cat @", "cat @ @", "cat < @", "head -n 1 @", "grep -n . @", "grep -r . @", "grep -R . @",
    "grep -e @ @", "grep -f @ a", "grep -v -- @ @", "ls @", "ls -R @", "ls -L @", "find @ -type f",
    "find -L @ -name x", "sort @ -k 1", "sort -m @ a", "wc -l @", "du -a @", "sed -n p @", "awk 1 @",
    "diff -r @ src", "tee @", "tee -a a @", "cp a @", "cp @ out/", "cp -r @ out/", "cp -rL @ out/",
    "cp @ ~", "cp -r @ ~", "cp -a @ z", "mv @ out/", "mv @ z", "mv a @", "ln -s @ z", "ln -s @ z1",
    "ln -sfn @ out", "touch @", "mkdir -p @", "rm -r @", "chmod -R 755 @", "truncate -s 0 @",
    "install a @", "tar -cf out/x.tar @", "tar -C @ -cf - .", "cd @", "pushd @", "echo @", "printf %s @",
    "echo x > @", "echo x >> @", "cat z/@", "cat z*/@", "cat z", "ls z/", "test -f @", "stat @",
    "basename @", "split a @", "dd if=@", "uniq a @", "(cd @ && cat id_rsa)", "cat @ | tee @",
];

const JOINS: &[&str] = &[" && ", "; ", " | ", " || ", " & ", "\n"];

const STARTS: &[&str] = &["", "./", "~/", "/", "~~/", "../", "up/", "hm/", "~~/proj/", "src/../"];

const NAMES: &[&str] = &[
    ".ssh", "id_rsa", "config", ".env", "secrets", "key.pem", "deep", "token", ".git", "hooks",
    "pre-commit", ".claude", "settings.json", ".bashrc", "k1", "key", "up", "hm", "gl", "cl", "rc",
    "ho", "run", "host.sock", "countersign.db", "linked", "back", "ssh", "env.txt", "fake.rs", "src",
    "main.rs", "docs", "out", "pack", ".local", "share", "countersign", "proj", "selfproc", "cwd",
    "..", ".", "a", "z", "other", ".mcp.json", ".envrc", ".aws", "credentials", "proc", "self", "root",
];

/// Numbers from the input; zero when there are no more.
struct Choices<'d>(std::slice::Iter<'d, u8>);

impl Choices<'_> {
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % end
    }

    fn of<'l>(&mut self, list: &[&'l str]) -> &'l str {
        list[self.below(list.len())]
    }

    fn command(&mut self) -> String {
        let mut text = self.part();
        for _ in 0..self.below(3) {
            text.push_str(self.of(JOINS));
            text.push_str(&self.part());
        }
        text
    }

    fn part(&mut self) -> String {
        let pieces: Vec<&str> = self.of(TEMPLATES).split('@').collect();
        let mut text = pieces[0].to_owned();
        for piece in &pieces[1..] {
            text.push_str(&self.path());
            text.push_str(piece);
        }
        text
    }

    fn path(&mut self) -> String {
        let mut path = self.of(STARTS).to_owned();
        for at in 0..=self.below(4) {
            if at > 0 {
                path.push('/');
            }
            let name = self.of(NAMES);
            path.push_str(&self.changed(name));
        }
        if self.below(8) == 7 {
            path.push('/');
        }
        path
    }

    /// A name with wildcards, quotes or braces in it.
    fn changed(&mut self, name: &str) -> String {
        let chars: Vec<char> = name.chars().collect();
        let at = self.below(chars.len());
        let head: String = chars[..at].iter().collect();
        let tail: String = chars[at + 1..].iter().collect();
        let c = chars[at];
        match self.below(16) {
            0..=3 => name.to_owned(),
            4 => format!("{head}?{tail}"),
            5 => format!("{head}*"),
            6 => format!("{head}*{tail}"),
            7 => format!("{head}[{c}]{tail}"),
            8 => format!("{head}[!{}]{tail}", char::from(b'a' + self.below(26) as u8)),
            9 => format!("{head}[\"!\"{c}]{tail}"),
            10 => format!("{head}[[:alnum:].]{tail}"),
            11 => format!("{head}\"{c}\"{tail}"),
            12 => format!("{head}\\{c}{tail}"),
            13 => format!("{head}{{{c},x}}{tail}"),
            14 => format!("*{tail}"),
            _ => format!("{head}[a-z]{tail}"),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let tree = TREE.lock().unwrap();
    let command = tree.spelled(&Choices(data.iter()).command());
    if tree.judge(&command).effect != Effect::Allow {
        return;
    }
    let touched = tree.run(&command);
    assert!(touched.is_empty(), "allowed: {command}\n{touched:#?}");
});
