//! The ask that is looked at: how far it was read, and what is being decided about it.

use countersign_protocol::{BacktestResult, RememberScope, RuleCandidate};

use crate::decision_guard::DecisionGuard;
use crate::render::approvals::FieldDetail;

/// Rules that an allow could become, and their limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleForm {
    pub offers: Vec<RuleOffer>,
    /// Which row of the form is being changed: the rules, then where, until when, how often.
    pub row: usize,
    /// Without one: the project, or the agent where there is no project.
    pub scope: Option<RememberScope>,
    pub expires: RuleExpiry,
    pub uses: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleOffer {
    pub candidate: RuleCandidate,
    pub is_chosen: bool,
    /// What it would have done, once that is known.
    pub backtest: Option<BacktestResult>,
}

/// When a rule ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleExpiry {
    Hour,
    Day,
    Month,
    Year,
}

impl RuleExpiry {
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Hour, "1 hour"),
        (Self::Day, "1 day"),
        (Self::Month, "30 days"),
        (Self::Year, "1 year"),
    ];

    pub fn milliseconds(self) -> u64 {
        const DAY: u64 = 86_400_000;
        match self {
            Self::Hour => DAY / 24,
            Self::Day => DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
        }
    }
}

impl RuleForm {
    pub const SCOPES: [(Option<RememberScope>, &'static str); 4] = [
        (None, "this project (this agent, where there is none)"),
        (Some(RememberScope::Session), "this agent"),
        (Some(RememberScope::Agent), "agents of this name"),
        (Some(RememberScope::Always), "everywhere"),
    ];
    pub const USES: [(Option<u32>, &'static str); 4] = [
        (None, "any number"),
        (Some(1), "1"),
        (Some(5), "5"),
        (Some(20), "20"),
    ];

    /// The narrowest rule for each part is chosen.
    pub fn new(candidates: Vec<RuleCandidate>) -> Self {
        let narrowest = crate::render::rules::narrowest(&candidates);
        let offers = candidates.into_iter().map(|candidate| RuleOffer {
            is_chosen: narrowest.contains(&candidate.rule),
            candidate,
            backtest: None,
        });
        Self {
            offers: offers.collect(),
            row: 0,
            scope: None,
            expires: RuleExpiry::Month,
            uses: None,
        }
    }

    /// The rules that would be saved, by their text.
    pub fn rules(&self) -> Vec<String> {
        let chosen = self.offers.iter().filter(|offer| offer.is_chosen);
        chosen.map(|offer| offer.candidate.rule.clone()).collect()
    }

    /// Rows that can be changed.
    pub fn row_count(&self) -> usize {
        self.offers.len() + 3
    }

    /// Changes the row that is selected: chooses a rule or not, or takes the next value.
    pub fn change_row(&mut self) {
        if let Some(offer) = self.offers.get_mut(self.row) {
            offer.is_chosen = !offer.is_chosen;
            return;
        }
        match self.row - self.offers.len() {
            0 => self.scope = next_value(&Self::SCOPES, &self.scope),
            1 => self.expires = next_value(&RuleExpiry::ALL, &self.expires),
            _ => self.uses = next_value(&Self::USES, &self.uses),
        }
    }
}

fn next_value<T: Copy + PartialEq>(values: &[(T, &'static str)], current: &T) -> T {
    let index = values
        .iter()
        .position(|(value, _)| value == current)
        .unwrap_or(0);
    values[(index + 1) % values.len()].0
}

/// An allow that waits for its second key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingAllow {
    Once {
        option: String,
    },
    Remember {
        option: String,
        form: RuleForm,
    },
    WithMessage {
        option: String,
        message: String,
    },
    /// With another input, as JSON.
    Edited {
        option: String,
        input: String,
    },
    /// This ask and others that are exactly like it.
    Many {
        ids: Vec<String>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct AskScreen {
    pub guard: DecisionGuard,
    pub detail: FieldDetail,
    /// The first line that is shown.
    pub scroll: usize,
    /// Lines from the first that were all on the screen.
    pub read_to: usize,
    /// Lines that fit, and lines there are, as last drawn.
    pub page: usize,
    pub total: usize,
    pub pending: Option<PendingAllow>,
    /// The item whose answer is on its way.
    pub sending: Option<String>,
    /// What was read, laid out how: reading begins again with another.
    pub layout: AskLayout,
}

/// What of an ask is laid out, and how wide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskLayout {
    pub id: String,
    pub version: u64,
    pub width: u16,
    pub is_full: bool,
    /// Whether rules stand above it, and which.
    pub rules: Vec<String>,
}

impl Default for AskScreen {
    fn default() -> Self {
        Self {
            guard: DecisionGuard::new(true, false),
            detail: FieldDetail::Folded,
            scroll: 0,
            read_to: 0,
            page: 0,
            total: 0,
            pending: None,
            sending: None,
            layout: AskLayout::default(),
        }
    }
}

impl AskScreen {
    /// Begins to read from the top.
    pub fn restart_reading(&mut self) {
        self.scroll = 0;
        self.read_to = 0;
    }

    /// The first line of the last page.
    pub fn last_scroll(&self) -> usize {
        self.total.saturating_sub(self.page.max(1))
    }

    /// Moves by lines. A step is never longer than a page less one line, so that nothing is jumped over.
    pub fn scroll_by(&mut self, steps: isize) {
        let step = steps.unsigned_abs().min(self.page.saturating_sub(1).max(1));
        self.scroll = if steps < 0 {
            self.scroll.saturating_sub(step)
        } else {
            (self.scroll + step).min(self.last_scroll())
        };
    }

    /// The rules that are shown above the ask.
    pub fn offered_rules(&self) -> Vec<String> {
        match &self.pending {
            Some(PendingAllow::Remember { form, .. }) => {
                let offers = form.offers.iter();
                offers.map(|offer| offer.candidate.rule.clone()).collect()
            }
            _ => Vec::new(),
        }
    }
}
