//! `[profiles.NAME]`: what an agent is started with by `spawn --profile NAME`.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProfileConfig {
    /// The catalog's name for the agent.
    pub(crate) agent: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) mode: Option<String>,
    /// The only tools it may use; empty for all.
    pub(crate) allow_tools: Vec<String>,
    pub(crate) disallow_tools: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    /// What stands before the task, with an empty line between.
    pub(crate) prompt_prefix: Option<String>,
}

impl ProfileConfig {
    /// The task with what stands before it.
    pub(crate) fn prefixed(&self, prompt: String) -> String {
        match &self.prompt_prefix {
            Some(prefix) => format!("{}\n\n{prompt}", prefix.trim_end()),
            None => prompt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::HostConfig;
    use super::*;

    #[test]
    fn a_profile_is_read_by_its_name() {
        let text = "[profiles.review]\nagent = \"claude\"\nmode = \"plan\"\n\
                    disallow_tools = [\"Write\"]\nprompt_prefix = \"Only read.\\n\"\n\
                    [profiles.review.labels]\nteam = \"web\"\n";
        let config: HostConfig = toml::from_str(text).unwrap();
        let expected = ProfileConfig {
            agent: Some("claude".into()),
            mode: Some("plan".into()),
            disallow_tools: vec!["Write".into()],
            labels: [("team".into(), "web".into())].into(),
            prompt_prefix: Some("Only read.\n".into()),
            ..ProfileConfig::default()
        };
        assert_eq!(config.profiles["review"], expected);
        assert_eq!(expected.prefixed("Look".into()), "Only read.\n\nLook");
        let wrong = toml::from_str::<HostConfig>("[profiles.x]\nagnet = \"a\"\n");
        assert!(wrong.is_err());
    }
}
