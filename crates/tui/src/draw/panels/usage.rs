//! What agents used, as they report it, and how the host is.

use ratatui::layout::Rect;

use crate::agent_list::{context_percent, cost_text, total_cost};
use crate::canvas::{Canvas, TextLine};
use crate::escaped_text::EscapedText;
use crate::model::Model;
use crate::theme::Role;

const NAME_COLUMNS: usize = 16;
const BAR_COLUMNS: u64 = 20;

pub(super) fn draw(model: &Model, area: Rect, canvas: &mut Canvas<'_>) {
    let mut lines = Vec::new();
    let total = total_cost(&model.host.agents);
    let running = model
        .host
        .agents
        .values()
        .filter(|agent| !agent.state.is_ended())
        .count();
    let version = model.host.version.as_deref().unwrap_or("?");
    let text = format!(
        " {running} agents run, {} in all, {}",
        model.host.agents.len(),
        cost_text(total)
    );
    lines.push(TextLine::shown(text, Role::Strong));
    lines.push(TextLine::shown(
        format!(" host {version}, event {}", model.host.cursor),
        Role::Dim,
    ));
    lines.push(TextLine::default());
    let mut agents: Vec<_> = model
        .host
        .agents
        .values()
        .filter(|agent| agent.managed.is_some())
        .collect();
    agents.sort_by_key(|agent| {
        let usage = agent.managed.as_ref().map(|managed| managed.usage);
        std::cmp::Reverse(usage.and_then(|usage| usage.cost_micro_usd).unwrap_or(0))
    });
    for agent in agents {
        let Some(managed) = &agent.managed else {
            continue;
        };
        let cost = managed.usage.cost_micro_usd.unwrap_or(0);
        let filled = (cost * BAR_COLUMNS).checked_div(total).unwrap_or(0);
        let bar: String = (0..BAR_COLUMNS)
            .map(|step| {
                if step < filled {
                    model.glyphs.full
                } else {
                    model.glyphs.rest
                }
            })
            .collect();
        let mut line = TextLine::new(" ", Role::Text);
        line.push(
            EscapedText::line(&agent.name)
                .truncated(NAME_COLUMNS)
                .padded(NAME_COLUMNS + 1),
            Role::Text,
        );
        line.push_shown(format!("{:>8} {bar} ", cost_text(cost)), Role::Text);
        let percent =
            context_percent(agent).map_or(String::new(), |percent| format!("  context {percent}%"));
        let text = format!(
            "in {}  out {}{percent}  {} turns",
            token_text(managed.usage.tokens_in),
            token_text(managed.usage.tokens_out),
            managed.turns
        );
        line.push_shown(text, Role::Dim);
        lines.push(line);
    }
    canvas.put_lines(area, lines.iter());
}

fn token_text(count: Option<u64>) -> String {
    count.map_or_else(|| "-".to_owned(), |count| count.to_string())
}
