//! Answers that say more than yes or no to an agent that the host runs.

use super::managed::{managed_ask, owed, turn_ended, working};
use super::*;
use crate::Duty;
use crate::event::Effect;

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

const QUESTIONS: &str = r#"{"questions":[
    {"question":"Which store?","header":"Store","multiSelect":false,
     "options":[{"label":"SQLite","description":"one file"},{"label":"Postgres"}]},
    {"question":"Which caches?","options":[{"label":"Redis"},{"label":"None"}],"multiSelect":true}]}"#;

fn question_to_people(input: &str) -> AskRequest {
    AskRequest {
        tool: Some(crate::ASK_PERSON_TOOL.to_owned()),
        input: Some(json(input)),
        ..ask_that_can_be_edited("7")
    }
}

fn answering(answers: &[&[&str]]) -> ApprovalAnswer {
    ApprovalAnswer {
        resolution: "approve".to_owned(),
        answers: Some(answers.iter().map(|chosen| words(chosen)).collect()),
        ..ApprovalAnswer::default()
    }
}

#[test]
fn a_question_to_people_is_allowed_only_with_an_answer_to_all_it_asks() {
    let mut host = working();
    let approval = host.ask(question_to_people(QUESTIONS));
    let allow = ApprovalAnswer {
        resolution: "approve".to_owned(),
        ..ApprovalAnswer::default()
    };
    for incomplete in [
        allow.clone(),
        edited(r#"{"questions":[],"answers":{"Which store?":"SQLite"}}"#),
    ] {
        assert_eq!(
            host.refuses(answer(&person("ann"), &approval, incomplete)),
            Rejection::NeedsAnswers(approval.clone())
        );
    }
    for wrong in [
        answering(&[&["SQLite"]]),
        answering(&[&["SQLite", "Postgres"], &["Redis"]]),
        answering(&[&["SQLite"], &[]]),
        answering(&[&["SQLite"], &[" "]]),
    ] {
        let refused = host.refuses(answer(&person("ann"), &approval, wrong));
        assert!(
            matches!(refused, Rejection::BadAnswers { .. }),
            "{refused:?}"
        );
    }
    let given = answering(&[&["DuckDB"], &["Redis", "a, b"]]);
    host.does(answer(&person("ann"), &approval, given.clone()));
    let ending = host.state.find_approval(&approval).unwrap().ended.clone();
    let told = ending.unwrap().ending.edited_input.clone().unwrap();
    let told: serde_json::Value = serde_json::from_str(told.text()).unwrap();
    assert_eq!(
        told["answers"],
        serde_json::json!({"Which store?": "DuckDB", "Which caches?": "Redis, \"a, b\""})
    );
    assert_eq!(told["questions"][0]["header"], "Store");
    // The same answer again succeeds, another does not.
    host.does(answer(&person("ann"), &approval, given));
    let other = answering(&[&["SQLite"], &["Redis"]]);
    let refused = host.refuses(answer(&person("ann"), &approval, other));
    assert!(
        matches!(refused, Rejection::AlreadyResolved(_)),
        "{refused:?}"
    );
}

#[test]
fn a_closed_question_takes_one_of_its_choices_and_another_ask_takes_no_answers() {
    let mut host = working();
    let closed =
        r#"{"questions":[{"question":"Go on?","options":[{"label":"yes"}],"freeText":false}]}"#;
    let approval = host.ask(question_to_people(closed));
    let refused = host.refuses(answer(&person("ann"), &approval, answering(&[&["maybe"]])));
    assert!(
        matches!(refused, Rejection::BadAnswers { .. }),
        "{refused:?}"
    );
    host.does(answer(&person("ann"), &approval, answering(&[&["yes"]])));
    let other = host.ask(ask_that_can_be_edited("8"));
    let refused = host.refuses(answer(&person("ann"), &other, answering(&[&["yes"]])));
    assert!(
        matches!(refused, Rejection::BadAnswers { .. }),
        "{refused:?}"
    );
}

/// One optional question of each kind, with limits.
const LIMITED: &str = r#"{"questions":[
    {"question":"Port?","number":true,"optional":true,
     "limits":{"whole":true,"minimum":1,"maximum":9007199254740993}},
    {"question":"Name?","optional":true,"limits":{"minLength":2,"maxLength":4}},
    {"question":"Caches?","optional":true,"multiSelect":true,"freeText":false,
     "options":[{"label":"Redis"},{"label":"Memory"},{"label":"Disk"}],
     "limits":{"minChoices":2,"maxChoices":2}}]}"#;

fn answers_told(host: &Host, approval: &ApprovalId) -> serde_json::Value {
    let ending = host.state.find_approval(approval).unwrap().ended.clone();
    let told = ending.unwrap().ending.edited_input.clone().unwrap();
    let told: serde_json::Value = serde_json::from_str(told.text()).unwrap();
    told["answers"].clone()
}

