//! What the file says about questions that agents ask.

use countersign_core::limits::{ESCALATION_MS, ESCALATION_MS_MAX};
use serde::Deserialize;

const SECOND_MS: u64 = 1000;

/// What holds for questions that agents ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionsConfig {
    /// How long an orchestrator has to answer before people are asked as well.
    #[serde(default)]
    pub(crate) to_person_seconds: ToPersonSeconds,
}

/// At least a second and at most a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "i64")]
pub(crate) struct ToPersonSeconds(u64);

impl ToPersonSeconds {
    const MAX: u64 = ESCALATION_MS_MAX / SECOND_MS;

    pub(crate) fn as_ms(self) -> u64 {
        self.0 * SECOND_MS
    }
}

impl Default for ToPersonSeconds {
    fn default() -> Self {
        Self(ESCALATION_MS / SECOND_MS)
    }
}

impl TryFrom<i64> for ToPersonSeconds {
    type Error = String;

    fn try_from(seconds: i64) -> Result<Self, String> {
        super::within(seconds, Self::MAX).map(Self).ok_or_else(|| {
            format!(
                "`to_person_seconds` must be between 1 and {}: the time an orchestrator has to answer \
                 before people are asked as well",
                Self::MAX
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HostConfig;

    #[test]
    fn an_orchestrator_has_a_second_to_a_day() {
        let read = |seconds: &str| {
            let text = format!("[questions]\nto_person_seconds = {seconds}\n");
            HostConfig::parse(&text).map(|config| config.questions.to_person_seconds.as_ms())
        };
        assert_eq!(read("1"), Ok(1_000));
        assert_eq!(read("86400"), Ok(ESCALATION_MS_MAX));
        for wrong in ["0", "-1", "86401"] {
            let error = read(wrong).unwrap_err();
            let begin = "line 2: `to_person_seconds` must be between 1 and 86400";
            assert!(error.starts_with(begin), "{error}");
        }
        assert_eq!(ToPersonSeconds::default().as_ms(), ESCALATION_MS);
    }
}
