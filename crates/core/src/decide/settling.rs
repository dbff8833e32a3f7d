//! Settling: asks that rules, grants or a bypass end without a person.
//!
//! Invariants: only a verdict that says so, with every grant it names still counting at this
//! instant, ends an ask; a bypass lifts neither a deny nor the floor; what is out of time is left
//! to time.

use std::collections::BTreeMap;

use super::approvals::concluded;
use super::{Decision, DecisionSubject, grants};
use crate::approval::{APPROVE, Approval, DENY};
use crate::event::{
    AnswerDelivery, ApprovalEnding, ApprovalOutcome, Ask, Effect, Event, GrantEnd, GrantUse,
    RuleRef, Verdict, VerdictPart,
};
use crate::grant::AskerScope;
use crate::ids::{AgentId, ApprovalId, GrantId, Seq, Timestamp};
use crate::input::{AskJudgment, DecisionContext};
use crate::principal::RecordedActor;
use crate::rejection::Rejection;
use crate::state::State;

/// The name the record has for what rules ended.
const RULES: &str = "rules";
/// The name the record has for what a bypass let through.
const BYPASS: &str = "bypass";
/// Words in the names of options that allow more than what was asked.
const LASTING: [&str; 4] = ["always", "forever", "permanent", "session"];
/// A rule as a message shows it; the whole of it stands in the verdict.
const SHOWN_CHARS: usize = 200;

/// What ends an ask at this instant without a person, if anything does.
pub(super) fn settle(
    state: &State,
    context: DecisionContext<'_>,
    (ask, opened): (&Ask, Seq),
    judged: Option<&AskJudgment>,
) -> Option<Vec<Event>> {
    if context.has_come(ask.deadline) {
        return None;
    }
    judged
        .and_then(|judged| by_rules(state, context, (ask, opened), judged))
        .or_else(|| {
            let agent = state.find_agent(ask.agent.as_ref()?)?;
            let until = agent.bypass_until.filter(|until| context.now < *until)?;
            let verdict = judged.map(|judged| judged.verdict.as_ref());
            by_bypass((ask, opened), verdict, until).map(|event| vec![event])
        })
}

fn by_rules(
    state: &State,
    context: DecisionContext<'_>,
    (ask, opened): (&Ask, Seq),
    judged: &AskJudgment,
) -> Option<Vec<Event>> {
    let verdict = &judged.verdict;
    let (outcome, resolution) = match verdict.effect {
        Effect::Allow => (ApprovalOutcome::Allowed, allowing(ask)?.to_owned()),
        Effect::Deny => (ApprovalOutcome::Denied, DENY.to_owned()),
        Effect::Ask => return None,
    };
    let asking = AskerScope {
        agent: ask.agent.as_ref(),
        project: judged.project.as_deref(),
    };
    let used = uses(verdict);
    let counts = |used: &GrantUse| counts(state, context, (asking, verdict.effect), used);
    if !used.iter().all(counts) {
        return None;
    }
    let ending = ApprovalEnding {
        message: Some(describe_verdict(verdict)),
        verdict: Some(verdict.clone()),
        ..ApprovalEnding::new(outcome, resolution, RecordedActor::host_by(RULES))
    };
    let over: Vec<Event> = used
        .iter()
        .filter(|used| is_used_up(state, used))
        .map(|used| grants::removed(used.grant.clone(), GrantEnd::UsedUp))
        .collect();
    let mut events = vec![concluded(
        (ask, opened),
        ending,
        AnswerDelivery::Waiting,
        used,
    )];
    events.extend(over);
    Some(events)
}

/// The option that allows this ask and no more. One that makes the asker stop asking is a person's
/// to choose.
fn allowing(ask: &Ask) -> Option<&str> {
    let lasts = |option: &str| {
        let option = option.to_lowercase();
        LASTING.iter().any(|word| option.contains(word))
    };
    let mut options = ask.approving.iter().map(String::as_str);
    let plain = options.clone().find(|option| *option == APPROVE);
    plain.or_else(|| options.find(|option| !lasts(option)))
}

/// The grants behind what a verdict says, each with the number of parts it decided about.
fn uses(verdict: &Verdict) -> Vec<GrantUse> {
    let mut times: BTreeMap<&GrantId, u32> = BTreeMap::new();
    for part in deciding(verdict) {
        if let Some(grant) = part.rule.as_ref().and_then(|rule| rule.grant.as_ref()) {
            *times.entry(grant).or_default() += 1;
        }
    }
    let uses = times.into_iter().map(|(grant, times)| GrantUse {
        grant: grant.clone(),
        times,
    });
    uses.collect()
}

/// The parts that made the verdict what it is.
fn deciding(verdict: &Verdict) -> impl Iterator<Item = &VerdictPart> {
    verdict
        .parts
        .iter()
        .filter(|part| part.effect == verdict.effect)
}

