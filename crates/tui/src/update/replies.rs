//! What the host answered.

use std::fmt::Write as _;

use countersign_protocol::{
    BacktestResult, BacktestRuleParams, HostApproval, Reason, RuleSuggestions, method,
};

use crate::decision_guard::{ActOrigin, GuardDecision, GuardEvent};
use crate::host_call::{CallFailure, CallLane, CallResult, HostCall, ReplyTag, parse_result};
use crate::message::Effect;
use crate::model::{
    ConfirmPurpose, HostLink, ListPurpose, Model, Overlay, PendingAllow, RuleForm, catalog_choices,
};
use crate::render::inbox_item::InboxItem;
use crate::render::{approvals, escape};

use super::{lists, rules, say, terminals, transcripts};

pub(super) fn handle_reply(model: &mut Model, tag: ReplyTag, result: CallResult) -> Vec<Effect> {
    let outcome = match tag {
        ReplyTag::Resolved { id } => {
            clear_sending(model, &id);
            parse_result::<method::ResolveApproval>(result).map(|row| settle(model, &id, &row))
        }
        ReplyTag::ResolvedMany => {
            model.ask.sending = None;
            parse_result::<method::ResolveApprovals>(result)
                .map(|answered| settle_many(model, answered.results))
        }
        ReplyTag::Answered { id } => {
            clear_sending(model, &id);
            parse_result::<method::AnswerQuestion>(result).map(|row| {
                model.inbox.remove_settled(&id);
                lists::follow_selection(model);
                say(model, format!("{} answered", approvals::short_id(&row.id)))
            })
        }
        ReplyTag::Suggested { id, option } => parse_result::<method::SuggestRules>(result)
            .map(|found| offer_rules(model, &id, option, found)),
        ReplyTag::Backtested { id, rule } => {
            parse_result::<method::BacktestRule>(result).map(|tested| {
                if model.inbox.selected_id() == Some(&id)
                    && let Some(PendingAllow::Remember { form, .. }) = &mut model.ask.pending
                {
                    for offer in form
                        .offers
                        .iter_mut()
                        .filter(|offer| offer.candidate.rule == rule)
                    {
                        offer.backtest = Some(tested.clone());
                    }
                }
                Vec::new()
            })
        }
        ReplyTag::Approval => parse_result::<method::Approval>(result).map(|row| {
            model.loading.remove(&format!("ask {}", row.id));
            // Never brief: this was asked for by its id.
            let row = HostApproval {
                brief: false,
                ..row
            };
            model.inbox.update_item(InboxItem::ask(row));
            Vec::new()
        }),
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
        ReplyTag::Spawned => parse_result::<method::SpawnAgent>(result).map(|row| {
            let text = format!("started {}", escape::line(&row.name));
            model.selected_agent = Some(row.id.clone());
            model.agent_cursor = Some(row.id.clone());
            update_agents(model, vec![row]);
            say(model, text)
        }),
        ReplyTag::Catalog => parse_result::<method::Catalog>(result).map(|rows| {
            model.overlay = Some(Overlay::List {
                purpose: ListPurpose::Agent,
                title: "start".to_owned(),
                choices: catalog_choices(&rows),
                selected: 0,
            });
            Vec::new()
        }),
        ReplyTag::Status => parse_result::<method::Status>(result).map(|status| {
            model.host.update_status(status);
            Vec::new()
        }),
        ReplyTag::StoppedAll => parse_result::<method::StopAll>(result).map(|stopped| {
            let text = format!(
                "denied {} asks, interrupted {} agents",
                stopped.denied, stopped.interrupted
            );
            say(model, text)
        }),
        ReplyTag::Diff { agent } => {
            model.loading.remove(&format!("diff {agent}"));
            let parsed = parse_result::<method::AgentChanges>(result);
            // Also after a failure, so that it is not asked for again and again.
            let review = model.reviews.entry(agent).or_default();
            parsed.map(|diff| {
                review.diff = Some(diff);
                Vec::new()
            })
        }
        ReplyTag::Terminals { agent } => match result {
            Err(failure) => Ok(terminals::record_failure(model, &agent, &failure)),
            result => {
                model.loading.remove(&format!("terminals {agent}"));
                parse_result::<method::Terminals>(result).map(|rows| {
                    if let Some(terminals) = model.terminals.get_mut(&agent) {
                        terminals.replace_rows(rows);
                    }
                    Vec::new()
                })
            }
        },
        ReplyTag::TerminalOutput {
            agent,
            terminal,
            after,
        } => match result {
            Err(failure) => Ok(terminals::record_failure(model, &agent, &failure)),
            result => parse_result::<method::TerminalOutput>(result)
                .map(|piece| terminals::take_output(model, &agent, &terminal, after, &piece)),
        },
        ReplyTag::FeedPage => {
            model.loading.remove("feed");
            model.feed.is_loaded = true;
            parse_result::<method::Events>(result).map(|page| {
                model.feed.append_page(page);
                Vec::new()
            })
        }
        ReplyTag::Rules => {
            model.loading.remove("rules");
            let parsed = parse_result::<method::Rules>(result);
            model.rules.get_or_insert_default();
            parsed.map(|found| {
                model.rules = Some(found);
                Vec::new()
            })
        }
        ReplyTag::RulesChecked { command } => {
            parse_result::<method::CheckRules>(result).map(|checked| {
                model.tried = Some((command, checked.verdict));
                Vec::new()
            })
        }
        ReplyTag::RuleTested { rule } => parse_result::<method::BacktestRule>(result)
            .map(|tested| ask_to_add(model, rule, &tested)),
        ReplyTag::RuleAdded => parse_result::<method::AddRule>(result).map(|added| {
            let text = format!(
                "saved {}; it settled {} open asks",
                escape::line(&added.grant.rule),
                added.settled
            );
            say(model, text);
            rules::read(model)
        }),
        ReplyTag::RuleRemoved => parse_result::<method::RemoveRule>(result).map(|grant| {
            say(model, format!("revoked {}", escape::line(&grant.rule)));
            rules::read(model)
        }),
        ReplyTag::TranscriptEnd { agent } => {
            model.loading.remove(&format!("transcript {agent}"));
            parse_result::<method::Transcript>(result).map(|page| {
                model
                    .transcripts
                    .entry(agent)
                    .or_default()
                    .append_page(page);
                model.drop_old_transcripts();
                Vec::new()
            })
        }
        ReplyTag::TranscriptNext { agent } => {
            model.loading.remove(&format!("next {agent}"));
            let is_wanted = model.loading.remove(&format!("again {agent}"));
            parse_result::<method::Transcript>(result).map(|page| {
                let has_more = page.more || is_wanted;
                if let Some(transcript) = model.transcripts.get_mut(&agent) {
                    transcript.append_page(page);
                }
                if has_more {
                    transcripts::read_next(model, &agent)
                } else {
                    Vec::new()
                }
            })
        }
        ReplyTag::TranscriptBefore { agent } => {
            model.loading.remove(&format!("before {agent}"));
            parse_result::<method::Transcript>(result).map(|page| {
                if let Some(transcript) = model.transcripts.get_mut(&agent) {
                    transcript.prepend_page(page);
                }
                Vec::new()
            })
        }
    };
    outcome.unwrap_or_else(|failure| show_failure(model, &failure))
}

fn clear_sending(model: &mut Model, id: &str) {
    if model.ask.sending.as_deref() == Some(id) {
        model.ask.sending = None;
    }
}

fn show_failure(model: &mut Model, failure: &CallFailure) -> Vec<Effect> {
    if failure.is_lost {
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

fn update_agents(model: &mut Model, rows: Vec<countersign_protocol::HostAgent>) -> Vec<Effect> {
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
