//! The gate: what the rules and the grants in memory say of an ask.
//!
//! Taking an ask apart costs most and needs neither rules nor state, so that is done outside the
//! loop. What it is held against changes from input to input, so that is done inside, against the
//! very state the decision is made from. Invariant: the grants here are those of the state.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use countersign_core::event::{Effect, Grant};
use countersign_core::{AgentId, Asking, Event, GrantId, Json, Judged, State, Timestamp};
use countersign_rules::{
    Allows, Assessment, Candidate, Entry, EntryKey, Layer, Origin, Request, RuleSet, assess, judge,
    suggest,
};

use crate::exact;
use crate::rulebook::{Chapter, ChapterLayer, LayerAllows, Rulebook};

/// An ask taken apart, with the rules that count where it would run.
pub(crate) struct Assessed {
    request: Request,
    pub(crate) assessment: Assessment,
    pub(crate) chapter: Arc<Chapter>,
    pub(crate) cwd: Option<String>,
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
}

impl Assessed {
    /// Takes an ask apart. Nothing if its input cannot be read in only one way: then no rule can
    /// speak about it.
    pub(crate) fn read(rulebook: &Rulebook, unread: &Unread) -> Option<Self> {
        let input = match &unread.input {
            Some(input) => Some(exact::parse(input.text())?),
            None => None,
        };
        let own = input.as_ref().and_then(|input| input.get("cwd")?.as_str());
        let known = [unread.cwd.as_deref(), own, unread.project.as_deref()];
        let cwd = known
            .into_iter()
            .flatten()
            .find(|path| path.starts_with('/'));
        let chapter = rulebook.chapter(cwd);
        let request = Request::from_tool(&unread.tool, input.as_ref(), chapter.place.clone());
        Some(Self {
            assessment: assess(&request, rulebook.facts()),
            request,
            chapter,
            cwd: cwd.map(str::to_owned),
        })
    }

    /// Rules that would allow it beside the files' and these, the narrowest first.
    pub(crate) fn suggest(&self, rulebook: &Rulebook, grants: &RuleSet) -> Vec<Candidate> {
        let every = |_: &Entry| true;
        let grants = Layer {
            rules: grants,
            admits: &every,
            allows: Allows::Count,
        };
        let layers = self.layers(&every, grants);
        let floor = &self.chapter.floor;
        suggest(&self.request, rulebook.facts(), floor, &layers)
    }

    /// Rules that would allow it if there were no others, the narrowest first.
    pub(crate) fn suggest_alone(&self, rulebook: &Rulebook) -> Vec<Candidate> {
        suggest(&self.request, rulebook.facts(), &self.chapter.floor, &[])
    }

    /// Files come first: where both allow, no use of a grant is spent.
    fn layers<'a>(
        &'a self,
        every: &'a dyn Fn(&Entry) -> bool,
        grants: Layer<'a>,
    ) -> Vec<Layer<'a>> {
        let files = self.chapter.layers.iter();
        let files = files.map(|layer| file_layer(layer, every));
        files.chain([grants]).collect()
    }

    /// What one rule, and nothing but the floor beside it, says.
    pub(crate) fn judged_by(&self, rules: &RuleSet) -> countersign_rules::Verdict {
        let layer = Layer {
            rules,
            admits: &|_| true,
            allows: Allows::Count,
        };
        judge(&self.assessment, &self.chapter.floor, &[layer])
    }
}

/// The grants of the state as rules.
#[derive(Default)]
pub(crate) struct Gate {
    rules: RuleSet,
    keys: HashMap<GrantId, EntryKey>,
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
                self.keys.insert(id, key);
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
        if let Some(key) = self.keys.remove(id) {
            self.rules.remove(key);
        }
    }

    /// What all rules say of an ask at this instant.
    pub(crate) fn judge(
        &self,
        state: &State,
        assessed: &Assessed,
        agent: Option<&AgentId>,
        now: Timestamp,
    ) -> Judged {
        let chapter = &assessed.chapter;
        let asking = Asking {
            agent,
            project: chapter.project.as_deref(),
        };
        let name = agent.and_then(|agent| state.operator_name_of(agent, now));
        let is_for = |entry: &Entry| entry.is_for(name);
        let counts = |entry: &Entry| {
            let grant = entry.origin.grant.as_ref();
            grant.is_some_and(|id| state.grant_counts(id, asking, now))
        };
        let grants = Layer {
            rules: &self.rules,
            admits: &counts,
            allows: self.grants_allow(chapter),
        };
        let layers = assessed.layers(&is_for, grants);
        let verdict = judge(&assessed.assessment, &chapter.floor, &layers);
        Judged {
            verdict: Arc::new(verdict),
            cwd: assessed.cwd.clone(),
            project: chapter.project.clone(),
        }
    }

    fn grants_allow<'a>(&'a self, chapter: &'a Chapter) -> Allows<'a> {
        let unreadable = self.unreadable.values().next();
        let reason = chapter.suspended.as_ref().or(unreadable);
        reason.map_or(Allows::Count, |reason| Allows::Suspended(reason))
    }
}

fn file_layer<'a>(layer: &'a ChapterLayer, admits: &'a dyn Fn(&Entry) -> bool) -> Layer<'a> {
    Layer {
        rules: &layer.rules,
        admits,
        allows: match &layer.allows {
            LayerAllows::Count => Allows::Count,
            LayerAllows::Untrusted => Allows::Untrusted,
            LayerAllows::Suspended(reason) => Allows::Suspended(reason),
        },
    }
}
