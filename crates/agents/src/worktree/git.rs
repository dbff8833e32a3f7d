//! Running git where agents may have written what git reads.
//!
//! An agent can write the repository's configuration, attributes, hooks and index, and git runs
//! programs that those name. Two means against it: every call gets the overrides of [`OVERRIDES`],
//! and whatever compares or writes files of a worktree uses a git directory of our own
//! ([`super::scratch_git_dir`]), which has none of the repository's configuration at all.
//!
//! Invariants: every call has a time limit, a bound on what it may print, and an environment that
//! is built here; nothing is ever fetched; no prompt is ever shown.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use countersign_core::limits;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::WorktreeError;

/// Settings that win over whatever the repository says. Each names something that would run a
/// program, reach the network, or change the shape of what is printed.
const OVERRIDES: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", "false"),
    ("core.askPass", "false"),
    ("core.editor", "false"),
    ("core.pager", "cat"),
    ("core.alternateRefsCommand", "false"),
    ("core.useReplaceRefs", "false"),
    ("core.quotePath", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("diff.noprefix", "false"),
    ("diff.mnemonicPrefix", "false"),
    // Would go on in the background after the call, in a repository that agents work in.
    ("gc.auto", "0"),
    ("log.showSignature", "false"),
    ("maintenance.auto", "false"),
    ("protocol.allow", "never"),
    // A folder that only looks like a bare repository would bring a configuration along.
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
    ("worktree.guessRemote", "false"),
];

/// Variables of the host that git is given: where programs are, and whose configuration counts.
const PASSED_ON: &[&str] = &["PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR"];

/// Variables that are always the same.
const FIXED: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_EDITOR", "false"),
    ("GIT_LFS_SKIP_SMUDGE", "1"),
    // Agents name files, and `:(glob)*` is a name as well.
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    // Otherwise what is shown and merged need not be what its id says.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    // A call that only reads must not have a command of the agent fail because of a lock.
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// One call of git.
pub(super) struct GitCommand {
    what: &'static str,
    command: Command,
    settings: Vec<(String, String)>,
    input: Vec<u8>,
    output_bytes_max: usize,
}

/// What a call printed.
pub(super) struct GitOutput {
    pub(super) bytes: Vec<u8>,
    /// Whether there was more than may be kept.
    pub(super) cut: bool,
    /// The exit code; `None` where the call was ended because it printed too much.
    pub(super) code: Option<i32>,
    /// The end of what it said on stderr.
    message: String,
}

impl GitCommand {
    /// A call in `folder`; `what` completes the sentence "could not …".
    pub(super) fn new(what: &'static str, folder: &Path) -> Self {
        let mut command = Command::new("git");
        command.env_clear().current_dir(folder).kill_on_drop(true);
        // A group of its own, so that what git starts ends with it.
        command.process_group(0);
        for name in PASSED_ON {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(FIXED.iter().copied());
        Self {
            what,
            command,
            settings: Vec::new(),
            input: Vec::new(),
            output_bytes_max: limits::GIT_OUTPUT_BYTES_MAX,
        }
    }

    pub(super) fn args<S: AsRef<std::ffi::OsStr>>(
        mut self,
        args: impl IntoIterator<Item = S>,
    ) -> Self {
        self.command.args(args);
        self
    }

    pub(super) fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.command.env(name, value.into());
        self
    }

    /// Further settings that win over the repository's.
    pub(super) fn settings(mut self, settings: &[(String, String)]) -> Self {
        self.settings.extend_from_slice(settings);
        self
    }

    pub(super) fn input(mut self, input: Vec<u8>) -> Self {
        self.input = input;
        self
    }

    pub(super) fn output_bytes_max(mut self, bytes: usize) -> Self {
        self.output_bytes_max = bytes;
        self
    }

    /// What it prints, which must be all of it.
    pub(super) async fn read(self) -> Result<Vec<u8>, WorktreeError> {
        let what = self.what;
        let printed = self.run().await?.succeeded(what)?;
        if printed.cut {
            return Err(WorktreeError::Git {
                what,
                message: "git printed more than is read of it".into(),
            });
        }
        Ok(printed.bytes)
    }

