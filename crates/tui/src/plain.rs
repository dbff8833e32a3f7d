//! The screen in lines, for screen readers and terminals that only print: each ask is said once, and answered in
//! words. The same guard decides.
//!
//! Invariant: every word becomes the messages that keys would, on an ask that was printed whole.

use crate::draw::{AskExtent, DrawReport};
use crate::escaped_text::EscapedText;
use crate::key::{Key, KeyCode};
use crate::layout::PanelKind;
use crate::message::{Effect, Message, Moment};
use crate::model::{AskLayout, Model};
use crate::render::inbox_item::InboxItem;
use crate::update::{is_brief, update};

const HELP: &str = "next: the next ask; list: all of them; show: this one again; approve, then yes; \
deny [WORDS]; answer WORDS; quit";

#[derive(Debug)]
pub struct PlainScreen {
    pub model: Model,
    /// Items that were announced.
    told: Vec<String>,
    /// The item that was printed whole, in which version.
    shown: Option<(String, u64)>,
}

/// What is printed, and what is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PlainOutput {
    pub lines: Vec<EscapedText>,
    pub effects: Vec<Effect>,
}

impl PlainScreen {
    pub fn new(mut model: Model) -> Self {
        model.workspace.open(PanelKind::Ask, 0);
        Self {
            model,
            told: Vec::new(),
            shown: None,
        }
    }

    /// Takes in news.
    pub fn handle_message(&mut self, message: Message, now: Moment) -> PlainOutput {
        let mut output = PlainOutput::default();
        self.apply(message, now, &mut output);
        for item in self.model.inbox.items() {
            if !self.told.iter().any(|id| id == item.id()) {
                self.told.push(item.id().to_owned());
                output.lines.push(announcement(item, now));
            }
        }
        self.told.retain(|id| self.model.inbox.find(id).is_some());
        let shown = self
            .shown
            .as_ref()
            .and_then(|(id, version)| Some((self.model.inbox.find(id)?, *version)));
        if let Some((item, version)) = shown
            && version != self.model.inbox.version()
        {
            let text = match &item.ended {
                Some(ended) => format!("this ended: {ended}"),
                None => "this ask changed: say show to read it again".to_owned(),
            };
            output.lines.push(EscapedText::shown(text));
            self.shown = None;
        }
        output
    }

    /// Takes in a line that a person typed.
    pub fn handle_line(&mut self, line: &str, now: Moment) -> PlainOutput {
        let mut output = PlainOutput::default();
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        match word {
            "" => {}
            "list" => self.list(now, &mut output),
            "next" => {
                if self.shown.is_some() {
                    self.press(Key::char('J'), now, &mut output);
                }
                self.show(now, &mut output);
            }
            "show" => self.show(now, &mut output),
            "approve" => self.begin_approval(now, &mut output),
            "yes" => self.press(Key::char('y'), now, &mut output),
            "no" => self.press(Key::char('n'), now, &mut output),
            "deny" if rest.is_empty() => self.press(Key::char('d'), now, &mut output),
            "deny" => self.press_text(Key::char('m'), rest, now, &mut output),
            "answer" => self.press_text(Key::char('r'), rest, now, &mut output),
            "quit" => output.effects.push(Effect::Quit),
            _ => output.lines.push(HELP.into()),
        }
        output
    }

    fn apply(&mut self, message: Message, now: Moment, output: &mut PlainOutput) {
        let said = self.model.notices.log.len();
        let effects = update(&mut self.model, message, now);
        output.effects.extend(effects);
        let fresh = self.model.notices.log.iter().skip(said);
        output.lines.extend(fresh.map(|notice| notice.text.clone()));
    }

    fn press(&mut self, key: Key, now: Moment, output: &mut PlainOutput) {
        let message = Message::Key {
            key,
            at: now.ms,
            is_repeat: false,
        };
        self.apply(message, now, output);
    }

    fn press_text(&mut self, key: Key, text: &str, now: Moment, output: &mut PlainOutput) {
        self.press(key, now, output);
        if self.model.overlay.is_some() {
            self.apply(Message::Paste(text.to_owned()), now, output);
            self.press(
                Key {
                    alt: true,
                    ..Key::plain(KeyCode::Enter)
                },
                now,
                output,
            );
        }
    }

    fn begin_approval(&mut self, now: Moment, output: &mut PlainOutput) {
        self.press(Key::char('a'), now, output);
        if self.model.ask.pending.is_some() {
            output.lines.push("allow it once? say yes or no".into());
        }
    }

    fn list(&self, now: Moment, output: &mut PlainOutput) {
        let items = self.model.inbox.items();
        if items.is_empty() {
            output.lines.push("inbox empty".into());
        }
        output
            .lines
            .extend(items.iter().map(|item| announcement(item, now)));
    }

    /// Prints the selected item whole, which counts as read.
    fn show(&mut self, now: Moment, output: &mut PlainOutput) {
        let Some(item) = self.model.inbox.selected_item() else {
            output.lines.push("inbox empty".into());
            return;
        };
        for (name, value) in item.fields(now.wall, self.model.ask.detail) {
            output
                .lines
                .extend(EscapedText::shown(format!("{name}: {value}")).lines());
        }
        let (id, version) = (item.id().to_owned(), self.model.inbox.version());
        let extent = AskExtent {
            layout: AskLayout {
                id: id.clone(),
                version,
                ..AskLayout::default()
            },
            first: 0,
            page: 1,
            total: 1,
            is_whole: !is_brief(item),
        };
        if !extent.is_whole {
            output
                .lines
                .push("the rest is being read from the host: say show again".into());
        }
        self.shown = Some((id, version));
        let report = DrawReport {
            ask: Some(extent),
            ..DrawReport::default()
        };
        self.apply(Message::Drawn(report), now, output);
    }
}

/// One line for an item.
fn announcement(item: &InboxItem, now: Moment) -> EscapedText {
    EscapedText::shown(format!(
        "{} {} from {}: {}",
        item.kind(),
        item.short_id(),
        item.asker(),
        item.summary(now.wall)
    ))
}

#[cfg(test)]
mod tests;
