//! Layouts in files.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Deserialize;

use super::{
    Layout, LayoutNode, LayoutPart, PanelAgent, PanelKind, PanelSpec, PartSize, SplitDirection,
    TabSpec,
};

/// Bounds of a file, so that a mistake cannot make a screen of nothing but rules.
const TABS_MAX: usize = 20;
const PANELS_MAX: usize = 30;
const DEPTH_MAX: usize = 8;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayoutFile {
    tab: Vec<TabTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TabTable {
    title: String,
    root: NodeTable,
    medium: Option<NodeTable>,
    narrow: Option<NodeTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTable {
    panel: Option<String>,
    id: Option<String>,
    agent: Option<String>,
    show: Option<String>,
    name: Option<String>,
    split: Option<String>,
    parts: Option<Vec<NodeTable>>,
    stack: Option<Vec<NodeTable>>,
    size: Option<SizeValue>,
    min: Option<u16>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SizeValue {
    Cells(u16),
    Text(String),
}

/// Reads a layout. What is wrong is named by its path in the tree.
pub fn parse_layout(name: &str, text: &str) -> Result<Layout, String> {
    let file: LayoutFile =
        toml::from_str(text).map_err(|error| crate::files::toml_error(text, &error))?;
    if file.tab.is_empty() || file.tab.len() > TABS_MAX {
        return Err(format!("a layout has 1 to {TABS_MAX} tabs"));
    }
    let tabs = file.tab.into_iter().enumerate().map(|(index, tab)| {
        let path = format!("tab {}", index + 1);
        let tree = |part: &str, node: NodeTable| read_tree(node, &format!("{path}, {part}"));
        Ok(TabSpec {
            title: tab.title,
            root: tree("root", tab.root)?,
            medium: tab.medium.map(|node| tree("medium", node)).transpose()?,
            narrow: tab.narrow.map(|node| tree("narrow", node)).transpose()?,
        })
    });
    Ok(Layout {
        name: name.to_owned(),
        tabs: tabs.collect::<Result<_, String>>()?,
    })
}

fn read_tree(node: NodeTable, path: &str) -> Result<LayoutNode, String> {
    let tree = read_node(node, path, 0)?;
    let panels = tree.panels();
    if panels.is_empty() || panels.len() > PANELS_MAX {
        return Err(format!("{path}: a tab has 1 to {PANELS_MAX} panels"));
    }
    let mut ids = BTreeSet::new();
    for panel in panels {
        if !ids.insert(panel.id.as_str()) {
            return Err(format!("{path}: two panels have the id `{}`", panel.id));
        }
    }
    Ok(tree)
}

fn read_node(node: NodeTable, path: &str, depth: usize) -> Result<LayoutNode, String> {
    if depth > DEPTH_MAX {
        return Err(format!("{path}: splits are at most {DEPTH_MAX} deep"));
    }
    match (&node.panel, &node.split, &node.stack) {
        (Some(_), None, None) => Ok(LayoutNode::Panel(read_panel(node, path)?)),
        (None, None, Some(_)) => {
            let panels = node.stack.unwrap_or_default().into_iter().enumerate();
            let panels =
                panels.map(|(index, panel)| read_panel(panel, &format!("{path}.stack[{index}]")));
            Ok(LayoutNode::Stack(panels.collect::<Result<_, _>>()?))
        }
        (None, Some(direction), None) => {
            let direction = match direction.as_str() {
                "right" => SplitDirection::Right,
                "down" => SplitDirection::Down,
                other => return Err(format!("{path}: split is `right` or `down`, not `{other}`")),
            };
            let parts = node.parts.unwrap_or_default().into_iter().enumerate();
            let parts = parts
                .map(|(index, part)| read_part(part, &format!("{path}.parts[{index}]"), depth));
            let parts: Vec<LayoutPart> = parts.collect::<Result<_, _>>()?;
            Ok(LayoutNode::Split { direction, parts })
        }
        _ => Err(format!(
            "{path}: one of `panel`, `split` and `stack` is needed"
        )),
    }
}

fn read_part(node: NodeTable, path: &str, depth: usize) -> Result<LayoutPart, String> {
    let size = match &node.size {
        None => PartSize::Fill,
        Some(SizeValue::Cells(cells)) => PartSize::Cells(*cells),
        Some(SizeValue::Text(text)) => read_size(text).ok_or_else(|| {
            format!("{path}: `{text}` is not a size: use `30%`, a number of cells, or `fill`")
        })?,
    };
    Ok(LayoutPart {
        min: node.min.unwrap_or(0),
        size,
        node: read_node(node, path, depth + 1)?,
    })
}

fn read_size(text: &str) -> Option<PartSize> {
    if text == "fill" {
        return Some(PartSize::Fill);
    }
    let percent: u16 = text.strip_suffix('%')?.parse().ok()?;
    (1..=100)
        .contains(&percent)
        .then_some(PartSize::Percent(percent))
}

fn read_panel(node: NodeTable, path: &str) -> Result<PanelSpec, String> {
    let name = node.panel.unwrap_or_default();
    let Some(kind) = PanelKind::parse(&name) else {
        let names: Vec<&str> = PanelKind::ALL.iter().map(|(known, _)| *known).collect();
        return Err(format!(
            "{path}: `{name}` is not a panel; there are {}",
            names.join(", ")
        ));
    };
    let usual_id = match (kind, &node.name) {
        (PanelKind::Command, None) => {
            return Err(format!(
                "{path}: `name` is missing: it says which of panels/NAME.toml is shown"
            ));
        }
        (PanelKind::Command, Some(own)) => format!("{name} {own}"),
        _ => name,
    };
    Ok(PanelSpec {
        id: node.id.unwrap_or(usual_id),
        name: node.name,
        kind,
        agent: match node.agent.as_deref() {
            None | Some("selected") => PanelAgent::Selected,
            Some(agent) => PanelAgent::Named(agent.to_owned()),
        },
        show: node.show,
    })
}

/// A layout as a file has it.
pub fn layout_toml(layout: &Layout) -> String {
    let mut text = String::new();
    for tab in &layout.tabs {
        let _ = writeln!(text, "[[tab]]\ntitle = {}", quoted(&tab.title));
        let trees = [
            ("root", Some(&tab.root)),
            ("medium", tab.medium.as_ref()),
            ("narrow", tab.narrow.as_ref()),
        ];
        for (name, tree) in trees {
            if let Some(tree) = tree {
                let _ = writeln!(text, "{name} = {{ {} }}", node_toml(tree));
            }
        }
        text.push('\n');
    }
    text
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn node_toml(node: &LayoutNode) -> String {
    match node {
        LayoutNode::Panel(panel) => panel_toml(panel),
        LayoutNode::Stack(panels) => {
            let panels = panels
                .iter()
                .map(|panel| format!("{{ {} }}", panel_toml(panel)));
            format!("stack = [{}]", panels.collect::<Vec<_>>().join(", "))
        }
        LayoutNode::Split { direction, parts } => {
            let direction = match direction {
                SplitDirection::Right => "right",
                SplitDirection::Down => "down",
            };
            let parts = parts.iter().map(|part| {
                let size = match part.size {
                    PartSize::Percent(percent) => format!(", size = \"{percent}%\""),
                    PartSize::Cells(cells) => format!(", size = {cells}"),
                    PartSize::Fill => String::new(),
                };
                let min = match part.min {
                    0 => String::new(),
                    min => format!(", min = {min}"),
                };
                format!("{{ {}{size}{min} }}", node_toml(&part.node))
            });
            let parts = parts.collect::<Vec<_>>().join(", ");
            format!("split = \"{direction}\", parts = [{parts}]")
        }
    }
}

fn panel_toml(panel: &PanelSpec) -> String {
    let mut text = format!(
        "panel = \"{}\", id = {}",
        panel.kind.name(),
        quoted(&panel.id)
    );
    if let PanelAgent::Named(agent) = &panel.agent {
        let _ = write!(text, ", agent = {}", quoted(agent));
    }
    if let Some(name) = &panel.name {
        let _ = write!(text, ", name = {}", quoted(name));
    }
    if let Some(show) = &panel.show {
        let _ = write!(text, ", show = {}", quoted(show));
    }
    text
}