/// Whether a grant says what is said in its name, here and now, for all the parts it is to decide.
fn counts(
    state: &State,
    context: DecisionContext<'_>,
    (asking, effect): (AskerScope<'_>, Effect),
    used: &GrantUse,
) -> bool {
    is_about(state, context, (asking, effect), used)
        && state
            .find_grant(&used.grant)
            .is_some_and(|grant| grant.grant.effect == effect && grant.has_left(used.times))
}

/// What denies somebody above an agent denies the agent too.
fn is_about(
    state: &State,
    context: DecisionContext<'_>,
    (asking, effect): (AskerScope<'_>, Effect),
    used: &GrantUse,
) -> bool {
    let counts = |asking| state.grant_counts(&used.grant, asking, context.now);
    let above = asking.agent.into_iter();
    let mut above = above.flat_map(|agent| state.ancestors_of(agent));
    counts(asking)
        || (effect == Effect::Deny
            && above.any(|agent| {
                counts(AskerScope {
                    agent: Some(agent),
                    ..asking
                })
            }))
}

fn is_used_up(state: &State, used: &GrantUse) -> bool {
    let grant = state.find_grant(&used.grant);
    grant.is_some_and(|grant| {
        grant.grant.effect == Effect::Allow
            && grant.uses_left.is_some_and(|left| left <= used.times)
    })
}

/// Which rule decided, in a line; where several did, the first and their number.
fn describe_verdict(verdict: &Verdict) -> String {
    let verb = match verdict.effect {
        Effect::Allow => "allowed",
        Effect::Ask => "asked",
        Effect::Deny => "denied",
    };
    let mut rules: Vec<&RuleRef> = Vec::new();
    for rule in deciding(verdict).filter_map(|part| part.rule.as_ref()) {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    let Some(first) = rules.first() else {
        let reason = deciding(verdict).find_map(|part| part.reason.as_deref());
        let reason = reason.unwrap_or("the host's own rules");
        return format!("{verb}: {}", shown(reason));
    };
    let more = match rules.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{verb} by {}{more}", name_of(first))
}

fn name_of(rule: &RuleRef) -> String {
    let text = shown(&rule.rule);
    match (&rule.grant, rule.line) {
        (Some(grant), _) => format!("grant `{text}` ({grant})"),
        (None, Some(line)) => format!("rule `{text}` in {}:{line}", rule.source),
        (None, None) => format!("rule `{text}` in {}", rule.source),
    }
}

fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// A bypass turns ask into allow. It lifts neither a deny nor the floor, and an ask with a tool
/// that the rules could not be asked about may be on the floor.
fn by_bypass(
    (ask, opened): (&Ask, Seq),
    verdict: Option<&Verdict>,
    until: Timestamp,
) -> Option<Event> {
    let lifted = match verdict {
        None => ask.tool.is_none(),
        Some(verdict) => verdict.effect != Effect::Deny && !verdict.is_on_the_floor(),
    };
    let resolution = allowing(ask).filter(|_| lifted)?.to_owned();
    let by = RecordedActor::host_by(BYPASS);
    let ending = ApprovalEnding {
        message: Some(format!("bypass until {}", until.to_utc())),
        ..ApprovalEnding::new(ApprovalOutcome::Allowed, resolution, by)
    };
    let event = concluded((ask, opened), ending, AnswerDelivery::Waiting, Vec::new());
    Some(event)
}

/// What an agent has open of which no rule can speak is let through, oldest first. The rules are
/// asked again about the rest: what they said before may hold no longer.
pub(super) fn let_through(
    state: &State,
    context: DecisionContext<'_>,
    agent: &AgentId,
    until: Timestamp,
) -> Vec<Event> {
    let open = state.approvals.values();
    let mut open: Vec<&Approval> = open
        .filter(|approval| approval.ask.agent.as_ref() == Some(agent))
        .filter(|approval| approval.ask.tool.is_none())
        .filter(|approval| !context.has_come(approval.ask.deadline))
        .collect();
    open.sort_by_key(|approval| approval.opened);
    open.into_iter()
        .filter_map(|approval| {
            let asked = (approval.ask.as_ref(), approval.opened);
            by_bypass(asked, None, until)
        })
        .collect()
}

/// The rules were asked again: what they settle now ends, everything else stays as it is.
pub(super) fn settle_again(
    state: &State,
    context: DecisionContext<'_>,
    id: ApprovalId,
    judged: &AskJudgment,
) -> Result<Decision, Rejection> {
    let Some(approval) = state.find_approval(&id) else {
        return Err(Rejection::UnknownApproval(id));
    };
    let events = if approval.is_pending() {
        let asked = (approval.ask.as_ref(), approval.opened);
        settle(state, context, asked, Some(judged)).unwrap_or_default()
    } else {
        Vec::new()
    };
    Ok(Decision::new(events, DecisionSubject::Approval(id)))
}
