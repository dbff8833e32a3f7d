//! Owners: the wire's rules for resolving, row by row, and who may come back for what.

use super::*;

/// A row that ann's connection `c1` owns, for her agent `bot`.
fn owned() -> (Host, Caller, ApprovalId) {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    host.register(&ann, "bot");
    let id = host.ask(of_bot(&ann));
    (host, ann, id)
}

fn of_bot(caller: &Caller) -> AskRequest {
    AskRequest {
        agent: Some(AgentId::new("bot")),
        ..request(caller)
    }
}

#[test]
fn a_system_row_is_resolved_by_any_operator() {
    for who in [person("ann"), person("bob"), Caller::host()] {
        let mut host = Host::new();
        let ann = host.connect(person("ann"), "c1");
        let id = host.ask(AskRequest {
            system_level: true,
            ..request(&ann)
        });
        assert_eq!(
            host.does(resolve(&who, &id, "approve")),
            [format!(
                "approval.resolved ask-1: Allowed `approve` by {}, Waiting",
                who.principal.name
            )]
        );
    }
}

#[test]
fn an_agents_row_is_resolved_by_any_operator() {
    let mut host = Host::new();
    let bot = host.connect(agent("bot"), "c1");
    let id = host.ask(request(&bot));
    assert_eq!(
        host.does(resolve(&person("ann"), &id, "approve")),
        ["approval.resolved ask-1: Allowed `approve` by ann, Waiting"]
    );
}

#[test]
fn an_owned_row_is_resolved_by_its_owner() {
    let (mut host, ann, id) = owned();
    assert_eq!(
        host.does(resolve(&ann, &id, "approve")),
        [
            "approval.resolved ask-1: Allowed `approve` by ann, Delivered",
            "agent.status_changed bot: Idle, seen as Idle, on c1",
        ]
    );
}

#[test]
fn anothers_answer_is_passed_to_an_owner_that_listens() {
    let (mut host, ann, id) = owned();
    host.subscribe(&ann);
    let bob = host.connect(person("bob"), "c2");
    let decision = host.decide(resolve(&bob, &id, "approve")).unwrap();
    assert_eq!(
        decision.events.iter().map(line).collect::<Vec<_>>(),
        ["approval.resolve_requested ask-1: `approve` by bob to c1"]
    );
    assert_eq!(decision.subject, DecisionSubject::PassedToOwner(id.clone()));
    assert_eq!(host.shows(&id), "pending on c1");
}

#[test]
fn anothers_answer_is_refused_when_the_owner_does_not_listen() {
    let (mut host, ann, id) = owned();
    let refusal = Rejection::OwnerNotConnected {
        approval: id.clone(),
        owner: ClientId::new("c1"),
    };
    assert_eq!(
        refusal.to_string(),
        "approval 'ask-1' is owned by session 'c1' which is not currently connected"
    );
    let bob = host.connect(person("bob"), "c2");
    assert_eq!(host.refuses(resolve(&bob, &id, "approve")), refusal);
    host.subscribe(&ann);
    host.lose(&ann);
    assert_eq!(host.refuses(resolve(&bob, &id, "approve")), refusal);
    assert_eq!(host.shows(&id), "pending on c1");
}

#[test]
fn two_connections_of_one_principal_are_two_owners() {
    let (mut host, ann, id) = owned();
    host.subscribe(&ann);
    let again = host.connect(person("ann"), "c2");
    assert_eq!(
        host.does(resolve(&again, &id, "approve")),
        ["approval.resolve_requested ask-1: `approve` by ann to c1"]
    );
    let nowhere = person("ann");
    assert_eq!(
        host.does(resolve(&nowhere, &id, "approve")),
        ["approval.resolve_requested ask-1: `approve` by ann to c1"]
    );
}

#[test]
fn what_was_not_offered_is_not_even_passed_on() {
    let (mut host, ann, id) = owned();
    host.subscribe(&ann);
    let bob = host.connect(person("bob"), "c2");
    assert!(matches!(
        host.refuses(resolve(&bob, &id, "yes")),
        Rejection::NotAnOption { .. }
    ));
}

