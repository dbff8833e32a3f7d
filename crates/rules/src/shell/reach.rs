//! What a command reaches: everything a deny must see, which is more than what would happen.
//!
//! Wrappers are looked through by taking every word that may be a program for one; text that a
//! shell would read is read. Invariant: no limit skips a deny. When one is reached, every word of
//! the whole text counts as a program.

use std::collections::HashSet;
use std::sync::Arc;

use super::first;
use super::programs::{
    TRANSPARENT, Touches, is_container_launcher, is_shell, launcher_words, runner,
    takes_pattern_first, touches,
};
use super::script::{RedirectKind, Simple};
use super::word::Word;

/// Deeper nesting of text in text is not read.
const DEPTH_MAX: usize = 8;
/// How many programs of one command have their files looked at.
const PROGRAMS_MAX: usize = 16;

/// The words of one command, and their text.
#[derive(Debug)]
struct Words {
    all: Vec<String>,
    text: String,
    /// Where each word begins in the text.
    at: Vec<usize>,
}

impl Words {
    fn new(all: Vec<String>) -> Self {
        let mut text = String::with_capacity(all.iter().map(|word| word.len() + 1).sum());
        let mut at = Vec::with_capacity(all.len());
        for word in &all {
            if !at.is_empty() {
                text.push(' ');
            }
            at.push(text.len());
            text.push_str(word);
        }
        Self { all, text, at }
    }
}

/// A command, or one that it would run, as a deny matches it.
#[derive(Clone, Debug)]
pub(crate) struct DenyForm {
    words: Arc<Words>,
    head: usize,
}

impl DenyForm {
    /// The program, as it was written.
    pub(crate) fn name(&self) -> &str {
        &self.words.all[self.head]
    }

    /// The program without its folder.
    pub(crate) fn base(&self) -> &str {
        base(self.name())
    }

    /// The words after the program.
    pub(crate) fn rest(&self) -> &[String] {
        &self.words.all[self.head + 1..]
    }

    /// All words joined by one blank.
    pub(crate) fn text(&self) -> &str {
        &self.words.text[self.words.at[self.head]..]
    }

    /// The same with the program without its folder.
    pub(crate) fn base_text(&self) -> &str {
        &self.text()[self.name().len() - self.base().len()..]
    }
}

/// A word that may be a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Touched {
    pub(crate) path: String,
    pub(crate) glob: bool,
    pub(crate) touches: Touches,
}

/// The last name of a path.
pub(crate) fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// How much may still be read, for one whole text.
pub(crate) struct Reach {
    bytes: usize,
    depth: usize,
    /// Whether a limit was reached, so that words must be taken for programs.
    pub(crate) is_exhausted: bool,
}

impl Reach {
    /// For a text of this length.
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            bytes: bytes * 4 + 16_384,
            depth: 0,
            is_exhausted: false,
        }
    }

    /// Takes its length off what may be read; false where there is not enough left.
    pub(crate) fn spend(&mut self, text: &str) -> bool {
        let enough = self.bytes > text.len() && self.depth < DEPTH_MAX;
        if enough {
            self.bytes -= text.len();
        } else {
            self.is_exhausted = true;
        }
        enough
    }

    /// What a simple command reaches.
    pub(crate) fn of(&mut self, simple: &Simple) -> (Vec<DenyForm>, Vec<Touched>) {
        let mut found = Found::default();
        self.command(&simple.words, &mut found);
        let fed = |word: &Word| is_shell(base(&word.text));
        for redirect in &simple.redirects {
            if redirect.kind == RedirectKind::Text && simple.words.iter().any(fed) {
                self.script(&redirect.target.text, &mut found);
            }
        }
        (found.forms, found.touched)
    }

    fn command(&mut self, words: &[Word], found: &mut Found) {
        let all: Vec<String> = words.iter().map(|word| word.text.clone()).collect();
        let list = Arc::new(Words::new(all));
        let mut seen = vec![false; list.all.len()];
        let mut todo = vec![0];
        let mut programs = 0;
        // Later programs of the same command have no other words than the first.
        let mut scripts_read = false;
        while let Some(head) = todo.pop() {
            if seen.get(head) != Some(&false) {
                continue;
            }
            seen[head] = true;
            found.forms.push(DenyForm {
                words: list.clone(),
                head,
            });
            let own = &list.all[head..];
            programs += 1;
            if programs <= PROGRAMS_MAX {
                found.paths(own, &words[head..]);
            }
            let inner = inner_programs(own);
            self.joined_script(own, found);
            if !scripts_read && (!inner.is_empty() || is_shell(base(&own[0]))) {
                scripts_read = true;
                self.scripts(own, found);
            }
            todo.extend(inner.into_iter().map(|at| head + at));
        }
    }

    /// Programs that put their words together and read them as a script.
    fn joined_script(&mut self, words: &[String], found: &mut Found) {
        if matches!(base(&words[0]), "eval" | "trap" | "watch" | "ssh") && !self.is_exhausted {
            self.script(&words[1..].join(" "), found);
        }
    }

    /// Words that a shell would read as a script.
    fn scripts(&mut self, words: &[String], found: &mut Found) {
        let in_shell = words.iter().any(|word| is_shell(base(word)));
        let odd = [' ', ';', '|', '&', '\n', '$', '`', '('];
        for word in &words[1..] {
            if self.is_exhausted {
                return;
            }
            if (word.contains(odd) || in_shell) && !word.starts_with('-') {
                self.script(word, found);
            }
            if let Some((_, text)) = word.split_once('=').filter(|_| word.starts_with('-')) {
                self.script(text, found);
            }
        }
    }

    fn script(&mut self, text: &str, found: &mut Found) {
        if !self.spend(text) {
            return;
        }
        self.depth += 1;
        for simple in first::read(text).simples() {
            self.command(&simple.words, found);
            for redirect in &simple.redirects {
                let target = &redirect.target;
                found.touch(target, &target.text, of_redirect(redirect.kind));
            }
        }
        self.depth -= 1;
    }
}

