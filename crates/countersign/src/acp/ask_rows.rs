//! Rows of the host about asks and questions, as the editor's side takes them.

use countersign_agents::editor::{
    AskGuard, AskOutcome, EditorAsk, EditorDiff, EditorQuestion, FieldForm, FormField,
};
use countersign_protocol::{
    HostApproval, HostApprovalState, HostChoiceQuestion, HostDiffLineKind, HostEffect,
    HostFileEdit, HostFileEditNote, HostQuestion, HostRole, HostRule, RuleCandidate, Time,
};

use crate::render::approvals::{self, FieldDetail};
use crate::render::escape;

/// Fields of an ask that an editor shows by itself, or that say nothing there.
const LEFT_OUT: [&str; 7] = [
    "asked by", "state", "id", "folded", "diff", "options", "deadline",
];

/// An ask that waits, with the rules that would allow it.
pub(super) fn ask(row: &HostApproval, rules: Vec<String>) -> EditorAsk {
    let fields = approvals::ask_fields(row, Time::default(), FieldDetail::Folded);
    let fields = fields.iter().filter(|(name, _)| !LEFT_OUT.contains(name));
    let lines: Vec<String> = fields
        .map(|(name, text)| format!("{name}: {}", text.replace('\n', "\n    ")))
        .collect();
    let edits = row.view.iter().flat_map(|view| &view.edits);
    EditorAsk {
        id: row.id.clone(),
        short_id: approvals::short_id(&row.id),
        tool_call: row.tool_call_id.clone(),
        tool: row.tool.clone(),
        title: approvals::summary(row),
        explanation: lines.join("\n"),
        diffs: edits.map(diff).collect(),
        input: row.input.as_ref().map(|input| input.text().to_owned()),
        rules,
        guard: guard(row),
        fields: row.questions.iter().map(field).collect(),
    }
}

fn guard(row: &HostApproval) -> AskGuard {
    let verdict = row.verdict.as_ref();
    let mut parts = verdict.into_iter().flat_map(|verdict| &verdict.parts);
    if approvals::approving_options(row).is_empty() {
        AskGuard::Closed
    } else if parts.any(|part| part.floor && part.effect != HostEffect::Allow) {
        AskGuard::Guarded
    } else {
        AskGuard::Open
    }
}

/// Old and new text of what is shown of a change: the changed lines and a few around them.
fn diff(edit: &HostFileEdit) -> EditorDiff {
    let is_new = edit.note == Some(HostFileEditNote::WholeFile);
    EditorDiff {
        path: edit.path.clone(),
        old_text: (!is_new).then(|| text_without(HostDiffLineKind::Added, edit)),
        new_text: text_without(HostDiffLineKind::Removed, edit),
    }
}

fn text_without(left_out: HostDiffLineKind, edit: &HostFileEdit) -> String {
    let lines = edit.hunks.iter().flat_map(|hunk| &hunk.lines);
    lines
        .filter(|line| line.kind != left_out)
        .flat_map(|line| [line.text.as_str(), "\n"])
        .collect()
}

fn field(question: &HostChoiceQuestion) -> FormField {
    FormField {
        question: escape::block(&question.question).into_owned(),
        choices: question
            .choices
            .iter()
            .map(|choice| escape::line(&choice.label).into_owned())
            .collect(),
        form: match question {
            _ if question.number => FieldForm::Number,
            // A form has no field for "one of these, or other words"; words can name a choice too.
            _ if question.choices.is_empty() || question.free_text => FieldForm::Words,
            _ if question.several => FieldForm::SeveralChoices,
            _ => FieldForm::OneChoice,
        },
        optional: question.optional,
    }
}

/// One rule for each part of an ask: the first that is suggested for it.
pub(super) fn narrowest(candidates: Vec<RuleCandidate>) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rules = Vec::new();
    for candidate in candidates {
        if !parts.contains(&candidate.part) {
            parts.push(candidate.part);
            if !rules.contains(&candidate.rule) {
                rules.push(candidate.rule);
            }
        }
    }
    rules
}

pub(super) fn question(row: &HostQuestion) -> EditorQuestion {
    EditorQuestion {
        id: row.id.clone(),
        short_id: approvals::short_id(&row.id),
        question: escape::block(&row.question).into_owned(),
    }
}

/// How an ask ended, and by whom.
pub(super) fn outcome(row: &HostApproval) -> AskOutcome {
    AskOutcome {
        id: row.id.clone(),
        tool_call: row.tool_call_id.clone(),
        tool: row.tool.clone(),
        title: approvals::summary(row),
        note: outcome_note(row),
    }
}

fn outcome_note(row: &HostApproval) -> String {
    let mut note = match row.state {
        HostApprovalState::Allowed | HostApprovalState::Denied | HostApprovalState::Answered => {
            format!("{} by {}", row.state, decider(row))
        }
        HostApprovalState::Expired => "expired: nobody answered in time".to_owned(),
        _ => row.state.to_string(),
    };
    if let Some(message) = &row.message {
        note.push_str(": ");
        note.push_str(&escape::line(message));
    }
    note
}

/// The rules that decided, with where they are written, or who did.
fn decider(row: &HostApproval) -> String {
    let Some(who) = &row.resolved_by else {
        return "the host".to_owned();
    };
    if who.role != HostRole::Host {
        return approvals::resolver_name(who, row.agent_id.as_deref());
    }
    let verdict = row.verdict.as_ref();
    let parts = verdict.into_iter().flat_map(|verdict| &verdict.parts);
    let mut rules: Vec<String> = parts
        .filter_map(|part| part.rule.as_ref().map(rule))
        .collect();
    rules.dedup();
    if rules.is_empty() {
        "the host".to_owned()
    } else {
        rules.join(", ")
    }
}

/// `rules.toml:12 Bash(git status:*)`.
fn rule(rule: &HostRule) -> String {
    let file = rule.source.rsplit('/').next().unwrap_or_default();
    let line = rule.line.map(|line| format!(":{line}")).unwrap_or_default();
    escape::line(&format!("{file}{line} {}", rule.rule)).into_owned()
}
