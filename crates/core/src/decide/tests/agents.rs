//! Agents and devices: who describes them, and the state people see.

use super::*;
use crate::{DeviceId, PutDevice, SendNotification};

#[test]
fn an_agent_registers_idle_and_owned_by_its_connection() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    host.now = Timestamp(5);
    assert_eq!(
        host.register(&ann, "bot"),
        ["agent.registered bot by ann on c1"]
    );
    let expected = crate::Agent {
        profile: Arc::new(profile("bot")),
        base: BaseState::Idle,
        current_task: None,
        owner: PrincipalKey::new("ann"),
        client: Some(ClientId::new("c1")),
        lapses_at: None,
        bypass_until: None,
        managed: None,
        registered_at: Timestamp(5),
        updated_at: Timestamp(5),
    };
    assert_eq!(
        host.state.agents().collect::<Vec<_>>(),
        [&expected],
        "whole and alone"
    );
}

#[test]
fn an_agent_is_only_ever_itself() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    host.register(&ann, "cat");
    let bot = host.connect(agent("bot"), "c2");
    let not_its = Rejection::AgentNotAllowed(AgentId::new("bot"));
    assert_eq!(host.refuses(register(&bot, "dog")), not_its);
    assert_eq!(host.refuses(register(&bot, "cat")), not_its);
    let owned = Rejection::AgentOwnedElsewhere(AgentId::new("cat"));
    assert_eq!(
        host.refuses(set_status(&bot, "cat", BaseState::Done)),
        owned
    );
    assert_eq!(host.refuses(unregister(&bot, "cat")), owned);
}

#[test]
fn status_and_end_are_the_owners_to_say() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    host.register(&ann, "bot");
    let bob = host.connect(person("bob"), "c2");
    let again = host.connect(person("ann"), "c3");
    for other in [bob, again, Caller::host()] {
        let owned = Rejection::AgentOwnedElsewhere(AgentId::new("bot"));
        assert_eq!(
            host.refuses(set_status(&other, "bot", BaseState::Done)),
            owned
        );
        assert_eq!(host.refuses(unregister(&other, "bot")), owned);
    }
    assert_eq!(
        host.set(&ann, "bot", BaseState::Running),
        ["agent.status_changed bot: Running, seen as Running, on c1"]
    );
    assert_eq!(
        host.does(unregister(&ann, "bot")),
        ["agent.unregistered bot"]
    );
    assert_eq!(
        host.refuses(unregister(&ann, "bot")),
        Rejection::UnknownAgent(AgentId::new("bot"))
    );
}

#[test]
fn an_agent_registered_without_a_connection_is_its_principals() {
    let mut host = Host::new();
    host.register(&person("ann"), "bot");
    let other = host.connect(person("ann"), "c1");
    host.set(&other, "bot", BaseState::Running);
    assert_eq!(
        host.refuses(register(&person("bob"), "bot")),
        Rejection::AgentTaken(AgentId::new("bot"))
    );
    host.set(&other, "bot", BaseState::Done);
    host.register(&person("bob"), "bot");
}

#[test]
fn registering_again_overwrites_but_keeps_the_first_time() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    host.register(&ann, "bot");
    host.set(&ann, "bot", BaseState::Running);
    host.now = Timestamp(9);
    host.register(&ann, "bot");
    let bot = host.state.find_agent(&AgentId::new("bot")).unwrap();
    assert_eq!(bot.base, BaseState::Idle);
    assert_eq!(
        (bot.registered_at, bot.updated_at),
        (Timestamp(0), Timestamp(9))
    );
}

