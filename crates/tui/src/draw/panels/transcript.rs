//! What an agent said and did, newest at the bottom, with its plan beside it where there is room.

use std::fmt::Write as _;

use countersign_protocol::HostAgent;
use ratatui::layout::Rect;

use crate::agent_list::{context_percent, cost_text};
use crate::canvas::{Canvas, TextLine};
use crate::duration;
use crate::escaped_text::EscapedText;
use crate::layout::{PanelKind, PanelSpec};
use crate::model::Model;
use crate::render::escape;
use crate::theme::Role;
use crate::transcript::{LineFormat, TranscriptEnd};

use super::agents::state_word;

/// From this width on the plan has a column of its own.
const PLAN_FROM: u16 = 110;
const PLAN_COLUMNS: u16 = 32;

pub(super) fn title(model: &Model, spec: &PanelSpec) -> String {
    let Some(agent) = model.panel_agent(spec) else {
        return "Transcript".to_owned();
    };
    let mut text = format!(
        "{} {} {}",
        escape::line(&agent.name),
        model.glyphs.agent(agent.state),
        state_word(agent.state)
    );
    let Some(managed) = &agent.managed else {
        return text;
    };
    if let Some(turn) = &managed.turn {
        let age = duration::age(model.now.wall, turn.started_at);
        let _ = write!(text, "  turn {} {age}", turn.number);
    }
    if let Some(percent) = context_percent(agent) {
        let _ = write!(text, "  context {percent}%");
    }
    if let Some(cost) = managed.usage.cost_micro_usd {
        let _ = write!(text, "  {}", cost_text(cost));
    }
    if managed.queued > 0 {
        let _ = write!(text, "  {} queued", managed.queued);
    }
    text
}

/// The same for a chat, which says with whom.
pub(super) fn chat_title(model: &Model, spec: &PanelSpec) -> String {
    match model.panel_agent(spec) {
        Some(_) => format!("Chat with {}", title(model, spec)),
        None => "Chat".to_owned(),
    }
}

pub(super) fn draw(model: &Model, spec: &PanelSpec, area: Rect, canvas: &mut Canvas<'_>) {
    let Some(agent) = model.panel_agent(spec) else {
        let text = match spec.kind {
            PanelKind::Chat => {
                "  there is no orchestrator: `countersign spawn --orchestrator` starts one"
            }
            _ => "  no agent is selected",
        };
        canvas.put_shown(area.x, area.y, area.width, text, Role::Dim);
        return;
    };
    let Some(transcript) = model.transcripts.get(&agent.id) else {
        let text = if agent.managed.is_some() {
            "  reading the transcript"
        } else {
            "  the host did not start this agent, so there is no transcript"
        };
        canvas.put_shown(area.x, area.y, area.width, text, Role::Dim);
        return;
    };
    let steps = plan_lines(agent);
    let has_plan = area.width >= PLAN_FROM && !steps.is_empty();
    let text_area = Rect {
        width: area.width - if has_plan { PLAN_COLUMNS } else { 0 },
        ..area
    };
    let view = model.view(&spec.id);
    let format = LineFormat {
        width: text_area.width.into(),
        unfolded: view.unfolded,
        mark: model.glyphs.continued,
    };
    let lines = transcript.visible_lines(view.end, format, text_area.height.into());
    if lines.is_empty() {
        canvas.put_shown(area.x, area.y, area.width, "  nothing yet", Role::Dim);
    }
    canvas.put_lines(text_area, lines.iter());
    if view.end != TranscriptEnd::Newest && area.height > 1 {
        let text = " more below: f follows ";
        let width = u16::try_from(text.len()).unwrap_or(0).min(text_area.width);
        let x = text_area.right() - width;
        canvas.put_shown(x, area.bottom() - 1, width, text, Role::Select);
    }
    if has_plan {
        let x = text_area.right();
        canvas.column_rule(x, area.y, area.bottom());
        let plan = Rect {
            x: x + 1,
            width: PLAN_COLUMNS - 1,
            ..area
        };
        canvas.put_lines(plan, steps.iter());
    }
}

/// What an agent plans, as it says.
fn plan_lines(agent: &HostAgent) -> Vec<TextLine> {
    let managed = agent.managed.as_ref();
    let steps = managed.map_or(&[][..], |managed| &managed.plan);
    let lines = steps.iter().map(|step| {
        let (mark, role) = match step.status.as_str() {
            "completed" => ("[x] ", Role::Dim),
            "in_progress" => ("[>] ", Role::Strong),
            _ => ("[ ] ", Role::Text),
        };
        TextLine(vec![
            (mark.into(), role),
            (EscapedText::line(&step.text), role),
        ])
    });
    lines.collect()
}
