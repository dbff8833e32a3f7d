//! Layouts, tabs, pages over them, and which panel has the focus.

use ratatui::layout::Rect;

use crate::layout::{
    Layout, LayoutNode, MEDIUM_COLUMNS, PanelKind, PanelSpec, PartSize, TabSpec, WIDE_COLUMNS,
    built_in_layouts, last_focused, solve,
};

/// Ids of panels that had focus, as many as matter for stacks.
const RECENT_MAX: usize = 40;

/// Tabs of one screen.
const TABS_MAX: usize = 20;
/// A part is never larger or smaller than this, in per cent.
const SIZES: std::ops::RangeInclusive<i16> = 10..=90;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    pub layout: Layout,
    /// All that can be chosen.
    pub layouts: Vec<Layout>,
    pub active_tab: usize,
    /// Panels that had focus, the last first.
    recent: Vec<String>,
    /// Panels that were opened over the tab, the last on top.
    pages: Vec<PanelSpec>,
    pub is_zoomed: bool,
}

impl Workspace {
    /// Begins with the first layout.
    pub fn new(mut layouts: Vec<Layout>) -> Self {
        if layouts.is_empty() {
            layouts = built_in_layouts();
        }
        Self {
            layout: layouts[0].clone(),
            layouts,
            active_tab: 0,
            recent: Vec::new(),
            pages: Vec::new(),
            is_zoomed: false,
        }
    }

    pub fn tab(&self) -> &TabSpec {
        &self.layout.tabs[self.active_tab.min(self.layout.tabs.len() - 1)]
    }

    pub fn page(&self) -> Option<&PanelSpec> {
        self.pages.last()
    }

    pub fn recent(&self) -> &[String] {
        &self.recent
    }

    /// What is drawn in the body of the screen: the page on top, a panel alone, or the whole tab.
    pub fn visible_tree(&self, width: u16) -> LayoutNode {
        if let Some(page) = self.pages.last() {
            return LayoutNode::Panel(page.clone());
        }
        if self.is_zoomed {
            return LayoutNode::Panel(self.focused_panel(width));
        }
        self.tab().tree(width).clone()
    }

    pub fn focused_panel(&self, width: u16) -> PanelSpec {
        if let Some(page) = self.pages.last() {
            return page.clone();
        }
        let panels = self.tab().tree(width).panels();
        let found = last_focused(&panels, &self.recent).cloned();
        // A tab has at least one panel: a file without is refused.
        found.unwrap_or_else(|| PanelSpec::new(PanelKind::Inbox))
    }

    /// Gives a panel the focus.
    pub fn focus(&mut self, id: &str) {
        self.recent.retain(|known| known != id);
        self.recent.insert(0, id.to_owned());
        self.recent.truncate(RECENT_MAX);
    }

    pub fn focus_by(&mut self, forward: bool, width: u16) {
        if self.pages.last().is_some() {
            return;
        }
        let current = self.focused_panel(width).id;
        let panels = self.tab().tree(width).panels();
        let count = panels.len();
        let at = panels
            .iter()
            .position(|panel| panel.id == current)
            .unwrap_or(0);
        let step = if forward { 1 } else { count - 1 };
        let next = panels[(at + step) % count].id.clone();
        self.focus(&next);
    }

    /// Gives the focus to the nearest panel in a direction, as columns and rows.
    pub fn focus_towards(&mut self, columns: i32, rows: i32, area: Rect) {
        if self.pages.last().is_some() || self.is_zoomed {
            return;
        }
        let current = self.focused_panel(area.width).id;
        let tree = self.tab().tree(area.width).clone();
        let solved = solve(&tree, area, &self.recent);
        let Some(own) = solved
            .panels
            .iter()
            .find(|placed| placed.spec.id == current)
        else {
            return;
        };
        let center = |area: Rect| {
            (
                i32::from(area.x) * 2 + i32::from(area.width),
                i32::from(area.y) * 2 + i32::from(area.height),
            )
        };
        let (x, y) = center(own.area);
        let ahead = solved.panels.iter().filter_map(|placed| {
            let (other_x, other_y) = center(placed.area);
            let (right, down) = (other_x - x, other_y - y);
            let along = right * columns + down * rows;
            let aside = (right * rows).abs() + (down * columns).abs();
            (along > 0 && placed.spec.id != current)
                .then_some((along + 2 * aside, placed.spec.id.clone()))
        });
        if let Some((_, id)) = ahead.min() {
            self.focus(&id);
        }
    }

