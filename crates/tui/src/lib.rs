//! The terminal UI without its terminal: what is known, what a key means, and what is drawn.
//!
//! Invariants: no clock, disk, process or network here, all of which are passed in as messages or asked for
//! as effects; text from outside reaches a picture only as [`escaped_text::EscapedText`]; an allow leaves only
//! through [`decision_guard`].
#![forbid(unsafe_code)]

pub mod agent_files;
pub mod agent_list;
pub mod agent_terminals;
pub mod canvas;
pub mod command;
pub mod command_panel;
#[cfg(any(test, feature = "test-rows"))]
pub mod crowded_screen;
pub mod decision_guard;
pub mod draw;
pub mod duration;
pub mod escaped_text;
pub mod feed;
pub mod files;
pub mod fit;
pub mod glyphs;
pub mod host_call;
pub mod host_warnings;
pub mod inbox;
pub mod key;
pub mod keymap;
pub mod layout;
pub mod message;
pub mod model;
pub mod own_terminals;
pub mod plain;
pub mod proposal;
pub mod render;
pub mod replay;
pub mod review;
#[cfg(any(test, feature = "test-rows"))]
pub mod safety_suite;
pub mod saved_screen;
#[cfg(test)]
mod speed_tests;
pub mod terminal_keys;
#[cfg(any(test, feature = "test-rows"))]
pub mod test_rows;
#[cfg(test)]
mod test_screen;
pub mod text_box;
pub mod theme;
pub mod transcript;
pub mod transcript_search;
pub mod update;
