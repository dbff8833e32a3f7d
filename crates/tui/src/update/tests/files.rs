//! The tree, the viewer, the editor, the tail and the notes.

use serde_json::{Value, json};

use crate::agent_files::AgentFile;
use crate::host_call::{FileReply, HostCall, ReplyTag};
use crate::layout::PanelKind;
use crate::message::{Effect, KeptNotes, Message};
use crate::test_screen::{TestScreen, decisions};

fn file(path: &str) -> AgentFile {
    AgentFile {
        agent: "builder".into(),
        path: path.into(),
    }
}

fn calls(effects: Vec<Effect>) -> Vec<HostCall> {
    let found = effects.into_iter().filter_map(|effect| match effect {
        Effect::Call(call) if matches!(call.tag, ReplyTag::File(_)) => Some(call),
        _ => None,
    });
    found.collect()
}

/// The tag of a call that was made with the picture that first showed a panel.
fn asked(screen: &TestScreen, tag: FileReply) -> ReplyTag {
    let loading = &screen.model.loading;
    assert!(loading.contains(&format!("{tag:?}")), "{loading:?}");
    ReplyTag::File(tag)
}

fn viewed(path: &str) -> FileReply {
    FileReply::View {
        file: file(path),
        offset: 0,
    }
}

fn params(call: &HostCall) -> Value {
    serde_json::from_str(&call.params).unwrap()
}

fn page(path: &str, text: &str, digest: &str) -> Value {
    json!({
        "content": text, "digest": digest, "form": "text", "from": 0, "next": text.len(), "path": path,
        "size": text.len(),
    })
}

fn folder(path: &str, names: &[(&str, &str)]) -> Value {
    let entries: Vec<Value> = names
        .iter()
        .map(|(name, kind)| json!({ "name": name, "kind": kind }))
        .collect();
    json!({ "entries": entries, "folder": "/srv/app", "more": false, "path": path })
}

/// A screen with the tree of `builder`.
fn tree() -> TestScreen {
    let mut screen = TestScreen::connected(100, 30);
    screen.press("g i O");
    assert_eq!(screen.model.focused_kind(), PanelKind::Files);
    let tag = FileReply::Folder {
        agent: "builder".into(),
        path: String::new(),
    };
    let names = [
        ("src", "folder"),
        ("README.md", "file"),
        ("notes.txt", "file"),
    ];
    screen.reply(ReplyTag::File(tag), &folder("", &names));
    screen
}

/// A screen with an editor on `notes.txt`.
fn editing(text: &str) -> TestScreen {
    let mut screen = tree();
    screen.press("G e");
    assert_eq!(screen.model.focused_kind(), PanelKind::Editor);
    let tag = FileReply::Edit {
        file: file("notes.txt"),
    };
    screen.reply(ReplyTag::File(tag), &page("notes.txt", text, "d1"));
    screen.draw();
    screen
}

fn written(effects: Vec<Effect>) -> Value {
    let calls = calls(effects);
    let found = calls.iter().find(|call| call.method == "host.write_file");
    params(found.unwrap_or_else(|| panic!("{calls:?}")))
}

#[test]
fn folders_are_listed_when_they_are_unfolded_and_files_open_the_viewer() {
    let mut screen = tree();
    assert!(screen.draw().contains("+ src/"), "{}", screen.draw());
    let listed = calls(screen.press("Enter"));
    assert_eq!(params(&listed[0])["path"], "src");
    screen.reply(listed[0].tag.clone(), &folder("src", &[("lib.rs", "file")]));
    let shown = screen.draw();
    assert!(
        shown.contains("- src/") && shown.contains("lib.rs"),
        "{shown}"
    );
    screen.press("j Enter");
    assert_eq!(screen.model.focused_kind(), PanelKind::Viewer);
    let tag = asked(&screen, viewed("src/lib.rs"));
    screen.reply(tag, &page("src/lib.rs", "fn main() {}\n", "d"));
    let shown = screen.draw();
    assert!(shown.contains("src/lib.rs of builder"), "{shown}");
    assert!(shown.contains("    1 fn main() {}"), "{shown}");
    screen.press("q h");
    assert_eq!(screen.model.files.trees["builder"].cursor, "src");
    assert!(calls(screen.press("h")).is_empty());
    assert!(!screen.draw().contains("lib.rs"));
}

#[test]
fn a_filter_shows_the_listed_paths_that_have_it() {
    let mut screen = tree();
    screen.press("/ r e a d Enter");
    let shown = screen.draw();
    assert!(
        shown.contains("README.md") && !shown.contains("notes.txt"),
        "{shown}"
    );
}

