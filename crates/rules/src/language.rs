//! The rule language: the strings people already have, read exactly.
//!
//! Invariant: an allow matches less than it might mean, a deny or ask more.

use countersign_core::event::Effect;

use crate::folder_tree::TreeNames;
use crate::glob::{GlobToken, PathSegment, TextGlob, path_matches, path_meets};
use crate::host::{FetchTarget, HostPattern};
use crate::path::{below, clean};
use crate::request::RequestPlace;
use crate::shell::DenyForm;
use crate::spawn::{self, KindPattern};

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
    #[error("the rule holds a control or invisible character")]
    Invisible,
    /// It is not a tool's name with an optional pattern.
    #[error("`{0}` is not a tool's name, nor one with a pattern in parentheses")]
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
    #[error("`:*` counts only at the end of a pattern")]
    MiddleColonStar,
    /// A domain that is none.
    #[error("`{0}` is not a domain")]
    Domain(String),
    /// A pattern for pages that is none.
    #[error("a pattern for pages is `domain:NAME`")]
    DomainMissing,
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
    /// Tools of one MCP server.
    Mcp { server: String, tool: TextGlob },
    /// Agents that an orchestrator starts.
    Spawn(KindPattern),
    /// Tools of any MCP server, by their whole name. Never in an allow.
    AnyMcp(TextGlob),
}

