//! Everything that is drawn, and everything a key can depend on.

mod ask;
mod host;
mod notices;
mod overlay;
mod project;
mod workspace;

use std::collections::{BTreeMap, BTreeSet};

use countersign_protocol::{AskViewerRow, HostAgent, HostVerdict, RulesResult};

use crate::agent_files::FilePanels;
use crate::agent_list::{self, AgentEntry};
use crate::agent_terminals::AgentTerminals;
use crate::command_panel::CommandPanels;
use crate::draw::DrawReport;
use crate::feed::Feed;
use crate::glyphs::Glyphs;
use crate::inbox::{Inbox, agent_of};
use crate::key::Key;
use crate::keymap::Keymap;
use crate::layout::{Layout, PanelAgent, PanelKind, PanelSpec};
use crate::message::{Moment, ProposedView};
use crate::own_terminals::OwnTerminals;
use crate::review::Review;
use crate::theme::{Theme, ThemeColors};
use crate::transcript::{Transcript, TranscriptEnd};
use crate::transcript_search::{TranscriptGoal, TranscriptSearch};

pub use ask::{AskLayout, AskScreen, PendingAllow, RuleExpiry, RuleForm, RuleOffer};
pub use host::{HostLink, HostState};
pub use notices::{Notice, NoticeLog};
pub use overlay::{
    ConfirmPurpose, ListChoice, ListPurpose, Overlay, PaletteEntry, PaletteTarget, TextPurpose,
    catalog_choices,
};
pub use workspace::Workspace;

/// Transcripts that are kept, so that going back and forth reads nothing again.
const TRANSCRIPTS_MAX: usize = 4;

/// Where a panel stands: kept by its id, so that another layout with the same panel finds it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PanelView {
    /// The selected row.
    pub cursor: usize,
    /// What the selected row is about, where rows change their places by themselves.
    pub selected: Option<String>,
    /// The first row that is shown.
    pub scroll: usize,
    pub filter: String,
    pub end: TranscriptEnd,
    pub unfolded: bool,
}

/// What a screen begins with.
#[derive(Clone, Debug)]
pub struct ScreenSettings {
    pub layouts: Vec<Layout>,
    pub themes: Vec<ThemeColors>,
    pub theme: Theme,
    pub glyphs: &'static Glyphs,
    pub keymap: Keymap,
    /// Where the screen was opened, if the host sees the same files.
    pub folder: Option<String>,
}

#[derive(Debug)]
pub struct Model {
    pub host: HostState,
    pub inbox: Inbox,
    pub ask: AskScreen,
    /// The agent that was selected last, in any list.
    pub selected_agent: Option<String>,
    /// The selected row of the agents, by id: rows move.
    pub agent_cursor: Option<String>,
    pub show_archived: bool,
    /// When the host was last asked how it is, and for rows of agents.
    pub status_asked_at: u64,
    pub agents_asked_at: u64,
    pub transcripts: BTreeMap<String, Transcript>,
    /// Pages that were asked for.
    pub loading: BTreeSet<String>,
    /// The agent whose transcript is followed.
    pub followed: Option<String>,
    /// Changes and comments, by agent.
    pub reviews: BTreeMap<String, Review>,
    /// Terminals of the agents that a panel shows them of.
    pub terminals: BTreeMap<String, AgentTerminals>,
    /// Pieces of their output that may be read before the next second.
    pub terminal_pieces: u8,
    /// Commands of the person's, with what they printed.
    pub commands: CommandPanels,
    pub files: FilePanels,
    pub own_terminals: OwnTerminals,
    pub feed: Feed,
    pub search: TranscriptSearch,
    /// A place in a transcript that is gone to once it is read and on the screen.
    pub transcript_goal: Option<TranscriptGoal>,
    pub rules: Option<RulesResult>,
    /// What was tried against the rules, and what they said.
    pub tried: Option<(String, HostVerdict)>,
    /// What is open on other screens.
    pub viewers: Vec<AskViewerRow>,
    pub views: BTreeMap<String, PanelView>,
    pub workspace: Workspace,
    pub overlay: Option<Overlay>,
    /// Texts that were begun and not sent, by what they are for.
    pub drafts: BTreeMap<String, String>,
    pub notices: NoticeLog,
    pub keymap: Keymap,
    /// Keys that are the beginning of something, and when the last of them was typed.
    pub typed: Vec<Key>,
    pub typed_at: u64,
    /// When a key was typed last.
    pub key_at: u64,
    /// What an agent proposed and was allowed, until the person does nothing else.
    pub proposed_views: Vec<ProposedView>,
    pub themes: Vec<ThemeColors>,
    pub theme: Theme,
    pub glyphs: &'static Glyphs,
    pub now: Moment,
    pub drawn: DrawReport,
    pub captures_mouse: bool,
    /// Where agents are started if no other folder is known.
    pub folder: Option<String>,
    /// The folder that every panel is narrowed to.
    pub project: Option<String>,
}

