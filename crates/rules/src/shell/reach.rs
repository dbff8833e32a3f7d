//! What a command reaches: everything a deny must see, which is more than what would happen.
//!
//! Wrappers are looked through by taking every word that may be a program for one; text that a
//! shell would read is read. Invariant: no limit skips a deny. When one is reached, every word of
//! the whole text counts as a program.

use std::collections::HashSet;
use std::sync::Arc;

use super::arguments::{ArgumentFacts, FolderWalk, read_arguments};
use super::programs::{
    FileUse, TRANSPARENT, edits_in_place, git_touches, is_container_launcher, is_shell,
    launcher_words, makes_links, runner,
};
use super::script::{RedirectKind, ScriptCommand};
use super::tree_sitter_script;
use super::word::ShellWord;

/// Deeper nesting of text in text is not read.
const DEPTH_MAX: usize = 8;
/// How many programs of one command have their files looked at.
const PROGRAMS_MAX: usize = 16;

/// The words of one command, and their text.
#[derive(Debug)]
struct CommandWords {
    all: Vec<String>,
    text: String,
    /// Where each word begins in the text.
    at: Vec<usize>,
}

impl CommandWords {
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
    words: Arc<CommandWords>,
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
pub(crate) struct PathArgument {
    pub(crate) path: String,
    pub(crate) glob: bool,
    pub(crate) touches: FileUse,
    /// Whether it is a folder that is walked.
    pub(crate) walk: FolderWalk,
    /// Folders that it may be counted from instead of the working directory.
    pub(crate) folders: Vec<String>,
    /// A folder whose names are written below it, and whether it has wildcards.
    pub(crate) copied_from: Option<(String, bool)>,
    /// Whether what is there afterwards may be a link to somewhere else.
    pub(crate) may_become_link: bool,
}

impl PathArgument {
    fn new(path: &str, glob: bool, touches: FileUse) -> Self {
        Self {
            path: path.to_owned(),
            glob,
            touches,
            walk: FolderWalk::No,
            folders: Vec::new(),
            copied_from: None,
            may_become_link: false,
        }
    }
}

/// The last name of a path.
pub(crate) fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// How much may still be read, for one whole text.
pub(crate) struct ReachBudget {
    bytes: usize,
    depth: usize,
    /// Whether a limit was reached, so that words must be taken for programs.
    pub(crate) is_exhausted: bool,
}

impl ReachBudget {
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
    pub(crate) fn find_commands(
        &mut self,
        simple: &ScriptCommand,
    ) -> (Vec<DenyForm>, Vec<PathArgument>) {
        let mut found = ReachedCommands::default();
        self.command(&simple.words, &mut found);
        // Any word, not the first alone: the shell may stand behind wrappers.
        let has_shell = simple.words.iter().any(|word| is_shell(base(&word.text)));
        for redirect in &simple.redirects {
            // A shell runs the heredoc or here-string that it is given as its input.
            if redirect.kind == RedirectKind::Text && has_shell {
                self.script(&redirect.target.text, &mut found);
            }
        }
        (found.forms, found.touched)
    }

