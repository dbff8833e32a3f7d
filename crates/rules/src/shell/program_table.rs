//! The program table: what the options and plain words of each program mean.
//!
//! The data is `programs.table`; its head explains the format. Invariant: what the table does not
//! list is not known, and what is not known is never harmless.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::glob::TextGlob;

/// What an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionClass {
    /// Takes no value and is harmless.
    Flag,
    /// Takes a value that is not a path, and is harmless.
    Value,
    /// The same, but the value can only be attached.
    Optional,
    /// Its value is harmless as a name, and loads or reaches something as soon as it is a path.
    Name,
    /// Its value is the pattern or script, so that no plain word is.
    Pattern,
    /// Its value is a file that is read and holds the pattern.
    PatternFile,
    /// Takes no value; with it the program takes no pattern.
    PatternNone,
    /// Its value is a path that is read.
    Read,
    /// Its value is a path that is written: dangerous.
    Write,
    /// Its value is the folder in which the program then works: dangerous.
    Folder,
    /// Its value runs or loads something: dangerous.
    Run,
    /// Takes no value and is dangerous.
    Danger,
    /// Makes the program walk folders.
    Recurse,
    /// Makes the program follow links while it walks.
    Follow,
    /// Makes the program look at hidden files too.
    Hidden,
    /// Makes the program only read its plain words.
    Reading,
}

impl OptionClass {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "flag" => Self::Flag,
            "value" => Self::Value,
            "optional" => Self::Optional,
            "name" => Self::Name,
            "pattern" => Self::Pattern,
            "pattern-file" => Self::PatternFile,
            "pattern-none" => Self::PatternNone,
            "read" => Self::Read,
            "write" => Self::Write,
            "folder" => Self::Folder,
            "run" => Self::Run,
            "danger" => Self::Danger,
            "recurse" => Self::Recurse,
            "follow" => Self::Follow,
            "hidden" => Self::Hidden,
            "reading" => Self::Reading,
            _ => return None,
        })
    }

    /// Whether the next word is its value where none is attached.
    pub(crate) fn takes_value(self) -> bool {
        matches!(
            self,
            Self::Value
                | Self::Name
                | Self::Pattern
                | Self::PatternFile
                | Self::Read
                | Self::Write
                | Self::Folder
                | Self::Run
        )
    }

    pub(crate) fn is_dangerous(self) -> bool {
        matches!(self, Self::Write | Self::Folder | Self::Run | Self::Danger)
    }
}

/// What a plain word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OperandKind {
    /// Never a path.
    NoPath,
    /// A pattern or script, unless an option gave it.
    Pattern,
    Read,
    /// May be a path; what is done to it is not known.
    Any,
    Write,
    /// Written, and not expected by whoever wrote a rule for the program.
    Danger,
}

impl OperandKind {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "none" => Self::NoPath,
            "pattern" => Self::Pattern,
            "read" => Self::Read,
            "any" => Self::Any,
            "write" => Self::Write,
            "danger" => Self::Danger,
            _ => return None,
        })
    }
}

/// How a program reads its options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OptionStyle {
    /// Long options may be abbreviated, short ones bundled.
    #[default]
    Gnu,
    /// Long options are written out, short ones may be bundled.
    Exact,
    /// One or two dashes mean the same, nothing is bundled.
    Single,
}

/// The plain words of a program, in order: some fixed, then one kind that repeats, then some fixed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OperandLayout {
    pub(crate) first: Vec<OperandKind>,
    pub(crate) repeated: Option<OperandKind>,
    pub(crate) last: Vec<OperandKind>,
}

/// What is known of one program, or of one of its subcommands.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a line of the table of its own"
)]
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramEntry {
    /// Absent where the table does not say: then any word may be a path.
    pub(crate) operands: Option<OperandLayout>,
    options: HashMap<String, OptionClass>,
    /// Those of its own block.
    own_options: HashSet<String>,
    pub(crate) style: OptionStyle,
    /// Walks the folders it is given by itself.
    pub(crate) walks: bool,
    /// Leaves hidden files out while it walks, unless an option says otherwise.
    pub(crate) skips_hidden: bool,
    /// What follows `--` belongs to a script of the repository.
    pub(crate) passes_rest: bool,
    /// The first plain word is a script of the repository, and what follows belongs to it.
    pub(crate) runs_script: bool,
    pub(crate) danger_words: Vec<TextGlob>,
    /// Words that are harmless and not counted as plain words.
    pub(crate) plain_words: Vec<TextGlob>,
    /// Without one of these options it takes commands from its input, or starts an editor.
    pub(crate) needed_options: HashSet<String>,
    subcommands: HashMap<String, ProgramEntry>,
}

