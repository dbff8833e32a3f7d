//! Themes in files.

use std::collections::BTreeMap;

use ratatui::style::Color;
use serde::Deserialize;

use super::{Role, ThemeColors};

/// One colour, or one for each background.
#[derive(Deserialize)]
#[serde(untagged)]
enum ColorPair {
    Both(String),
    Each { light: String, dark: String },
}

/// Reads a theme: a table of roles. A role that is absent is drawn without a colour of its own.
pub fn parse_theme(name: &str, text: &str) -> Result<ThemeColors, String> {
    let table: BTreeMap<String, ColorPair> =
        toml::from_str(text).map_err(|error| crate::files::toml_error(text, &error))?;
    let mut colors = Vec::new();
    for (role_name, pair) in table {
        let role = Role::ALL.iter().find(|(known, _)| *known == role_name);
        let Some((_, role)) = role else {
            let names: Vec<&str> = Role::ALL.iter().map(|(known, _)| *known).collect();
            return Err(format!(
                "`{role_name}` is not a role; the roles are {}",
                names.join(", ")
            ));
        };
        let (light, dark) = match pair {
            ColorPair::Both(color) => (color.clone(), color),
            ColorPair::Each { light, dark } => (light, dark),
        };
        colors.push((
            *role,
            parse_color(&role_name, &light)?,
            parse_color(&role_name, &dark)?,
        ));
    }
    Ok(ThemeColors {
        name: name.to_owned(),
        colors,
    })
}

fn parse_color(role: &str, text: &str) -> Result<Color, String> {
    if text == "default" {
        return Ok(Color::Reset);
    }
    let color: Result<Color, _> = text.parse();
    match color {
        // A number would be a colour of 256 that nobody can look up.
        Ok(color) if !matches!(color, Color::Indexed(_)) => Ok(color),
        _ => Err(format!(
            "{role}: `{text}` is not a colour: use #rrggbb, a name like `red`, or `default`"
        )),
    }
}