#[test]
fn open_asks_and_questions_move_the_state_there_and_back() {
    // Each step: what happens, and the state it leaves. A question never hides an ask.
    let mut host = Host::new();
    let bot = host.connect(agent("bot"), "c1");
    host.register(&bot, "bot");
    host.set(&bot, "bot", BaseState::Running);
    let (first, lines) = host.asks(request(&bot));
    assert_eq!(
        lines,
        [
            "approval.requested ask-1 of bot by bot, Asker, until ever",
            "agent.status_changed bot: Running, seen as AwaitingPermission, on c1",
        ]
    );
    let question = host.question(&bot, None);
    assert_eq!(host.state_of("bot"), "AwaitingPermission");
    let (second, lines) = host.asks(request(&bot));
    assert_eq!(
        lines,
        ["approval.requested ask-3 of bot by bot, Asker, until ever"],
        "nothing moved, so nothing more is said"
    );
    let ann = person("ann");
    assert_eq!(
        host.does(resolve(&ann, &first, "approve")),
        ["approval.resolved ask-1: Allowed `approve` by ann, Waiting"]
    );
    assert_eq!(
        host.set(&bot, "bot", BaseState::Paused),
        ["agent.status_changed bot: Paused, seen as AwaitingPermission, on c1"]
    );
    assert_eq!(
        host.does(cancel(&bot, &second)),
        [
            "approval.resolved ask-3: Cancelled `cancelled` by bot, Withdrawn",
            "agent.status_changed bot: Paused, seen as Waiting, on c1",
        ]
    );
    assert_eq!(
        host.does(Input::AnswerQuestion {
            caller: ann,
            question,
            answer: "this one".to_owned(),
            considered_ms: None,
        }),
        [
            "question.ended question-2: Answered `this one` by ann",
            "agent.status_changed bot: Paused, seen as Paused, on c1",
        ]
    );
}

#[test]
fn an_agent_that_ended_is_never_revived_by_an_ask() {
    for base in [BaseState::Done, BaseState::Error, BaseState::Stopped] {
        let mut host = Host::new();
        let bot = host.connect(agent("bot"), "c1");
        host.register(&bot, "bot");
        let open = host.ask(request(&bot));
        host.set(&bot, "bot", base);
        let shown = format!("{base:?}");
        assert_eq!(host.state_of("bot"), shown);
        let (id, lines) = host.asks(request(&bot));
        assert_eq!(lines.len(), 1);
        host.question(&bot, None);
        assert_eq!(host.state_of("bot"), shown);
        assert_eq!(host.does(resolve(&person("ann"), &id, "approve")).len(), 1);
        host.does(resolve(&person("ann"), &open, "approve"));
        assert_eq!(host.state_of("bot"), shown);
    }
}

#[test]
fn a_replaced_ask_leaves_the_state_alone() {
    let mut host = Host::new();
    let bot = host.connect(agent("bot"), "c1");
    host.register(&bot, "bot");
    let call = || AskRequest {
        tool_call: Some("call".to_owned()),
        ..request(&bot)
    };
    host.ask(call());
    let (_, lines) = host.asks(call());
    assert_eq!(
        lines,
        [
            "approval.resolved ask-1: Cancelled `cancelled` by bot, Withdrawn",
            "approval.requested ask-2 of bot by bot, Asker, until ever",
        ]
    );
    assert_eq!(host.state_of("bot"), "AwaitingPermission");
}

#[test]
fn asks_for_agents_nobody_registered_announce_no_state() {
    let mut host = Host::new();
    let (_, lines) = host.asks(request(&agent("bot")));
    assert_eq!(
        lines,
        ["approval.requested ask-1 of bot by bot, None, until ever"]
    );
}

#[test]
fn questions_are_answered_by_people_once() {
    let mut host = Host::new();
    let id = host.question(&agent("bot"), None);
    let reply = |caller: Caller| Input::AnswerQuestion {
        caller,
        question: id.clone(),
        answer: "yes".to_owned(),
        considered_ms: None,
    };
    assert_eq!(
        host.refuses(reply(agent("bot"))),
        Rejection::AgentsCannotAnswer(AgentId::new("bot"))
    );
    assert_eq!(
        host.does(reply(person("ann"))),
        ["question.ended question-1: Answered `yes` by ann"]
    );
    assert_eq!(
        host.refuses(reply(person("ann"))),
        Rejection::UnknownQuestion(id.clone()),
        "what ended is history's to tell"
    );
}

