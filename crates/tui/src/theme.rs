//! Colours by meaning: sixteen roles, each with a style.
//!
//! Invariant: a colour never says anything that a word or a shape does not; without colours the roles differ by
//! weight alone.

mod contrast;
mod file;

use ratatui::style::{Color, Modifier, Style};

pub use contrast::check_readable;
pub use file::parse_theme;

/// What a piece of a picture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Text,
    Dim,
    Strong,
    Focus,
    Select,
    Allow,
    Ask,
    Deny,
    Warn,
    Good,
    Bad,
    Link,
    Mark,
    Added,
    Removed,
    Border,
}

impl Role {
    /// All of them, in the order of their names in files.
    pub const ALL: [(&'static str, Self); 16] = [
        ("text", Self::Text),
        ("dim", Self::Dim),
        ("strong", Self::Strong),
        ("focus", Self::Focus),
        ("select", Self::Select),
        ("allow", Self::Allow),
        ("ask", Self::Ask),
        ("deny", Self::Deny),
        ("warn", Self::Warn),
        ("good", Self::Good),
        ("bad", Self::Bad),
        ("link", Self::Link),
        ("mark", Self::Mark),
        ("added", Self::Added),
        ("removed", Self::Removed),
        ("border", Self::Border),
    ];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, role)| *role == self);
        found.map_or("", |(name, _)| name)
    }

    /// The weight that says it where there is no colour.
    fn weight(self) -> Modifier {
        match self {
            Self::Text | Self::Link | Self::Added | Self::Removed => Modifier::empty(),
            Self::Dim | Self::Border => Modifier::DIM,
            Self::Select => Modifier::REVERSED,
            Self::Mark => Modifier::UNDERLINED,
            Self::Focus
            | Self::Strong
            | Self::Allow
            | Self::Ask
            | Self::Deny
            | Self::Warn
            | Self::Good
            | Self::Bad => Modifier::BOLD,
        }
    }
}

/// What the terminal's background is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Background {
    #[default]
    Dark,
    Light,
}

/// Which colours the terminal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorDepth {
    None,
    /// The sixteen that the person chose.
    #[default]
    Sixteen,
    Full,
}

/// Colours of the roles, on a light and on a dark background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThemeColors {
    pub name: String,
    /// By role: light, then dark.
    colors: Vec<(Role, Color, Color)>,
}

/// A theme as it is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Theme {
    colors: ThemeColors,
    background: Background,
    depth: ColorDepth,
}

impl ThemeColors {
    /// The colours of each role: light, then dark.
    pub fn pairs(&self) -> impl Iterator<Item = (Role, Color, Color)> + '_ {
        self.colors.iter().copied()
    }
}

impl Theme {
    pub fn new(colors: ThemeColors, background: Background, depth: ColorDepth) -> Self {
        Self {
            colors,
            background,
            depth,
        }
    }

    /// The same colours on this terminal's background.
    #[must_use]
    pub fn with_colors(&self, colors: ThemeColors) -> Self {
        Self::new(colors, self.background, self.depth)
    }

    pub fn depth(&self) -> ColorDepth {
        self.depth
    }

    pub fn name(&self) -> &str {
        &self.colors.name
    }

    pub fn style(&self, role: Role) -> Style {
        let style = Style::new().add_modifier(role.weight());
        match self.color(role) {
            Color::Reset => style,
            // Dimmed twice, a colour would be too faint to read.
            color => style.fg(color).remove_modifier(Modifier::DIM),
        }
    }

    fn color(&self, role: Role) -> Color {
        let found = self.colors.colors.iter().find(|(own, ..)| *own == role);
        let color = match (found, self.background) {
            (None, _) => Color::Reset,
            (Some((_, light, _)), Background::Light) => *light,
            (Some((.., dark)), Background::Dark) => *dark,
        };
        match (self.depth, color) {
            (ColorDepth::None, _) => Color::Reset,
            // What the terminal cannot show is left to the terminal's own colours.
            (ColorDepth::Sixteen, Color::Rgb(..)) => sixteen_color(role),
            (_, color) => color,
        }
    }
}

/// The colour that the sixteen of the terminal have for a role. Those between black and white are left out: on one
/// of the two backgrounds nobody can read them.
fn sixteen_color(role: Role) -> Color {
    match role {
        Role::Focus | Role::Link | Role::Mark => Color::Cyan,
        Role::Allow | Role::Good | Role::Added => Color::Green,
        Role::Ask | Role::Warn => Color::Yellow,
        Role::Deny | Role::Bad | Role::Removed => Color::Red,
        Role::Text | Role::Dim | Role::Strong | Role::Select | Role::Border => Color::Reset,
    }
}

/// The themes that come with the program; the first is the default.
pub fn built_in_themes() -> Vec<ThemeColors> {
    let own = Role::ALL
        .iter()
        .map(|(_, role)| (*role, sixteen_color(*role), sixteen_color(*role)));
    let terminal = ThemeColors {
        name: "terminal".to_owned(),
        colors: own.collect(),
    };
    let files = [
        ("quiet", include_str!("theme/quiet.toml")),
        ("high-contrast", include_str!("theme/high-contrast.toml")),
    ];
    // The files are ours, and a test reads them: one that could not be read would be left out here.
    let read = files
        .iter()
        .filter_map(|(name, text)| parse_theme(name, text).ok());
    std::iter::once(terminal).chain(read).collect()
}

#[cfg(test)]
mod tests;
