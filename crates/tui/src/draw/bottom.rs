//! The last lines: what the screen says, and the keys that count here.

use std::borrow::Cow;

use ratatui::layout::Rect;

use crate::canvas::{Canvas, TextLine};
use crate::command::{Action, FileCommand, find_command};
use crate::escaped_text::EscapedText;
use crate::layout::PanelKind;
use crate::model::{Model, Overlay, TextPurpose};
use crate::render::approvals;
use crate::render::escape;
use crate::text_box::TextBox;
use crate::theme::Role;
use crate::update;

use super::DrawReport;

/// What the host said about a refusal must not push the ask itself off the screen.
const NOTICE_LINES_MAX: usize = 2;
/// Lines of a text box.
const TEXT_LINES_MAX: usize = 8;
/// Followers of a prefix that are listed.
const FOLLOWERS_MAX: usize = 8;

/// Rows from which a line is kept free for notices, so that the panels do not move when one comes.
const ROOMY_HEIGHT: u16 = 20;

/// How many rows are needed.
pub(super) fn height(model: &Model, area: Rect) -> u16 {
    let rows = lines_above_hints(model, area.width).len();
    let least = usize::from(area.height >= ROOMY_HEIGHT);
    u16::try_from(rows.max(least) + 1).unwrap_or(1)
}

fn lines_above_hints(model: &Model, width: u16) -> Vec<TextLine> {
    let mut lines = notice_lines(model, width);
    lines.extend(prompt_lines(model, width));
    lines
}

pub(super) fn draw(model: &Model, area: Rect, canvas: &mut Canvas<'_>, report: &mut DrawReport) {
    let lines = lines_above_hints(model, area.width);
    let prompt_start = notice_lines(model, area.width).len();
    canvas.put_lines(area, lines.iter());
    let last = Rect {
        y: area.bottom() - 1,
        height: 1,
        ..area
    };
    canvas.put_line(last, &hint_line(model, area.width));
    if let Some(Overlay::Text { text, .. }) = &model.overlay {
        report.cursor = text_cursor(text, area, prompt_start);
    }
}

fn notice_lines(model: &Model, width: u16) -> Vec<TextLine> {
    if let Some(lines) = follower_lines(model) {
        return lines;
    }
    let Some(notice) = &model.notices.current else {
        return Vec::new();
    };
    let inner = usize::from(width).saturating_sub(2);
    let lines = notice
        .wrapped_at_words(inner)
        .into_iter()
        .take(NOTICE_LINES_MAX);
    lines
        .map(|line| TextLine(vec![(" ".into(), Role::Text), (line, Role::Strong)]))
        .collect()
}

/// Half a second after a prefix, what can follow it.
fn follower_lines(model: &Model) -> Option<Vec<TextLine>> {
    let shown_from = model.which_key_at()?;
    if model.now.ms < shown_from {
        return None;
    }
    let followers = model.keymap.followers(model.focused_kind(), &model.typed);
    let lines = followers.iter().take(FOLLOWERS_MAX).map(|(keys, command)| {
        let mut line = TextLine::shown(format!(" {keys:>6}  "), Role::Focus);
        line.push(command.word, Role::Text);
        line
    });
    Some(lines.collect())
}

