//! Rules and grants: listed, made, taken back, tried out.
//!
//! Invariants: agents reach none of this; what was begun is finished whether or not its caller
//! still listens, so that no grant is made without settling what it covers.

use std::sync::Arc;

use countersign_core::event::{Effect, Grant, Verdict};
use countersign_core::{
    Agent, AgentId, Approval, ApprovalId, AskerScope, Caller, CreateGrant, GrantDraft, GrantId,
    GrantState, Input, Json, Rejection, Timestamp,
};
use countersign_rules::{Rule, RuleEntry, RuleOrigin, SuggestedRule};

use crate::gate::{AskFacts, AssessedAsk, Gate, RuleNames};
use crate::ids::new_grant_id;
use crate::reply::ServiceError;
use crate::rulebook::{ListedRule, RuleFileProblem, Rulebook, UntrustedRuleFile};
use crate::supervisor::StateView;

use super::{Service, ServiceResult, agent, grant};

/// Why nothing can be said about rule files.
const RULES_UNREADABLE: &str = "they cannot be read: a folder does not respond";

fn rules_unreadable() -> ServiceError {
    ServiceError::RulesUnreadable(RULES_UNREADABLE)
}

/// Every rule that counts somewhere.
#[derive(Clone, Debug)]
pub struct RulesOverview {
    /// Rules of files, in the order in which they were read.
    pub files: Vec<ListedRule>,
    /// Grants, oldest first.
    pub grants: Vec<GrantState>,
    /// What is wrong with files.
    pub problems: Vec<RuleFileProblem>,
    /// Why nothing is allowed by rule here, if nothing is.
    pub suspended: Option<String>,
    /// What stands for the project in a grant's scope.
    pub project: Option<String>,
    /// Files whose allows do not count because nobody has trusted them as they are.
    pub untrusted: Vec<String>,
}

/// A grant that was made or was there already.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantAdded {
    /// The grant.
    pub grant: GrantState,
    /// How many open asks ended when the rules were asked again.
    pub settled: usize,
    /// What its author should know about the rule.
    pub warnings: Vec<String>,
}

/// What the rules would be asked.
#[derive(Clone, Debug, Default)]
pub struct CheckRequest {
    /// The tool.
    pub tool: String,
    /// Its input.
    pub input: Option<Json>,
    /// The folder it would run in.
    pub cwd: Option<String>,
    /// The agent that would ask.
    pub agent: Option<AgentId>,
}

/// What the rules would say.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleCheck {
    /// What they say.
    pub verdict: Verdict,
    /// Rules that would allow it, the narrowest first.
    pub candidates: Vec<SuggestedRule>,
}

/// What rules are suggested from: the ask, and whatever counts for whoever asks.
struct SuggestionBasis {
    assessed: Arc<AssessedAsk>,
    grants: Vec<Arc<Grant>>,
    names: RuleNames,
}

/// Rules and grants.
impl Service {
    /// Every rule that counts in a folder, or everywhere.
    pub async fn rules(
        &self,
        caller: &Caller,
        cwd: Option<String>,
    ) -> ServiceResult<RulesOverview> {
        caller.refuse_agents()?;
        let seen = self.read_rules(move |rulebook| {
            let rules = rulebook.rules_for(cwd.as_deref());
            (rules, rulebook.problems())
        });
        let (rules, problems) = seen.await.ok_or_else(rules_unreadable)?;
        let mut grants = self.find_grants(caller, |_| true).await?;
        grants.sort_by(|a, b| (a.created_at, &a.grant.id).cmp(&(b.created_at, &b.grant.id)));
        Ok(RulesOverview {
            files: rules.list_rules(),
            grants,
            problems,
            suspended: rules.suspended.clone(),
            project: rules.project.clone(),
            untrusted: files_of(&rules.untrusted),
        })
    }

    /// The rule files of a folder that nobody trusted as they are, for somebody who is about to.
    pub async fn untrusted_rules(
        &self,
        caller: &Caller,
        cwd: Option<String>,
    ) -> ServiceResult<Vec<UntrustedRuleFile>> {
        caller.refuse_agents()?;
        let seen = self.read_rules(move |rulebook| rulebook.untrusted_files(cwd.as_deref()));
        seen.await.ok_or_else(rules_unreadable)
    }

    /// Grants that are not over, and are wanted.
    pub async fn find_grants(
        &self,
        caller: &Caller,
        is_wanted: impl Fn(&Grant) -> bool + Send + 'static,
    ) -> ServiceResult<Vec<GrantState>> {
        caller.refuse_agents()?;
        self.read_grants(is_wanted).await
    }

