//! Assessed asks: what each would do, part by part, and the rules of the folder where it would run.
//!
//! Invariants: nothing here looks at the state; what is stricter from where others stand (another
//! project, an orchestrator above the agent) is never lost.

use std::sync::{Arc, LazyLock};

use countersign_core::event::Effect;
use countersign_core::{AgentId, Json, OWN_TOOLS, own_tool_name};
use countersign_rules::{
    Assessment, LayerAllows, LayerView, PartKind, RequestPlace, RuleEntry, RuleOrigin, RuleSet,
    SuggestedRule, ToolAction, ToolRequest, Verdict, VerdictPart, assess, judge, suggest,
};

use super::RuleNames;
use crate::rulebook::{DirRules, RuleLayer, Rulebook};

/// What verdicts call the host's own layer.
const OWN_LAYER: &str = "the host's own tools";

/// An agent that asks whether it may call one of our tools may: we judge what it wants of them
/// ourselves, when it calls. Whatever people deny or want to be asked about holds all the same.
static OWN_RULES: LazyLock<RuleSet> = LazyLock::new(|| {
    let mut rules = RuleSet::default();
    for tool in OWN_TOOLS {
        let origin = RuleOrigin {
            source: OWN_LAYER.into(),
            line: None,
            grant: None,
        };
        if let Ok(entry) = RuleEntry::parse(Effect::Allow, &own_tool_name(tool), origin) {
            rules.insert(entry);
        }
    }
    rules
});

/// An ask split into its parts, with the rules of the folder where it would run.
pub(crate) struct AssessedAsk {
    request: ToolRequest,
    assessment: Assessment,
    pub(super) rules: Arc<DirRules>,
    pub(super) cwd: Option<String>,
    /// Whether the input can be read in more than one way. Then a rule can deny it, and no more.
    ambiguous: bool,
    /// Whether the host's own layer counts.
    own_layer: bool,
    /// Where its input says that it runs, if that lies in another project.
    other_project: Option<OtherProjectAssessment>,
    /// How it looks from the folders of the ancestors of its agent.
    pub(super) ancestors: Vec<AncestorAssessment>,
}

/// An ask as it looks from the folder of an orchestrator above its agent.
pub(super) struct AncestorAssessment {
    pub(super) agent: AgentId,
    assessment: Assessment,
    pub(super) rules: Arc<DirRules>,
}

/// An ask as it looks from the folder of another project, which its input names.
struct OtherProjectAssessment {
    folder: String,
    assessment: Assessment,
    rules: Arc<DirRules>,
}

/// What an ask is assessed from: a tool, its input, and where it would run.
#[derive(Clone, Debug, Default)]
pub(crate) struct AskFacts {
    pub(crate) tool: String,
    pub(crate) input: Option<Json>,
    /// The folder that the asker names.
    pub(crate) cwd: Option<String>,
    /// Where the agent says that it works.
    pub(crate) project: Option<String>,
    /// Whether it is about one of the host's own tools, asked by an agent that was given them.
    pub(crate) own_tool: bool,
    /// Whether its agent's commands run in a sandbox of level `full`.
    pub(crate) in_sandbox: bool,
    /// The ancestors of its agent, each with the folder it works in.
    pub(crate) ancestors: Vec<(AgentId, String)>,
}

impl AssessedAsk {
    /// Splits an ask into its parts, which reads the file system.
    pub(crate) fn assess(rulebook: &Rulebook, facts: &AskFacts) -> Self {
        let given = facts.input.as_ref();
        let exact = given.and_then(Json::parse_unique_keys);
        let ambiguous = given.is_some() && exact.is_none();
        // With a key twice programs differ in which value counts. Of several readings one is enough
        // to deny.
        let input = exact.or_else(|| serde_json::from_str(given?.text()).ok());
        let own = input.as_ref().and_then(|input| input.get("cwd")?.as_str());
        // What the asker says comes first. A folder in the input is the agent's choice; if it lies
        // in another project, `OtherProjectAssessment` has that project's denies count as well.
        let known = [facts.cwd.as_deref(), own, facts.project.as_deref()];
        let cwd = known
            .into_iter()
            .flatten()
            .find(|path| path.starts_with('/'));
        let rules = rulebook.rules_for(cwd);
        let place = RequestPlace {
            in_sandbox: facts.in_sandbox,
            ..rules.place.clone()
        };
        let request = if facts.own_tool {
            ToolRequest::from_call(&facts.tool, place)
        } else {
            ToolRequest::from_tool(&facts.tool, input.as_ref(), place)
        };
        Self {
            assessment: assess(&request, rulebook.facts()),
            other_project: OtherProjectAssessment::find(rulebook, &request, &rules),
            ancestors: AncestorAssessment::find_all(rulebook, &request, &facts.ancestors),
            request,
            rules,
            cwd: cwd.map(str::to_owned),
            ambiguous,
            own_layer: facts.own_tool,
        }
    }

    /// The identity of the project it would run in, if that is its agent's.
    pub(crate) fn project(&self) -> Option<String> {
        let project = self.rules.project.clone();
        project.filter(|_| self.other_project.is_none())
    }

    /// Rules that would allow it beside the files' and these, the narrowest first.
    pub(crate) fn suggest(
        &self,
        rulebook: &Rulebook,
        grants: &RuleSet,
        names: &RuleNames,
    ) -> Vec<SuggestedRule> {
        let grants = LayerView {
            rules: grants,
            admits: &|_| true,
            allows: &LayerAllows::Count,
        };
        self.suggest_beside(rulebook, &self.layers(&|entry| names.admit(entry), grants))
    }

