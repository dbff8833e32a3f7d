//! Markdown as lines of escaped text. Links, pictures and HTML are shown as what they are and never followed.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::canvas::TextLine;
use crate::escaped_text::EscapedText;
use crate::theme::Role;

/// Nesting that is shown by indentation.
const INDENT_MAX: usize = 12;

/// Whether a file is Markdown by its name.
pub fn is_markdown(path: &str) -> bool {
    let ending = path.rsplit('.').next().unwrap_or_default();
    ["md", "markdown"]
        .iter()
        .any(|known| ending.eq_ignore_ascii_case(known))
}

/// The lines of a text, formatted. Every text in it passes the escaper.
pub fn format_lines(text: &str) -> Vec<TextLine> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut lines = MarkdownLines::default();
    for event in Parser::new_ext(text, options) {
        lines.take(event);
    }
    lines.end_line();
    while lines.done.last().is_some_and(|line| line.0.is_empty()) {
        lines.done.pop();
    }
    lines.done
}

#[derive(Default)]
struct MarkdownLines {
    done: Vec<TextLine>,
    current: TextLine,
    /// The numbers of the lists that are open; nothing for those with bullets.
    lists: Vec<Option<u64>>,
    quotes: usize,
    /// The roles of what is open, innermost last.
    roles: Vec<Role>,
    /// Where the links that are open lead.
    links: Vec<String>,
    is_code: bool,
}

impl MarkdownLines {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::InlineHtml(text) | Event::Html(text) => {
                self.push_text(&text);
            }
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.push(&text, Role::Mark);
            }
            Event::SoftBreak => self.push(" ", Role::Text),
            Event::HardBreak => self.end_line(),
            Event::Rule => {
                self.end_line();
                self.push("---", Role::Border);
                self.end_block();
            }
            Event::TaskListMarker(is_done) => {
                self.push(if is_done { "[x] " } else { "[ ] " }, Role::Mark);
            }
            Event::FootnoteReference(name) => self.push(&format!("[{name}]"), Role::Link),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.end_line();
                self.push(&"#".repeat(depth_of(level)), Role::Dim);
                self.push(" ", Role::Dim);
                self.roles.push(Role::Strong);
            }
            Tag::BlockQuote(_) => self.quotes += 1,
            Tag::CodeBlock(kind) => {
                self.end_line();
                self.is_code = true;
                if let CodeBlockKind::Fenced(language) = kind
                    && !language.is_empty()
                {
                    self.push(&language, Role::Dim);
                    self.end_line();
                }
                self.roles.push(Role::Mark);
            }
            Tag::List(first) => {
                self.end_line();
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::Emphasis | Tag::Strong => self.roles.push(Role::Strong),
            Tag::Strikethrough => self.roles.push(Role::Dim),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push(dest_url.into_string());
                self.roles.push(Role::Link);
            }
            Tag::TableHead | Tag::TableRow => self.end_line(),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock | TagEnd::Table => self.end_block(),
            TagEnd::Heading(_) => {
                self.roles.pop();
                self.end_block();
            }
            TagEnd::CodeBlock => {
                self.roles.pop();
                self.is_code = false;
                self.end_block();
            }
            TagEnd::BlockQuote(_) => self.quotes = self.quotes.saturating_sub(1),
            TagEnd::List(_) => {
                self.lists.pop();
                if self.lists.is_empty() {
                    self.end_block();
                }
            }
            TagEnd::Item | TagEnd::TableHead | TagEnd::TableRow => self.end_line(),
            TagEnd::TableCell => self.push(" | ", Role::Border),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.roles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    /// A link says where it leads: its words may say something else.
    fn end_link(&mut self) {
        self.roles.pop();
        if let Some(target) = self.links.pop().filter(|target| !target.is_empty()) {
            self.push(&format!(" <{target}>"), Role::Dim);
        }
    }

    fn start_item(&mut self) {
        self.end_line();
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "- ".to_owned(),
        };
        let indent = "  ".repeat(self.lists.len().saturating_sub(1).min(INDENT_MAX));
        self.push(&format!("{indent}{mark}"), Role::Mark);
    }

    fn push_text(&mut self, text: &str) {
        let role = self.roles.last().copied().unwrap_or(Role::Text);
        let mut lines = text.split('\n');
        self.push(lines.next().unwrap_or_default(), role);
        for line in lines {
            self.end_line();
            self.push(line, role);
        }
    }

    fn push(&mut self, text: &str, role: Role) {
        if text.is_empty() {
            return;
        }
        if self.current.0.is_empty() {
            let quotes = "> ".repeat(self.quotes.min(INDENT_MAX));
            let code = if self.is_code { "    " } else { "" };
            if !quotes.is_empty() || !code.is_empty() {
                self.current
                    .push_shown(format!("{quotes}{code}"), Role::Dim);
            }
        }
        self.current.push(EscapedText::line(text), role);
    }

    fn end_line(&mut self) {
        if !self.current.0.is_empty() {
            self.done.push(std::mem::take(&mut self.current));
        }
    }

    fn end_block(&mut self) {
        self.end_line();
        if self.lists.is_empty() {
            self.done.push(TextLine::default());
        }
    }
}

fn depth_of(level: HeadingLevel) -> usize {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        format_lines(source).iter().map(TextLine::text).collect()
    }

    #[test]
    fn blocks_lists_code_and_links_become_lines() {
        let source = "# Title\n\nOne *two*\nthree [site](https://x.example).\n\n1. a\n2. b\n   - c\n\n```sh\nls  -l\n```\n\n> said\n";
        assert_eq!(
            texts(source),
            [
                "# Title",
                "",
                "One two three site <https://x.example>.",
                "",
                "1. a",
                "2. b",
                "  - c",
                "",
                "    sh",
                "    ls  -l",
                "",
                "> said",
            ]
        );
    }

    #[test]
    fn hostile_markdown_is_escaped_and_ends() {
        let source = format!(
            "[x](javascript:1)\u{202e} <b>\u{1b}[2J</b>\n\n{}{}",
            "> ".repeat(5_000),
            "*a ".repeat(5_000)
        );
        for line in texts(&source) {
            assert_eq!(
                countersign_core::hidden_count(&line.replace(['\u{27e8}', '\u{27e9}'], "")),
                0
            );
        }
    }
}
