//! The gate: what the rules and the grants in memory say of an ask.
//!
//! Taking an ask apart costs most and needs neither rules nor state, so that is done outside the
//! loop. What it is held against changes from input to input, so that is done inside, against the
//! very state the decision is made from. Invariant: the grants here are those of the state.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use countersign_core::event::{Effect, Grant};
use countersign_core::{
    AgentId, Asking, Delegated, Event, GrantId, Json, Judged, OWN_TOOLS, State, Timestamp,
    own_tool_name,
};
use countersign_rules::{
    Action, Allows, Assessment, Candidate, Entry, EntryKey, Layer, Origin, PartKind, Place,
    Request, RuleSet, Verdict, VerdictPart, assess, judge, suggest,
};

use crate::rulebook::{Chapter, ChapterLayer, Rulebook};

/// How often a verdict is sought anew because a grant had too few uses left: each time at least one
/// more is left out, and an ask with more than these waits for a person.
const SPENT_MAX: usize = 8;

/// What verdicts call the host's own layer.
const OWN_LAYER: &str = "the host's own tools";

/// An agent that asks whether it may call one of our tools may: we judge what it wants of them
/// ourselves, when it calls. Whatever people deny or want to be asked about holds all the same.
static OWN_RULES: LazyLock<RuleSet> = LazyLock::new(|| {
    let mut rules = RuleSet::default();
    for tool in OWN_TOOLS {
        let origin = Origin {
            source: OWN_LAYER.into(),
            line: None,
            grant: None,
        };
        if let Ok(entry) = Entry::parse(Effect::Allow, &own_tool_name(tool), origin) {
            rules.insert(entry);
        }
    }
    rules
});

/// An ask taken apart, with the rules that count where it would run.
pub(crate) struct Assessed {
    request: Request,
    assessment: Assessment,
    chapter: Arc<Chapter>,
    cwd: Option<String>,
    /// Whether the input can be read in more than one way. Then a rule can deny it, and no more.
    ambiguous: bool,
    /// Whether the host's own layer counts.
    own_layer: bool,
    /// Where its input says that it runs, if that lies in another project.
    elsewhere: Option<Elsewhere>,
    /// How it looks from the folders of those above its agent.
    above: Vec<Above>,
}

/// An ask as it looks from the folder of an orchestrator above its agent.
struct Above {
    agent: AgentId,
    assessment: Assessment,
    chapter: Arc<Chapter>,
}

/// An ask as it looks from the folder of another project, which its input names.
struct Elsewhere {
    folder: String,
    assessment: Assessment,
    chapter: Arc<Chapter>,
}

/// What is to be taken apart: a tool, its input, and where it would run as far as others know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unread {
    pub(crate) tool: String,
    pub(crate) input: Option<Json>,
    /// The asker's word.
    pub(crate) cwd: Option<String>,
    /// Where the agent says that it works.
    pub(crate) project: Option<String>,
    /// Whether it is about one of the host's own tools, asked by an agent that was given them.
    pub(crate) own_tool: bool,
    /// Those above its agent, each with the folder it works in.
    pub(crate) above: Vec<(AgentId, String)>,
}

impl Assessed {
    /// Takes an ask apart.
    pub(crate) fn read(rulebook: &Rulebook, unread: &Unread) -> Self {
        let given = unread.input.as_ref();
        let exact = given.and_then(Json::read_exactly);
        let ambiguous = given.is_some() && exact.is_none();
        // Of several readings one is enough to deny.
        let input = exact.or_else(|| serde_json::from_str(given?.text()).ok());
        let own = input.as_ref().and_then(|input| input.get("cwd")?.as_str());
        let known = [unread.cwd.as_deref(), own, unread.project.as_deref()];
        let cwd = known
            .into_iter()
            .flatten()
            .find(|path| path.starts_with('/'));
        let chapter = rulebook.chapter(cwd);
        let place = chapter.place.clone();
        let request = if unread.own_tool {
            Request::from_call(&unread.tool, place)
        } else {
            Request::from_tool(&unread.tool, input.as_ref(), place)
        };
        Self {
            assessment: assess(&request, rulebook.facts()),
            elsewhere: Elsewhere::find(rulebook, &request, &chapter),
            above: Above::find_all(rulebook, &request, &unread.above),
            request,
            chapter,
            cwd: cwd.map(str::to_owned),
            ambiguous,
            own_layer: unread.own_tool,
        }
    }

    /// What stands for the project it would run in, if that is its agent's.
    pub(crate) fn project(&self) -> Option<String> {
        let project = self.chapter.project.clone();
        project.filter(|_| self.elsewhere.is_none())
    }

