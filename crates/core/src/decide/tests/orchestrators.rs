//! Orchestrators: what reaches them from below, whom they reach, and what they may settle.

use super::*;
use crate::event::{
    AgentRole, Ceiling, Effect, EnvVar, GrantScope, ParentMessage, PromptMessage, SpawnOptions,
    TurnEnded,
};
use crate::limits::{AGENT_MESSAGES_MAX, ESCALATION_MS, NOTE_KEYS_MAX, PARENT_MESSAGE_BATCH_MAX};
use crate::{
    ChildrenPolicy, DelegationVerdict, Duty, GrantDraft, ManagedInput, NotifyParent, RunEvent,
    SPAWN_TOOL, SpawnAgent,
};

const LEAD: &str = "lead";
const CHILD: &str = "child";

fn options(role: Option<AgentRole>) -> SpawnOptions {
    SpawnOptions {
        agent: Some("claude".to_owned()),
        cwd: "/srv".to_owned(),
        role,
        ..SpawnOptions::default()
    }
}

fn spawn(caller: &Caller, id: &str, options: SpawnOptions) -> Input {
    Input::Managed(ManagedInput::Spawn(Box::new(SpawnAgent {
        attachments: Vec::new(),
        caller: caller.clone(),
        id: AgentId::new(id),
        name: Some(id.to_owned()),
        kind: "claude".to_owned(),
        options,
        prompt: Some("go".to_owned()),
    })))
}

fn ran(id: &str, ran: RunEvent) -> Input {
    Input::Managed(ManagedInput::RunReported(AgentId::new(id), 1, ran))
}

fn ready(id: &str) -> Input {
    let session = "s".to_owned();
    ran(
        id,
        RunEvent::Ready {
            session,
            resumable: true,
        },
    )
}

fn turn_ends(id: &str, turn: u32) -> Input {
    let end = Box::new(TurnEnded {
        agent: AgentId::new(id),
        turn,
        reason: "end_turn".to_owned(),
        message: None,
        usage: None,
    });
    ran(
        id,
        RunEvent::TurnEnded {
            entries: Vec::new(),
            end,
            left_open: Vec::new(),
        },
    )
}

fn exits(id: &str) -> Input {
    ran(
        id,
        RunEvent::Exited {
            entries: Vec::new(),
            end: crate::event::RunEnd::Done,
            message: "it went".to_owned(),
        },
    )
}

fn tells(id: &str, text: &str, key: Option<&str>) -> Input {
    Input::NotifyParent(NotifyParent {
        caller: agent(id),
        text: text.to_owned(),
        key: key.map(str::to_owned),
    })
}

fn kill(caller: &Caller, id: &str, children: Option<ChildrenPolicy>) -> Input {
    Input::Managed(ManagedInput::Kill {
        caller: caller.clone(),
        agent: AgentId::new(id),
        children,
    })
}

fn prompt(caller: &Caller, id: &str) -> Input {
    Input::Managed(ManagedInput::Prompt {
        attachments: Vec::new(),
        caller: caller.clone(),
        agent: AgentId::new(id),
        text: "more".to_owned(),
    })
}

fn set_ceiling(rules: &[&str], until: Option<u64>) -> Input {
    let rules = rules.iter().map(|&rule| rule.to_owned()).collect();
    Input::SetCeiling {
        caller: person("ann"),
        agent: AgentId::new(LEAD),
        ceiling: Some(Ceiling {
            rules,
            until: until.map(Timestamp),
        }),
    }
}

fn answers(caller: &Caller, question: &QuestionId, words: &str) -> Input {
    Input::AnswerQuestion {
        caller: caller.clone(),
        question: question.clone(),
        answer: words.to_owned(),
        considered_ms: None,
    }
}

impl Host {
    /// An ask of the orchestrator for a child, allowed by a person.
    fn allowed_spawn(&mut self) -> ApprovalId {
        let ask = self.ask(AskRequest {
            tool: Some(SPAWN_TOOL.to_owned()),
            ..request(&agent(LEAD))
        });
        self.does(resolve(&person("ann"), &ask, "approve"));
        ask
    }

    fn child(&mut self, id: &str, wanted: SpawnOptions) -> Result<Decision, Rejection> {
        let allowed_by = Some(self.allowed_spawn());
        self.decide(spawn(
            &agent(LEAD),
            id,
            SpawnOptions {
                allowed_by,
                ..wanted
            },
        ))
    }

