//! What the host answered.

use std::fmt::Write as _;

use countersign_protocol::{
    BacktestResult, BacktestRuleParams, CatalogRow, HostAgent, HostApproval, Reason,
    RuleSuggestions, StopAllResult, method,
};

use crate::decision_guard::{ActOrigin, GuardDecision, GuardEvent};
use crate::host_call::{CallFailure, CallLane, CallResult, HostCall, ReplyTag, parse_result};
use crate::message::Effect;
use crate::model::{
    ConfirmPurpose, HostLink, ListPurpose, Model, Overlay, PendingAllow, RuleForm, catalog_choices,
};
use crate::render::inbox_item::InboxItem;
use crate::render::{approvals, escape};
use crate::transcript::Transcript;

use super::{files, lists, own_terminals, rules, say, search, terminals, transcripts};

type ReplyOutcome = Result<Vec<Effect>, CallFailure>;

pub(super) fn handle_reply(model: &mut Model, tag: ReplyTag, result: CallResult) -> Vec<Effect> {
    let outcome = match tag {
        ReplyTag::File(tag) => Ok(files::take_reply(model, tag, result)),
        ReplyTag::Resolved { id } => take_resolved(model, &id, result),
        ReplyTag::ResolvedMany => take_resolved_many(model, result),
        ReplyTag::Answered { id } => take_answered(model, &id, result),
        ReplyTag::Suggested { id, option } => parse_result::<method::SuggestRules>(result)
            .map(|found| offer_rules(model, &id, option, found)),
        ReplyTag::Backtested { id, rule } => take_backtest(model, &id, &rule, result),
        ReplyTag::Approval => {
            parse_result::<method::Approval>(result).map(|row| show_ask(model, row))
        }
        ReplyTag::AgentRow => {
            parse_result::<method::Agent>(result).map(|row| update_agents(model, vec![row]))
        }
        ReplyTag::AgentRows => {
            parse_result::<method::Agents>(result).map(|rows| update_agents(model, rows))
        }
        ReplyTag::AgentChanged { done } => parse_result::<method::Agent>(result).map(|row| {
            update_agents(model, vec![row]);
            say(model, done)
        }),
        ReplyTag::Spawned => {
            parse_result::<method::SpawnAgent>(result).map(|row| select_spawned(model, row))
        }
        ReplyTag::Catalog => {
            parse_result::<method::Catalog>(result).map(|rows| offer_catalog(model, &rows))
        }
        ReplyTag::Status => parse_result::<method::Status>(result).map(|status| {
            model.host.update_status(status, model.now.wall);
            Vec::new()
        }),
        ReplyTag::StoppedAll => {
            parse_result::<method::StopAll>(result).map(|stopped| say_stopped(model, &stopped))
        }
        ReplyTag::Diff { agent } => take_diff(model, &agent, result),
        ReplyTag::Terminals { agent } => take_terminals(model, &agent, result),
        ReplyTag::TerminalOutput {
            agent,
            terminal,
            after,
        } => match result {
            Err(failure) => Ok(terminals::record_failure(model, &agent, &failure)),
            result => parse_result::<method::TerminalOutput>(result)
                .map(|piece| terminals::take_output(model, &agent, &terminal, after, &piece)),
        },
        tag @ (ReplyTag::OwnTerminals
        | ReplyTag::OwnTerminalOutput { .. }
        | ReplyTag::TerminalOpened
        | ReplyTag::TerminalTyped
        | ReplyTag::TerminalChanged) => take_own_terminals(model, &tag, result),
        ReplyTag::FeedPage => take_feed_page(model, result),
        ReplyTag::SearchPage { text, before } => search::take_page(model, &text, before, result),
        ReplyTag::Rules => take_rules(model, result),
        ReplyTag::RulesChecked { command } => {
            parse_result::<method::CheckRules>(result).map(|checked| {
                model.tried = Some((command, checked.verdict));
                Vec::new()
            })
        }
        ReplyTag::RuleTested { rule } => parse_result::<method::BacktestRule>(result)
            .map(|tested| ask_to_add(model, rule, &tested)),
        ReplyTag::RuleAdded => parse_result::<method::AddRule>(result).map(|added| {
            let rule = escape::line(&added.grant.rule);
            say(
                model,
                format!("saved {rule}; it settled {} open asks", added.settled),
            );
            rules::read(model)
        }),
        ReplyTag::RuleRemoved => parse_result::<method::RemoveRule>(result).map(|grant| {
            say(model, format!("revoked {}", escape::line(&grant.rule)));
            rules::read(model)
        }),
        ReplyTag::TranscriptEnd { agent } => take_transcript_end(model, agent, result),
        ReplyTag::TranscriptNext { agent } => take_transcript_next(model, &agent, result),
        ReplyTag::TranscriptBefore { agent } => take_transcript_before(model, &agent, result),
        ReplyTag::TranscriptAround { agent } => take_transcript_around(model, agent, result),
        ReplyTag::TranscriptAfter { agent } => take_transcript_after(model, &agent, result),
    };
    outcome.unwrap_or_else(|failure| show_failure(model, &failure))
}

