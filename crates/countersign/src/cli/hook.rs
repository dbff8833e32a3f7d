//! `hook`: install and uninstall. What the hook itself does is in `crate::hook`, read before any of this.
//!
//! Invariant: a settings file is replaced whole or not at all, and only after its change was shown.

mod settings;
mod spans;

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use countersign_core::limits::{HOOK_MARGIN_MS, RULE_FILE_BYTES_MAX};
use serde_json::json;

use super::{CommonArgs, args};
use crate::config::HostConfig;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::hook::{self, HookArgs};
use crate::output;
use crate::paths::{self, HostPaths};
use crate::random_id::random_id;
use crate::render::diff;

use settings::HookSpec;

/// What Claude Code's own limit is longer than ours by, besides what the hook keeps back of it.
const LONGER_SECONDS: u64 = 10;

#[derive(Subcommand)]
pub(crate) enum HookCommand {
    /// Answer a Claude Code hook; Claude Code runs this with the event on stdin
    #[command(
        after_help = "Examples:\n  countersign hook claude --timeout 600 < event.json\n\nAlways prints a decision. `[hook]` in config.toml sets how long it waits for a person\n\
        (limit_seconds), its answer after that (on_timeout = \"deny\" or \"ask\") and its answer\n\
        without a host (without_host, the same values)."
    )]
    Claude {
        /// Seconds after which Claude Code stops waiting for its hook
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u64>,
    },
    /// Connect the Claude Code sessions that you start yourself
    #[command(after_help = INSTALL_HELP)]
    Install(HookSettingsArgs),
    /// Remove what `install` added to the settings, and nothing else
    #[command(after_help = "Examples:\n  countersign hook uninstall claude")]
    Uninstall(HookSettingsArgs),
}

const INSTALL_HELP: &str = "Examples:
  countersign hook install claude             # all your sessions
  countersign hook install claude --local     # this folder, only for you
  countersign hook install claude --project   # this folder, for everyone who works in it

With --project everyone who works in the folder needs countersign: where it is not
installed, tool calls are blocked.";

