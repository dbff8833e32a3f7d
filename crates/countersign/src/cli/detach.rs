//! A host in a session of its own, and its log.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use countersign_agents::OWN_TERMINAL_VARIABLE;
use countersign_protocol::{HostStatus, NoParams, method};

use crate::client::{HostClient, HostEndpoint};
use crate::error::CliError;
use crate::paths::HostPaths;

/// A log larger than this is put aside when a host starts.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How much of a failed host's log is shown.
const TAIL_BYTES_MAX: u64 = 8 * 1024;

/// Starts a host in a session of its own and waits until it is ready.
pub(crate) async fn start_detached(
    paths: &HostPaths,
    arguments: &[String],
    home: Option<&Path>,
) -> Result<HostStatus, CliError> {
    let (log, begin) = open_log(&paths.log)
        .map_err(|source| CliError::file("open the log", &paths.log, source))?;
    let failure = run_until_ready(paths, arguments, home, log)
        .map_err(|source| CliError::io("could not start the host", source))?;
    if let Some(ended) = failure {
        let log = log_since(&paths.log, begin).unwrap_or_default();
        let what = format!("the host did not start ({ended})\n{}", log.trim_end());
        return Err(CliError::failed(what).with_hint("find the cause with `countersign doctor`"));
    }
    let mut client = HostClient::connect(&HostEndpoint::local(&paths.socket)).await?;
    Ok(client.call::<method::Status>(&NoParams {}).await?)
}

/// Starts the host and waits for its `ready`; how it ended, if it ended instead.
fn run_until_ready(
    paths: &HostPaths,
    arguments: &[String],
    home: Option<&Path>,
    log: File,
) -> io::Result<Option<ExitStatus>> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["up", "--detached"])
        .args(arguments)
        // The folder of the caller may be removed or unmounted while the host runs.
        .current_dir(&paths.data_dir)
        // A host runs for long, and the processes of its user, agents among them, can read its
        // environment: no place for the token of whoever started it.
        .env_remove("COUNTERSIGN_TOKEN")
        .env_remove("COUNTERSIGN_URL")
        // Started in one of the host's own terminals, it is to outlive that as well.
        .env_remove(OWN_TERMINAL_VARIABLE)
        .envs(home.map(|home| ("COUNTERSIGN_HOME", home)));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()?;
    let mut line = String::new();
    // The pipe also ends if the host dies, so this does not wait for ever.
    if let Some(pipe) = child.stdout.take() {
        io::BufReader::new(pipe).read_line(&mut line)?;
    }
    if line.trim() == "ready" {
        return Ok(None);
    }
    child.wait().map(Some)
}

/// The log for appending, and where it ends now.
fn open_log(path: &Path) -> io::Result<(File, u64)> {
    let size = path.metadata().map_or(0, |found| found.len());
    // Only at a start: a host that runs keeps writing to the file that it opened.
    if size > LOG_BYTES_MAX {
        std::fs::rename(path, path.with_extension("log.old"))?;
    }
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    let begin = file.metadata()?.len();
    Ok((file, begin))
}

fn log_since(path: &Path, begin: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(
        begin.max(end.saturating_sub(TAIL_BYTES_MAX)),
    ))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a person opens, or the socket where there is no TCP.
pub(crate) fn web_address(status: &HostStatus) -> String {
    match &status.listen {
        Some(listen) if listen.contains("://") => listen.clone(),
        Some(listen) => format!("http://{listen}"),
        None => status.socket.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn only_what_a_start_added_to_the_log_is_shown() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("host.log");
        std::fs::write(&path, "old\n").unwrap();
        let (mut log, begin) = open_log(&path).unwrap();
        log.write_all(b"error: new\n").unwrap();
        assert_eq!(log_since(&path, begin).unwrap(), "error: new\n");
    }
}
