//! Judging: the parts of a request held against layers of rules.

use countersign_core::event::{Effect, PartKind, Verdict, VerdictPart};

use crate::assess::Assessment;
use crate::floor::Floor;
use crate::ruleset::{Entry, RuleSet};

/// One source of rules. In each, the highest rank that matches counts; between layers the
/// strictest does, and a layer that says nothing does not count.
#[derive(Clone, Copy)]
pub struct Layer<'a> {
    /// Its rules.
    pub rules: &'a RuleSet,
    /// Which of them count for this request.
    pub admits: &'a dyn Fn(&Entry) -> bool,
    /// Whether its allows count.
    pub allows: Allows<'a>,
}

/// Whether the allows of a layer count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allows<'a> {
    /// They do.
    Count,
    /// They do not, and nothing else is allowed either, for this reason.
    Suspended(&'a str),
    /// They do not: nobody has trusted them yet.
    Untrusted,
}

/// Says what follows for a request, part by part.
pub fn judge(assessment: &Assessment, floor: &Floor, layers: &[Layer<'_>]) -> Verdict {
    let _ = (assessment, floor, layers);
    Verdict {
        effect: Effect::Ask,
        parts: vec![VerdictPart {
            kind: PartKind::Tool,
            subject: String::new(),
            effect: Effect::Ask,
            rule: None,
            reason: None,
            floor: false,
        }],
    }
}
