//! The arguments of one program, read by the program table: which words are paths and what happens
//! to them, and which words make the program do something else than a rule for it means.

use super::hazards::{ArgumentHazard, HazardKind};
use super::program_table::{
    OperandKind, OperandLayout, OptionClass, OptionStyle, ProgramEntry, find_program,
};
use super::programs::FileUse;
use super::word::ShellWord;

/// What the table says of a command.
#[derive(Debug, Default)]
pub(crate) struct ArgumentFacts {
    /// Every path among the words.
    pub(crate) paths: Vec<ArgumentPath>,
    /// Folders in which the program would work instead of its own.
    pub(crate) folders: Vec<String>,
    pub(crate) walk: FolderWalk,
    /// The argument because of which a rule with a wildcard does not cover it.
    pub(crate) hazard: Option<ArgumentHazard>,
}

/// A word, or a part of one, that is a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ArgumentPath {
    /// Which word it is in.
    pub(crate) word: usize,
    pub(crate) path: String,
    pub(crate) touches: FileUse,
    /// Whether it is where the words before it are copied or moved to.
    pub(crate) is_destination: bool,
}

/// Whether a program walks the folders it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum FolderWalk {
    #[default]
    No,
    /// Leaving hidden files out.
    Visible,
    All,
    /// Following links on the way.
    Follow,
}

/// Options of programs that leave hidden files out, unless these name them.
const SELECTS_FILES: [&str; 7] = [
    "-g",
    "--glob",
    "--iglob",
    "-t",
    "--type",
    "--type-add",
    "--ignore-file",
];

/// Reads the arguments of the program `words[0]`; nothing for a program that is not in the table.
/// `sources` are the same words with what is known of their expansion.
pub(crate) fn read_arguments(words: &[String], sources: &[ShellWord]) -> Option<ArgumentFacts> {
    let name = words.first()?;
    let entry = find_program(super::reach::base(name))?;
    let mut reader = ArgumentReader::new(entry, words, sources);
    reader.read();
    Some(reader.finish())
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is what one kind of option has said so far"
)]
struct ArgumentReader<'w> {
    entry: &'static ProgramEntry,
    words: &'w [String],
    sources: &'w [ShellWord],
    /// Which words are plain.
    operands: Vec<usize>,
    found: ArgumentFacts,
    pattern_given: bool,
    shows_hidden: bool,
    only_reads: bool,
    /// Whether a word says that the program does not take its commands from its input.
    says_what_to_do: bool,
    /// Where the words of a script begin that the program runs.
    script_from: Option<usize>,
}

impl<'w> ArgumentReader<'w> {
    fn new(entry: &'static ProgramEntry, words: &'w [String], sources: &'w [ShellWord]) -> Self {
        Self {
            entry,
            words,
            sources,
            operands: Vec::new(),
            found: ArgumentFacts::default(),
            pattern_given: false,
            shows_hidden: false,
            only_reads: false,
            says_what_to_do: false,
            script_from: None,
        }
    }

    fn read(&mut self) {
        let mut at = 1;
        while at < self.words.len() {
            let word = self.words[at].as_str();
            if self.entry.plain_words.iter().any(|glob| glob.matches(word)) {
                self.says_what_to_do = true;
                at += 1;
                continue;
            }
            if word == "--" {
                return self.read_rest(at + 1);
            }
            if self.entry.runs_script && !self.operands.is_empty() {
                return self.read_script(at);
            }
            at = if word.len() > 1 && word.starts_with('-') {
                self.option(at)
            } else {
                self.operand(at);
                at + 1
            };
        }
    }

    /// What follows `--`.
    fn read_rest(&mut self, from: usize) {
        if self.entry.passes_rest {
            return self.read_script(from);
        }
        for at in from..self.words.len() {
            self.operand(at);
        }
    }

    /// Words that a script of the repository gets: any may be a path.
    fn read_script(&mut self, from: usize) {
        self.script_from = Some(from);
        for at in from..self.words.len() {
            self.add(at, &self.words[at].clone(), FileUse::Unknown);
        }
    }

    fn operand(&mut self, at: usize) {
        let word = &self.words[at];
        if self.operands.is_empty() && self.entry.has_subcommands() {
            if let Some(sub) = self.entry.subcommand(word) {
                self.entry = sub;
                return;
            }
            // What the table does not know may be a subcommand that does more than the known ones.
            if self.entry.operands.is_none() {
                self.unknown(&word.clone());
            }
        }
        self.operands.push(at);
    }

    /// Reads the option at `at`; gives where the next word begins.
    fn option(&mut self, at: usize) -> usize {
        let word = self.words[at].as_str();
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        if self.entry.style == OptionStyle::Single {
            return self.single_option(at, name, value);
        }
        if word.starts_with("--") {
            let class = self.entry.long_option(name);
            return self.apply(at, name, class, value);
        }
        self.bundle(at)
    }