/// What a text box is for, in words.
fn text_title(model: &Model, purpose: &TextPurpose) -> String {
    match purpose {
        TextPurpose::Deny { id } => format!("deny {}, and say", approvals::short_id(id)),
        TextPurpose::AllowWithMessage { id, .. } => {
            format!("approve {}, and say", approvals::short_id(id))
        }
        TextPurpose::EditInput { id, .. } => {
            format!("what runs instead, for {}", approvals::short_id(id))
        }
        TextPurpose::AnswerQuestion { id } => format!("answer {}", approvals::short_id(id)),
        TextPurpose::AnswerAsk { id, given } => {
            format!("answer {} of {}", given.len() + 1, approvals::short_id(id))
        }
        TextPurpose::Message { agent } => format!("message to {}", agent_name(model, agent)),
        TextPurpose::Rename { agent } => format!("new name of {}", agent_name(model, agent)),
        TextPurpose::Bypass { agent } => {
            format!(
                "minutes for which all asks of {} are allowed",
                agent_name(model, agent)
            )
        }
        TextPurpose::Configure { agent } => {
            format!("mode=NAME model=NAME for {}", agent_name(model, agent))
        }
        TextPurpose::Filter { .. } => "filter".to_owned(),
        TextPurpose::Comment { .. } => "comment on this line".to_owned(),
        TextPurpose::Search => "words to search for in all transcripts".to_owned(),
        TextPurpose::TryRule => "a command to try against the rules".to_owned(),
        TextPurpose::AddRule => "a rule such as Bash(cargo test:*)".to_owned(),
        TextPurpose::RunAgain { agent } => {
            format!("what an agent like {} is to do", agent_name(model, agent))
        }
        TextPurpose::SaveLayout => "name of this layout".to_owned(),
        TextPurpose::NewFile { agent } => {
            format!(
                "path of the new file, in the folder of {}",
                agent_name(model, agent)
            )
        }
        TextPurpose::Spawn { agent } => format!("what {} is to do first", escape::line(agent)),
    }
}

fn agent_name<'m>(model: &'m Model, agent: &'m str) -> Cow<'m, str> {
    escape::line(model.host.agent_name(agent))
}

fn prompt_lines(model: &Model, width: u16) -> Vec<TextLine> {
    match &model.overlay {
        Some(Overlay::Text { purpose, text }) => {
            let title = TextLine::shown(format!(" {}:", text_title(model, purpose)), Role::Focus);
            let mut lines = vec![title];
            lines.extend(box_lines(model, text, width));
            lines
        }
        Some(Overlay::Confirm { question, .. }) => {
            let mut line = TextLine::shown(format!(" {question}  "), Role::Warn);
            line.push("y yes  n no", Role::Strong);
            line.wrapped(width.into(), 0, model.glyphs.continued)
        }
        _ => Vec::new(),
    }
}

/// The lines of a text box around its cursor.
fn box_lines(model: &Model, text: &TextBox, width: u16) -> Vec<TextLine> {
    let (all, row, _) = laid_out(text, width);
    // The line with the cursor is the last one that is shown, so that typing
    // never goes out of sight.
    let first = (row + 1).saturating_sub(TEXT_LINES_MAX);
    let shown = all.into_iter().skip(first).take(TEXT_LINES_MAX);
    shown
        .map(|line| {
            let mut drawn = TextLine::shown(format!(" {} ", model.glyphs.vertical), Role::Border);
            drawn.push(line, Role::Text);
            drawn
        })
        .collect()
}

/// The lines of a text at a width, and the row and column of the cursor.
fn laid_out(text: &TextBox, width: u16) -> (Vec<EscapedText>, usize, usize) {
    let inner = usize::from(width).saturating_sub(5).max(1);
    let (before, after) = text.halves();
    // Escaped alike on both sides, so that the cursor stands where the next letter goes.
    let before = EscapedText::block(&before);
    let all = before
        .clone()
        .with(&EscapedText::block(&after))
        .wrapped(inner);
    let upto = before.wrapped(inner);
    let row = upto.len().saturating_sub(1);
    let column = upto.last().map_or(0, EscapedText::width);
    (all, row, column)
}

fn text_cursor(text: &TextBox, area: Rect, prompt_start: usize) -> Option<(u16, u16)> {
    let (_, row, column) = laid_out(text, area.width);
    let visible_row = row.min(TEXT_LINES_MAX - 1);
    let y = usize::from(area.y) + prompt_start + 1 + visible_row;
    let x = 3 + column;
    Some((u16::try_from(x).ok()?, u16::try_from(y).ok()?))
}

