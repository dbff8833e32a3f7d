//! Judging: the parts of a request held against layers of rules.
//!
//! Invariant: a part is allowed only by a rule that names it, where nothing stricter speaks, there
//! is no doubt about it, and the floor is silent.

use countersign_core::event::{Effect, PartKind, Verdict, VerdictPart};

use crate::assess::{Assessment, PartBody, RequestPart};
use crate::floor::Floor;
use crate::glob::TextGlob;
use crate::language::{PathPattern, RulePattern, ShellForm, host_matches};
use crate::locate::{AccessedPath, PathAccess};
use crate::network::{self, NetworkPattern};
use crate::path::ResolvedPath;
use crate::request::RequestPlace;
use crate::ruleset::{RuleArea, RuleEntry, RuleSet};
use crate::shell::{ArgumentHazard, FileUse, HazardKind};
use crate::spawn;

/// One source of rules. In each, the highest rank that matches counts; between layers the
/// strictest does, and a layer that says nothing does not count.
#[derive(Clone, Copy)]
pub struct LayerView<'a> {
    /// Its rules.
    pub rules: &'a RuleSet,
    /// Which of them count for this request.
    pub admits: &'a dyn Fn(&RuleEntry) -> bool,
    /// Whether its allows count.
    pub allows: &'a LayerAllows,
}

/// Whether the allows of a layer count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerAllows {
    /// Its allows count.
    Count,
    /// Its allows do not count, because nobody has trusted them yet.
    Untrusted,
    /// No layer allows anything while this one is broken, for this reason: the broken part may have
    /// been a deny.
    Suspended(String),
}

/// Says what follows for a request, part by part.
pub fn judge(assessment: &Assessment, floor: &Floor, layers: &[LayerView<'_>]) -> Verdict {
    let suspended = layers.iter().find_map(|layer| match layer.allows {
        LayerAllows::Suspended(reason) => Some(reason.as_str()),
        LayerAllows::Count | LayerAllows::Untrusted => None,
    });
    let mut parts: Vec<VerdictPart> = Vec::with_capacity(assessment.parts.len());
    let mut judged: Vec<&RequestPart> = Vec::with_capacity(assessment.parts.len());
    for part in &assessment.parts {
        let said = judge_part(assessment, part, floor, layers, suspended);
        let mut others = parts.iter().zip(&judged);
        let is_repeated = others.any(|(other, of)| *other == said && is_same_file(of, part));
        // What is allowed twice is two uses of what allows it.
        if said.effect == Effect::Allow || !is_repeated {
            parts.push(said);
            judged.push(part);
        }
    }
    let effect = parts
        .iter()
        .map(|part| part.effect)
        .max()
        // A request in which nothing was found was not understood.
        .unwrap_or(Effect::Ask);
    Verdict { effect, parts }
}

/// One name in two directories is two files.
fn is_same_file(one: &RequestPart, other: &RequestPart) -> bool {
    match (&one.body, &other.body) {
        (PartBody::Path(one), PartBody::Path(other)) => one
            .iter()
            .map(|spot| &spot.lexical)
            .eq(other.iter().map(|spot| &spot.lexical)),
        _ => true,
    }
}

fn judge_part(
    assessment: &Assessment,
    part: &RequestPart,
    floor: &Floor,
    layers: &[LayerView<'_>],
    suspended: Option<&str>,
) -> VerdictPart {
    let mut said = VerdictPart {
        kind: part.kind,
        subject: part.subject.clone(),
        effect: Effect::Ask,
        rule: None,
        reason: None,
        floor: false,
    };
    let strictest = layers
        .iter()
        .filter_map(|layer| find_layer_rule(assessment, part, layer))
        // `max_by_key` gives the last of equals; the first layer that said it is to be named.
        .rev()
        .max_by_key(|found| found.effect);
    if let Some(found) = &strictest {
        said.effect = found.effect;
        said.rule = Some(found.entry.to_ref());
        let own = found.entry.reason.as_deref();
        said.reason = found.reason.or(own).map(str::to_owned);
    }
    let hazard = part
        .hazard
        .as_ref()
        .filter(|part| {
            let entry = strictest.as_ref().map(|found| found.entry);
            !entry.is_some_and(|entry| covers_hazard(entry, &part.hazard))
        })
        .map(|part| part.reason.as_str());
    // Doubt turns an allow into an ask. A deny stays a deny, whatever was not understood.
    if said.effect == Effect::Allow
        && let Some(reason) = part.doubt.as_deref().or(hazard).or(suspended)
    {
        said.effect = Effect::Ask;
        said.reason = Some(reason.to_owned());
    } else if said.rule.is_none() {
        said.reason = part.doubt.as_deref().or(hazard).map(str::to_owned);
        if said.reason.is_none()
            && let Some((entry, reason)) = find_rule_elsewhere(assessment, part, layers)
        {
            said.rule = Some(entry.to_ref());
            said.reason = Some(reason);
        }
    }
    // The floor only tightens. Where both ask, its reason is told, because no rule lifts that one.
    if let Some((effect, reason)) = floor.judge(assessment, part)
        && (effect > said.effect || effect == Effect::Ask && said.effect == Effect::Ask)
    {
        said.floor = true;
        said.effect = effect;
        said.rule = None;
        said.reason = Some(reason);
    }
    said
}

/// Why a rule that counts only in some place does not count for a part.
fn leaves_area<'p>(
    entry: &RuleEntry,
    assessment: &Assessment,
    part: &'p RequestPart,
) -> Option<&'p str> {
    match entry.area {
        RuleArea::Anywhere => None,
        RuleArea::Folder => part.leaves_folder.as_deref(),
        RuleArea::Worktree => part.leaves_worktree.as_deref(),
        RuleArea::Sandbox if !part.in_command => Some("it is not part of a command"),
        RuleArea::Sandbox => (!assessment.place.in_sandbox)
            .then_some("the agent is not in a sandbox of level `full`"),
    }
}

