//! Managed agents: spawned, told one thing at a time, interrupted, ended; never left with anything
//! open; owed what was decided, and told where something may already have run.

use super::rules::{in_file, judged};
use super::*;
use crate::event::{
    AgentOffers, AgentReported, AnswerDelivery, ApprovalOutcome, Effect, GrantScope, ProcessKey,
    PromptAttachment, RunEnd, SpawnOptions, TokenUsage, ToolStatus, TranscriptEntry, TurnEnded,
};
use crate::limits::PASSES_MAX;
use crate::{
    AskerScope, CreateGrant, Duty, GrantDraft, ManagedAsk, ManagedInput, RunEvent, SpawnAgent,
};

pub(super) fn id() -> AgentId {
    AgentId::new("a")
}

fn managed(input: ManagedInput) -> Input {
    Input::Managed(input)
}

fn spawn_as(caller: &Caller, name: Option<&str>, prompt: Option<&str>) -> Input {
    managed(ManagedInput::Spawn(Box::new(SpawnAgent {
        attachments: Vec::new(),
        caller: caller.clone(),
        id: id(),
        name: name.map(str::to_owned),
        kind: "claude".to_owned(),
        options: SpawnOptions {
            agent: Some("claude".to_owned()),
            cwd: "/srv".to_owned(),
            ..SpawnOptions::default()
        },
        prompt: prompt.map(str::to_owned),
    })))
}

pub(super) fn send(text: &str) -> Input {
    managed(ManagedInput::Prompt {
        attachments: Vec::new(),
        caller: person("ann"),
        agent: id(),
        text: text.to_owned(),
    })
}

pub(super) fn interrupt() -> Input {
    managed(ManagedInput::Interrupt {
        caller: person("ann"),
        agent: id(),
        reason: None,
    })
}

fn kill() -> Input {
    managed(ManagedInput::Kill {
        caller: person("ann"),
        agent: id(),
        children: None,
    })
}

fn resume() -> Input {
    managed(ManagedInput::Resume {
        caller: person("ann"),
        agent: id(),
    })
}

fn ran(run: u32, ran: RunEvent) -> Input {
    managed(ManagedInput::RunReported(id(), run, ran))
}

fn ready(run: u32) -> Input {
    ran(
        run,
        RunEvent::Ready {
            session: "s".to_owned(),
            resumable: true,
        },
    )
}

pub(super) fn turn_ended(run: u32, turn: u32) -> Input {
    ran(
        run,
        RunEvent::TurnEnded {
            entries: Vec::new(),
            end: Box::new(TurnEnded {
                agent: id(),
                turn,
                reason: "end_turn".to_owned(),
                message: None,
                usage: None,
            }),
            left_open: Vec::new(),
        },
    )
}

pub(super) fn exited(run: u32, end: RunEnd) -> Input {
    ran(
        run,
        RunEvent::Exited {
            entries: Vec::new(),
            end,
            message: "it went".to_owned(),
        },
    )
}

/// A host with an agent whose first turn runs.
pub(super) fn working() -> Host {
    let mut host = Host::new();
    host.does(spawn_as(&person("ann"), None, Some("go")));
    host.does(ready(1));
    host
}

pub(super) fn managed_ask(request: &str) -> AskRequest {
    AskRequest {
        tool_call: Some(request.to_owned()),
        managed: Some(Box::new(ManagedAsk {
            run: 1,
            request: request.to_owned(),
            ..ManagedAsk::default()
        })),
        ..super::request(&agent("a"))
    }
}

pub(super) fn owed(host: &Host) -> Vec<String> {
    let duties = host.state.duties_of(&id());
    let words = duties.iter().map(|duty| match duty {
        Duty::Launch { run, .. } => format!("launch {run}"),
        Duty::Prompt { turn, messages, .. } => format!("prompt {turn} {messages:?}"),
        Duty::Interrupt { turn } => format!("interrupt {turn}"),
        Duty::Configure { revision, .. } => format!("configure {revision}"),
        Duty::Answer(approval) => format!("answer {}", host.shows(&approval.ask.id)),
        Duty::Stop { run } => format!("stop {run}"),
    });
    words.collect()
}

