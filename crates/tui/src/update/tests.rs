//! What keys can and can never do.

mod files;
mod own_terminals;
mod properties;
mod safety;
mod search;
mod terminals;

use countersign_protocol::{
    HostAnswerLimits, HostApproval, HostAskView, HostChoice, HostChoiceQuestion,
};
use serde_json::json;

use crate::command::{Action, COMMANDS};
use crate::host_call::ReplyTag;
use crate::key::Key;
use crate::layout::PanelKind;
use crate::message::{Effect, Message};
use crate::model::PendingAllow;
use crate::test_rows;
use crate::test_screen::{TestScreen, decisions, event, only_decision};

const ASK: &str = "approval-aaaa11112222";

/// A screen whose ask has the focus, was read, and stands there for a while.
fn ready() -> TestScreen {
    let mut screen = TestScreen::connected(120, 40);
    screen.press("g s");
    screen.wait(600);
    screen
}

/// The same with an ask of more lines than fit.
fn ready_long() -> TestScreen {
    let mut screen = TestScreen::new(60, 20);
    screen.connect(vec![test_rows::bash(&["true"; 40].join("\n"))]);
    screen.press("g s");
    screen.wait(600);
    screen
}

#[test]
fn two_keys_allow_an_ask_that_was_read() {
    let mut screen = ready();
    assert_eq!(screen.press("a"), []);
    screen.wait(250);
    let effects = screen.press("y");
    assert_eq!(
        only_decision(&effects),
        json!({ "approval_id": ASK, "resolution": "approve", "considered_ms": 850 })
    );
    // Sent once, however often the key is pressed.
    screen.wait(600);
    assert_eq!(decisions(&screen.press("a y")).len(), 0);
}

#[test]
fn one_key_denies_and_words_go_with_it() {
    let mut screen = ready();
    assert_eq!(only_decision(&screen.press("d"))["resolution"], "deny");
    let mut screen = ready();
    screen.press("m n o Space y");
    let sent = only_decision(&screen.press("Enter"));
    assert_eq!(
        (&sent["resolution"], &sent["message"]),
        (&json!("deny"), &json!("no y"))
    );
}

#[test]
fn a_key_right_after_an_ask_appeared_decides_nothing() {
    let mut screen = TestScreen::connected(120, 40);
    screen.press("g s");
    for keys in ["a", "d", "s"] {
        assert_eq!(screen.press(keys), [], "{keys}");
        assert_eq!(screen.model.ask.pending, None, "{keys}");
    }
    assert!(
        screen.notice().contains("just appeared"),
        "{}",
        screen.notice()
    );
}

#[test]
fn a_second_key_too_soon_held_down_or_another_decides_nothing() {
    let mut screen = ready();
    screen.press("a");
    assert_eq!(screen.press("y"), []);
    screen.wait(300);
    let held = Message::Key {
        key: Key::char('y'),
        at: screen.moment().ms,
        is_repeat: true,
    };
    assert_eq!(screen.send(held), []);
    assert_eq!(screen.press("Alt-y"), []);
    assert_eq!(screen.model.ask.pending, None);
    screen.wait(300);
    assert_eq!(screen.press("y"), []);
}

#[test]
fn keys_typed_ahead_are_judged_by_when_they_were_typed() {
    let mut screen = TestScreen::connected(120, 40);
    screen.press("g s");
    let typed_at = screen.moment().ms;
    screen.wait(5_000);
    for key in ['a', 'y'] {
        let message = Message::Key {
            key: Key::char(key),
            at: typed_at,
            is_repeat: false,
        };
        assert_eq!(screen.send(message), []);
    }
}

#[test]
fn a_long_ask_is_allowed_only_after_its_end_was_seen() {
    let mut screen = ready_long();
    assert_eq!(screen.press("a"), []);
    assert_eq!(screen.notice(), "read it to the end first: PgDn");
    // To the bottom in one step is one page: nothing is jumped over.
    screen.press("G");
    assert_eq!(screen.press("a"), []);
    for _ in 0..10 {
        screen.press("PgDn");
    }
    screen.press("a");
    screen.wait(300);
    assert_eq!(decisions(&screen.press("y")).len(), 1);
}

#[test]
fn another_width_has_to_be_read_again() {
    let mut screen = ready();
    screen.press("a");
    screen.width = 100;
    screen.send(Message::Resized);
    screen.height = 10;
    screen.wait(600);
    assert_eq!(decisions(&screen.press("y")).len(), 0);
}

