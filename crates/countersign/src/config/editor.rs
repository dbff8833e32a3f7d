//! What the file says about editors that start `countersign acp`.

use countersign_agents::editor::{AutomaticAllows, EditorAnswers, EditorSettings, EditorTerminals};
use serde::Deserialize;

/// What holds for editors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditorConfig {
    /// The agent that new sessions start, by its name in the catalog.
    #[serde(default)]
    pub(crate) agent: Option<String>,
    /// What an allow means that came sooner than a person can read.
    #[serde(default)]
    automatic: AutomaticSetting,
    /// Which answers of editors count.
    #[serde(default)]
    answers: AnswersSetting,
    /// Where commands of new sessions run.
    #[serde(default)]
    terminals: TerminalsSetting,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TerminalsSetting {
    #[default]
    Window,
    Editor,
    None,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AutomaticSetting {
    #[default]
    Refuse,
    Allow,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnswersSetting {
    #[default]
    All,
    Deny,
    None,
}

impl EditorConfig {
    pub(crate) fn settings(&self) -> EditorSettings {
        EditorSettings {
            viewer: None,
            terminals: match self.terminals {
                TerminalsSetting::Window => EditorTerminals::Window,
                TerminalsSetting::Editor => EditorTerminals::Editor,
                TerminalsSetting::None => EditorTerminals::None,
            },
            automatic: match self.automatic {
                AutomaticSetting::Refuse => AutomaticAllows::Refuse,
                AutomaticSetting::Allow => AutomaticAllows::Take,
            },
            answers: match self.answers {
                AnswersSetting::All => EditorAnswers::All,
                AnswersSetting::Deny => EditorAnswers::Deny,
                AnswersSetting::None => EditorAnswers::None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HostConfig;

    #[test]
    fn editors_answer_by_hand_unless_the_file_says_otherwise() {
        let read = |text: &str| HostConfig::parse(text).map(|config| config.editor.settings());
        assert_eq!(read(""), Ok(EditorSettings::default()));
        let narrow = EditorSettings {
            automatic: AutomaticAllows::Take,
            answers: EditorAnswers::Deny,
            terminals: EditorTerminals::Editor,
            viewer: None,
        };
        let text = "[editor]\nautomatic = \"allow\"\nanswers = \"deny\"\nterminals = \"editor\"\nagent = \"claude\"\n";
        assert_eq!(read(text), Ok(narrow));
        for wrong in [
            "automatic = true",
            "answers = \"some\"",
            "answer = \"none\"",
        ] {
            assert!(read(&format!("[editor]\n{wrong}\n")).is_err(), "{wrong}");
        }
    }
}
