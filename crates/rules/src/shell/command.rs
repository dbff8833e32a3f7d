//! One simple command, seen twice: as little as an allow may assume, and as much as a deny must.

use super::first;
use super::git;
use super::hazards;
use super::programs::{
    TRANSPARENT, Touches, changes_the_shell, has_no_options_that_matter, is_safe_variable,
    is_shell, launcher_words, runner, takes_pattern_first, touches,
};
use super::script::{RedirectKind, Simple};
use super::word::Word;

/// Deeper nesting of commands in commands is not followed; it is doubt.
const DEPTH_MAX: usize = 8;

/// The words of a command as an allow may match them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllowForm {
    pub(crate) words: Vec<String>,
    /// How many words a rule with a wildcard must name; without a number none will do.
    pub(crate) named: Option<usize>,
}

/// The words of a command, or of one it would run, as a deny matches them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DenyForm {
    pub(crate) words: Vec<String>,
    pub(crate) text: String,
}

/// What is known of one simple command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) allow: Vec<AllowForm>,
    pub(crate) deny: Vec<DenyForm>,
    pub(crate) doubt: Option<String>,
    /// A dangerous argument, which only a rule for exactly this command covers.
    pub(crate) hazard: Option<String>,
    /// Words that may be paths.
    pub(crate) touched: Vec<Touched>,
    /// The change of directory it is, if it is one.
    pub(crate) moves: Option<Move>,
    /// The program that would run, wrappers taken off.
    pub(crate) program: String,
}

/// A change of directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    To(String),
    Somewhere,
}

/// A word that may be a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) path: String,
    pub(crate) glob: bool,
    pub(crate) touches: Touches,
}

/// Looks at a simple command.
pub(crate) fn look(simple: &Simple) -> Facts {
    let mut facts = Facts {
        doubt: doubt_of_words(simple),
        ..Facts::default()
    };
    let words: Vec<String> = simple.words.iter().map(|word| word.text.clone()).collect();
    let mut collect = Collect {
        facts: &mut facts,
        depth: 0,
    };
    collect.forms(&words, &simple.words);
    for redirect in &simple.redirects {
        let fed =
            redirect.kind == RedirectKind::Text && words.iter().any(|word| is_shell(base(word)));
        if fed {
            collect.script(&redirect.target.text);
        }
    }
    let (inner, start) = unwrap(&words, &mut facts);
    facts.program = inner.first().cloned().unwrap_or_default();
    judge_program(
        &inner,
        &simple.words[start.min(simple.words.len())..],
        &mut facts,
    );
    facts.allow = allow_forms(&words, &inner, start);
    facts
}

/// The last name of a path.
fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn doubt_of_words(simple: &Simple) -> Option<String> {
    if simple.words.is_empty() {
        return Some("it sets variables or opens files without a command".to_owned());
    }
    if let Some(assign) = simple
        .assigns
        .iter()
        .find(|assign| !is_safe_variable(&assign.name) || assign.value.literal().is_none())
    {
        return Some(format!("it sets the variable {}", assign.name));
    }
    if let Some(word) = simple.words.iter().find(|word| word.dynamic) {
        return Some(format!("`{}` is expanded only when it runs", word.text));
    }
    let name = &simple.words[0];
    if name.glob || name.tilde {
        return Some("the program's name is expanded only when it runs".to_owned());
    }
    None
}

/// Takes transparent wrappers off. Gives the words that are left and where they begin.
fn unwrap(words: &[String], facts: &mut Facts) -> (Vec<String>, usize) {
    let mut start = 0;
    loop {
        let rest = &words[start..];
        let Some(name) = rest
            .first()
            .filter(|name| TRANSPARENT.contains(&name.as_str()))
        else {
            return (rest.to_vec(), start);
        };
        match wrapped(name, &rest[1..]) {
            Wrapped::At(offset) if start + 1 + offset < words.len() => start += 1 + offset,
            Wrapped::Plain => return (rest.to_vec(), start),
            Wrapped::At(_) | Wrapped::Unclear => {
                facts
                    .doubt
                    .get_or_insert(format!("what `{name}` runs is not clear"));
                return (rest.to_vec(), start);
            }
        }
    }
}