    /// One or two dashes mean the same.
    fn single_option(&mut self, at: usize, name: &str, value: Option<&str>) -> usize {
        let bare = name.trim_start_matches('-');
        let class = self.entry.option(&format!("-{bare}"));
        let class = class.or_else(|| self.entry.option(&format!("--{bare}")));
        self.apply(at, name, class, value)
    }

    /// Letters behind one dash: each an option, the rest the value of the first that takes one.
    fn bundle(&mut self, at: usize) -> usize {
        let word = self.words[at].as_str();
        // Some programs have options of several letters behind one dash.
        let whole = word.split_once('=').map_or(word, |(name, _)| name);
        if whole.len() > 2 && self.entry.option(whole).is_some() {
            let value = word.split_once('=').map(|(_, value)| value);
            return self.apply(at, whole, self.entry.option(whole), value);
        }
        for (offset, letter) in word.char_indices().skip(1) {
            let rest = &word[offset + letter.len_utf8()..];
            let option = format!("-{letter}");
            let class = self.entry.option(&option).or_else(|| {
                let numbers = letter.is_ascii_digit();
                numbers.then(|| self.entry.option("-NUM")).flatten()
            });
            match class {
                Some(class) if class.takes_value() => {
                    let value = (!rest.is_empty()).then_some(rest);
                    return self.apply(at, &option, Some(class), value);
                }
                // Its value is the rest of the word or nothing, never the next word.
                Some(OptionClass::Optional) => return at + 1,
                class => self.apply(at, &option, class, None),
            };
        }
        at + 1
    }

    /// Notes what an option means; gives where the next word begins.
    fn apply(
        &mut self,
        at: usize,
        name: &str,
        class: Option<OptionClass>,
        attached: Option<&str>,
    ) -> usize {
        let Some(class) = class else {
            self.unknown(name);
            return at + 1;
        };
        self.says_what_to_do |= self.entry.needed_options.contains(name);
        if class.is_dangerous() {
            self.dangerous(name);
        }
        if !class.takes_value() {
            // A value that a flag does not take may be the end of an option that is not known.
            if attached.is_some() && class != OptionClass::Optional {
                self.unknown(name);
            }
            self.flag(class);
            return at + 1;
        }
        let (word, value) = match attached {
            Some(value) => (at, value.to_owned()),
            None => match self.words.get(at + 1) {
                Some(next) => {
                    let next = next.clone();
                    self.doubt_value(&next, class);
                    (at + 1, next)
                }
                None => return at + 1,
            },
        };
        // What such an option selects is looked at although it is hidden.
        self.shows_hidden |= SELECTS_FILES.contains(&name);
        self.value(word, &value, class);
        word + 1
    }