impl Rule {
    /// Reads a rule. The effect matters: an allow must name more than a deny.
    pub fn parse(effect: Effect, text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        check_text(text)?;
        let pattern = if let Some(rest) = text.strip_prefix("mcp__") {
            parse_mcp(effect, text, rest)?
        } else {
            let (name, spec) = split(text)?;
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

fn split(text: &str) -> Result<(&str, Option<&str>), RuleError> {
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
        ("Read", spec) => path(spec).map(RulePattern::Read),
        ("Edit", spec) => path(spec).map(|path| RulePattern::Edit(path, "")),
        ("Write", spec) => path(spec).map(|path| RulePattern::Edit(path, "Write")),
        ("MultiEdit", spec) => path(spec).map(|path| RulePattern::Edit(path, "MultiEdit")),
        ("NotebookEdit", spec) => path(spec).map(|path| RulePattern::Edit(path, "NotebookEdit")),
        ("WebFetch", None) => Ok(RulePattern::Fetch(None)),
        ("WebFetch", Some(spec)) => domain(spec).map(|host| RulePattern::Fetch(Some(host))),
        (spawn::NAME, spec) => KindPattern::parse(spec).map(RulePattern::Spawn),
        (name, Some(_)) => Err(RuleError::NoPattern(name.to_owned())),
        ("*", None) if effect == Effect::Allow => Err(RuleError::AllowsEverything),
        (name, None) if effect == Effect::Allow && name.starts_with('*') => {
            Err(RuleError::AllowsEverything)
        }
        (name, None) => Ok(RulePattern::Tool(TextGlob::new(name))),
    }
}

fn domain(spec: &str) -> Result<HostPattern, RuleError> {
    let name = spec
        .strip_prefix("domain:")
        .ok_or(RuleError::DomainMissing)?
        .trim();
    HostPattern::parse(name).ok_or_else(|| RuleError::Domain(name.to_owned()))
}

fn path(spec: Option<&str>) -> Result<Option<PathPattern>, RuleError> {
    spec.map(PathPattern::parse).transpose()
}

/// What a rule says of simple commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellPattern {
    pub(crate) form: ShellForm,
    /// The words before the first wildcard, read by blanks and read as a shell would.
    pub(crate) words: Vec<String>,
    quoted: Vec<String>,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShellForm {
    Every,
    Exact,
    Prefix,
    Wild(TextGlob),
}

impl ShellPattern {
    pub(crate) fn parse(spec: &str) -> Result<Self, RuleError> {
        let spec = spec.trim();
        let body = spec
            .strip_suffix(":*")
            .or_else(|| spec.strip_suffix(" *"))
            .map(str::trim_end);
        if body.unwrap_or(spec).contains(":*") {
            return Err(RuleError::MiddleColonStar);
        }
        let (form, head) = match body {
            _ if spec == "*" || body == Some("") => (ShellForm::Every, ""),
            Some(body) if TextGlob::new(body).is_literal() => (ShellForm::Prefix, body),
            _ => {
                let glob = TextGlob::new(&spec.replace(":*", " *"));
                if glob.is_literal() {
                    (ShellForm::Exact, spec)
                } else {
                    (ShellForm::Wild(glob), spec)
                }
            }
        };
        let literal = TextGlob::new(head);
        let mut words = blanks(literal.head());
        if matches!(form, ShellForm::Wild(_)) && !literal.head().ends_with(' ') {
            // The wildcard is part of this word.
            words.pop();
        }
        Ok(Self {
            quoted: crate::shell::plain_words(literal.head()).unwrap_or_else(|| words.clone()),
            text: literal.head().to_owned(),
            form,
            words,
        })
    }

    /// Whether an allow covers exactly these words.
    pub(crate) fn allows(&self, words: &[String]) -> bool {
        let bare = words.first().is_some_and(|name| !name.contains('/'));
        match &self.form {
            ShellForm::Every => bare,
            ShellForm::Exact => self.words == words || self.quoted == words,
            ShellForm::Prefix => words.starts_with(&self.words) || words.starts_with(&self.quoted),
            ShellForm::Wild(glob) => {
                words.starts_with(&self.words)
                    && (bare || !self.words.is_empty())
                    && glob.matches(&words.join(" "))
            }
        }
    }

    /// Whether a deny or ask covers a command, whatever folder its program and whatever order its
    /// options have.
    pub(crate) fn covers(&self, form: &DenyForm) -> bool {
        let texts = [form.text(), form.base_text()];
        match &self.form {
            ShellForm::Every => true,
            ShellForm::Exact => {
                texts.contains(&self.text.as_str())
                    || self.begins_with_quoted(form) && form.rest() == &self.quoted[1..]
            }
            ShellForm::Prefix => {
                texts.iter().any(|text| starts_with_word(text, &self.text))
                    || self.begins_with_quoted(form) && form.rest().starts_with(&self.quoted[1..])
                    || self.begins(form)
                        && (after_options(&self.words[1..], form.rest())
                            || in_any_order(&self.words[1..], form.rest()))
            }
            ShellForm::Wild(glob) => texts.iter().any(|text| glob.matches(text)),
        }
    }

    fn begins(&self, form: &DenyForm) -> bool {
        let name = self.words.first().map(String::as_str);
        name == Some(form.name()) || name == Some(form.base())
    }

    fn begins_with_quoted(&self, form: &DenyForm) -> bool {
        let name = self.quoted.first().map(String::as_str);
        name == Some(form.name()) || name == Some(form.base())
    }

    /// The program it names, where it names one.
    pub(crate) fn first_word(&self) -> Option<&str> {
        let quoted = self.quoted.first().map(String::as_str);
        let plain = self.words.first().map(String::as_str);
        // Quotes in the rule make two readings of the name; both must be found.
        plain.filter(|name| self.form != ShellForm::Every && Some(*name) == quoted)
    }

    /// The word after the program, where it names one that is no option.
    pub(crate) fn second_word(&self) -> Option<&str> {
        let quoted = self.quoted.get(1).map(String::as_str);
        let plain = self.words.get(1).map(String::as_str);
        plain.filter(|word| {
            !matches!(self.form, ShellForm::Every | ShellForm::Wild(_))
                && !word.starts_with('-')
                && Some(*word) == quoted
        })
    }

    /// How many words a rule names before anything goes.
    pub(crate) fn literal_words(&self) -> usize {
        self.words.len()
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if matches!(self.form, ShellForm::Wild(_)) && self.words.len() < 2 {
            warnings.push(
                "the wildcard stands before the subcommand, so it covers every subcommand".into(),
            );
        }
        let name = self.words.first().map_or("", String::as_str);
        if self.form == ShellForm::Prefix && self.words.len() == 1 && runs_anything(name) {
            warnings.push(format!("`{name}` runs any program it is given"));
        }
        warnings
    }
}

fn runs_anything(name: &str) -> bool {
    crate::shell::is_interpreter(name) || crate::shell::is_wrapper(name)
}

fn blanks(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn starts_with_word(text: &str, head: &str) -> bool {
    text.strip_prefix(head)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Whether the words begin with the rule's once options before them are left out; each option may
/// or may not take the next word.
fn after_options(rule: &[String], words: &[String]) -> bool {
    // An option may take the next word as its value, which only the program knows. So every position
    // at which the subcommand could begin is tried: a deny must not miss one of them.
    let mut reachable = vec![false; words.len() + 3];
    reachable[0] = true;
    for at in 0..words.len() {
        if !reachable[at] {
            continue;
        }
        if words[at..].starts_with(rule) {
            return true;
        }
        if words[at].starts_with('-') {
            reachable[at + 1] = true;
            reachable[at + 2] |= !words.get(at + 1).is_some_and(|word| word.starts_with('-'));
        }
    }
    false
}

/// Options may stand anywhere: a rule for `git push --force` also means `git push origin --force`.
fn in_any_order(rule: &[String], words: &[String]) -> bool {
    let (options, plain): (Vec<&String>, Vec<&String>) =
        rule.iter().partition(|word| word.starts_with('-'));
    if options.is_empty() {
        return false;
    }
    let mut own = words.iter().filter(|word| !word.starts_with('-'));
    plain.into_iter().all(|word| own.next() == Some(word))
        && options.into_iter().all(|option| words.contains(option))
}

/// What a rule says of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathPattern {
    pub(crate) anchor: PathAnchor,
    /// Steps up from the anchor before the segments begin.
    up: usize,
    pub(crate) segments: Vec<PathSegment>,
    /// Whether a deny or ask means any depth below the anchor.
    pub(crate) floats: DepthScope,
}

/// Where a path pattern begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PathAnchor {
    Root,
    Home,
    Project,
    Cwd,
}

/// Whether a pattern counts at any depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DepthScope {
    Never,
    /// For denies and asks alone.
    Strict,
    Always,
}

impl PathPattern {
    pub(crate) fn parse(spec: &str) -> Result<Self, RuleError> {
        let spec = spec.trim();
        let (anchor, rest) = if let Some(rest) = spec.strip_prefix("//") {
            (PathAnchor::Root, rest)
        } else if spec == "~" {
            (PathAnchor::Home, "")
        } else if let Some(rest) = spec.strip_prefix("~/") {
            (PathAnchor::Home, rest)
        } else if spec.starts_with('~') {
            return Err(RuleError::OtherHome);
        } else if let Some(rest) = spec.strip_prefix('/') {
            (PathAnchor::Project, rest)
        } else {
            (PathAnchor::Cwd, spec)
        };
        let names: Vec<&str> = rest
            .split('/')
            .filter(|name| !matches!(*name, "" | "."))
            .collect();
        let up = names.iter().take_while(|name| **name == "..").count();
        let mut segments: Vec<PathSegment> = names[up..]
            .iter()
            .map(|name| PathSegment::parse(name))
            .collect();
        if rest.ends_with('/') {
            segments.push(PathSegment::Any);
        }
        let floats = match (anchor, spec.starts_with("./"), up, segments.as_slice()) {
            (PathAnchor::Cwd, false, 0, [single]) if *single != PathSegment::Any => {
                DepthScope::Always
            }
            (PathAnchor::Cwd, false, 0, [first, PathSegment::Any])
                if *first != PathSegment::Any =>
            {
                DepthScope::Strict
            }
            _ => DepthScope::Never,
        };
        Ok(Self {
            anchor,
            up,
            segments,
            floats,
        })
    }