#[test]
fn one_that_is_spawned_is_launched_then_told_then_at_rest() {
    let mut host = Host::new();
    assert_eq!(
        host.does(spawn_as(&person("ann"), None, Some("go"))),
        [
            "agent.spawned a `claude-1`",
            "agent.message_queued a by ann: go",
            "agent.run_requested a, run 1 on none",
            "agent.status_changed a: Starting, seen as Starting, on none",
        ]
    );
    assert_eq!(owed(&host), ["launch 1"]);
    let launched = RunEvent::Launched {
        process: Some(ProcessKey {
            pid: 7,
            start_time: 1,
        }),
        runner: Json::null(),
        sandbox: None,
    };
    assert_eq!(
        host.does(ran(1, launched)),
        ["agent.launched a, run 1 as 7", "process.marked 7 is a"]
    );
    assert_eq!(
        host.does(ready(1)),
        [
            "agent.ready a, run 1 on s",
            "turn.started a 1",
            "transcript.added a 1, 1 entries",
            "agent.status_changed a: Running, seen as Running, on none",
        ]
    );
    assert_eq!(owed(&host), ["prompt 1 [\"go\"]"]);
    assert_eq!(
        host.does(turn_ended(1, 1)),
        [
            "turn.ended a 1: end_turn",
            "agent.status_changed a: Idle, seen as Idle, on none",
        ]
    );
    assert_eq!(owed(&host), Vec::<String>::new());
}

#[test]
fn only_operators_tell_agents_what_to_do() {
    let mut host = working();
    let bot = agent("b");
    let refused = Rejection::AgentNotAllowed(AgentId::new("b"));
    assert_eq!(host.refuses(spawn_as(&bot, None, None)), refused);
    assert_eq!(
        host.refuses(spawn_as(&observer(), None, None)),
        Rejection::ObserverCannotChange
    );
    let own = ManagedInput::Prompt {
        attachments: Vec::new(),
        caller: agent("a"),
        agent: id(),
        text: "more power".to_owned(),
    };
    assert_eq!(host.refuses(managed(own)), Rejection::AgentNotAllowed(id()));
}

#[test]
fn names_are_unique_and_typable() {
    let mut host = Host::new();
    host.does(spawn_as(&person("ann"), Some("bob"), None));
    let again = spawn_as(&person("ann"), Some("bob"), None);
    assert_eq!(host.refuses(again), Rejection::NameTaken("bob".to_owned()));
    // Whoever types an id must not reach another agent of that name.
    let named_as_id = spawn_as(&person("ann"), Some("a"), None);
    assert_eq!(
        host.refuses(named_as_id),
        Rejection::NameTaken("a".to_owned())
    );
    for bad in ["", "-x", "a b", "a/b", "a\u{202e}"] {
        let spawn = spawn_as(&person("ann"), Some(bad), None);
        assert_eq!(host.refuses(spawn), Rejection::BadName(bad.to_owned()));
    }
}

fn spawn_labelled(team: &str) -> Input {
    managed(ManagedInput::Spawn(Box::new(SpawnAgent {
        attachments: Vec::new(),
        caller: person("ann"),
        id: id(),
        name: None,
        kind: "claude".to_owned(),
        options: SpawnOptions {
            agent: Some("claude".to_owned()),
            cwd: "/srv".to_owned(),
            labels: [("team".to_owned(), team.to_owned())].into(),
            ..SpawnOptions::default()
        },
        prompt: None,
    })))
}

#[test]
fn labels_can_be_typed_and_rules_count_by_them() {
    let mut host = Host::new();
    for bad in ["", "-x", "a b", "a=b"] {
        assert_eq!(
            host.refuses(spawn_labelled(bad)),
            Rejection::BadLabel(format!("team={bad}"))
        );
    }
    host.does(spawn_labelled("web"));
    for (grant, team) in [("web", "web"), ("api", "api")] {
        host.does(Input::CreateGrant(CreateGrant {
            caller: person("ann"),
            id: GrantId::new(grant),
            draft: GrantDraft {
                rule: "Bash(ls)".to_owned(),
                effect: Effect::Allow,
                scope: GrantScope {
                    labels: [("team".to_owned(), team.to_owned())].into(),
                    ..GrantScope::default()
                },
                expires_in_ms: None,
                uses: None,
                origin: None,
            },
        }));
    }
    let counts = |grant: &str, agent: &str| {
        let agent = AgentId::new(agent);
        let asking = AskerScope {
            agent: Some(&agent),
            project: None,
        };
        host.state
            .grant_counts(&GrantId::new(grant), asking, host.now)
    };
    assert!(counts("web", "a"));
    assert!(!counts("api", "a"));
    assert!(!counts("web", "unknown"));
}

