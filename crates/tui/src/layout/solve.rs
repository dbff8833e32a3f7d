//! Where the panels of a tree stand.

use ratatui::layout::Rect;

use super::{LayoutNode, LayoutPart, PanelSpec, PartSize, SplitDirection};

/// Rows and columns below which a panel shows nothing.
const HEIGHT_MIN: u16 = 2;
const WIDTH_MIN: u16 = 12;

/// A panel that is shown, and those that share its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedPanel<'a> {
    pub spec: &'a PanelSpec,
    pub area: Rect,
    /// The panels of its stack, itself among them; empty if it stands alone.
    pub stack: Vec<&'a PanelSpec>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SolvedLayout<'a> {
    pub panels: Vec<PlacedPanel<'a>>,
    /// Columns between panels: column, first row, row after the last.
    pub rules: Vec<(u16, u16, u16)>,
}

/// Places the panels of a tree. `recent` has ids, those that had focus last first: it says which panel of a stack is
/// on top.
pub fn solve<'a>(node: &'a LayoutNode, area: Rect, recent: &[String]) -> SolvedLayout<'a> {
    let mut solved = SolvedLayout::default();
    place(node, area, recent, &mut solved);
    solved
}

fn place<'a>(node: &'a LayoutNode, area: Rect, recent: &[String], solved: &mut SolvedLayout<'a>) {
    match node {
        LayoutNode::Panel(spec) => solved.panels.push(PlacedPanel {
            spec,
            area,
            stack: Vec::new(),
        }),
        LayoutNode::Stack(specs) => place_stack(specs.iter().collect(), area, recent, solved),
        LayoutNode::Split { direction, parts } => {
            let gap = match direction {
                SplitDirection::Right => 1,
                SplitDirection::Down => 0,
            };
            let length = match direction {
                SplitDirection::Right => area.width,
                SplitDirection::Down => area.height,
            };
            // Without room for all, they share one place.
            let Some(lengths) = part_lengths(parts, length, gap, *direction) else {
                return place_stack(node.panels(), area, recent, solved);
            };
            place_parts(parts, &lengths, *direction, area, recent, solved);
        }
    }
}

fn place_parts<'a>(
    parts: &'a [LayoutPart],
    lengths: &[u16],
    direction: SplitDirection,
    area: Rect,
    recent: &[String],
    solved: &mut SolvedLayout<'a>,
) {
    let mut rest = area;
    for (index, (part, length)) in parts.iter().zip(lengths).enumerate() {
        let own = match direction {
            SplitDirection::Right => Rect {
                width: *length,
                ..rest
            },
            SplitDirection::Down => Rect {
                height: *length,
                ..rest
            },
        };
        place(&part.node, own, recent, solved);
        match direction {
            SplitDirection::Right => {
                if index + 1 < parts.len() {
                    solved.rules.push((own.right(), area.y, area.bottom()));
                }
                // No rule follows the last part, so there may be no column left for one.
                let taken = (*length + 1).min(rest.width);
                rest.x += taken;
                rest.width -= taken;
            }
            SplitDirection::Down => {
                rest.y += *length;
                rest.height -= *length;
            }
        }
    }
}

/// The panel that had the focus last, or the first one if none had it. `recent` begins with the newest.
pub fn last_focused<'a>(specs: &[&'a PanelSpec], recent: &[String]) -> Option<&'a PanelSpec> {
    let focused = specs.iter().min_by_key(|spec| {
        let position = recent.iter().position(|id| *id == spec.id);
        position.unwrap_or(usize::MAX)
    });
    focused.copied()
}

fn place_stack<'a>(
    specs: Vec<&'a PanelSpec>,
    area: Rect,
    recent: &[String],
    solved: &mut SolvedLayout<'a>,
) {
    if let Some(spec) = last_focused(&specs, recent) {
        let stack = if specs.len() > 1 { specs } else { Vec::new() };
        solved.panels.push(PlacedPanel { spec, area, stack });
    }
}

/// How long each part is; nothing if one of them would be too short.
fn part_lengths(
    parts: &[LayoutPart],
    length: u16,
    gap: u16,
    direction: SplitDirection,
) -> Option<Vec<u16>> {
    let count = u16::try_from(parts.len()).ok()?;
    let room = length.checked_sub(gap * count.saturating_sub(1))?;
    let fixed = parts.iter().map(|part| match part.size {
        PartSize::Percent(percent) => Some(room * percent.min(100) / 100),
        PartSize::Cells(cells) => Some(cells),
        PartSize::Fill => None,
    });
    let fixed: Vec<Option<u16>> = fixed.collect();
    let taken: u16 = fixed.iter().flatten().sum();
    let mut rest = room.checked_sub(taken)?;
    let mut fills = u16::try_from(fixed.iter().filter(|length| length.is_none()).count()).ok()?;
    let mut lengths = Vec::with_capacity(parts.len());
    for length in fixed {
        let own = length.unwrap_or_else(|| {
            // Divided again for each part, so that what rounding leaves is spread over the later ones.
            let share = rest / fills.max(1);
            fills = fills.saturating_sub(1);
            rest -= share;
            share
        });
        lengths.push(own);
    }
    // What rounding left goes to the last part.
    if fixed_only(parts)
        && let Some(last) = lengths.last_mut()
    {
        *last += rest;
    }
    let least = match direction {
        SplitDirection::Right => WIDTH_MIN,
        SplitDirection::Down => HEIGHT_MIN,
    };
    let fits = lengths
        .iter()
        .zip(parts)
        .all(|(length, part)| *length >= part.min.max(least));
    fits.then_some(lengths)
}

fn fixed_only(parts: &[LayoutPart]) -> bool {
    parts.iter().all(|part| part.size != PartSize::Fill)
}
