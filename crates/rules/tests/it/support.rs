//! A place to judge in, and one call that does it.

use std::collections::HashMap;

use countersign_rules::{
    Effect, EntryKind, FileFacts, Floor, FolderEntry, LayerAllows, LayerView, RequestPlace,
    RuleEntry, RuleOrigin, RuleSet, ToolAction, ToolRequest, Verdict, assess, judge,
};

/// Links by absolute path.
#[derive(Default)]
pub(crate) struct Links(pub(crate) HashMap<&'static str, &'static str>);

impl FileFacts for Links {
    fn read_link(&self, path: &str) -> Option<String> {
        self.0.get(path).map(|target| (*target).to_owned())
    }

    fn list_folder(&self, path: &str) -> Option<Vec<FolderEntry>> {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let below = self.0.keys().filter_map(|link| link.strip_prefix(&folder));
        let entry = |name: &str| FolderEntry {
            name: name.to_owned(),
            kind: EntryKind::Link,
        };
        Some(
            below
                .filter(|name| !name.contains('/'))
                .map(entry)
                .collect(),
        )
    }
}

pub(crate) fn place() -> RequestPlace {
    RequestPlace {
        cwd: "/home/dev/proj".into(),
        project: "/home/dev/proj".into(),
        home: "/home/dev".into(),
        ignores_case: false,
        in_sandbox: false,
    }
}

/// Rules as a file would have them: `+` allows, `?` asks, `-` denies.
pub(crate) fn rules(lines: &[&str]) -> RuleSet {
    let mut set = RuleSet::default();
    for (line, text) in (1..).zip(lines) {
        let (effect, rule) = match text.split_at(1) {
            ("+", rule) => (Effect::Allow, rule),
            ("?", rule) => (Effect::Ask, rule),
            ("-", rule) => (Effect::Deny, rule),
            _ => panic!("`{text}` has no effect"),
        };
        match RuleEntry::parse(effect, rule, RuleOrigin::file("rules.toml", line)) {
            Ok(entry) => set.insert(entry),
            Err(error) => panic!("`{rule}`: {error}"),
        };
    }
    set
}

pub(crate) fn verdict_at(
    action: ToolAction,
    place: RequestPlace,
    links: &Links,
    floor: &Floor,
    lines: &[&str],
) -> Verdict {
    let tool = match &action {
        ToolAction::Shell { .. } => "Bash",
        ToolAction::Read { .. } => "Read",
        ToolAction::Edit { .. } => "Edit",
        ToolAction::Fetch { .. } => "WebFetch",
        _ => "tool",
    };
    let request = ToolRequest {
        tool: tool.into(),
        action,
        place,
    };
    let set = rules(lines);
    let layer = LayerView {
        rules: &set,
        admits: &|_| true,
        allows: &LayerAllows::Count,
    };
    judge(&assess(&request, links), floor, &[layer])
}

pub(crate) fn shell(command: &str, lines: &[&str]) -> Effect {
    let action = ToolAction::Shell {
        command: command.into(),
    };
    verdict_at(action, place(), &Links::default(), &Floor::default(), lines).effect
}

pub(crate) fn action(action: ToolAction, lines: &[&str]) -> Effect {
    verdict_at(action, place(), &Links::default(), &Floor::default(), lines).effect
}