#[test]
fn large_files_are_read_page_by_page() {
    let mut screen = tree();
    screen.press("j Enter");
    let tag = asked(&screen, viewed("README.md"));
    let mut first = page("README.md", "one\n", "d");
    first["size"] = json!(8);
    screen.reply(tag, &first);
    let more = calls(screen.press("n"));
    assert_eq!(params(&more[0])["offset"], 4);
    let mut second = page("README.md", "two\n", "d");
    (second["from"], second["next"], second["size"]) = (json!(4), json!(8), json!(8));
    screen.reply(more[0].tag.clone(), &second);
    let shown = screen.draw();
    assert!(
        shown.contains("bytes 4 to 8 of 8") && shown.contains("two"),
        "{shown}"
    );
    screen.press("n");
    assert_eq!(screen.notice(), "there is no other page");
    assert_eq!(params(&calls(screen.press("p"))[0])["offset"], 0);
}

#[test]
fn an_edited_file_is_saved_over_what_was_read() {
    let mut screen = editing("a\tb\r\nc");
    screen.press("i");
    // Letters are text: not one of them is a command or a decision.
    let effects = screen.press("d q y a X Space Tab");
    assert!(decisions(&effects).is_empty(), "{effects:?}");
    let save = written(screen.press("Ctrl-s"));
    assert_eq!(
        save,
        json!({ "agent_id": "builder", "path": "notes.txt", "content": "dqyaX \ta\tb\r\nc", "if_digest": "d1" })
    );
    let tag = FileReply::Saved {
        file: file("notes.txt"),
    };
    screen.reply(
        ReplyTag::File(tag),
        &json!({ "digest": "d2", "path": "notes.txt", "size": 13 }),
    );
    assert_eq!(screen.notice(), "saved notes.txt");
    screen.press("z");
    assert_eq!(written(screen.press("Ctrl-s"))["if_digest"], "d2");
}

#[test]
fn a_file_that_was_changed_outside_is_shown_before_it_is_replaced() {
    let mut screen = editing("mine");
    screen.press("i x Ctrl-s");
    let tag = FileReply::Saved {
        file: file("notes.txt"),
    };
    let failure = crate::host_call::CallFailure {
        message: "it was changed".into(),
        reason: Some(countersign_protocol::Reason::FileChanged),
        is_lost: false,
    };
    let looked = calls(screen.send(Message::Reply {
        tag: ReplyTag::File(tag),
        result: Err(failure),
    }));
    screen.reply(looked[0].tag.clone(), &page("notes.txt", "theirs", "d9"));
    assert!(
        screen.draw().contains("CHANGED OUTSIDE"),
        "{}",
        screen.draw()
    );
    // Nothing is written before it was seen.
    assert!(
        calls(screen.press("Ctrl-s"))
            .iter()
            .all(|call| call.method != "host.write_file")
    );
    screen.press("Esc o");
    let shown = screen.draw();
    assert!(
        shown.contains("theirs") && !shown.contains("xmine"),
        "{shown}"
    );
    screen.press("o");
    assert!(screen.draw().contains("xmine"));
    let save = written(screen.press("Ctrl-s"));
    assert_eq!(
        (&save["content"], &save["if_digest"]),
        (&json!("xmine"), &json!("d9"))
    );
}

#[test]
fn an_unchanged_text_follows_the_file_and_unsaved_text_never_goes_by_itself() {
    let mut screen = editing("old");
    screen.wait(3_000);
    let looked = calls(screen.send(Message::Tick));
    assert_eq!(looked.len(), 1, "{looked:?}");
    screen.reply(looked[0].tag.clone(), &page("notes.txt", "new", "d2"));
    assert!(screen.draw().contains("new"));
    screen.press("i x Esc");
    screen.press("Ctrl-r");
    assert!(
        screen
            .draw()
            .contains("drop your unsaved changes of notes.txt"),
        "{}",
        screen.draw()
    );
    screen.press("n g i");
    // Another file does not take the editor, and leaving asks.
    screen.press("O k e");
    assert!(
        screen.notice().contains("unsaved text of notes.txt"),
        "{}",
        screen.notice()
    );
    screen.press("q q");
    assert!(
        screen.draw().contains("leave without saving notes.txt?"),
        "{}",
        screen.draw()
    );
    screen.wait(300);
    assert!(screen.press("y").contains(&Effect::Quit));
}

#[test]
fn a_new_file_is_made_only_if_it_does_not_exist() {
    let mut screen = tree();
    screen.press("+ s r c / n e w Enter");
    let tag = FileReply::Edit {
        file: file("src/new"),
    };
    let failure = crate::host_call::CallFailure {
        message: "there is no file".into(),
        reason: Some(countersign_protocol::Reason::UnknownFile),
        is_lost: false,
    };
    screen.send(Message::Reply {
        tag: ReplyTag::File(tag),
        result: Err(failure),
    });
    screen.press("i h i");
    let save = written(screen.press("Ctrl-s"));
    assert_eq!(
        save,
        json!({ "agent_id": "builder", "path": "src/new", "content": "hi" })
    );
}

