//! The rule language: the strings people already have, read exactly.
//!
//! Invariant: an allow matches less than it might mean, a deny or ask more.

mod path_pattern;
mod shell_pattern;

use countersign_core::event::Effect;

use crate::glob::TextGlob;
use crate::host::{FetchTarget, HostPattern};
use crate::network::{self, NetworkPattern};
use crate::spawn::{self, KindPattern};
pub(crate) use path_pattern::{DepthScope, PathAnchor, PathPattern};
pub(crate) use shell_pattern::{ShellForm, ShellPattern};

/// Longer rules than this are refused.
const RULE_BYTES_MAX: usize = 4096;

/// A rule that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    text: String,
    pub(crate) pattern: RulePattern,
}

/// Why a rule was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// There is nothing there.
    #[error("the rule is empty")]
    Empty,
    /// It is longer than any rule needs to be.
    #[error("the rule is longer than {RULE_BYTES_MAX} bytes")]
    TooLong,
    /// It holds something that cannot be seen.
    #[error("the rule contains a control or invisible character")]
    Invisible,
    /// It is not a tool's name with an optional pattern.
    #[error("`{0}` is neither a tool name nor a tool name with a pattern in parentheses")]
    Shape(String),
    /// The pattern is empty.
    #[error("the pattern in the parentheses is empty; leave them out to mean every use")]
    EmptyPattern,
    /// The tool takes no pattern that we know.
    #[error("`{0}` takes no pattern")]
    NoPattern(String),
    /// An allow must name what it allows.
    #[error("an allow must name its tool")]
    AllowsEverything,
    /// An allow must name its server.
    #[error("an allow must name the server literally, as in `mcp__server__*`")]
    AnyServer,
    /// The wildcard stands where it does not count.
    #[error("`:*` is allowed only at the end of a pattern")]
    MiddleColonStar,
    /// A domain that is none.
    #[error("`{0}` is not a domain")]
    Domain(String),
    /// A pattern for pages that is none.
    #[error("a pattern for web pages has the form `domain:NAME`")]
    DomainMissing,
    /// A pattern for connections that is none.
    #[error("a pattern for connections has the form `domain:NAME` or `address:ADDRESS`")]
    NetworkMissing,
    /// An address that is none.
    #[error("`{0}` is not an address, an address with a port, or a network such as `10.0.0.0/8`")]
    Address(String),
    /// A kind of agent that is none.
    #[error("`{0}` is not the name of a kind of agent, nor `*`")]
    AgentKind(String),
    /// A path that cannot be meant.
    #[error("a path pattern cannot begin in another user's home")]
    OtherHome,
}

/// What a rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RulePattern {
    /// Tools by name, whatever they do.
    Tool(TextGlob),
    /// Simple commands.
    Shell(ShellPattern),
    /// Files that are read.
    Read(Option<PathPattern>),
    /// Files that are written; the word is the tool's name, where only one was meant.
    Edit(Option<PathPattern>, &'static str),
    /// Pages.
    Fetch(Option<HostPattern>),
    /// Connections out of a sandbox.
    Network(NetworkPattern),
    /// Tools of one MCP server.
    Mcp { server: String, tool: TextGlob },
    /// Agents that an orchestrator starts.
    Spawn(KindPattern),
    /// Tools of any MCP server, by their whole name. Never in an allow.
    AnyMcp(TextGlob),
}

impl RulePattern {
    /// Whether it can cover a command, or a file that a command's redirection names.
    pub(crate) fn is_about_commands(&self) -> bool {
        match self {
            Self::Shell(_) | Self::Read(_) => true,
            // `Write(…)` and the like mean one tool, and that is none that runs commands.
            Self::Edit(_, tool) => tool.is_empty(),
            _ => false,
        }
    }
}

impl Rule {
    /// Reads a rule. The effect matters: an allow must name more than a deny.
    pub fn parse(effect: Effect, text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        check_text(text)?;
        let pattern = if let Some(rest) = text.strip_prefix("mcp__") {
            parse_mcp(effect, text, rest)?
        } else {
            let (name, spec) = split_pattern(text)?;
            parse_tool(effect, name, spec)?
        };
        Ok(Self {
            text: text.to_owned(),
            pattern,
        })
    }