/// Every word of a text taken for a program: what is left when a limit was reached. Text that only
/// a shell or wrapper would run is left out where there is none.
pub(crate) fn every_word(text: &str) -> Vec<DenyForm> {
    let joined = text.replace("\\\n", "");
    let bare = outside_literals(&joined);
    let runs_text = |word: &str| is_shell(base(word)) || runner(base(word)).is_some();
    let all = if split_words(&bare).any(runs_text) {
        split_words(&joined).map(str::to_owned).collect()
    } else {
        split_words(&bare).map(str::to_owned).collect::<Vec<_>>()
    };
    let count = all.len();
    let words = Arc::new(Words::new(all));
    let form = |head| DenyForm {
        words: words.clone(),
        head,
    };
    (0..count).map(form).collect()
}

fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let breaks = |c: char| c.is_whitespace() || ";|&()<>{}'\"`$\\=".contains(c);
    text.split(breaks).filter(|word| !word.is_empty())
}

/// A text without its single-quoted strings and the bodies of its quoted heredocs.
fn outside_literals(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut ends: Vec<String> = Vec::new();
    let mut quoted = false;
    for line in text.split_inclusive('\n') {
        if let Some(end) = ends.first() {
            if line.trim_end_matches('\n').trim_start_matches('\t') == end {
                ends.remove(0);
            }
            continue;
        }
        for (at, piece) in line.split('\'').enumerate() {
            quoted ^= at > 0;
            if !quoted {
                bare.push_str(piece);
                bare.push(' ');
            }
        }
        if !quoted {
            ends.extend(quoted_ends(line));
        }
        bare.push('\n');
    }
    bare
}

/// The ends of the heredocs of a line whose ends are quoted, so that their bodies are plain text.
fn quoted_ends(line: &str) -> impl Iterator<Item = String> {
    line.match_indices("<<").filter_map(|(at, _)| {
        let end = line[at + 2..].trim_start_matches('-').trim_start();
        let quote = end.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let name = end[1..].split(quote).next()?;
        (!name.is_empty()).then(|| name.to_owned())
    })
}

/// Where the programs may begin that a program would run in turn.
fn inner_programs(words: &[String]) -> Vec<usize> {
    let name = base(&words[0]);
    if matches!(name, "find" | "fd" | "fdfind") {
        return after_exec(words);
    }
    let launched = launcher_words(words);
    let transparent = TRANSPARENT
        .contains(&name)
        .then_some(usize::from(name == "timeout"));
    let container = launched.map(|_| usize::from(is_container_launcher(name)));
    match runner(name).or(transparent).or(container) {
        Some(plain) => candidates(words, launched.unwrap_or(1), plain),
        None => Vec::new(),
    }
}

fn after_exec(words: &[String]) -> Vec<usize> {
    let runs = |word: &String| {
        matches!(
            word.as_str(),
            "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch"
        )
    };
    let found = words.iter().enumerate().filter(|(_, word)| runs(word));
    found.map(|(at, _)| at + 1).collect()
}