#[test]
fn nothing_is_decided_in_a_window_too_small_to_read() {
    let mut screen = TestScreen::connected(39, 9);
    screen.wait(5_000);
    screen.press("g s");
    assert_eq!(decisions(&screen.press("a")).len(), 0);
    screen.wait(600);
    assert_eq!(decisions(&screen.press("y d")).len(), 0);
}

#[test]
fn keys_that_decide_do_nothing_in_other_panels_and_in_text() {
    let mut screen = TestScreen::connected(120, 40);
    screen.wait(600);
    assert_eq!(screen.model.focused_kind(), PanelKind::Inbox);
    assert_eq!(decisions(&screen.press("a y d s y")).len(), 0);
    screen.press("Tab Tab Tab");
    assert_eq!(screen.model.focused_kind(), PanelKind::Transcript);
    screen.press("i");
    assert_eq!(decisions(&screen.press("a y d Esc")).len(), 0);
    assert_eq!(screen.notice(), "nothing was sent; the draft is kept");
}

#[test]
fn pasted_text_decides_nothing_and_takes_the_first_key_back() {
    let mut screen = ready();
    screen.press("a");
    screen.wait(300);
    assert_eq!(screen.send(Message::Paste("y".repeat(1_000_000))), []);
    assert_eq!(screen.model.ask.pending, None);
    assert_eq!(decisions(&screen.press("y")).len(), 0);
}

#[test]
fn an_ask_that_comes_takes_neither_focus_nor_selection() {
    let mut screen = ready();
    screen.press("a");
    let second = HostApproval {
        id: "approval-new".into(),
        sequence: 1,
        ..test_rows::approval()
    };
    let payload = serde_json::to_value(&second).unwrap();
    screen.send(Message::Event(Box::new(event(
        "approval.requested",
        &payload,
    ))));
    screen.wait(300);
    assert_eq!(only_decision(&screen.press("y"))["approval_id"], ASK);
}

#[test]
fn an_ask_that_ends_elsewhere_stays_and_takes_no_answer() {
    let mut screen = ready();
    screen.press("a");
    let ended = HostApproval {
        state: "denied".into(),
        resolved_by: Some(test_rows::who("ada", "operator")),
        ..test_rows::approval()
    };
    let payload = serde_json::to_value(&ended).unwrap();
    screen.send(Message::Event(Box::new(event(
        "approval.resolved",
        &payload,
    ))));
    screen.wait(600);
    assert_eq!(decisions(&screen.press("y d a")).len(), 0);
    assert!(
        screen.draw().contains("this ended: denied by ada"),
        "{}",
        screen.draw()
    );
    screen.press("J");
    assert_eq!(
        screen.model.inbox.selected_id(),
        Some("question-bbbb11112222")
    );
}

#[test]
fn a_lost_host_takes_no_answer_and_nothing_is_sent_again() {
    let mut screen = ready();
    screen.press("a");
    screen.wait(300);
    assert_eq!(decisions(&screen.press("y")).len(), 1);
    screen.send(Message::Lost);
    assert_eq!(
        screen.notice(),
        "lost the host: whether the answer arrived is known after reconnecting"
    );
    screen.wait(600);
    assert_eq!(decisions(&screen.press("a d")).len(), 0);
    let effects = screen.connect(vec![test_rows::approval()]);
    assert_eq!(decisions(&effects).len(), 0);
    assert_eq!(screen.notice(), "reconnected to the host");
    // Still open: it can be answered again, by keys.
    screen.wait(600);
    screen.press("a");
    screen.wait(300);
    assert_eq!(decisions(&screen.press("y")).len(), 1);
}

#[test]
fn what_ended_while_disconnected_is_marked_where_it_stood() {
    let mut screen = ready();
    screen.send(Message::Lost);
    screen.connect(Vec::new());
    assert!(
        screen.draw().contains("ENDED: ended while disconnected"),
        "{}",
        screen.draw()
    );
}

/// The reply to the call that reads an ask by its id.
fn whole(row: &HostApproval) -> Message {
    Message::Reply {
        tag: ReplyTag::Approval,
        result: Ok(serde_json::to_string(row).unwrap()),
    }
}