/// The keys that a panel shows first.
fn hinted_actions(kind: PanelKind) -> &'static [Action] {
    match kind {
        PanelKind::Ask => &[
            Action::Approve,
            Action::Remember,
            Action::Deny,
            Action::DenyWithMessage,
            Action::Reply,
            Action::NextWaiting,
        ],
        PanelKind::Inbox => &[
            Action::LineDown,
            Action::LineUp,
            Action::Open,
            Action::NextWaiting,
            Action::OpenAgent,
        ],
        PanelKind::Agents => &[
            Action::Open,
            Action::InterruptAgent,
            Action::KillAgent,
            Action::SpawnAgent,
            Action::Filter,
        ],
        PanelKind::Transcript | PanelKind::Chat => &[
            Action::MessageAgent,
            Action::InterruptAgent,
            Action::ToggleFollow,
            Action::Unfold,
        ],
        PanelKind::Diff => &[
            Action::CommentLine,
            Action::SendReview,
            Action::MarkViewed,
            Action::NextHunk,
            Action::NextFile,
        ],
        PanelKind::Feed => &[
            Action::Open,
            Action::CycleShow,
            Action::CycleRows,
            Action::Filter,
        ],
        PanelKind::History => &[
            Action::Open,
            Action::ResumeAgent,
            Action::ForkAgent,
            Action::RunAgain,
            Action::Filter,
        ],
        PanelKind::Rules => &[
            Action::TryRule,
            Action::AddRule,
            Action::RemoveRule,
            Action::Filter,
        ],
        PanelKind::Search => &[Action::Open, Action::Search, Action::Reload],
        PanelKind::Usage | PanelKind::Command => &[Action::Reload],
        PanelKind::Terminals => &[Action::NextTerminal, Action::PreviousTerminal],
        PanelKind::Files => &[
            Action::Open,
            Action::File(FileCommand::Edit),
            Action::File(FileCommand::Tail),
            Action::File(FileCommand::New),
            Action::Filter,
        ],
        PanelKind::Viewer => &[
            Action::File(FileCommand::Edit),
            Action::File(FileCommand::Format),
            Action::File(FileCommand::Tail),
            Action::File(FileCommand::NextPage),
        ],
        PanelKind::Editor => &[
            Action::File(FileCommand::Write),
            Action::File(FileCommand::Save),
            Action::File(FileCommand::ShowOther),
            Action::Reload,
        ],
        PanelKind::Tail => &[Action::Bottom, Action::File(FileCommand::View)],
        PanelKind::Notes => &[Action::File(FileCommand::Write)],
        PanelKind::OwnTerminal => &[
            Action::OpenOwnTerminal,
            Action::NextOwnTerminal,
            Action::CloseOwnTerminal,
        ],
    }
}

/// One word for a key.
fn short_word(action: Action) -> &'static str {
    match action {
        Action::Approve => "approve",
        Action::Remember => "save as rule",
        Action::Deny => "deny",
        Action::DenyWithMessage => "deny, because",
        Action::Reply => "reply",
        Action::NextWaiting => "next that waits",
        Action::OpenAgent => "its agent",
        Action::InterruptAgent => "interrupt",
        Action::KillAgent => "kill",
        Action::SpawnAgent => "start an agent",
        Action::Filter => "filter",
        Action::MessageAgent => "message",
        Action::ToggleFollow | Action::File(FileCommand::Tail) => "follow",
        Action::Unfold => "unfold",
        Action::CommentLine => "comment",
        Action::SendReview => "send review",
        Action::MarkViewed => "viewed",
        Action::NextHunk => "hunk",
        Action::NextFile => "file",
        Action::CycleShow => "other events",
        Action::CycleRows => "rows",
        Action::ResumeAgent => "resume",
        Action::ForkAgent => "fork",
        Action::RunAgain => "run again",
        Action::TryRule => "try",
        Action::Search => "search",
        Action::AddRule => "write a rule",
        Action::RemoveRule => "revoke",
        Action::File(FileCommand::Edit) => "edit",
        Action::File(FileCommand::New) => "new file",
        Action::File(FileCommand::View) => "read",
        Action::File(FileCommand::Format) => "formatted",
        Action::File(FileCommand::NextPage) => "next page",
        Action::File(FileCommand::Write) => "write",
        Action::File(FileCommand::Save) => "save",
        Action::File(FileCommand::ShowOther) => "what is there",
        Action::NextTerminal | Action::NextOwnTerminal => "next terminal",
        Action::PreviousTerminal => "terminal before",
        Action::OpenOwnTerminal => "open a terminal",
        Action::CloseOwnTerminal => "close it",
        Action::Reload => "read again",
        Action::FocusNext => "panel",
        Action::OpenPalette => "commands",
        Action::ShowKeys => "keys",
        Action::Back => "back",
        other => find_command(other).map_or("", |command| command.word),
    }
}

