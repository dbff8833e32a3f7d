//! Reading transcripts: the end first, then what comes, and older pages on the way up.

use countersign_protocol::{AgentTarget, TranscriptQuery, method};

use crate::command::Action;
use crate::host_call::{CallLane, HostCall, ReplyTag};
use crate::layout::{PanelKind, PanelSpec};
use crate::message::Effect;
use crate::model::Model;
use crate::transcript::{LineFormat, Transcript, TranscriptEnd};

/// Parts in one page.
const PAGE_PARTS: u64 = 100;

/// Reads the transcripts that are on the screen, and follows the first of them.
pub(super) fn load_visible(model: &mut Model) -> Vec<Effect> {
    if !model.host.is_up() {
        return Vec::new();
    }
    let panels = model
        .drawn
        .panels
        .iter()
        .filter(|panel| matches!(panel.spec.kind, PanelKind::Transcript | PanelKind::Chat));
    let agents = panels.filter_map(|panel| model.panel_agent(&panel.spec));
    let managed: Vec<String> = agents
        .filter(|agent| agent.managed.is_some())
        .map(|agent| agent.id.clone())
        .collect();
    let mut effects = reach_goal(model);
    if let Some(first) = managed.first()
        && model.followed.as_ref() != Some(first)
    {
        model.followed = Some(first.clone());
        effects.push(Effect::FollowTranscript(Some(first.clone())));
        // While another transcript was followed, nobody said when this one grew.
        effects.extend(read_next(model, first));
    }
    for agent in managed {
        if !model.transcripts.contains_key(&agent)
            && !model.loading.contains(&format!("around {agent}"))
            && model.loading.insert(format!("transcript {agent}"))
        {
            let query = TranscriptQuery {
                from_end: true,
                limit: Some(PAGE_PARTS),
                ..TranscriptQuery::default()
            };
            let tag = ReplyTag::TranscriptEnd {
                agent: agent.clone(),
            };
            effects.push(read_page(agent, query, tag));
        }
    }
    effects
}

/// Goes to the place that somebody wants to see, once the panel is drawn whose lines it is counted in.
fn reach_goal(model: &mut Model) -> Vec<Effect> {
    let Some(goal) = model.transcript_goal.clone() else {
        return Vec::new();
    };
    let mut panels = model.drawn.panels.iter().map(|panel| &panel.spec);
    let shown = panels.find(|spec| {
        let agent = model.panel_agent(spec).map(|agent| agent.id.as_str());
        spec.kind == PanelKind::Transcript && agent == Some(goal.agent.as_str())
    });
    let Some(panel) = shown.cloned() else {
        return Vec::new();
    };
    let (format, height) = line_format(model, &panel);
    let transcript = model.transcripts.get(&goal.agent);
    let end = transcript.and_then(|transcript| transcript.end_showing(&goal, format, height));
    if let Some(end) = end {
        model.view_mut(&panel.id).end = end;
        model.transcript_goal = None;
        return Vec::new();
    }
    if !model.loading.insert(format!("around {}", goal.agent)) {
        return Vec::new();
    }
    let query = TranscriptQuery {
        before: Some(goal.sequence + 1),
        limit: Some(PAGE_PARTS),
        ..TranscriptQuery::default()
    };
    let tag = ReplyTag::TranscriptAround {
        agent: goal.agent.clone(),
    };
    vec![read_page(goal.agent, query, tag)]
}

/// Reads what follows the part that somebody went to.
fn read_after_window(model: &mut Model, agent: &str, after: Option<u64>) -> Vec<Effect> {
    if !model.loading.insert(format!("after {agent}")) {
        return Vec::new();
    }
    let query = TranscriptQuery {
        after,
        limit: Some(PAGE_PARTS),
        ..TranscriptQuery::default()
    };
    let tag = ReplyTag::TranscriptAfter {
        agent: agent.to_owned(),
    };
    vec![read_page(agent.to_owned(), query, tag)]
}

fn read_page(agent: String, query: TranscriptQuery, tag: ReplyTag) -> Effect {
    let params = AgentTarget {
        agent_id: agent,
        body: query,
    };
    Effect::Call(HostCall::new::<method::Transcript>(
        CallLane::Read,
        &params,
        tag,
    ))
}