impl ProgramEntry {
    pub(crate) fn has_subcommands(&self) -> bool {
        !self.subcommands.is_empty()
    }

    pub(crate) fn subcommand(&self, name: &str) -> Option<&Self> {
        self.subcommands.get(name)
    }

    /// The class of an option as it was written, dashes and all, without a value.
    pub(crate) fn option(&self, name: &str) -> Option<OptionClass> {
        self.options.get(name).copied()
    }

    /// The class of a long option that may be abbreviated: the worst of those it could mean.
    pub(crate) fn long_option(&self, name: &str) -> Option<OptionClass> {
        let exact = self.option(name);
        if exact.is_some() || self.style != OptionStyle::Gnu {
            return exact;
        }
        let mut found = None;
        let meant = self.options.iter().filter(|(own, _)| own.starts_with(name));
        for (_, class) in meant.filter(|_| name.len() > 2) {
            match found {
                None => found = Some(*class),
                Some(known) if known == *class => {}
                Some(known) if known.is_dangerous() => {}
                Some(_) if class.is_dangerous() => found = Some(*class),
                // The program refuses it, or one of them is meant: which is not known.
                Some(_) => return None,
            }
        }
        found
    }
}

/// The entry of a program, by its name without a folder.
pub(crate) fn find_program(name: &str) -> Option<&'static ProgramEntry> {
    static TABLE: LazyLock<HashMap<String, ProgramEntry>> = LazyLock::new(|| {
        let table = parse_table(include_str!("programs.table"));
        // The table is part of the program: a fault in it is a bug, which a test finds.
        table.unwrap_or_else(|fault| panic!("programs.table: {fault}"))
    });
    // The exact name first: some programs have a digit or a dot in their names.
    TABLE.get(name).or_else(|| TABLE.get(unversioned(name)))
}

/// `gcc-12` and `python3.11` are `gcc` and `python`.
fn unversioned(name: &str) -> &str {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if bare.is_empty() { name } else { bare }
}

/// Reads the whole table; a message about the first line that is not understood.
fn parse_table(text: &str) -> Result<HashMap<String, ProgramEntry>, String> {
    let mut table = ProgramEntry::default();
    let mut header: Vec<&str> = Vec::new();
    let mut block = ProgramEntry::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let fault = |what: &str| format!("line {number}: {what}: `{line}`");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "program" {
            table.add(&header, &block)?;
            header = rest.split_whitespace().collect();
            block = ProgramEntry::default();
            if let Some(inherited) = table.inherited_by(&header) {
                block = inherited;
            }
        } else if header.is_empty() {
            return Err(fault("nothing may precede the first program"));
        } else {
            block
                .read_line(word, rest)
                .ok_or_else(|| fault("not understood"))?;
        }
    }
    table.add(&header, &block)?;
    Ok(table.subcommands)
}

impl ProgramEntry {
    /// A subcommand has the options of what it belongs to.
    fn inherited_by(&self, header: &[&str]) -> Option<Self> {
        let (_, above) = header.split_last()?;
        let mut parent = self;
        for names in above {
            let name = names.split('|').next()?;
            parent = parent.subcommands.get(name).unwrap_or(parent);
        }
        (!above.is_empty()).then(|| parent.inherit())
    }

    fn add(&mut self, header: &[&str], block: &Self) -> Result<(), String> {
        let Some((names, deeper)) = header.split_first() else {
            return Ok(());
        };
        for name in names.split('|') {
            if deeper.is_empty() {
                let known = self.subcommands.insert(name.to_owned(), block.clone());
                if known.is_some() {
                    return Err(format!("`{name}` appears twice"));
                }
            } else {
                self.parent_of(name)?.add(deeper, block)?;
            }
        }
        Ok(())
    }

    /// The entry of a subcommand that has some itself; without a block it has nothing of its own.
    fn parent_of(&mut self, name: &str) -> Result<&mut Self, String> {
        if self.options.is_empty() && !self.subcommands.contains_key(name) {
            return Err(format!("`{name}` has no block of its own"));
        }
        let inherited = self.inherit();
        Ok(self.subcommands.entry(name.to_owned()).or_insert(inherited))
    }

    fn inherit(&self) -> Self {
        // Not the operands and not what is walked: those differ from subcommand to subcommand, and
        // a subcommand that says nothing of them must count as not known.
        Self {
            options: self.options.clone(),
            style: self.style,
            danger_words: self.danger_words.clone(),
            ..Self::default()
        }
    }

