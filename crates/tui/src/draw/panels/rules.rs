//! The rules that count: saved ones with their limits, those of files with their line.

use countersign_protocol::{FileRule, GrantRow, HostEffect, RulesResult};
use ratatui::layout::Rect;

use crate::canvas::{Canvas, TextLine};
use crate::draw::DrawReport;
use crate::duration;
use crate::escaped_text::EscapedText;
use crate::layout::PanelSpec;
use crate::model::Model;
use crate::render::{escape, rules};
use crate::theme::Role;

use super::first_row;

const RULE_COLUMNS: usize = 34;

pub(super) fn title(model: &Model) -> String {
    match &model.rules {
        Some(found) => format!(
            "Rules: {} saved, {} in files",
            found.grants.len(),
            found.files.len()
        ),
        None => "Rules".to_owned(),
    }
}

pub(super) fn draw(
    model: &Model,
    spec: &PanelSpec,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    let Some(found) = &model.rules else {
        canvas.put_shown(area.x, area.y, area.width, "  reading the rules", Role::Dim);
        return;
    };
    let mut area = area;
    for line in head_lines(model, found) {
        canvas.put_line(area, &line);
        area.y += 1;
        area.height = area.height.saturating_sub(1);
    }
    let filter = model.view(&spec.id).filter;
    let lines = rule_lines(model, found, &filter);
    if lines.is_empty() {
        canvas.put_shown(
            area.x,
            area.y,
            area.width,
            "  no rules: + writes one",
            Role::Dim,
        );
        return;
    }
    let selected = model.view(&spec.id).cursor.min(lines.len() - 1);
    let rows = lines
        .iter()
        .enumerate()
        .skip(first_row(selected, area.height));
    for (y, (index, line)) in (area.y..area.bottom()).zip(rows) {
        let row = Rect {
            y,
            height: 1,
            ..area
        };
        let mark = if index == selected {
            model.glyphs.selected
        } else {
            ' '
        };
        canvas.put_shown(row.x, y, 1, &mark.to_string(), Role::Focus);
        canvas.put_line(
            Rect {
                x: row.x + 1,
                width: row.width - 1,
                ..row
            },
            line,
        );
        if index == selected && is_focused {
            canvas.select_row(row);
            report.cursor = Some((area.x, y));
        }
    }
}

/// What was tried, and which files do not count.
fn head_lines(model: &Model, found: &RulesResult) -> Vec<TextLine> {
    let mut lines: Vec<TextLine> = Vec::new();
    if let Some((tried, verdict)) = &model.tried {
        lines.push(TextLine::shown(
            format!(" tried: {}", escape::line(tried)),
            Role::Strong,
        ));
        lines.extend(
            rules::verdict(verdict)
                .lines()
                .map(|line| TextLine::shown(format!("   {line}"), Role::Text)),
        );
    }
    if let Some(why) = &found.suspended {
        lines.push(TextLine::shown(
            format!(" no rule allows anything: {}", escape::line(why)),
            Role::Bad,
        ));
    }
    for file in &found.untrusted {
        let text = format!(
            " not trusted, so its allows do not count: {}",
            escape::line(file)
        );
        lines.push(TextLine::shown(text, Role::Warn));
    }
    lines
}

pub(super) fn effect_role(effect: HostEffect) -> Role {
    match effect {
        HostEffect::Allow => Role::Allow,
        HostEffect::Ask => Role::Ask,
        HostEffect::Deny => Role::Deny,
        HostEffect::Unknown => Role::Dim,
    }
}

fn rule_lines(model: &Model, found: &RulesResult, filter: &str) -> Vec<TextLine> {
    let matches =
        |rule: &str| filter.is_empty() || rule.to_lowercase().contains(&filter.to_lowercase());
    let grants = found.grants.iter().filter(|grant| matches(&grant.rule));
    let files = found.files.iter().filter(|rule| matches(&rule.rule.rule));
    let grants = grants.map(|grant| grant_line(model, grant));
    grants.chain(files.map(file_line)).collect()
}

fn rule_start(effect: HostEffect, rule: &str) -> TextLine {
    let mut line = TextLine::shown(format!("{effect:<6}"), effect_role(effect));
    line.push(
        EscapedText::line(rule)
            .truncated(RULE_COLUMNS)
            .padded(RULE_COLUMNS + 1),
        Role::Strong,
    );
    line
}

fn grant_line(model: &Model, grant: &GrantRow) -> TextLine {
    let mut line = rule_start(grant.effect, &grant.rule);
    let used = match grant.last_used {
        Some(at) => format!(
            "used {}, {} ago",
            duration::times(grant.fired),
            duration::age(model.now.wall, at)
        ),
        None => "never used".to_owned(),
    };
    let ends = grant.expires_at.map_or("for good".to_owned(), |at| {
        format!("ends {}", duration::until(model.now.wall, at))
    });
    line.push_shown(
        format!("saved  {used}  {ends}  {}", rules::scope(&grant.scope)),
        Role::Dim,
    );
    line
}

fn file_line(rule: &FileRule) -> TextLine {
    let mut line = rule_start(rule.rule.effect, &rule.rule.rule);
    line.push_shown(rules::location(&rule.rule), Role::Dim);
    if !rule.counts {
        line.push("  does not count", Role::Warn);
    }
    line
}
