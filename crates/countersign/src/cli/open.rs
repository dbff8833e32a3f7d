//! `open`: a way into the web page that works once.

use clap::Args;
use countersign_protocol::{CreateTicketParams, method};
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign open
  xdg-open \"$(countersign open)\"
  countersign open --phone                  # needs `public_url` under `[web]` in config.toml")]
pub(crate) struct OpenArgs {
    /// Print a QR code for a phone, with the public address of the host
    #[arg(long)]
    phone: bool,
}

pub(super) async fn open(common: &CommonArgs, args: &OpenArgs) -> Result<CliExit, CliError> {
    let params = CreateTicketParams { phone: args.phone };
    let ticket = common.call::<method::CreateTicket>(&params).await?;
    if args.phone && !common.json {
        output::print_message(format_args!("{}", qr_code(&ticket.url)?));
    }
    // Alone on stdout, so that `xdg-open "$(countersign open)"` gets the link and nothing else.
    let exit = common.print(&ticket, || format!("{}\n", ticket.url))?;
    if !common.json {
        let expires = duration::until(duration::now(), ticket.expires_at);
        output::print_message(format_args!("works once, expires {expires}"));
    }
    Ok(exit)
}

/// The link as a picture of characters, two rows of it in each line. Dark on light whatever the
/// colours of the terminal are, because not every phone reads it the other way round.
fn qr_code(link: &str) -> Result<String, CliError> {
    let code = QrCode::new(link).map_err(|error| {
        CliError::failed(format!("the link cannot be shown as a QR code: {error}"))
    })?;
    let picture = code.render::<Dense1x2>().build();
    let paper = output::PAPER;
    let lines = picture
        .lines()
        .map(|line| format!("{paper}{line}{paper:#}\n"));
    Ok(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qr_code_is_square_and_has_a_quiet_zone() {
        let picture = qr_code("https://box.example/login/abc").unwrap();
        let picture = anstream::adapter::strip_str(&picture).to_string();
        let lines: Vec<Vec<char>> = picture.lines().map(|line| line.chars().collect()).collect();
        let width = lines[0].len();
        assert!(lines.iter().all(|line| line.len() == width));
        assert_eq!(lines.len(), width.div_ceil(2));
        assert!(lines[0].iter().all(|cell| *cell == ' '));
    }
}
