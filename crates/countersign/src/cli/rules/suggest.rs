//! `rules suggest`: rules worth having.

use clap::Args;
use countersign_protocol::{MinedRule, SuggestRulesParams, Time, method};

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::escape;
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign rules suggest 1a2b3c4d     # for one ask, narrowest first
  countersign rules suggest              # from what people always allowed

Nothing is saved: add a rule with `rules add`, or answer with `approve ID --remember`.")]
pub(crate) struct SuggestArgs {
    /// Id of an ask; its first characters are enough
    approval: Option<String>,
}

pub(super) async fn suggest(common: &CommonArgs, args: SuggestArgs) -> Result<CliExit, CliError> {
    let params = SuggestRulesParams {
        approval_id: args.approval,
    };
    let found = common.call::<method::SuggestRules>(&params).await?;
    if common.json {
        output::print_json(&found)?;
        return Ok(CliExit::Ok);
    }
    if found.candidates.is_empty() && found.mined.is_empty() {
        output::print_message("no rule to suggest");
    }
    if !found.candidates.is_empty() {
        let rows = found.candidates.iter().map(|row| {
            let (rule, note) = (escape::line(&row.rule), escape::line(&row.note));
            vec![(row.part + 1).to_string(), rule.into(), note.into()]
        });
        let rows: Vec<_> = rows.collect();
        let heading = ["PART", "RULE", "NOTE"];
        output::print(&output::columns(&heading, &rows, output::list_width()))?;
    }
    if !found.mined.is_empty() {
        output::print(&mined(&found.mined, duration::now(), output::list_width()))?;
    }
    Ok(CliExit::Ok)
}

fn mined(rules: &[MinedRule], now: Time, width: usize) -> String {
    let rows = rules.iter().map(|row| {
        vec![
            row.allowed.to_string(),
            duration::age(now, row.last_at),
            escape::line(&row.rule).into_owned(),
            escape::line(&row.examples.join("; ")).into_owned(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    output::columns(&["ALLOWED", "LAST", "RULE", "LIKE"], &rows, width)
}
