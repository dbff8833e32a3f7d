//! Settling: asks that rules, grants or a bypass end without a person.
//!
//! Invariants: only a verdict that says so, with every grant it names still counting at this
//! instant, ends an ask; a bypass lifts neither a deny nor the floor; what is out of time is left
//! to time.

use std::collections::BTreeMap;

use super::approvals::{NumberedAsk, end_ask};
use super::{Decision, DecisionSubject, grants};
use crate::approval::{APPROVE, Approval, DENY};
use crate::event::{
    AnswerDelivery, ApprovalEnding, ApprovalOutcome, Ask, Effect, Event, GrantEnd, GrantUse,
    RuleRef, Verdict, VerdictPart,
};
use crate::grant::AskerScope;
use crate::ids::{AgentId, ApprovalId, GrantId, Timestamp};
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
    open: NumberedAsk<'_>,
    judged: Option<&AskJudgment>,
) -> Option<Vec<Event>> {
    if context.has_come(open.ask.deadline) {
        return None;
    }
    judged
        .and_then(|judged| settle_by_rules(state, context, open, judged))
        .or_else(|| {
            let agent = state.find_agent(open.ask.agent.as_ref()?)?;
            let until = agent.bypass_until.filter(|until| context.now < *until)?;
            let verdict = judged.map(|judged| judged.verdict.as_ref());
            settle_by_bypass(open, verdict, until).map(|event| vec![event])
        })
}

fn settle_by_rules(
    state: &State,
    context: DecisionContext<'_>,
    open: NumberedAsk<'_>,
    judged: &AskJudgment,
) -> Option<Vec<Event>> {
    let verdict = &judged.verdict;
    let (outcome, resolution) = match verdict.effect {
        Effect::Allow => (
            ApprovalOutcome::Allowed,
            // Without an option that allows just this once, no rule can allow: a person chooses.
            find_one_time_option(open.ask)?.to_owned(),
        ),
        Effect::Deny => (ApprovalOutcome::Denied, DENY.to_owned()),
        Effect::Ask => return None,
    };
    let asking = AskerScope {
        agent: open.ask.agent.as_ref(),
        project: judged.project.as_deref(),
    };
    let used = count_grant_uses(verdict);
    // Checked here although the gate has done so: this is where the uses of a grant are counted.
    if !used
        .iter()
        .all(|used| grant_decides(state, context, asking, verdict.effect, used))
    {
        return None;
    }
    let ending = ApprovalEnding {
        message: Some(describe_verdict(verdict)),
        verdict: Some(verdict.clone()),
        ..ApprovalEnding::new(outcome, resolution, RecordedActor::host_by(RULES))
    };
    // In the same commit, so that no later ask is allowed by it once more.
    let over: Vec<Event> = used
        .iter()
        .filter(|used| is_used_up(state, used))
        .map(|used| grants::grant_removed(used.grant.clone(), GrantEnd::UsedUp))
        .collect();
    let mut events = vec![end_ask(open, ending, AnswerDelivery::Waiting, used)];
    events.extend(over);
    Some(events)
}

/// The option that allows this ask and no more. One that makes the asker stop asking is a person's
/// to choose.
fn find_one_time_option(ask: &Ask) -> Option<&str> {
    // A rule, a grant or a bypass can let something happen. It cannot answer a question.
    if ask.asks_people() {
        return None;
    }
    let mut options = ask.approving.iter().map(String::as_str);
    let plain = options.clone().find(|option| *option == APPROVE);
    plain.or_else(|| options.find(|option| !allows_more(option)))
}

/// Whether an option sounds as if it allowed more than what was asked.
fn allows_more(option: &str) -> bool {
    let option = option.to_lowercase();
    LASTING.iter().any(|word| option.contains(word))
}

