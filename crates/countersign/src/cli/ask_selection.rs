//! Which asks `approve` and `deny` mean: named by id, the only one that waits, all of an agent, or all
//! that are equal.
//!
//! Invariant: an ask that was not named is shown in full before it is answered, and only exactly the
//! asks that were shown are.

use std::collections::BTreeSet;

use clap::Args;
use countersign_protocol::{ApprovalParams, HostApproval, HostApprovalState, method};

use super::{CommonArgs, args, inbox};
use crate::client::HostClient;
use crate::error::CliError;
use crate::render::approvals::{self, FieldDetail};
use crate::render::escape;
use crate::{duration, output};

#[derive(Args)]
pub(super) struct AskSelection {
    /// Ids of asks; their first characters are enough [default: the only ask that waits]
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// With --all: the agent, by name or id
    #[arg(long, value_name = "AGENT", requires = "all")]
    agent: Option<String>,
    /// All open asks of the agent; they are listed first, to be confirmed
    #[arg(long, requires = "agent", conflicts_with = "ids")]
    all: bool,
    /// Also all open asks with the same tool and the same input; they are listed first
    #[arg(long, requires = "ids", conflicts_with = "all")]
    same: bool,
    /// Do not ask for confirmation; required without a terminal
    #[arg(long)]
    pub(super) yes: bool,
}

/// The asks that are meant, and the ids for which there is none.
pub(super) struct SelectedAsks {
    pub(super) rows: Vec<HostApproval>,
    pub(super) errors: Vec<(String, CliError)>,
}

impl AskSelection {
    /// Whether exactly one ask is meant, whatever is open.
    pub(super) fn is_one(&self) -> bool {
        !self.all && !self.same && self.ids.len() < 2
    }

    /// The asks, after a person confirmed those that were not named. `None` if they did not.
    /// `question` is what is asked of them, like `Approve`.
    pub(super) async fn select(
        &self,
        common: &CommonArgs,
        client: &mut HostClient,
        question: &str,
    ) -> Result<Option<SelectedAsks>, CliError> {
        let found = self.find(client).await?;
        let is_named = !self.ids.is_empty() && !self.same;
        if is_named || found.rows.is_empty() {
            return Ok(Some(found));
        }
        output::print_message(listing(&found.rows).trim_end());
        if self.yes {
            return Ok(Some(found));
        }
        let asks = output::plural(found.rows.len(), "ask");
        if !args::confirm(&format!("{question} {asks}?"))? {
            output::print_message("nothing was changed");
            return Ok(None);
        }
        // The host may have closed a connection that was silent while the person thought.
        *client = common.connect().await?;
        let again = self.find(client).await?;
        if ids(&again.rows) != ids(&found.rows) {
            return Err(CliError::failed(
                "the open asks are no longer those that were listed; none was answered",
            )
            .with_hint("run the command again to see them"));
        }
        Ok(Some(found))
    }

    async fn find(&self, client: &mut HostClient) -> Result<SelectedAsks, CliError> {
        let mut found = SelectedAsks {
            rows: Vec::new(),
            errors: Vec::new(),
        };
        if self.ids.is_empty() {
            let open = inbox::open_asks(client, self.agent.clone()).await?;
            found.rows = self.expect_open(open)?;
            return Ok(found);
        }
        for id in &self.ids {
            match load(client, id).await {
                Ok(row) => found.rows.push(row),
                Err(error) if self.is_one() || !error.is_about_one_ask() => return Err(error),
                Err(error) => found.errors.push((id.clone(), error)),
            }
        }
        if self.same {
            let open = inbox::open_asks(client, None).await?;
            let named = found.rows.clone();
            let equal = open
                .into_iter()
                .filter(|row| named.iter().any(|named| approvals::are_equal(named, row)));
            found.rows.extend(equal);
        }
        let mut seen = BTreeSet::new();
        found.rows.retain(|row| seen.insert(row.id.clone()));
        Ok(found)
    }

    /// All open asks of the agent, or the only one there is.
    fn expect_open(&self, open: Vec<HostApproval>) -> Result<Vec<HostApproval>, CliError> {
        const HINT: &str = "see what is open with `countersign inbox`";
        match (&self.agent, open.len()) {
            (Some(agent), 0) => Err(CliError::unknown_id(format!(
                "`{}` has no open ask",
                escape::line(agent)
            ))),
            (None, 0) => Err(CliError::unknown_id("no ask is open")),
            (Some(_), _) | (None, 1) => Ok(open),
            (None, count) => Err(CliError::usage(format!("{count} asks are open: name one"))),
        }
        .map_err(|error| error.with_hint(HINT))
    }
}

async fn load(client: &mut HostClient, id: &str) -> Result<HostApproval, CliError> {
    let approval_id = id.to_owned();
    let params = ApprovalParams { approval_id };
    Ok(client.call::<method::Approval>(&params).await?)
}

fn ids(rows: &[HostApproval]) -> BTreeSet<&str> {
    rows.iter().map(|row| row.id.as_str()).collect()
}

/// Everything that a person needs to see of each of them.
fn listing(rows: &[HostApproval]) -> String {
    let now = duration::now();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let ended = row.state != HostApprovalState::Pending;
        let fields = approvals::ask_fields(row, now, FieldDetail::Folded);
        let fields: Vec<_> = fields
            .into_iter()
            .filter(|(name, _)| ended || !["folded", "state"].contains(name))
            .collect();
        let number = format!("{} of {}", index + 1, rows.len());
        text.extend(["── ", &number, " ──\n", &output::fields(&fields)]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;

    fn selection(agent: Option<&str>) -> AskSelection {
        AskSelection {
            ids: Vec::new(),
            agent: agent.map(str::to_owned),
            all: agent.is_some(),
            same: false,
            yes: false,
        }
    }

    #[test]
    fn without_an_id_the_only_open_ask_is_meant_and_never_one_of_several() {
        let one = || vec![test_rows::approval()];
        let two = || vec![test_rows::approval(), test_rows::approval()];
        let only = selection(None);
        assert_eq!(only.expect_open(one()).unwrap(), one());
        assert_eq!(
            only.expect_open(two()).unwrap_err().report(),
            "error: 2 asks are open: name one\n\nhint: see what is open with `countersign inbox`\n"
        );
        assert!(only.expect_open(Vec::new()).is_err());
        let all = selection(Some("ann"));
        assert_eq!(all.expect_open(two()).unwrap(), two());
        assert!(all.expect_open(Vec::new()).is_err());
    }

    #[test]
    fn the_listing_shows_each_ask_with_what_would_run() {
        let long = test_rows::bash(&format!("echo {}", "x".repeat(300)));
        let text = listing(&[test_rows::approval(), long]);
        let text = anstream::adapter::strip_str(&text).to_string();
        assert!(
            text.starts_with("── 1 of 2 ──\ntool      Bash\ncommand   cargo test --workspace\n")
        );
        assert!(text.contains(&"x".repeat(300)), "{text}");
    }
}