    /// Focuses the panel of a kind in this tab, or opens one over it.
    pub fn open(&mut self, kind: PanelKind, width: u16) {
        let panels = self.tab().tree(width).panels();
        let found = panels
            .iter()
            .find(|panel| panel.kind == kind)
            .map(|panel| panel.id.clone());
        match found {
            Some(id) => {
                self.pages.clear();
                self.is_zoomed = false;
                self.focus(&id);
            }
            None => self.open_page(PanelSpec::new(kind)),
        }
    }

    /// Opens a panel over the tab.
    pub fn open_page(&mut self, panel: PanelSpec) {
        self.pages.retain(|page| page.id != panel.id);
        self.pages.push(panel);
    }

    /// Takes another layout. Panels with the same id keep where they stand.
    pub fn take_layout(&mut self, layout: Layout) {
        self.layout = layout;
        self.active_tab = 0;
        self.pages.clear();
        self.is_zoomed = false;
    }

    /// Adds a layout to those that can be chosen, in the place of one with its name.
    pub fn add_layout(&mut self, layout: Layout) {
        if self.layout.name == layout.name {
            self.layout = layout.clone();
            self.active_tab = self.active_tab.min(self.layout.tabs.len() - 1);
        }
        self.put_layout(layout);
    }

    /// The same, and leaves what is shown as it is.
    pub fn put_layout(&mut self, layout: Layout) {
        match self
            .layouts
            .iter_mut()
            .find(|known| known.name == layout.name)
        {
            Some(known) => *known = layout,
            None => self.layouts.push(layout),
        }
    }

    /// The layout as it was saved.
    pub fn reset_layout(&mut self) {
        let saved = self
            .layouts
            .iter()
            .find(|known| known.name == self.layout.name);
        if let Some(saved) = saved.cloned() {
            self.take_layout(saved);
        }
    }

    /// Goes to a tab, counted from zero. Whether there is one.
    pub fn go_to_tab(&mut self, index: usize) -> bool {
        if index >= self.layout.tabs.len() {
            return false;
        }
        self.active_tab = index;
        self.pages.clear();
        self.is_zoomed = false;
        true
    }

    /// Adds the tabs of a layout behind the others, and goes to the first of them.
    pub fn add_tabs(&mut self, layout: &Layout) {
        let first = self.layout.tabs.len();
        let room = TABS_MAX.saturating_sub(first);
        self.layout
            .tabs
            .extend(layout.tabs.iter().take(room).cloned());
        self.go_to_tab(first);
    }

    /// Closes the tab, unless it is the only one.
    pub fn close_tab(&mut self) -> bool {
        if self.layout.tabs.len() < 2 {
            return false;
        }
        self.layout.tabs.remove(self.active_tab);
        self.go_to_tab(self.active_tab.saturating_sub(1))
    }

    /// Makes the focused panel larger or smaller, in per cent of what it is beside.
    pub fn resize(&mut self, percent: i16, width: u16) {
        let focused = self.focused_panel(width).id;
        let tab = &mut self.layout.tabs[self.active_tab];
        let tree = if width < MEDIUM_COLUMNS && tab.narrow.is_some() {
            tab.narrow.as_mut()
        } else if width < WIDE_COLUMNS && tab.medium.is_some() {
            tab.medium.as_mut()
        } else {
            Some(&mut tab.root)
        };
        if let Some(tree) = tree {
            resize_node(tree, &focused, percent);
        }
    }

    /// Goes back one step. Whether there was one.
    pub fn go_back(&mut self) -> bool {
        if self.pages.pop().is_some() {
            return true;
        }
        std::mem::take(&mut self.is_zoomed)
    }
}

/// Changes the size of the innermost part with a panel, against those beside it. Whether it was found.
fn resize_node(node: &mut LayoutNode, panel: &str, percent: i16) -> bool {
    let LayoutNode::Split { parts, .. } = node else {
        return false;
    };
    let has_panel = |node: &LayoutNode| node.panels().iter().any(|spec| spec.id == panel);
    let Some(index) = parts.iter().position(|part| has_panel(&part.node)) else {
        return false;
    };
    if resize_node(&mut parts[index].node, panel, percent) {
        return true;
    }
    // The last part takes what the others leave: the one before it changes instead.
    let (index, percent) = match parts.len() {
        0 | 1 => return false,
        count if index + 1 == count => (index - 1, -percent),
        _ => (index, percent),
    };
    let even = i16::try_from(100 / parts.len()).unwrap_or(50);
    let current = match parts[index].size {
        PartSize::Percent(size) => i16::try_from(size).unwrap_or(50),
        PartSize::Cells(_) | PartSize::Fill => even,
    };
    let size = (current + percent).clamp(*SIZES.start(), *SIZES.end());
    parts[index].size = PartSize::Percent(size.unsigned_abs());
    if let Some(last) = parts.last_mut() {
        last.size = PartSize::Fill;
    }
    true
}
