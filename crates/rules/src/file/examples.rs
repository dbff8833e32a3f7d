//! Examples: what a rule must match and must not, checked when its file is read.

use countersign_core::event::Effect;

use super::table::TableReader;
use crate::assess::assess;
use crate::facts::NoFacts;
use crate::floor::Floor;
use crate::judge::{LayerAllows, LayerView, judge};
use crate::request::{RequestPlace, ToolAction, ToolRequest};
use crate::ruleset::{RuleEntry, RuleSet};

/// Examples of one rule.
const EXAMPLES_MAX: usize = 32;

/// Commands, paths, addresses or tool names, by what a rule must say of them.
#[derive(Debug, Default)]
pub(crate) struct RuleExamples {
    /// These it must match.
    pub(crate) matching: Vec<String>,
    /// These it must not.
    pub(crate) other: Vec<String>,
}

impl RuleExamples {
    /// Takes `examples = { match = […], no_match = […] }` out of a rule's table.
    pub(super) fn read(rule: &mut TableReader<'_, '_>) -> Self {
        let Some(mut table) = rule.take_table("examples") else {
            return Self::default();
        };
        let examples = Self {
            matching: table.take_texts("match"),
            other: table.take_texts("no_match"),
        };
        if examples.len() > EXAMPLES_MAX {
            rule.problem(format!("a rule has at most {EXAMPLES_MAX} examples"));
            return Self::default();
        }
        table.finish(&["match", "no_match"]);
        rule.problems.append(&mut table.problems);
        examples
    }

    /// How many there are: each costs a verdict when its file is read.
    pub(super) fn len(&self) -> usize {
        self.matching.len() + self.other.len()
    }

    /// Refuses a rule that does not do what its examples say.
    pub(crate) fn check(&self, entry: &RuleEntry) -> Result<(), String> {
        if self.len() == 0 {
            return Ok(());
        }
        let mut rules = RuleSet::default();
        rules.insert(entry.clone());
        for example in &self.matching {
            if !matches(&rules, entry, example) {
                return Err(format!("it does not match its example `{example}`"));
            }
        }
        for example in &self.other {
            if matches(&rules, entry, example) {
                return Err(format!("it matches `{example}`, and should not"));
            }
        }
        Ok(())
    }
}

/// Whether a rule alone settles an example. An allow matches if everything in it is allowed, the
/// others if any part is caught.
fn matches(rules: &RuleSet, entry: &RuleEntry, example: &str) -> bool {
    let request = request(entry.rule.text(), example);
    let layer = LayerView {
        rules,
        admits: &|_| true,
        allows: &LayerAllows::Count,
    };
    // Without files and without the floor: what a rule says of its examples must not depend on the
    // machine on which its file is read.
    let verdict = judge(&assess(&request, &NoFacts), &Floor::default(), &[layer]);
    match entry.effect {
        Effect::Allow => verdict.effect == Effect::Allow,
        Effect::Ask | Effect::Deny => verdict.parts.iter().any(|part| part.rule.is_some()),
    }
}

/// An example in the shape that the rule speaks of, in a project of its own.
fn request(rule: &str, example: &str) -> ToolRequest {
    let tool = rule.split('(').next().unwrap_or_default().trim();
    let text = example.to_owned();
    let action = match tool {
        "Bash" => ToolAction::Shell { command: text },
        "Read" => ToolAction::Read { path: text },
        "Edit" | "Write" => ToolAction::Edit { path: text },
        "WebFetch" => ToolAction::Fetch { url: text },
        _ => return ToolRequest::from_tool(example, None, place()),
    };
    ToolRequest {
        tool: tool.to_owned(),
        action,
        place: place(),
    }
}

fn place() -> RequestPlace {
    RequestPlace {
        cwd: "/project".into(),
        project: "/project".into(),
        home: "/home".into(),
        ignores_case: false,
        in_sandbox: false,
    }
}