#[test]
fn an_owned_row_that_ended_refuses_everybody_alike() {
    let (mut host, ann, id) = owned();
    host.does(resolve(&ann, &id, "deny"));
    for who in [ann, person("bob")] {
        assert!(matches!(
            host.refuses(resolve(&who, &id, "approve")),
            Rejection::AlreadyResolved(_)
        ));
    }
}

#[test]
fn a_lost_connection_that_held_nothing_leaves_no_trace() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    host.ask(AskRequest {
        system_level: true,
        ..request(&ann)
    });
    assert_eq!(host.lose(&ann), [""; 0]);
    assert_eq!(host.state.next_deadline(Timestamp(0)), None);
}

#[test]
fn an_owner_that_does_not_come_back_is_gone() {
    let (mut host, ann, id) = owned();
    host.ask(request(&ann));
    assert_eq!(host.lose(&ann), ["host.connection_lost c1, until 60"]);
    assert_eq!(
        host.state.next_deadline(Timestamp(0)),
        Some(Timestamp(60_000_000))
    );
    assert_eq!(host.after_ms(59_999), [""; 0]);
    assert_eq!(
        host.after_ms(1),
        [
            "approval.resolved ask-1: Gone `agent_gone` by host, Withdrawn",
            "approval.resolved ask-2: Gone `agent_gone` by host, Withdrawn",
            "agent.status_changed bot: Stopped, seen as Stopped, on none",
            "host.connection_lapsed c1",
        ]
    );
    assert_eq!(host.shows(&id), "Gone agent_gone on c1");
    assert_eq!(host.state.next_deadline(Timestamp(0)), None);
    assert_eq!(host.after_ms(1), [""; 0]);
}

#[test]
fn an_agent_that_is_gone_keeps_how_it_had_ended() {
    let (mut host, ann, _) = owned();
    host.set(&ann, "bot", BaseState::Error);
    host.lose(&ann);
    host.after_ms(60_000);
    assert_eq!(host.state_of("bot"), "Error");
}

#[test]
fn registering_again_in_time_takes_over_the_agent_and_its_rows() {
    let (mut host, ann, id) = owned();
    let unrelated = host.ask(request(&ann));
    host.lose(&ann);
    let back = host.connect(person("ann"), "c2");
    host.register(&back, "bot");
    assert_eq!(host.shows(&id), "pending on c2");
    assert_eq!(host.shows(&unrelated), "pending on c1");
    assert_eq!(
        host.after_ms(60_000),
        [
            "approval.resolved ask-2: Gone `agent_gone` by host, Withdrawn",
            "host.connection_lapsed c1",
        ]
    );
    host.does(resolve(&back, &id, "approve"));
}

#[test]
fn nobody_else_takes_an_agent_over_while_its_owner_may_come_back() {
    let (mut host, ann, _) = owned();
    let bob = host.connect(person("bob"), "c2");
    let again = host.connect(person("ann"), "c3");
    let taken = Rejection::AgentTaken(AgentId::new("bot"));
    assert_eq!(host.refuses(register(&bob, "bot")), taken);
    assert_eq!(
        host.refuses(register(&again, "bot")),
        taken,
        "the owner is the connection while it is open"
    );
    host.lose(&ann);
    assert_eq!(host.refuses(register(&bob, "bot")), taken);
    host.after_ms(60_000);
    assert_eq!(
        host.register(&bob, "bot"),
        ["agent.registered bot by bob on c2"]
    );
    assert_eq!(host.state_of("bot"), "Idle");
}

#[test]
fn an_agents_own_token_takes_its_id_over_at_any_time() {
    let (mut host, _, _) = owned();
    let bot = host.connect(agent("bot"), "c2");
    host.register(&bot, "bot");
    assert_eq!(
        host.state.find_agent(&AgentId::new("bot")).unwrap().client,
        bot.client
    );
}