#[test]
fn a_brief_row_is_read_whole_from_the_host_before_it_can_be_allowed() {
    let mut listed = test_rows::approval();
    listed.make_listed();
    let mut screen = TestScreen::new(120, 40);
    let effects = screen.connect(vec![listed.clone()]);
    let reads = |effects: &[Effect]| {
        let calls = effects.iter().filter(|effect| match effect {
            Effect::Call(call) => call.tag == ReplyTag::Approval,
            _ => false,
        });
        calls.count()
    };
    assert_eq!(reads(&effects), 1);
    screen.press("g s");
    screen.wait(600);
    assert_eq!(screen.press("a"), []);
    screen.press("e");
    assert_eq!(
        screen.notice(),
        "the whole of it is still being read from the host"
    );
    screen.send(whole(&test_rows::approval()));
    screen.draw();
    screen.wait(600);
    screen.press("a");
    screen.wait(300);
    assert_eq!(only_decision(&screen.press("y"))["approval_id"], ASK);
    // After a new connection it is not read again: what it says cannot have changed.
    let mut screen = TestScreen::new(120, 40);
    screen.connect(vec![test_rows::approval()]);
    let inbox = screen.model.inbox.clone();
    screen.send(Message::Lost);
    assert_eq!(reads(&screen.connect(vec![listed.clone()])), 0);
    assert_eq!(screen.model.inbox, inbox);
    // An ask of another input under the same id is another ask, and is read.
    listed.input_digest = Some("another".to_owned());
    screen.send(Message::Lost);
    assert_eq!(reads(&screen.connect(vec![listed])), 1);
}

#[test]
fn a_window_that_got_the_focus_waits_again() {
    let mut screen = ready();
    screen.send(Message::Focused(false));
    assert_eq!(screen.press("d"), []);
    screen.wait(5_000);
    screen.send(Message::Focused(true));
    assert_eq!(screen.press("d"), []);
    screen.wait(500);
    assert_eq!(decisions(&screen.press("d")).len(), 1);
}

#[test]
fn the_answer_of_the_host_moves_on_and_a_late_one_says_who_was_first() {
    let mut screen = ready();
    screen.press("d");
    let tag = ReplyTag::Resolved { id: ASK.into() };
    screen.refuse(
        tag.clone(),
        "already answered\n  it ended as `deny` by ada",
        false,
    );
    assert_eq!(
        screen.notice(),
        "already answered   it ended as `deny` by ada"
    );
    assert_eq!(screen.model.inbox.selected_id(), Some(ASK));
    let denied = HostApproval {
        state: "denied".into(),
        ..test_rows::approval()
    };
    screen.reply(tag, &serde_json::to_value(&denied).unwrap());
    assert_eq!(screen.notice(), "aaaa1111 denied");
    assert_eq!(
        screen.model.inbox.selected_id(),
        Some("question-bbbb11112222")
    );
}

#[test]
fn rules_are_saved_exactly_as_shown_after_both_were_read() {
    let mut screen = ready();
    let effects = screen.press("s");
    assert!(matches!(&effects[..], [Effect::Call(call)] if call.method == "host.suggest_rules"));
    let tag = ReplyTag::Suggested {
        id: ASK.into(),
        option: "approve".into(),
    };
    let found = json!({ "candidates": [
        { "note": "this command", "part": 0, "rule": "Bash(cargo test --workspace)" },
        { "note": "wider", "part": 0, "rule": "Bash(cargo test:*)" },
    ] });
    let tests = screen.reply(tag, &found);
    assert_eq!(tests.len(), 2);
    let shown = screen.draw();
    assert!(
        shown.contains("[x] Bash(cargo test --workspace)"),
        "{shown}"
    );
    assert!(shown.contains("[ ] Bash(cargo test:*)"), "{shown}");
    screen.press("Space Down Space Down Space");
    screen.wait(300);
    let sent = only_decision(&screen.press("y"));
    assert_eq!(
        sent["remember"],
        json!({ "rules": ["Bash(cargo test:*)"], "scope": "session", "expires_in_ms": 2_592_000_000_u64 })
    );
}

#[test]
fn a_question_is_answered_in_words_and_a_choice_by_number() {
    let mut screen = ready();
    screen.press("J");
    screen.wait(600);
    screen.press("r y e s");
    let sent = only_decision(&screen.press("Alt-Enter"));
    assert_eq!(sent["answer"], "yes");
    let question = HostChoiceQuestion {
        choices: vec![HostChoice {
            description: None,
            label: "SQLite".into(),
        }],
        free_text: false,
        header: None,
        limits: HostAnswerLimits::default(),
        number: false,
        optional: false,
        question: "Which?".into(),
        several: false,
    };
    let mut screen = TestScreen::new(120, 40);
    screen.connect(vec![HostApproval {
        questions: vec![question],
        ..test_rows::approval()
    }]);
    screen.press("g s");
    screen.wait(600);
    assert_eq!(screen.press("a"), []);
    screen.press("r 7 Enter");
    assert!(
        screen.notice().starts_with("`7` is not one of the choices"),
        "{}",
        screen.notice()
    );
    screen.press("Backspace 1");
    let sent = only_decision(&screen.press("Enter"));
    assert_eq!(
        (&sent["resolution"], &sent["answers"]),
        (&json!("approve"), &json!([["SQLite"]]))
    );
}