    fn managed(&self, id: &str) -> &crate::ManagedAgent {
        let agent = self.state.find_agent(&AgentId::new(id)).unwrap();
        agent.managed.as_ref().unwrap()
    }

    /// What waits for an agent, and how it came there.
    fn waits_for(&self, id: &str) -> Vec<(String, Option<ParentMessage>)> {
        let queue = self.managed(id).queue.iter();
        queue
            .map(|message| (message.full_text(), message.parent_message.clone()))
            .collect()
    }

    fn told(&self, id: &str) -> Vec<String> {
        let turn = self.managed(id).turn.as_ref().unwrap();
        turn.messages.iter().map(PromptMessage::full_text).collect()
    }

    fn asks_up(&mut self, text: &str, key: Option<&str>) -> (QuestionId, Vec<String>) {
        let id = QuestionId::new(self.next_id("question"));
        let decision = self
            .decide(Input::AskQuestion(AskQuestion {
                caller: agent(CHILD),
                id,
                agent: None,
                text: text.to_owned(),
                timeout_ms: None,
                key: key.map(str::to_owned),
                keyed: None,
            }))
            .unwrap();
        let DecisionSubject::Question(id) = decision.subject else {
            panic!("not a question: {:?}", decision.subject);
        };
        (id, decision.events.iter().map(line).collect())
    }
}

/// A host with an orchestrator and a child of its; both work.
fn family() -> Host {
    let mut host = Host::new();
    let lead = options(Some(AgentRole::Orchestrator));
    host.does(spawn(&person("ann"), LEAD, lead));
    host.does(ready(LEAD));
    host.child(CHILD, options(None)).unwrap();
    host.does(ready(CHILD));
    host
}

fn note(words: &str) -> (String, Option<ParentMessage>) {
    let text = format!(
        "[countersign] Agent `child` (child) tells you something. These are its words, not a \
         person's:\n\n{words}"
    );
    let parent_message = ParentMessage::Note {
        from: AgentId::new(CHILD),
        times: 1,
    };
    (text, Some(parent_message))
}

#[test]
fn a_note_waits_for_the_end_of_the_turn_and_is_heard_once() {
    let mut host = family();
    assert_eq!(
        host.does(tells(CHILD, "half way", Some("k1"))),
        [
            "agent.parent_notified child to lead: half way".to_owned(),
            format!("agent.message_queued lead by child: {}", note("half way").0),
        ]
    );
    assert_eq!(host.waits_for(LEAD), [note("half way")]);
    assert_eq!(host.told(LEAD), ["go"]);
    assert_eq!(host.does(tells(CHILD, "half way", Some("k1"))), [""; 0]);
    host.does(turn_ends(LEAD, 1));
    assert_eq!(host.told(LEAD), [note("half way").0]);
    assert_eq!(host.waits_for(LEAD), []);
    assert_eq!(host.does(tells(CHILD, "half way", Some("k1"))), [""; 0]);
}

#[test]
fn a_note_begins_a_turn_of_one_that_rests() {
    let mut host = family();
    host.does(turn_ends(LEAD, 1));
    let text = note("done").0;
    host.does(tells(CHILD, "done", None));
    assert_eq!(host.told(LEAD), [text.as_str()]);
    assert_eq!(
        host.state.duties_of(&AgentId::new(LEAD)),
        [Duty::Prompt {
            attachments: Vec::new(),
            turn: 2,
            messages: vec![text]
        }]
    );
}

#[test]
fn repeated_notes_are_one_and_waiting_parent_messages_are_read_together() {
    let mut host = family();
    host.does(tells(CHILD, "a", None));
    assert_eq!(
        host.does(tells(CHILD, "a", None)),
        [
            "agent.parent_notified child to lead: a",
            "agent.message_repeated to lead from child"
        ]
    );
    host.does(tells(CHILD, "b", None));
    host.does(prompt(&person("ann"), LEAD));
    host.does(tells(CHILD, "c", None));
    let twice = format!("{}\n\n(said 2 times)", note("a").0);
    host.does(turn_ends(LEAD, 1));
    assert_eq!(host.told(LEAD), [twice, note("b").0]);
    host.does(turn_ends(LEAD, 2));
    assert_eq!(host.told(LEAD), ["more"]);
    host.does(turn_ends(LEAD, 3));
    assert_eq!(host.told(LEAD), [note("c").0]);
}