/// The grants behind what a verdict says, each with the number of parts it decided about.
fn count_grant_uses(verdict: &Verdict) -> Vec<GrantUse> {
    // Each part is a use: otherwise one ask with many commands would cost a grant only one.
    let mut times: BTreeMap<&GrantId, u32> = BTreeMap::new();
    for part in deciding_parts(verdict) {
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
fn deciding_parts(verdict: &Verdict) -> impl Iterator<Item = &VerdictPart> {
    verdict
        .parts
        .iter()
        .filter(|part| part.effect == verdict.effect)
}

/// Whether a grant says what is said in its name, here and now, for all the parts it is to decide.
fn grant_decides(
    state: &State,
    context: DecisionContext<'_>,
    asking: AskerScope<'_>,
    effect: Effect,
    used: &GrantUse,
) -> bool {
    applies_to_asker(state, context, asking, effect, used)
        && state
            .find_grant(&used.grant)
            .is_some_and(|grant| grant.grant.effect == effect && grant.has_left(used.times))
}

/// Whether a grant applies to the asker. A deny for one of its ancestors applies to it too.
fn applies_to_asker(
    state: &State,
    context: DecisionContext<'_>,
    asking: AskerScope<'_>,
    effect: Effect,
    used: &GrantUse,
) -> bool {
    let mut ancestors = asking
        .agent
        .into_iter()
        .flat_map(|agent| state.ancestors_of(agent));
    state.grant_counts(&used.grant, asking, context.now)
        || (effect == Effect::Deny
            && ancestors.any(|agent| {
                let ancestor = AskerScope {
                    agent: Some(agent),
                    ..asking
                };
                state.grant_counts(&used.grant, ancestor, context.now)
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
    for rule in deciding_parts(verdict).filter_map(|part| part.rule.as_ref()) {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    let Some(first) = rules.first() else {
        let reason = deciding_parts(verdict).find_map(|part| part.reason.as_deref());
        let reason = reason.unwrap_or("the host's own rules");
        return format!("{verb}: {}", shorten_rule(reason));
    };
    let more = match rules.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{verb} by {}{more}", describe_rule(first))
}

fn describe_rule(rule: &RuleRef) -> String {
    let text = shorten_rule(&rule.rule);
    match (&rule.grant, rule.line) {
        (Some(grant), _) => format!("grant `{text}` ({grant})"),
        (None, Some(line)) => format!("rule `{text}` in {}:{line}", rule.source),
        (None, None) => format!("rule `{text}` in {}", rule.source),
    }
}

fn shorten_rule(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// A bypass turns ask into allow. It lifts neither a deny nor the floor, and an ask with a tool
/// that the rules could not be asked about may be on the floor.
fn settle_by_bypass(
    open: NumberedAsk<'_>,
    verdict: Option<&Verdict>,
    until: Timestamp,
) -> Option<Event> {
    let lifted = match verdict {
        None => open.ask.tool.is_none(),
        Some(verdict) => verdict.effect != Effect::Deny && !verdict.is_on_the_floor(),
    };
    let resolution = find_one_time_option(open.ask)
        .filter(|_| lifted)?
        .to_owned();
    let by = RecordedActor::host_by(BYPASS);
    let ending = ApprovalEnding {
        message: Some(format!("bypass until {}", until.to_utc())),
        ..ApprovalEnding::new(ApprovalOutcome::Allowed, resolution, by)
    };
    let event = end_ask(open, ending, AnswerDelivery::Waiting, Vec::new());
    Some(event)
}

/// What an agent has open of which no rule can speak is let through, oldest first. The rules are
/// asked again about the rest: what they said before may hold no longer.
pub(super) fn settle_open_by_bypass(
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
        .filter_map(|approval| settle_by_bypass(NumberedAsk::of(approval), None, until))
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
        settle(state, context, NumberedAsk::of(approval), Some(judged)).unwrap_or_default()
    } else {
        Vec::new()
    };
    Ok(Decision::new(events, DecisionSubject::Approval(id)))
}
