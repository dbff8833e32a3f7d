//! Manual pages, one for each command, from the same texts as `--help`.

use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// Writes a page for the program and for each command that `--help` shows, and returns how many.
pub(crate) fn write_pages(mut command: Command, folder: &Path) -> io::Result<usize> {
    command.build();
    let source = format!(
        "{} {}",
        command.get_name(),
        command.get_version().unwrap_or_default()
    );
    write_command_pages(&command, &source, folder)
}

fn write_command_pages(command: &Command, source: &str, folder: &Path) -> io::Result<usize> {
    let page = Man::new(command.clone())
        .source(source)
        .manual("Countersign Manual");
    let file = folder.join(page.get_filename());
    std::fs::write(file, render_page(&page, command)?)?;
    let mut count = 1;
    for sub in visible_subcommands(command) {
        count += write_command_pages(sub, source, folder)?;
    }
    Ok(count)
}

fn visible_subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

/// The sections of [`Man::render`], except that the text after the options keeps its lines and headings.
fn render_page(page: &Man, command: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if visible_subcommands(command).next().is_some() {
        page.render_subcommands_section(&mut text)?;
    }
    let after = command
        .get_after_long_help()
        .or_else(|| command.get_after_help());
    if let Some(after) = after {
        closing_sections(&after.to_string()).to_writer(&mut text)?;
    }
    Ok(text)
}

/// A block under a line like `Examples:` becomes a section of that name, whose lines stay lines. Everything
/// else is prose, under NOTES.
fn closing_sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut in_notes = false;
    for block in text.split("\n\n") {
        match split_heading(block) {
            Some((heading, lines)) => {
                in_notes = false;
                roff.control("SH", [heading.to_uppercase().as_str()]);
                roff.control("nf", []);
                for line in lines.lines() {
                    roff.text([roman(line)]);
                }
                roff.control("fi", []);
            }
            None if block.trim().is_empty() => {}
            None => {
                if in_notes {
                    roff.control("PP", []);
                } else {
                    roff.control("SH", ["NOTES"]);
                }
                in_notes = true;
                for line in block.lines() {
                    roff.text([roman(line.trim())]);
                }
            }
        }
    }
    roff
}

fn split_heading(block: &str) -> Option<(&str, &str)> {
    let (first, lines) = block.split_once('\n')?;
    let heading = first.strip_suffix(':')?;
    lines.starts_with(' ').then_some((heading, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_lines_and_prose_follows_as_notes() {
        let text = "Examples:\n  countersign ls\n  .dot\n\nOne\ntwo.\n\nThree.";
        assert_eq!(
            closing_sections(text).to_roff(),
            ".SH EXAMPLES\n.nf\n  countersign ls\n  .dot\n.fi\n.SH NOTES\nOne\ntwo.\n.PP\nThree.\n"
        );
    }
}