/// The allow that would cover a part if it happened in the agent's folder, and why it does not: for
/// the person who wonders why the rule did not count.
fn find_rule_elsewhere<'l>(
    assessment: &Assessment,
    part: &RequestPart,
    layers: &[LayerView<'l>],
) -> Option<(&'l RuleEntry, String)> {
    let mut found = None;
    for layer in layers {
        layer.rules.for_candidates(assessment, part, |entry| {
            if let Some(reason) = leaves_area(entry, assessment, part)
                && allows(entry, assessment, part)
                && (layer.admits)(entry)
            {
                found.get_or_insert((entry, reason.to_owned()));
            }
        });
    }
    found
}

/// Whether a rule means a command although it has such an argument.
fn covers_hazard(entry: &RuleEntry, hazard: &ArgumentHazard) -> bool {
    let RulePattern::Shell(shell) = &entry.rule.pattern else {
        return false;
    };
    if is_any_confined(entry) {
        return true;
    }
    match (&shell.form, hazard.kind) {
        (ShellForm::Exact, _) | (ShellForm::Every, HazardKind::Unknown) => true,
        (ShellForm::Prefix | ShellForm::Wild(_), HazardKind::Unknown) => {
            hazard.arguments.iter().all(|argument| {
                let mut words = shell.words.iter().map(|word| word.split('=').next());
                words.any(|word| word == Some(argument.as_str()))
            })
        }
        _ => false,
    }
}

/// Whether a rule means every command in a sandbox, also one that runs others: the kernel holds all of
/// them.
fn is_any_confined(entry: &RuleEntry) -> bool {
    let is_any =
        matches!(&entry.rule.pattern, RulePattern::Shell(shell) if shell.form == ShellForm::Every);
    is_any && entry.area == RuleArea::Sandbox
}

/// How many words of a command a rule names: of two allows the narrower one is told.
fn named_words(entry: &RuleEntry) -> usize {
    match &entry.rule.pattern {
        RulePattern::Shell(shell) => shell.literal_words(),
        _ => 0,
    }
}

/// Whether a rule names one command, dangerous arguments and all.
fn is_exact(entry: &RuleEntry) -> bool {
    matches!(&entry.rule.pattern, RulePattern::Shell(shell) if shell.form == ShellForm::Exact)
}

/// What a layer says of a part.
struct LayerFinding<'l> {
    entry: &'l RuleEntry,
    effect: Effect,
    reason: Option<&'static str>,
}

impl LayerFinding<'_> {
    /// Compared field by field. Rank comes first because a higher rank hides lower ones even where
    /// it is the milder; the last two only choose which of two equal rules is named.
    fn weight(&self) -> (i64, Effect, bool, usize) {
        let entry = self.entry;
        (entry.rank, self.effect, is_exact(entry), named_words(entry))
    }

    fn is_above(&self, other: Option<&Self>) -> bool {
        other.is_none_or(|other| self.weight() > other.weight())
    }
}