    /// Rules that would allow it beside the files' and these, the narrowest first.
    pub(crate) fn suggest(
        &self,
        rulebook: &Rulebook,
        grants: &RuleSet,
        names: &[String],
    ) -> Vec<Candidate> {
        let is_for = |entry: &Entry| is_for(entry, names);
        let grants = Layer {
            rules: grants,
            admits: &|_| true,
            allows: Allows::Count,
        };
        let layers = self.layers(&is_for, grants);
        self.suggest_beside(rulebook, &layers)
    }

    /// Rules that would allow it if there were no others, the narrowest first.
    pub(crate) fn suggest_alone(&self, rulebook: &Rulebook) -> Vec<Candidate> {
        self.suggest_beside(rulebook, &[])
    }

    fn suggest_beside(&self, rulebook: &Rulebook, layers: &[Layer<'_>]) -> Vec<Candidate> {
        if self.ambiguous || self.elsewhere.is_some() {
            return Vec::new();
        }
        suggest(&self.request, rulebook.facts(), &self.chapter.floor, layers)
    }

    /// What layers of rules say of it.
    fn judged(&self, layers: &[Layer<'_>]) -> Verdict {
        let mut verdict = judge(&self.assessment, &self.chapter.floor, layers);
        if let Some(elsewhere) = &self.elsewhere {
            verdict = elsewhere.tighten(verdict);
        }
        if self.ambiguous && verdict.effect < Effect::Deny {
            self.unclear()
        } else {
            verdict
        }
    }

    /// It may be anything, what the floor holds included, so nothing lifts it.
    fn unclear(&self) -> Verdict {
        Verdict {
            effect: Effect::Ask,
            parts: vec![VerdictPart {
                kind: PartKind::Tool,
                subject: self.request.tool.clone(),
                effect: Effect::Ask,
                rule: None,
                reason: Some("its input can be read in more than one way".to_owned()),
                floor: true,
            }],
        }
    }

    /// Files come first: where both allow, no use of a grant is spent.
    fn layers<'a>(
        &'a self,
        is_for: &'a dyn Fn(&Entry) -> bool,
        grants: Layer<'a>,
    ) -> Vec<Layer<'a>> {
        let files = self.chapter.layers.iter();
        let files = files.map(|layer| file_layer(layer, is_for));
        files.chain([grants]).chain(own_layer(self)).collect()
    }

    /// What one rule, and nothing but the floor beside it, says.
    pub(crate) fn judged_by(&self, rules: &RuleSet) -> Verdict {
        let layer = Layer {
            rules,
            admits: &|_| true,
            allows: Allows::Count,
        };
        self.judged(&[layer])
    }
}

impl Above {
    /// Rules count where they stand; what the request names counts from where it would run.
    fn find_all(rulebook: &Rulebook, request: &Request, above: &[(AgentId, String)]) -> Vec<Self> {
        let looks = above.iter().map(|(agent, folder)| {
            let chapter = rulebook.chapter(Some(folder));
            let place = Place {
                cwd: request.place.cwd.clone(),
                ..chapter.place.clone()
            };
            let request = Request {
                place,
                ..request.clone()
            };
            Self {
                agent: agent.clone(),
                assessment: assess(&request, rulebook.facts()),
                chapter,
            }
        });
        looks.collect()
    }
}

impl Elsewhere {
    /// The folder that a request names for itself, if that lies in another project than its agent's.
    fn find(rulebook: &Rulebook, request: &Request, own: &Chapter) -> Option<Self> {
        let action = match &request.action {
            Action::Unclear { known, .. } => known,
            action => action,
        };
        let Action::In { directory, action } = action else {
            return None;
        };
        let folder = entered(directory, &request.place)?;
        let chapter = rulebook.chapter(Some(&folder));
        // Worktrees of one repository are one project, and have a rule file each.
        let root = |chapter: &Chapter| {
            let project = chapter.project.clone()?;
            Some((project, chapter.place.project.clone()))
        };
        if root(&chapter) == root(own) {
            return None;
        }
        let there = Request {
            tool: request.tool.clone(),
            action: action.as_ref().clone(),
            place: chapter.place.clone(),
        };
        Some(Self {
            folder,
            assessment: assess(&there, rulebook.facts()),
            chapter,
        })
    }

    /// That project's denies hold, and what its agent's rules allow is not theirs to allow there.
    fn tighten(&self, mut verdict: Verdict) -> Verdict {
        let is_for = |entry: &Entry| entry.is_for(None);
        let layers = self.chapter.layers.iter();
        let layers: Vec<_> = layers.map(|layer| file_layer(layer, &is_for)).collect();
        let there = judge(&self.assessment, &self.chapter.floor, &layers);
        if there.effect == Effect::Deny && verdict.effect < Effect::Deny {
            return there;
        }
        if verdict.effect == Effect::Allow {
            verdict.effect = Effect::Ask;
            verdict.parts.push(in_another_project(&self.folder));
        }
        verdict
    }
}