    /// Rules that would allow it if there were no others, the narrowest first.
    pub(crate) fn suggest_alone(&self, rulebook: &Rulebook) -> Vec<SuggestedRule> {
        self.suggest_beside(rulebook, &[])
    }

    fn suggest_beside(&self, rulebook: &Rulebook, layers: &[LayerView<'_>]) -> Vec<SuggestedRule> {
        // No rule allows such an ask, so whoever took a suggestion would be asked again all the
        // same.
        if self.ambiguous || self.other_project.is_some() {
            return Vec::new();
        }
        suggest(&self.request, rulebook.facts(), &self.rules.floor, layers)
    }

    /// What layers of rules say of it.
    pub(super) fn judge_layers(&self, layers: &[LayerView<'_>]) -> Verdict {
        let mut verdict = judge(&self.assessment, &self.rules.floor, layers);
        if let Some(elsewhere) = &self.other_project {
            verdict = elsewhere.tighten(verdict);
        }
        if self.ambiguous && verdict.effect < Effect::Deny {
            self.ambiguous_verdict()
        } else {
            verdict
        }
    }

    /// It may be anything, what the floor holds included, so nothing lifts it.
    fn ambiguous_verdict(&self) -> Verdict {
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
    pub(super) fn layers<'a>(
        &'a self,
        is_for: &'a dyn Fn(&RuleEntry) -> bool,
        grants: LayerView<'a>,
    ) -> Vec<LayerView<'a>> {
        let files = self.rules.layers.iter();
        let files = files.map(|layer| file_layer(layer, is_for));
        files.chain([grants]).chain(own_layer(self)).collect()
    }

    /// What one rule, and nothing but the floor beside it, says.
    pub(crate) fn judge_by(&self, rules: &RuleSet) -> Verdict {
        let layer = LayerView {
            rules,
            admits: &|_| true,
            allows: &LayerAllows::Count,
        };
        self.judge_layers(&[layer])
    }
}

impl AncestorAssessment {
    /// Rules count where they stand; what the request names counts from where it would run.
    fn find_all(
        rulebook: &Rulebook,
        request: &ToolRequest,
        ancestors: &[(AgentId, String)],
    ) -> Vec<Self> {
        let assessments = ancestors.iter().map(|(agent, folder)| {
            let rules = rulebook.rules_for(Some(folder));
            // Relative paths of the request still begin where it would run; only the anchors of the
            // rules, project and home, are the ancestor's.
            let place = RequestPlace {
                cwd: request.place.cwd.clone(),
                in_sandbox: request.place.in_sandbox,
                ..rules.place.clone()
            };
            let request = ToolRequest {
                place,
                ..request.clone()
            };
            Self {
                agent: agent.clone(),
                assessment: assess(&request, rulebook.facts()),
                rules,
            }
        });
        assessments.collect()
    }

    /// What the rules there say of an ask, with these grants beside them.
    pub(super) fn judge_ask(
        &self,
        assessed: &AssessedAsk,
        is_for: &dyn Fn(&RuleEntry) -> bool,
        grants: LayerView<'_>,
    ) -> Verdict {
        let files = self.rules.layers.iter();
        let files = files.map(|layer| file_layer(layer, is_for));
        let layers: Vec<_> = files.chain([grants]).chain(own_layer(assessed)).collect();
        judge(&self.assessment, &self.rules.floor, &layers)
    }
}

impl OtherProjectAssessment {
    /// The folder that a request names for itself, if that lies in another project than its agent's.
    fn find(rulebook: &Rulebook, request: &ToolRequest, own: &DirRules) -> Option<Self> {
        let action = match &request.action {
            ToolAction::Unclear { known, .. } => known,
            action => action,
        };
        let ToolAction::In { directory, action } = action else {
            return None;
        };
        let folder = resolve_folder(directory, &request.place)?;
        let rules = rulebook.rules_for(Some(&folder));
        // Worktrees of one repository are one project, and have a rule file each. Two folders
        // without a project are the same here: no rule file tells them apart.
        let is_same = rules.project == own.project
            && (own.project.is_none() || rules.place.project == own.place.project);
        if is_same {
            return None;
        }
        let there = ToolRequest {
            tool: request.tool.clone(),
            action: action.as_ref().clone(),
            place: rules.place.clone(),
        };
        Some(Self {
            folder,
            assessment: assess(&there, rulebook.facts()),
            rules,
        })
    }

    /// That project's denies hold, and what its agent's rules allow is not theirs to allow there.
    fn tighten(&self, mut verdict: Verdict) -> Verdict {
        // A rule for one agent by name means an agent of that project, which this one is not.
        let layers = self.rules.layers.iter();
        let layers: Vec<_> = layers
            .map(|layer| file_layer(layer, &|entry| entry.is_for(None)))
            .collect();
        let there = judge(&self.assessment, &self.rules.floor, &layers);
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
fn resolve_folder(directory: &str, place: &RequestPlace) -> Option<String> {
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

/// The host's own layer, where it counts.
fn own_layer(assessed: &AssessedAsk) -> Option<LayerView<'static>> {
    assessed.own_layer.then(|| LayerView {
        rules: &OWN_RULES,
        admits: &|_| true,
        allows: &LayerAllows::Count,
    })
}

fn file_layer<'a>(layer: &'a RuleLayer, admits: &'a dyn Fn(&RuleEntry) -> bool) -> LayerView<'a> {
    LayerView {
        rules: &layer.rules,
        admits,
        allows: &layer.allows,
    }
}
