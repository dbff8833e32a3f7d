//! A place to judge in, and one call that does it.

use std::collections::HashMap;

use countersign_rules::{
    Action, Allows, Effect, Entry, EntryKind, Facts, Floor, FolderEntry, Layer, Origin, Place,
    Request, RuleSet, Verdict, assess, judge,
};

/// Links by absolute path.
#[derive(Default)]
pub(crate) struct Links(pub(crate) HashMap<&'static str, &'static str>);

impl Facts for Links {
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

pub(crate) fn place() -> Place {
    Place {
        cwd: "/home/dev/proj".into(),
        project: "/home/dev/proj".into(),
        home: "/home/dev".into(),
        ignores_case: false,
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
        match Entry::parse(effect, rule, Origin::file("rules.toml", line)) {
            Ok(entry) => set.insert(entry),
            Err(error) => panic!("`{rule}`: {error}"),
        };
    }
    set
}

pub(crate) fn verdict_at(
    action: Action,
    place: Place,
    links: &Links,
    floor: &Floor,
    lines: &[&str],
) -> Verdict {
    let tool = match &action {
        Action::Shell { .. } => "Bash",
        Action::Read { .. } => "Read",
        Action::Edit { .. } => "Edit",
        Action::Fetch { .. } => "WebFetch",
        _ => "tool",
    };
    let request = Request {
        tool: tool.into(),
        action,
        place,
    };
    let set = rules(lines);
    let layer = Layer {
        rules: &set,
        admits: &|_| true,
        allows: Allows::Count,
    };
    judge(&assess(&request, links), floor, &[layer])
}

pub(crate) fn shell(command: &str, lines: &[&str]) -> Effect {
    let action = Action::Shell {
        command: command.into(),
    };
    verdict_at(action, place(), &Links::default(), &Floor::default(), lines).effect
}

pub(crate) fn action(action: Action, lines: &[&str]) -> Effect {
    verdict_at(action, place(), &Links::default(), &Floor::default(), lines).effect
}