    fn command(&mut self, words: &[ShellWord], found: &mut ReachedCommands) {
        let all: Vec<String> = words.iter().map(|word| word.text.clone()).collect();
        let list = Arc::new(CommandWords::new(all));
        let mut seen = vec![false; list.all.len()];
        // Each word at most once, however wrappers nest: the work is bounded by the length.
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
            // Each program reads all words behind it, so without a bound a long row of wrappers
            // would take quadratic time. Their names are still all found, and the first sees every
            // path.
            if programs <= PROGRAMS_MAX {
                found.add_paths(own, &words[head..]);
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
    fn joined_script(&mut self, words: &[String], found: &mut ReachedCommands) {
        if matches!(base(&words[0]), "eval" | "trap" | "watch" | "ssh") && !self.is_exhausted {
            self.script(&words[1..].join(" "), found);
        }
    }

    /// Words that a shell would read as a script.
    fn scripts(&mut self, words: &[String], found: &mut ReachedCommands) {
        let in_shell = words.iter().any(|word| is_shell(base(word)));
        let odd = [' ', ';', '|', '&', '\n', '$', '`', '('];
        for word in &words[1..] {
            if self.is_exhausted {
                return;
            }
            // A single word such as `rm` is a script only to a shell; elsewhere it is found as a
            // program already.
            if (word.contains(odd) || in_shell) && !word.starts_with('-') {
                self.script(word, found);
            }
            // As in `--command=…`, where the script is in the same word as the option.
            if let Some((_, text)) = word.split_once('=').filter(|_| word.starts_with('-')) {
                self.script(text, found);
            }
        }
    }

    fn script(&mut self, text: &str, found: &mut ReachedCommands) {
        if !self.spend(text) {
            return;
        }
        self.depth += 1;
        for simple in tree_sitter_script::read(text).simples() {
            self.command(&simple.words, found);
            for redirect in &simple.redirects {
                let target = &redirect.target;
                found.add_path(target, &target.text, redirect_use(redirect.kind));
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
    let runs_text =
        split_words(&bare).any(|word| is_shell(base(word)) || runner(base(word)).is_some());
    let text = if runs_text { &joined } else { &bare };
    let all: Vec<String> = split_words(text).map(str::to_owned).collect();
    let words = Arc::new(CommandWords::new(all));
    (0..words.all.len())
        .map(|head| DenyForm {
            words: words.clone(),
            head,
        })
        .collect()
}

fn split_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || ";|&()<>{}'\"`$\\=".contains(c))
        .filter(|word| !word.is_empty())
}

/// A text without its single-quoted strings and the bodies of its quoted heredocs.
fn outside_literals(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut ends: Vec<String> = Vec::new();
    let mut quoted = false;
    for line in text.split_inclusive('\n') {
        if let Some(end) = ends.first() {
            // Tabs before the end count only after `<<-`. Ending a body too early shows a deny more
            // words, and never fewer.
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
    // `timeout` takes a duration before the program.
    let transparent = TRANSPARENT
        .contains(&name)
        .then_some(usize::from(name == "timeout"));
    let container = launched.map(|_| usize::from(is_container_launcher(name)));
    match runner(name).or(transparent).or(container) {
        Some(plain) => program_positions(words, launched.unwrap_or(1), plain),
        None => Vec::new(),
    }
}

fn after_exec(words: &[String]) -> Vec<usize> {
    let exec = [
        "-exec",
        "-execdir",
        "-ok",
        "-okdir",
        "-x",
        "-X",
        "--exec",
        "--exec-batch",
    ];
    (1..words.len())
        .filter(|at| exec.contains(&words[at - 1].as_str()))
        .collect()
}

/// Every word from `at` on that may be the program, up to the first that must be: `plain` words
/// come before it, and a word right behind an option may be that option's value.
fn program_positions(words: &[String], mut at: usize, mut plain: usize) -> Vec<usize> {
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
struct ReachedCommands {
    forms: Vec<DenyForm>,
    touched: Vec<PathArgument>,
    known: HashSet<PathArgument>,
}

impl ReachedCommands {
    fn add_path(&mut self, source: &ShellWord, path: &str, touches: FileUse) {
        self.push(PathArgument::new(
            &spell_path(source, path),
            source.glob,
            touches,
        ));
    }

    fn push(&mut self, touched: PathArgument) {
        if touched.touches != FileUse::Nothing && self.known.insert(touched.clone()) {
            self.touched.push(touched);
        }
    }

    /// Every word that may be a path, with what the program would do to it.
    fn add_paths(&mut self, words: &[String], sources: &[ShellWord]) {
        let name = base(&words[0]);
        if name == "git" {
            self.add_git_grep(words);
            return self.add_every_path(words, sources, git_touches(words));
        }
        let Some(arguments) = read_arguments(words, sources) else {
            return self.add_every_path(words, sources, FileUse::Unknown);
        };
        self.add_known_paths(words, sources, &arguments);
        self.add_wildcards(sources, &arguments);
        if arguments.hazard.is_some() || sources.iter().any(|source| source.dynamic) {
            // What is not understood may use any of its words as a path. Beside the known ones,
            // which say more, such as which folders are walked.
            self.add_every_path(words, sources, FileUse::Unknown);
        }
    }

    /// `git grep` shows what is in every tracked file below the folders it is given, or below its own.
    fn add_git_grep(&mut self, words: &[String]) {
        let mut plain = words.iter().skip(1).filter(|word| !word.starts_with('-'));
        if plain.next().is_none_or(|sub| sub != "grep") {
            return;
        }
        let mut folders: Vec<&str> = plain.skip(1).map(String::as_str).collect();
        if folders.is_empty() {
            folders.push(".");
        }
        for folder in folders {
            let mut touched = PathArgument::new(folder, false, FileUse::Reads);
            touched.walk = FolderWalk::All;
            self.push(touched);
        }
    }

    fn add_every_path(&mut self, words: &[String], sources: &[ShellWord], touches: FileUse) {
        let is_git = base(&words[0]) == "git";
        for (word, source) in words.iter().zip(sources).skip(1) {
            for path in paths_in(word, is_git || touches == FileUse::Unknown) {
                // Git expands wildcards itself, quoted or not, and `HEAD:path` names a file.
                let glob = source.glob || is_git && path.contains(['*', '?', '[']);
                let mut touched = PathArgument::new(&spell_path(source, path), glob, touches);
                touched.may_become_link = makes_links(base(&words[0]), words);
                self.push(touched);
            }
        }
    }

    fn add_known_paths(
        &mut self,
        words: &[String],
        sources: &[ShellWord],
        arguments: &ArgumentFacts,
    ) {
        let in_place = edits_in_place(base(&words[0]), words);
        let links = makes_links(base(&words[0]), words);
        let destination = arguments.paths.iter().find(|path| path.is_destination);
        for path in &arguments.paths {
            let source = &sources[path.word];
            // Some programs expand wildcards themselves, quoted or not.
            let glob = source.glob || path.path.contains(['*', '?', '[']);
            let mut touched =
                PathArgument::new(&spell_path(source, &path.path), glob, path.touches);
            if in_place && touched.touches == FileUse::Reads {
                touched.touches = FileUse::Writes;
            }
            touched.folders.clone_from(&arguments.folders);
            if !path.is_destination {
                touched.walk = arguments.walk;
                if base(&words[0]) == "mv" {
                    touched.walk = touched.walk.max(FolderWalk::All);
                }
            }
            touched.may_become_link = links && touched.touches != FileUse::Reads;
            if let Some(to) = destination.filter(|to| to.word != path.word) {
                let to = (
                    spell_path(&sources[to.word], &to.path),
                    sources[to.word].glob,
                );
                let is_deep = arguments.walk != FolderWalk::No || base(&words[0]) == "mv";
                self.add_copies(&touched, &to.0, to.1, is_deep);
            }
            self.push(touched);
        }
    }

    /// What is copied or moved into a folder keeps its name there.
    fn add_copies(&mut self, from: &PathArgument, to: &str, to_is_glob: bool, is_deep: bool) {
        let name = base(from.path.trim_end_matches('/'));
        let folder = escaped_unless(to, to_is_glob || !from.glob);
        let name = escaped_unless(name, from.glob || !to_is_glob);
        let into = PathArgument {
            path: format!("{folder}/{name}"),
            glob: from.glob || to_is_glob,
            touches: FileUse::Writes,
            walk: FolderWalk::No,
            may_become_link: is_deep,
            ..from.clone()
        };
        if is_deep {
            // A folder is written with all that is below it.
            self.push(PathArgument {
                path: to.to_owned(),
                glob: to_is_glob,
                copied_from: Some((from.path.clone(), from.glob)),
                ..into.clone()
            });
        }
        self.push(into);
    }

    /// A wildcard shows the names of a folder, whatever the program does with them.
    fn add_wildcards(&mut self, sources: &[ShellWord], arguments: &ArgumentFacts) {
        for (at, source) in sources.iter().enumerate().skip(1) {
            if source.glob && !arguments.paths.iter().any(|path| path.word == at) {
                self.add_path(source, &source.text.clone(), FileUse::Lists);
            }
        }
    }
}

/// A quoted `~` at the beginning is a name; behind `=` or `:` programs expand it themselves.
fn spell_path(source: &ShellWord, path: &str) -> String {
    let is_name = path.starts_with('~') && path == source.text && !source.tilde && !source.dynamic;
    if is_name {
        format!("./{path}")
    } else {
        path.to_owned()
    }
}

/// Text as a part of a word with wildcards; its own stand for themselves unless `is_pattern`.
fn escaped_unless(text: &str, is_pattern: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if !is_pattern && matches!(c, '*' | '?' | '[' | ']' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// The file of a redirection.
pub(crate) fn redirect_path(kind: RedirectKind, target: &ShellWord) -> PathArgument {
    PathArgument::new(&target.text, target.glob, redirect_use(kind))
}

fn redirect_use(kind: RedirectKind) -> FileUse {
    match kind {
        RedirectKind::Read => FileUse::Reads,
        RedirectKind::Write | RedirectKind::ReadWrite => FileUse::Writes,
        RedirectKind::Text | RedirectKind::Free => FileUse::Nothing,
    }
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
        paths.extend(attached_values(word));
    }
    if everything || word.contains('@') {
        // `@file`, `host:path`, `type=bind,src=path`: programs have many ways to put a path in a
        // word, and a deny has to see it in each.
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
fn attached_values(word: &str) -> impl Iterator<Item = &str> {
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
