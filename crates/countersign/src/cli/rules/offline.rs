//! Verdicts without a host: by the rule files alone.

use countersign_daemon::{Rulebook, RulebookError};
use countersign_protocol::{CheckRulesParams, CheckedRules, HostVerdict};
use countersign_rules::{ToolRequest, Verdict, assess, explain as in_words, judge};
use serde_json::Value;

use crate::error::CliError;
use crate::paths::HostPaths;
use crate::render::escape;
use crate::{output, rule_files};

pub(super) fn explain(params: &CheckRulesParams) -> Result<CheckedRules, CliError> {
    let config = rule_files::rulebook_config(&HostPaths::from_environment()?);
    let book = Rulebook::open(config).map_err(not_understood)?;
    let rules = book.rules_for(params.cwd.as_deref());
    for (file, _) in &rules.untrusted {
        let file = escape::line(file);
        output::print_warning(format_args!(
            "what {file} allows is ignored: only a running host knows whether it is trusted"
        ));
    }
    let input: Option<Value> = params
        .input
        .as_ref()
        .and_then(|raw| serde_json::from_str(raw.text()).ok());
    let request = ToolRequest::from_tool(&params.tool, input.as_ref(), rules.place.clone());
    let assessment = assess(&request, book.facts());
    let verdict = rules.with_layers(None, |layers| judge(&assessment, &rules.floor, layers));
    Ok(CheckedRules {
        candidates: Vec::new(),
        verdict: to_wire(&verdict)?,
    })
}

/// The verdict in the shape that hosts send it in: both have the same names.
fn to_wire(verdict: &Verdict) -> Result<HostVerdict, CliError> {
    let translated = serde_json::to_value(verdict).and_then(serde_json::from_value);
    let mut translated: HostVerdict =
        translated.map_err(|error| CliError::io("could not write the verdict", error.into()))?;
    translated.text = in_words(verdict);
    Ok(translated)
}

fn not_understood(error: RulebookError) -> CliError {
    match error {
        RulebookError::Rules(problems) => {
            CliError::failed(format!("the rules were not understood\n{problems}"))
                .with_hint("fix the file; until then no host starts")
        }
        RulebookError::Watch(source) => CliError::io("could not watch the rule files", source),
    }
}