    fn read_line(&mut self, word: &str, rest: &str) -> Option<()> {
        let words = rest.split_whitespace();
        match word {
            "operands" => self.operands = Some(OperandLayout::parse(rest)?),
            "walks" => self.walks = true,
            "skips-hidden" => self.skips_hidden = true,
            "script" => self.passes_rest = true,
            "script-word" => self.runs_script = true,
            "words" => self.danger_words.extend(words.map(TextGlob::new)),
            "plain" => self.plain_words.extend(words.map(TextGlob::new)),
            "needs" => self.needed_options.extend(words.map(str::to_owned)),
            "style" => {
                self.style = match rest.trim() {
                    "gnu" => OptionStyle::Gnu,
                    "exact" => OptionStyle::Exact,
                    "single" => OptionStyle::Single,
                    _ => return None,
                }
            }
            word => {
                let class = OptionClass::parse(word)?;
                for option in words {
                    // A subcommand may say otherwise than what it belongs to, but not twice.
                    let is_new = self.own_options.insert(option.to_owned());
                    if !option.starts_with(['-', '+']) || !is_new {
                        return None;
                    }
                    self.options.insert(option.to_owned(), class);
                }
            }
        }
        Some(())
    }
}

impl OperandLayout {
    fn parse(text: &str) -> Option<Self> {
        let mut operands = Self::default();
        for word in text.split_whitespace() {
            let name = word.trim_end_matches("...");
            let kind = OperandKind::parse(name)?;
            if name.len() != word.len() {
                if operands.repeated.replace(kind).is_some() {
                    return None;
                }
            } else if operands.repeated.is_some() {
                operands.last.push(kind);
            } else {
                operands.first.push(kind);
            }
        }
        // A single `none` means that the program takes no paths, however many words there are.
        if operands.first == [OperandKind::NoPath] && operands.repeated.is_none() {
            operands.first.clear();
            operands.repeated = Some(OperandKind::NoPath);
        }
        Some(operands)
    }

    /// The kind of each of `count` plain words; nothing for words that there should not be.
    pub(crate) fn kinds(&self, count: usize, pattern_given: bool) -> Vec<Option<OperandKind>> {
        let first: Vec<OperandKind> = self
            .first
            .iter()
            .filter(|kind| !(pattern_given && **kind == OperandKind::Pattern))
            .copied()
            .collect();
        let fixed_last = count.min(self.last.len());
        let mut kinds = Vec::with_capacity(count);
        for at in 0..count {
            let from_end = count - at;
            kinds.push(if from_end <= fixed_last {
                Some(self.last[self.last.len() - from_end])
            } else {
                first.get(at).copied().or(self.repeated)
            });
        }
        kinds
    }

    /// The worst kind that a word may have where positions are not certain.
    pub(crate) fn worst(&self) -> OperandKind {
        let all = self.first.iter().chain(&self.repeated).chain(&self.last);
        all.max().copied().unwrap_or(OperandKind::Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_understood() {
        let table = parse_table(include_str!("programs.table")).unwrap();
        assert!(table.len() >= 150, "{} programs", table.len());
    }

    #[test]
    fn a_subcommand_has_the_options_above_it() {
        let text = "program a|b\n flag -v\n run --config\nprogram a x\n operands none\nprogram b x\n value -n";
        let table = parse_table(text).unwrap();
        let sub = table["a"].subcommand("x").unwrap();
        assert_eq!(sub.option("-v"), Some(OptionClass::Flag));
        assert_eq!(sub.long_option("--conf"), Some(OptionClass::Run));
        assert_eq!(sub.option("-n"), None);
        assert_eq!(
            table["b"].subcommand("x").unwrap().option("-n"),
            Some(OptionClass::Value)
        );
    }

    #[test]
    fn a_line_that_is_not_understood_is_told() {
        for text in [
            "flag -v",
            "program a\n flagg -v",
            "program a\n operands reed",
            "program a\n style loose",
            "program a\n flag v",
            "program a b",
            "program a\nprogram a",
            "program a\n run -x\n flag -x",
        ] {
            assert!(parse_table(text).is_err(), "{text}");
        }
    }

    #[test]
    fn plain_words_are_told_apart_by_position() {
        use OperandKind::{Pattern, Read, Write};
        let kinds =
            |text: &str, count, given| OperandLayout::parse(text).unwrap().kinds(count, given);
        assert_eq!(
            kinds("pattern read...", 3, false),
            [Some(Pattern), Some(Read), Some(Read)]
        );
        assert_eq!(kinds("pattern read...", 2, true), [Some(Read), Some(Read)]);
        assert_eq!(
            kinds("read... write", 3, false),
            [Some(Read), Some(Read), Some(Write)]
        );
        assert_eq!(kinds("read... write", 1, false), [Some(Write)]);
        assert_eq!(kinds("read", 2, false), [Some(Read), None]);
    }
}