#[test]
fn only_people_attach_files() {
    let mut host = working();
    let file = PromptAttachment {
        path: "/srv/a.png".to_owned(),
        mime_type: "image/png".to_owned(),
        bytes: 4,
        sha256: "00".to_owned(),
    };
    let attach = |caller: Caller, count: usize| {
        managed(ManagedInput::Prompt {
            attachments: vec![file.clone(); count],
            caller,
            agent: id(),
            text: "look".to_owned(),
        })
    };
    let limit = limits::ATTACHMENTS_MAX;
    let what = "attachments";
    assert_eq!(
        host.refuses(attach(person("ann"), limit + 1)),
        Rejection::TooMany { what, limit }
    );
    host.does(attach(person("ann"), 1));
    let (_, managed) = host.state.find_managed(&id()).unwrap();
    assert_eq!(managed.queue[0].attachments, vec![file]);
}

#[test]
fn messages_wait_for_the_turn_before_them() {
    let mut host = working();
    assert_eq!(
        host.does(send("two")),
        ["agent.message_queued a by ann: two"]
    );
    host.does(send("three"));
    assert_eq!(owed(&host), ["prompt 1 [\"go\"]"]);
    let events = host.does(turn_ended(1, 1));
    assert_eq!(
        events[..2],
        ["turn.ended a 1: end_turn", "turn.started a 2"]
    );
    assert_eq!(owed(&host), ["prompt 2 [\"two\"]"]);
    host.does(turn_ended(1, 2));
    assert_eq!(owed(&host), ["prompt 3 [\"three\"]"]);
    assert!(
        !host
            .state
            .find_agent(&id())
            .unwrap()
            .managed
            .as_ref()
            .unwrap()
            .is_at_rest()
    );
}

fn withdraw(caller: &Caller, number: u64) -> Input {
    managed(ManagedInput::WithdrawMessage {
        caller: caller.clone(),
        agent: id(),
        number,
    })
}

fn cannot_withdraw(number: u64, why: &'static str) -> Rejection {
    let agent = id();
    Rejection::CannotWithdraw { agent, number, why }
}

#[test]
fn a_message_is_withdrawn_before_its_turn_and_never_after() {
    let mut host = working();
    host.does(send("two"));
    host.does(send("three"));
    assert_eq!(
        host.refuses(withdraw(&person("ann"), 1)),
        cannot_withdraw(1, "the agent already has it")
    );
    // Any operator may, whoever sent it.
    assert_eq!(
        host.does(withdraw(&person("bob"), 2)),
        ["agent.message_withdrawn a 2 by bob: two"]
    );
    let gone = "it no longer waits: the agent got it, or it was withdrawn or dropped";
    assert_eq!(
        host.refuses(withdraw(&person("ann"), 2)),
        cannot_withdraw(2, gone)
    );
    host.does(turn_ended(1, 1));
    assert_eq!(owed(&host), ["prompt 2 [\"three\"]"]);
    assert_eq!(
        host.refuses(withdraw(&person("ann"), 3)),
        cannot_withdraw(3, "the agent already has it")
    );
    assert_eq!(
        host.refuses(withdraw(&person("ann"), 1)),
        cannot_withdraw(1, gone)
    );
    for never in [0, 4, u64::MAX] {
        assert_eq!(
            host.refuses(withdraw(&person("ann"), never)),
            cannot_withdraw(never, "no such message was sent")
        );
    }
}

#[test]
fn a_first_message_that_is_withdrawn_leaves_an_idle_agent() {
    let mut host = Host::new();
    host.does(spawn_as(&person("ann"), None, Some("go")));
    host.does(withdraw(&person("ann"), 1));
    host.does(ready(1));
    assert_eq!(owed(&host), Vec::<String>::new());
    let (_, managed) = host.state.find_managed(&id()).unwrap();
    assert!(managed.is_at_rest());
    // Numbers are never used again.
    host.does(send("two"));
    assert_eq!(owed(&host), ["prompt 1 [\"two\"]"]);
    let (_, managed) = host.state.find_managed(&id()).unwrap();
    assert_eq!(managed.messages, 2);
}

#[test]
fn observers_and_agents_withdraw_nothing() {
    let mut host = working();
    host.does(send("two"));
    assert_eq!(
        host.refuses(withdraw(&observer(), 2)),
        Rejection::ObserverCannotChange
    );
    assert_eq!(
        host.refuses(withdraw(&agent("a"), 2)),
        Rejection::AgentNotAllowed(id())
    );
}