    /// The grants that the caller's answer to an ask became.
    pub async fn grants_of_answer(
        &self,
        caller: &Caller,
        approval: &ApprovalId,
    ) -> ServiceResult<Vec<GrantState>> {
        // Only who may read the answer is told what became of it: an orchestrator for its descendants.
        let found = self.load_approval(caller, approval.clone()).await?;
        if found.ask.agent.as_ref() == caller.principal.agent() {
            caller.refuse_agents()?;
        }
        let origin = approval.clone();
        self.read_grants(move |grant| grant.origin.as_ref() == Some(&origin))
            .await
    }

    async fn read_grants(
        &self,
        is_wanted: impl Fn(&Grant) -> bool + Send + 'static,
    ) -> ServiceResult<Vec<GrantState>> {
        let now = self.now();
        self.read(move |view| {
            let grants = view.state.grants();
            grants
                .filter(|grant| !grant.has_expired(now) && is_wanted(&grant.grant))
                .cloned()
                .collect()
        })
        .await
    }

    /// What is wrong with rule files, as far as they were looked at.
    pub async fn rule_problems(&self, caller: &Caller) -> ServiceResult<Vec<RuleFileProblem>> {
        caller.refuse_agents()?;
        let problems = self.read_rules(Rulebook::problems).await;
        Ok(problems.unwrap_or_else(|| {
            vec![RuleFileProblem {
                file: "rule files".to_owned(),
                line: None,
                message: RULES_UNREADABLE.to_owned(),
                suspends: true,
            }]
        }))
    }

    /// Makes a grant and settles whatever in the inbox it covers.
    pub async fn add_grant(&self, caller: Caller, draft: GrantDraft) -> ServiceResult<GrantAdded> {
        let warnings = warnings_of(draft.effect, &draft.rule)?;
        let input = Input::CreateGrant(CreateGrant {
            caller,
            id: new_grant_id(),
            draft,
        });
        let service = self.clone();
        self.run_to_end(async move {
            let grant = grant(service.submit(input).await?)?;
            let settled = service.rejudge_open_logged().await;
            let id = grant.grant.id.clone();
            // It may have been used, or used up, by what it settled.
            let used = service.read(move |view| view.state.find_grant(&id).cloned());
            let grant = used.await?.unwrap_or(grant);
            Ok(GrantAdded {
                grant,
                settled,
                warnings,
            })
        })
        .await
    }

    /// Takes a grant back. Gives it as it was.
    pub async fn remove_grant(&self, caller: Caller, id: GrantId) -> ServiceResult<GrantState> {
        grant(
            self.submit(Input::RemoveGrant { caller, grant: id })
                .await?,
        )
    }

    /// What the rules would say, without asking anybody.
    pub async fn check_rules(
        &self,
        caller: &Caller,
        check: CheckRequest,
    ) -> ServiceResult<RuleCheck> {
        caller.refuse_agents()?;
        let facts = self.check_facts(&check);
        self.judge_facts(facts, check.agent).await
    }

    /// What the rules say of something that an agent would ask, and which rules would allow it.
    async fn judge_facts(
        &self,
        facts: AskFacts,
        agent: Option<AgentId>,
    ) -> ServiceResult<RuleCheck> {
        let Some(assessed) = self.assess(facts).await else {
            return Err(rules_unreadable());
        };
        let assessed: Arc<AssessedAsk> = assessed.into();
        let now = self.now();
        let (verdict, basis) = self
            .read(move |view| {
                let agent = agent.as_ref();
                let judged = view.gate.judge(view.state, &assessed, agent, now);
                let asking = AskerScope {
                    agent,
                    project: judged.project.as_deref(),
                };
                let basis = SuggestionBasis {
                    grants: counting_grants(view, asking, now),
                    names: RuleNames::of_agent(view.state, agent, now),
                    assessed: assessed.clone(),
                };
                (judged.verdict, basis)
            })
            .await?;
        let candidates = match verdict.effect {
            Effect::Ask => self.suggest(basis).await,
            Effect::Allow | Effect::Deny => Vec::new(),
        };
        Ok(RuleCheck {
            verdict: Verdict::clone(&verdict),
            candidates,
        })
    }

    fn check_facts(&self, check: &CheckRequest) -> AskFacts {
        let directory = self.shared.directory.read();
        let agent = check.agent.as_ref();
        AskFacts {
            tool: check.tool.clone(),
            input: check.input.clone(),
            cwd: check.cwd.clone(),
            project: agent.and_then(|agent| directory.project_of(agent)),
            own_tool: false,
            in_sandbox: agent.is_some_and(|agent| directory.is_confined(agent)),
            ancestors: agent.map_or_else(Vec::new, |agent| directory.ancestor_folders(agent)),
        }
    }