/// What a rule certainly speaks of hides what lower ranks say. A rule that matched by what a part
/// may stand for hides nothing: it counts beside, or it would lift a deny below it.
fn find_layer_rule<'l>(
    assessment: &Assessment,
    part: &RequestPart,
    layer: &LayerView<'l>,
) -> Option<LayerFinding<'l>> {
    let mut certain: Option<LayerFinding<'l>> = None;
    let mut beside: Vec<LayerFinding<'l>> = Vec::new();
    layer.rules.for_candidates(assessment, part, |entry| {
        // What a project's file denies counts at once; what it allows waits until a person trusts
        // it.
        if entry.effect == Effect::Allow && *layer.allows == LayerAllows::Untrusted {
            return;
        }
        let Some(matched) = matches(entry, assessment, part) else {
            return;
        };
        if !(layer.admits)(entry) {
            return;
        }
        if leaves_area(entry, assessment, part).is_some() {
            return;
        }
        let said = LayerFinding {
            effect: matched.effect(entry.effect),
            reason: matched.reason(),
            entry,
        };
        if matched == MatchCertainty::Maybe || !is_certain(entry, assessment, part) {
            beside.push(said);
        } else if said.is_above(certain.as_ref()) {
            certain = Some(said);
        }
    });
    let lowest = certain.as_ref().map_or(i64::MIN, |said| said.entry.rank);
    let mut strictest = certain;
    for said in beside.into_iter().filter(|said| said.entry.rank >= lowest) {
        let known = strictest.as_ref().map(|known| known.effect);
        if known.is_none_or(|known| said.effect > known) {
            strictest = Some(said);
        }
    }
    strictest
}

/// Whether a rule names this very part as it was written.
fn is_certain(entry: &RuleEntry, assessment: &Assessment, part: &RequestPart) -> bool {
    let place = &assessment.place;
    match (&entry.rule.pattern, &part.body) {
        (RulePattern::Shell(shell), PartBody::Command { allow, .. }) => {
            // The last form is the whole command, with whatever wraps it.
            let whole = allow.last().is_some_and(|form| shell.allows(&form.words));
            shell.form == ShellForm::Every || whole
        }
        (RulePattern::Read(path), PartBody::Path(spots)) => {
            part.kind == PartKind::Read && all_allowed(path.as_ref(), spots, place, true)
        }
        (RulePattern::Edit(path, _), PartBody::Path(spots)) => {
            all_allowed(path.as_ref(), spots, place, false)
        }
        (RulePattern::Read(_) | RulePattern::Edit(..), _) => false,
        _ => true,
    }
}

/// How a rule matched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MatchCertainty {
    Surely,
    /// It may touch what the rule speaks of.
    Maybe,
}

impl MatchCertainty {
    fn effect(self, effect: Effect) -> Effect {
        match self {
            Self::Surely => effect,
            Self::Maybe => effect.min(Effect::Ask),
        }
    }

    fn reason(self) -> Option<&'static str> {
        match self {
            Self::Surely => None,
            Self::Maybe => Some("it may touch what this rule speaks of"),
        }
    }
}

fn matches(
    entry: &RuleEntry,
    assessment: &Assessment,
    part: &RequestPart,
) -> Option<MatchCertainty> {
    if entry.effect == Effect::Allow {
        allows(entry, assessment, part).then_some(MatchCertainty::Surely)
    } else {
        covers(&entry.rule.pattern, assessment, part)
    }
}

