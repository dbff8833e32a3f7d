//! The selected item, whole, and the question for the second key.
//!
//! Invariant: every line of the item is drawn before an end is reported; marks stand in columns that no agent can
//! write to.

use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::canvas::{Canvas, TextLine};
use crate::decision_guard::{PROMPT_MS, SETTLE_MS};
use crate::draw::{AskExtent, DrawReport};
use crate::escaped_text::EscapedText;
use crate::model::{AskLayout, Model, PendingAllow, RuleExpiry, RuleForm};
use crate::proposal::{Proposal, is_proposal, proposal_picture};
use crate::render::approvals::{self, FieldDetail};
use crate::render::escape;
use crate::render::inbox_item::{InboxContent, InboxItem};
use crate::render::viewers::describe_viewers;
use crate::theme::Role;
use crate::update::is_brief;

/// Where values begin: the longest name, and two columns for marks.
const LABEL: usize = 11;
/// Steps of the bar that says when a key counts.
const BAR_STEPS: u64 = 4;

pub(super) fn title(model: &Model) -> String {
    match (model.inbox.selected_index(), model.inbox.selected_item()) {
        (Some(index), Some(item)) => {
            let kind = match item.kind() {
                "ask" => "Ask",
                "question" => "Question",
                _ => "Note",
            };
            let place = format!("{kind} {} of {}", index + 1, model.inbox.items().len());
            match describe_viewers(&model.viewers, item.id()) {
                Some(viewers) => format!("{place}, {viewers}"),
                None => place,
            }
        }
        _ => "Ask".to_owned(),
    }
}

pub(super) fn draw(model: &Model, area: Rect, canvas: &mut Canvas<'_>, report: &mut DrawReport) {
    let Some(item) = model.inbox.selected_item() else {
        canvas.put_shown(
            area.x,
            area.y,
            area.width,
            "  nothing waits for you",
            Role::Dim,
        );
        return;
    };
    let prompt = prompt_line(model, item);
    // Below the text and not in it, so that the question stays while the text is scrolled.
    let foot_rows = 1 + u16::from(prompt.is_some());
    let text_area = Rect {
        height: area.height.saturating_sub(foot_rows),
        ..area
    };
    let (lines, samples) = pictured_body(model, item, area.width);
    let page = usize::from(text_area.height);
    let first = model
        .ask
        .scroll
        .min(lines.len().saturating_sub(page.max(1)));
    canvas.put_lines(text_area, lines.iter().skip(first));
    for (y, index) in (text_area.y..text_area.bottom()).zip(first..) {
        if let Some((_, column, style)) = samples.iter().find(|(line, ..)| *line == index) {
            let left = (area.x + column).min(area.right());
            let sample = Rect::new(left, y, area.right() - left, 1);
            canvas.buffer.set_style(sample, *style);
        }
    }
    let rule = Rect {
        y: text_area.bottom(),
        height: 1,
        ..area
    };
    canvas.rule(
        rule,
        &extent_title(model, first, page, lines.len(), is_brief(item)),
    );
    if let Some(prompt) = prompt {
        let row = Rect {
            y: rule.y + 1,
            ..rule
        };
        canvas.put_line(row, &prompt);
    }
    let extent = AskExtent {
        // Whatever moves lines is in it: in another layout, what was read before may be elsewhere.
        layout: AskLayout {
            id: item.id().to_owned(),
            version: model.inbox.version(),
            width: area.width,
            is_full: model.ask.detail == FieldDetail::Full,
            rules: model.ask.offered_rules(),
        },
        first,
        page,
        total: lines.len(),
        is_whole: !is_brief(item),
    };
    // In two panels at once it counts as read where less of it is seen.
    let is_less = report
        .ask
        .as_ref()
        .is_none_or(|known| extent.page < known.page);
    if is_less {
        report.ask = Some(extent);
    }
}

fn extent_title(
    model: &Model,
    first: usize,
    page: usize,
    total: usize,
    is_brief: bool,
) -> TextLine {
    if is_brief {
        return TextLine::new(" reading all of it from the host ", Role::Warn);
    }
    let end = (first + page).min(total);
    let is_over = model
        .inbox
        .selected_item()
        .is_some_and(|item| item.ended.is_some());
    if end < total {
        return TextLine::shown(
            format!(" lines {}-{end} of {total}, more below: PgDn ", first + 1),
            Role::Warn,
        );
    }
    if is_over || first > 0 {
        return TextLine::shown(format!(" lines {}-{end} of {total} ", first + 1), Role::Dim);
    }
    TextLine::new(" all of it ", Role::Dim)
}