fn take_resolved(model: &mut Model, id: &str, result: CallResult) -> ReplyOutcome {
    clear_sending(model, id);
    parse_result::<method::ResolveApproval>(result).map(|row| settle(model, id, &row))
}

fn take_resolved_many(model: &mut Model, result: CallResult) -> ReplyOutcome {
    model.ask.sending = None;
    parse_result::<method::ResolveApprovals>(result)
        .map(|answered| settle_many(model, answered.results))
}

fn take_answered(model: &mut Model, id: &str, result: CallResult) -> ReplyOutcome {
    clear_sending(model, id);
    let row = parse_result::<method::AnswerQuestion>(result)?;
    model.inbox.remove_settled(id);
    lists::follow_selection(model);
    Ok(say(
        model,
        format!("{} answered", approvals::short_id(&row.id)),
    ))
}

/// Shows what a rule would have done beside the rule, if the person still looks at that ask.
fn take_backtest(model: &mut Model, id: &str, rule: &str, result: CallResult) -> ReplyOutcome {
    let tested = parse_result::<method::BacktestRule>(result)?;
    if model.inbox.selected_id() == Some(id)
        && let Some(PendingAllow::Remember { form, .. }) = &mut model.ask.pending
    {
        let offers = form.offers.iter_mut();
        for offer in offers.filter(|offer| offer.candidate.rule == rule) {
            offer.backtest = Some(tested.clone());
        }
    }
    Ok(Vec::new())
}

fn show_ask(model: &mut Model, row: HostApproval) -> Vec<Effect> {
    model.loading.remove(&format!("ask {}", row.id));
    // Never brief: this was asked for by its id.
    let row = HostApproval {
        brief: false,
        ..row
    };
    model.inbox.update_item(InboxItem::ask(row));
    Vec::new()
}

fn select_spawned(model: &mut Model, row: HostAgent) -> Vec<Effect> {
    let text = format!("started {}", escape::line(&row.name));
    model.selected_agent = Some(row.id.clone());
    model.agent_cursor = Some(row.id.clone());
    update_agents(model, vec![row]);
    say(model, text)
}

fn offer_catalog(model: &mut Model, rows: &[CatalogRow]) -> Vec<Effect> {
    model.overlay = Some(Overlay::List {
        purpose: ListPurpose::Agent,
        title: "start".to_owned(),
        choices: catalog_choices(rows),
        selected: 0,
    });
    Vec::new()
}

fn say_stopped(model: &mut Model, stopped: &StopAllResult) -> Vec<Effect> {
    let text = format!(
        "denied {} asks, interrupted {} agents",
        stopped.denied, stopped.interrupted
    );
    say(model, text)
}

fn take_diff(model: &mut Model, agent: &str, result: CallResult) -> ReplyOutcome {
    model.loading.remove(&format!("diff {agent}"));
    // Also after a failure, so that it is not asked for again and again.
    let name = model.host.agent_name(agent).to_owned();
    let review = model.reviews.entry(agent.to_owned()).or_default();
    // Said in the panel, where people look for the changes.
    review.problem = result
        .as_ref()
        .err()
        .map(|failure| failure.message.replace(agent, &name));
    if review.problem.is_none() {
        review.diff = Some(parse_result::<method::AgentChanges>(result)?);
    }
    Ok(Vec::new())
}

fn take_terminals(model: &mut Model, agent: &str, result: CallResult) -> ReplyOutcome {
    if let Err(failure) = result {
        return Ok(terminals::record_failure(model, agent, &failure));
    }
    model.loading.remove(&format!("terminals {agent}"));
    let rows = parse_result::<method::Terminals>(result)?;
    if let Some(terminals) = model.terminals.get_mut(agent) {
        terminals.replace_rows(rows);
    }
    Ok(Vec::new())
}

