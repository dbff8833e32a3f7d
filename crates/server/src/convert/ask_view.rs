//! What people see of an ask, on the wire.

use countersign_core as core;
use countersign_core::{Ask, ChoiceQuestion, Json};
use countersign_protocol::{
    HostAskView, HostDiffHunk, HostDiffLine, HostDiffLineKind, HostDiffSegment, HostFileEdit,
    HostFileEditNote,
};

use super::approvals::ViewDetail;

/// The view of an ask, and of the input that was given instead of its own.
pub(super) fn view(
    ask: &Ask,
    questions: &[ChoiceQuestion],
    edited: Option<&Json>,
    detail: ViewDetail,
) -> Option<HostAskView> {
    match detail {
        ViewDetail::None => None,
        ViewDetail::Short => {
            let short = wire_view(core::AskView::short(ask, questions, edited));
            Some(HostAskView { cut: true, ..short })
        }
        ViewDetail::Whole => Some(wire_view(core::AskView::new(ask, questions, edited))),
    }
}

/// Takes the size of a view from what a reply may carry, or cuts the view if that is too little.
pub(super) fn fit(view: &mut HostAskView, budget: &mut usize) {
    let bytes = text_bytes(view);
    match budget.checked_sub(bytes) {
        Some(left) => *budget = left,
        None => view.cut(),
    }
}

/// What names, quotes and commas add to each line of an edit.
const LINE_BYTES: usize = 32;

/// About how much a view takes.
pub(super) fn text_bytes(view: &HostAskView) -> usize {
    let texts = [
        &view.command,
        &view.details_text,
        &view.edited_text,
        &view.input_text,
        &view.rest_text,
        &view.title,
    ];
    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
    let hunks = view.edits.iter().flat_map(|edit| &edit.hunks);
    let lines = hunks.flat_map(|hunk| &hunk.lines);
    // A line with segments is there twice.
    let lines = lines.map(|line| {
        let copies = if line.segments.is_empty() { 1 } else { 2 };
        LINE_BYTES * (1 + line.segments.len()) + copies * line.text.len()
    });
    texts + lines.sum::<usize>()
}

fn wire_view(view: core::AskView) -> HostAskView {
    HostAskView {
        command: view.command,
        cut: false,
        details_text: view.details_text,
        editable: view.editable,
        edited_summary: view.edited_summary,
        edited_text: view.edited_text,
        edits: view.edits.into_iter().map(file_edit).collect(),
        input_text: view.input_text,
        rest_text: view.rest_text,
        summary: view.summary,
        title: view.title,
        warnings: view.warnings,
    }
}

fn file_edit(edit: core::FileEdit) -> HostFileEdit {
    HostFileEdit {
        added: edit.added(),
        removed: edit.removed(),
        hunks: edit.hunks.into_iter().map(hunk).collect(),
        note: edit.note.map(|note| match note {
            core::EditNote::AgentCopy => HostFileEditNote::AgentCopy,
            core::EditNote::WholeFile => HostFileEditNote::WholeFile,
        }),
        path: edit.path,
    }
}

pub(super) fn hunk(hunk: core::DiffHunk) -> HostDiffHunk {
    HostDiffHunk {
        digest: hunk.digest,
        header: hunk.header,
        lines: hunk.lines.into_iter().map(line).collect(),
        new_start: hunk.new_start,
        old_start: hunk.old_start,
    }
}

fn line(line: core::DiffLine) -> HostDiffLine {
    let segments = line.segments.into_iter().map(|segment| HostDiffSegment {
        changed: segment.changed,
        text: segment.text,
    });
    HostDiffLine {
        kind: match line.kind {
            core::DiffLineKind::Context => HostDiffLineKind::Context,
            core::DiffLineKind::Added => HostDiffLineKind::Added,
            core::DiffLineKind::Removed => HostDiffLineKind::Removed,
        },
        segments: segments.collect(),
        text: line.text,
    }
}
