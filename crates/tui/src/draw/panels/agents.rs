//! The agents, those that need somebody first.

use countersign_protocol::HostAgentState;
use ratatui::layout::Rect;

use crate::agent_list::{
    AgentEntry, context_percent, cost_text, is_archived, is_orchestrator, last_activity,
};
use crate::canvas::{Canvas, TextLine};
use crate::draw::DrawReport;
use crate::duration;
use crate::escaped_text::EscapedText;
use crate::layout::PanelSpec;
use crate::model::Model;
use crate::theme::Role;

use super::draw_rows;

const NAME_COLUMNS: usize = 14;
const KIND_COLUMNS: usize = 8;
const STATE_COLUMNS: usize = 9;

pub(super) fn title(model: &Model, spec: &PanelSpec) -> String {
    let filter = model.view(&spec.id).filter;
    let count = model.agent_entries(spec).len();
    let filter = if filter.is_empty() {
        String::new()
    } else {
        format!(" /{filter}")
    };
    format!("Agents {count}{filter}")
}

pub(super) fn draw(
    model: &Model,
    spec: &PanelSpec,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    let entries = model.agent_entries(spec);
    if entries.is_empty() {
        canvas.put_shown(
            area.x,
            area.y,
            area.width,
            "  no agents: + starts one",
            Role::Dim,
        );
        return;
    }
    let selected = model.agent_index(spec);
    draw_rows(
        &entries,
        selected,
        area,
        is_focused,
        canvas,
        report,
        |entry, is_selected| agent_line(model, entry, is_selected),
    );
}

/// One word for what an agent does.
pub(super) fn state_word(state: HostAgentState) -> &'static str {
    match state {
        HostAgentState::AwaitingPermission => "asks",
        HostAgentState::Waiting => "waits",
        other => other.as_str(),
    }
}

pub(super) fn state_role(state: HostAgentState) -> Role {
    match state {
        HostAgentState::AwaitingPermission | HostAgentState::Waiting => Role::Ask,
        HostAgentState::Running | HostAgentState::Starting => Role::Good,
        HostAgentState::Error => Role::Bad,
        _ => Role::Dim,
    }
}

fn agent_line(model: &Model, entry: &AgentEntry<'_>, is_selected: bool) -> TextLine {
    let agent = entry.agent;
    let mark = if is_selected {
        model.glyphs.selected
    } else {
        ' '
    };
    let indent = " ".repeat(entry.depth.min(6) * 2);
    let mut name = EscapedText::shown(indent).with(&EscapedText::line(&agent.name));
    if is_orchestrator(agent) {
        name = name.with(&" +".into());
    }
    let kind = agent
        .managed
        .as_ref()
        .and_then(|managed| managed.agent.as_deref());
    let kind = EscapedText::line(kind.unwrap_or(&agent.kind));
    let role = state_role(agent.state);
    let mut line = TextLine::shown(format!("{mark}{} ", model.glyphs.agent(agent.state)), role);
    line.push(
        name.truncated(NAME_COLUMNS).padded(NAME_COLUMNS + 1),
        Role::Text,
    );
    line.push(
        kind.truncated(KIND_COLUMNS).padded(KIND_COLUMNS + 1),
        Role::Dim,
    );
    let word = if is_archived(agent) {
        "archived"
    } else {
        state_word(agent.state)
    };
    line.push(EscapedText::from(word).padded(STATE_COLUMNS), role);
    let age = duration::age(model.now.wall, last_activity(agent));
    line.push_shown(format!("{age:>4} "), Role::Dim);
    let percent = context_percent(agent).map_or(String::new(), |percent| format!("{percent}%"));
    line.push_shown(format!("{percent:>4} "), Role::Dim);
    let cost = agent
        .managed
        .as_ref()
        .and_then(|managed| managed.usage.cost_micro_usd);
    line.push_shown(cost.map_or(String::new(), cost_text), Role::Dim);
    if agent
        .bypass_until
        .is_some_and(|until| until > model.now.wall)
    {
        line.push("  BYPASS", Role::Warn);
    }
    line
}
