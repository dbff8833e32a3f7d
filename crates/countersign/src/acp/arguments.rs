//! The command line of `acp`.

use std::ffi::OsString;

use clap::Args;
use countersign_agents::editor::EditorTerminals;
use countersign_protocol::WorktreeParams;

use crate::cli::split_command;
use crate::config::EditorConfig;
use crate::error::CliError;

#[derive(Args, Default, Debug, PartialEq, Eq)]
#[command(after_help = "Examples:
  countersign acp --agent claude
  countersign acp --agent codex --worktree
  countersign acp --attach builder

Configuration of Zed that starts it:
  {\"agent_servers\": {\"Countersign\": {\"command\": \"countersign\", \"args\": [\"acp\", \"--agent\", \"claude\"]}}}

Sessions of the editor are agents of the host. Their asks show in the editor and in the inbox; the first
answer counts. An allow that an editor gives by itself does not count, unless config.toml says
`[editor] automatic = \"allow\"`.")]
pub(crate) struct AcpArgs {
    /// Start this agent from `countersign agents` for new sessions [default: `[editor] agent` in config.toml]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Start this program with its arguments instead, quoted as for a shell
    #[arg(long, value_name = "LINE", conflicts_with = "agent")]
    command: Option<String>,
    /// Give each new session a git worktree of its own
    #[arg(long)]
    worktree: bool,
    /// Name or id of the agent that new sessions attach to
    #[arg(long, value_name = "NAME", conflicts_with_all = ["agent", "command", "worktree"])]
    attach: Option<String>,
}

/// What a new session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NewSession {
    Attach(String),
    Spawn {
        agent: Option<String>,
        command: Vec<String>,
        worktree: Option<WorktreeParams>,
        terminals: EditorTerminals,
    },
}

impl AcpArgs {
    pub(super) fn into_spec(self, config: &EditorConfig) -> Result<NewSession, CliError> {
        if let Some(name) = self.attach {
            return Ok(NewSession::Attach(name));
        }
        let command = self.command.as_deref().map(split_command).transpose()?;
        let command = command.unwrap_or_default();
        let agent = self.agent.or_else(|| config.agent.clone());
        let agent = agent.filter(|_| command.is_empty());
        Ok(NewSession::Spawn {
            agent,
            command,
            worktree: self.worktree.then(WorktreeParams::default),
            terminals: config.settings().terminals,
        })
    }
}

/// The arguments as editors give them, read without building the whole command line, which takes longer
/// than everything else that is needed to answer an editor. Anything else is left to it.
pub(crate) fn arguments(mut given: impl Iterator<Item = OsString>) -> Option<AcpArgs> {
    if given.next()? != "acp" {
        return None;
    }
    let mut args = AcpArgs::default();
    while let Some(word) = given.next() {
        match word.to_str()? {
            "--agent" if args.agent.is_none() => args.agent = Some(value(&mut given)?),
            "--command" if args.command.is_none() => args.command = Some(value(&mut given)?),
            "--attach" if args.attach.is_none() => args.attach = Some(value(&mut given)?),
            "--worktree" if !args.worktree => args.worktree = true,
            _ => return None,
        }
    }
    let spawns = args.agent.is_some() || args.command.is_some() || args.worktree;
    let conflicts = args.agent.is_some() && args.command.is_some();
    let conflicts = conflicts || (args.attach.is_some() && spawns);
    (!conflicts).then_some(args)
}

/// A value; what looks like an option is left to the whole command line to refuse.
fn value(given: &mut impl Iterator<Item = OsString>) -> Option<String> {
    let value = given.next()?.into_string().ok()?;
    (!value.starts_with('-')).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Option<AcpArgs> {
        arguments(words.iter().map(OsString::from))
    }

    #[test]
    fn an_editors_words_are_read_at_once_and_others_are_not() {
        assert_eq!(read(&["acp"]), Some(AcpArgs::default()));
        let named = AcpArgs {
            agent: Some("claude".to_owned()),
            worktree: true,
            ..AcpArgs::default()
        };
        assert_eq!(
            read(&["acp", "--worktree", "--agent", "claude"]),
            Some(named)
        );
        for other in [
            &["acp", "--help"] as &[&str],
            &["acp", "--agent"],
            &["acp", "--agent", "--worktree"],
            &["acp", "--agent", "a", "--agent", "b"],
            &["acp", "--agent", "a", "--command", "b"],
            &["acp", "--attach", "a", "--worktree"],
            &["acp", "--json"],
            &["up"],
            &[],
        ] {
            assert_eq!(read(other), None, "{other:?}");
        }
    }
}
