//! `rules backtest`: a rule held against the decisions on the record.

use std::fmt::Write as _;

use clap::Args;
use countersign_protocol::{BacktestResult, BacktestRuleParams, method};

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::render::{approvals, escape};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign rules backtest 'Bash(cargo test:*)'
  countersign rules backtest 'Bash(git push:*)' --deny --limit 5000

Exits with 0 if no decision contradicts the rule, and with 9 if one does.")]
pub(crate) struct BacktestArgs {
    /// The rule
    rule: String,
    /// Test it as a rule that denies
    #[arg(long, group = "effect")]
    deny: bool,
    /// Test it as a rule that asks
    #[arg(long, group = "effect")]
    ask: bool,
    /// How many asks to compare, newest first
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

pub(super) async fn backtest(common: &CommonArgs, args: BacktestArgs) -> Result<CliExit, CliError> {
    let effect = match (args.ask, args.deny) {
        (true, _) => "ask",
        (_, true) => "deny",
        _ => "allow",
    };
    let params = BacktestRuleParams {
        rule: args.rule,
        effect: Some(effect.into()),
        limit: args.limit,
    };
    let result = common.call::<method::BacktestRule>(&params).await?;
    common.print(&result, || text(&result))?;
    Ok(if result.contradicted.is_empty() {
        CliExit::Ok
    } else {
        CliExit::AlreadyAnswered
    })
}

fn text(result: &BacktestResult) -> String {
    let mut text = format!(
        "of {} decisions made by hand it would have settled {}, and agreed with {}\n",
        result.examined, result.settled, result.agreed
    );
    if result.already_settled_by_rules > 0 {
        let asks = output::plural(result.already_settled_by_rules, "ask");
        let _ = writeln!(text, "{asks} had already been settled by a rule");
    }
    if result.skipped_by_others > 0 {
        let count = result.skipped_by_others;
        let _ = writeln!(
            text,
            "{count} other asks ended in another way, or no rule can cover them"
        );
    }
    let _ = writeln!(text, "contradicted: {}", result.contradicted.len());
    for row in &result.contradicted {
        let subjects: Vec<_> = row
            .verdict
            .parts
            .iter()
            .map(|part| escape::line(&part.subject).into_owned())
            .collect();
        let _ = writeln!(
            text,
            "  {}  {} by {}; the rules would {}: {}",
            approvals::short_id(&row.approval_id),
            row.decided,
            escape::line(&row.by.name),
            row.verdict.effect,
            subjects.join("; ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use countersign_protocol::Contradiction;

    use super::*;
    use crate::test_rows;

    #[test]
    fn every_decision_to_the_contrary_is_named() {
        let result = BacktestResult {
            agreed: 3,
            already_settled_by_rules: 1,
            contradicted: vec![Contradiction {
                approval_id: "approval-aaaa11112222".into(),
                by: test_rows::who("ada", "operator"),
                decided: "denied".into(),
                verdict: test_rows::verdict(),
            }],
            examined: 9,
            settled: 4,
            skipped_by_others: 0,
            would_settle: Vec::new(),
        };
        assert_eq!(
            text(&result),
            "of 9 decisions made by hand it would have settled 4, and agreed with 3\n\
             1 ask had already been settled by a rule\n\
             contradicted: 1\n  \
             aaaa1111  denied by ada; the rules would ask: cargo test; /p/.git/config\n"
        );
    }
}