    /// Some programs take a word that looks like an option for one, even where a value is expected:
    /// then it must be known and harmless as an option too.
    fn doubt_value(&mut self, word: &str, class: OptionClass) {
        let Some(rest) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
            return;
        };
        let is_number = rest.starts_with(|c: char| c.is_ascii_digit());
        if is_number || matches!(class, OptionClass::Pattern) {
            return;
        }
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        let meant = if self.entry.style == OptionStyle::Single {
            let bare = name.trim_start_matches('-');
            let one = self.entry.option(&format!("-{bare}"));
            vec![one.or_else(|| self.entry.option(&format!("--{bare}")))]
        } else if rest.starts_with('-') || self.entry.option(name).is_some() {
            vec![self.entry.long_option(name)]
        } else {
            self.bundled_classes(rest)
        };
        // No name of an option holds a blank: that is text, such as flags for another program.
        if meant.iter().any(Option::is_none) && !name.contains(char::is_whitespace) {
            self.unknown(word);
        }
        if meant.into_iter().flatten().any(OptionClass::is_dangerous) {
            self.dangerous(word);
        }
    }

    /// The classes of bundled letters, up to the first whose value is the rest.
    fn bundled_classes(&self, letters: &str) -> Vec<Option<OptionClass>> {
        let mut classes = Vec::new();
        for letter in letters.chars() {
            let class = self.entry.option(&format!("-{letter}"));
            classes.push(class);
            if class.is_none_or(|class| class.takes_value() || class == OptionClass::Optional) {
                break;
            }
        }
        classes
    }

    fn flag(&mut self, class: OptionClass) {
        match class {
            OptionClass::Recurse => self.walks(FolderWalk::All),
            OptionClass::Follow => self.walks(FolderWalk::Follow),
            OptionClass::Hidden => self.shows_hidden = true,
            OptionClass::Reading => self.only_reads = true,
            OptionClass::PatternNone => self.pattern_given = true,
            _ => {}
        }
    }

    fn walks(&mut self, walk: FolderWalk) {
        self.found.walk = self.found.walk.max(walk);
    }

    fn value(&mut self, word: usize, value: &str, class: OptionClass) {
        match class {
            OptionClass::Pattern => self.pattern_given = true,
            OptionClass::PatternFile => {
                self.pattern_given = true;
                self.add(word, value, FileUse::Reads);
            }
            OptionClass::Name if value.contains(['/', '.', '@', '\\']) => {
                self.dangerous(value);
                self.add(word, value, FileUse::Unknown);
            }
            OptionClass::Read => self.add(word, value, FileUse::Reads),
            OptionClass::Write => self.add(word, value, FileUse::Writes),
            OptionClass::Folder => {
                self.add(word, value, FileUse::Reads);
                self.found.folders.push(value.to_owned());
            }
            OptionClass::Run => self.add(word, value, FileUse::Unknown),
            _ => {}
        }
        // A wildcard may become several words, and all but the first are plain ones.
        if self.sources.get(word).is_some_and(|source| source.glob) {
            self.operands.push(word);
        }
    }

    fn add(&mut self, word: usize, path: &str, touches: FileUse) {
        self.found.paths.push(ArgumentPath {
            word,
            path: path.to_owned(),
            touches,
            is_destination: false,
        });
    }

    /// What is dangerous counts before what is not known.
    fn dangerous(&mut self, argument: &str) {
        let known = self.found.hazard.as_ref().map(|hazard| hazard.kind);
        if known != Some(HazardKind::Dangerous) {
            self.found.hazard = Some(ArgumentHazard::dangerous(argument));
        }
    }

    fn unknown(&mut self, argument: &str) {
        match &mut self.found.hazard {
            Some(hazard) if hazard.kind == HazardKind::Unknown => {
                hazard.arguments.push(argument.to_owned());
            }
            Some(_) => {}
            None => self.found.hazard = Some(ArgumentHazard::unknown(argument)),
        }
    }

    /// Words that are dangerous wherever they are, values of options included.
    fn find_danger_words(&mut self) {
        let own = &self.words[1..self.script_from.unwrap_or(self.words.len())];
        let dangerous = own.iter().find(|word| {
            let mut globs = self.entry.danger_words.iter();
            // Some programs take these words in any case.
            let folded = word.to_lowercase();
            globs.any(|glob| glob.matches(word) || glob.matches(&folded))
        });
        if let Some(word) = dangerous.cloned() {
            self.dangerous(&word);
        }
    }

    fn finish(mut self) -> ArgumentFacts {
        self.find_danger_words();
        if !self.entry.needed_options.is_empty() && !self.says_what_to_do {
            self.found
                .hazard
                .get_or_insert_with(ArgumentHazard::undirected);
        }
        if self.entry.walks {
            let hidden = self.shows_hidden || !self.entry.skips_hidden;
            self.walks(if hidden {
                FolderWalk::All
            } else {
                FolderWalk::Visible
            });
        }
        let any = OperandLayout {
            repeated: Some(OperandKind::Any),
            ..OperandLayout::default()
        };
        let operands = self.entry.operands.as_ref().unwrap_or(&any);
        let plain = std::mem::take(&mut self.operands);
        let kinds = self.kinds(operands, &plain);
        let has_destination =
            operands.repeated == Some(OperandKind::Read) && operands.last == [OperandKind::Write];
        for (at, (word, kind)) in plain.iter().zip(kinds).enumerate() {
            let text = self.words[*word].clone();
            let kind = match kind {
                Some(OperandKind::Write | OperandKind::Danger) if self.only_reads => {
                    Some(OperandKind::Read)
                }
                kind => kind,
            };
            self.plain_word(*word, &text, kind);
            if has_destination
                && at + 1 == plain.len()
                && at > 0
                && let Some(path) = self.found.paths.last_mut()
            {
                path.is_destination = true;
            }
        }
        if let ([word], true) = (plain.as_slice(), has_destination) {
            // `ln TARGET` makes a link of the same name where it runs.
            let text = self.words[*word].clone();
            let name = super::reach::base(text.trim_end_matches('/'));
            self.add(*word, &format!("./{name}"), FileUse::Writes);
        }
        if self.found.walk != FolderWalk::No && plain.len() <= self.pattern_words(operands) {
            // Without a folder it walks the one it is in.
            self.add(0, ".", FileUse::Reads);
        }
        self.found
    }

    /// How many plain words come before the first that is a path.
    fn pattern_words(&self, operands: &OperandLayout) -> usize {
        operands
            .first
            .iter()
            .take_while(|kind| **kind <= OperandKind::Pattern)
            .filter(|kind| !(self.pattern_given && **kind == OperandKind::Pattern))
            .count()
    }

    /// Wildcards may stand for several words, so that the position of the others is not certain.
    fn kinds(&self, operands: &OperandLayout, plain: &[usize]) -> Vec<Option<OperandKind>> {
        let kinds = operands.kinds(plain.len(), self.pattern_given);
        let last_is_certain = operands.first.is_empty()
            && operands.last.len() == 1
            && plain.len() > 1
            && plain.last().is_some_and(|word| !self.is_glob(*word));
        if !plain.iter().any(|word| self.is_glob(*word)) || last_is_certain {
            return kinds;
        }
        let worst = operands.worst().max(OperandKind::Read);
        let uniform = operands.first.is_empty() && operands.last.is_empty();
        if uniform {
            return kinds;
        }
        vec![Some(worst); kinds.len()]
    }

    fn is_glob(&self, word: usize) -> bool {
        self.sources.get(word).is_some_and(|source| source.glob)
    }

    fn plain_word(&mut self, word: usize, text: &str, kind: Option<OperandKind>) {
        if let Some((_, value)) = text.split_once('=')
            && kind.is_none_or(|kind| kind >= OperandKind::Read)
        {
            // `dd if=PATH` and the like.
            self.add(word, value, FileUse::Unknown);
        }
        match kind {
            Some(OperandKind::NoPath | OperandKind::Pattern) => {}
            Some(OperandKind::Read) => self.add(word, text, FileUse::Reads),
            Some(OperandKind::Any) => self.add(word, text, FileUse::Unknown),
            Some(OperandKind::Write) => self.add(word, text, FileUse::Writes),
            Some(OperandKind::Danger) => {
                self.dangerous(text);
                self.add(word, text, FileUse::Writes);
            }
            None => {
                self.unknown(text);
                self.add(word, text, FileUse::Unknown);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::word::dequote;
    use super::*;

    /// The paths of a command with what happens to them, and whether it is dangerous.
    fn read(command: &str) -> (Vec<(String, FileUse)>, bool) {
        let sources: Vec<ShellWord> = command.split(' ').map(dequote).collect();
        let words: Vec<String> = sources.iter().map(|word| word.text.clone()).collect();
        let found = read_arguments(&words, &sources).unwrap();
        let paths = found.paths.into_iter();
        let paths = paths.map(|path| (path.path, path.touches)).collect();
        (paths, found.hazard.is_some())
    }

    fn paths(list: &[(&str, FileUse)]) -> Vec<(String, FileUse)> {
        let owned = list
            .iter()
            .map(|(path, touches)| ((*path).to_owned(), *touches));
        owned.collect()
    }

    #[test]
    fn a_pattern_is_told_from_a_file_wherever_it_is_given() {
        use FileUse::Reads;
        for command in [
            "grep x f",
            "grep -e x f",
            "grep -ex f",
            "grep -vex f",
            "grep --regexp=x f",
            "grep --regexp x f",
            "grep --regex x f",
            "grep -v -- -x f",
            "grep -m 1 x f",
            "grep -m1 x f",
        ] {
            assert_eq!(read(command), (paths(&[("f", Reads)]), false), "{command}");
        }
        let two = paths(&[("p", Reads), ("f", Reads)]);
        for command in [
            "grep -f p f",
            "grep -fp f",
            "grep --file=p f",
            "grep -vfp f",
        ] {
            assert_eq!(read(command), (two.clone(), false), "{command}");
        }
    }

    #[test]
    fn an_option_that_is_not_known_is_dangerous() {
        for command in [
            "grep --frobnicate x f",
            "grep -Ð x f",
            "sort --output=o f",
            "sort --outp o f",
            "sort -ro o f",
            "sort -oo f",
            "cargo frobnicate",
            "cargo test --config x",
            "cargo --config x test",
        ] {
            assert!(read(command).1, "{command}");
        }
        assert!(!read("sort -rnk 2 f").1);
    }

    #[test]
    fn the_last_word_of_a_copy_is_written() {
        use FileUse::{Reads, Writes};
        let expected = paths(&[("a", Reads), ("b", Reads), ("d", Writes)]);
        assert_eq!(read("cp a b d"), (expected, false));
        assert_eq!(read("cp a* d").0, paths(&[("a*", Reads), ("d", Writes)]));
        // What fits the last word may be several, so that any of them may be the target.
        assert_eq!(read("cp a d*").0, paths(&[("a", Writes), ("d*", Writes)]));
    }

    #[test]
    fn without_a_folder_a_walk_begins_where_it_is() {
        use FileUse::Reads;
        assert_eq!(read("grep -r x").0, paths(&[(".", Reads)]));
        assert_eq!(read("grep -r x src").0, paths(&[("src", Reads)]));
        assert_eq!(read("find").0, paths(&[(".", Reads)]));
    }
}
