//! Contrast of colours on backgrounds that terminals have, as the Web Content Accessibility Guidelines compute it.

use ratatui::style::Color;

use super::ThemeColors;

pub(super) type Rgb = (u8, u8, u8);

/// White and paper, black and slate.
pub(super) const LIGHT: [Rgb; 2] = [(255, 255, 255), (253, 246, 227)];
pub(super) const DARK: [Rgb; 2] = [(0, 0, 0), (40, 44, 52)];
/// Below this, text is hard to read.
const RATIO_MIN: f64 = 4.5;

fn luminance(color: Rgb) -> f64 {
    let channel = |value: u8| {
        let value = f64::from(value) / 255.0;
        if value <= 0.040_45 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    };
    let (red, green, blue) = color;
    0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue)
}

pub(super) fn ratio(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Why the colours could hide something: names of colours differ by terminal, so only `#rrggbb` and `default` can be
/// computed.
pub fn check_readable(colors: &ThemeColors) -> Result<(), String> {
    for (role, light, dark) in &colors.colors {
        let sides = [("light", *light, LIGHT), ("dark", *dark, DARK)];
        for (side, color, backgrounds) in sides {
            let name = role.name();
            match color {
                Color::Reset => {}
                Color::Rgb(red, green, blue) => {
                    let found = backgrounds.map(|background| ratio((red, green, blue), background));
                    let least = found[0].min(found[1]);
                    if least < RATIO_MIN {
                        return Err(format!(
                            "{name}, {side}: the contrast of {color} is {least:.1}, below {RATIO_MIN}"
                        ));
                    }
                }
                _ => return Err(format!("{name}, {side}: use #rrggbb or `default`")),
            }
        }
    }
    Ok(())
}