    /// What it prints, as one line of text.
    pub(super) async fn line(self) -> Result<String, WorktreeError> {
        let bytes = self.read().await?;
        Ok(String::from_utf8_lossy(&bytes)
            .trim_end_matches('\n')
            .to_owned())
    }

    /// Runs it, whatever its exit code.
    pub(super) async fn run(mut self) -> Result<GitOutput, WorktreeError> {
        self.set_overrides();
        self.command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let what = self.what;
        let mut child = self.command.spawn().map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => WorktreeError::NoGit,
            _ => WorktreeError::io(what, source),
        })?;
        let limit = Duration::from_millis(limits::GIT_CALL_MS);
        let exchange = exchange(&mut child, &self.input, self.output_bytes_max);
        let outcome = tokio::time::timeout(limit, exchange).await;
        match outcome {
            Ok(Ok(printed)) => Ok(printed),
            Ok(Err(source)) => {
                end(&mut child).await;
                Err(WorktreeError::io(what, source))
            }
            Err(_) => {
                end(&mut child).await;
                Err(WorktreeError::TooSlow { what })
            }
        }
    }

    /// Settings travel in the environment, where any name can be written without quoting.
    fn set_overrides(&mut self) {
        let fixed = OVERRIDES
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let all: Vec<_> = fixed.chain(self.settings.drain(..)).collect();
        self.command.env("GIT_CONFIG_COUNT", all.len().to_string());
        for (index, (name, value)) in all.into_iter().enumerate() {
            self.command.env(format!("GIT_CONFIG_KEY_{index}"), name);
            self.command.env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
    }
}

impl GitOutput {
    /// An error with git's own words unless it exited with 0 or was ended for printing too much.
    pub(super) fn succeeded(self, what: &'static str) -> Result<Self, WorktreeError> {
        if self.code == Some(0) || self.cut {
            return Ok(self);
        }
        Err(WorktreeError::Git {
            what,
            message: self.message,
        })
    }
}

/// Writes the input and reads both outputs at once, so that no side waits for the other.
async fn exchange(child: &mut Child, input: &[u8], bytes_max: usize) -> std::io::Result<GitOutput> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        let Some(mut stdin) = stdin else { return };
        // A git that has read enough closes its end, which is no failure.
        stdin.write_all(input).await.ok();
        stdin.shutdown().await.ok();
    };
    let both = async {
        tokio::join!(
            write,
            read_up_to(stdout, bytes_max),
            read_up_to(stderr, limits::GIT_WORDS_BYTES_MAX)
        )
    };
    let ((), out, err) = both.await;
    let ((bytes, cut), (message, _)) = (out?, err?);
    let code = if cut {
        // It would wait for ever to print the rest.
        end(child).await;
        None
    } else {
        child.wait().await?.code()
    };
    let message = String::from_utf8_lossy(&message).trim().to_owned();
    Ok(GitOutput {
        bytes,
        cut,
        code,
        message,
    })
}

async fn read_up_to(
    pipe: Option<impl AsyncRead + Unpin>,
    bytes_max: usize,
) -> std::io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    let Some(pipe) = pipe else {
        return Ok((bytes, false));
    };
    let room = u64::try_from(bytes_max)
        .unwrap_or(u64::MAX)
        // One more than is kept, which shows whether there was more.
        .saturating_add(1);
    pipe.take(room).read_to_end(&mut bytes).await?;
    let cut = bytes.len() > bytes_max;
    bytes.truncate(bytes_max);
    Ok((bytes, cut))
}

/// Ends the call with everything it started.
async fn end(child: &mut Child) {
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
    }
    child.wait().await.ok();
}

