//! What a screen begins with: colours, shapes, keys.

use std::time::Duration;

use countersign_tui::glyphs::{ASCII, UNICODE};
use countersign_tui::keymap::Keymap;
use countersign_tui::layout::built_in_layouts;
use countersign_tui::model::ScreenSettings;
use countersign_tui::theme::{Background, ColorDepth, Theme, built_in_themes};
use terminal_colorsaurus::{QueryOptions, ThemeMode, theme_mode};

use crate::client::{HostAddress, HostEndpoint};

/// How long a terminal may take to say which background it has.
const QUERY_TIMEOUT: Duration = Duration::from_millis(50);

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Whether the terminal can do nothing but print lines.
pub(super) fn is_dumb_terminal() -> bool {
    variable("TERM") == "dumb"
}

/// For pictures that are the same everywhere.
pub(super) fn replay() -> ScreenSettings {
    ScreenSettings {
        glyphs: &UNICODE,
        ..plain()
    }
}

/// For lines without colours.
pub(super) fn plain() -> ScreenSettings {
    let themes = built_in_themes();
    ScreenSettings {
        layouts: built_in_layouts(),
        theme: Theme::new(themes[0].clone(), Background::Dark, ColorDepth::None),
        themes,
        glyphs: &ASCII,
        keymap: Keymap::default(),
        folder: None,
    }
}

pub(super) fn load(endpoint: &HostEndpoint, ascii: bool) -> ScreenSettings {
    let themes = built_in_themes();
    let theme = Theme::new(themes[0].clone(), background(), color_depth());
    let is_local = matches!(endpoint.address, HostAddress::Socket(_));
    let folder = std::env::current_dir().ok().filter(|_| is_local);
    ScreenSettings {
        layouts: built_in_layouts(),
        themes,
        theme,
        glyphs: if ascii || !speaks_utf8() {
            &ASCII
        } else {
            &UNICODE
        },
        keymap: Keymap::default(),
        folder: folder.map(|folder| folder.display().to_string()),
    }
}

/// What the terminal says. One that does not answer is dark.
fn background() -> Background {
    let mut options = QueryOptions::default();
    options.timeout = QUERY_TIMEOUT;
    match theme_mode(options) {
        Ok(ThemeMode::Light) => Background::Light,
        Ok(ThemeMode::Dark) | Err(_) => Background::Dark,
    }
}

fn color_depth() -> ColorDepth {
    let is_off = !variable("NO_COLOR").is_empty()
        || anstream::ColorChoice::global() == anstream::ColorChoice::Never;
    if is_off {
        return ColorDepth::None;
    }
    match variable("COLORTERM").as_str() {
        "truecolor" | "24bit" => ColorDepth::Full,
        _ => ColorDepth::Sixteen,
    }
}

/// Whether the locale says so. Without one, most terminals of today do.
fn speaks_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .map(|name| variable(name));
    let locale = locale
        .into_iter()
        .find(|value| !value.is_empty())
        .unwrap_or_default();
    let locale = locale.to_lowercase();
    locale.is_empty() || locale.contains("utf-8") || locale.contains("utf8")
}
