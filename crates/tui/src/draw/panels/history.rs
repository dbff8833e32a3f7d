//! Every agent there was: what it was to do, how it ended, what it cost.

use countersign_protocol::HostAgent;
use ratatui::layout::Rect;

use crate::agent_list::{cost_text, last_activity};
use crate::canvas::{Canvas, TextLine};
use crate::draw::DrawReport;
use crate::duration;
use crate::escaped_text::EscapedText;
use crate::layout::PanelSpec;
use crate::model::Model;
use crate::render::escape;
use crate::theme::Role;

use super::agents::{state_role, state_word};
use super::draw_rows;

const NAME_COLUMNS: usize = 14;
const STATE_COLUMNS: usize = 9;

pub(super) fn title(model: &Model, spec: &PanelSpec) -> String {
    let filter = model.view(&spec.id).filter;
    let filter = if filter.is_empty() {
        String::new()
    } else {
        format!(" /{}", escape::line(&filter))
    };
    format!("History {}{filter}", model.history(&spec.id).len())
}

pub(super) fn draw(
    model: &Model,
    spec: &PanelSpec,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    let agents = model.history(&spec.id);
    if agents.is_empty() {
        canvas.put_shown(area.x, area.y, area.width, "  no agents", Role::Dim);
        return;
    }
    let selected = model.history_index(&spec.id, &agents);
    draw_rows(
        &agents,
        selected,
        area,
        is_focused,
        canvas,
        report,
        |agent, is_selected| agent_line(model, agent, is_selected),
    );
}

fn agent_line(model: &Model, agent: &HostAgent, is_selected: bool) -> TextLine {
    let mark = if is_selected {
        model.glyphs.selected
    } else {
        ' '
    };
    let role = state_role(agent.state);
    let managed = agent.managed.as_ref();
    let mut line = TextLine::shown(format!("{mark}{} ", model.glyphs.agent(agent.state)), role);
    let name = EscapedText::line(&agent.name);
    line.push(
        name.truncated(NAME_COLUMNS).padded(NAME_COLUMNS + 1),
        Role::Text,
    );
    line.push(
        EscapedText::from(state_word(agent.state)).padded(STATE_COLUMNS),
        role,
    );
    let age = duration::age(model.now.wall, last_activity(agent));
    let cost = managed.and_then(|managed| managed.usage.cost_micro_usd);
    let cost = cost.map_or(String::new(), cost_text);
    line.push_shown(format!("{age:>4} {cost:>8}  "), Role::Dim);
    // What it was to do, or how its last run ended.
    let title = managed.and_then(|managed| managed.title.as_deref());
    let message = managed.and_then(|managed| managed.message.as_deref());
    let what = title
        .or(agent.current_task.as_deref())
        .or(message)
        .unwrap_or("");
    line.push(EscapedText::line(what), Role::Text);
    line
}