enum Wrapped {
    /// The program begins so many words later.
    At(usize),
    /// It runs nothing.
    Plain,
    Unclear,
}

fn wrapped(name: &str, rest: &[String]) -> Wrapped {
    let first = rest.first().map_or("", String::as_str);
    match name {
        "nohup" | "command" | "time" if first == "--" => Wrapped::At(1),
        "command" if first.starts_with('-') => {
            if matches!(first, "-v" | "-V") {
                Wrapped::Plain
            } else {
                Wrapped::Unclear
            }
        }
        "time" if first == "-p" => Wrapped::At(1),
        "nohup" | "command" | "time" => {
            if first.starts_with('-') {
                Wrapped::Unclear
            } else {
                Wrapped::At(0)
            }
        }
        "nice" => options(rest, &["-n", "--adjustment"], 0),
        "stdbuf" => options(
            rest,
            &["-i", "-o", "-e", "--input", "--output", "--error"],
            0,
        ),
        _ => options(rest, &["-s", "--signal", "-k", "--kill-after"], 1),
    }
}

/// Skips options that are known and `plain` words after them.
fn options(rest: &[String], valued: &[&str], plain: usize) -> Wrapped {
    let mut at = 0;
    while let Some(word) = rest.get(at).filter(|word| word.starts_with('-')) {
        let attached = |own: &&str| {
            word.strip_prefix(*own).is_some_and(|value| {
                value.starts_with('=') || (own.len() == 2 && !value.is_empty())
            })
        };
        let number = word[1..].chars().all(|c| c.is_ascii_digit()) && word.len() > 1;
        let flag = matches!(
            word.as_str(),
            "--foreground" | "--preserve-status" | "--verbose" | "-v" | "-f" | "-p"
        );
        if valued.contains(&word.as_str()) {
            at += 2;
        } else if valued.iter().any(attached) || (number && plain == 0) || (flag && plain == 1) {
            at += 1;
        } else {
            return Wrapped::Unclear;
        }
    }
    let duration = |word: &String| word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if plain == 1 && !rest.get(at).is_some_and(duration) {
        return Wrapped::Unclear;
    }
    Wrapped::At(at + plain)
}

/// What about the program itself cannot be allowed by a rule.
fn judge_program(words: &[String], sources: &[Word], facts: &mut Facts) {
    let Some(name) = words.first() else { return };
    if name == "cd" || name == "pushd" {
        facts.moves = Some(destination(words, sources));
    }
    if facts.doubt.is_some() {
        return;
    }
    facts.hazard = hazards::find(words)
        .map(|argument| format!("`{argument}` makes `{name}` run or write something else"));
    facts.doubt = if changes_the_shell(name) {
        Some(format!("`{name}` changes the shell or runs text"))
    } else {
        stray_wildcard(name, sources)
    };
}

/// A wildcard at the beginning of a word can turn into an option.
fn stray_wildcard(name: &str, sources: &[Word]) -> Option<String> {
    let stray = |word: &&Word| word.glob && word.text.starts_with(['*', '?', '[']);
    if has_no_options_that_matter(name) {
        return None;
    }
    let word = sources.iter().find(stray)?;
    Some(format!("`{}` may become an option of `{name}`", word.text))
}

/// Where `cd` goes.
fn destination(words: &[String], sources: &[Word]) -> Move {
    let mut at = 1;
    while matches!(words.get(at).map(String::as_str), Some("--" | "-L" | "-P")) {
        at += 1;
    }
    let certain = |at: usize| sources.get(at).is_some_and(|word| word.literal().is_some());
    match words.get(at) {
        None => Move::To("~".to_owned()),
        Some(path) if certain(at) && !path.starts_with(['-', '+']) && at + 1 == words.len() => {
            let quoted_tilde = path.starts_with('~') && !sources[at].tilde;
            Move::To(if quoted_tilde {
                format!("./{path}")
            } else {
                path.clone()
            })
        }
        Some(_) => Move::Somewhere,
    }
}