#[test]
fn an_agent_asks_questions_in_its_own_name_and_not_without_end() {
    let mut host = Host::new();
    let bot = agent("bot");
    let input = |caller: &Caller, text: &str| {
        Input::AskQuestion(AskQuestion {
            caller: caller.clone(),
            id: QuestionId::new("q"),
            agent: Some(AgentId::new("cat")),
            text: text.to_owned(),
            timeout_ms: None,
            key: None,
            keyed: None,
        })
    };
    assert_eq!(
        host.does(input(&bot, "?")),
        ["question.asked q of bot by bot, until 300"]
    );
    let long = "?".repeat(limits::TEXT_BYTES_MAX + 1);
    assert!(matches!(
        host.refuses(input(&bot, &long)),
        Rejection::TooLarge { .. }
    ));
    for _ in 1..limits::AGENT_OPEN_QUESTIONS_MAX {
        host.question(&bot, None);
    }
    assert_eq!(
        host.refuses(input(&bot, "?")),
        Rejection::TooMany {
            what: "open questions of this agent",
            limit: limits::AGENT_OPEN_QUESTIONS_MAX
        }
    );
    host.question(&agent("cat"), None);
    assert_eq!(
        host.refuses(input(&observer(), "?")),
        Rejection::ObserverCannotChange
    );
}

fn notify(caller: &Caller, kind: &str) -> Input {
    Input::SendNotification(SendNotification {
        caller: caller.clone(),
        kind: kind.to_owned(),
        agent: Some(AgentId::new("cat")),
        message: "look".to_owned(),
        payload: Json::null(),
    })
}

#[test]
fn notes_carry_who_sent_them_and_an_agents_are_about_itself() {
    let mut host = Host::new();
    assert_eq!(
        host.does(notify(&person("ann"), "host.notification")),
        ["host.notification_sent host.notification about cat by ann: look"]
    );
    assert_eq!(
        host.does(notify(&agent("bot"), "agent.progress")),
        ["host.notification_sent agent.progress about bot by bot: look"]
    );
    assert_eq!(
        host.refuses(notify(&observer(), "note")),
        Rejection::ObserverCannotChange
    );
}

#[test]
fn nobody_forges_what_only_the_host_says() {
    let mut host = Host::new();
    let forged = [
        "approval.resolved",
        " Approval.Resolved\n",
        "approval.self_resolved",
        "approval.",
        "answer.delivered",
        "question.answered",
        "token.created",
        "process.marked",
        "record.pruned",
    ];
    for kind in forged.iter().chain(Event::KINDS) {
        for caller in [person("ann"), agent("bot"), Caller::host()] {
            assert_eq!(
                host.refuses(notify(&caller, kind)),
                Rejection::ReservedKind((*kind).to_owned())
            );
        }
    }
}

fn device(caller: &Caller, name: Option<&str>) -> PutDevice {
    PutDevice {
        caller: caller.clone(),
        id: DeviceId::new("phone"),
        name: name.map(str::to_owned),
        platform: None,
        capabilities: None,
        status: None,
        metadata: None,
    }
}

#[test]
fn a_device_belongs_to_its_connection_while_that_is_open() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    let bob = host.connect(person("bob"), "c2");
    assert_eq!(
        host.refuses(Input::UpdateDevice(device(&ann, None))),
        Rejection::UnknownDevice(DeviceId::new("phone"))
    );
    assert_eq!(
        host.does(Input::RegisterDevice(device(&ann, Some("a phone")))),
        ["device.registered phone `a phone` online on c1"]
    );
    assert_eq!(
        host.refuses(Input::RegisterDevice(device(&bob, None))),
        Rejection::DeviceTaken(DeviceId::new("phone"))
    );
    assert_eq!(
        host.refuses(Input::UpdateDevice(device(&bob, None))),
        Rejection::DeviceOwnedElsewhere(DeviceId::new("phone"))
    );
    let asleep = PutDevice {
        status: Some("asleep".to_owned()),
        ..device(&ann, None)
    };
    assert_eq!(
        host.does(Input::UpdateDevice(asleep)),
        ["device.updated phone `a phone` asleep on c1"]
    );
    host.lose(&ann);
    assert_eq!(
        host.does(Input::RegisterDevice(device(&bob, Some("mine")))),
        ["device.registered phone `mine` online on c2"]
    );
    assert_eq!(
        host.refuses(Input::RegisterDevice(device(&agent("bot"), None))),
        Rejection::AgentNotAllowed(AgentId::new("bot"))
    );
}

