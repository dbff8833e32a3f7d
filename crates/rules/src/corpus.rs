//! Labelled cases: rules, a request and the answer that is right, one JSON object per line.
//!
//! Invariant: a line that is not understood whole is an error, never a case that passes.

use std::collections::BTreeMap;

use countersign_core::event::{Effect, PartKind, Verdict, VerdictPart};
use serde::Deserialize;

use crate::assess::assess;
use crate::facts::{EntryKind, FileFacts, FileText, FolderEntry};
use crate::floor::Floor;
use crate::judge::{LayerAllows, LayerView, judge};
use crate::language::RuleError;
use crate::request::{RequestPlace, ToolAction, ToolRequest};
use crate::ruleset::{RuleEntry, RuleOrigin, RuleSet};

/// One labelled case.
#[derive(Clone, Debug)]
pub struct CorpusCase {
    /// Its name.
    pub id: String,
    /// What it is about.
    pub family: String,
    /// The rules that count.
    pub rules: CaseRules,
    /// What is asked.
    pub request: ToolRequest,
    /// The right answer.
    pub expect: Effect,
    /// Every answer that passes.
    pub accept: Vec<Effect>,
    links: BTreeMap<String, String>,
}

/// The rules of a case, by what they say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseRules {
    /// What may go ahead.
    #[serde(default)]
    pub allow: Vec<String>,
    /// What waits for a person.
    #[serde(default)]
    pub ask: Vec<String>,
    /// What is refused.
    #[serde(default)]
    pub deny: Vec<String>,
}

/// Why a line is no case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// It is not JSON, or a field is missing or has the wrong shape.
    #[error("{0}")]
    Shape(String),
    /// The tool of the request is not one of those that cases know.
    #[error("unknown tool `{0}`, expected shell, read, edit, fetch or mcp")]
    Tool(String),
    /// The request lacks what its tool needs.
    #[error("a request for `{tool}` needs `{field}`")]
    Missing {
        /// The tool.
        tool: String,
        /// The field.
        field: &'static str,
    },
    /// An allow would pass where it is not the right answer.
    #[error("`accept` contains allow, but the right answer is {0}")]
    Lenient(&'static str),
}

#[derive(Deserialize)]
struct CaseLine {
    id: String,
    #[serde(default)]
    family: String,
    rules: CaseRules,
    request: CaseAsk,
    expect: Effect,
    #[serde(default)]
    accept: Option<Vec<Effect>>,
    #[serde(default)]
    fs: CaseFiles,
}

#[derive(Default, Deserialize)]
struct CaseFiles {
    #[serde(default)]
    symlinks: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct CaseAsk {
    tool: String,
    command: Option<String>,
    path: Option<String>,
    url: Option<String>,
    server: Option<String>,
    name: Option<String>,
    #[serde(default)]
    cwd: String,
    project: Option<String>,
    #[serde(default)]
    home: String,
    #[serde(default)]
    platform: Option<String>,
}

impl CorpusCase {
    /// Reads one line.
    pub fn parse(line: &str) -> Result<Self, CaseError> {
        let line: CaseLine =
            serde_json::from_str(line).map_err(|error| CaseError::Shape(error.to_string()))?;
        let accept = line.accept.unwrap_or_else(|| vec![line.expect]);
        if line.expect != Effect::Allow && accept.contains(&Effect::Allow) {
            return Err(CaseError::Lenient(line.expect.as_str()));
        }
        Ok(Self {
            id: line.id,
            family: line.family,
            rules: line.rules,
            request: line.request.into_request()?,
            expect: line.expect,
            accept,
            links: line.fs.symlinks,
        })
    }

    /// What the engine says: the case's rules are the only layer, on a machine without a host. An
    /// allow that is not understood counts for nothing; if a deny or an ask is not understood,
    /// everything asks.
    pub fn judge(&self) -> Verdict {
        let rules = match self.rules.to_set() {
            Ok(rules) => rules,
            Err(error) => return asks_because(&self.request.tool, &error),
        };
        self.judge_by(&rules, &CaseLinks(&self.links))
    }