    /// Trying candidates takes a while, so it is done beside the loop, on a copy of what counts.
    async fn suggest(&self, basis: SuggestionBasis) -> Vec<SuggestedRule> {
        let rulebook = self.shared.rulebook.clone();
        let trying = tokio::task::spawn_blocking(move || {
            let grants = Gate::rules_of(&basis.grants);
            basis.assessed.suggest(&rulebook, &grants, &basis.names)
        });
        trying.await.unwrap_or_else(|error| {
            tracing::error!(%error, "no rule could be suggested");
            Vec::new()
        })
    }

    /// Rules that would allow an open ask, the narrowest first.
    pub async fn suggestions(
        &self,
        caller: &Caller,
        approval: ApprovalId,
    ) -> ServiceResult<Vec<SuggestedRule>> {
        caller.refuse_agents()?;
        let found = self.load_approval(caller, approval).await?;
        if found.ask.tool.is_none() {
            return Ok(Vec::new());
        }
        let facts = self.open_ask_facts(&found.ask);
        let check = self.judge_facts(facts, found.ask.agent.clone()).await?;
        Ok(check.candidates)
    }

    /// What stands for the project that an ask would run in, if it is in one.
    pub async fn project_of_ask(&self, approval: &Approval) -> Option<String> {
        let assessed = self.assess(self.open_ask_facts(&approval.ask)).await;
        assessed.and_then(|assessed| assessed.project())
    }

    /// Trusts a rule file as it is now.
    pub async fn trust_rules(
        &self,
        caller: Caller,
        file: String,
        digest: String,
    ) -> ServiceResult<()> {
        let input = Input::TrustRules {
            caller,
            file,
            digest,
        };
        let service = self.clone();
        self.run_to_end(async move {
            service.submit(input).await?;
            let trusted = service.read(|view| {
                let trusted = view.state.trusted_files();
                trusted
                    .map(|(file, digest)| (file.to_owned(), digest.to_owned()))
                    .collect()
            });
            let trusted = trusted.await?;
            let seen = service.read_rules(move |rulebook| rulebook.set_trusted(trusted));
            seen.await.ok_or_else(rules_unreadable)?;
            service.rejudge_open_logged().await;
            Ok(())
        })
        .await
    }

    /// Lets an agent's asks through for a while, or no longer. What could not be judged when it
    /// was asked is judged now.
    pub async fn set_bypass(
        &self,
        caller: Caller,
        id: AgentId,
        for_ms: Option<u64>,
    ) -> ServiceResult<Agent> {
        let input = Input::SetBypass {
            caller,
            agent: id,
            for_ms,
        };
        let service = self.clone();
        self.run_to_end(async move {
            let switched = agent(service.submit(input).await?)?.0;
            if switched.bypass_until.is_some() {
                service.rejudge_open_logged().await;
            }
            Ok(switched)
        })
        .await
    }

    /// Runs something to its end, whether or not the caller still listens.
    pub(super) async fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = ServiceResult<T>> + Send + 'static,
    ) -> ServiceResult<T> {
        let work = self.shared.tasks.spawn(work);
        work.await.map_err(|_| ServiceError::ShuttingDown)?
    }
}

/// The grants that count for whoever asks.
fn counting_grants(view: StateView<'_>, asking: AskerScope<'_>, now: Timestamp) -> Vec<Arc<Grant>> {
    let grants = view.state.grants();
    grants
        .filter(|grant| view.state.grant_counts(&grant.grant.id, asking, now))
        .map(|grant| grant.grant.clone())
        .collect()
}

/// Reads a rule, and says what its author should know about it.
pub(super) fn warnings_of(effect: Effect, rule: &str) -> ServiceResult<Vec<String>> {
    let rule = Rule::parse(effect, rule).map_err(|error| Rejection::BadGrant(error.to_string()))?;
    Ok(rule.warnings())
}

/// A rule on its own.
pub(super) fn parse_rule(effect: Effect, rule: &str) -> ServiceResult<RuleEntry> {
    let entry = RuleEntry::parse(effect, rule, RuleOrigin::file("rule", 1));
    Ok(entry.map_err(|error| Rejection::BadGrant(error.to_string()))?)
}

fn files_of(untrusted: &[(String, String)]) -> Vec<String> {
    untrusted.iter().map(|(file, _)| file.clone()).collect()
}
