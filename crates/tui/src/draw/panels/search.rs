//! What was found in transcripts, newest first.

use countersign_protocol::SearchHitRow;
use ratatui::layout::Rect;

use crate::canvas::{Canvas, TextLine};
use crate::draw::DrawReport;
use crate::duration;
use crate::escaped_text::EscapedText;
use crate::layout::PanelSpec;
use crate::model::Model;
use crate::render::escape;
use crate::render::search_hits::kind_mark;
use crate::theme::Role;

use super::draw_rows;

const NAME_COLUMNS: usize = 12;

pub(super) fn title(model: &Model) -> String {
    let search = &model.search;
    if search.text.is_empty() {
        return "Search".to_owned();
    }
    let more = if search.next().is_some() { "+" } else { "" };
    format!(
        "Search {}: {}{more}",
        escape::line(&search.text),
        model.search_rows().len()
    )
}

pub(super) fn draw(
    model: &Model,
    spec: &PanelSpec,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas<'_>,
    report: &mut DrawReport,
) {
    let hits = model.search_rows();
    if hits.is_empty() {
        let text = empty_text(model);
        canvas.put_shown(area.x, area.y, area.width, text, Role::Dim);
        return;
    }
    let selected = model.view(&spec.id).cursor.min(hits.len() - 1);
    draw_rows(
        &hits,
        selected,
        area,
        is_focused,
        canvas,
        report,
        |hit, is_selected| hit_line(model, hit, is_selected),
    );
}

fn empty_text(model: &Model) -> &'static str {
    if model.search.text.is_empty() {
        "  g / searches the transcripts of all agents for words"
    } else if model.search.is_loaded && model.search.next().is_none() {
        "  nothing was found"
    } else {
        "  searching"
    }
}

fn hit_line(model: &Model, hit: &SearchHitRow, is_selected: bool) -> TextLine {
    let mark = if is_selected {
        model.glyphs.selected
    } else {
        ' '
    };
    let age = duration::age(model.now.wall, hit.timestamp);
    let mut line = TextLine::shown(format!("{mark}{age:>4}  "), Role::Dim);
    let agent = hit.agent_name.as_deref().unwrap_or(&hit.agent_id);
    let name = EscapedText::line(agent)
        .truncated(NAME_COLUMNS)
        .padded(NAME_COLUMNS);
    line.push(name, Role::Dim);
    line.push_shown(format!(" {} ", kind_mark(hit.kind)), Role::Mark);
    for piece in &hit.excerpt {
        let role = if piece.hit { Role::Strong } else { Role::Text };
        line.push(EscapedText::line(&piece.text), role);
    }
    line
}
