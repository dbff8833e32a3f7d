//! Files of agents: the tree, which file is opened, and what is asked of the host.
//!
//! Invariant: nothing is written but by the editor, and there only over what was shown.

mod editor;
mod notes;
mod readers;
mod typing;

use countersign_protocol::{AgentTarget, ListFilesQuery, ListedFileKind, method};

use crate::agent_files::{AgentFile, FileTree, FoundFiles, join_path};
use crate::command::FileCommand;
use crate::host_call::{
    CallFailure, CallLane, CallResult, FileReply, HostCall, ReplyTag, parse_result,
};
use crate::layout::{PanelKind, PanelSpec};
use crate::message::Effect;
use crate::model::{Model, Overlay, TextPurpose};
use crate::render::escape;
use crate::text_box::TextBox;

use super::{commands, overlays, say};

pub(super) use editor::{discard_text, leave_unsaved, record_drawn};
pub(super) use notes::{save_before_leaving, take_notes};
pub(super) use readers::refresh;
pub(super) use typing::{handle_edited, handle_key, handle_paste};

/// With what the palette lists files only.
pub(super) const FIND_WORD: &str = "file ";

/// Why a command about files cannot be done now.
pub(super) fn why_not(model: &Model, command: FileCommand) -> Option<String> {
    match command {
        FileCommand::View | FileCommand::Edit | FileCommand::Tail => subject_file(model)
            .is_none()
            .then(|| "no file is selected".to_owned()),
        FileCommand::New | FileCommand::Find => panel_agent(model)
            .is_none()
            .then(|| "no agent is selected".to_owned()),
        FileCommand::Save => editor::why_not_save(model),
        FileCommand::ShowOther => {
            let editor = model.files.editor.as_ref();
            let has_other = editor.is_some_and(|editor| editor.other.is_some());
            (!has_other).then(|| "the file was not changed outside".to_owned())
        }
        FileCommand::Write | FileCommand::ExternalEditor => typing::why_not(model),
        FileCommand::Fold
        | FileCommand::Unfold
        | FileCommand::Format
        | FileCommand::NextPage
        | FileCommand::PreviousPage => None,
    }
}

pub(super) fn perform(model: &mut Model, command: FileCommand) -> Vec<Effect> {
    match command {
        FileCommand::Fold => fold(model),
        FileCommand::Unfold => unfold(model),
        FileCommand::View => open_subject(model, PanelKind::Viewer),
        FileCommand::Edit => open_subject(model, PanelKind::Editor),
        FileCommand::Tail => open_subject(model, PanelKind::Tail),
        FileCommand::New => begin_new(model),
        FileCommand::Find => find(model),
        FileCommand::Format => readers::toggle_format(model),
        FileCommand::NextPage => readers::turn_page(model, true),
        FileCommand::PreviousPage => readers::turn_page(model, false),
        FileCommand::Write => typing::begin(model),
        FileCommand::Save => save_focused(model),
        FileCommand::ShowOther => editor::toggle_other(model),
        FileCommand::ExternalEditor => typing::open_external(model),
    }
}

fn save_focused(model: &mut Model) -> Vec<Effect> {
    match model.focused_kind() {
        PanelKind::Notes => notes::save_now(model).into_iter().collect(),
        _ => editor::save(model),
    }
}

fn panel_agent(model: &Model) -> Option<String> {
    let panel = model.focused_panel();
    let agent = if is_about_files(panel.kind) {
        model.panel_agent(&panel)
    } else {
        model.subject_agent()
    };
    agent.map(|agent| agent.id.clone())
}

fn is_about_files(kind: PanelKind) -> bool {
    matches!(
        kind,
        PanelKind::Files | PanelKind::Viewer | PanelKind::Editor | PanelKind::Tail
    )
}

/// The file that a panel shows: the one that a layout names, or the one that was opened last.
pub(crate) fn file_of(model: &Model, panel: &PanelSpec) -> Option<AgentFile> {
    let agent = model.panel_agent(panel)?.id.clone();
    let opened = model.files.opened.get(&agent);
    let path = panel.show.as_ref().or(opened)?.clone();
    Some(AgentFile { agent, path })
}

/// The file that a command is about: the selected row of the tree, or the one that the panel shows.
fn subject_file(model: &Model) -> Option<AgentFile> {
    let panel = model.focused_panel();
    if panel.kind != PanelKind::Files {
        return file_of(model, &panel);
    }
    let agent = model.panel_agent(&panel)?.id.clone();
    let tree = model.files.trees.get(&agent)?;
    let filter = model.view(&panel.id).filter;
    let row = tree
        .rows(&filter)
        .into_iter()
        .nth(tree.selected_index(&filter))?;
    let is_file = row
        .entry
        .is_some_and(|entry| matches!(entry.kind, ListedFileKind::File | ListedFileKind::Link));
    is_file.then_some(AgentFile {
        agent,
        path: row.path,
    })
}