#[test]
fn parent_messages_are_bounded() {
    let mut host = family();
    for number in 0..AGENT_MESSAGES_MAX {
        host.does(tells(CHILD, &format!("note {number}"), None));
    }
    assert!(matches!(
        host.refuses(tells(CHILD, "one more", None)),
        Rejection::TooMany { .. }
    ));
    // Nobody above has room to hear it, so it is for people at once.
    let (question, _) = host.asks_up("which?", None);
    assert!(host.state.find_question(&question).unwrap().is_for_people());
    host.does(turn_ends(LEAD, 1));
    assert_eq!(host.told(LEAD).len(), PARENT_MESSAGE_BATCH_MAX);
    for number in 0..=NOTE_KEYS_MAX {
        host.does(turn_ends(LEAD, host.managed(LEAD).turns));
        host.does(tells(CHILD, "keyed", Some(&format!("key {number}"))));
    }
    assert_eq!(host.managed(CHILD).note_keys.len(), NOTE_KEYS_MAX);
}

#[test]
fn what_nobody_above_can_hear_is_for_people() {
    let mut host = family();
    host.does(exits(LEAD));
    assert_eq!(
        host.does(tells(CHILD, "hello?", None)),
        ["agent.parent_notified child to none: hello?"]
    );
    let (question, events) = host.asks_up("which?", None);
    assert_eq!(
        events[0],
        "question.asked question-2 of child by child, until 300"
    );
    assert!(host.state.find_question(&question).unwrap().is_for_people());
    assert_eq!(
        host.refuses(Input::NotifyParent(NotifyParent {
            caller: person("ann"),
            text: "x".to_owned(),
            key: None
        })),
        Rejection::OnlyAgents
    );
}

#[test]
fn a_question_reaches_the_orchestrator_and_its_answer_the_child() {
    let mut host = family();
    let (question, events) = host.asks_up("which?", Some("k"));
    assert!(events[1].starts_with("agent.message_queued lead by child: "));
    assert_eq!(host.state_of(CHILD), "Waiting");
    let parent_message = ParentMessage::Question {
        from: AgentId::new(CHILD),
        question: question.clone(),
    };
    let words = format!(
        "[countersign] Agent `child` (child) asks you, and waits for an answer to {question} \
         (`answer_question`). These are its words, not a person's:\n\nwhich?"
    );
    assert_eq!(host.waits_for(LEAD), [(words, Some(parent_message))]);
    // The same question again, under its key or without one, is the same question.
    assert_eq!(
        host.asks_up("which?", Some("k")),
        (question.clone(), Vec::new())
    );
    assert_eq!(host.asks_up("which?", None), (question.clone(), Vec::new()));
    for other in [CHILD, "stranger"] {
        assert_eq!(
            host.refuses(answers(&agent(other), &question, "mine")),
            Rejection::AgentsCannotAnswer(AgentId::new(other))
        );
    }
    host.does(turn_ends(LEAD, 1));
    let answered = host.does(answers(&agent(LEAD), &question, "the left one"));
    assert_eq!(
        answered[0],
        format!("question.ended {question}: Answered `the left one` by lead")
    );
    assert_eq!(host.state_of(CHILD), "Running");
}

#[test]
fn a_question_that_a_person_answers_first_is_not_heard_any_more() {
    let mut host = family();
    let (question, _) = host.asks_up("which?", None);
    let events = host.does(answers(&person("ann"), &question, "left"));
    assert_eq!(
        events[1],
        format!("agent.parent_message_withdrawn to lead: {question}")
    );
    assert_eq!(host.waits_for(LEAD), []);
}

#[test]
fn people_are_asked_when_an_orchestrator_takes_too_long() {
    let mut host = family();
    let (question, _) = host.asks_up("which?", None);
    assert!(!host.state.find_question(&question).unwrap().is_for_people());
    assert_eq!(host.after_ms(ESCALATION_MS - 1), [""; 0]);
    assert_eq!(host.after_ms(1), [format!("question.escalated {question}")]);
    assert!(host.state.find_question(&question).unwrap().is_for_people());
    // It stays the orchestrator's to answer.
    host.does(answers(&agent(LEAD), &question, "left"));
    assert_eq!(host.after_ms(1_000_000), [""; 0]);
}

