//! The rule language: the strings people already have, read exactly.

use countersign_core::event::Effect;

/// A rule that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    text: String,
}

/// Why a rule was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// There is nothing there.
    #[error("the rule is empty")]
    Empty,
}

impl Rule {
    /// Reads a rule. The effect matters: an allow must name more than a deny.
    pub fn parse(_effect: Effect, text: &str) -> Result<Self, RuleError> {
        if text.trim().is_empty() {
            return Err(RuleError::Empty);
        }
        Ok(Self {
            text: text.to_owned(),
        })
    }

    /// The rule as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}
