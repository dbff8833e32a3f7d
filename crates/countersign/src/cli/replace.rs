//! `up --replace`: a new host in the place of one that runs.
//!
//! Invariant: whatever can be known to keep the new host from starting is found before the old one is
//! told to end.

use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use countersign_daemon::{Rulebook, audit};
use countersign_protocol::{AgentsAtShutdown, HostStatus};
use serde_json::json;

use super::up::UpArgs;
use super::{down, ending};
use crate::client::{Address, Client, Endpoint};
use crate::failure::CliError;
use crate::paths::Paths;
use crate::{output, rule_files, shown};

/// The host that was there before.
pub(super) struct Replaced {
    version: String,
    /// Its program, where that is known.
    program: Option<PathBuf>,
    agents: usize,
    agents_alone_ms: Option<u64>,
}

/// Ends the host that runs, if one does, once nothing is known to be in the way of the next.
pub(super) async fn take_place(
    paths: &Paths,
    args: &mut UpArgs,
) -> Result<Option<Replaced>, CliError> {
    let endpoint = Endpoint {
        address: Address::Socket(paths.socket.clone()),
        token: None,
        agent_id: None,
    };
    let mut client = match Client::connect(&endpoint).await {
        Ok(client) => client,
        Err(CliError::NoHost { .. }) => {
            output::say("no host is running that could be replaced; starting one");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let status: HostStatus = client.call("host.status", &json!({})).await?;
    let address = status.listen.as_ref().and_then(|text| text.parse().ok());
    check(paths, args, address).map_err(|error| in_the_way(error.as_ref()))?;
    let replaced = Replaced {
        version: status.version,
        program: std::fs::read_link(format!("/proc/{}/exe", status.pid)).ok(),
        agents: ending::running(&mut client).await?.len(),
        agents_alone_ms: status.agents_alone_ms,
    };
    drop(client);
    ending::end_host(&endpoint, AgentsAtShutdown::Keep).await?;
    output::say(format_args!(
        "the host before (version {}, pid {}) is gone",
        shown::line(&replaced.version),
        status.pid
    ));
    Ok(Some(replaced))
}

/// What would keep a host from starting, as far as that shows while another one runs.
fn check(
    paths: &Paths,
    args: &mut UpArgs,
    address: Option<SocketAddr>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    args.stay_at(paths, address)?;
    let options = args.options(paths)?;
    Rulebook::open(rule_files::rulebook_config(paths))?;
    audit::check_database(&paths.database)?;
    match options.listen {
        Some(wanted) if Some(wanted) != address => {
            let failed = |source| CliError::io(format!("could not listen on `{wanted}`"), source);
            TcpListener::bind(wanted).map_err(failed)?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What was found, with its causes.
fn in_the_way(error: &dyn Error) -> CliError {
    let mut what = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        what = format!("{what}\n  because: {error}");
        cause = error.source();
    }
    CliError::Failed {
        what,
        hint: Some("mend that and try again; the host that runs was not touched".into()),
    }
}

/// Tells whoever is left without a host how to have the old one back.
pub(super) fn say_how_to_go_back(replaced: Option<&Replaced>) {
    if let Some(replaced) = replaced {
        output::say(way_back(replaced));
    }
}

fn way_back(replaced: &Replaced) -> String {
    let version = shown::line(&replaced.version);
    let back = match &replaced.program {
        Some(program) if program.exists() => {
            let program = program.display().to_string();
            format!(
                "start it again with `{} up --detach`",
                shown::line(&program)
            )
        }
        _ => "its program is no longer where it was: install that version to have it back".into(),
    };
    let mut words = format!(
        "the host before (version {version}) has ended, and the new one did not start; {back}"
    );
    if replaced.agents > 0 {
        words.push('\n');
        words.push_str(&down::alone_words(
            replaced.agents,
            replaced.agents_alone_ms,
        ));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_names_the_program_and_the_agents() {
        let program = std::env::current_exe().unwrap();
        let replaced = Replaced {
            version: "0.1.0".into(),
            program: Some(program.clone()),
            agents: 1,
            agents_alone_ms: Some(60_000),
        };
        assert_eq!(
            way_back(&replaced),
            format!(
                "the host before (version 0.1.0) has ended, and the new one did not start; start it \
                 again with `{} up --detach`\n1 agent goes on without it for up to 1 minute: \
                 `countersign up` takes them up again, `countersign down --all` ends them",
                program.display()
            )
        );
    }
}
