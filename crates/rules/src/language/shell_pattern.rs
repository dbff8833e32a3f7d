//! Patterns of commands: `Bash(git status)`, `Bash(git:*)`, `Bash(git * main)`.

use super::RuleError;
use crate::glob::TextGlob;
use crate::shell::{DenyForm, is_interpreter, is_wrapper, plain_words};

/// What a rule says of simple commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellPattern {
    pub(crate) form: ShellForm,
    /// The words before the first wildcard, read by blanks and read as a shell would.
    pub(crate) words: Vec<String>,
    quoted: Vec<String>,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShellForm {
    Every,
    Exact,
    Prefix,
    Wild(TextGlob),
}

impl ShellPattern {
    pub(crate) fn parse(spec: &str) -> Result<Self, RuleError> {
        let spec = spec.trim();
        let body = spec
            .strip_suffix(":*")
            .or_else(|| spec.strip_suffix(" *"))
            .map(str::trim_end);
        if body.unwrap_or(spec).contains(":*") {
            return Err(RuleError::MiddleColonStar);
        }
        let (form, head) = match body {
            _ if spec == "*" || body == Some("") => (ShellForm::Every, ""),
            Some(body) if TextGlob::new(body).is_literal() => (ShellForm::Prefix, body),
            _ => {
                let glob = TextGlob::new(&spec.replace(":*", " *"));
                if glob.is_literal() {
                    (ShellForm::Exact, spec)
                } else {
                    (ShellForm::Wild(glob), spec)
                }
            }
        };
        let literal = TextGlob::new(head);
        let mut words = blanks(literal.head());
        if matches!(form, ShellForm::Wild(_)) && !literal.head().ends_with(' ') {
            // The wildcard is part of this word.
            words.pop();
        }
        Ok(Self {
            // People write rules with and without quotes. Which of them is meant is not known, so a
            // command that fits either reading is matched.
            quoted: plain_words(literal.head()).unwrap_or_else(|| words.clone()),
            text: literal.head().to_owned(),
            form,
            words,
        })
    }

    /// Whether an allow covers exactly these words.
    pub(crate) fn allows(&self, words: &[String]) -> bool {
        // `./git` is any file of that name. Only a rule that names the path itself allows one.
        let bare = words.first().is_some_and(|name| !name.contains('/'));
        match &self.form {
            ShellForm::Every => bare,
            ShellForm::Exact => self.words == words || self.quoted == words,
            ShellForm::Prefix => words.starts_with(&self.words) || words.starts_with(&self.quoted),
            // The words are compared first: joined by blanks, a quoted word with a blank in it
            // would look like two.
            ShellForm::Wild(glob) => {
                words.starts_with(&self.words)
                    && (bare || !self.words.is_empty())
                    && glob.matches(&words.join(" "))
            }
        }
    }

    /// Whether a deny or ask covers a command, whatever folder its program and whatever order its
    /// options have.
    pub(crate) fn covers(&self, form: &DenyForm) -> bool {
        let texts = [form.text(), form.base_text()];
        match &self.form {
            ShellForm::Every => true,
            ShellForm::Exact => {
                texts.contains(&self.text.as_str())
                    || self.begins_with_quoted(form) && form.rest() == &self.quoted[1..]
            }
            ShellForm::Prefix => {
                texts.iter().any(|text| starts_with_word(text, &self.text))
                    || self.begins_with_quoted(form) && form.rest().starts_with(&self.quoted[1..])
                    || self.begins(form)
                        && (after_options(&self.words[1..], form.rest())
                            || in_any_order(&self.words[1..], form.rest()))
            }
            ShellForm::Wild(glob) => texts.iter().any(|text| glob.matches(text)),
        }
    }

    fn begins(&self, form: &DenyForm) -> bool {
        let name = self.words.first().map(String::as_str);
        name == Some(form.name()) || name == Some(form.base())
    }

    fn begins_with_quoted(&self, form: &DenyForm) -> bool {
        let name = self.quoted.first().map(String::as_str);
        name == Some(form.name()) || name == Some(form.base())
    }

    /// The program it names, where it names one.
    pub(crate) fn first_word(&self) -> Option<&str> {
        let quoted = self.quoted.first().map(String::as_str);
        let plain = self.words.first().map(String::as_str);
        // Quotes in the rule make two readings of the name; both must be found.
        plain.filter(|name| self.form != ShellForm::Every && Some(*name) == quoted)
    }

    /// The word after the program, where it names one that is no option.
    pub(crate) fn second_word(&self) -> Option<&str> {
        let quoted = self.quoted.get(1).map(String::as_str);
        let plain = self.words.get(1).map(String::as_str);
        plain.filter(|word| {
            !matches!(self.form, ShellForm::Every | ShellForm::Wild(_))
                && !word.starts_with('-')
                && Some(*word) == quoted
        })
    }

    /// How many words a rule names before anything goes.
    pub(crate) fn literal_words(&self) -> usize {
        self.words.len()
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if matches!(self.form, ShellForm::Wild(_)) && self.words.len() < 2 {
            warnings.push(
                "the wildcard stands before the subcommand, so it covers every subcommand".into(),
            );
        }
        let name = self.words.first().map_or("", String::as_str);
        if self.form == ShellForm::Prefix && self.words.len() == 1 && runs_anything(name) {
            warnings.push(format!("`{name}` runs any program it is given"));
        }
        warnings
    }
}

fn runs_anything(name: &str) -> bool {
    is_interpreter(name) || is_wrapper(name)
}

fn blanks(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn starts_with_word(text: &str, head: &str) -> bool {
    text.strip_prefix(head)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Whether the words begin with the rule's once options before them are left out; each option may
/// or may not take the next word.
fn after_options(rule: &[String], words: &[String]) -> bool {
    // An option may take the next word as its value, which only the program knows. So every
    // position at which the subcommand could begin is tried: a deny must not miss one of them.
    let mut reachable = vec![false; words.len() + 3];
    reachable[0] = true;
    for at in 0..words.len() {
        if !reachable[at] {
            continue;
        }
        if words[at..].starts_with(rule) {
            return true;
        }
        if words[at].starts_with('-') {
            reachable[at + 1] = true;
            reachable[at + 2] |= !words.get(at + 1).is_some_and(|word| word.starts_with('-'));
        }
    }
    false
}

/// Options may stand anywhere: a rule for `git push --force` also means `git push origin --force`.
fn in_any_order(rule: &[String], words: &[String]) -> bool {
    let (options, plain): (Vec<&String>, Vec<&String>) =
        rule.iter().partition(|word| word.starts_with('-'));
    if options.is_empty() {
        return false;
    }
    let mut own = words.iter().filter(|word| !word.starts_with('-'));
    plain.into_iter().all(|word| own.next() == Some(word))
        && options.into_iter().all(|option| words.contains(option))
}
