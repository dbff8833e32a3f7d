//! Contrast, computed; and what is left without colours.

use super::contrast::{DARK, LIGHT};
use super::*;

#[test]
fn every_colour_can_be_read_on_its_backgrounds() {
    let themes = built_in_themes();
    let names: Vec<&str> = themes.iter().map(|theme| theme.name.as_str()).collect();
    assert_eq!(names, ["terminal", "quiet", "high-contrast"]);
    for theme in &themes[1..] {
        let least = if theme.name == "high-contrast" {
            7.0
        } else {
            4.5
        };
        for (role, light, dark) in &theme.colors {
            for (color, backgrounds) in [(light, LIGHT), (dark, DARK)] {
                let Color::Rgb(red, green, blue) = *color else {
                    panic!("{role:?} is {color}");
                };
                for background in backgrounds {
                    let found = contrast::ratio((red, green, blue), background);
                    assert!(
                        found >= least,
                        "{} {role:?} {color}: {found:.2}",
                        theme.name
                    );
                }
            }
        }
    }
}

#[test]
fn without_colours_the_roles_that_matter_still_differ() {
    for colors in built_in_themes() {
        let theme = Theme::new(colors, Background::Dark, ColorDepth::None);
        for (_, role) in Role::ALL {
            assert_eq!(theme.style(role).fg, None);
        }
        let text = theme.style(Role::Text);
        for role in [Role::Select, Role::Focus, Role::Warn, Role::Bad, Role::Mark] {
            assert_ne!(theme.style(role), text, "{role:?}");
        }
    }
}

#[test]
fn sixteen_colours_are_the_terminals_own() {
    for colors in built_in_themes() {
        let theme = Theme::new(colors, Background::Light, ColorDepth::Sixteen);
        for (_, role) in Role::ALL {
            assert!(
                !matches!(theme.style(role).fg, Some(Color::Rgb(..))),
                "{role:?}"
            );
        }
    }
}

#[test]
fn a_file_with_a_mistake_says_which() {
    let parsed = parse_theme(
        "mine",
        "ask = { light = \"#aa0000\", dark = \"default\" }\nlink = \"blue\"\n",
    );
    let colors = parsed.unwrap().colors;
    assert_eq!(
        colors,
        [
            (Role::Ask, Color::Rgb(0xaa, 0, 0), Color::Reset),
            (Role::Link, Color::Blue, Color::Blue),
        ]
    );
    let wrong = |text: &str| parse_theme("mine", text).unwrap_err();
    assert_eq!(
        wrong("ask = \"mauvish\""),
        "ask: `mauvish` is not a colour: use #rrggbb, a name like `red`, or `default`"
    );
    assert!(wrong("asks = \"red\"").starts_with("`asks` is not a role; the roles are text, dim,"));
    assert!(
        wrong("ask = \n").starts_with("line 1: "),
        "{}",
        wrong("ask = \n")
    );
}