/// The lines of an item, and the styles of samples among them: line, column, style.
fn pictured_body(
    model: &Model,
    item: &InboxItem,
    width: u16,
) -> (Vec<TextLine>, Vec<(usize, u16, Style)>) {
    let mut lines = body_lines(model, item, width);
    let mut samples = Vec::new();
    let InboxContent::Ask(row) = &item.content else {
        return (lines, samples);
    };
    let tool = row.tool.as_deref().unwrap_or_default();
    let Some(input) = row.input.as_ref().filter(|_| is_proposal(tool)) else {
        return (lines, samples);
    };
    lines.push(TextLine::default());
    match Proposal::parse(tool, input.0.get()) {
        Ok(proposal) => {
            let picture =
                proposal_picture(&proposal, width, &model.theme, &model.keymap, model.glyphs);
            for pictured in picture {
                if let Some((column, style)) = pictured.sample {
                    samples.push((lines.len(), column, style));
                }
                lines.push(pictured.line);
            }
        }
        Err(why) => {
            let text = format!("it would be refused: {}", escape::line(&why));
            lines.extend(TextLine::shown(text, Role::Warn).wrapped(width.into(), 0, ' '));
        }
    }
    (lines, samples)
}

/// The lines of an item at a width.
pub(super) fn body_lines(model: &Model, item: &InboxItem, width: u16) -> Vec<TextLine> {
    let width = usize::from(width);
    let mut lines = Vec::new();
    if let Some(ended) = &item.ended {
        let line = TextLine::shown(format!("this ended: {ended}"), Role::Bad);
        lines.extend(line.wrapped(width, 0, ' '));
    }
    // In the text that has to be read, so that no rule is saved that was not on the screen.
    if let Some(PendingAllow::Remember { form, .. }) = &model.ask.pending {
        lines.extend(form_lines(model, form, width));
    }
    for (name, value) in item.fields(model.now.wall, model.ask.detail) {
        let mut label = format!("{name:<LABEL$}");
        for written in value.split('\n') {
            let mut line = TextLine::shown(std::mem::take(&mut label), Role::Dim);
            for (text, role) in value_pieces(name, written) {
                line.push_shown(text, role);
            }
            lines.extend(line.wrapped(width, LABEL, model.glyphs.continued));
            label = " ".repeat(LABEL);
        }
    }
    lines
}

/// A line of a field with its meaning: verdicts by their word, changes by their mark.
fn value_pieces(name: &str, line: &str) -> Vec<(String, Role)> {
    let whole = |role: Role| vec![(line.to_owned(), role)];
    match name {
        "command" | "action" | "question" | "questions" => whole(Role::Strong),
        "warning" => whole(Role::Warn),
        "diff" if line.starts_with('+') => whole(Role::Added),
        "diff" if line.starts_with('-') => whole(Role::Removed),
        "rules" => {
            let effects = [
                ("allow", Role::Allow),
                ("ask", Role::Ask),
                ("deny", Role::Deny),
            ];
            let found = effects.iter().find(|(word, _)| line.starts_with(word));
            match found {
                Some((word, role)) => {
                    let rest = line[word.len()..].to_owned();
                    vec![((*word).to_owned(), *role), (rest, Role::Text)]
                }
                None => whole(Role::Text),
            }
        }
        "id" | "state" | "folded" | "title" => whole(Role::Dim),
        _ => whole(Role::Text),
    }
}

