//! The loop of the screen in lines.

use std::time::Instant;

use countersign_tui::message::{Effect, Moment};
use countersign_tui::model::Model;
use countersign_tui::plain::{PlainOutput, PlainScreen};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::host_link::HostLinks;
use super::settings;
use crate::client::HostEndpoint;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::{duration, output};

pub(super) async fn run(endpoint: &HostEndpoint) -> Result<CliExit, CliError> {
    let started = Instant::now();
    let mut screen = PlainScreen::new(Model::new(settings::plain(), Moment::default()));
    let mut links = HostLinks::open(endpoint.clone());
    let mut typed = BufReader::new(tokio::io::stdin()).lines();
    output::print("Asks are read aloud as they come. help lists the words.\n")?;
    loop {
        let printed = tokio::select! {
            biased;
            message = links.next_message() => {
                if matches!(message, countersign_tui::message::Message::Lost) {
                    links.forget_connections();
                }
                screen.handle_message(message, moment(started))
            }
            line = typed.next_line() => {
                let Some(line) = line.map_err(|source| CliError::io("could not read", source))? else {
                    return Ok(CliExit::Ok);
                };
                screen.handle_line(&line, moment(started))
            }
        };
        if print(&mut screen, &links, printed, started)? {
            return Ok(CliExit::Ok);
        }
    }
}

fn moment(started: Instant) -> Moment {
    Moment {
        ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        wall: duration::now(),
    }
}

/// Whether the person leaves.
fn print(
    screen: &mut PlainScreen,
    links: &HostLinks,
    printed: PlainOutput,
    started: Instant,
) -> Result<bool, CliError> {
    for line in &printed.lines {
        output::print(&format!("{line}\n"))?;
    }
    for effect in printed.effects {
        match effect {
            Effect::Quit => return Ok(true),
            Effect::Call(call) => {
                if let Err(refused) = links.call(call) {
                    let printed = screen.handle_message(*refused, moment(started));
                    print(screen, links, printed, started)?;
                }
            }
            // What a screen alone can do.
            Effect::FollowTranscript(_)
            | Effect::Copy(_)
            | Effect::OpenEditor(_)
            | Effect::CaptureMouse(_)
            | Effect::SaveLayout { .. }
            | Effect::ReadNotes
            | Effect::SaveNotes(_)
            | Effect::Redraw
            | Effect::RunCommand(_)
            | Effect::Suspend => {}
        }
    }
    Ok(false)
}
