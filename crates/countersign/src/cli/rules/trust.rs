//! `rules trust`: a project's rule file may loosen, exactly as it was shown.

use std::path::{Path, PathBuf};

use clap::Args;
use countersign_protocol::{RulesParams, TrustRulesParams, UntrustedFileRow, method};
use countersign_rules::{Effect, FileKind, parse_file};

use super::super::args;
use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::render::escape;

/// A project's own rules; other files that wait for trust are those of other tools.
const PROJECT_FILE: &str = ".countersign/rules.toml";

#[derive(Args)]
#[command(after_help = "Examples:
  countersign rules trust
  countersign rules trust ~/code/app --yes

What a project's file denies or asks applies at once. What it allows applies only after this command,
and only while the file is unchanged: trust it again after every edit.")]
pub(crate) struct TrustArgs {
    /// Folder of the project [default: the current one]
    dir: Option<PathBuf>,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

pub(super) async fn trust(common: &CommonArgs, args: TrustArgs) -> Result<CliExit, CliError> {
    let cwd = args::absolute_folder(args.dir.as_deref())?;
    let params = RulesParams {
        cwd: Some(cwd.clone()),
    };
    let untrusted = common.call::<method::UntrustedRules>(&params).await?;
    if untrusted.is_empty() {
        output::print_message(format_args!("no untrusted file in {cwd}"));
        return Ok(CliExit::Ok);
    }
    for UntrustedFileRow { file, digest, text } in untrusted {
        output::print_message(format_args!("{} allows:", escape::line(&file)));
        output::print(&allowing(&file, &text))?;
        if !confirm_trust(args.yes)? {
            output::print_message("nothing was trusted");
            return Ok(CliExit::Failure);
        }
        // Only the content that was shown is trusted: an edit in between makes the host ignore it.
        let params = TrustRulesParams {
            file: file.clone(),
            digest,
        };
        // A new connection for each file: the host may have closed one that was silent while the person
        // read.
        common.call::<method::TrustRules>(&params).await?;
        output::print_message(format_args!("{} is trusted as it is", escape::line(&file)));
    }
    Ok(CliExit::Ok)
}

fn confirm_trust(yes: bool) -> Result<bool, CliError> {
    if yes {
        return Ok(true);
    }
    args::confirm("Trust this?").map_err(|error| error.with_hint("read the file first"))
}

/// What the content allows, or all of it where that cannot be told: the other tools' files.
fn allowing(file: &str, text: &str) -> String {
    // Only our own format is understood well enough to leave the rest of a file out.
    let parsed = Some(text)
        .filter(|_| Path::new(file).ends_with(PROJECT_FILE))
        .and_then(|text| parse_file(text, file, FileKind::Project).ok());
    let Some(parsed) = parsed else {
        return escape::block(text).into_owned() + "\n";
    };
    let entries = parsed.entries.iter();
    let allows = entries.filter(|entry| entry.effect == Effect::Allow);
    let lines = allows.map(|entry| {
        let line = entry.origin.line.unwrap_or_default();
        format!("  {line:>4}  allow {}\n", escape::line(entry.rule.text()))
    });
    lines.collect()
}