#[test]
fn rows_with_a_key_or_a_timeout_outlive_the_grace_and_then_belong_to_nobody() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    let keyed = host.ask(AskRequest {
        idempotency_key: Some("k".to_owned()),
        ..request(&ann)
    });
    let timed = host.ask(AskRequest {
        timeout_ms: Some(600_000),
        ..request(&ann)
    });
    host.lose(&ann);
    let bob = host.connect(person("bob"), "c2");
    assert!(matches!(
        host.refuses(resolve(&bob, &keyed, "approve")),
        Rejection::OwnerNotConnected { .. }
    ));
    assert_eq!(host.after_ms(60_000), ["host.connection_lapsed c1"]);
    assert_eq!(host.shows(&timed), "pending on nobody");
    assert_eq!(
        host.does(resolve(&bob, &keyed, "approve")),
        ["approval.resolved ask-1: Allowed `approve` by bob, Waiting"]
    );
    assert_eq!(
        host.after_ms(540_000),
        ["approval.resolved ask-2: Expired `expired` by host, Waiting"]
    );
}

#[test]
fn asking_again_under_a_key_brings_the_row_to_the_new_connection() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    let keyed = |caller: &Caller| AskRequest {
        idempotency_key: Some("k".to_owned()),
        ..request(caller)
    };
    let id = host.ask(keyed(&ann));
    host.lose(&ann);
    let back = host.connect(person("ann"), "c2");
    assert_eq!(
        host.asks(keyed(&back)),
        (id.clone(), words(&["approval.attached ask-1 to c2"]))
    );
    assert_eq!(host.after_ms(60_000), [""; 0]);
    host.does(resolve(&back, &id, "approve"));
}

#[test]
fn a_restart_gives_every_owner_time_to_come_back() {
    let (mut host, ann, id) = owned();
    host.lose(&ann);
    host.now = host.now.plus_ms(3_600_000);
    assert_eq!(host.restart(), ["host.started, owners have until 3660"]);
    assert_eq!(host.after_ms(59_999), [""; 0]);
    assert_eq!(host.shows(&id), "pending on c1");
    let back = host.connect(person("ann"), "c2");
    host.register(&back, "bot");
    assert_eq!(host.after_ms(1), [""; 0]);
    host.does(resolve(&back, &id, "approve"));
}

#[test]
fn after_a_restart_those_who_stay_away_are_gone() {
    let (mut host, _, _) = owned();
    host.restart();
    assert_eq!(
        host.after_ms(60_000),
        [
            "approval.resolved ask-1: Gone `agent_gone` by host, Withdrawn",
            "agent.status_changed bot: Stopped, seen as Stopped, on none",
            "host.connection_lapsed c1",
        ]
    );
}

#[test]
fn an_agents_row_ends_when_it_is_gone_for_good() {
    let mut host = Host::new();
    let bot = host.connect(agent("bot"), "c1");
    let id = host.ask(request(&bot));
    host.lose(&bot);
    host.after_ms(60_000);
    assert_eq!(host.shows(&id), "Gone agent_gone on c1");
}

#[test]
fn unregistering_ends_the_agents_rows() {
    let (mut host, ann, _) = owned();
    host.ask(AskRequest {
        timeout_ms: Some(1_000),
        ..of_bot(&ann)
    });
    let other = host.ask(request(&ann));
    assert_eq!(
        host.does(unregister(&ann, "bot")),
        [
            "approval.resolved ask-1: Gone `agent_gone` by host, Withdrawn",
            "approval.resolved ask-2: Gone `agent_gone` by host, Withdrawn",
            "agent.unregistered bot",
        ]
    );
    assert_eq!(host.shows(&other), "pending on c1");
}