#[test]
fn a_known_key_gives_what_history_has() {
    let mut host = family();
    let (question, _) = host.asks_up("which?", Some("k"));
    let mut open = host.state.find_question(&question).unwrap().clone();
    host.does(answers(&agent(LEAD), &question, "left"));
    let mut again = AskQuestion {
        caller: agent(CHILD),
        id: QuestionId::new("question-9"),
        agent: None,
        text: "which?".to_owned(),
        timeout_ms: None,
        key: Some("k".to_owned()),
        keyed: Some(open.clone()),
    };
    // History lags behind.
    assert_eq!(
        host.refuses(Input::AskQuestion(again.clone())),
        Rejection::UnknownQuestion(question)
    );
    open.ended = Some(crate::QuestionEnd {
        ending: Arc::new(crate::event::QuestionEnding {
            outcome: crate::event::QuestionOutcome::Answered,
            answer: "left".to_owned(),
            by: by(&agent(LEAD)),
            door: None,
            considered_ms: None,
        }),
        seq: crate::Seq(1),
        at: Timestamp(0),
    });
    again.keyed = Some(open.clone());
    let decision = host.decide(Input::AskQuestion(again)).unwrap();
    assert_eq!(
        decision,
        Decision {
            events: Vec::new(),
            subject: DecisionSubject::KnownQuestion(Box::new(open))
        }
    );
}

#[test]
fn an_orchestrator_hears_when_its_child_is_done_or_gone() {
    let mut host = family();
    host.does(turn_ends(CHILD, 1));
    let done = "[countersign] Agent `child` (child) is done with what you told it (end_turn); \
                `read_transcript` shows what it did";
    let finished = Some(ParentMessage::Finished {
        from: AgentId::new(CHILD),
    });
    assert_eq!(host.waits_for(LEAD), [(done.to_owned(), finished.clone())]);
    host.does(turn_ends(LEAD, 1));
    // What a person told it is between the two.
    host.does(prompt(&person("ann"), CHILD));
    host.does(turn_ends(CHILD, 2));
    assert_eq!(host.waits_for(LEAD), []);
    host.does(exits(CHILD));
    let gone = "[countersign] Agent `child` (child) has ended: it went";
    assert_eq!(host.waits_for(LEAD), [(gone.to_owned(), finished)]);
}

#[test]
fn an_orchestrator_reaches_those_below_it_and_nobody_else() {
    let mut host = family();
    host.does(spawn(&person("ann"), "other", options(None)));
    host.does(prompt(&agent(LEAD), CHILD));
    for (who, whom, refusal) in [
        (
            LEAD,
            "other",
            Rejection::NotADescendant(AgentId::new("other")),
        ),
        (LEAD, LEAD, Rejection::NotADescendant(AgentId::new(LEAD))),
        (CHILD, LEAD, Rejection::AgentNotAllowed(AgentId::new(CHILD))),
        (
            CHILD,
            CHILD,
            Rejection::AgentNotAllowed(AgentId::new(CHILD)),
        ),
        (
            "other",
            CHILD,
            Rejection::AgentNotAllowed(AgentId::new("other")),
        ),
    ] {
        assert_eq!(
            host.refuses(prompt(&agent(who), whom)),
            refusal,
            "{who} {whom}"
        );
        assert_eq!(host.refuses(kill(&agent(who), whom, None)), refusal);
    }
    // A mode or a name is a person's to change.
    assert_eq!(
        host.refuses(Input::Managed(ManagedInput::Configure {
            caller: agent(LEAD),
            agent: AgentId::new(CHILD),
            mode: Some("bypassPermissions".to_owned()),
            model: None,
        })),
        Rejection::AgentNotAllowed(AgentId::new(LEAD))
    );
    assert_eq!(
        host.refuses(Input::SetBypass {
            caller: person("ann"),
            agent: AgentId::new(CHILD),
            for_ms: Some(1),
        }),
        Rejection::NoBypassForChildren(AgentId::new(CHILD))
    );
}

