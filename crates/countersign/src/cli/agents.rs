//! `agents`: which agents are known, and which of them can be started here.

use countersign_protocol::CatalogRow;
use serde_json::json;

use super::Common;
use crate::exit::Exit;
use crate::failure::CliError;
use crate::{output, shown};

pub(super) async fn agents(common: &Common) -> Result<Exit, CliError> {
    let mut client = common.connect().await?;
    let rows: Vec<CatalogRow> = client.call("host.catalog", &json!({})).await?;
    if common.json {
        output::put_json(&rows)?;
    } else {
        output::put(&list(&rows, output::list_width()))?;
    }
    Ok(Exit::Ok)
}

fn list(rows: &[CatalogRow], width: usize) -> String {
    let row = |row: &CatalogRow| {
        let how = if row.installed {
            row.command.join(" ")
        } else {
            row.hint.clone().unwrap_or_default()
        };
        vec![
            shown::line(&row.name).into_owned(),
            shown::line(&row.title).into_owned(),
            if row.installed {
                "installed"
            } else {
                "missing"
            }
            .to_owned(),
            shown::line(&how).into_owned(),
        ]
    };
    let (here, missing): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.installed);
    let rows: Vec<_> = here.into_iter().chain(missing).map(row).collect();
    let mut text = output::columns(&["NAME", "AGENT", "STATE", "HOW"], &rows, width);
    text.push_str("Any other that speaks ACP: countersign spawn --command 'PROGRAM ARGUMENTS'\n");
    text.push_str("Any of them can lead others: countersign spawn --role orchestrator\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_started_stands_first() {
        let row = |name: &str, installed: bool, hint: Option<&str>| CatalogRow {
            command: vec!["/bin/x".into(), "acp".into()],
            hint: hint.map(str::to_owned),
            installed,
            name: name.into(),
            title: name.to_uppercase(),
        };
        let rows = [row("a", false, Some("npm i a")), row("b", true, None)];
        assert_eq!(
            anstream::adapter::strip_str(&list(&rows, 80)).to_string(),
            "NAME  AGENT  STATE      HOW\n\
             b     B      installed  /bin/x acp\n\
             a     A      missing    npm i a\n\
             Any other that speaks ACP: countersign spawn --command 'PROGRAM ARGUMENTS'\n\
             Any of them can lead others: countersign spawn --role orchestrator\n"
        );
    }
}
