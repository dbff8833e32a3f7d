//! `open`: a way into the web page that works once.

use countersign_protocol::{NoParams, method};

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::{duration, output};

pub(super) async fn open(common: &CommonArgs) -> Result<CliExit, CliError> {
    let ticket = common.call::<method::CreateTicket>(&NoParams {}).await?;
    // Alone on stdout, so that `xdg-open "$(countersign open)"` gets the link and nothing else.
    let exit = common.print(&ticket, || format!("{}\n", ticket.url))?;
    if !common.json {
        let expires = duration::until(duration::now(), ticket.expires_at);
        output::print_message(format_args!("works once, expires {expires}"));
    }
    Ok(exit)
}