/// Every word from `at` on that may be the program, up to the first that must be: `plain` words
/// come before it, and a word right behind an option may be that option's value.
fn candidates(words: &[String], mut at: usize, mut plain: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut behind_option = false;
    while let Some(word) = words.get(at) {
        let is_option = word.starts_with('-');
        if !is_option && !is_assignment(word) {
            found.push(at);
            if !behind_option {
                if plain == 0 {
                    break;
                }
                plain -= 1;
            }
        }
        behind_option = is_option;
        at += 1;
    }
    found
}

/// What was found so far.
#[derive(Default)]
struct Found {
    forms: Vec<DenyForm>,
    touched: Vec<Touched>,
    known: HashSet<Touched>,
}

impl Found {
    fn touch(&mut self, source: &Word, path: &str, touches: Touches) {
        // A quoted `~` at the beginning is a name; behind `=` or `:` programs expand it themselves.
        let is_name =
            path.starts_with('~') && path == source.text && !source.tilde && !source.dynamic;
        let touched = Touched {
            path: if is_name {
                format!("./{path}")
            } else {
                path.to_owned()
            },
            glob: source.glob,
            touches,
        };
        if touches != Touches::Nothing && self.known.insert(touched.clone()) {
            self.touched.push(touched);
        }
    }

    /// Every word that may be a path, with what the program would do to it.
    fn paths(&mut self, words: &[String], sources: &[Word]) {
        let name = base(&words[0]);
        let touches = touches(name, words);
        if touches == Touches::Nothing {
            return;
        }
        let mut pattern_pending =
            takes_pattern_first(name) && !gives_pattern_by_option(name, &words[1..]);
        for (word, source) in words.iter().zip(sources).skip(1) {
            if name == "find" && word.starts_with(['-', '(', '!']) {
                return;
            }
            if pattern_pending && !word.starts_with('-') {
                pattern_pending = false;
                continue;
            }
            if skips(word) {
                continue;
            }
            for path in paths_in(word, touches == Touches::Unknown) {
                self.touch(source, path, touches);
            }
        }
    }
}

/// The file of a redirection.
pub(crate) fn redirected(kind: RedirectKind, target: &Word) -> Touched {
    Touched {
        path: target.text.clone(),
        glob: target.glob,
        touches: of_redirect(kind),
    }
}

fn of_redirect(kind: RedirectKind) -> Touches {
    match kind {
        RedirectKind::Read => Touches::Reads,
        RedirectKind::Write | RedirectKind::ReadWrite => Touches::Writes,
        RedirectKind::Text | RedirectKind::Free => Touches::Nothing,
    }
}

/// Whether the pattern of a search may come with an option, so that every plain word is a file.
fn gives_pattern_by_option(name: &str, words: &[String]) -> bool {
    let letters: &[char] = match name {
        "jq" | "yq" | "awk" | "gawk" | "mawk" | "nawk" => &['f'],
        _ => &['e', 'f'],
    };
    words.iter().any(|word| match word.strip_prefix("--") {
        Some(long) => ["regexp", "expression", "file", "from-file"]
            .iter()
            .any(|option| {
                long.len() > 1 && option.starts_with(long.split('=').next().unwrap_or(long))
            }),
        None => word.starts_with('-') && word.contains(letters),
    })
}

/// Options that name patterns of files to look at or leave out, not files.
fn skips(word: &str) -> bool {
    [
        "--include",
        "--exclude",
        "--glob",
        "--iglob",
        "--ignore",
        "--type",
        "--color",
        "--format",
    ]
    .iter()
    .any(|option| word.starts_with(option))
}

/// The parts of a word that a program may take for a path.
fn paths_in(word: &str, everything: bool) -> Vec<&str> {
    let mut paths = Vec::new();
    if !word.starts_with('-') {
        paths.push(word);
    }
    if let Some((_, value)) = word.split_once('=') {
        paths.push(value);
    }
    if word.starts_with('-') && !word.starts_with("--") {
        paths.extend(attached(word));
    }
    if everything || word.contains('@') {
        for (at, _) in word.match_indices(['=', ',', ':', '<', '@']) {
            let rest = &word[at + 1..];
            paths.push(rest);
            paths.extend(rest.split(['=', ',', ':', '<', '@']).next());
        }
    }
    paths.retain(|path| !path.is_empty());
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// What may be the value at the end of bundled letters: `-cfpath` has three readings.
fn attached(word: &str) -> impl Iterator<Item = &str> {
    let letters = word[1..]
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(0)
        .clamp(1, 8);
    let starts = word.char_indices().skip(2).map(|(at, _)| at);
    starts.take(letters).map(|at| &word[at..])
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
    })
}
