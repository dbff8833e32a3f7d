//! `up --replace`: a new host in the place of one that runs.
//!
//! Invariant: whatever can be known to keep the new host from starting is found before the old one is
//! told to end.

use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use countersign_core::error_causes;
use countersign_daemon::{Rulebook, audit};
use countersign_protocol::{AgentsAtShutdown, NoParams, method};

use super::up::UpArgs;
use super::{down, shutdown};
use crate::client::{HostClient, HostEndpoint};
use crate::error::CliError;
use crate::paths::HostPaths;
use crate::render::escape;
use crate::{output, rule_files};

/// The host that was there before.
pub(super) struct ReplacedHost {
    version: String,
    /// Its program, where that is known.
    program: Option<PathBuf>,
    agents: usize,
    agents_alone_ms: Option<u64>,
}

/// Ends the host that runs, if one does, once nothing is known to be in the way of the next.
pub(super) async fn replace_host(
    paths: &HostPaths,
    args: &mut UpArgs,
) -> Result<Option<ReplacedHost>, CliError> {
    let endpoint = HostEndpoint::local(&paths.socket);
    let mut client = match HostClient::connect(&endpoint).await {
        Ok(client) => client,
        Err(CliError::NoHost { .. }) => {
            output::print_message("no host is running; starting one");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let status = client.call::<method::Status>(&NoParams {}).await?;
    let address = status.listen.as_ref().and_then(|text| text.parse().ok());
    check_can_start(paths, args, address).map_err(|error| start_obstacle(error.as_ref()))?;
    let replaced = ReplacedHost {
        version: status.version,
        // While it runs: an ended process has no such entry.
        program: std::fs::read_link(format!("/proc/{}/exe", status.pid)).ok(),
        agents: shutdown::running_agents(&mut client).await?.len(),
        agents_alone_ms: status.agents_alone_ms,
    };
    // A host that ends waits for its connections, and must not wait for this one.
    drop(client);
    shutdown::end_host(&endpoint, AgentsAtShutdown::Keep).await?;
    output::print_message(format_args!(
        "the previous host (version {}, pid {}) stopped",
        escape::line(&replaced.version),
        status.pid
    ));
    Ok(Some(replaced))
}

/// What would keep a host from starting, as far as that shows while another one runs.
fn check_can_start(
    paths: &HostPaths,
    args: &mut UpArgs,
    address: Option<SocketAddr>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    args.keep_address(paths, address)?;
    let options = args.options(paths)?;
    Rulebook::open(rule_files::rulebook_config(paths))?;
    audit::check_database(&paths.database)?;
    // The old host holds its own address until it ends, so only another one can be tried.
    if let Some(wanted) = options.listen.filter(|wanted| Some(*wanted) != address) {
        TcpListener::bind(wanted)
            .map_err(|source| CliError::io(format!("could not listen on `{wanted}`"), source))?;
    }
    Ok(())
}

/// What was found, with its causes.
fn start_obstacle(error: &(dyn Error + 'static)) -> CliError {
    let mut what = error.to_string();
    for cause in error_causes(error) {
        what = format!("{what}\n  because: {cause}");
    }
    CliError::failed(what).with_hint("fix that and try again; the running host was not changed")
}

/// Tells whoever is left without a host how to have the old one back.
pub(super) fn print_way_back(replaced: Option<&ReplacedHost>) {
    if let Some(replaced) = replaced {
        output::print_message(way_back(replaced));
    }
}

fn way_back(replaced: &ReplacedHost) -> String {
    let version = escape::line(&replaced.version);
    let back = match &replaced.program {
        Some(program) if program.exists() => {
            let program = program.display().to_string();
            format!("restart it with `{} up --detach`", escape::line(&program))
        }
        _ => "its program was moved or removed: install that version to restore it".into(),
    };
    let mut text = format!(
        "the previous host (version {version}) stopped, and the new one did not start; {back}"
    );
    if replaced.agents > 0 {
        text.push('\n');
        text.push_str(&down::kept_agents_text(
            replaced.agents,
            replaced.agents_alone_ms,
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_names_the_program_and_the_agents() {
        let program = std::env::current_exe().unwrap();
        let replaced = ReplacedHost {
            version: "0.1.0".into(),
            program: Some(program.clone()),
            agents: 1,
            agents_alone_ms: Some(60_000),
        };
        assert_eq!(
            way_back(&replaced),
            format!(
                "the previous host (version 0.1.0) stopped, and the new one did not start; restart it \
                 with `{} up --detach`\n1 agent keeps running without a host for up to 1 minute: \
                 `countersign up` adopts them again, `countersign down --all` ends them",
                program.display()
            )
        );
    }
}