fn hint_line(model: &Model, width: u16) -> TextLine {
    let mut line = TextLine::new(" ", Role::Dim);
    match &model.overlay {
        Some(Overlay::Text { text, .. }) if text.is_multiline() => {
            line.push(
                "Ctrl-s or Alt-Enter sends  Ctrl-e editor  Esc leaves and keeps the text",
                Role::Dim,
            );
            return line;
        }
        Some(Overlay::Text { .. }) => {
            line.push("Enter sends  Esc leaves and keeps the text", Role::Dim);
            return line;
        }
        Some(Overlay::Confirm { .. }) => {
            line.push("only y does it", Role::Dim);
            return line;
        }
        Some(Overlay::Keys { .. } | Overlay::Notices { .. }) => {
            line.push("Up and Down scroll  Esc closes", Role::Dim);
            return line;
        }
        Some(_) => {
            line.push("Up and Down select  Enter takes it  Esc closes", Role::Dim);
            return line;
        }
        None => {}
    }
    if model.files.is_typing && matches!(model.focused_kind(), PanelKind::Editor | PanelKind::Notes)
    {
        let text = "Ctrl-s saves  Ctrl-e editor  Esc ends writing and keeps the text";
        line.push(text, Role::Dim);
        return line;
    }
    if update::terminal_takes_keys(model) && model.typed.is_empty() {
        line.push(
            "keys go to the terminal  Ctrl-g and a key of the screen, as Tab or :  Ctrl-g PgUp reads back",
            Role::Dim,
        );
        return line;
    }
    if model.ask.pending.is_some() {
        line.push("y yes  n no  PgDn read on", Role::Strong);
        return line;
    }
    let common = [
        Action::FocusNext,
        Action::OpenPalette,
        Action::ShowKeys,
        Action::Back,
    ];
    let common = common.map(|action| hint(model, action));
    // Those that lead everywhere stay; of the others as many as fit.
    let mut room = usize::from(width).saturating_sub(1);
    room = room.saturating_sub(common.iter().map(TextLine::width).sum());
    for action in hinted_actions(model.focused_kind()) {
        let hint = hint(model, *action);
        if hint.width() > room {
            break;
        }
        room -= hint.width();
        line.0.extend(hint.0);
    }
    line.0.extend(common.into_iter().flat_map(|hint| hint.0));
    line
}

/// A key with its word.
fn hint(model: &Model, action: Action) -> TextLine {
    let Some(key) = model.keymap.key_of(action) else {
        return TextLine::default();
    };
    let counts = counts_now(model, action);
    let mut line = TextLine::shown(
        format!("{key} "),
        if counts { Role::Focus } else { Role::Dim },
    );
    line.push_shown(
        format!("{}  ", short_word(action)),
        if counts { Role::Text } else { Role::Dim },
    );
    line
}

/// Whether a key would do something now: the keys themselves show when they count.
fn counts_now(model: &Model, action: Action) -> bool {
    let guard = &model.ask.guard;
    let refusal = match action {
        Action::Approve | Action::Remember => guard.refusal_of_allow(model.now.ms),
        Action::Deny | Action::DenyWithMessage | Action::Reply => {
            guard.refusal_of_deny(model.now.ms)
        }
        _ => None,
    };
    refusal.is_none() && update::why_not(model, action).is_none()
}
