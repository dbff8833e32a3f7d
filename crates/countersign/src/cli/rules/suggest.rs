//! `rules suggest`: rules worth having.

use clap::Args;
use countersign_protocol::{MinedRule, RuleSuggestions, SuggestRulesParams, Time};

use super::Common;
use crate::exit::Exit;
use crate::failure::CliError;
use crate::{duration, output, shown};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign rules suggest 1a2b3c4d     # for one ask, narrowest first
  countersign rules suggest              # what was always allowed by hand and never denied

Nothing is saved: add what you want with `rules add`, or answer with `approve ID --remember`.")]
pub(crate) struct SuggestArgs {
    /// The ask; the first characters are enough
    approval: Option<String>,
}

pub(super) async fn suggest(common: &Common, args: SuggestArgs) -> Result<Exit, CliError> {
    let params = SuggestRulesParams {
        approval_id: args.approval,
    };
    let found: RuleSuggestions = common
        .connect()
        .await?
        .call("host.suggest_rules", &params)
        .await?;
    if common.json {
        output::put_json(&found)?;
        return Ok(Exit::Ok);
    }
    if found.candidates.is_empty() && found.mined.is_empty() {
        output::say("no rule to suggest");
    }
    if !found.candidates.is_empty() {
        let rows: Vec<_> = found
            .candidates
            .iter()
            .map(|row| {
                let (rule, note) = (shown::line(&row.rule), shown::line(&row.note));
                vec![
                    (row.part + 1).to_string(),
                    rule.into_owned(),
                    note.into_owned(),
                ]
            })
            .collect();
        let heading = ["PART", "RULE", "NOTE"];
        output::put(&output::columns(&heading, &rows, output::list_width()))?;
    }
    if !found.mined.is_empty() {
        output::put(&mined(&found.mined, duration::now(), output::list_width()))?;
    }
    Ok(Exit::Ok)
}

fn mined(rules: &[MinedRule], now: Time, width: usize) -> String {
    let row = |row: &MinedRule| {
        vec![
            row.allowed.to_string(),
            duration::age(now, row.last_at),
            shown::line(&row.rule).into_owned(),
            shown::line(&row.examples.join("; ")).into_owned(),
        ]
    };
    let rows: Vec<_> = rules.iter().map(row).collect();
    output::columns(&["ALLOWED", "LAST", "RULE", "LIKE"], &rows, width)
}