    /// The rule as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What a person should know before relying on it.
    pub fn warnings(&self) -> Vec<String> {
        match &self.pattern {
            RulePattern::Shell(shell) => shell.warnings(),
            _ => Vec::new(),
        }
    }
}

fn check_text(text: &str) -> Result<(), RuleError> {
    if text.is_empty() {
        Err(RuleError::Empty)
    } else if text.len() > RULE_BYTES_MAX {
        Err(RuleError::TooLong)
    } else if text
        .chars()
        .any(|c| c.is_control() || crate::shell::is_invisible(c))
    {
        Err(RuleError::Invisible)
    } else {
        Ok(())
    }
}

fn split_pattern(text: &str) -> Result<(&str, Option<&str>), RuleError> {
    let (name, spec) = match text.split_once('(') {
        Some((name, rest)) => (name, Some(rest.strip_suffix(')'))),
        None => (text, None),
    };
    let is_name = !name.is_empty() && name.chars().all(|c| is_name_char(c) || c == '/');
    if !is_name || spec == Some(None) {
        return Err(RuleError::Shape(text.to_owned()));
    }
    match spec.flatten() {
        // `Bash()` might mean no command or every command; whoever wrote it must say which.
        Some("") => Err(RuleError::EmptyPattern),
        spec => Ok((name, spec)),
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*' | '.')
}

fn parse_mcp(effect: Effect, text: &str, rest: &str) -> Result<RulePattern, RuleError> {
    if rest.is_empty() || !rest.chars().all(is_name_char) {
        return Err(RuleError::Shape(text.to_owned()));
    }
    let (server, tool) = rest.split_once("__").unwrap_or((rest, "*"));
    if server.contains('*') || server.is_empty() {
        return if effect == Effect::Allow {
            Err(RuleError::AnyServer)
        } else {
            Ok(RulePattern::AnyMcp(TextGlob::new(text)))
        };
    }
    Ok(RulePattern::Mcp {
        server: server.to_owned(),
        tool: TextGlob::new(tool),
    })
}

fn parse_tool(effect: Effect, name: &str, spec: Option<&str>) -> Result<RulePattern, RuleError> {
    match (name, spec) {
        ("Bash", spec) => ShellPattern::parse(spec.unwrap_or("*")).map(RulePattern::Shell),
        ("Read", spec) => parse_path(spec).map(RulePattern::Read),
        ("Edit", spec) => parse_path(spec).map(|path| RulePattern::Edit(path, "")),
        ("Write", spec) => parse_path(spec).map(|path| RulePattern::Edit(path, "Write")),
        ("MultiEdit", spec) => parse_path(spec).map(|path| RulePattern::Edit(path, "MultiEdit")),
        ("NotebookEdit", spec) => {
            parse_path(spec).map(|path| RulePattern::Edit(path, "NotebookEdit"))
        }
        ("WebFetch", None) => Ok(RulePattern::Fetch(None)),
        ("WebFetch", Some(spec)) => parse_domain(spec).map(|host| RulePattern::Fetch(Some(host))),
        (network::NAME, spec) => NetworkPattern::parse(spec).map(RulePattern::Network),
        (spawn::NAME, spec) => KindPattern::parse(spec).map(RulePattern::Spawn),
        (name, Some(_)) => Err(RuleError::NoPattern(name.to_owned())),
        ("*", None) if effect == Effect::Allow => Err(RuleError::AllowsEverything),
        (name, None) if effect == Effect::Allow && name.starts_with('*') => {
            Err(RuleError::AllowsEverything)
        }
        (name, None) => Ok(RulePattern::Tool(TextGlob::new(name))),
    }
}

fn parse_domain(spec: &str) -> Result<HostPattern, RuleError> {
    let name = spec
        .strip_prefix("domain:")
        .ok_or(RuleError::DomainMissing)?
        .trim();
    HostPattern::parse(name).ok_or_else(|| RuleError::Domain(name.to_owned()))
}

fn parse_path(spec: Option<&str>) -> Result<Option<PathPattern>, RuleError> {
    spec.map(PathPattern::parse).transpose()
}

/// What a rule says of pages.
pub(crate) fn host_matches(
    pattern: Option<&HostPattern>,
    target: Option<&FetchTarget>,
    effect: Effect,
) -> bool {
    match (pattern, target) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(pattern), Some(target)) if effect == Effect::Allow => pattern.matches(target),
        (Some(pattern), Some(target)) => pattern.covers(target),
    }
}
