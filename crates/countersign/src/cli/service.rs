//! `service`: a host that starts when its user logs in, run by systemd or launchd.
//!
//! Invariant: nothing is written if the service was to be started and cannot be; only a file that this
//! command wrote is replaced or removed.

mod definition;
mod manager;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::json;

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::paths::HostPaths;

use definition::{MARKER, ServiceDefinition};
use manager::ServiceManager;

#[derive(Subcommand)]
pub(crate) enum ServiceCommand {
    /// Start the host now and at every login
    #[command(after_help = INSTALL_HELP)]
    Install(InstallServiceArgs),
    /// Stop the host and do not start it at login; agents keep running
    #[command(after_help = "Examples:\n  countersign service uninstall")]
    Uninstall,
    /// Show whether the service is installed and running
    #[command(
        after_help = "Examples:\n  countersign service status\n\nExits with 7 if it is not running."
    )]
    Status,
}

const INSTALL_HELP: &str = "Examples:
  countersign service install
  countersign service install --no-start

Writes a systemd user unit (on macOS a launchd agent) with your PATH, so that the host finds the same
agents as you do. Other variables are not copied: pass them to an agent with `spawn --env`. Install
again after the program has moved or PATH has changed.";

#[derive(Args)]
pub(crate) struct InstallServiceArgs {
    /// Only write the file; start nothing
    #[arg(long)]
    no_start: bool,
}

pub(super) fn service(common: &CommonArgs, command: ServiceCommand) -> Result<CliExit, CliError> {
    let manager = ServiceManager::of_this_system()?;
    match command {
        ServiceCommand::Install(args) => install(common, &manager, &args),
        ServiceCommand::Uninstall => uninstall(common, &manager),
        ServiceCommand::Status => status(common, &manager),
    }
}

fn install(
    common: &CommonArgs,
    manager: &ServiceManager,
    args: &InstallServiceArgs,
) -> Result<CliExit, CliError> {
    let paths = HostPaths::from_environment()?;
    let file = manager.file();
    check_ours(file)?;
    if !args.no_start {
        manager.check_available()?;
        if !manager.is_active() {
            refuse_second_host(&paths)?;
        }
    }
    let definition = ServiceDefinition::from_environment(&paths)?;
    write(file, &manager.render(&definition))?;
    if !args.no_start {
        manager.start()?;
    }
    if common.json {
        output::print_json(&json!({ "file": file, "started": !args.no_start }))?;
    } else if args.no_start {
        output::print(&format!(
            "wrote {}\nstart it with `{}`\n",
            file.display(),
            manager.start_command()
        ))?;
    } else {
        output::print(&format!(
            "wrote {}\nthe host runs, and starts at every login\n",
            file.display()
        ))?;
    }
    Ok(CliExit::Ok)
}

fn uninstall(common: &CommonArgs, manager: &ServiceManager) -> Result<CliExit, CliError> {
    let file = manager.file();
    if !file.exists() {
        return Err(CliError::Failed {
            what: "the service is not installed".into(),
            hint: None,
        });
    }
    check_ours(file)?;
    // Without a manager nothing of it can run, and the file is all there is to remove.
    if manager.check_available().is_ok() {
        manager.stop()?;
    }
    std::fs::remove_file(file)
        .map_err(|source| CliError::io(format!("could not remove `{}`", file.display()), source))?;
    manager.reload();
    if common.json {
        output::print_json(&json!({ "file": file, "removed": true }))?;
    } else {
        output::print(&format!("removed {}\n", file.display()))?;
    }
    Ok(CliExit::Ok)
}

fn status(common: &CommonArgs, manager: &ServiceManager) -> Result<CliExit, CliError> {
    let file = manager.file();
    let (installed, running) = (file.exists(), manager.is_active());
    if common.json {
        output::print_json(&json!({ "file": file, "installed": installed, "running": running }))?;
    } else {
        let installed = if installed {
            file.display().to_string()
        } else {
            "no".to_owned()
        };
        let running = if running { "yes" } else { "no" };
        output::print(&output::fields(&[
            ("installed", installed),
            ("running", running.to_owned()),
        ]))?;
    }
    Ok(if running {
        CliExit::Ok
    } else {
        CliExit::NoHost
    })
}

/// Refuses to touch a file that somebody else wrote.
fn check_ours(file: &Path) -> Result<(), CliError> {
    match std::fs::read_to_string(file) {
        Ok(text) if text.contains(MARKER) => Ok(()),
        Ok(_) => Err(CliError::Failed {
            what: format!("`{}` was not written by this command", file.display()),
            hint: Some("move the file away first".into()),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(CliError::io(
            format!("could not read `{}`", file.display()),
            source,
        )),
    }
}

/// A host that runs already would keep the one of the service from starting.
fn refuse_second_host(paths: &HostPaths) -> Result<(), CliError> {
    if UnixStream::connect(&paths.socket).is_err() {
        return Ok(());
    }
    Err(CliError::Failed {
        what: "a host is already running, started in another way; nothing was installed".into(),
        hint: Some("stop it with `countersign down` first; its agents keep running".into()),
    })
}

fn write(file: &Path, text: &str) -> Result<(), CliError> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(file, text))
        .map_err(|source| CliError::io(format!("could not write `{}`", file.display()), source))
}