#[test]
fn a_child_needs_an_ask_of_its_own_that_was_allowed() {
    let mut host = family();
    let refused = Rejection::SpawnNotAllowed(AgentId::new(LEAD));
    let wanted = |allowed_by: Option<ApprovalId>| SpawnOptions {
        allowed_by,
        ..options(None)
    };
    assert_eq!(
        host.refuses(spawn(&agent(LEAD), "x", wanted(None))),
        refused
    );
    let open = host.ask(AskRequest {
        tool: Some(SPAWN_TOOL.to_owned()),
        ..request(&agent(LEAD))
    });
    let other = host.ask(AskRequest {
        tool: Some("Bash".to_owned()),
        ..request(&agent(LEAD))
    });
    host.does(resolve(&person("ann"), &other, "approve"));
    let childs = host.ask(AskRequest {
        tool: Some(SPAWN_TOOL.to_owned()),
        ..request(&agent(CHILD))
    });
    host.does(resolve(&person("ann"), &childs, "approve"));
    let denied = host.ask(AskRequest {
        tool: Some(SPAWN_TOOL.to_owned()),
        ..request(&agent(LEAD))
    });
    host.does(resolve(&person("ann"), &denied, "deny"));
    for ask in [open, other, childs, denied] {
        let input = spawn(&agent(LEAD), "x", wanted(Some(ask)));
        assert_eq!(host.refuses(input), refused);
    }
    assert_eq!(
        host.refuses(spawn(&agent(CHILD), "x", wanted(None))),
        Rejection::AgentNotAllowed(AgentId::new(CHILD))
    );
    // One ask starts one agent, however often it is tried.
    let ask = host.allowed_spawn();
    host.does(spawn(&agent(LEAD), "one", wanted(Some(ask.clone()))));
    let again = host.decide(spawn(&agent(LEAD), "two", wanted(Some(ask))));
    assert_eq!(
        again.unwrap(),
        Decision {
            events: Vec::new(),
            subject: DecisionSubject::Agent(AgentId::new("one"))
        }
    );
}

#[test]
fn only_a_person_allows_a_command_or_another_orchestrator() {
    let mut host = family();
    let by_rule = rules::with_verdict(
        &agent(LEAD),
        vec![rules::in_file(Effect::Allow, SPAWN_TOOL)],
    );
    let ask = host.ask(AskRequest {
        tool: Some(SPAWN_TOOL.to_owned()),
        ..by_rule
    });
    let allowed_by = Some(ask);
    let command = SpawnOptions {
        agent: None,
        command: vec!["sh".to_owned()],
        allowed_by: allowed_by.clone(),
        ..options(None)
    };
    let orchestrator = SpawnOptions {
        allowed_by: allowed_by.clone(),
        ..options(Some(AgentRole::Orchestrator))
    };
    let refused = Rejection::SpawnNotAllowed(AgentId::new(LEAD));
    for wider in [command.clone(), orchestrator] {
        assert_eq!(host.refuses(spawn(&agent(LEAD), "x", wider)), refused);
    }
    let usual = SpawnOptions {
        allowed_by,
        ..options(None)
    };
    host.does(spawn(&agent(LEAD), "x", usual));
    host.child("y", command).unwrap();
    assert_eq!(host.managed("y").options.parent, Some(AgentId::new(LEAD)));
}

#[test]
fn a_child_gets_no_more_than_its_parent_has() {
    let mut host = Host::new();
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|&word| word.to_owned())
            .collect::<Vec<_>>()
    };
    let labels = |team: &str| [("team".to_owned(), team.to_owned())].into();
    let lead = SpawnOptions {
        allowed_tools: words(&["Read", "Bash"]),
        disallowed_tools: words(&["WebFetch"]),
        labels: labels("web"),
        ..options(Some(AgentRole::Orchestrator))
    };
    host.does(spawn(&person("ann"), LEAD, lead));
    host.does(ready(LEAD));
    let folder = |cwd: &str| SpawnOptions {
        cwd: cwd.to_owned(),
        ..options(None)
    };
    for cwd in ["/", "/srvice", "/srv/../etc", "/etc"] {
        assert_eq!(
            host.child("x", folder(cwd)).unwrap_err(),
            Rejection::Wider("a folder"),
            "{cwd}"
        );
    }
    let mode = SpawnOptions {
        mode: Some("bypassPermissions".to_owned()),
        ..options(None)
    };
    assert_eq!(
        host.child("x", mode).unwrap_err(),
        Rejection::Wider("a mode")
    );
    let tools = SpawnOptions {
        allowed_tools: words(&["Write"]),
        ..options(None)
    };
    assert_eq!(
        host.child("x", tools).unwrap_err(),
        Rejection::Wider("a tool")
    );
    let fine = SpawnOptions {
        cwd: "/srv/sub".to_owned(),
        mode: Some("plan".to_owned()),
        disallowed_tools: words(&["Edit"]),
        labels: labels("admin"),
        parent: Some(AgentId::new("other")),
        env: vec![EnvVar {
            name: "A".to_owned(),
            value: Some("1".to_owned()),
        }],
        ..options(None)
    };
    host.child("x", fine.clone()).unwrap();
    let kept = &host.managed("x").options;
    let expected = SpawnOptions {
        parent: Some(AgentId::new(LEAD)),
        allowed_tools: words(&["Read", "Bash"]),
        disallowed_tools: words(&["Edit", "WebFetch"]),
        labels: labels("web"),
        allowed_by: kept.allowed_by.clone(),
        ..fine.clone()
    };
    assert_eq!(**kept, expected);
    // A person's agents are nobody's children, whatever is said.
    host.does(spawn(&person("ann"), "free", fine));
    assert_eq!(host.managed("free").options.parent, None);
}