fn open_subject(model: &mut Model, kind: PanelKind) -> Vec<Effect> {
    match subject_file(model) {
        Some(file) => open_file(model, file, kind),
        None => say(model, "no file is selected"),
    }
}

/// Shows a file in a panel.
pub(super) fn open_file(model: &mut Model, file: AgentFile, kind: PanelKind) -> Vec<Effect> {
    if kind == PanelKind::Editor
        && let Some(refusal) = editor::refusal_to_open(model, &file)
    {
        return say(model, refusal);
    }
    model.selected_agent = Some(file.agent.clone());
    model
        .files
        .opened
        .insert(file.agent.clone(), file.path.clone());
    if kind == PanelKind::Editor {
        editor::open(model, file);
    }
    commands::go(model, kind)
}

/// Opens the selected file, or unfolds the selected folder.
pub(super) fn open_selected(model: &mut Model) -> Vec<Effect> {
    match subject_file(model) {
        Some(file) => open_file(model, file, PanelKind::Viewer),
        None => unfold(model),
    }
}

fn with_tree(model: &mut Model, change: impl FnOnce(&mut FileTree, &str)) {
    let panel = model.focused_panel();
    let filter = model.view(&panel.id).filter;
    let agent = model.panel_agent(&panel).map(|agent| agent.id.clone());
    if let Some(tree) = agent.and_then(|agent| model.files.trees.get_mut(&agent)) {
        change(tree, &filter);
    }
}

fn unfold(model: &mut Model) -> Vec<Effect> {
    with_tree(model, |tree, filter| {
        let index = tree.selected_index(filter);
        let row = tree.rows(filter).into_iter().nth(index);
        let folder = row.filter(|row| {
            row.entry
                .is_some_and(|entry| entry.kind == ListedFileKind::Folder)
        });
        if let Some(path) = folder.map(|row| row.path) {
            tree.cursor.clone_from(&path);
            if !tree.expanded.insert(path.clone()) {
                tree.expanded.remove(&path);
            }
        }
    });
    Vec::new()
}

/// Folds the selected folder, or goes to the folder that holds the row.
fn fold(model: &mut Model) -> Vec<Effect> {
    with_tree(model, |tree, filter| {
        let index = tree.selected_index(filter);
        let Some(path) = tree.rows(filter).into_iter().nth(index).map(|row| row.path) else {
            return;
        };
        if !tree.expanded.remove(&path)
            && let Some((folder, _)) = path.rsplit_once('/')
        {
            folder.clone_into(&mut tree.cursor);
        }
    });
    Vec::new()
}

pub(super) fn move_cursor(model: &mut Model, panel: &PanelSpec, steps: isize) -> Vec<Effect> {
    match panel.kind {
        PanelKind::Files => with_tree(model, |tree, filter| tree.move_cursor(filter, steps)),
        PanelKind::Viewer => readers::scroll_view(model, panel, steps),
        PanelKind::Tail => readers::scroll_tail(model, panel, steps),
        _ => typing::move_lines(model, panel, steps),
    }
    Vec::new()
}

/// Asks for the name of a new file, beside what is selected.
fn begin_new(model: &mut Model) -> Vec<Effect> {
    let Some(agent) = panel_agent(model) else {
        return say(model, "no agent is selected");
    };
    let cursor = model
        .files
        .trees
        .get(&agent)
        .map(|tree| tree.cursor.clone());
    let folder = cursor.and_then(|path| Some(path.rsplit_once('/')?.0.to_owned()));
    let start = folder.map_or(String::new(), |folder| join_path(&folder, ""));
    overlays::open_text(model, TextPurpose::NewFile { agent }, &start)
}

/// Opens the editor on a file that does not exist; it is made when it is saved.
pub(super) fn create(model: &mut Model, agent: String, path: &str) -> Vec<Effect> {
    let file = AgentFile {
        agent,
        path: path.to_owned(),
    };
    open_file(model, file, PanelKind::Editor)
}

/// Opens the palette for files alone.
fn find(model: &mut Model) -> Vec<Effect> {
    let Some(agent) = panel_agent(model) else {
        return say(model, "no agent is selected");
    };
    model.selected_agent = Some(agent.clone());
    model.files.found.remove(&agent);
    model.overlay = Some(Overlay::Palette {
        text: TextBox::single_line(FIND_WORD),
        selected: 0,
    });
    Vec::new()
}

/// The agent whose files the palette lists.
pub(super) fn found_agent(model: &Model) -> Option<String> {
    let agent = model.selected_agent.as_ref();
    let known = agent.filter(|agent| model.host.agents.contains_key(*agent));
    known.cloned()
}