/// Where a folder leads that an input names, if that is known.
fn entered(directory: &str, place: &Place) -> Option<String> {
    match directory.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            Some(format!("{}{rest}", place.home))
        }
        Some(_) => None,
        None if directory.starts_with('/') => Some(directory.to_owned()),
        None => (!place.cwd.is_empty()).then(|| format!("{}/{directory}", place.cwd)),
    }
}

fn in_another_project(folder: &str) -> VerdictPart {
    VerdictPart {
        kind: PartKind::Tool,
        subject: folder.to_owned(),
        effect: Effect::Ask,
        rule: None,
        reason: Some("it would run in another project than its agent's".to_owned()),
        floor: false,
    }
}

/// The grants of the state as rules.
#[derive(Default)]
pub(crate) struct Gate {
    rules: RuleSet,
    keys: HashMap<GrantId, EntryKey>,
    /// Those with a number of uses.
    counted: HashSet<GrantId>,
    /// Grants that ask or deny and cannot be read: while there is one, nothing is allowed by rule.
    unreadable: BTreeMap<GrantId, String>,
}

impl Gate {
    /// The grants of a state.
    pub(crate) fn of(state: &State) -> Self {
        let mut gate = Self::default();
        for grant in state.grants() {
            gate.insert(&grant.grant);
        }
        gate
    }

    /// Keeps step with an event that was applied.
    pub(crate) fn note(&mut self, event: &Event) {
        match event {
            Event::GrantCreated(e) => self.insert(&e.grant),
            Event::GrantRemoved(e) => self.remove(&e.grant),
            _ => {}
        }
    }

    /// Some grants as rules.
    pub(crate) fn rules_of(grants: &[Arc<Grant>]) -> RuleSet {
        let mut gate = Self::default();
        for grant in grants {
            gate.insert(grant);
        }
        gate.rules
    }

    fn insert(&mut self, grant: &Grant) {
        let id = grant.id.clone();
        match Entry::parse(grant.effect, &grant.rule, Origin::grant(id.clone())) {
            Ok(entry) => {
                let key = self.rules.insert(entry);
                self.keys.insert(id.clone(), key);
                if grant.uses.is_some() {
                    self.counted.insert(id);
                }
            }
            Err(error) => {
                tracing::error!(grant = %id, %error, "a grant cannot be read");
                if grant.effect > Effect::Allow {
                    let words = format!("grant `{}` cannot be read: {error}", grant.rule);
                    self.unreadable.insert(id, words);
                }
            }
        }
    }

    fn remove(&mut self, id: &GrantId) {
        self.unreadable.remove(id);
        self.counted.remove(id);
        if let Some(key) = self.keys.remove(id) {
            self.rules.remove(key);
        }
    }

    /// What all rules say of an ask at this instant. Grants with a number of uses are looked at
    /// only if nothing else allows it, and then only those that have enough of them left.
    pub(crate) fn judge(
        &self,
        state: &State,
        assessed: &Assessed,
        agent: Option<&AgentId>,
        now: Timestamp,
    ) -> Judged {
        let asking = Asking {
            agent,
            project: assessed.chapter.project.as_deref(),
        };
        let names = names_of(state, agent, now);
        let judge = |leaves_out: &dyn Fn(&GrantId) -> bool| {
            let counts = |id: &GrantId| !leaves_out(id) && state.grant_counts(id, asking, now);
            self.judge_with(&counts, &names, assessed)
        };
        let mut verdict = judge(&|id| self.counted.contains(id));
        if verdict.effect == Effect::Ask && !self.counted.is_empty() {
            let mut spent: Vec<GrantId> = Vec::new();
            for _ in 0..SPENT_MAX {
                verdict = judge(&|id| spent.contains(id));
                let more = overspent(state, &verdict);
                if more.is_empty() {
                    break;
                }
                spent.extend(more);
            }
        }
        for above in &assessed.above {
            let there = self.judge_above(state, (assessed, above), asking, now);
            if there.effect > verdict.effect {
                verdict = there;
            }
        }
        Judged {
            verdict: Arc::new(verdict),
            cwd: assessed.cwd.clone(),
            project: assessed.chapter.project.clone(),
        }
    }