/// Where a repository is.
pub(super) struct RepositoryPaths {
    /// The root of the checkout that was asked about.
    pub(super) top: PathBuf,
    /// The folder that all its worktrees share.
    pub(super) common: PathBuf,
    /// The root of its first checkout: what people call the repository.
    pub(super) main: PathBuf,
    /// Whether its ids are SHA-256.
    pub(super) sha256: bool,
    /// Settings that switch off programs the repository's configuration names for hooks.
    pub(super) settings: Vec<(String, String)>,
}

impl RepositoryPaths {
    /// The repository that `folder` is in.
    pub(super) async fn find(folder: &Path) -> Result<Self, WorktreeError> {
        Self::locate(folder)
            .await?
            .ok_or_else(|| WorktreeError::NotARepository {
                folder: folder.to_owned(),
            })
    }

    async fn locate(folder: &Path) -> Result<Option<Self>, WorktreeError> {
        let Ok(folder_real) = std::fs::canonicalize(folder) else {
            return Ok(None);
        };
        let asked = GitCommand::new("look for a repository", &folder_real)
            .args(["rev-parse", "--path-format=absolute"])
            .args([
                "--show-toplevel",
                "--git-common-dir",
                "--show-object-format",
            ]);
        let printed = asked.run().await?;
        let text = String::from_utf8_lossy(&printed.bytes).into_owned();
        let mut lines = text.lines();
        let (Some(top), Some(common), Some(format), Some(0)) =
            (lines.next(), lines.next(), lines.next(), printed.code)
        else {
            return Ok(None);
        };
        let (Ok(top), Ok(common)) = (std::fs::canonicalize(top), std::fs::canonicalize(common))
        else {
            return Ok(None);
        };
        // `core.worktree` in the configuration can point anywhere.
        if !folder_real.starts_with(&top) {
            return Ok(None);
        }
        let mut repository = Self {
            main: first_checkout(&top, &common),
            sha256: format == "sha256",
            settings: Vec::new(),
            top,
            common,
        };
        repository.settings = repository.without_hooks().await?;
        Ok(Some(repository))
    }

    /// A call in the repository itself, for what a git directory of our own cannot do.
    pub(super) fn git(&self, what: &'static str) -> GitCommand {
        GitCommand::new(what, &self.top).settings(&self.settings)
    }

    /// Newer gits also run hooks that the configuration names, whatever `core.hooksPath` says.
    async fn without_hooks(&self) -> Result<Vec<(String, String)>, WorktreeError> {
        let names =
            self.git("read the configuration")
                .args(["config", "--list", "--name-only", "-z"]);
        let names = names.read().await?;
        let mut settings = Vec::new();
        for name in names.split(|&byte| byte == 0) {
            let name = String::from_utf8_lossy(name);
            let Some((hook, _)) = name
                .strip_prefix("hook.")
                .and_then(|rest| rest.rsplit_once('.'))
            else {
                continue;
            };
            settings.push((format!("hook.{hook}.enabled"), "false".to_owned()));
            settings.push((format!("hook.{hook}.command"), "true".to_owned()));
        }
        settings.dedup();
        Ok(settings)
    }

    /// Git's own folder for the worktree at `path`. Not read from the worktree, where an agent can
    /// write another.
    pub(super) fn admin_folder(&self, path: &Path) -> Result<PathBuf, WorktreeError> {
        let link = path.join(".git");
        let entries = std::fs::read_dir(self.common.join("worktrees"))
            .map_err(|_| WorktreeError::unknown(path))?;
        entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|admin| {
                std::fs::read_to_string(admin.join("gitdir"))
                    .is_ok_and(|text| Path::new(text.trim_end_matches('\n')) == link)
            })
            .ok_or_else(|| WorktreeError::unknown(path))
    }
}

/// The checkout that the shared folder lies in, or the one at hand where it lies apart.
fn first_checkout(top: &Path, common: &Path) -> PathBuf {
    match (common.file_name(), common.parent()) {
        (Some(name), Some(parent)) if name == ".git" => parent.to_owned(),
        _ => top.to_owned(),
    }
}