#[test]
fn what_becomes_of_children_is_never_left_unsaid() {
    let mut host = family();
    let ann = person("ann");
    assert_eq!(
        host.refuses(kill(&ann, LEAD, None)),
        Rejection::HasChildren {
            agent: AgentId::new(LEAD),
            children: vec![CHILD.to_owned()],
        }
    );
    let mut other = host.state.clone();
    host.does(kill(&ann, LEAD, Some(ChildrenPolicy::Keep)));
    assert_eq!(host.managed(CHILD).run_state, crate::RunState::Ready);
    std::mem::swap(&mut host.state, &mut other);
    host.does(kill(&ann, LEAD, Some(ChildrenPolicy::End)));
    assert_eq!(host.managed(CHILD).run_state, crate::RunState::Stopping);
    assert_eq!(host.managed(LEAD).run_state, crate::RunState::Stopping);
    // Nobody is told about it any more.
    assert_eq!(host.does(exits(CHILD)).len(), 4);
    host.does(exits(LEAD));
}

fn delegated(by_ceiling: Effect, to_itself: Effect) -> DelegationVerdict {
    DelegationVerdict {
        by_ceiling,
        to_itself,
    }
}

fn settles(ask: &ApprovalId, resolution: &str, delegated: Option<DelegationVerdict>) -> Input {
    let Input::ResolveApproval(input) = resolve(&agent(LEAD), ask, resolution) else {
        unreachable!("made above");
    };
    Input::ResolveApproval(ResolveApproval { delegated, ..input })
}

