//! Agents that outlive the host: they stay as they are, and the next host finds what they were
//! already allowed.

use super::managed::{
    covered, exited, id, interrupt, managed_ask, owed, send, turn_ended, with_pass, working,
};
use super::*;
use crate::ManagedAgent;
use crate::event::RunEnd;
use crate::limits::CLIENT_REQUESTS_MAX;

fn the_agent(host: &Host) -> &ManagedAgent {
    let agent = host.state.find_agent(&id()).unwrap();
    agent.managed.as_deref().unwrap()
}

#[test]
fn an_adopted_agent_stays_as_it_is() {
    let mut host = working();
    let allowed = host.ask(managed_ask("7"));
    let open = host.ask(managed_ask("8"));
    host.does(resolve(&person("ann"), &allowed, "approve"));
    let (before, duties) = (the_agent(&host).clone(), owed(&host));
    assert_eq!(
        host.restart_with(&["a", "unknown"]),
        ["host.started, owners have until 60"]
    );
    assert_eq!((the_agent(&host), owed(&host)), (&before, duties));
    assert_eq!(
        host.does(resolve(&person("ann"), &open, "approve")),
        [
            "approval.resolved ask-2: Allowed `approve` by ann, Waiting",
            "answer.attempted ask-2, time 1",
            "agent.status_changed a: Running, seen as Running, on none",
        ]
    );
}

#[test]
fn whoever_was_not_adopted_is_gone() {
    let mut host = working();
    host.ask(managed_ask("7"));
    let happened = host.restart_with(&["b"]);
    assert!(
        happened.contains(&"agent.exited a: HostEnded, the host that ran it ended".to_owned()),
        "{happened:?}"
    );
    assert_eq!(host.state.open_approvals().len(), 0);
}

/// The ids of covered requests that the state knows, after one was covered and something happened.
fn covered_after(then: impl FnOnce(&mut Host)) -> Vec<String> {
    let mut host = with_pass();
    let request = AskRequest {
        id: ApprovalId::new("wish"),
        ..covered()
    };
    let decision = host.decide(ask_input(request)).unwrap();
    assert_eq!(
        decision.subject,
        DecisionSubject::Covered(ApprovalId::new("ask-1"))
    );
    then(&mut host);
    let known = the_agent(&host).covered.iter();
    known.map(|request| request.as_str().to_owned()).collect()
}

#[test]
fn a_covered_wish_may_go_ahead_until_its_turn_is_over() {
    assert_eq!(covered_after(|_| {}), ["wish"]);
    let restarted = covered_after(|host| drop(host.restart_with(&["a"])));
    assert_eq!(restarted, ["wish"]);
    let none = Vec::<String>::new();
    assert_eq!(covered_after(|host| drop(host.does(interrupt()))), none);
    assert_eq!(
        covered_after(|host| drop(host.does(turn_ended(1, 1)))),
        none
    );
    let ended = covered_after(|host| drop(host.does(exited(1, RunEnd::Done))));
    assert_eq!(ended, none);
    assert_eq!(covered_after(|host| drop(host.restart())), none);
}

#[test]
fn what_was_covered_between_turns_is_not_covered_in_the_next() {
    let mut host = working();
    host.does(turn_ended(1, 1));
    let mut ask = managed_ask("7");
    ask.managed.as_mut().unwrap().passes = vec!["d".to_owned()];
    let approval = host.ask(ask);
    host.does(resolve(&person("ann"), &approval, "approve"));
    host.decide(ask_input(covered())).unwrap();
    assert_eq!(the_agent(&host).covered.len(), 1);
    host.does(send("more"));
    assert_eq!(the_agent(&host).covered.len(), 0);
}

#[test]
fn the_newest_covered_wishes_are_kept() {
    let mut managed = ManagedAgent::new(Arc::default(), Timestamp(0));
    for number in 0..=CLIENT_REQUESTS_MAX {
        managed.cover(ApprovalId::new(number.to_string()));
    }
    assert_eq!(managed.covered.len(), CLIENT_REQUESTS_MAX);
    assert_eq!(managed.covered[0].as_str(), "1");
}