    /// Whether it begins above its anchor.
    pub(crate) fn goes_up(&self) -> bool {
        self.up > 0
    }

    /// The folder the segments are counted from.
    pub(crate) fn base(&self, place: &RequestPlace) -> Option<String> {
        let base = match self.anchor {
            PathAnchor::Root => "/",
            PathAnchor::Home => place.home.as_str(),
            PathAnchor::Project => place.project.as_str(),
            PathAnchor::Cwd => place.cwd.as_str(),
        };
        if base.is_empty() {
            return None;
        }
        Some(clean(&format!("{base}{}", "/..".repeat(self.up))))
    }

    /// Whether an allow covers exactly this path. A folder is covered with all below it only
    /// where its pattern says so; `whole` says that the folder itself may be meant too.
    pub(crate) fn allows(&self, path: &str, place: &RequestPlace, whole: bool) -> bool {
        let Some(base) = self.base(place) else {
            return false;
        };
        let Some(names) = below(path, &base, false) else {
            return false;
        };
        let names = match self.floats {
            DepthScope::Always => &names[names.len().saturating_sub(1)..],
            DepthScope::Never | DepthScope::Strict => &names,
        };
        let last_is_any = self.segments.last() == Some(&PathSegment::Any);
        let enough = whole || !last_is_any || names.len() >= self.segments.len();
        // Case counts even where the file system ignores it: an allow matches less, never more.
        enough && path_matches(&self.segments, names, false)
    }