fn bash(caller: &Caller) -> AskRequest {
    AskRequest {
        tool: Some("Bash".to_owned()),
        input: Some(serde_json::from_str(r#"{"command":"ls"}"#).unwrap()),
        ..request(caller)
    }
}

#[test]
fn an_orchestrator_settles_inside_its_ceiling_only() {
    let mut host = family();
    let ask = host.ask(bash(&agent(CHILD)));
    let inside = Some(delegated(Effect::Allow, Effect::Ask));
    let above = Rejection::AboveCeiling(AgentId::new(LEAD));
    let none = Rejection::NoCeiling(AgentId::new(LEAD));
    for answer in ["approve", "deny"] {
        let refused = host.refuses_on_record(settles(&ask, answer, inside)).0;
        assert_eq!(refused, none);
    }
    host.does(set_ceiling(&["Bash(ls:*)"], Some(10_000)));
    for outside in [
        None,
        Some(delegated(Effect::Ask, Effect::Allow)),
        Some(delegated(Effect::Deny, Effect::Allow)),
        Some(delegated(Effect::Allow, Effect::Deny)),
    ] {
        let refused = host.refuses_on_record(settles(&ask, "approve", outside)).0;
        assert_eq!(refused, above);
    }
    let Input::ResolveApproval(mut edited) = settles(&ask, "approve", inside) else {
        unreachable!("made above");
    };
    edited.answer.edited_input = Some(Json::null());
    let edited = Input::ResolveApproval(edited);
    assert_eq!(host.refuses_on_record(edited).0, above);
    let own = host.ask(bash(&agent(LEAD)));
    let stranger = host.ask(bash(&agent("stranger")));
    for theirs in [&own, &stranger] {
        assert_eq!(
            host.refuses_on_record(settles(theirs, "approve", inside)).0,
            Rejection::AgentsCannotAnswer(AgentId::new(LEAD))
        );
    }
    host.does(settles(&ask, "approve", inside));
    assert_eq!(host.shows(&ask), "Allowed approve on nobody");
    let (late, denied) = (host.ask(bash(&agent(CHILD))), host.ask(bash(&agent(CHILD))));
    host.does(settles(&denied, "deny", None));
    // Its time is over before anybody swept it.
    host.now = Timestamp(0).plus_ms(10_000);
    assert_eq!(
        host.refuses_on_record(settles(&late, "approve", inside)).0,
        none
    );
}

#[test]
fn what_is_remembered_under_a_ceiling_ends_with_it() {
    let remember = |rule: &str| GrantDraft {
        rule: rule.to_owned(),
        effect: Effect::Allow,
        scope: GrantScope::default(),
        expires_in_ms: None,
        uses: None,
        origin: None,
    };
    let settle = |host: &mut Host, rule: &str| {
        let ask = host.ask(bash(&agent(CHILD)));
        let Input::ResolveApproval(mut input) = settles(
            &ask,
            "approve",
            Some(delegated(Effect::Allow, Effect::Allow)),
        ) else {
            unreachable!("made above");
        };
        input.answer.remember = vec![remember(rule)];
        input.grant_ids = vec![GrantId::new(format!("grant {ask}"))];
        host.decide(Input::ResolveApproval(input))
    };
    let ends: [fn(&mut Host); 3] = [
        |host| {
            host.does(Input::SetCeiling {
                caller: person("ann"),
                agent: AgentId::new(LEAD),
                ceiling: None,
            });
        },
        |host| {
            host.after_ms(10_000);
        },
        |host| {
            host.does(exits(LEAD));
        },
    ];
    for end in ends {
        let mut host = family();
        host.does(set_ceiling(&["Bash(ls:*)"], Some(10_000)));
        assert_eq!(
            settle(&mut host, "Bash(rm:*)").unwrap_err(),
            Rejection::AboveCeiling(AgentId::new(LEAD))
        );
        settle(&mut host, "Bash(ls:*)").unwrap();
        let grant = host.state.grants().next().unwrap().grant.clone();
        assert_eq!(grant.scope.session, Some(AgentId::new(CHILD)));
        assert_eq!(grant.ceiling, Some(AgentId::new(LEAD)));
        end(&mut host);
        assert_eq!(host.state.grants().len(), 0);
        assert_eq!(host.managed(LEAD).ceiling, None);
    }
}

#[test]
fn only_a_person_gives_a_ceiling_and_only_to_an_orchestrator() {
    let mut host = family();
    let ceiling = Some(Ceiling {
        rules: ["Bash".to_owned()].into(),
        until: None,
    });
    let set = |caller: Caller, agent: &str| Input::SetCeiling {
        caller,
        agent: AgentId::new(agent),
        ceiling: ceiling.clone(),
    };
    assert_eq!(
        host.refuses(set(agent(LEAD), LEAD)),
        Rejection::AgentNotAllowed(AgentId::new(LEAD))
    );
    assert_eq!(
        host.refuses(set(person("ann"), CHILD)),
        Rejection::NotAnOrchestrator(AgentId::new(CHILD))
    );
    assert!(matches!(
        host.refuses(set_ceiling(&[], None)),
        Rejection::BadGrant(_)
    ));
    assert_eq!(
        host.does(set(person("ann"), LEAD)),
        ["agent.ceiling_changed lead: Bash"]
    );
    assert_eq!(host.does(set(person("ann"), LEAD)), [""; 0]);
}

#[test]
fn parent_messages_survive_the_host() {
    let mut host = family();
    host.does(tells(CHILD, "half way", None));
    let (question, _) = host.asks_up("which?", None);
    let before = host.waits_for(LEAD);
    host.restart_with(&[LEAD, CHILD]);
    assert_eq!(host.waits_for(LEAD), before);
    host.does(turn_ends(LEAD, 1));
    assert_eq!(host.told(LEAD).len(), 2);
    assert!(host.state.find_question(&question).is_some());
    // Both are gone: nothing is said to anybody.
    let events = host.restart();
    assert!(
        !events
            .iter()
            .any(|event| event.starts_with("agent.message_queued"))
    );
}
