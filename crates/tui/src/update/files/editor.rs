//! The editor: reads a file, notices when it was changed outside, and writes it over what was shown.

use countersign_core::limits::PEOPLE_FILE_BYTES_MAX;
use countersign_protocol::{
    AgentTarget, FileForm, FilePage, ReadFileQuery, Reason, WriteFileBody, method,
};

use crate::agent_files::{AgentFile, EditorState, FileEditor, OtherContent};
use crate::host_call::{CallFailure, CallResult, FileReply, parse_result};
use crate::layout::PanelKind;
use crate::message::Effect;
use crate::model::{ConfirmPurpose, Model, Overlay};
use crate::render::escape;

use super::{call, say, say_failure};

/// How often the file is looked at while the editor is on the screen.
const CHECK_EVERY_MS: u64 = 3_000;

/// Why another file cannot be opened now.
pub(super) fn refusal_to_open(model: &Model, file: &AgentFile) -> Option<String> {
    let editor = model.files.editor.as_ref()?;
    let keeps = editor.file != *file && (editor.is_changed() || editor.saving.is_some());
    keeps.then(|| {
        let path = escape::line(&editor.file.path);
        format!("the editor has unsaved text of {path}: save it, or Ctrl-r there to drop it")
    })
}

pub(super) fn open(model: &mut Model, file: AgentFile) {
    let is_open = model
        .files
        .editor
        .as_ref()
        .is_some_and(|editor| editor.file == file);
    if !is_open {
        model.files.editor = Some(FileEditor::new(file));
    }
}

fn read(model: &mut Model, file: AgentFile, tag: FileReply) -> Option<Effect> {
    let params = AgentTarget {
        agent_id: file.agent,
        body: ReadFileQuery {
            path: file.path,
            limit: u32::try_from(PEOPLE_FILE_BYTES_MAX).ok(),
            ..ReadFileQuery::default()
        },
    };
    call::<method::ReadFile>(model, &params, tag)
}

fn is_shown(model: &Model) -> bool {
    let mut panels = model.drawn.panels.iter();
    panels.any(|panel| panel.spec.kind == PanelKind::Editor)
}

pub(super) fn load_visible(model: &mut Model) -> Vec<Effect> {
    if !is_shown(model) {
        return Vec::new();
    }
    let editor = model.files.editor.as_ref();
    let loading = editor.filter(|editor| editor.state == EditorState::Loading);
    let Some(file) = loading.map(|editor| editor.file.clone()) else {
        return Vec::new();
    };
    let tag = FileReply::Edit { file: file.clone() };
    read(model, file, tag).into_iter().collect()
}

/// What is there now counts as seen once a picture had it.
pub(in crate::update) fn record_drawn(model: &mut Model) {
    if is_shown(model)
        && let Some(editor) = &mut model.files.editor
        && editor.shows_other
        && let Some(other) = &mut editor.other
    {
        other.was_seen = true;
    }
}

pub(super) fn check(model: &mut Model) -> Option<Effect> {
    let is_due = model.now.ms >= model.files.checked_at + CHECK_EVERY_MS;
    let editor = model.files.editor.as_ref()?;
    if !is_due || !is_shown(model) || editor.state != EditorState::Ready || editor.saving.is_some()
    {
        return None;
    }
    let file = editor.file.clone();
    model.files.checked_at = model.now.ms;
    let tag = FileReply::Check { file: file.clone() };
    read(model, file, tag)
}

fn editor_of<'m>(model: &'m mut Model, file: &AgentFile) -> Option<&'m mut FileEditor> {
    model
        .files
        .editor
        .as_mut()
        .filter(|editor| editor.file == *file)
}

fn is_missing(failure: &CallFailure) -> bool {
    failure.reason == Some(Reason::UnknownFile)
}

/// The text of a file that can be written back.
fn editable_text(page: FilePage) -> Result<(String, Option<String>), String> {
    match (page.form, page.content) {
        (FileForm::Text, Some(text)) if page.digest.is_some() => Ok((text, page.digest)),
        (FileForm::Text, _) => Err(format!("it is larger than {PEOPLE_FILE_BYTES_MAX} bytes")),
        (FileForm::Damaged, _) => Err("it is not UTF-8 text".to_owned()),
        (FileForm::Binary, _) => Err("it is binary".to_owned()),
    }
}