    /// Whether a deny or ask covers this path: it, or a folder it lies in, fits.
    pub(crate) fn covers(&self, path: &str, place: &RequestPlace) -> bool {
        let Some(base) = self.base(place) else {
            return false;
        };
        let Some(names) = below(path, &base, place.ignores_case) else {
            return false;
        };
        let last_start = match self.floats {
            DepthScope::Never => 0,
            DepthScope::Strict | DepthScope::Always => names.len(),
        };
        (0..=last_start).any(|start| {
            (start..=names.len())
                .any(|end| path_matches(&self.segments, &names[start..end], place.ignores_case))
        })
    }

    /// Its segments from the root on, as a deny or ask reads them.
    fn anchored(&self, place: &RequestPlace) -> Option<Vec<PathSegment>> {
        let base = self.base(place)?;
        let mut anchored: Vec<PathSegment> = base
            .split('/')
            .filter(|name| !name.is_empty())
            .map(|name| PathSegment::Name(name.to_owned()))
            .collect();
        if self.floats != DepthScope::Never {
            anchored.push(PathSegment::Any);
        }
        anchored.extend(self.segments.iter().cloned());
        Some(anchored)
    }

    /// Whether a deny or ask could cover something below the folder `root`, where only `names`
    /// occur.
    pub(crate) fn could_cover_below(
        &self,
        root: &str,
        names: &TreeNames,
        place: &RequestPlace,
    ) -> bool {
        let Some(anchored) = self.anchored(place) else {
            return false;
        };
        let above: Vec<&str> = root.split('/').filter(|name| !name.is_empty()).collect();
        // However many segments the root itself takes up, the others must be found below it.
        (0..=anchored.len()).any(|taken| {
            path_matches(&anchored[..taken], &above, place.ignores_case)
                && anchored[taken..].iter().all(|segment| match segment {
                    PathSegment::Any => true,
                    PathSegment::Name(own) => names.may_hold_name(&own.to_lowercase()),
                    PathSegment::Glob(_) => names.may_hold(|name| segment.matches(name, true)),
                })
        })
    }

    /// Whether a deny or ask could cover what a path with wildcards stands for.
    pub(crate) fn could_cover(&self, globs: &[Vec<GlobToken>], place: &RequestPlace) -> bool {
        let Some(mut anchored) = self.anchored(place) else {
            return false;
        };
        if anchored.last() == Some(&PathSegment::Any) {
            // A name that stands for the folder itself shows no more than its name.
            anchored.insert(anchored.len() - 1, PathSegment::Glob(vec![GlobToken::Many]));
        }
        // A folder that fits covers what is below it, and a wildcard may stand for that folder.
        (0..=globs.len()).any(|end| path_meets(&anchored, &globs[..end], place.ignores_case))
    }
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
