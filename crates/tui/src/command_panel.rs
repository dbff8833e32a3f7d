//! Panels that show what a command of the person's prints, again and again. A file says which command.
//!
//! Invariants: what it prints reaches nothing but the cells of a parser; an agent neither writes these files nor puts
//! such a panel into a layout.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::agent_terminals::TerminalScreen;
use crate::files::{line_of, toml_error};

/// Bounds of what a file may say.
const EVERY_SECONDS: std::ops::RangeInclusive<u64> = 1..=86_400;
const TIMEOUT_SECONDS: std::ops::RangeInclusive<u64> = 1..=60;
const LINES: std::ops::RangeInclusive<u64> = 1..=1_000;
const COLUMNS_MAX: u16 = 300;

/// A command and how it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    pub name: String,
    pub command: Vec<String>,
    pub every_ms: u64,
    pub timeout_ms: u64,
    /// The lines that are kept of what it prints.
    pub lines: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandFile {
    command: CommandWords,
    every_seconds: u64,
    #[serde(default = "usual_timeout")]
    timeout_seconds: u64,
    #[serde(default = "usual_lines")]
    lines: u64,
}

/// A program with its arguments, or a line for `sh`.
#[derive(Deserialize)]
#[serde(untagged)]
enum CommandWords {
    Words(Vec<String>),
    Line(String),
}

fn usual_timeout() -> u64 {
    10
}

fn usual_lines() -> u64 {
    200
}

/// Reads `panels/NAME.toml`.
pub fn parse_command_panel(name: &str, text: &str) -> Result<CommandSpec, String> {
    let file: CommandFile = toml::from_str(text).map_err(|error| toml_error(text, &error))?;
    let bounds = [
        ("every_seconds", file.every_seconds, EVERY_SECONDS),
        ("timeout_seconds", file.timeout_seconds, TIMEOUT_SECONDS),
        ("lines", file.lines, LINES),
    ];
    for (field, value, bound) in bounds {
        if !bound.contains(&value) {
            let line = line_of(text, field);
            let (least, most) = bound.into_inner();
            return Err(format!("line {line}: `{field}` is from {least} to {most}"));
        }
    }
    let command = match file.command {
        CommandWords::Words(words) => words,
        CommandWords::Line(line) => vec!["sh".to_owned(), "-c".to_owned(), line],
    };
    if command.first().is_none_or(String::is_empty) {
        let line = line_of(text, "command");
        return Err(format!("line {line}: `command` is empty"));
    }
    Ok(CommandSpec {
        name: name.to_owned(),
        command,
        every_ms: file.every_seconds * 1_000,
        timeout_ms: file.timeout_seconds * 1_000,
        lines: u16::try_from(file.lines).unwrap_or(u16::MAX),
    })
}

/// One run, which is made outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRun {
    pub name: String,
    pub command: Vec<String>,
    pub timeout_ms: u64,
    /// Where it runs, if the host is on this machine.
    pub cwd: Option<String>,
    pub columns: u16,
    pub lines: u16,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    Exit(i32),
    Signal(i32),
    TimedOut,
    /// It printed more than anybody reads, and was ended.
    PrintedTooMuch,
    Failed(String),
}

/// A command with what it printed last.
pub struct CommandPanel {
    pub spec: CommandSpec,
    /// The run that is under way began then.
    pub running_since: Option<u64>,
    pub started_at: Option<u64>,
    pub ended: Option<(u64, CommandEnd)>,
    output: Option<TerminalScreen>,
    columns: u16,
    is_wanted: bool,
}

