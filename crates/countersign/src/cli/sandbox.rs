//! `sandbox`: what this machine enforces.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Subcommand;
use countersign_core::event::{SandboxLevel, SpawnOptions, Worktree};
use countersign_daemon::ConfinementRequest;
use countersign_protocol::ManagedRow;
use countersign_sandbox::escape::{self, EscapeReport};
use countersign_sandbox::{ConfinementPlan, NetworkAccess, SandboxSupport};

use super::CommonArgs;
use super::agent_lookup::load_agent;
use crate::config::HostConfig;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::host;
use crate::output;
use crate::paths::{self, HostPaths};
use crate::render::escape as escape_text;

#[derive(Subcommand)]
pub(crate) enum SandboxCommand {
    /// Try to leave a sandbox of each level in many ways, on this machine
    #[command(
        after_help = "Examples:\n  countersign sandbox check\n  countersign sandbox check --level full --json\n\n\
        Every attempt is aimed at files, a process and sockets that the check makes for itself.\n\
        Exits with 1 if anything gets out of level full, or if that level is not available."
    )]
    Check(SandboxCheckArgs),
    /// Say what an agent sees and may change, if it were started now
    #[command(after_help = "Examples:\n  countersign sandbox explain builder")]
    Explain(SandboxExplainArgs),
}

#[derive(clap::Args)]
pub(crate) struct SandboxExplainArgs {
    /// The agent, by name or id
    #[arg(value_name = "AGENT")]
    agent: String,
}

#[derive(clap::Args)]
pub(crate) struct SandboxCheckArgs {
    /// Only this level [default: every one that this machine has]
    #[arg(long, value_name = "LEVEL", value_parser = ["full", "landlock", "open"])]
    level: Option<String>,
    /// Create the test files in a new folder in DIR, which must not be a temporary folder [default: the data folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(super) async fn sandbox(
    common: &CommonArgs,
    command: SandboxCommand,
) -> Result<CliExit, CliError> {
    match command {
        SandboxCommand::Check(args) => check(common, args),
        SandboxCommand::Explain(args) => explain(common, args).await,
    }
}

async fn explain(common: &CommonArgs, args: SandboxExplainArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let agent = load_agent(&mut client, &args.agent).await?;
    let managed = agent.managed.ok_or_else(|| {
        CliError::failed("the host did not start this agent, so it has no sandbox")
    })?;
    let paths = HostPaths::from_environment()?;
    let settings = host::sandbox_settings(&paths, &HostConfig::load(&paths.config)?);
    let request = explained_request(managed, &paths);
    let (sandbox, plan) = request.plan(Some(&settings)).map_err(CliError::failed)?;
    let Some(plan) = plan else {
        let profile = BTreeMap::from([("profile", sandbox.profile)]);
        common.print(&profile, || {
            "no sandbox: it may do what you may\n".to_owned()
        })?;
        return Ok(CliExit::Ok);
    };
    common.print(&plan, || plan_text(&plan))?;
    Ok(CliExit::Ok)
}

/// What the host would ask for, as far as the agent's row says it.
fn explained_request(managed: ManagedRow, paths: &HostPaths) -> ConfinementRequest {
    let worktree = managed.worktree.map(|row| Worktree {
        path: row.path,
        branch: row.branch,
        base: row.base,
        repository: row.repository,
    });
    let options = SpawnOptions {
        agent: managed.agent,
        sandbox: managed.sandbox.map(|sandbox| sandbox.profile),
        ..SpawnOptions::default()
    };
    ConfinementRequest {
        options: Arc::new(options),
        folder: worktree
            .as_ref()
            .map_or(&managed.cwd, |made| &made.path)
            .into(),
        worktree,
        runner_folder: paths.runners.join("RUN"),
        command: managed.command,
        env: std::env::vars_os().collect(),
        host_program: std::env::current_exe().ok(),
    }
}