pub(super) fn take_content(model: &mut Model, file: &AgentFile, result: CallResult) -> Vec<Effect> {
    let Some(editor) = editor_of(model, file) else {
        return Vec::new();
    };
    // A text that was begun meanwhile must not be replaced.
    if editor.state != EditorState::Loading {
        return Vec::new();
    }
    match parse_result::<method::ReadFile>(result) {
        Ok(page) => match editable_text(page) {
            Ok((text, digest)) => editor.load(text, digest),
            Err(why) => editor.state = EditorState::Refused(why),
        },
        // A file that does not exist is edited as an empty one, and made when it is saved.
        Err(failure) if is_missing(&failure) => editor.load(String::new(), None),
        Err(failure) => editor.state = EditorState::Refused(failure.message),
    }
    Vec::new()
}

/// Compares what is there with what was read.
pub(super) fn take_check(model: &mut Model, file: &AgentFile, result: CallResult) -> Vec<Effect> {
    let Some(editor) = editor_of(model, file) else {
        return Vec::new();
    };
    // What was read before a save says nothing about what is there after it.
    if editor.saving.is_some() || editor.state != EditorState::Ready {
        return Vec::new();
    }
    let found = match parse_result::<method::ReadFile>(result) {
        Ok(page) => OtherContent {
            digest: page.digest,
            text: page.content,
            was_seen: false,
        },
        Err(failure) if is_missing(&failure) => OtherContent::default(),
        // The next look finds out.
        Err(_) => return Vec::new(),
    };
    take_other(model, found)
}

fn take_other(model: &mut Model, found: OtherContent) -> Vec<Effect> {
    let Some(editor) = &mut model.files.editor else {
        return Vec::new();
    };
    if found.digest == editor.digest && (found.digest.is_some() || found.text.is_none()) {
        editor.other = None;
        editor.shows_other = false;
        return Vec::new();
    }
    if found
        .text
        .as_ref()
        .is_some_and(|text| editor.text.is_text(text))
    {
        // It was saved by a call whose answer was lost, or somebody wrote the same.
        editor.read = found.text.unwrap_or_default();
        editor.digest = found.digest;
        editor.other = None;
        editor.shows_other = false;
        return Vec::new();
    }
    let known = editor.other.as_ref();
    // The person was told about this content already.
    if known.is_some_and(|other| other.digest == found.digest && other.text == found.text) {
        return Vec::new();
    }
    // Nothing of the person's own is lost if the new content is simply shown.
    if let (false, Some(text), Some(digest)) = (editor.is_changed(), &found.text, &found.digest) {
        let (text, digest) = (text.clone(), digest.clone());
        let (line, _) = editor.text.cursor_line();
        editor.load(text, Some(digest));
        editor
            .text
            .move_lines(isize::try_from(line).unwrap_or_default());
        return say(model, "the file was changed outside and read again");
    }
    editor.other = Some(found);
    say(
        model,
        "the file was changed outside; yours is kept and nothing is written over it: o shows what is there",
    )
}

pub(super) fn why_not_save(model: &Model) -> Option<String> {
    if model.focused_kind() == PanelKind::Notes {
        return None;
    }
    if !model.host.is_up() {
        return Some("not connected: nothing can be saved; the text is kept".to_owned());
    }
    if !model.host.can_decide() {
        return Some("an observer can read files, and not write them".to_owned());
    }
    let Some(editor) = &model.files.editor else {
        return Some("no file is edited".to_owned());
    };
    match &editor.state {
        EditorState::Loading => Some("the file is being read".to_owned()),
        EditorState::Refused(why) => Some(format!("it cannot be edited: {}", escape::line(why))),
        EditorState::Ready if editor.saving.is_some() => Some("it is being saved".to_owned()),
        EditorState::Ready if editor.replaceable().is_none() => Some(
            "the file was changed outside: o shows what is there, then it can be replaced"
                .to_owned(),
        ),
        EditorState::Ready
            if editor.digest.is_some() && !editor.is_changed() && editor.other.is_none() =>
        {
            Some("nothing was changed".to_owned())
        }
        EditorState::Ready => None,
    }
}