fn take_own_terminals(model: &mut Model, tag: &ReplyTag, result: CallResult) -> ReplyOutcome {
    if let Err(failure) = &result {
        own_terminals::record_failure(model, tag, failure);
        // These say it in the panel.
        if matches!(
            tag,
            ReplyTag::OwnTerminals | ReplyTag::OwnTerminalOutput { .. }
        ) {
            return Ok(Vec::new());
        }
    }
    Ok(match tag {
        ReplyTag::OwnTerminals => {
            own_terminals::take_rows(model, parse_result::<method::OwnTerminals>(result)?)
        }
        ReplyTag::OwnTerminalOutput { terminal, after } => {
            let piece = parse_result::<method::OwnTerminalOutput>(result)?;
            own_terminals::take_output(model, terminal, *after, &piece)
        }
        ReplyTag::TerminalOpened => {
            own_terminals::take_opened(model, parse_result::<method::OpenTerminal>(result)?)
        }
        ReplyTag::TerminalTyped => {
            own_terminals::take_written(model, parse_result::<method::WriteTerminal>(result)?)
        }
        _ => {
            result?;
            own_terminals::take_changed(model)
        }
    })
}

fn take_feed_page(model: &mut Model, result: CallResult) -> ReplyOutcome {
    model.loading.remove("feed");
    // Also after a failure, so that the page is not asked for again and again.
    model.feed.is_loaded = true;
    model
        .feed
        .append_page(parse_result::<method::Events>(result)?);
    Ok(Vec::new())
}

fn take_rules(model: &mut Model, result: CallResult) -> ReplyOutcome {
    model.loading.remove("rules");
    // Also after a failure, so that they are not asked for again and again.
    model.rules.get_or_insert_default();
    model.rules = Some(parse_result::<method::Rules>(result)?);
    Ok(Vec::new())
}

fn take_transcript_end(model: &mut Model, agent: String, result: CallResult) -> ReplyOutcome {
    model.loading.remove(&format!("transcript {agent}"));
    let page = parse_result::<method::Transcript>(result)?;
    let transcript = model.transcripts.entry(agent).or_default();
    // Somebody went further up meanwhile: the end does not follow what is shown.
    if !transcript.is_window() {
        transcript.append_page(page);
    }
    model.drop_old_transcripts();
    Ok(Vec::new())
}

fn take_transcript_next(model: &mut Model, agent: &str, result: CallResult) -> ReplyOutcome {
    // Before the answer is read: a failure must not leave a mark that stops every later read.
    model.loading.remove(&format!("next {agent}"));
    let is_wanted = model.loading.remove(&format!("again {agent}"));
    let page = parse_result::<method::Transcript>(result)?;
    // News came while the page was on its way, and the page may be older than they are.
    let has_more = page.more || is_wanted;
    let Some(transcript) = model.transcripts.get_mut(agent) else {
        return Ok(Vec::new());
    };
    if transcript.is_window() {
        return Ok(Vec::new());
    }
    transcript.append_page(page);
    if has_more {
        return Ok(transcripts::read_next(model, agent));
    }
    Ok(Vec::new())
}

fn take_transcript_before(model: &mut Model, agent: &str, result: CallResult) -> ReplyOutcome {
    model.loading.remove(&format!("before {agent}"));
    let page = parse_result::<method::Transcript>(result)?;
    if let Some(transcript) = model.transcripts.get_mut(agent) {
        transcript.prepend_page(page);
    }
    Ok(Vec::new())
}

/// Shows a part of the transcript instead of its end, if somebody still wants to see it.
fn take_transcript_around(model: &mut Model, agent: String, result: CallResult) -> ReplyOutcome {
    model.loading.remove(&format!("around {agent}"));
    let goal = model.transcript_goal.take_if(|goal| goal.agent == agent);
    let page = parse_result::<method::Transcript>(result)?;
    let Some(goal) = goal else {
        return Ok(Vec::new());
    };
    let transcript = Transcript::window(page);
    if !transcript.contains(goal.sequence) {
        return Ok(say(
            model,
            "that part of the transcript is not there any more",
        ));
    }
    model.transcripts.insert(agent, transcript);
    model.transcript_goal = Some(goal);
    model.drop_old_transcripts();
    Ok(Vec::new())
}

fn take_transcript_after(model: &mut Model, agent: &str, result: CallResult) -> ReplyOutcome {
    model.loading.remove(&format!("after {agent}"));
    let page = parse_result::<method::Transcript>(result)?;
    let reached_end = !page.more;
    let Some(transcript) = model.transcripts.get_mut(agent) else {
        return Ok(Vec::new());
    };
    if !transcript.is_window() {
        return Ok(Vec::new());
    }
    transcript.append_to_window(page);
    if reached_end {
        // What came while this page was on its way was not asked for.
        return Ok(transcripts::read_next(model, agent));
    }
    Ok(Vec::new())
}

fn clear_sending(model: &mut Model, id: &str) {
    if model.ask.sending.as_deref() == Some(id) {
        model.ask.sending = None;
    }
}