#[test]
fn the_answer_to_an_ask_is_owed_once_decided() {
    let mut host = working();
    let (approval, events) = host.asks(managed_ask("7"));
    assert_eq!(
        events,
        [
            "approval.requested ask-1 of a by a, None, until ever",
            "agent.status_changed a: Running, seen as AwaitingPermission, on none",
        ]
    );
    assert_eq!(
        host.does(resolve(&person("ann"), &approval, "approve")),
        [
            "approval.resolved ask-1: Allowed `approve` by ann, Waiting",
            "answer.attempted ask-1, time 1",
            "agent.status_changed a: Running, seen as Running, on none",
        ]
    );
    assert_eq!(
        owed(&host),
        ["answer Allowed approve on nobody", "prompt 1 [\"go\"]"]
    );
    let opened = host.state.find_approval(&approval).unwrap().opened;
    host.does(Input::SettleAnswer {
        approval,
        opened,
        delivery: AnswerDelivery::Delivered,
    });
    assert_eq!(owed(&host), ["prompt 1 [\"go\"]"]);
}

#[test]
fn what_a_rule_settles_is_asked_ended_and_attempted_in_one_decision() {
    let mut host = working();
    let ask = AskRequest {
        tool: Some("Bash".to_owned()),
        judged: Some(judged(vec![in_file(Effect::Allow, "Bash(ls)")])),
        ..managed_ask("7")
    };
    let (_, events) = host.asks(ask);
    assert_eq!(
        events,
        [
            "approval.requested ask-1 of a by a, None, until ever",
            "approval.resolved ask-1: Allowed `approve` by rules, Waiting",
            "answer.attempted ask-1, time 1",
        ]
    );
}

#[test]
fn an_ask_that_replaces_another_and_ends_at_once_ends_itself() {
    let mut host = working();
    host.ask(managed_ask("7"));
    let ask = AskRequest {
        tool: Some("Bash".to_owned()),
        tool_call: Some("7".to_owned()),
        judged: Some(judged(vec![in_file(Effect::Allow, "Bash(ls)")])),
        ..managed_ask("8")
    };
    let head = host.state.head();
    let (_, events) = host.asks(ask);
    assert_eq!(
        events[..4],
        [
            "approval.resolved ask-1: Cancelled `cancelled` by a, Waiting",
            "answer.attempted ask-1, time 1",
            "approval.requested ask-2 of a by a, None, until ever",
            "approval.resolved ask-2: Allowed `approve` by rules, Waiting",
        ]
    );
    let ended = host.state.find_approval(&ApprovalId::new("ask-2")).unwrap();
    assert_eq!(ended.opened.0, head.0 + 3);
    assert_eq!(owed(&host).len(), 3);
}

#[test]
fn an_agent_never_answers_its_own_ask_and_nobody_edits_what_it_will_run() {
    let mut host = working();
    let approval = host.ask(AskRequest {
        input: Some(json("{}")),
        ..managed_ask("7")
    });
    let (refusal, _) = host.refuses_on_record(resolve(&agent("a"), &approval, "approve"));
    assert_eq!(refusal, Rejection::AgentsCannotAnswer(id()));
    let edited = ApprovalAnswer {
        resolution: "approve".to_owned(),
        edited_input: Some(json("{\"a\":1}")),
        ..ApprovalAnswer::default()
    };
    let edited = answer(&person("ann"), &approval, edited);
    assert_eq!(host.refuses(edited), Rejection::NothingToEdit);
}

#[test]
fn words_of_a_denial_reach_the_agent_as_its_next_message() {
    let mut host = working();
    let approval = host.ask(managed_ask("7"));
    let denied = ApprovalAnswer {
        resolution: "deny".to_owned(),
        message: Some("use the other one".to_owned()),
        ..ApprovalAnswer::default()
    };
    host.does(answer(&person("ann"), &approval, denied));
    host.does(turn_ended(1, 1));
    assert_eq!(
        owed(&host)[1..],
        ["prompt 2 [\"Your request was denied: run it\\n\\nuse the other one\"]"]
    );
}

#[test]
fn exactly_what_was_allowed_runs_once_without_another_ask() {
    let mut host = working();
    let mut ask = managed_ask("7");
    ask.managed.as_mut().unwrap().passes = vec!["d".to_owned()];
    let approval = host.ask(ask);
    let covered = |digest: &str| {
        let mut ask = managed_ask("8");
        ask.managed.as_mut().unwrap().covered_by = vec![digest.to_owned()];
        ask_input(ask)
    };
    let asked = |decision: Decision| matches!(decision.subject, DecisionSubject::Approval(_));
    assert!(asked(host.decide(covered("d")).unwrap()), "not allowed yet");
    host.does(resolve(&person("ann"), &approval, "approve"));
    assert!(asked(host.decide(covered("e")).unwrap()), "not this");
    let decision = host.decide(covered("d")).unwrap();
    assert_eq!(decision.subject, DecisionSubject::Covered(approval));
    let lines: Vec<_> = decision.events.iter().map(line).collect();
    assert_eq!(lines, ["approval.pass_used a ask-1"]);
    assert!(asked(host.decide(covered("d")).unwrap()), "only once");
}