#[derive(Args)]
pub(crate) struct HookSettingsArgs {
    /// The tool to connect
    tool: HookTool,
    #[command(flatten)]
    place: SettingsPlace,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// Which settings.
#[derive(Args)]
struct SettingsPlace {
    /// Use the settings of the current folder that everyone shares
    #[arg(long, conflicts_with_all = ["user", "local"])]
    project: bool,
    /// Use the settings of the current folder that only you use
    #[arg(long, conflicts_with = "user")]
    local: bool,
    /// Use your own settings [default]
    #[arg(long)]
    user: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum HookTool {
    Claude,
}

pub(super) fn hook(common: &CommonArgs, command: HookCommand) -> Result<CliExit, CliError> {
    match command {
        HookCommand::Claude { timeout } => Ok(answer(&HookArgs { timeout })),
        HookCommand::Install(args) => change_settings(common, &args, "installed", &add_hooks),
        HookCommand::Uninstall(args) => {
            change_settings(common, &args, "uninstalled", &remove_hooks)
        }
    }
}

fn answer(args: &HookArgs) -> CliExit {
    // It ends the process itself.
    if hook::run(args) == ExitCode::SUCCESS {
        CliExit::Ok
    } else {
        CliExit::Usage
    }
}

/// A file's new text from its old one; `None` is no file.
type SettingsChange = dyn Fn(&HookSettingsArgs, Option<&str>) -> Result<Option<String>, CliError>;

fn add_hooks(args: &HookSettingsArgs, text: Option<&str>) -> Result<Option<String>, CliError> {
    let config = HostConfig::load(&HostPaths::from_environment()?.config)?;
    let seconds = config.hook.limit_seconds.as_secs();
    let ours = HookSpec {
        program: program(args)?,
        timeout: seconds + HOOK_MARGIN_MS / 1000 + LONGER_SECONDS,
    };
    settings::install(text, &ours).map(Some).map_err(refused)
}

fn remove_hooks(_: &HookSettingsArgs, text: Option<&str>) -> Result<Option<String>, CliError> {
    let without = text.map(settings::uninstall).transpose();
    without.map(Option::flatten).map_err(refused)
}

fn refused(what: String) -> CliError {
    CliError::failed(what)
}

/// The program as a shell reads it: in a file for everybody by its name, where that is this program.
fn program(args: &HookSettingsArgs) -> Result<String, CliError> {
    let own = std::env::current_exe()
        .map_err(|source| CliError::io("could not find the path of this program", source))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut named = std::env::split_paths(&path).map(|folder| folder.join("countersign"));
    let found = named.find(|path| path.is_file());
    let found = found.and_then(|path| fs::canonicalize(path).ok());
    // Others have the program elsewhere, and a path of this machine would block their tools.
    if args.place.project && found == fs::canonicalize(&own).ok() {
        return Ok("countersign".to_owned());
    }
    let own = own
        .into_os_string()
        .into_string()
        .map_err(|own| CliError::usage(format!("`{}` is not UTF-8 text", own.display())))?;
    let needs_quotes = own.contains(|c: char| !c.is_ascii_alphanumeric() && !"/._-+".contains(c));
    if needs_quotes {
        return Ok(format!("'{}'", own.replace('\'', "'\\''")));
    }
    Ok(own)
}

fn change_settings(
    common: &CommonArgs,
    args: &HookSettingsArgs,
    done: &str,
    change: &SettingsChange,
) -> Result<CliExit, CliError> {
    let HookTool::Claude = args.tool;
    let file = settings_file(args)?;
    let shown = file.display().to_string();
    let old = read(&file)?;
    let new = change(args, old.as_deref()).map_err(|error| with_file_name(&shown, error))?;
    if old == new {
        return report(common, &shown, false, &format!("already {done} in {shown}"));
    }
    let diff = diff::between(
        &shown,
        old.as_deref().unwrap_or(""),
        new.as_deref().unwrap_or(""),
    );
    if !common.json {
        output::print(&diff)?;
    }
    if !args.yes && !ask_to_write()? {
        output::print_message("nothing was written");
        return Ok(CliExit::Failure);
    }
    // The person may have thought for long.
    if read(&file)? != old {
        let what = format!("`{shown}` was changed in the meantime");
        return Err(CliError::failed(what).with_hint("try again"));
    }
    match new {
        Some(text) => replace(&file, &text)?,
        None => fs::remove_file(&file).map_err(|source| CliError::file("remove", &file, source))?,
    }
    report(common, &shown, true, &format!("{done}: `{shown}`"))
}

fn report(
    common: &CommonArgs,
    file: &str,
    changed: bool,
    message: &str,
) -> Result<CliExit, CliError> {
    if common.json {
        output::print_json(&json!({ "file": file, "changed": changed }))?;
    } else {
        output::print_message(message);
    }
    Ok(CliExit::Ok)
}

fn ask_to_write() -> Result<bool, CliError> {
    args::confirm("Write this?")
}

fn with_file_name(file: &str, error: CliError) -> CliError {
    match error {
        CliError::Failed { what, .. } => CliError::failed(format!("`{file}` {what}"))
            .with_hint("nothing was written; fix the file first"),
        other => other,
    }
}

fn settings_file(args: &HookSettingsArgs) -> Result<PathBuf, CliError> {
    let SettingsPlace {
        project,
        local,
        user: _,
    } = args.place;
    if project || local {
        let here = std::env::current_dir()
            .map_err(|source| CliError::io("could not find the current folder", source))?;
        let name = if local {
            "settings.local.json"
        } else {
            "settings.json"
        };
        return Ok(here.join(".claude").join(name));
    }
    let folder = paths::environment_path("CLAUDE_CONFIG_DIR")
        .or_else(|| Some(paths::environment_path("HOME")?.join(".claude")))
        .ok_or_else(|| CliError::usage("`HOME` is not set"))?;
    Ok(folder.join("settings.json"))
}

/// The file's text, or nothing if there is none. What could not be written back is refused now.
fn read(file: &Path) -> Result<Option<String>, CliError> {
    let folder = file.parent().unwrap_or(file);
    // The folder as well: through a link there, the new file would be written somewhere else.
    for path in [folder, file] {
        let found = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(CliError::file("look at", path, source)),
            Ok(found) => found,
        };
        // The rename at the end would put a file in the place of the link, and the one it points to, in
        // somebody's dotfiles, would no longer count.
        if found.is_symlink() {
            let what = format!("`{}` is a link", path.display());
            let hint = "the file it points to would be replaced; nothing was written";
            return Err(CliError::failed(what).with_hint(hint));
        }
        if path == file && (!found.is_file() || found.permissions().readonly()) {
            let what = format!("`{}` is not a writable file", path.display());
            return Err(CliError::failed(what));
        }
        if path == file && found.len() > RULE_FILE_BYTES_MAX as u64 {
            let what = format!("`{}` is too large for a settings file", path.display());
            return Err(CliError::failed(what));
        }
    }
    let text = fs::read_to_string(file);
    text.map(Some)
        .map_err(|source| CliError::file("read", file, source))
}

/// Puts the text in the file's place at once, with the file's own mode.
fn replace(file: &Path, text: &str) -> Result<(), CliError> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).map_err(|source| CliError::file("make", folder, source))?;
    let mode = fs::metadata(file).map_or(0o644, |found| found.permissions().mode() & 0o7777);
    // In the same folder: a rename replaces a file at once only within one file system.
    let beside = folder.join(format!(".settings-{}.tmp", random_id()?));
    let written = write(&beside, text, mode).and_then(|()| fs::rename(&beside, file));
    written.map_err(|source| {
        // It is not there, or it is of no use.
        drop(fs::remove_file(&beside));
        CliError::file("write", file, source)
    })
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    // Closed to others until it is complete.
    file.set_permissions(Permissions::from_mode(mode))?;
    // On the disk before the rename: after a power failure the name must not lead to an empty file.
    file.sync_all()
}