    /// What counts for somebody above an agent counts for the agent too. What allows the agent alone
    /// still does.
    fn judge_above(
        &self,
        state: &State,
        (assessed, above): (&Assessed, &Above),
        asking: Asking<'_>,
        now: Timestamp,
    ) -> Verdict {
        let parent = Asking {
            agent: Some(&above.agent),
            project: asking.project,
        };
        let mut names = names_of(state, asking.agent, now);
        names.extend(names_of(state, Some(&above.agent), now));
        let is_for = |entry: &Entry| is_for(entry, &names);
        let counts = |entry: &Entry| {
            let grant = entry.origin.grant.as_ref();
            grant.is_some_and(|id| {
                state.grant_counts(id, asking, now) || state.grant_counts(id, parent, now)
            })
        };
        let grants = Layer {
            rules: &self.rules,
            admits: &counts,
            allows: self.grants_allow(&above.chapter),
        };
        let files = above.chapter.layers.iter();
        let files = files.map(|layer| file_layer(layer, &is_for));
        let layers = files.chain([grants]).chain(own_layer(assessed));
        let layers: Vec<_> = layers.collect();
        judge(&above.assessment, &above.chapter.floor, &layers)
    }

    /// What counts for the answer of an orchestrator to an ask: its ceiling as it is now, and what the
    /// rules say of its own doing the same.
    pub(crate) fn judge_delegate(
        &self,
        state: &State,
        assessed: &Assessed,
        orchestrator: &AgentId,
        now: Timestamp,
    ) -> Delegated {
        let managed = state.find_orchestrator(orchestrator);
        let ceiling = managed.and_then(|managed| managed.ceiling_at(now));
        let rules = ceiling.map(|ceiling| ceiling.rules.iter());
        let mut held = RuleSet::default();
        // A rule that cannot be read allows nothing.
        let readable = rules
            .into_iter()
            .flatten()
            .filter_map(|rule| Entry::parse(Effect::Allow, rule, Origin::ceiling()).ok());
        for entry in readable {
            held.insert(entry);
        }
        let own = self.judge(state, assessed, Some(orchestrator), now);
        Delegated {
            by_ceiling: assessed.judged_by(&held).effect,
            to_itself: own.verdict.effect,
        }
    }

    fn judge_with(
        &self,
        counts: &dyn Fn(&GrantId) -> bool,
        names: &[String],
        assessed: &Assessed,
    ) -> Verdict {
        let is_for = |entry: &Entry| is_for(entry, names);
        let counts = |entry: &Entry| entry.origin.grant.as_ref().is_some_and(counts);
        let grants = Layer {
            rules: &self.rules,
            admits: &counts,
            allows: self.grants_allow(&assessed.chapter),
        };
        assessed.judged(&assessed.layers(&is_for, grants))
    }

    fn grants_allow<'a>(&'a self, chapter: &'a Chapter) -> Allows<'a> {
        let unreadable = self.unreadable.values().next();
        let reason = chapter.suspended.as_ref().or(unreadable);
        reason.map_or(Allows::Count, |reason| Allows::Suspended(reason))
    }
}

/// Grants that would have to allow more parts than they may.
fn overspent(state: &State, verdict: &Verdict) -> Vec<GrantId> {
    let mut times: BTreeMap<&GrantId, u32> = BTreeMap::new();
    for grant in verdict.grants() {
        *times.entry(grant).or_default() += 1;
    }
    let spent = times.into_iter().filter(|(id, times)| {
        let left = state.find_grant(id).and_then(|grant| grant.uses_left);
        verdict.effect == Effect::Allow && left.is_some_and(|left| left < *times)
    });
    spent.map(|(id, _)| id.clone()).collect()
}

/// The names that operators gave an agent.
pub(crate) fn names_of(state: &State, agent: Option<&AgentId>, now: Timestamp) -> Vec<String> {
    let names = agent.map(|agent| state.operator_names_of(agent, now));
    names.into_iter().flatten().map(str::to_owned).collect()
}

/// Whether a rule of a file is for everybody, or for an agent with one of these names.
fn is_for(entry: &Entry, names: &[String]) -> bool {
    entry.is_for(None) || names.iter().any(|name| entry.is_for(Some(name)))
}

/// The host's own layer, where it counts.
fn own_layer(assessed: &Assessed) -> Option<Layer<'static>> {
    assessed.own_layer.then(|| Layer {
        rules: &OWN_RULES,
        admits: &|_| true,
        allows: Allows::Count,
    })
}

fn file_layer<'a>(layer: &'a ChapterLayer, admits: &'a dyn Fn(&Entry) -> bool) -> Layer<'a> {
    Layer {
        rules: &layer.rules,
        admits,
        allows: layer.allows.as_allows(),
    }
}