impl fmt::Debug for CommandPanel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CommandPanel")
            .field("spec", &self.spec)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl CommandPanel {
    fn new(spec: CommandSpec) -> Self {
        Self {
            spec,
            running_since: None,
            started_at: None,
            ended: None,
            output: None,
            columns: 0,
            is_wanted: false,
        }
    }

    /// Has it run as soon as it can, whatever the time.
    pub fn run_soon(&mut self) {
        self.is_wanted = true;
    }

    fn is_due(&self, now: u64) -> bool {
        let is_time = self
            .started_at
            .is_none_or(|started| now >= started + self.spec.every_ms);
        self.running_since.is_none() && (is_time || self.is_wanted)
    }

    /// The next run, if it is time for one.
    pub fn next_run(&mut self, now: u64, columns: u16, cwd: Option<String>) -> Option<CommandRun> {
        if !self.is_due(now) {
            return None;
        }
        self.is_wanted = false;
        self.columns = columns.clamp(1, COLUMNS_MAX);
        (self.started_at, self.running_since) = (Some(now), Some(now));
        Some(CommandRun {
            name: self.spec.name.clone(),
            command: self.spec.command.clone(),
            timeout_ms: self.spec.timeout_ms,
            cwd,
            columns: self.columns,
            lines: self.spec.lines,
        })
    }

    /// Takes in what a run printed.
    pub fn take_output(&mut self, output: &[u8], end: CommandEnd, now: u64) {
        self.running_since = None;
        self.ended = Some((now, end));
        let mut screen =
            TerminalScreen::new(&self.spec.name, (self.columns.max(1), self.spec.lines));
        // The line feed at the end would move the first line out of a screen that is full.
        screen.process(output.strip_suffix(b"\n").unwrap_or(output));
        self.output = Some(screen);
    }

    pub fn screen(&self) -> Option<&vt100::Screen> {
        self.output.as_ref().map(TerminalScreen::screen)
    }

    /// Lines with something on them.
    pub fn line_count(&self) -> u16 {
        let Some(screen) = self.screen() else {
            return 0;
        };
        let (rows, columns) = screen.size();
        let is_empty = |row: &u16| {
            let mut cells = (0..columns).filter_map(|column| screen.cell(*row, column));
            cells.all(|cell| !cell.has_contents())
        };
        let blank = (0..rows).rev().take_while(is_empty).count();
        rows - u16::try_from(blank).unwrap_or(rows)
    }
}

/// All of a person's commands, by name.
#[derive(Debug, Default)]
pub struct CommandPanels(BTreeMap<String, CommandPanel>);

impl CommandPanels {
    /// Takes in a file. What it printed stays until the changed command has run.
    pub fn put(&mut self, spec: CommandSpec) {
        if let Some(known) = self.0.get_mut(&spec.name) {
            known.spec = spec;
            known.run_soon();
        } else {
            let name = spec.name.clone();
            self.0.insert(name, CommandPanel::new(spec));
        }
    }

    pub fn get(&self, name: &str) -> Option<&CommandPanel> {
        self.0.get(name)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut CommandPanel> {
        self.0.get_mut(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_a_command_and_a_mistake_names_its_line() {
        let text = "command = [\"df\", \"-h\"]\nevery_seconds = 5\n";
        let spec = CommandSpec {
            name: "disk".into(),
            command: vec!["df".into(), "-h".into()],
            every_ms: 5_000,
            timeout_ms: 10_000,
            lines: 200,
        };
        assert_eq!(parse_command_panel("disk", text), Ok(spec));
        let line = parse_command_panel("a", "command = \"ls | wc\"\nevery_seconds = 1\n");
        assert_eq!(line.unwrap().command, ["sh", "-c", "ls | wc"]);
        let wrong = |text: &str| parse_command_panel("a", text).unwrap_err();
        assert_eq!(
            wrong("command = \"ls\"\nevery_seconds = 0\n"),
            "line 2: `every_seconds` is from 1 to 86400"
        );
        assert_eq!(
            wrong("command = \"ls\"\nevery_seconds = 1\ntimeout_seconds = 61\n"),
            "line 3: `timeout_seconds` is from 1 to 60"
        );
        assert_eq!(
            wrong("command = []\nevery_seconds = 1\n"),
            "line 1: `command` is empty"
        );
        assert!(wrong("command = \"ls\"\nevery = 1\n").starts_with("line 2: unknown field"));
        assert!(wrong("command = \n").starts_with("line 1: "));
    }

    #[test]
    fn a_command_runs_when_it_is_due_and_never_twice_at_once() {
        let text = "command = \"ls\"\nevery_seconds = 5\nlines = 3\n";
        let mut panels = CommandPanels::default();
        panels.put(parse_command_panel("a", text).unwrap());
        let panel = panels.get_mut("a").unwrap();
        assert!(panel.next_run(0, 80, None).is_some());
        assert_eq!(panel.next_run(60_000, 80, None), None, "it still runs");
        panel.take_output(b"one\ntwo\nthree\nfour\n", CommandEnd::Exit(0), 61_000);
        assert_eq!(panel.line_count(), 3);
        let screen = panel.screen().unwrap();
        let lines: Vec<String> = screen.rows(0, 80).collect();
        assert_eq!(lines, ["two", "three", "four"]);
        assert!(panel.next_run(61_000, 80, None).is_some());
        panel.take_output(b"", CommandEnd::TimedOut, 62_000);
        assert_eq!(panel.next_run(62_000, 80, None), None);
        panels.put(parse_command_panel("a", text).unwrap());
        assert!(
            panels
                .get_mut("a")
                .unwrap()
                .next_run(62_000, 80, None)
                .is_some()
        );
    }
}
