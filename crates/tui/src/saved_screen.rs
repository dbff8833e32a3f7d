//! What was open on a screen, kept for the next start in the same folder.
//!
//! Invariant: a text that is not understood as a whole changes nothing.

use serde::{Deserialize, Serialize};

use crate::layout::{layout_toml, parse_layout};
use crate::model::Model;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedScreen {
    /// Where it was, so that a folder with the same digest is not taken for it.
    pub folder: String,
    layout_name: String,
    /// With the sizes as they were, in the form of a file of layouts.
    layout: String,
    tab: usize,
    /// Panels that had the focus, the last first.
    recent: Vec<String>,
    theme: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selected_agent: Option<String>,
    /// The folder that every panel was narrowed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<String>,
}

impl SavedScreen {
    pub fn of(model: &Model, folder: &str) -> Self {
        let workspace = &model.workspace;
        Self {
            folder: folder.to_owned(),
            layout_name: workspace.layout.name.clone(),
            layout: layout_toml(&workspace.layout),
            tab: workspace.active_tab,
            recent: workspace.recent().to_vec(),
            theme: model.theme.name().to_owned(),
            selected_agent: model.selected_agent.clone(),
            project: model.project.clone(),
        }
    }

    /// Nothing if the text is broken or about another folder.
    pub fn parse(text: &str, folder: &str) -> Option<Self> {
        let saved: Self = toml::from_str(text).ok()?;
        let is_whole =
            saved.folder == folder && parse_layout(&saved.layout_name, &saved.layout).is_ok();
        is_whole.then_some(saved)
    }

    /// As a file has it; nothing for what no file can have.
    pub fn text(&self) -> Option<String> {
        toml::to_string(self).ok()
    }

    /// Opens it again.
    pub fn restore(self, model: &mut Model) {
        let Ok(layout) = parse_layout(&self.layout_name, &self.layout) else {
            return;
        };
        model.workspace.take_layout(layout);
        model.workspace.go_to_tab(self.tab);
        for id in self.recent.iter().rev() {
            model.workspace.focus(id);
        }
        let theme = model.themes.iter().find(|theme| theme.name == self.theme);
        if let Some(colors) = theme.cloned() {
            model.theme = model.theme.with_colors(colors);
        }
        model.agent_cursor.clone_from(&self.selected_agent);
        model.selected_agent = self.selected_agent;
        model.project = self.project;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_screen::TestScreen;

    #[test]
    fn what_was_open_is_open_again_and_broken_text_is_ignored() {
        let mut screen = TestScreen::connected(120, 40);
        screen.press("g a Ctrl-g Right Ctrl-t Enter g s");
        screen.model.project = Some("/srv/app".into());
        screen.model.selected_agent = Some("docs".into());
        let saved = SavedScreen::of(&screen.model, "/srv/app");
        let text = saved.text().unwrap();
        assert_eq!(SavedScreen::parse(&text, "/srv/app"), Some(saved.clone()));
        let mut later = TestScreen::new(120, 40);
        assert_ne!(SavedScreen::of(&later.model, "/srv/app"), saved);
        SavedScreen::parse(&text, "/srv/app")
            .unwrap()
            .restore(&mut later.model);
        assert_eq!(SavedScreen::of(&later.model, "/srv/app"), saved);
        assert_eq!(later.model.workspace.layout, screen.model.workspace.layout);
        let broken = [
            String::new(),
            "folder = 1".to_owned(),
            text.replace("[[tab]]", "[[tub]]"),
            text.replace("tab = ", "tub = "),
            text[..text.len() / 2].to_owned(),
        ];
        for text in broken {
            assert_eq!(SavedScreen::parse(&text, "/srv/app"), None, "{text}");
        }
        assert_eq!(SavedScreen::parse(&text, "/srv/other"), None);
    }

    #[test]
    fn a_tab_that_is_gone_and_an_unknown_theme_leave_the_rest() {
        let mut screen = TestScreen::new(120, 40);
        let mut saved = SavedScreen::of(&screen.model, "/");
        (saved.tab, saved.theme) = (99, "gone".into());
        let theme = screen.model.theme.clone();
        saved.restore(&mut screen.model);
        assert_eq!(
            (screen.model.workspace.active_tab, &screen.model.theme),
            (0, &theme)
        );
        screen.draw();
    }
}