fn show_failure(model: &mut Model, failure: &CallFailure) -> Vec<Effect> {
    if failure.is_lost {
        // At once, and not only when the connection for news ends too, so that no key decides in between.
        if model.host.is_up() {
            model.host.link = HostLink::Lost {
                since: model.now.ms,
            };
            model.ask.guard.step(&GuardEvent::Lost, model.now.ms);
        }
        return say(
            model,
            "lost the host: whether that arrived is known after reconnecting",
        );
    }
    if failure.reason == Some(Reason::StoreUnavailable) {
        model.host.warnings.store_error = Some(failure.message.clone());
    }
    let text = escape::line(&failure.message.replace('\n', " ")).into_owned();
    say(model, text)
}

/// The host took the answer.
fn settle(model: &mut Model, id: &str, row: &HostApproval) -> Vec<Effect> {
    // The owner decides. The ask stays on the screen until an event says how it ended.
    if row.passed_to_owner == Some(true) {
        let text = format!(
            "{} was passed to the program that owns it",
            approvals::short_id(&row.id)
        );
        return say(model, text);
    }
    let mut text = format!(
        "{} {}",
        approvals::short_id(&row.id),
        approvals::ask_state(row)
    );
    if let [grant, ..] = row.remembered.as_slice() {
        let _ = write!(text, "; saved {}", escape::line(&grant.rule));
    }
    model.inbox.remove_settled(id);
    lists::follow_selection(model);
    say(model, text)
}

fn settle_many(model: &mut Model, results: Vec<countersign_protocol::AnswerResult>) -> Vec<Effect> {
    let total = results.len();
    let mut failures = Vec::new();
    for result in results {
        match result.error {
            None => model.inbox.remove_settled(&result.approval_id),
            Some(error) => failures.push(error.message),
        }
    }
    lists::follow_selection(model);
    let done = total - failures.len();
    let text = match failures.first() {
        None => format!("allowed {done} asks"),
        Some(first) => format!("allowed {done} of {total} asks; {}", escape::line(first)),
    };
    say(model, text)
}

fn update_agents(model: &mut Model, rows: Vec<HostAgent>) -> Vec<Effect> {
    for row in rows {
        model.host.update_agent(row);
    }
    Vec::new()
}

/// Shows the rules that an allow would become, above the ask they came from, if that is still selected. Both are to
/// be read before the second key counts.
fn offer_rules(model: &mut Model, id: &str, option: String, found: RuleSuggestions) -> Vec<Effect> {
    if found.candidates.is_empty() {
        return say(model, "no narrow rule can be suggested: a approves it once");
    }
    let is_open = model
        .inbox
        .selected_item()
        .is_some_and(|item| item.id() == id && item.ended.is_none());
    if !is_open || model.ask.pending.is_some() || model.overlay.is_some() {
        return Vec::new();
    }
    // The key that asked for the rules was judged when it was typed. Its time counts from here on,
    // where the question for the second key appears.
    let event = GuardEvent::Allow {
        place: "key:s",
        option: Some(&option),
        form: true,
        origin: ActOrigin::default(),
    };
    match model.ask.guard.step(&event, model.now.ms) {
        GuardDecision::Confirm { .. } => {}
        GuardDecision::Refused(refusal) => return say(model, refusal.describe()),
        _ => return Vec::new(),
    }
    let form = RuleForm::new(found.candidates);
    let tests = form.offers.iter().map(|offer| {
        let rule = offer.candidate.rule.clone();
        let params = BacktestRuleParams {
            rule: rule.clone(),
            effect: None,
            limit: None,
        };
        let tag = ReplyTag::Backtested {
            id: id.to_owned(),
            rule,
        };
        Effect::Call(HostCall::new::<method::BacktestRule>(
            CallLane::Read,
            &params,
            tag,
        ))
    });
    let effects = tests.collect();
    model.ask.pending = Some(PendingAllow::Remember { option, form });
    model.ask.restart_reading();
    effects
}

/// Asks whether to save a rule, with what it would have decided.
fn ask_to_add(model: &mut Model, rule: String, tested: &BacktestResult) -> Vec<Effect> {
    let question = format!(
        "save {} for this project and 30 days? of {} decisions by hand it would have settled {}, against you {}; settles {} now",
        escape::line(&rule),
        tested.examined,
        tested.settled,
        tested.contradicted.len(),
        tested.would_settle.len()
    );
    model.overlay = Some(Overlay::Confirm {
        purpose: ConfirmPurpose::AddRule { rule },
        question,
        asked_at: model.now.ms,
    });
    Vec::new()
}
