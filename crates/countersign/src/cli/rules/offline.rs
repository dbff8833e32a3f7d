//! Verdicts without a host: by the rule files alone.

use countersign_daemon::{Rulebook, RulebookError};
use countersign_protocol::CheckRulesParams;
use countersign_rules::{Request, Verdict, assess, explain as in_words, judge};
use serde::Serialize;
use serde_json::Value;

use super::Common;
use crate::failure::CliError;
use crate::output::CARE;
use crate::paths::Paths;
use crate::{output, rule_files, shown};

/// What `--json` prints: the same names as the host's answer has.
#[derive(Serialize)]
struct Explained {
    candidates: [Value; 0],
    verdict: Told,
}

#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    verdict: Verdict,
    text: String,
}

pub(super) fn explain(common: &Common, params: &CheckRulesParams) -> Result<(), CliError> {
    let config = rule_files::rulebook_config(&Paths::from_environment()?);
    let book = Rulebook::open(config).map_err(not_understood)?;
    let chapter = book.chapter(params.cwd.as_deref());
    for (file, _) in &chapter.untrusted {
        let file = shown::line(file);
        output::say(format_args!(
            "{CARE}not counted, since no host can say whether it is trusted: {file}{CARE:#}"
        ));
    }
    let input: Option<Value> = params
        .input
        .as_ref()
        .and_then(|raw| serde_json::from_str(raw.text()).ok());
    let request = Request::from_tool(&params.tool, input.as_ref(), chapter.place.clone());
    let assessment = assess(&request, book.facts());
    let verdict = chapter.with_layers(None, |layers| judge(&assessment, &chapter.floor, layers));
    let text = in_words(&verdict);
    if common.json {
        return output::put_json(&Explained {
            candidates: [],
            verdict: Told { verdict, text },
        });
    }
    output::put(&(shown::block(&text).into_owned() + "\n"))
}

fn not_understood(error: RulebookError) -> CliError {
    match error {
        RulebookError::Rules(problems) => CliError::Failed {
            what: format!("the rules were not understood\n{problems}"),
            hint: Some("mend the file; a host refuses to start with it".into()),
        },
        RulebookError::Watch(source) => CliError::io("could not watch the rule files", source),
    }
}
