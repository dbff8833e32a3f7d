//! The top line, and the warnings below it. No layout can remove them.

use ratatui::layout::Rect;

use crate::agent_list::{cost_text, total_cost};
use crate::canvas::{Canvas, TextLine};
use crate::duration;
use crate::fit;
use crate::model::{HostLink, Model};
use crate::render::escape;
use crate::theme::Role;

/// Warnings must not push the ask off the screen.
const WARNING_LINES_MAX: usize = 3;
/// Rows below which one line has to do.
const ROOMY_HEIGHT: u16 = 16;
const NAME: &str = " countersign";
/// Columns of the names of a tab and a project.
const NAME_COLUMNS_MIN: usize = 8;
const NAME_COLUMNS_MAX: usize = 32;

/// Draws both, and returns how many rows they took.
pub(super) fn draw(model: &Model, area: Rect, canvas: &mut Canvas<'_>) -> u16 {
    let right = right_part(model);
    let right_width = u16::try_from(right.width())
        .unwrap_or(area.width)
        .min(area.width);
    let left_area = Rect {
        width: area.width - right_width,
        height: 1,
        ..area
    };
    canvas.put_line(left_area, &left_part(model, left_area.width));
    let right_area = Rect {
        x: area.width - right_width,
        width: right_width,
        height: 1,
        ..area
    };
    canvas.put_line(right_area, &right);
    let warnings = warning_lines(model, area.height);
    let below = Rect {
        y: 1,
        height: area.height - 1,
        ..area
    };
    canvas.put_lines(below, warnings.iter());
    1 + u16::try_from(warnings.len()).unwrap_or(0)
}

fn plural(count: usize, noun: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{end}")
}

/// The names of the tab and of the project give way to what waits, however long a file or a path makes them.
fn left_part(model: &Model, width: u16) -> TextLine {
    let mut status = TextLine::default();
    push_status(model, &mut status);
    let mut line = TextLine::new(NAME, Role::Strong);
    let room = usize::from(width).saturating_sub(line.width() + status.width());
    let tabs = &model.workspace.layout.tabs;
    if tabs.len() > 1 {
        let title = escape::line(&model.workspace.tab().title);
        let place = format!(" {}/{}]", model.workspace.active_tab + 1, tabs.len());
        if let Some(title) = cut(model, &title, room, place.len() + 3) {
            line.push_shown(format!("  [{title}{place}"), Role::Focus);
        }
    }
    if let Some(project) = &model.project {
        let room = room.saturating_sub(line.width() - NAME.len());
        if let Some(project) = cut(model, &escape::line(project), room, 5) {
            line.push_shown(format!("  in {project}"), Role::Focus);
        }
    }
    push_status(model, &mut line);
    line
}

/// As much of a name as fits where this much room is left, with so many columns around it; nothing if it says too
/// little.
fn cut(model: &Model, name: &str, room: usize, around: usize) -> Option<String> {
    let columns = room.saturating_sub(around).min(NAME_COLUMNS_MAX);
    let shown = fit::truncate_with(name, columns, model.glyphs.cut);
    (columns >= NAME_COLUMNS_MIN || shown == name).then_some(shown)
}

/// What waits for the person, and what nobody is asked about.
fn push_status(model: &Model, line: &mut TextLine) {
    let (asks, questions) = (
        model.inbox.count_open("ask"),
        model.inbox.count_open("question"),
    );
    let role = if asks > 0 { Role::Ask } else { Role::Dim };
    line.push_shown(format!("  {}", plural(asks, "ask")), role);
    if questions > 0 {
        line.push_shown(format!("  {}", plural(questions, "question")), Role::Ask);
    }
    if let Some(oldest) = model.inbox.oldest_waiting() {
        let age = duration::age(model.now.wall, oldest);
        line.push_shown(format!("  oldest {age}"), Role::Text);
    }
    for bypass in model.host.warnings.lasting_bypasses(model.now.wall) {
        let left = duration::until(model.now.wall, bypass.until);
        let left = left.trim_start_matches("in ").to_owned();
        line.push_shown(
            format!("  BYPASS {} {left}", escape::line(&bypass.name)),
            Role::Warn,
        );
    }
}

fn right_part(model: &Model) -> TextLine {
    let mut line = TextLine::default();
    let running = model
        .host
        .agents
        .values()
        .filter(|agent| !agent.state.is_ended());
    let total = total_cost(&model.host.agents);
    let cost = if total > 0 {
        format!(" {}", cost_text(total))
    } else {
        String::new()
    };
    if model.drawn.width >= 60 || model.drawn.width == 0 {
        line.push_shown(
            format!("  {}{cost}  ", plural(running.count(), "agent")),
            Role::Dim,
        );
    } else {
        line.push_shown("  ", Role::Dim);
    }
    match model.host.link {
        HostLink::Starting => line.push("connecting ", Role::Dim),
        HostLink::Up => line.push_shown(format!("{} live ", model.glyphs.running), Role::Good),
        HostLink::Lost { since } => {
            let seconds = model.now.ms.saturating_sub(since) / 1_000;
            line.push_shown(format!("HOST LOST {seconds}s, looking for it "), Role::Bad);
        }
    }
    line
}

/// What must be seen whatever is selected, within bounds: the ask itself comes first.
fn warning_lines(model: &Model, height: u16) -> Vec<TextLine> {
    let lines_max = if height < ROOMY_HEIGHT {
        1
    } else {
        WARNING_LINES_MAX
    };
    let all = model.host.warnings.lines_without_bypasses(model.now.wall);
    let fits = if all.len() > lines_max {
        lines_max - 1
    } else {
        all.len()
    };
    let more = all.len() - fits;
    let shown = all.iter().take(fits);
    let mut lines: Vec<TextLine> = shown
        .map(|text| TextLine::shown(format!(" {text}"), Role::Warn))
        .collect();
    if more > 0 {
        let text = format!(" {more} MORE WARNINGS: see `countersign status`");
        lines.push(TextLine::shown(text, Role::Warn));
    }
    lines
}