pub(super) fn save(model: &mut Model) -> Vec<Effect> {
    if let Some(why) = why_not_save(model) {
        return say(model, why);
    }
    let Some(editor) = &mut model.files.editor else {
        return Vec::new();
    };
    let (file, text) = (editor.file.clone(), editor.text.text());
    if text.len() > PEOPLE_FILE_BYTES_MAX {
        return say(model, "not saved: the text is larger than 1048576 bytes");
    }
    // The host writes over this content only, so a change after the last look is refused
    // and not overwritten.
    let if_digest = editor.replaceable().flatten();
    // Kept apart from the text in the editor, which may change before the answer comes.
    editor.saving = Some(text.clone());
    let params = AgentTarget {
        agent_id: file.agent.clone(),
        body: WriteFileBody {
            content: text,
            if_digest,
            path: file.path.clone(),
        },
    };
    call::<method::WriteFile>(model, &params, FileReply::Saved { file })
        .into_iter()
        .collect()
}

pub(super) fn take_saved(model: &mut Model, file: &AgentFile, result: CallResult) -> Vec<Effect> {
    let Some(editor) = editor_of(model, file) else {
        return Vec::new();
    };
    let written = editor.saving.take().unwrap_or_default();
    match parse_result::<method::WriteFile>(result) {
        Ok(saved) => {
            editor.read = written;
            editor.digest = Some(saved.digest);
            editor.other = None;
            editor.shows_other = false;
            refresh_folder(model, file);
            let path = escape::line(&file.path).into_owned();
            say(model, format!("saved {path}"))
        }
        Err(failure) if failure.reason == Some(Reason::FileChanged) => {
            let file = file.clone();
            let mut effects = say(
                model,
                "not saved: the file was changed outside since it was read",
            );
            // At once, because the file cannot be saved before the person saw what is there now.
            let tag = FileReply::Check { file: file.clone() };
            effects.extend(read(model, file, tag));
            effects
        }
        Err(failure) => {
            let mut effects = say_failure(model, &failure);
            if failure.is_lost {
                effects = say(
                    model,
                    "lost the host: whether the file was saved shows after reconnecting",
                );
            }
            effects
        }
    }
}

/// A new file appears in the tree.
fn refresh_folder(model: &mut Model, file: &AgentFile) {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    if let Some(tree) = model.files.trees.get_mut(&file.agent) {
        tree.folders.remove(folder);
    }
    model.files.views.remove(file);
}

pub(super) fn toggle_other(model: &mut Model) -> Vec<Effect> {
    if let Some(editor) = &mut model.files.editor {
        editor.shows_other = !editor.shows_other && editor.other.is_some();
    }
    model.files.is_typing = false;
    Vec::new()
}

/// Reads the file again; text that is not saved is dropped only after a second key.
pub(super) fn reload(model: &mut Model) -> Vec<Effect> {
    let Some(editor) = &mut model.files.editor else {
        return say(model, "no file is edited");
    };
    if editor.is_changed() {
        let path = escape::line(&editor.file.path).into_owned();
        model.overlay = Some(Overlay::Confirm {
            purpose: ConfirmPurpose::DiscardText,
            question: format!("drop your unsaved changes of {path} and read it again?"),
            asked_at: model.now.ms,
        });
        return Vec::new();
    }
    discard_text(model)
}

pub(in crate::update) fn discard_text(model: &mut Model) -> Vec<Effect> {
    if let Some(editor) = &mut model.files.editor {
        *editor = FileEditor::new(editor.file.clone());
    }
    Vec::new()
}

/// The question before a screen with unsaved text is left.
pub(in crate::update) fn leave_unsaved(model: &Model) -> Option<Overlay> {
    let editor = model.files.editor.as_ref()?;
    editor.is_changed().then(|| Overlay::Confirm {
        purpose: ConfirmPurpose::LeaveUnsaved,
        question: format!("leave without saving {}?", escape::line(&editor.file.path)),
        asked_at: model.now.ms,
    })
}
