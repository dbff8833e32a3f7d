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
    lines.extend(figures_line(model));
    lines.push(TextLine::default());
    let mut agents: Vec<_> = model
        .host
        .agents
        .values()
        .filter(|agent| agent.managed.is_some() && model.is_in_project(agent))
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

/// What the host itself uses, and how much of a processor between its last two answers.
fn figures_line(model: &Model) -> Option<TextLine> {
    let (at, figures) = model.host.figures.last()?;
    let before = model
        .host
        .figures
        .first()
        .filter(|(earlier, _)| earlier < at);
    let percent = before.map(|(earlier, known)| {
        // A host that was replaced counts from zero again.
        let used = figures.cpu_ms.saturating_sub(known.cpu_ms);
        format!(" ({}%)", used * 100_000 / (at.0 - earlier.0))
    });
    let text = format!(
        " cpu {}s{}  memory {}  database {}  {} connections  {} commits",
        figures.cpu_ms / 1_000,
        percent.unwrap_or_default(),
        byte_text(figures.memory_bytes),
        byte_text(figures.database_bytes),
        model.host.connections,
        figures.commits
    );
    Some(TextLine::shown(text, Role::Dim))
}

fn byte_text(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

fn token_text(count: Option<u64>) -> String {
    count.map_or_else(|| "-".to_owned(), |count| count.to_string())
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use crate::glyphs::{ASCII, UNICODE};
    use crate::host_call::ReplyTag;
    use crate::test_screen::TestScreen;
    use crate::theme::{Background, ColorDepth};

    fn status(cpu_ms: u64) -> serde_json::Value {
        json!({
            "agents": 2, "connections": 3, "database": "/d", "event_sequence": 10, "pending_approvals": 1,
            "pending_questions": 0, "pid": 7, "socket": "/s", "started_at": "1970-01-01T00:00:00.000000Z",
            "version": "1", "you": { "name": "ada", "role": "operator" },
            "figures": { "commits": 41, "cpu_ms": cpu_ms, "database_bytes": 12_345_678, "events": 90,
                         "memory_bytes": 900_000 },
        })
    }

    fn with_figures(mut screen: TestScreen) -> TestScreen {
        screen.connect(Vec::new());
        screen.press("g u");
        screen.reply(ReplyTag::Status, &status(5_000));
        screen
    }

    #[test]
    fn the_hosts_own_figures_are_shown_at_four_sizes() {
        for (width, height) in [(40, 10), (80, 24), (120, 40), (200, 60)] {
            let mut screen = with_figures(TestScreen::new(width, height));
            assert_snapshot!(format!("usage_{width}x{height}"), screen.draw());
        }
    }

    #[test]
    fn the_hosts_own_figures_in_four_styles() {
        for (name, glyphs, background, depth) in [
            ("dark", &UNICODE, Background::Dark, ColorDepth::Full),
            ("light", &UNICODE, Background::Light, ColorDepth::Full),
            ("sixteen", &UNICODE, Background::Dark, ColorDepth::Sixteen),
            ("no_colour", &ASCII, Background::Dark, ColorDepth::None),
        ] {
            let screen = TestScreen::styled(90, 12, glyphs, background, depth);
            let cells = with_figures(screen).cells();
            assert_snapshot!(
                format!("usage_{name}"),
                crate::draw::tests::styles_of(&cells)
            );
        }
    }

    #[test]
    fn a_share_of_the_processor_is_what_was_used_between_two_answers() {
        let mut screen = with_figures(TestScreen::new(120, 40));
        assert!(!screen.draw().contains('%') || !screen.draw().contains("s ("));
        screen.model.host.figures[0].0.0 -= 2_000_000;
        screen.reply(ReplyTag::Status, &status(5_500));
        let shown = screen.draw();
        assert!(
            shown.contains("cpu 5s (25%)  memory 900 kB  database 12.3 MB"),
            "{shown}"
        );
    }
}