/// Reads what came after the newest part. While a page is on its way, nothing is asked for again.
pub(super) fn read_next(model: &mut Model, agent: &str) -> Vec<Effect> {
    let transcript = model.transcripts.get(agent);
    // What follows a window is read when somebody gets there.
    let next = transcript
        .filter(|transcript| !transcript.is_window())
        .and_then(Transcript::next);
    let Some(after) = next else { return Vec::new() };
    let key = format!("next {agent}");
    if !model.loading.insert(key) {
        // The page on its way may have been read before what is news now, so another
        // one has to follow it.
        model.loading.insert(format!("again {agent}"));
        return Vec::new();
    }
    let query = TranscriptQuery {
        after: Some(after),
        limit: Some(PAGE_PARTS),
        ..TranscriptQuery::default()
    };
    let tag = ReplyTag::TranscriptNext {
        agent: agent.to_owned(),
    };
    vec![read_page(agent.to_owned(), query, tag)]
}

/// Reads the page before the oldest part that is known.
fn read_before(model: &mut Model, agent: &str) -> Vec<Effect> {
    let before = model.transcripts.get(agent).and_then(Transcript::before);
    let Some(before) = before else {
        return Vec::new();
    };
    if !model.loading.insert(format!("before {agent}")) {
        return Vec::new();
    }
    let query = TranscriptQuery {
        before: Some(before),
        limit: Some(PAGE_PARTS),
        ..TranscriptQuery::default()
    };
    let tag = ReplyTag::TranscriptBefore {
        agent: agent.to_owned(),
    };
    vec![read_page(agent.to_owned(), query, tag)]
}

/// How the lines of a panel are made, as it was last drawn.
fn line_format(model: &Model, panel: &PanelSpec) -> (LineFormat, usize) {
    let area = model.drawn.panel_area(&panel.id);
    let format = LineFormat {
        width: area.width.into(),
        unfolded: model.view(&panel.id).unfolded,
        mark: model.glyphs.continued,
    };
    (format, area.height.into())
}

pub(super) fn scroll(model: &mut Model, panel: &PanelSpec, steps: isize) -> Vec<Effect> {
    let Some(agent) = model.panel_agent(panel).map(|agent| agent.id.clone()) else {
        return Vec::new();
    };
    let (format, height) = line_format(model, panel);
    let Some(transcript) = model.transcripts.get(&agent) else {
        return Vec::new();
    };
    // No transcript has more lines than this in memory.
    let steps = steps.clamp(-1_000_000, 1_000_000);
    let end = transcript.moved_end(model.view(&panel.id).end, steps, format, height);
    let needs_more = steps < 0 && transcript.reaches_start(end, format, height);
    let needs_newer = steps > 0 && transcript.reaches_window_end(end, format);
    let next = transcript.next();
    model.view_mut(&panel.id).end = end;
    if needs_newer {
        read_after_window(model, &agent, next)
    } else if needs_more {
        read_before(model, &agent)
    } else {
        Vec::new()
    }
}

pub(super) fn change_view(model: &mut Model, action: Action) -> Vec<Effect> {
    let panel = model.focused_panel();
    let (format, _) = line_format(model, &panel);
    let agent = model.panel_agent(&panel).map(|agent| agent.id.clone());
    let transcript = agent
        .as_ref()
        .and_then(|agent| model.transcripts.get(agent));
    if action == Action::ToggleFollow
        && let Some(agent) = &agent
        && transcript.is_some_and(Transcript::is_window)
    {
        // The end is read again: what lies between is not known.
        model.transcripts.remove(agent);
        model.view_mut(&panel.id).end = TranscriptEnd::Newest;
        return Vec::new();
    }
    let end = model.view(&panel.id).end;
    let moved = transcript.map(|transcript| match action {
        Action::TurnBefore => transcript.turn_end(end, false, format),
        Action::TurnAfter => transcript.turn_end(end, true, format),
        _ => TranscriptEnd::Newest,
    });
    let view = model.view_mut(&panel.id);
    match action {
        Action::Unfold => view.unfolded = true,
        Action::Fold => view.unfolded = false,
        _ => view.end = moved.unwrap_or_default(),
    }
    match (action, agent) {
        (Action::TurnBefore, Some(agent)) if moved == Some(end) => read_before(model, &agent),
        _ => Vec::new(),
    }
}
