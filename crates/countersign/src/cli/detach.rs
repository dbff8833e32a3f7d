//! A host in a session of its own, and its log.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use countersign_protocol::{HostStatus, NoParams, method};

use crate::client::{HostAddress, HostClient, HostEndpoint};
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
    let failed = |source| CliError::io("could not start the host", source);
    let (log, begin) = open_log(&paths.log)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command
        .args(["up", "--detached"])
        .args(arguments)
        .current_dir(&paths.data_dir);
    command
        .env_remove("COUNTERSIGN_TOKEN")
        .env_remove("COUNTERSIGN_URL");
    if let Some(home) = home {
        command.env("COUNTERSIGN_HOME", home);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(pipe) = child.stdout.take() {
        io::BufReader::new(pipe)
            .read_line(&mut line)
            .map_err(failed)?;
    }
    if line.trim() != "ready" {
        let ended = child.wait().map_err(failed)?;
        let what = format!(
            "the host did not start ({ended})\n{}",
            log_since(&paths.log, begin).trim_end()
        );
        return Err(CliError::Failed {
            what,
            hint: Some("see what is in the way with `countersign doctor`".into()),
        });
    }
    let endpoint = HostEndpoint {
        address: HostAddress::Socket(paths.socket.clone()),
        token: None,
        agent_id: None,
    };
    Ok(HostClient::connect(&endpoint)
        .await?
        .call::<method::Status>(&NoParams {})
        .await?)
}

/// The log for appending, and where it ends now.
fn open_log(path: &Path) -> Result<(File, u64), CliError> {
    let failed = |source| {
        CliError::io(
            format!("could not open the log `{}`", path.display()),
            source,
        )
    };
    if path
        .metadata()
        .is_ok_and(|found| found.len() > LOG_BYTES_MAX)
    {
        std::fs::rename(path, path.with_extension("log.old")).map_err(failed)?;
    }
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    let begin = file.metadata().map_err(failed)?.len();
    Ok((file, begin))
}

fn log_since(path: &Path, begin: u64) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(
            begin.max(end.saturating_sub(TAIL_BYTES_MAX)),
        ))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
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
        assert_eq!(log_since(&path, begin), "error: new\n");
    }
}