impl Model {
    pub fn new(settings: ScreenSettings, now: Moment) -> Self {
        Self {
            host: HostState::default(),
            inbox: Inbox::default(),
            ask: AskScreen::default(),
            selected_agent: None,
            agent_cursor: None,
            show_archived: false,
            status_asked_at: 0,
            agents_asked_at: 0,
            transcripts: BTreeMap::new(),
            loading: BTreeSet::new(),
            followed: None,
            reviews: BTreeMap::new(),
            terminals: BTreeMap::new(),
            terminal_pieces: 0,
            commands: CommandPanels::default(),
            files: FilePanels::default(),
            own_terminals: OwnTerminals::default(),
            feed: Feed::default(),
            search: TranscriptSearch::default(),
            transcript_goal: None,
            rules: None,
            tried: None,
            viewers: Vec::new(),
            views: BTreeMap::new(),
            workspace: Workspace::new(settings.layouts),
            overlay: None,
            drafts: BTreeMap::new(),
            notices: NoticeLog::default(),
            keymap: settings.keymap,
            typed: Vec::new(),
            typed_at: 0,
            key_at: 0,
            proposed_views: Vec::new(),
            themes: settings.themes,
            theme: settings.theme,
            glyphs: settings.glyphs,
            now,
            drawn: DrawReport::default(),
            captures_mouse: false,
            folder: settings.folder,
            project: None,
        }
    }

    /// The panel that keys go to.
    /// The ask or question that is on the screen.
    pub fn shown_subject(&self) -> Option<&str> {
        self.ask.guard.subject()
    }

    pub fn focused_panel(&self) -> PanelSpec {
        self.workspace.focused_panel(self.drawn.width)
    }

    pub fn focused_kind(&self) -> PanelKind {
        self.focused_panel().kind
    }

    pub fn view(&self, id: &str) -> PanelView {
        self.views.get(id).cloned().unwrap_or_default()
    }

    pub fn view_mut(&mut self, id: &str) -> &mut PanelView {
        self.views.entry(id.to_owned()).or_default()
    }