    /// What the engine says if these rules are the only ones and the folder of the case is a git
    /// worktree with plain settings.
    pub fn judge_in_worktree(&self, rules: &RuleSet) -> Verdict {
        let files = CaseWorktree {
            links: CaseLinks(&self.links),
            folder: &self.request.place.cwd,
        };
        self.judge_by(rules, &files)
    }

    fn judge_by(&self, rules: &RuleSet, files: &dyn FileFacts) -> Verdict {
        let layer = LayerView {
            rules,
            admits: &|_| true,
            allows: &LayerAllows::Count,
        };
        let assessment = assess(&self.request, files);
        judge(&assessment, &Floor::default(), &[layer])
    }

    /// Whether this answer passes.
    pub fn accepts(&self, effect: Effect) -> bool {
        self.accept.contains(&effect)
    }

    /// What is asked, in one line.
    pub fn subject(&self) -> String {
        match &self.request.action {
            ToolAction::Shell { command } => command.clone(),
            ToolAction::Read { path } => format!("read {path}"),
            ToolAction::Search { path } => format!("search {path}"),
            ToolAction::Edit { path } => format!("edit {path}"),
            ToolAction::Fetch { url } => format!("fetch {url}"),
            ToolAction::Mcp { server, tool } => format!("mcp {server} {tool}"),
            ToolAction::Spawn { names, .. } => format!("spawn {}", names.join(" ")),
            ToolAction::Other
            | ToolAction::Connect { .. }
            | ToolAction::All(_)
            | ToolAction::In { .. }
            | ToolAction::Unclear { .. } => self.request.tool.clone(),
        }
    }
}

impl CaseRules {
    fn to_set(&self) -> Result<RuleSet, RuleError> {
        let mut set = RuleSet::default();
        let lists = [
            (Effect::Deny, &self.deny),
            (Effect::Ask, &self.ask),
            (Effect::Allow, &self.allow),
        ];
        for (effect, list) in lists {
            for (line, text) in (1..).zip(list) {
                let origin = RuleOrigin::file(format!("case:{}", effect.as_str()), line);
                match RuleEntry::parse(effect, text, origin) {
                    Ok(entry) => drop(set.insert(entry)),
                    Err(_) if effect == Effect::Allow => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(set)
    }
}

fn asks_because(tool: &str, error: &RuleError) -> Verdict {
    Verdict {
        effect: Effect::Ask,
        parts: vec![VerdictPart {
            kind: PartKind::Tool,
            subject: tool.to_owned(),
            effect: Effect::Ask,
            rule: None,
            reason: Some(format!("a deny or ask rule was not understood: {error}")),
            floor: false,
        }],
    }
}

impl CaseAsk {
    fn into_request(self) -> Result<ToolRequest, CaseError> {
        let (tool, action) = match self.tool.as_str() {
            "shell" => {
                let command = required(self.command, &self.tool, "command")?;
                ("Bash".to_owned(), ToolAction::Shell { command })
            }
            "read" => {
                let path = required(self.path, &self.tool, "path")?;
                ("Read".to_owned(), ToolAction::Read { path })
            }
            "edit" => {
                let path = required(self.path, &self.tool, "path")?;
                ("Edit".to_owned(), ToolAction::Edit { path })
            }
            "fetch" => {
                let url = required(self.url, &self.tool, "url")?;
                ("WebFetch".to_owned(), ToolAction::Fetch { url })
            }
            "mcp" => {
                let server = required(self.server, &self.tool, "server")?;
                let tool = required(self.name, &self.tool, "name")?;
                let joined = format!("mcp__{server}__{tool}");
                (joined, ToolAction::Mcp { server, tool })
            }
            _ => return Err(CaseError::Tool(self.tool)),
        };
        let place = RequestPlace {
            // Most cases are about one folder that is the project as well.
            project: self.project.unwrap_or_else(|| self.cwd.clone()),
            cwd: self.cwd,
            home: self.home,
            ignores_case: self.platform.as_deref() == Some("darwin"),
            in_sandbox: false,
        };
        Ok(ToolRequest {
            tool,
            action,
            place,
        })
    }
}

fn required(value: Option<String>, tool: &str, field: &'static str) -> Result<String, CaseError> {
    value.ok_or_else(|| CaseError::Missing {
        tool: tool.to_owned(),
        field,
    })
}

struct CaseLinks<'a>(&'a BTreeMap<String, String>);

impl FileFacts for CaseLinks<'_> {
    fn read_link(&self, path: &str) -> Option<String> {
        self.0.get(path).cloned()
    }

    /// A case names only its links: nothing else is there.
    fn list_folder(&self, path: &str) -> Option<Vec<FolderEntry>> {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let below = self.0.keys().filter_map(|link| link.strip_prefix(&folder));
        let mut entries: Vec<FolderEntry> = below
            .map(|rest| match rest.split_once('/') {
                Some((name, _)) => (name, EntryKind::Folder),
                None => (rest, EntryKind::Link),
            })
            .map(|(name, kind)| FolderEntry {
                name: name.to_owned(),
                kind,
            })
            .collect();
        entries.sort();
        entries.dedup();
        Some(entries)
    }
}

/// The same, with a repository to which the folder of the case belongs.
struct CaseWorktree<'a> {
    links: CaseLinks<'a>,
    folder: &'a str,
}

impl FileFacts for CaseWorktree<'_> {
    fn read_link(&self, path: &str) -> Option<String> {
        self.links.read_link(path)
    }

