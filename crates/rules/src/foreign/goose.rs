//! goose: tools by name in `permission.yaml`. Never wins over always, always over ask.
//!
//! The file is written by goose itself in one shape of YAML, and only that shape is read.

use std::sync::Arc;

use countersign_core::event::Effect;

use super::{ForeignFile, PolicyReader, RuleSource, is_plain_word};

pub(super) fn read(reading: &mut PolicyReader, files: &[ForeignFile<'_>]) {
    for file in files {
        let source: Arc<str> = file.source.into();
        match parse(file.text) {
            Ok(items) => {
                for item in items {
                    translate(reading, &source, &item);
                }
            }
            Err((line, why)) => reading.set_broken(file.source, Some(line), &why),
        }
    }
}

/// One tool in one of the lists.
#[derive(Debug, PartialEq, Eq)]
struct GooseTool {
    line: u32,
    section: String,
    list: String,
    tool: String,
}

/// Reads sections, their lists and the names in them.
fn parse(text: &str) -> Result<Vec<GooseTool>, (u32, String)> {
    let mut items = Vec::new();
    let (mut section, mut list) = (None::<String>, None::<String>);
    for (number, raw) in (1..).zip(text.lines()) {
        let line = raw.trim_end();
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') || content == "---" || content == "{}" {
            continue;
        }
        let unknown = || (number, format!("not understood: `{content}`"));
        if let Some(name) = content.strip_prefix("- ") {
            let (Some(section), Some(list)) = (&section, &list) else {
                return Err(unknown());
            };
            items.push(GooseTool {
                line: number,
                section: section.clone(),
                list: list.clone(),
                tool: scalar(name).ok_or_else(unknown)?,
            });
            continue;
        }
        let (key, rest) = content.split_once(':').ok_or_else(unknown)?;
        let key = scalar(key).ok_or_else(unknown)?;
        match (line.len() > content.len(), rest.trim()) {
            (false, "" | "{}") => (section, list) = (Some(key), None),
            (true, "" | "[]") if section.is_some() => list = Some(key),
            _ => return Err(unknown()),
        }
    }
    Ok(items)
}

/// A name, plain or in quotes.
fn scalar(text: &str) -> Option<String> {
    let text = text.trim();
    let bare = ['"', '\''].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains([quote, '\\'])).then_some(inner)
    });
    let bare = bare.unwrap_or(text);
    is_plain_word(bare).then(|| bare.to_owned())
}

fn translate(reading: &mut PolicyReader, source: &Arc<str>, item: &GooseTool) {
    let spot = RuleSource {
        source: Arc::clone(source),
        line: item.line,
        text: format!("{}.{}: {}", item.section, item.list, item.tool),
    };
    // A tool may be in two lists. Goose looks at them in this order, and the first counts.
    let (effect, rank) = match item.list.as_str() {
        "never_allow" => (Effect::Deny, 2),
        "always_allow" => (Effect::Allow, 1),
        "ask_before" => (Effect::Ask, 0),
        other => {
            let why = format!("not understood: `{other}`");
            return reading.set_broken(source, Some(item.line), &why);
        }
    };
    let tools = rule_tools(&item.tool);
    if item.section != "user" {
        for tool in &tools {
            let why = "it is what a model judged, not what the user said";
            reading.add_inexact(effect, tool, &spot, why);
        }
        return;
    }
    for tool in &tools {
        reading.add_rule(effect, tool, rank, &spot);
    }
}

/// The rules' names for a tool of an extension: its own, and what it is.
fn rule_tools(tool: &str) -> Vec<String> {
    let mut names = vec![tool.to_owned()];
    match (tool, tool.split_once("__")) {
        ("developer__shell", _) => names.push("Bash".into()),
        ("developer__text_editor", _) => names.extend(["Edit".into(), "Read".into()]),
        (_, Some((extension, name))) => names.push(format!("mcp__{extension}__{name}")),
        (_, None) => {}
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_that_goose_writes_is_read() {
        let text =
            "user:\n  always_allow:\n  - a__b\n  ask_before: []\n  never_allow:\n    - 'c'\n";
        let item = |line, list: &str, tool: &str| GooseTool {
            line,
            section: "user".into(),
            list: list.into(),
            tool: tool.into(),
        };
        let expected = vec![item(3, "always_allow", "a__b"), item(6, "never_allow", "c")];
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn any_other_yaml_is_refused_with_its_line() {
        for (text, line) in [
            ("user: [a]", 1),
            ("- a", 1),
            ("user:\n  always_allow: [a, b]", 2),
            ("user:\n  always_allow:\n  - a: b", 3),
            ("user:\n  always_allow:\n  - &x a", 3),
            ("a b", 1),
        ] {
            assert_eq!(parse(text).map_err(|(line, _)| line), Err(line), "{text}");
        }
    }
}