fn allows(entry: &RuleEntry, assessment: &Assessment, part: &RequestPart) -> bool {
    let place = &assessment.place;
    match (&entry.rule.pattern, &part.body) {
        // A command without a form is one that no rule may allow.
        (RulePattern::Shell(_), PartBody::Command { allow, .. }) if is_any_confined(entry) => {
            !allow.is_empty()
        }
        (RulePattern::Shell(shell), PartBody::Command { allow, .. }) => allow.iter().any(|form| {
            let named = match (&shell.form, form.named) {
                (ShellForm::Exact, _) => true,
                (_, Some(named)) => shell.literal_words() >= named,
                (_, None) => false,
            };
            // `npx TOOL` and the like: a rule that names only the launcher must not cover every
            // tool.
            named && shell.allows(&form.words)
        }),
        (RulePattern::Read(path), PartBody::Path(spots)) if part.kind == PartKind::Read => {
            all_allowed(path.as_ref(), spots, place, true)
        }
        (RulePattern::Edit(path, tool), PartBody::Path(spots)) if part.kind == PartKind::Write => {
            (tool.is_empty() || *tool == assessment.tool)
                && all_allowed(path.as_ref(), spots, place, false)
        }
        (RulePattern::Fetch(host), PartBody::Fetch(target)) => {
            host_matches(host.as_ref(), target.as_ref(), Effect::Allow)
        }
        (RulePattern::Network(pattern), PartBody::Network(target)) => {
            pattern.matches(target.as_ref(), Effect::Allow)
        }
        (RulePattern::Mcp { server, tool }, body) => is_tool_of(server, tool, body),
        (RulePattern::Spawn(kind), PartBody::Spawn { names, .. }) => kind.allows(names),
        // Not a wildcard: it would allow tools that nobody knew of when the rule was written.
        (
            RulePattern::Tool(name),
            PartBody::Tool | PartBody::Mcp { .. } | PartBody::Spawn { .. },
        ) => name.is_literal() && name.matches(&assessment.tool),
        _ => false,
    }
}

fn all_allowed(
    pattern: Option<&PathPattern>,
    spots: &[ResolvedPath],
    place: &RequestPlace,
    whole: bool,
) -> bool {
    !spots.is_empty()
        && spots.iter().all(|spot| {
            pattern
                .is_none_or(|pattern| spot.forms().all(|path| pattern.allows(path, place, whole)))
        })
}

fn covers(
    pattern: &RulePattern,
    assessment: &Assessment,
    part: &RequestPart,
) -> Option<MatchCertainty> {
    match (pattern, &part.body) {
        (RulePattern::Tool(name), _) => {
            surely_if(name.matches(&assessment.tool) || is_alias(name, part))
        }
        (RulePattern::Shell(shell), PartBody::Command { deny, .. }) => {
            surely_if(deny.iter().any(|form| shell.covers(form)))
        }
        // Text that could not be read is still a command to a rule for all commands.
        (RulePattern::Shell(shell), PartBody::Nothing) if part.kind == PartKind::Command => {
            surely_if(shell.form == ShellForm::Every)
        }
        // The kind is not looked at: a deny to read a file also denies writing it.
        (RulePattern::Read(path), PartBody::Path(spots)) => {
            let covered = any_covered(path.as_ref(), spots, &assessment.place);
            surely_if(covered)
                .or_else(|| covers_below(path.as_ref(), part, spots, &assessment.place))
        }
        (RulePattern::Edit(path, _), PartBody::Path(spots)) if part.kind == PartKind::Write => {
            surely_if(any_covered(path.as_ref(), spots, &assessment.place))
        }
        (RulePattern::Read(Some(path)), PartBody::Command { touched, .. }) => most_certain(
            touched
                .iter()
                .filter_map(|touch| covers_touch(path, touch, &assessment.place)),
        ),
        (RulePattern::Edit(Some(path), _), PartBody::Command { touched, .. }) => most_certain(
            touched
                .iter()
                // What a program does with a path is not always known; then it counts as a write.
                .filter(|touch| matches!(touch.touches, FileUse::Writes | FileUse::Unknown))
                .filter_map(|touch| covers_touch(path, touch, &assessment.place)),
        ),
        (pattern, PartBody::Tool) => surely_if(is_whole_tool(pattern, &assessment.tool)),
        (RulePattern::Fetch(host), PartBody::Fetch(target)) => {
            surely_if(host_matches(host.as_ref(), target.as_ref(), Effect::Deny))
        }
        (RulePattern::Network(pattern), PartBody::Network(target)) => {
            surely_if(pattern.matches(target.as_ref(), Effect::Deny))
        }
        (RulePattern::Mcp { server, tool }, body) => surely_if(is_tool_of(server, tool, body)),
        (RulePattern::Spawn(kind), PartBody::Spawn { names, .. }) => match kind.covers(names) {
            // What does not say what it would start may start anything.
            false if names.is_empty() => Some(MatchCertainty::Maybe),
            covered => surely_if(covered),
        },
        (RulePattern::AnyMcp(name), body) => {
            let called = called_tool(body);
            surely_if(
                called
                    .is_some_and(|(server, tool)| name.matches(&format!("mcp__{server}__{tool}"))),
            )
        }
        _ => None,
    }
}