fn value_name<T: PartialEq>(values: &[(T, &'static str)], value: &T) -> &'static str {
    let found = values.iter().find(|(known, _)| known == value);
    found.map_or("", |(_, name)| name)
}

/// The rules that an allow becomes, and their limits.
fn form_lines(model: &Model, form: &RuleForm, width: usize) -> Vec<TextLine> {
    let mut lines = Vec::new();
    let lead = |row: usize| {
        if row == form.row {
            model.glyphs.selected
        } else {
            ' '
        }
    };
    for (index, offer) in form.offers.iter().enumerate() {
        let chosen = if offer.is_chosen { "[x]" } else { "[ ]" };
        let mut line = TextLine::shown(format!("{} {chosen} ", lead(index)), Role::Focus);
        line.push_shown(
            escape::line(&offer.candidate.rule).into_owned(),
            Role::Strong,
        );
        line.push_shown(
            format!("  {}", escape::line(&offer.candidate.note)),
            Role::Dim,
        );
        lines.extend(line.wrapped(width, LABEL, model.glyphs.continued));
        if let Some(tested) = &offer.backtest {
            let against = tested.contradicted.len();
            let text = format!(
                "      of {} decisions made by hand it would have settled {}, against you {against}; settles {} open asks now",
                tested.examined,
                tested.settled,
                tested.would_settle.len()
            );
            let role = if against > 0 { Role::Warn } else { Role::Dim };
            lines.extend(TextLine::shown(text, role).wrapped(width, LABEL, model.glyphs.continued));
        }
    }
    let rest = [
        ("where", value_name(&RuleForm::SCOPES, &form.scope)),
        ("until", value_name(&RuleExpiry::ALL, &form.expires)),
        ("uses", value_name(&RuleForm::USES, &form.uses)),
    ];
    for (offset, (name, value)) in rest.iter().enumerate() {
        let row = form.offers.len() + offset;
        let text = format!("{} {name:<6} {value}", lead(row));
        let role = if row == form.row {
            Role::Focus
        } else {
            Role::Text
        };
        lines.extend(TextLine::shown(text, role).wrapped(width, LABEL, model.glyphs.continued));
    }
    let help = "Tab next row  Space change  y saves exactly this and allows  n goes back";
    let help = EscapedText::from(help).wrapped_at_words(width.saturating_sub(2));
    lines.extend(
        help.iter()
            .map(|line| TextLine::shown(format!("  {line}"), Role::Dim)),
    );
    lines.push(TextLine::default());
    lines
}

/// The question for the second key, or why no key counts yet.
fn prompt_line(model: &Model, item: &InboxItem) -> Option<TextLine> {
    let guard = &model.ask.guard;
    let now = model.now.ms;
    if model.ask.sending.as_deref() == Some(item.id()) {
        return Some(TextLine::new(" sending", Role::Strong));
    }
    let pending = model.ask.pending.as_ref()?;
    let what = match pending {
        PendingAllow::Once { option } if option == approvals::APPROVE => "allow once".to_owned(),
        PendingAllow::Once { option } => format!("answer {}", escape::line(option)),
        PendingAllow::Remember { form, .. } => {
            format!("allow, and save {} rules", form.rules().len())
        }
        PendingAllow::WithMessage { message, .. } => {
            format!("allow, and say: {}", escape::line(message))
        }
        PendingAllow::Edited { input, .. } => format!("allow instead: {}", escape::line(input)),
        PendingAllow::Many { ids } => {
            format!("allow all {} asks that are exactly like this", ids.len())
        }
    };
    let mut line = TextLine::shown(format!(" {what}? "), Role::Ask);
    let from = guard.confirmable_from().unwrap_or(now);
    let counts = now >= from && guard.is_seen();
    line.push(
        " y yes  n no ",
        if counts { Role::Strong } else { Role::Dim },
    );
    if now < from {
        let span = PROMPT_MS.max(SETTLE_MS.min(from.saturating_sub(now)));
        let done = BAR_STEPS - ((from - now) * BAR_STEPS).div_ceil(span).min(BAR_STEPS);
        line.push_shown(bar(model, done), Role::Dim);
        line.push(" not yet", Role::Dim);
    } else if !guard.is_seen() {
        line.push(" read it to the end first: PgDn", Role::Warn);
    } else if !matches!(
        pending,
        PendingAllow::Edited { .. } | PendingAllow::WithMessage { .. }
    ) {
        line.push_shown(format!("  {}", item.summary(model.now.wall)), Role::Text);
    }
    Some(line)
}

fn bar(model: &Model, done: u64) -> String {
    let steps = 0..BAR_STEPS;
    let glyph = |step| {
        if step < done {
            model.glyphs.full
        } else {
            model.glyphs.rest
        }
    };
    steps.map(glyph).collect()
}