#[test]
fn another_input_is_sent_as_it_was_typed_after_a_second_key() {
    let mut screen = TestScreen::new(120, 40);
    let row = test_rows::approval();
    let view = row.view.clone().map(|view| HostAskView {
        editable: true,
        ..view
    });
    screen.connect(vec![HostApproval { view, ..row }]);
    screen.press("g s");
    screen.wait(600);
    screen.press("e Space - q");
    assert_eq!(decisions(&screen.press("Ctrl-s")).len(), 0);
    screen.wait(300);
    let sent = only_decision(&screen.press("y"));
    assert_eq!(
        sent["edited_input"],
        json!({ "command": "cargo test --workspace -q" })
    );
}

#[test]
fn asks_that_are_exactly_alike_are_allowed_together() {
    let mut screen = TestScreen::new(120, 40);
    let second = HostApproval {
        id: "approval-two".into(),
        sequence: 9,
        ..test_rows::approval()
    };
    screen.connect(vec![test_rows::approval(), second]);
    screen.press("g s");
    screen.wait(600);
    screen.press("=");
    assert!(
        matches!(&screen.model.ask.pending, Some(PendingAllow::Many { ids }) if ids.len() == 2)
    );
    screen.wait(300);
    assert_eq!(
        only_decision(&screen.press("y"))["answers"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

#[test]
fn killing_and_bypassing_take_a_second_key() {
    let mut screen = TestScreen::connected(120, 40);
    screen.press("g a X");
    let asked = screen.draw();
    assert!(
        asked.contains("kill builder, with every process it started?"),
        "{asked}"
    );
    assert_eq!(screen.press("y"), []);
    screen.wait(300);
    let effects = screen.press("y");
    assert!(
        matches!(&effects[..], [Effect::Call(call)] if call.method == "host.kill_agent"),
        "{effects:?}"
    );
    let mut screen = TestScreen::connected(120, 40);
    screen.press("g a B 5 Enter");
    screen.wait(300);
    assert_eq!(screen.press("Enter"), []);
    assert_eq!(screen.notice(), "nothing was done");
}

#[test]
fn the_palette_finds_commands_and_never_decides() {
    let mut screen = TestScreen::connected(120, 40);
    screen.wait(600);
    screen.press(": d e n y Space t h i s");
    assert!(
        screen.draw().contains("ask.deny: deny this ask"),
        "{}",
        screen.draw()
    );
    assert_eq!(decisions(&screen.press("Enter")).len(), 0);
    assert_eq!(screen.model.focused_kind(), PanelKind::Ask);
}

#[test]
fn every_command_can_be_performed_from_every_panel_without_deciding() {
    for command in COMMANDS {
        if command.action == Action::Deny {
            continue;
        }
        let mut screen = ready();
        let words: Vec<String> = command.id.chars().map(|c| c.to_string()).collect();
        screen.press(&format!(": {}", words.join(" ")));
        let effects = screen.press("Enter");
        assert_eq!(decisions(&effects).len(), 0, "{}", command.id);
        screen.draw();
    }
}

#[test]
fn going_back_never_leaves_by_escape() {
    let mut screen = TestScreen::connected(120, 40);
    assert_eq!(screen.press("g s Enter"), []);
    assert_eq!(screen.press("Esc Esc Esc Esc"), []);
    assert_eq!(screen.press("q"), [Effect::Quit]);
}

#[test]
fn words_with_a_slash_do_what_they_say_and_are_not_sent() {
    let methods = |keys: &str| -> (Vec<&'static str>, String) {
        let mut screen = TestScreen::connected(120, 40);
        screen.press("g t i");
        screen.send(Message::Paste(keys.to_owned()));
        let effects = screen.press("Ctrl-s");
        let calls = effects.iter().filter_map(|effect| match effect {
            Effect::Call(call) => Some(call.method),
            _ => None,
        });
        (calls.collect(), screen.notice().to_owned())
    };
    assert_eq!(methods("hello").0, ["host.prompt_agent"]);
    assert_eq!(methods("//hello").0, ["host.prompt_agent"]);
    assert_eq!(methods("/rename api").0, ["host.rename_agent"]);
    assert_eq!(methods("/reset").0, ["host.spawn_agent"]);
    assert_eq!(methods("/cd /srv/other").0, ["host.spawn_agent"]);
    assert_eq!(
        methods("/cd other"),
        (vec![], "/cd takes an absolute path".to_owned())
    );
    assert_eq!(methods("/require-permissions").0, ["host.set_bypass"]);
    // A bypass takes its second key.
    assert_eq!(methods("/bypass-permissions 30m").0, Vec::<&str>::new());
    assert!(methods("/help").1.starts_with("/reset: new session"));
    assert!(methods("/nothing").1.starts_with("there is no /nothing"));
}

#[test]
fn a_diff_that_there_is_not_is_explained_in_its_panel() {
    let mut screen = ready();
    screen.press("D");
    let tag = ReplyTag::Diff {
        agent: "builder".into(),
    };
    screen.refuse(tag, "agent 'builder' has no worktree of its own", false);
    let shown = screen.draw();
    assert!(shown.contains("Diff of builder ─"), "{shown}");
    assert!(
        shown.contains("agent 'builder' has no worktree of its own"),
        "{shown}"
    );
    assert_eq!(screen.notice(), "");
}

#[test]
fn an_agent_of_the_history_stays_selected_when_others_come_before_it() {
    let mut screen = TestScreen::connected(120, 40);
    screen.press("g h j");
    let chosen = screen.model.subject_agent().unwrap().clone();
    screen.draw();
    let mut other = screen.model.host.agents.values().next().unwrap().clone();
    other.id = "newest".into();
    other.name = "newest".into();
    if let Some(managed) = &mut other.managed {
        managed.last_activity = countersign_protocol::Time(200_000_000);
    }
    screen.model.host.update_agent(other);
    assert_eq!(screen.model.subject_agent(), Some(&chosen));
    assert!(screen.draw().contains("newest"));
}

#[test]
fn tabs_and_layouts_change_and_come_back() {
    let mut screen = TestScreen::connected(120, 40);
    let home = screen.draw();
    screen.press("Ctrl-t j Enter");
    assert!(screen.draw().contains("[Review 2/2]"), "{}", screen.draw());
    assert_eq!(screen.press("Alt-5"), []);
    assert_eq!(screen.notice(), "there is no such tab: Ctrl-t opens one");
    screen.press("Alt-1 Ctrl-g w");
    assert!(screen.draw().contains("Diff of"), "{}", screen.draw());
    screen.press("L Enter");
    screen.model.notices.clear();
    assert_eq!(screen.draw(), home);
    screen.press("Ctrl-g Right");
    assert_ne!(screen.draw(), home);
    screen.press("Ctrl-g =");
    assert_eq!(screen.draw(), home);
    let effects = screen.press("Ctrl-g s m i n e Enter");
    assert!(
        matches!(&effects[..], [Effect::SaveLayout { name, .. }] if name == "mine"),
        "{effects:?}"
    );
}

#[test]
fn files_of_settings_change_the_screen_and_a_broken_one_is_named() {
    use crate::keymap::Keymap;
    use crate::message::SettingsFiles;
    let mut screen = ready();
    let files = SettingsFiles {
        keymap: Some(Keymap::parse("\"ask.deny\" = \"D\"\n\"diff.open\" = []\n").unwrap()),
        problems: vec!["themes/mine.toml: line 3: odd".into()],
        ..SettingsFiles::default()
    };
    screen.send(Message::Settings(Box::new(files)));
    assert_eq!(screen.notice(), "themes/mine.toml: line 3: odd");
    assert_eq!(decisions(&screen.press("d")).len(), 0);
    assert_eq!(decisions(&screen.press("D")).len(), 1);
}

#[test]
fn a_rule_is_written_with_its_back_test_and_a_second_key() {
    let mut screen = TestScreen::connected(120, 40);
    screen.press("g r +");
    screen.send(Message::Paste("Bash(ls:*)".into()));
    let effects = screen.press("Enter");
    assert!(
        matches!(&effects[..], [Effect::Call(call)] if call.method == "host.backtest_rule"),
        "{effects:?}"
    );
    let tested = json!({
        "agreed": 1, "already_settled_by_rules": 0, "contradicted": [], "examined": 9, "settled": 4,
        "skipped_by_others": 0, "would_settle": [],
    });
    screen.reply(
        ReplyTag::RuleTested {
            rule: "Bash(ls:*)".into(),
        },
        &tested,
    );
    assert!(
        screen
            .draw()
            .contains("of 9 decisions by hand it would have settled 4"),
        "{}",
        screen.draw()
    );
    screen.wait(300);
    let effects = screen.press("y");
    assert!(
        matches!(&effects[..], [Effect::Call(call)] if call.method == "host.add_rule"),
        "{effects:?}"
    );
}