fn surely_if(matched: bool) -> Option<MatchCertainty> {
    matched.then_some(MatchCertainty::Surely)
}

/// The server and the tool that a part would call.
fn called_tool(body: &PartBody) -> Option<(&str, &str)> {
    match body {
        PartBody::Mcp { server, tool } => Some((server, tool)),
        PartBody::Spawn { .. } => Some((spawn::SERVER, spawn::TOOL)),
        _ => None,
    }
}

fn is_tool_of(server: &str, tool: &TextGlob, body: &PartBody) -> bool {
    called_tool(body).is_some_and(|(own, name)| server == own && tool.matches(name))
}

/// Whether a rule means every use of a tool, so that it needs no input to match.
fn is_whole_tool(pattern: &RulePattern, tool: &str) -> bool {
    match pattern {
        RulePattern::Shell(shell) => tool == "Bash" && shell.form == ShellForm::Every,
        RulePattern::Read(None) => matches!(
            tool,
            "Read" | "Edit" | "Write" | "MultiEdit" | "NotebookEdit"
        ),
        RulePattern::Edit(None, _) => {
            matches!(tool, "Edit" | "Write" | "MultiEdit" | "NotebookEdit")
        }
        RulePattern::Fetch(None) => tool == "WebFetch",
        RulePattern::Network(NetworkPattern::Every) => tool == network::NAME,
        _ => false,
    }
}

/// A deny of a tool by name also means what the tool does under another name.
fn is_alias(name: &TextGlob, part: &RequestPart) -> bool {
    let tool = match part.kind {
        PartKind::Command => "Bash",
        PartKind::Read => "Read",
        PartKind::Write => "Edit",
        PartKind::Fetch => "WebFetch",
        PartKind::Tool if matches!(part.body, PartBody::Spawn { .. }) => spawn::NAME,
        PartKind::Tool if matches!(part.body, PartBody::Network(_)) => network::NAME,
        PartKind::Tool => return false,
    };
    name.matches(tool)
}

fn any_covered(
    pattern: Option<&PathPattern>,
    spots: &[ResolvedPath],
    place: &RequestPlace,
) -> bool {
    // A rule for the whole tool also means a path that could not be found out.
    let Some(pattern) = pattern else {
        return true;
    };
    spots
        .iter()
        .any(|spot| spot.forms().any(|path| pattern.covers(path, place)))
}

/// Whether a rule speaks of something that is looked at below a folder.
fn covers_below(
    pattern: Option<&PathPattern>,
    part: &RequestPart,
    spots: &[ResolvedPath],
    place: &RequestPlace,
) -> Option<MatchCertainty> {
    let (pattern, names) = (pattern?, part.below.as_ref()?);
    let mut roots = spots.iter().flat_map(ResolvedPath::forms);
    let covered = roots.any(|root| pattern.could_cover_below(root, names, place));
    covered.then_some(MatchCertainty::Maybe)
}

fn covers_touch(
    pattern: &PathPattern,
    touch: &PathAccess,
    place: &RequestPlace,
) -> Option<MatchCertainty> {
    let known = touch.touches != FileUse::Unknown;
    match &touch.at {
        AccessedPath::Path(spot) => {
            let covered = spot.forms().any(|path| pattern.covers(path, place));
            let matched = if known {
                MatchCertainty::Surely
            } else {
                MatchCertainty::Maybe
            };
            covered.then_some(matched)
        }
        AccessedPath::Glob(globs) => pattern
            .could_cover(globs, place)
            .then_some(MatchCertainty::Maybe),
        AccessedPath::Tree(root, names) | AccessedPath::Copied(root, names) => {
            let mut roots = root.forms();
            let covered = roots.any(|root| pattern.could_cover_below(root, names, place));
            covered.then_some(MatchCertainty::Maybe)
        }
    }
}

fn most_certain(found: impl Iterator<Item = MatchCertainty>) -> Option<MatchCertainty> {
    let mut best = None;
    for matched in found {
        match matched {
            MatchCertainty::Surely => return Some(MatchCertainty::Surely),
            MatchCertainty::Maybe => best = Some(MatchCertainty::Maybe),
        }
    }
    best
}