    /// The agents as the list shows them.
    pub fn agent_entries(&self, panel: &PanelSpec) -> Vec<AgentEntry<'_>> {
        let filter = self
            .views
            .get(&panel.id)
            .map_or("", |view| view.filter.as_str());
        let mut entries = agent_list::ordered_agents(&self.host.agents, self.show_archived, filter);
        entries.retain(|entry| self.is_in_project(entry.agent));
        entries
    }

    /// The row of the list that is selected: the first, if the agent that was selected is not listed.
    pub fn agent_index(&self, panel: &PanelSpec) -> usize {
        let cursor = self.agent_cursor.as_deref();
        let entries = self.agent_entries(panel);
        let found = entries
            .iter()
            .position(|entry| Some(entry.agent.id.as_str()) == cursor);
        found.unwrap_or(0)
    }

    /// The agent that a panel is about.
    pub fn panel_agent(&self, panel: &PanelSpec) -> Option<&HostAgent> {
        match &panel.agent {
            PanelAgent::Selected if panel.kind == PanelKind::Chat => self.orchestrator(),
            PanelAgent::Selected => self.host.agents.get(self.selected_agent.as_deref()?),
            PanelAgent::Named(name) => {
                let mut agents = self.host.agents.values();
                agents.find(|agent| agent.name == *name || agent.id == *name)
            }
        }
    }

    /// The orchestrator that a chat is with: the selected one, or the one that was active last.
    pub fn orchestrator(&self) -> Option<&HostAgent> {
        let selected = self
            .selected_agent
            .as_ref()
            .and_then(|id| self.host.agents.get(id));
        let candidates = self
            .host
            .agents
            .values()
            .filter(|agent| agent_list::is_orchestrator(agent));
        let living =
            candidates.filter(|agent| !agent_list::is_archived(agent) && self.is_in_project(agent));
        selected
            .filter(|agent| agent_list::is_orchestrator(agent))
            .or_else(|| living.max_by_key(|agent| agent_list::last_activity(agent)))
    }

    /// Every agent there was, the last that was active first.
    pub fn history(&self, panel: &str) -> Vec<&HostAgent> {
        let filter = self.view(panel).filter.to_lowercase();
        let found = self.host.agents.values().filter(|agent| {
            let title = agent
                .managed
                .as_ref()
                .and_then(|managed| managed.title.as_deref());
            let words = format!(
                "{} {} {}",
                agent.name,
                agent.state,
                title.unwrap_or_default()
            );
            words.to_lowercase().contains(&filter) && self.is_in_project(agent)
        });
        let mut agents: Vec<&HostAgent> = found.collect();
        agents.sort_by_key(|agent| std::cmp::Reverse(agent_list::last_activity(agent)));
        agents
    }

    /// The selected row of such a list: the same agent, wherever it stands by now.
    pub fn history_index(&self, panel: &str, agents: &[&HostAgent]) -> usize {
        let view = self.view(panel);
        let selected = view.selected.as_ref();
        let found = agents.iter().position(|agent| Some(&agent.id) == selected);
        found.unwrap_or_else(|| view.cursor.min(agents.len().saturating_sub(1)))
    }

    /// The agent that a command is about: the selected row of a list of agents, the one that a panel shows, or the
    /// one that asks.
    pub fn subject_agent(&self) -> Option<&HostAgent> {
        let panel = self.focused_panel();
        match panel.kind {
            PanelKind::Agents => {
                let index = self.agent_index(&panel);
                let id = self.agent_entries(&panel).get(index)?.agent.id.clone();
                self.host.agents.get(&id)
            }
            PanelKind::Inbox | PanelKind::Ask => {
                let item = self.inbox.selected_item()?;
                self.host.agents.get(agent_of(item)?)
            }
            PanelKind::Transcript
            | PanelKind::Chat
            | PanelKind::Diff
            | PanelKind::Terminals
            | PanelKind::Files
            | PanelKind::Viewer
            | PanelKind::Editor
            | PanelKind::Tail => self.panel_agent(&panel),
            PanelKind::History => {
                let agents = self.history(&panel.id);
                let index = self.history_index(&panel.id, &agents);
                agents.get(index).copied()
            }
            PanelKind::Feed => {
                let view = self.view(&panel.id);
                let agent = self
                    .feed_rows(&view.filter)
                    .get(view.cursor)?
                    .agent_id
                    .clone();
                self.host.agents.get(&agent?)
            }
            PanelKind::Search => {
                let cursor = self.view(&panel.id).cursor;
                let rows = self.search_rows();
                let last = rows.len().checked_sub(1)?;
                self.host.agents.get(&rows.get(cursor.min(last))?.agent_id)
            }
            PanelKind::Rules
            | PanelKind::Usage
            | PanelKind::Command
            | PanelKind::Notes
            | PanelKind::OwnTerminal => self.host.agents.get(self.selected_agent.as_deref()?),
        }
    }

    /// Forgets the transcripts that were not looked at for longest.
    pub fn drop_old_transcripts(&mut self) {
        while self.transcripts.len() > TRANSCRIPTS_MAX {
            let keep = self.followed.clone();
            let oldest = self
                .transcripts
                .keys()
                .find(|id| Some(*id) != keep.as_ref())
                .cloned();
            let Some(oldest) = oldest else { return };
            self.transcripts.remove(&oldest);
        }
    }

    /// When something would look different without any news, on the monotonic clock: while keys do not count yet.
    pub fn next_change(&self) -> Option<u64> {
        let guard = &self.ask.guard;
        let settled = Some(guard.settled_at()).filter(|_| guard.subject().is_some());
        let times = [
            settled,
            guard.confirmable_from(),
            self.which_key_at(),
            self.files.notes.saved_at(),
        ];
        let coming = times.into_iter().flatten().filter(|at| *at > self.now.ms);
        coming.min()
    }

    /// When the keys that can follow are shown.
    pub fn which_key_at(&self) -> Option<u64> {
        (!self.typed.is_empty()).then_some(self.typed_at + WHICH_KEY_MS)
    }
}

/// How long after the beginning of a command its other keys are shown.
const WHICH_KEY_MS: u64 = 500;