#[test]
fn what_arrives_after_its_connection_ended_is_lost_with_it() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    let id = host.ask(request(&ann));
    host.lose(&ann);
    host.now = host.now.plus_ms(30_000);
    assert_eq!(
        host.asks(request(&ann)).1,
        [
            "approval.requested ask-2 of none by ann, Owner, until ever",
            "host.connection_lost c1, until 90",
        ]
    );
    assert_eq!(
        host.register(&ann, "bot"),
        [
            "agent.registered bot by ann on c1",
            "host.connection_lost c1, until 90",
        ]
    );
    let back = host.connect(person("ann"), "c2");
    host.register(&back, "bot");
    assert_eq!(
        host.after_ms(60_000),
        [
            "approval.resolved ask-1: Gone `agent_gone` by host, Withdrawn",
            "approval.resolved ask-2: Gone `agent_gone` by host, Withdrawn",
            "host.connection_lapsed c1",
        ]
    );
    assert_eq!(host.shows(&id), "Gone agent_gone on c1");
    assert_eq!(host.state.next_deadline(Timestamp(0)), None);
}

#[test]
fn a_key_does_not_take_a_row_from_an_owner_that_is_there() {
    let mut host = Host::new();
    let keyed = |caller: &Caller| AskRequest {
        idempotency_key: Some("k".to_owned()),
        ..request(caller)
    };
    let ann = host.connect(person("ann"), "c1");
    let again = host.connect(person("ann"), "c2");
    let id = host.ask(keyed(&ann));
    assert_eq!(host.asks(keyed(&again)), (id.clone(), vec![]));
    assert_eq!(host.shows(&id), "pending on c1");
    host.does(resolve(&ann, &id, "approve"));
}

/// A person's connection with as many agents as are kept when they are gone.
fn full_house(host: &mut Host, name: &str) -> Caller {
    let owner = host.connect(person(name), name);
    for n in 0..limits::GONE_AGENTS_KEPT {
        host.register(&owner, &format!("{name}-{n:03}"));
    }
    owner
}

#[test]
fn of_the_agents_that_are_gone_only_the_newest_stay() {
    let mut host = Host::new();
    let ann = full_house(&mut host, "ann");
    let bob = full_house(&mut host, "bob");
    host.register(&bob, "ann-and-bob");
    host.register(&person("eve"), "without a connection");
    host.lose(&ann);
    host.lose(&bob);
    let lines = host.after_ms(60_000);
    let mut left: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("agent.unregistered"))
        .collect();
    assert_eq!(left.len(), limits::GONE_AGENTS_KEPT + 1);
    left.dedup();
    assert_eq!(left.len(), limits::GONE_AGENTS_KEPT + 1);
    assert_eq!(
        host.state.agents().count(),
        limits::GONE_AGENTS_KEPT + 1,
        "those that are gone, and one that works without a connection"
    );
    assert_eq!(host.state_of("without a connection"), "Idle");
}

#[test]
fn agents_that_were_gone_before_leave_first() {
    let mut host = Host::new();
    let ann = full_house(&mut host, "ann");
    host.lose(&ann);
    host.after_ms(60_000);
    let bob = host.connect(person("bob"), "c1");
    host.register(&bob, "bot");
    host.lose(&bob);
    assert_eq!(
        host.after_ms(60_000),
        [
            "agent.status_changed bot: Stopped, seen as Stopped, on none",
            "host.connection_lapsed c1",
            "agent.unregistered ann-000",
        ]
    );
}

#[test]
fn an_owner_that_comes_back_without_a_connection_keeps_its_rows_open() {
    let (mut host, ann, id) = owned();
    host.lose(&ann);
    host.register(&person("ann"), "bot");
    assert_eq!(host.shows(&id), "pending on nobody");
    assert_eq!(host.after_ms(60_000), [""; 0]);
    host.does(resolve(&person("bob"), &id, "approve"));
}

#[test]
fn registering_again_on_a_lost_connection_leaves_one_deadline() {
    let (mut host, ann, _) = owned();
    host.lose(&ann);
    host.now = host.now.plus_ms(1_000);
    host.register(&ann, "bot");
    let lapses: Vec<_> = host
        .state
        .lapses
        .iter()
        .map(|(at, _)| seconds(*at))
        .collect();
    assert_eq!(lapses, [61]);
    host.after_ms(60_000);
    assert_eq!(host.state.next_deadline(Timestamp(0)), None);
}
