//! `keys`: the commands of the terminal UI.

use clap::Args;
use countersign_tui::command::{COMMANDS, keys_markdown};
use serde_json::json;

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;

#[derive(Args)]
pub(crate) struct KeysArgs {
    /// Print a Markdown table
    #[arg(long)]
    markdown: bool,
}

pub(super) fn keys(common: &CommonArgs, args: &KeysArgs) -> Result<CliExit, CliError> {
    let rows: Vec<_> = COMMANDS
        .iter()
        .map(|command| {
            json!({ "id": command.id, "keys": command.keys, "where": command.place.describe(), "word": command.word })
        })
        .collect();
    common.print(&json!({ "commands": rows }), || {
        if args.markdown {
            return keys_markdown();
        }
        let rows: Vec<Vec<String>> = COMMANDS
            .iter()
            .map(|command| {
                let keys = command.keys.join(" or ");
                vec![
                    keys,
                    command.word.to_owned(),
                    command.place.describe(),
                    command.id.to_owned(),
                ]
            })
            .collect();
        output::columns(
            &["KEY", "WHAT IT DOES", "WHERE", "COMMAND"],
            &rows,
            output::list_width(),
        )
    })
}