#[test]
fn what_an_outer_editor_wrote_is_taken_to_the_byte() {
    let mut screen = editing("a\n");
    let effects = screen.press("Ctrl-e");
    assert!(
        effects.contains(&Effect::OpenEditor("a\n".into())),
        "{effects:?}"
    );
    screen.send(Message::Edited(Some("b\n\n".into())));
    assert_eq!(written(screen.press("Ctrl-s"))["content"], "b\n\n");
}

#[test]
fn binary_files_are_not_edited() {
    let mut screen = tree();
    screen.press("G e");
    let tag = FileReply::Edit {
        file: file("notes.txt"),
    };
    let binary = json!({ "form": "binary", "from": 0, "next": 3, "path": "notes.txt", "size": 3, "digest": "d" });
    screen.reply(ReplyTag::File(tag), &binary);
    assert!(
        screen.draw().contains("it cannot be edited: it is binary"),
        "{}",
        screen.draw()
    );
    screen.press("i");
    assert_eq!(screen.notice(), "this file cannot be edited");
}

#[test]
fn a_tail_reads_what_was_appended_once_a_second() {
    let mut screen = tree();
    screen.press("G t");
    let first = FileReply::Tail {
        file: file("notes.txt"),
        after: None,
    };
    let tag = asked(&screen, first);
    screen.reply(tag, &page("notes.txt", "one\n", "d"));
    let more = calls(screen.send(Message::Tick));
    assert_eq!(params(&more[0])["offset"], 4);
    // One at a time, however slow the host is.
    assert!(calls(screen.send(Message::Tick)).is_empty());
    let mut piece = page("notes.txt", "two\n", "d");
    (piece["from"], piece["next"], piece["size"]) = (json!(4), json!(8), json!(8));
    screen.reply(more[0].tag.clone(), &piece);
    let shown = screen.draw();
    assert!(
        shown.contains("following the end") && shown.contains("two"),
        "{shown}"
    );
}

#[test]
fn notes_are_saved_a_second_after_they_were_changed_and_when_they_are_left() {
    let mut screen = TestScreen::connected(100, 30);
    screen.press("g n");
    assert!(screen.model.loading.contains("notes"));
    let kept = KeptNotes {
        folder: "/srv/app".into(),
        text: "ask Ada".into(),
    };
    screen.send(Message::Notes(Ok(kept)));
    screen.press("i ! Enter");
    assert_eq!(screen.model.files.notes.saved_at(), Some(2_000));
    screen.wait(999);
    assert!(
        !screen
            .send(Message::Tick)
            .iter()
            .any(|effect| matches!(effect, Effect::SaveNotes(_)))
    );
    screen.wait(1);
    let saved = Effect::SaveNotes("ask Ada!\n".into());
    assert!(screen.send(Message::Tick).contains(&saved));
    screen.press("z");
    assert!(
        screen
            .press("Esc")
            .contains(&Effect::SaveNotes("ask Ada!\nz".into()))
    );
    screen.press("i z");
    let effects = screen.type_key(crate::key::Key::ctrl('c'));
    assert_eq!(
        effects,
        [Effect::SaveNotes("ask Ada!\nzz".into()), Effect::Quit]
    );
}

#[test]
fn files_are_found_in_the_palette_by_some_of_their_letters() {
    let mut screen = tree();
    let listing = calls(screen.press("Ctrl-g f"));
    assert_eq!(params(&listing[0])["recursive"], true);
    let found = folder(
        "",
        &[("README.md", "file"), ("crates/tui/src/canvas.rs", "file")],
    );
    screen.reply(listing[0].tag.clone(), &found);
    screen.press("t u i c v s");
    let shown = screen.draw();
    assert!(
        shown.contains("file crates/tui/src/canvas.rs") && !shown.contains("file README"),
        "{shown}"
    );
    screen.press("Enter");
    asked(&screen, viewed("crates/tui/src/canvas.rs"));
    assert_eq!(screen.model.focused_kind(), PanelKind::Viewer);
}

#[test]
fn pasted_text_goes_into_the_text_that_is_written_and_nowhere_else() {
    let mut screen = editing("");
    screen.send(Message::Paste("x".into()));
    assert_eq!(screen.notice(), "pasted text is ignored here");
    screen.press("i");
    screen.send(Message::Paste("a\ty\n".into()));
    assert_eq!(written(screen.press("Ctrl-s"))["content"], "a\ty\n");
}

#[test]
fn an_ask_that_comes_while_a_person_writes_takes_nothing() {
    let mut screen = editing("");
    screen.press("i");
    screen.connect(vec![crate::test_rows::approval()]);
    screen.wait(2_000);
    let effects = screen.press("a y d s y");
    assert!(decisions(&effects).is_empty(), "{effects:?}");
    assert_eq!(screen.model.focused_kind(), PanelKind::Editor);
    assert_eq!(written(screen.press("Ctrl-s"))["content"], "aydsy");
}
