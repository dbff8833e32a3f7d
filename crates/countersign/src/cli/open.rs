//! `open`: a way into the web page that works once.

use countersign_protocol::{NoParams, method};

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::{duration, output};

pub(super) async fn open(common: &CommonArgs) -> Result<CliExit, CliError> {
    let ticket = common
        .connect()
        .await?
        .call::<method::CreateTicket>(&NoParams {})
        .await?;
    if common.json {
        output::print_json(&ticket)?;
        return Ok(CliExit::Ok);
    }
    output::print(&format!("{}\n", ticket.url))?;
    output::print_message(format_args!(
        "works once, expires {}",
        duration::until(duration::now(), ticket.expires_at)
    ));
    Ok(CliExit::Ok)
}