#[test]
fn an_optional_question_can_be_left_out_and_never_by_silence() {
    let mut host = working();
    let approval = host.ask(question_to_people(LIMITED));
    let silent = ApprovalAnswer {
        resolution: "approve".to_owned(),
        ..ApprovalAnswer::default()
    };
    assert_eq!(
        host.refuses(answer(&person("ann"), &approval, silent)),
        Rejection::NeedsAnswers(approval.clone())
    );
    host.does(answer(
        &person("ann"),
        &approval,
        answering(&[&["8080"], &[], &[]]),
    ));
    assert_eq!(
        answers_told(&host, &approval),
        serde_json::json!({"Port?": "8080"})
    );
    let mut again = question_to_people(LIMITED);
    again.tool_call = Some("8".to_owned());
    let approval = host.ask(again);
    host.does(answer(
        &person("ann"),
        &approval,
        answering(&[&[], &[], &[]]),
    ));
    assert_eq!(answers_told(&host, &approval), serde_json::json!({}));
}

#[test]
fn an_answer_outside_its_limits_is_refused_also_in_an_edited_input() {
    let mut host = working();
    let approval = host.ask(question_to_people(LIMITED));
    for (given, input, why) in [
        (
            answering(&[&["0"], &[], &[]]),
            r#"{"answers":{"Port?":"0"}}"#,
            "`Port?` wants a number from 1, and 0 is less",
        ),
        (
            answering(&[&["9007199254740994"], &[], &[]]),
            r#"{"answers":{"Port?":"9007199254740994"}}"#,
            "`Port?` wants a number up to 9007199254740993, and 9007199254740994 is more",
        ),
        (
            answering(&[&["1.5"], &[], &[]]),
            r#"{"answers":{"Port?":"1.5"}}"#,
            "`1.5` is not a whole number, which `Port?` wants",
        ),
        (
            answering(&[&[], &["a"], &[]]),
            r#"{"answers":{"Name?":"a"}}"#,
            "the answer to `Name?` has 1 characters and needs at least 2",
        ),
        (
            answering(&[&[], &["äöüßé"], &[]]),
            r#"{"answers":{"Name?":"äöüßé"}}"#,
            "the answer to `Name?` has 5 characters and may have 4",
        ),
        (
            answering(&[&[], &[], &["Redis"]]),
            r#"{"answers":{"Caches?":"Redis"}}"#,
            "`Caches?` takes at least 2 choices",
        ),
        (
            answering(&[&[], &[], &["Redis", "Memory", "Disk"]]),
            r#"{"answers":{"Caches?":"Redis, Memory, Disk"}}"#,
            "`Caches?` takes at most 2 choices",
        ),
        (
            answering(&[&[], &[], &["Redis", "Tape"]]),
            r#"{"answers":{"Caches?":"Redis, Tape"}}"#,
            "`Tape` is not a choice of `Caches?`",
        ),
    ] {
        let expected = Rejection::BadAnswers {
            approval: approval.clone(),
            why: why.to_owned(),
        };
        for wrong in [given, edited(input)] {
            let refused = host.refuses(answer(&person("ann"), &approval, wrong));
            assert_eq!(refused, expected);
        }
    }
    let not_text = edited(r#"{"answers":{"Port?":8080}}"#);
    let refused = host.refuses(answer(&person("ann"), &approval, not_text));
    assert!(
        matches!(refused, Rejection::BadAnswers { .. }),
        "{refused:?}"
    );
}

#[test]
fn no_rule_answers_a_question_to_people() {
    let mut host = working();
    let mut asked = question_to_people(QUESTIONS);
    asked.judged = Some(rules::judged(vec![rules::in_file(
        Effect::Allow,
        "AskUserQuestion",
    )]));
    let approval = host.ask(asked);
    assert_eq!(host.shows(&approval), "pending on nobody");
    let mut denied = question_to_people(QUESTIONS);
    denied.tool_call = Some("8".to_owned());
    denied.judged = Some(rules::judged(vec![rules::in_file(
        Effect::Deny,
        "AskUserQuestion",
    )]));
    let denied = host.ask(denied);
    assert_eq!(host.shows(&denied), "Denied deny on nobody");
}

#[test]
fn a_bypass_leaves_a_question_to_people_open() {
    let mut host = working();
    host.does(Input::SetBypass {
        caller: person("ann"),
        agent: AgentId::new("a"),
        for_ms: Some(60_000),
    });
    let mut asked = question_to_people(QUESTIONS);
    asked.judged = Some(rules::judged(vec![rules::part(Effect::Ask, None)]));
    let approval = host.ask(asked);
    assert_eq!(host.shows(&approval), "pending on nobody");
}