/// Reads what the screen shows and was not read yet.
pub(super) fn load_visible(model: &mut Model) -> Vec<Effect> {
    let mut effects = notes::load_visible(model);
    readers::forget_hidden(model);
    if !model.host.is_up() {
        return effects;
    }
    for agent in shown_trees(model) {
        let tree = model.files.trees.entry(agent.clone()).or_default();
        // A tree that cannot be read would be asked for again and again. `reload` clears the problem.
        let missing = if tree.problem.is_some() {
            Vec::new()
        } else {
            tree.missing()
        };
        for path in missing {
            effects.extend(list(model, &agent, path, false));
        }
    }
    effects.extend(load_found(model));
    effects.extend(readers::load_visible(model));
    effects.extend(editor::load_visible(model));
    effects
}

/// All files of the selected agent, once something is typed in the palette. They are read anew for each palette.
fn load_found(model: &mut Model) -> Option<Effect> {
    let Some(Overlay::Palette { text, .. }) = &model.overlay else {
        model.files.found.clear();
        return None;
    };
    let agent = found_agent(model).filter(|_| !text.is_empty())?;
    if model.files.found.contains_key(&agent) {
        return None;
    }
    list(model, &agent, String::new(), true)
}

fn shown_trees(model: &Model) -> Vec<String> {
    let panels = model.drawn.panels.iter();
    let trees = panels.filter(|panel| panel.spec.kind == PanelKind::Files);
    let agents = trees.filter_map(|panel| model.panel_agent(&panel.spec));
    agents.map(|agent| agent.id.clone()).collect()
}

fn list(model: &mut Model, agent: &str, path: String, recursive: bool) -> Option<Effect> {
    let tag = if recursive {
        FileReply::Found {
            agent: agent.to_owned(),
        }
    } else {
        FileReply::Folder {
            agent: agent.to_owned(),
            path: path.clone(),
        }
    };
    let params = AgentTarget {
        agent_id: agent.to_owned(),
        body: ListFilesQuery {
            path: Some(path),
            recursive,
        },
    };
    call::<method::ListFiles>(model, &params, tag)
}

/// A call, unless the same one is under way.
fn call<M: countersign_protocol::Method>(
    model: &mut Model,
    params: &M::Params,
    tag: FileReply,
) -> Option<Effect> {
    if !model.host.is_up() || !model.loading.insert(format!("{tag:?}")) {
        return None;
    }
    let call = HostCall::new::<M>(CallLane::Read, params, ReplyTag::File(tag));
    Some(Effect::Call(call))
}

pub(super) fn take_reply(model: &mut Model, tag: FileReply, result: CallResult) -> Vec<Effect> {
    model.loading.remove(&format!("{tag:?}"));
    match tag {
        FileReply::Folder { agent, path } => take_folder(model, &agent, &path, result),
        FileReply::Found { agent } => take_found(model, agent, result),
        FileReply::View { file, .. } => readers::take_page(model, &file, result),
        FileReply::Tail { file, .. } => readers::take_piece(model, &file, result),
        FileReply::Edit { file } => editor::take_content(model, &file, result),
        FileReply::Check { file } => editor::take_check(model, &file, result),
        FileReply::Saved { file } => editor::take_saved(model, &file, result),
    }
}

fn take_folder(model: &mut Model, agent: &str, path: &str, result: CallResult) -> Vec<Effect> {
    let Some(tree) = model.files.trees.get_mut(agent) else {
        return Vec::new();
    };
    match parse_result::<method::ListFiles>(result) {
        Ok(listed) => tree.replace_folder(listed),
        Err(failure) if path.is_empty() => tree.problem = Some(failure.message),
        Err(failure) => {
            // A folder that was removed is folded, or it would be asked for again and again.
            tree.expanded.remove(path);
            return say_failure(model, &failure);
        }
    }
    Vec::new()
}

fn take_found(model: &mut Model, agent: String, result: CallResult) -> Vec<Effect> {
    // A failure is an empty list: the palette has other entries.
    let found = parse_result::<method::ListFiles>(result).map_or_else(
        |_| FoundFiles::default(),
        |listed| FoundFiles {
            paths: listed.entries.into_iter().map(|entry| entry.name).collect(),
            is_cut: listed.more,
        },
    );
    // One list: nobody searches two agents at once.
    model.files.found.clear();
    model.files.found.insert(agent, found);
    Vec::new()
}

fn say_failure(model: &mut Model, failure: &CallFailure) -> Vec<Effect> {
    let text = escape::line(&failure.message).into_owned();
    say(model, text)
}

/// Reads again what the focused panel shows.
pub(super) fn reload(model: &mut Model) -> Vec<Effect> {
    let panel = model.focused_panel();
    match panel.kind {
        PanelKind::Files => {
            with_tree(model, |tree, _| {
                tree.folders.clear();
                tree.problem = None;
            });
            Vec::new()
        }
        PanelKind::Editor => editor::reload(model),
        _ => {
            if let Some(file) = file_of(model, &panel) {
                model.files.views.remove(&file);
                model.files.tails.remove(&file);
            }
            Vec::new()
        }
    }
}
