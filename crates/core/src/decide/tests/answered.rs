//! Answers that say more than yes or no to an agent that the host runs.

use super::managed::{managed_ask, owed, turn_ended, working};
use super::*;
use crate::Duty;

fn ask_that_can_be_edited(request: &str) -> AskRequest {
    let mut ask = AskRequest {
        input: Some(json("{}")),
        ..managed_ask(request)
    };
    ask.managed.as_mut().unwrap().can_edit = true;
    ask
}

fn edited(text: &str) -> ApprovalAnswer {
    ApprovalAnswer {
        resolution: "approve".to_owned(),
        edited_input: Some(json(text)),
        ..ApprovalAnswer::default()
    }
}

fn stopping(resolution: &str) -> ApprovalAnswer {
    ApprovalAnswer {
        resolution: resolution.to_owned(),
        message: Some("not that way".to_owned()),
        stop: true,
        ..ApprovalAnswer::default()
    }
}

#[test]
fn an_agent_that_takes_another_input_is_told_it() {
    let mut host = working();
    let approval = host.ask(ask_that_can_be_edited("7"));
    for wrong in ["1", "[]", "{\"a\":1,\"a\":2}"] {
        let wrong = answer(&person("ann"), &approval, edited(wrong));
        assert_eq!(host.refuses(wrong), Rejection::NothingToEdit);
    }
    host.does(answer(&person("ann"), &approval, edited("{\"a\":1}")));
    let duties = host.state.duties_of(&AgentId::new("a"));
    let Some(Duty::Answer(told)) = duties.first() else {
        panic!("{duties:?}");
    };
    let told = told.ended.as_ref();
    let told = told.map(|ended| ended.ending.edited_input.clone());
    assert_eq!(told, Some(Some(json("{\"a\":1}"))));
}

#[test]
fn a_denial_that_stops_ends_the_turn_and_what_else_it_asks() {
    let mut host = working();
    let denied = host.ask(managed_ask("7"));
    let other = host.ask(managed_ask("8"));
    host.does(answer(&person("ann"), &denied, stopping("deny")));
    let ends = [&denied, &other].map(|id| host.shows(id));
    assert_eq!(
        ends,
        ["Denied deny on nobody", "Cancelled cancelled on nobody"]
    );
    assert_eq!(
        owed(&host),
        [
            "answer Denied deny on nobody",
            "prompt 1 [\"go\"]",
            "interrupt 1"
        ]
    );
    // Its words are no message that would begin another turn.
    host.does(turn_ended(1, 1));
    let prompts = owed(&host)
        .into_iter()
        .filter(|duty| duty.starts_with("prompt"));
    assert_eq!(prompts.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn the_same_denial_again_is_a_success_and_a_stop_comes_too_late() {
    let mut host = working();
    let approval = host.ask(managed_ask("7"));
    host.does(resolve(&person("ann"), &approval, "deny"));
    let again = resolve(&person("bob"), &approval, "deny");
    assert!(host.decide(again).is_ok());
    let late = host.refuses(answer(&person("bob"), &approval, stopping("deny")));
    assert!(matches!(late, Rejection::AlreadyResolved(_)), "{late:?}");
}

#[test]
fn only_a_denial_to_an_agent_of_the_host_can_stop() {
    let mut host = working();
    let managed = host.ask(managed_ask("7"));
    let other = host.ask(request(&person("bob")));
    for (approval, resolution) in [(&managed, "approve"), (&other, "deny")] {
        let stop = answer(&person("ann"), approval, stopping(resolution));
        assert_eq!(host.refuses(stop), Rejection::NothingToStop);
    }
}
