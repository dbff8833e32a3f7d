//! codex: `prefix_rule(…)` in `*.rules`, the strictest match wins.

use std::sync::Arc;

use countersign_core::event::Effect;

use super::starlark::{self, StarlarkCall, StarlarkValue};
use super::{ForeignFile, PolicyReader, RuleSource, is_plain_word};

/// How many commands the alternatives of one rule may stand for.
const ALTERNATIVES_MAX: usize = 256;

pub(super) fn read(reading: &mut PolicyReader, files: &[ForeignFile<'_>]) {
    for file in files {
        let source: Arc<str> = file.source.into();
        match starlark::parse(file.text) {
            Ok(calls) => {
                for call in &calls {
                    read_call(reading, &source, call);
                }
            }
            Err(error) => reading.set_broken(file.source, Some(error.line), &error.message),
        }
    }
}

fn read_call(reading: &mut PolicyReader, source: &Arc<str>, call: &StarlarkCall) {
    match call.name.as_str() {
        "prefix_rule" => match PrefixRule::read(call) {
            Ok(rule) => rule.translate(reading, &rule_source(source, call, rule.shown())),
            Err(why) => reading.set_broken(source, Some(call.line), &why),
        },
        // It says which full paths stand for a name; our allows match bare names only.
        "host_executable" => {
            let why = "left out: a program by its full path needs a rule of its own".to_owned();
            let dropped = rule_source(source, call, call.name.clone());
            reading.add_dropped(&dropped, Effect::Allow, why);
        }
        "network_rule" => {
            let why = "left out: it is about codex's own sandbox".to_owned();
            let dropped = rule_source(source, call, call.name.clone());
            reading.add_dropped(&dropped, Effect::Deny, why);
        }
        other => {
            let why = format!("not understood: `{other}`");
            reading.set_broken(source, Some(call.line), &why);
        }
    }
}

fn rule_source(source: &Arc<str>, call: &StarlarkCall, text: String) -> RuleSource {
    RuleSource {
        source: Arc::clone(source),
        line: call.line,
        text,
    }
}

/// A rule for commands that begin with these words, each with its alternatives.
struct PrefixRule {
    pattern: Vec<Vec<String>>,
    effect: Effect,
    reason: Option<Arc<str>>,
}

impl PrefixRule {
    fn read(call: &StarlarkCall) -> Result<Self, String> {
        let mut rule = Self {
            pattern: Vec::new(),
            effect: Effect::Allow,
            reason: None,
        };
        let (mut matching, mut other) = (Vec::new(), Vec::new());
        for (key, value) in &call.arguments {
            match (key.as_str(), value) {
                ("pattern", StarlarkValue::List(words)) => {
                    rule.pattern = words.iter().map(alternatives).collect::<Result<_, _>>()?;
                }
                ("decision", StarlarkValue::Text(word)) => rule.effect = decision(word)?,
                ("justification", StarlarkValue::Text(text)) => {
                    rule.reason = Some(text.as_str().into());
                }
                ("match", StarlarkValue::List(found)) => matching = examples(found)?,
                ("not_match", StarlarkValue::List(found)) => other = examples(found)?,
                _ => return Err(format!("not understood: `{key}`")),
            }
        }
        if rule.pattern.is_empty() {
            return Err("`pattern` is missing".into());
        }
        // codex refuses a file whose examples fail, and then none of it counts.
        if matching.iter().any(|words| !rule.matches(words)) {
            return Err("a rule does not match its own example".into());
        }
        if other.iter().any(|words| rule.matches(words)) {
            return Err("a rule matches what it says it does not".into());
        }
        Ok(rule)
    }

    fn matches(&self, words: &[String]) -> bool {
        words.len() >= self.pattern.len()
            && self
                .pattern
                .iter()
                .zip(words)
                .all(|(known, word)| known.contains(word))
    }

    fn shown(&self) -> String {
        let words = self.pattern.iter().map(|words| words.join("|"));
        let word = match self.effect {
            Effect::Allow => "allow",
            Effect::Ask => "prompt",
            Effect::Deny => "forbidden",
        };
        format!("{} {word}", words.collect::<Vec<_>>().join(" "))
    }

    fn translate(&self, reading: &mut PolicyReader, spot: &RuleSource) {
        let count = self.pattern.iter().map(Vec::len).product::<usize>();
        let plain = self
            .pattern
            .iter()
            .flatten()
            .all(|word| is_plain_word(word));
        if count > ALTERNATIVES_MAX || !plain {
            return reading.add_inexact(
                self.effect,
                "Bash",
                spot,
                "it cannot be translated exactly",
            );
        }
        let before = reading.policy.entries.len();
        for command in self.commands() {
            reading.add_rule(self.effect, &format!("Bash({command}:*)"), 0, spot);
        }
        for entry in reading.policy.entries.iter_mut().skip(before) {
            entry.reason.clone_from(&self.reason);
        }
    }

    /// Every command that the alternatives stand for.
    fn commands(&self) -> Vec<String> {
        let mut commands = vec![String::new()];
        for words in &self.pattern {
            let longer = commands
                .iter()
                .flat_map(|command| words.iter().map(move |word| format!("{command} {word}")));
            commands = longer.collect();
        }
        commands
            .iter()
            .map(|command| command.trim_start().to_owned())
            .collect()
    }
}

fn decision(word: &str) -> Result<Effect, String> {
    match word {
        "allow" => Ok(Effect::Allow),
        "prompt" => Ok(Effect::Ask),
        "forbidden" => Ok(Effect::Deny),
        _ => Err(format!("not understood: the decision `{word}`")),
    }
}

fn alternatives(argument: &StarlarkValue) -> Result<Vec<String>, String> {
    match argument {
        StarlarkValue::Text(word) => Ok(vec![word.clone()]),
        StarlarkValue::List(words) if !words.is_empty() => words.iter().map(text).collect(),
        StarlarkValue::List(_) => Err("an empty list stands in a pattern".into()),
    }
}

fn text(argument: &StarlarkValue) -> Result<String, String> {
    match argument {
        StarlarkValue::Text(word) => Ok(word.clone()),
        StarlarkValue::List(_) => Err("not understood: a list was not expected".into()),
    }
}

/// Examples as words. Those with quotes would have to be split as a shell does, and are passed over.
fn examples(arguments: &[StarlarkValue]) -> Result<Vec<Vec<String>>, String> {
    let mut examples = Vec::new();
    for argument in arguments {
        match argument {
            StarlarkValue::List(words) => {
                examples.push(words.iter().map(text).collect::<Result<_, _>>()?);
            }
            // codex splits these as a shell does. An example only checks its rule, so that without
            // it the rule says the same.
            StarlarkValue::Text(line) if line.contains(['"', '\'', '\\']) => {}
            StarlarkValue::Text(line) => {
                examples.push(line.split_whitespace().map(str::to_owned).collect());
            }
        }
    }
    Ok(examples)
}
