//! `open`: a way into the web page that works once.

use countersign_protocol::LoginTicket;

use super::Common;
use crate::exit::Exit;
use crate::failure::CliError;
use crate::{duration, output};

pub(super) async fn open(common: &Common) -> Result<Exit, CliError> {
    let ticket: LoginTicket = common
        .connect()
        .await?
        .call("host.create_ticket", &serde_json::json!({}))
        .await?;
    if common.json {
        output::put_json(&ticket)?;
        return Ok(Exit::Ok);
    }
    output::put(&format!("{}\n", ticket.url))?;
    output::say(format_args!(
        "works once, ends {}",
        duration::until(duration::now(), ticket.expires_at)
    ));
    Ok(Exit::Ok)
}