#[test]
fn registering_while_something_is_open_says_what_it_waits_for() {
    let mut host = Host::new();
    let bot = host.connect(agent("bot"), "c1");
    host.question(&bot, None);
    assert_eq!(
        host.register(&bot, "bot"),
        [
            "agent.registered bot by bot on c1",
            "agent.status_changed bot: Idle, seen as Waiting, on c1",
        ]
    );
    host.ask(request(&bot));
    assert_eq!(
        host.register(&bot, "bot"),
        [
            "agent.registered bot by bot on c1",
            "agent.status_changed bot: Idle, seen as AwaitingPermission, on c1",
        ]
    );
}

#[test]
fn unregistering_takes_the_agents_questions_back() {
    let mut host = Host::new();
    let bot = host.connect(agent("bot"), "c1");
    host.register(&bot, "bot");
    host.question(&bot, None);
    host.question(&agent("cat"), None);
    assert_eq!(
        host.does(unregister(&bot, "bot")),
        [
            "question.ended question-1: Cancelled `the asker is gone` by bot",
            "agent.unregistered bot",
        ]
    );
}

#[test]
fn everything_said_of_agents_and_devices_has_a_bound() {
    let mut host = Host::new();
    let ann = person("ann");
    let long = "x".repeat(limits::TEXT_BYTES_MAX + 1);
    let of_profile = |change: &dyn Fn(&mut AgentProfile)| {
        let mut profile = profile("bot");
        change(&mut profile);
        Input::RegisterAgent(RegisterAgent {
            caller: ann.clone(),
            profile,
        })
    };
    let elsewhere = Some(AgentId::new(long.clone()));
    let inputs = [
        register(&ann, &long),
        of_profile(&|profile| profile.name.clone_from(&long)),
        of_profile(&|profile| profile.kind.clone_from(&long)),
        of_profile(&|profile| profile.project = Some(long.clone())),
        of_profile(&|profile| profile.capabilities = vec![long.clone()]),
        of_profile(&|profile| profile.display.label = Some(long.clone())),
        of_profile(&|profile| profile.display.icon = Some(long.clone())),
        of_profile(&|profile| profile.display.accent = Some(long.clone())),
        Input::RegisterDevice(device(&ann, Some(&long))),
        Input::RegisterDevice(PutDevice {
            capabilities: Some(vec![long.clone()]),
            ..device(&ann, None)
        }),
        notify(&ann, &long),
        Input::SendNotification(SendNotification {
            caller: ann.clone(),
            kind: "note".to_owned(),
            agent: elsewhere.clone(),
            message: String::new(),
            payload: Json::null(),
        }),
        Input::AskQuestion(AskQuestion {
            caller: ann.clone(),
            id: QuestionId::new("q"),
            agent: elsewhere,
            text: "?".to_owned(),
            timeout_ms: None,
            key: None,
            keyed: None,
        }),
        Input::CreateToken(crate::CreateToken {
            caller: ann.clone(),
            id: crate::TokenId::new("t"),
            hash: String::new(),
            role: Role::Agent(AgentId::new(long.clone())),
            name: String::new(),
            ttl_ms: None,
            device: None,
        }),
    ];
    for input in inputs {
        let refusal = host.refuses(input);
        assert!(matches!(refusal, Rejection::TooLarge { .. }), "{refusal}");
    }
}