#[test]
fn what_was_allowed_and_did_not_run_ends_with_its_turn() {
    let mut host = working();
    let mut ask = managed_ask("7");
    ask.managed.as_mut().unwrap().passes = vec!["d".to_owned()];
    let approval = host.ask(ask);
    host.does(resolve(&person("ann"), &approval, "approve"));
    host.does(send("more"));
    host.does(turn_ended(1, 1));
    let mut ask = managed_ask("8");
    ask.managed.as_mut().unwrap().covered_by = vec!["d".to_owned()];
    assert_eq!(host.asks(ask).0.as_str(), "ask-2");
}

/// A host whose agent was allowed what has digest `d` and has not done it yet.
pub(super) fn with_pass() -> Host {
    let mut host = working();
    let mut ask = managed_ask("7");
    ask.managed.as_mut().unwrap().passes = vec!["d".to_owned()];
    let approval = host.ask(ask);
    host.does(resolve(&person("ann"), &approval, "approve"));
    host
}

pub(super) fn covered() -> AskRequest {
    let mut ask = managed_ask("8");
    ask.managed.as_mut().unwrap().covered_by = vec!["d".to_owned()];
    ask
}

#[test]
fn nothing_is_asked_and_nothing_allowed_runs_in_a_turn_that_was_interrupted() {
    let mut host = with_pass();
    host.does(interrupt());
    for ask in [covered(), managed_ask("9")] {
        assert_eq!(host.refuses(ask_input(ask)), Rejection::NoTurn(id()));
    }
    host.does(turn_ended(1, 1));
    host.does(send("more"));
    assert_eq!(host.asks(covered()).0.as_str(), "ask-2");
}

#[test]
fn what_was_allowed_between_turns_is_asked_again_in_the_next() {
    let mut host = working();
    host.does(turn_ended(1, 1));
    let mut ask = managed_ask("7");
    ask.managed.as_mut().unwrap().passes = vec!["d".to_owned()];
    let approval = host.ask(ask);
    host.does(resolve(&person("ann"), &approval, "approve"));
    host.does(send("more"));
    assert_eq!(host.asks(covered()).0.as_str(), "ask-2");
}

#[test]
fn a_deny_that_came_later_holds_over_what_was_allowed() {
    let mut host = with_pass();
    let denied = AskRequest {
        tool: Some("Bash".to_owned()),
        judged: Some(judged(vec![in_file(Effect::Deny, "Bash(x)")])),
        ..covered()
    };
    let decision = host.decide(ask_input(denied)).unwrap();
    let lines: Vec<_> = decision.events.iter().map(line).collect();
    assert!(lines[1].contains("Denied"), "{lines:?}");
}

#[test]
fn an_agent_that_is_put_away_while_it_works_ends() {
    let mut host = working();
    host.ask(managed_ask("7"));
    let archive = ManagedInput::Archive {
        caller: person("ann"),
        agent: id(),
        archived: true,
    };
    let lines = host.does(managed(archive));
    assert!(lines[0].starts_with("approval.resolved ask-1: Cancelled"));
    assert_eq!(owed(&host), ["stop 1"]);
}

#[test]
fn an_agent_that_was_put_away_comes_back_only_if_its_name_is_free() {
    let mut host = Host::new();
    let archive = |archived| {
        managed(ManagedInput::Archive {
            caller: person("ann"),
            agent: id(),
            archived,
        })
    };
    host.does(spawn_as(&person("ann"), Some("bea"), None));
    host.does(exited(1, RunEnd::Done));
    host.does(archive(true));
    let Input::Managed(ManagedInput::Spawn(mut other)) =
        spawn_as(&person("ann"), Some("bea"), None)
    else {
        unreachable!();
    };
    other.id = AgentId::new("b");
    host.does(managed(ManagedInput::Spawn(other)));
    let taken = Rejection::NameTaken("bea".to_owned());
    for input in [send("go on"), resume(), archive(false)] {
        assert_eq!(host.refuses(input), taken);
    }
}

#[test]
fn what_was_allowed_long_ago_and_did_not_run_is_asked_again() {
    let mut host = working();
    for number in 0..=PASSES_MAX {
        let mut ask = managed_ask(&number.to_string());
        ask.managed.as_mut().unwrap().passes = vec![format!("d{number}")];
        let approval = host.ask(ask);
        host.does(resolve(&person("ann"), &approval, "approve"));
    }
    let mut subject = |digest: &str| {
        let mut ask = managed_ask("last");
        ask.managed.as_mut().unwrap().covered_by = vec![digest.to_owned()];
        host.decide(ask_input(ask)).unwrap().subject
    };
    assert!(matches!(subject("d0"), DecisionSubject::Approval(_)));
    assert!(matches!(subject("d1"), DecisionSubject::Covered(_)));
}