    fn list_folder(&self, path: &str) -> Option<Vec<FolderEntry>> {
        self.links.list_folder(path)
    }

    fn read_text(&self, path: &str) -> FileText {
        let own = path.strip_prefix(self.folder);
        let text = match (own, path) {
            (Some("/.git"), _) => "gitdir: /repository/.git/worktrees/w\n".to_owned(),
            (_, "/repository/.git/worktrees/w/commondir") => "../..\n".to_owned(),
            (_, "/repository/.git/worktrees/w/gitdir") => format!("{}/.git\n", self.folder),
            (_, "/repository/.git/config") => "[core]\n\tbare = false\n".to_owned(),
            _ => return FileText::Absent,
        };
        FileText::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"id":"x-1","family":"x","rules":{"allow":["Bash(ls:*)"],"ask":[],"deny":[]},
        "request":{"tool":"shell","command":"ls -l","cwd":"/p","home":"/h","platform":"darwin"},
        "expect":"ask","accept":["ask","deny"],"why":"w","source":"s","fs":{"symlinks":{"/p/a":"/b"}}}"#;

    #[test]
    fn a_line_is_read_whole() {
        let case = CorpusCase::parse(LINE).unwrap();
        let place = RequestPlace {
            cwd: "/p".into(),
            project: "/p".into(),
            home: "/h".into(),
            ignores_case: true,
            in_sandbox: false,
        };
        let request = ToolRequest {
            tool: "Bash".into(),
            action: ToolAction::Shell {
                command: "ls -l".into(),
            },
            place,
        };
        assert_eq!(case.request, request);
        assert_eq!(case.rules.allow, ["Bash(ls:*)"]);
        assert_eq!(case.accept, [Effect::Ask, Effect::Deny]);
        assert_eq!(CaseLinks(&case.links).read_link("/p/a"), Some("/b".into()));
    }

    #[test]
    fn a_line_that_is_not_understood_is_an_error() {
        let wrong = |from, to| CorpusCase::parse(&LINE.replace(from, to)).unwrap_err();
        assert_eq!(wrong("shell", "telnet"), CaseError::Tool("telnet".into()));
        let missing = CaseError::Missing {
            tool: "fetch".into(),
            field: "url",
        };
        assert_eq!(wrong("shell", "fetch"), missing);
        assert_eq!(
            wrong(r#""ask","deny"]"#, r#""ask","allow"]"#),
            CaseError::Lenient("ask")
        );
        assert!(matches!(
            wrong(r#""deny":[]"#, r#""denny":[]"#),
            CaseError::Shape(_)
        ));
    }

    #[test]
    fn a_deny_that_is_not_understood_asks() {
        let line = LINE.replace(r#""deny":[]"#, r#""deny":[""]"#);
        assert_eq!(
            CorpusCase::parse(&line).unwrap().judge().effect,
            Effect::Ask
        );
    }
}
