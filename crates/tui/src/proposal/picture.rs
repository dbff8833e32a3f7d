//! Proposals as they are drawn in their ask: a layout as boxes, a theme as samples, a key beside its command.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

use crate::canvas::{Canvas, TextLine};
use crate::draw::buffer_text;
use crate::glyphs::Glyphs;
use crate::keymap::Keymap;
use crate::layout::{LayoutNode, PanelSpec, PlacedPanel, TabSpec, solve};
use crate::theme::{Role, Theme, ThemeColors};

use super::Proposal;

/// The size of a layout's picture. Its columns stand for the widest screen, so that no part is left out for want of
/// room; rows are enough for a title in each panel.
const PICTURE_COLUMNS: u16 = 76;
const PICTURE_ROWS: u16 = 14;
/// How much larger the screen is that the picture shows.
const SCALE: u16 = 2;

/// A line of a picture, with the style of its sample where it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PicturedLine {
    pub line: TextLine,
    /// Drawn over the line from this column.
    pub sample: Option<(u16, Style)>,
}

impl PicturedLine {
    fn plain(line: TextLine) -> Self {
        Self { line, sample: None }
    }
}

/// The picture of a proposal at a width.
pub fn proposal_picture(
    proposal: &Proposal,
    width: u16,
    theme: &Theme,
    keymap: &Keymap,
    glyphs: &'static Glyphs,
) -> Vec<PicturedLine> {
    match proposal {
        Proposal::Layout { layout, .. } => {
            let tabs = layout
                .tabs
                .iter()
                .flat_map(|tab| tab_picture(tab, width, theme, glyphs));
            tabs.map(PicturedLine::plain).collect()
        }
        Proposal::Theme { colors, .. } => theme_samples(colors, theme),
        Proposal::Key { command, keys } => {
            let now = keymap.key_of(command.action);
            let now = now.unwrap_or_else(|| "none".to_owned());
            let mut line = TextLine::new("key  ", Role::Dim);
            line.push_shown(keys.join(" or "), Role::Strong);
            line.push_shown(
                format!("  {}: {}  (now: {now})", command.id, command.word),
                Role::Text,
            );
            vec![PicturedLine::plain(line)]
        }
    }
}

fn tab_picture(tab: &TabSpec, width: u16, theme: &Theme, glyphs: &'static Glyphs) -> Vec<TextLine> {
    let mut lines = vec![TextLine::default()];
    let mut title = TextLine::new("tab  ", Role::Dim);
    title.push(
        crate::escaped_text::EscapedText::line(&tab.title),
        Role::Strong,
    );
    lines.push(title);
    let trees = [
        ("", Some(&tab.root)),
        ("below 120 columns", tab.medium.as_ref()),
        ("below 80 columns", tab.narrow.as_ref()),
    ];
    for (when, tree) in trees {
        let Some(tree) = tree else { continue };
        if !when.is_empty() {
            lines.push(TextLine::new(when, Role::Dim));
        }
        lines.extend(tree_picture(tree, width, theme, glyphs));
    }
    lines
}

/// The panels of a tree as boxes with their names.
fn tree_picture(
    tree: &LayoutNode,
    width: u16,
    theme: &Theme,
    glyphs: &'static Glyphs,
) -> Vec<TextLine> {
    let columns = width.clamp(1, PICTURE_COLUMNS);
    // Solved at the size of a real screen and drawn smaller: the least sizes of panels mean real cells.
    let screen = Rect::new(0, 0, columns * SCALE, PICTURE_ROWS * SCALE);
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, PICTURE_ROWS));
    let mut canvas = Canvas {
        buffer: &mut buffer,
        theme,
        glyphs,
    };
    let solved = solve(tree, screen, &[]);
    for placed in &solved.panels {
        draw_box(placed, &mut canvas);
    }
    let bottom = Rect::new(0, PICTURE_ROWS - 1, columns, 1);
    canvas.rule(bottom, &TextLine::default());
    let text = buffer_text(&buffer);
    text.lines()
        .map(|line| TextLine::shown(line.to_owned(), Role::Text))
        .collect()
}

fn draw_box(placed: &PlacedPanel<'_>, canvas: &mut Canvas<'_>) {
    let area = Rect {
        x: placed.area.x / SCALE,
        y: placed.area.y / SCALE,
        width: placed.area.width.div_ceil(SCALE),
        height: placed.area.height.div_ceil(SCALE),
    };
    let others = placed
        .stack
        .iter()
        .filter(|other| other.id != placed.spec.id);
    let names =
        std::iter::once(panel_name(placed.spec)).chain(others.map(|other| panel_name(other)));
    let names: Vec<String> = names.collect();
    canvas.rule(
        area,
        &TextLine::shown(format!(" {} ", names.join(" | ")), Role::Strong),
    );
    if area.x > 0 {
        canvas.column_rule(area.x - 1, area.y, area.bottom());
    }
}

fn panel_name(panel: &PanelSpec) -> String {
    use crate::layout::PanelAgent;
    match &panel.agent {
        PanelAgent::Named(agent) => {
            format!(
                "{} of {}",
                panel.kind.name(),
                crate::render::escape::line(agent)
            )
        }
        PanelAgent::Selected => panel.kind.name().to_owned(),
    }
}

fn color_text(color: Color) -> String {
    match color {
        Color::Reset => "default".to_owned(),
        color => color.to_string(),
    }
}

/// Each role in its colour on this background, with both colours in words.
fn theme_samples(colors: &ThemeColors, theme: &Theme) -> Vec<PicturedLine> {
    let proposed = theme.with_colors(colors.clone());
    let lines = colors.pairs().map(|(role, light, dark)| {
        let words = format!(
            "{:<8} light {:<8} dark {:<8} ",
            role.name(),
            color_text(light),
            color_text(dark)
        );
        let mut line = TextLine::shown(words, Role::Dim);
        let start = u16::try_from(line.width()).unwrap_or(u16::MAX);
        line.push("sample text", Role::Text);
        PicturedLine {
            line,
            sample: Some((start, proposed.style(role))),
        }
    });
    lines.collect()
}