#[test]
fn an_interrupt_cancels_what_is_open_and_is_owed() {
    let mut host = working();
    host.ask(managed_ask("7"));
    assert_eq!(
        host.does(interrupt()),
        [
            "approval.resolved ask-1: Cancelled `cancelled` by ann, Withdrawn",
            "turn.interrupted a 1 by ann",
            "agent.status_changed a: Running, seen as Running, on none",
        ]
    );
    assert_eq!(owed(&host), ["prompt 1 [\"go\"]", "interrupt 1"]);
    host.does(turn_ended(1, 1));
    assert_eq!(host.refuses(interrupt()), Rejection::NoTurn(id()));
}

#[test]
fn an_ask_that_is_taken_back_ends_as_cancelled_alone() {
    let mut host = working();
    host.ask(managed_ask("7"));
    host.ask(managed_ask("8"));
    let withdrew = RunEvent::RequestWithdrawn {
        request: "7".to_owned(),
    };
    assert_eq!(
        host.does(ran(1, withdrew)),
        ["approval.resolved ask-1: Cancelled `cancelled` by host, Withdrawn"]
    );
}

#[test]
fn a_second_ask_for_a_tool_call_cancels_the_first_and_whoever_waits_for_it_is_told() {
    let mut host = working();
    host.ask(managed_ask("7"));
    host.ask(AskRequest {
        action: "now with its input".to_owned(),
        ..managed_ask("7")
    });
    assert_eq!(
        owed(&host),
        [r#"prompt 1 ["go"]"#],
        "the request is still open"
    );
    host.ask(AskRequest {
        tool_call: Some("7".to_owned()),
        ..managed_ask("8")
    });
    let open = host.state.open_approvals();
    let open: Vec<_> = open
        .map(|approval| approval.ask.request.as_deref())
        .collect();
    assert_eq!(open, [Some("8")]);
    let answers = host.state.duties_of(&id()).into_iter().filter_map(|duty| {
        let Duty::Answer(approval) = duty else {
            return None;
        };
        let outcome = approval.ended.map(|ended| ended.ending.outcome);
        Some((approval.ask.request.clone(), outcome))
    });
    let cancelled = (Some("7".to_owned()), Some(ApprovalOutcome::Cancelled));
    assert_eq!(answers.collect::<Vec<_>>(), [cancelled]);
}

#[test]
fn one_that_is_killed_loses_what_it_has_open_and_is_over_when_its_process_is() {
    let mut host = working();
    host.ask(managed_ask("7"));
    host.does(send("later"));
    assert_eq!(
        host.does(kill()),
        [
            "approval.resolved ask-1: Cancelled `cancelled` by ann, Withdrawn",
            "agent.messages_dropped a: the agent was ended",
            "agent.stop_requested a by ann",
            "agent.status_changed a: Running, seen as Running, on none",
        ]
    );
    assert_eq!(owed(&host), ["stop 1"]);
    assert_eq!(
        host.does(exited(1, RunEnd::Killed)),
        [
            "transcript.added a 1, 1 entries",
            "turn.ended a 1: exited",
            "agent.exited a: Killed, it went",
            "agent.status_changed a: Stopped, seen as Stopped, on none",
        ]
    );
    assert_eq!(owed(&host), Vec::<String>::new());
    assert_eq!(host.refuses(kill()), Rejection::AgentEnded(id()));
}

#[test]
fn a_message_to_one_that_is_being_ended_revives_it() {
    let mut host = working();
    host.does(kill());
    assert_eq!(
        host.does(send("come back")),
        ["agent.message_queued a by ann: come back"]
    );
    let events = host.does(exited(1, RunEnd::Killed));
    assert_eq!(
        events[3..],
        [
            "agent.status_changed a: Stopped, seen as Stopped, on none",
            "agent.run_requested a, run 2 on s",
            "agent.status_changed a: Starting, seen as Starting, on none",
        ]
    );
    assert_eq!(owed(&host), ["launch 2"]);
}

#[test]
fn a_host_that_ended_leaves_nothing_open_and_says_what_may_have_run() {
    let mut host = working();
    let allowed = host.ask(managed_ask("7"));
    host.ask(managed_ask("8"));
    host.does(resolve(&person("ann"), &allowed, "approve"));
    let words =
        "the host that ran it ended; allowed in this turn, and may already have run: run it";
    assert_eq!(
        host.restart(),
        [
            "host.started, owners have until 60".to_owned(),
            "transcript.added a 1, 1 entries".to_owned(),
            "approval.resolved ask-2: Cancelled `cancelled` by host, Withdrawn".to_owned(),
            "answer.settled ask-1: Unknown".to_owned(),
            "turn.ended a 1: exited".to_owned(),
            format!("agent.exited a: HostEnded, {words}"),
            "agent.status_changed a: Stopped, seen as Stopped, on none".to_owned(),
        ]
    );
}

#[test]
fn calls_that_an_end_leaves_open_are_closed_with_it() {
    let uses = |call: &str| TranscriptEntry::ToolUse {
        id: call.to_owned(),
        title: None,
        tool: None,
        input: None,
        status: None,
    };
    let result = |call: &str| TranscriptEntry::ToolResult {
        id: call.to_owned(),
        status: ToolStatus::Completed,
        text: String::new(),
    };
    let mut host = working();
    host.does(ran(
        1,
        RunEvent::EntriesAdded(vec![uses("c1"), uses("c2"), uses("c3")]),
    ));
    host.does(ran(
        1,
        RunEvent::EntriesAdded(vec![result("c1"), uses("c2")]),
    ));
    let open = |host: &Host| {
        let agent = host.state.find_agent(&id()).unwrap();
        let turn = agent.managed.as_ref().unwrap().turn.clone();
        turn.map(|turn| turn.calls)
    };
    assert_eq!(open(&host), Some(vec!["c2".to_owned(), "c3".to_owned()]));
    assert_eq!(host.restart()[1], "transcript.added a 1, 3 entries");
    assert_eq!(open(&host), None);
}

#[test]
fn a_resumed_agent_that_asks_for_the_same_again_is_known_to_repeat_itself() {
    let mut host = working();
    let same = || AskRequest {
        input: Some(json("{\"command\":\"make\"}")),
        ..managed_ask("7")
    };
    let first = host.ask(same());
    host.does(resolve(&person("ann"), &first, "approve"));
    host.restart();
    host.does(resume());
    host.does(ready(2));
    host.does(send("go on"));
    let mut again = same();
    again.managed.as_mut().unwrap().run = 2;
    let again = host.ask(again);
    let approval = host.state.find_approval(&again).unwrap();
    assert_eq!(
        (approval.is_pending(), &approval.ask.repeats),
        (true, &Some(first))
    );
}

#[test]
fn a_message_revives_one_that_sleeps_on_its_session() {
    let mut host = working();
    host.does(turn_ended(1, 1));
    host.does(exited(1, RunEnd::Done));
    assert_eq!(host.state_of("a"), "Done");
    assert_eq!(
        host.does(send("once more")),
        [
            "agent.message_queued a by ann: once more",
            "agent.run_requested a, run 2 on s",
            "agent.status_changed a: Starting, seen as Starting, on none",
        ]
    );
    host.does(ready(2));
    assert_eq!(owed(&host), ["prompt 2 [\"once more\"]"]);
}

#[test]
fn one_without_a_session_is_not_resumed_unless_it_never_began() {
    let mut host = Host::new();
    host.does(spawn_as(&person("ann"), None, None));
    host.does(exited(1, RunEnd::Failed));
    assert_eq!(
        host.does(resume())[0],
        "agent.run_requested a, run 2 on none"
    );
    host.does(ran(
        2,
        RunEvent::Ready {
            session: "s".to_owned(),
            resumable: false,
        },
    ));
    host.does(send("go"));
    host.does(exited(2, RunEnd::Failed));
    assert_eq!(host.refuses(resume()), Rejection::CannotResume(id()));
    assert_eq!(host.refuses(send("x")), Rejection::CannotResume(id()));
}

#[test]
fn what_is_said_of_a_run_that_is_over_changes_nothing() {
    let mut host = working();
    host.does(exited(1, RunEnd::Failed));
    host.does(resume());
    let none = Vec::<String>::new();
    assert_eq!(host.does(ready(1)), none);
    assert_eq!(host.does(turn_ended(1, 1)), none);
    assert_eq!(host.does(exited(1, RunEnd::Done)), none);
    let late = host.refuses(ask_input(managed_ask("9")));
    assert_eq!(late, Rejection::AgentEnded(id()));
}

#[test]
fn a_turn_that_takes_too_long_is_interrupted_and_then_its_agent_is_ended() {
    let mut host = working();
    assert_eq!(
        host.after_ms(limits::TURN_TIMEOUT_MS),
        ["turn.interrupted a 1 by host"]
    );
    assert_eq!(
        host.after_ms(limits::INTERRUPT_GRACE_MS),
        ["agent.stop_requested a by host"]
    );
    assert_eq!(owed(&host), ["stop 1"]);
}

#[test]
fn stopping_everything_denies_interrupts_and_begins_nothing_else() {
    let mut host = working();
    host.ask(managed_ask("7"));
    host.does(send("later"));
    let events = host.does(Input::StopAll(person("ann")));
    assert_eq!(
        events,
        [
            "approval.resolved ask-1: Denied `deny` by ann, Waiting",
            "answer.attempted ask-1, time 1",
            "agent.interrupt_requested a by ann",
            "agent.messages_dropped a: everything was stopped",
            "turn.interrupted a 1 by ann",
            "agent.status_changed a: Running, seen as Running, on none",
        ]
    );
    host.does(turn_ended(1, 1));
    assert_eq!(host.state_of("a"), "Idle");
}

#[test]
fn nobody_else_speaks_for_an_agent_that_the_host_runs() {
    let mut host = working();
    for caller in [person("ann"), agent("a")] {
        let set = set_status(&caller, "a", BaseState::Done);
        assert_eq!(host.refuses(set), Rejection::RunByHost(id()));
        let taken = register(&caller, "a");
        assert_eq!(host.refuses(taken), Rejection::RunByHost(id()));
    }
}

#[test]
fn what_it_used_is_counted_over_turns_and_runs() {
    let mut host = working();
    let cost = |cost| TokenUsage {
        cost_micro_usd: Some(cost),
        ..TokenUsage::default()
    };
    let reported = |run, amount| {
        ran(
            run,
            RunEvent::Reported(Box::new(AgentReported {
                agent: id(),
                mode: None,
                model: None,
                plan: None,
                usage: Some(cost(amount)),
                title: None,
                offers: AgentOffers::default(),
            })),
        )
    };
    host.does(reported(1, 5));
    host.does(reported(1, 8));
    host.does(exited(1, RunEnd::Failed));
    host.does(resume());
    host.does(ready(2));
    host.does(reported(2, 2));
    let agent = host.state.find_agent(&id()).unwrap();
    assert_eq!(agent.managed.as_ref().unwrap().usage(), cost(10));
}

#[test]
fn a_story_is_read_as_it_was_written() {
    let added = crate::event::TranscriptAdded {
        agent: id(),
        turn: 3,
        entries: vec![
            TranscriptEntry::Assistant {
                text: "x".to_owned(),
            },
            TranscriptEntry::ToolUse {
                id: "c".to_owned(),
                title: None,
                tool: Some("Bash".to_owned()),
                input: Some(json("{ \"n\": 1.50 }")),
                status: None,
            },
            TranscriptEntry::Other {
                update: json("[ 1 ]"),
            },
        ],
    };
    let event = Event::from(added);
    let bytes = event.encode().unwrap();
    assert_eq!(Event::decode(event.kind(), &bytes).unwrap().unwrap(), event);
}

#[test]
fn everybody_is_told_however_many_asks_end_at_once() {
    let mut host = working();
    let Input::Managed(ManagedInput::Spawn(other)) = spawn_as(&person("ann"), None, Some("go"))
    else {
        unreachable!("it is a spawn");
    };
    let b = AgentId::new("b");
    host.does(managed(ManagedInput::Spawn(Box::new(SpawnAgent {
        attachments: Vec::new(),
        id: b.clone(),
        ..*other
    }))));
    let Input::Managed(ManagedInput::RunReported(_, _, ready)) = ready(1) else {
        unreachable!("it is about a run");
    };
    host.does(managed(ManagedInput::RunReported(b.clone(), 1, ready)));
    let each = limits::RECENT_ENDED_KEPT / 2 + 100;
    for number in 0..each {
        let request = number.to_string();
        host.ask(managed_ask(&request));
        host.ask(AskRequest {
            caller: agent("b"),
            ..managed_ask(&request)
        });
    }
    host.does(Input::StopAll(person("ann")));
    for agent in [id(), b] {
        let duties = host.state.duties_of(&agent);
        let answers = duties.iter().filter(|duty| matches!(duty, Duty::Answer(_)));
        assert_eq!(answers.count(), each, "{agent}");
    }
}

#[test]
fn one_that_is_being_ended_runs_out_of_time_once() {
    let mut host = working();
    host.does(interrupt());
    let deadline = |host: &Host| host.state.next_deadline(host.now);
    assert!(deadline(&host).is_some());
    host.does(kill());
    assert_eq!(deadline(&host), None);
}