fn plan_text(plan: &ConfinementPlan) -> String {
    let level = format!(
        "{} ({})",
        escape_text::line(&plan.profile),
        plan.level.as_str()
    );
    let network = match plan.network {
        NetworkAccess::None => "none",
        NetworkAccess::Proxy => "what rules and people allow",
        NetworkAccess::Open => "open",
    };
    let outside = match plan.hold_ms / 1000 {
        0 => "fail at once".to_owned(),
        seconds => format!("wait {seconds} seconds for an answer"),
    };

    [
        format!("profile: {level}\nnetwork: {network}\nwrites outside: {outside}\n"),
        path_list("sees", &plan.read),
        path_list("does not see", &plan.hide),
        path_list("may change", &plan.write),
        path_list("may not change inside these", &plan.read_only),
        path_list("folders of sockets", &plan.sockets),
    ]
    .concat()
}

fn path_list(heading: &str, paths: &[PathBuf]) -> String {
    let rows = paths.iter().map(|path| {
        let there = if path.exists() {
            ""
        } else {
            "  (does not exist)"
        };
        format!("  {}{there}\n", escape_text::line(&path.to_string_lossy()))
    });
    format!("{heading}:\n{}", rows.collect::<String>())
}

fn check(common: &CommonArgs, args: SandboxCheckArgs) -> Result<CliExit, CliError> {
    let paths = HostPaths::from_environment()?;
    let settings = host::sandbox_settings(&paths, &HostConfig::default());
    let support = settings.support();
    let parent = args.folder.unwrap_or_else(|| paths.data_dir.clone());
    let levels = [
        SandboxLevel::Full,
        SandboxLevel::Landlock,
        SandboxLevel::Open,
    ];
    let mut reports = Vec::new();
    for level in levels {
        let is_chosen = match &args.level {
            Some(name) => level.as_str() == name,
            None => level <= support.level,
        };
        if is_chosen {
            reports.push(run_level(&settings.helper, &support, level, &parent)?);
        }
    }
    common.print(&reports, || {
        reports
            .iter()
            .map(|report| text(report, &support))
            .collect()
    })?;
    let full = reports
        .iter()
        .find(|report| report.level == SandboxLevel::Full);
    let is_tight =
        full.is_some_and(|report| report.escapes().count() == 0 && report.changed.is_empty());
    let is_asked = args.level.is_none_or(|level| level == "full");
    Ok(CliExit::failure_if(is_asked && !is_tight))
}

/// In a folder of its own, which is removed afterwards.
fn run_level(
    helper: &std::ffi::OsStr,
    support: &SandboxSupport,
    level: SandboxLevel,
    parent: &std::path::Path,
) -> Result<EscapeReport, CliError> {
    let name = format!("sandbox-check-{}-{}", std::process::id(), level.as_str());
    let folder = parent.join(name);
    paths::make_private_folder(&folder)?;
    let bubblewrap = support.bubblewrap.clone().unwrap_or_default();
    let report = escape::run_suite(helper, &bubblewrap, level, &folder);
    if let Err(source) = std::fs::remove_dir_all(&folder) {
        output::print_message(format_args!(
            "could not remove `{}`: {source}",
            folder.display()
        ));
    }
    report.map_err(|error| {
        let reason = countersign_core::error_chain(&error);
        CliError::failed(format!(
            "level {} could not be checked: {reason}",
            level.as_str()
        ))
    })
}

fn text(report: &EscapeReport, support: &SandboxSupport) -> String {
    let escapes: Vec<_> = report.escapes().collect();
    let is_full = report.level == SandboxLevel::Full;
    let heading = format!(
        "level {}: {} of {} attempts stopped",
        report.level.as_str(),
        report.results.len() - escapes.len(),
        report.results.len()
    );
    let not_stopped = escapes.iter().map(|escaped| {
        let case = escape::cases().find(|case| case.name == escaped.name);
        format!("  not stopped: {}", case.map_or("", |case| case.what))
    });
    let changed = report.changed.iter().filter(|_| is_full);
    let changed = changed.map(|path| format!("  changed: {}", path.display()));
    let missing = support
        .missing
        .iter()
        .filter(|_| report.level == support.level);
    let missing = missing.map(|missing| {
        format!(
            "  level full is not available: {}; {}",
            missing.what, missing.advice
        )
    });
    let lines = std::iter::once(heading)
        .chain(not_stopped)
        .chain(changed)
        .chain(missing);
    lines.map(|line| line + "\n").collect()
}