fn allow_forms(words: &[String], inner: &[String], start: usize) -> Vec<AllowForm> {
    let mut forms = vec![form_of(inner)];
    if start > 0 {
        // A rule may also name the wrapper, if it names what is wrapped as well.
        let named = form_of(inner).named.map(|named| named.max(1) + start);
        forms.push(AllowForm {
            words: words.to_vec(),
            named,
        });
    }
    forms
}

fn form_of(words: &[String]) -> AllowForm {
    let name = words.first().map_or("", String::as_str);
    let named = if is_shell(base(name)) || runner(base(name)).is_some() {
        None
    } else if let Some(own) = launcher_words(words) {
        let inner = words[own..].iter().position(|word| !word.starts_with('-'));
        Some(own + inner.unwrap_or(words.len()) + 1)
    } else {
        Some(0)
    };
    AllowForm {
        words: words.to_vec(),
        named,
    }
}

/// Collects everything a deny must see.
struct Collect<'f> {
    facts: &'f mut Facts,
    depth: usize,
}

impl Collect<'_> {
    fn forms(&mut self, words: &[String], sources: &[Word]) {
        if words.is_empty() {
            return;
        }
        self.add(words.to_vec());
        let name = base(&words[0]).to_owned();
        let mut plain = words.to_vec();
        plain[0].clone_from(&name);
        self.add(plain.clone());
        if name == "git" {
            let rest = git::without_globals(&words[1..]);
            self.add(
                std::iter::once(name.clone())
                    .chain(rest.iter().cloned())
                    .collect(),
            );
        } else {
            for rest in after_options(&words[1..]).into_iter().skip(1) {
                self.add(
                    std::iter::once(name.clone())
                        .chain(rest.iter().cloned())
                        .collect(),
                );
            }
        }
        self.paths(&plain, sources);
        self.inner(&name, words, sources);
    }

    fn add(&mut self, words: Vec<String>) {
        let text = words.join(" ");
        let form = DenyForm { words, text };
        if !self.facts.deny.contains(&form) {
            self.facts.deny.push(form);
        }
    }

    /// What the program would run in turn.
    fn inner(&mut self, name: &str, words: &[String], sources: &[Word]) {
        let launched = launcher_words(words);
        let plain = runner(name).or_else(|| {
            TRANSPARENT
                .contains(&name)
                .then_some(usize::from(name == "timeout"))
        });
        let runs = plain.is_some()
            || launched.is_some()
            || is_shell(name)
            || name == "find"
            || name == "fd";
        if !runs {
            return;
        }
        if self.depth >= DEPTH_MAX {
            self.facts
                .doubt
                .get_or_insert("commands are nested too deeply".to_owned());
            return;
        }
        self.depth += 1;
        let own = launched.unwrap_or(1);
        if matches!(name, "find" | "fd") {
            self.after_exec(words, sources);
        } else if plain.is_some() || launched.is_some() {
            for rest in candidates(&words[own..], plain.unwrap_or(0)) {
                let start = words.len() - rest.len();
                self.forms(rest, sources.get(start..).unwrap_or_default());
            }
        }
        self.scripts(name, words);
        self.depth -= 1;
    }

    fn after_exec(&mut self, words: &[String], sources: &[Word]) {
        for (at, word) in words.iter().enumerate() {
            let runs = matches!(
                word.as_str(),
                "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch"
            );
            if runs && at + 1 < words.len() {
                self.forms(&words[at + 1..], sources.get(at + 1..).unwrap_or_default());
            }
        }
    }

    /// Words that a shell would read as a script.
    fn scripts(&mut self, name: &str, words: &[String]) {
        if matches!(name, "eval" | "trap" | "watch" | "ssh") {
            let text = words[1..].join(" ");
            self.script(&text);
        }
        for word in &words[1..] {
            let looks_like_one =
                word.contains([' ', ';', '|', '&', '\n', '$', '`', '(']) || is_shell(name);
            if looks_like_one && !word.starts_with('-') {
                self.script(word);
            }
            if let Some((_, text)) = word.split_once('=').filter(|_| word.starts_with('-')) {
                self.script(text);
            }
        }
    }

    fn script(&mut self, text: &str) {
        if self.depth >= DEPTH_MAX {
            self.facts
                .doubt
                .get_or_insert("commands are nested too deeply".to_owned());
            return;
        }
        self.depth += 1;
        let script = first::read(text);
        for simple in script.simples() {
            let words: Vec<String> = simple.words.iter().map(|word| word.text.clone()).collect();
            self.forms(&words, &simple.words);
            for redirect in &simple.redirects {
                self.touch(
                    &redirect.target,
                    &redirect.target.text,
                    of_redirect(redirect.kind),
                );
            }
        }
        self.depth -= 1;
    }

    fn touch(&mut self, source: &Word, path: &str, touches: Touches) {
        let expands = source.tilde || source.dynamic;
        let touched = Touched {
            path: if expands {
                path.to_owned()
            } else {
                untilde(path)
            },
            glob: source.glob,
            touches,
        };
        if touches != Touches::Nothing && !self.facts.touched.contains(&touched) {
            self.facts.touched.push(touched);
        }
    }

    /// Every word that may be a path, with what the program would do to it.
    fn paths(&mut self, words: &[String], sources: &[Word]) {
        let name = words[0].as_str();
        let touches = touches(name, words);
        if touches == Touches::Nothing {
            return;
        }
        let mut pattern_pending =
            takes_pattern_first(name) && !gives_pattern_by_option(name, &words[1..]);
        let mut past_paths = false;
        for (word, source) in words.iter().zip(sources).skip(1) {
            past_paths |= name == "find" && word.starts_with(['-', '(', '!']);
            if past_paths {
                continue;
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

fn of_redirect(kind: RedirectKind) -> Touches {
    match kind {
        RedirectKind::Read => Touches::Reads,
        RedirectKind::Write | RedirectKind::ReadWrite => Touches::Writes,
        RedirectKind::Text | RedirectKind::Free => Touches::Nothing,
    }
}

/// A quoted `~` is a name like any other.
fn untilde(path: &str) -> String {
    if path.starts_with('~') {
        format!("./{path}")
    } else {
        path.to_owned()
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

/// The words after options at the beginning: each option may or may not take the next word.
fn after_options(words: &[String]) -> Vec<&[String]> {
    let mut found = vec![words];
    let mut at = 0;
    while words.get(at).is_some_and(|word| word.starts_with('-')) {
        at += 1;
        found.push(&words[at..]);
        if words.get(at).is_some_and(|word| !word.starts_with('-')) && at < words.len() {
            found.push(&words[at + 1..]);
            let more_options = words.get(at + 1).is_some_and(|word| word.starts_with('-'));
            if more_options {
                at += 1;
            }
        }
    }
    found.retain(|rest| {
        rest.first().is_none_or(|word| !word.starts_with('-')) || rest.len() == words.len()
    });
    found
}

/// Where the program that a runner runs may begin.
fn candidates(words: &[String], plain: usize) -> Vec<&[String]> {
    let mut found = Vec::new();
    let mut left = plain;
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if word.starts_with('-') || is_assignment(word) {
            // The next word may be its value or the program.
            if let Some(next) = words.get(at + 1).filter(|next| !next.starts_with('-')) {
                found.push(&words[at + 1..]);
                if is_assignment(word) || is_assignment(next) || left > 0 {
                    at += 1;
                    continue;
                }
                if at + 2 < words.len() {
                    found.push(&words[at + 2..]);
                }
                at += if words.get(at + 2).is_some_and(|word| word.starts_with('-')) {
                    2
                } else {
                    words.len()
                };
                continue;
            }
            at += 1;
            continue;
        }
        found.push(&words[at..]);
        if left == 0 {
            break;
        }
        left -= 1;
        at += 1;
    }
    found
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
    })
}
