//! From a profile to a plan, for one agent. Pure: what is on the disk is looked at when the plan is enforced.

use std::path::{Path, PathBuf};

use countersign_core::event::SandboxLevel;
use countersign_core::limits::SANDBOX_LOCAL_PORTS_MAX;

use crate::plan::{ConfinementPlan, PROXY_PORT};
use crate::profile::SandboxProfile;

/// Where everything is that a profile can name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfilePlaces {
    /// The home folder that the agent has.
    pub home: Option<PathBuf>,
    /// The folder that the agent works in: `@worktree`.
    pub folder: PathBuf,
    /// What may change in the repository of a worktree: `@git`.
    pub git: Vec<PathBuf>,
    /// Files in `git` that may not.
    pub git_read_only: Vec<PathBuf>,
    /// A folder of this run's own: `@tmp`.
    pub tmp: PathBuf,
    /// What programs keep for speed: `@caches`.
    pub caches: Vec<PathBuf>,
    /// Names of the servers that the agent's model is reached at, or `localhost:` with a port: `@model`.
    pub model: Vec<String>,
    /// What the agent itself keeps: `@agent`.
    pub agent: Vec<PathBuf>,
    /// Files of the agent about which nobody is asked.
    pub unasked: Vec<PathBuf>,
    /// Files of the host: `@countersign`.
    pub countersign: Vec<PathBuf>,
    /// The folder of the host's socket: `@host`.
    pub host: PathBuf,
    /// Folders of sockets inside it that are not for agents.
    pub host_hidden: Vec<PathBuf>,
    /// Rule files, relative to the agent's folder: `@rules`.
    pub rules: Vec<PathBuf>,
    /// What has to be there although it may lie in a folder for temporary files: the agent's home and program,
    /// and the host's.
    pub shown: Vec<PathBuf>,
    pub bubblewrap: PathBuf,
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error(
        "`{word}` in the sandbox profile `{profile}` is not known; paths begin with `/` or `~/` or are relative, \
         and the words are {}", WORDS.join(", ")
    )]
    UnknownWord { profile: String, word: String },
    #[error("`{path}` in the sandbox profile `{profile}` needs a home folder, and HOME is not set")]
    NoHome { profile: String, path: String },
    #[error(
        "`{path}` in the sandbox profile `{profile}` goes up with `..`; write the path without"
    )]
    GoesUp { profile: String, path: String },
    #[error(
        "`{domain}` in the sandbox profile `{profile}` is not a name; write a name, `*.` before a name, \
         `localhost:` and a port, or `@model`"
    )]
    NotADomain { profile: String, domain: String },
    #[error(
        "the sandbox profile `{profile}` lists more than {} ports of localhost",
        SANDBOX_LOCAL_PORTS_MAX
    )]
    TooManyPorts { profile: String },
    #[error(
        "the agent's folder `{}` is hidden by the sandbox profile `{profile}`; choose another folder or profile",
        folder.display()
    )]
    FolderHidden { profile: String, folder: PathBuf },
}

const WORDS: [&str; 8] = [
    "@worktree",
    "@git",
    "@tmp",
    "@caches",
    "@agent",
    "@countersign",
    "@host",
    "@rules",
];

/// Turns a profile into a plan that is enforced at `level`.
pub fn resolve(
    name: &str,
    profile: &SandboxProfile,
    level: SandboxLevel,
    places: &ProfilePlaces,
) -> Result<ConfinementPlan, ResolveError> {
    let resolver = PathResolver { name, places };
    let reaches_host = profile.sockets.iter().any(|word| word == "@host");
    let mut hide = resolver.paths(&profile.hide)?;
    if reaches_host {
        hide.extend(places.host_hidden.iter().cloned());
    } else {
        hide.push(places.host.clone());
    }
    let write = resolver.paths(&profile.write)?;
    let mut read_only = resolver.paths(&profile.read_only)?;
    read_only.extend(places.git_read_only.iter().cloned());
    let mut read = resolver.paths(&profile.read)?;
    if read.iter().any(|path| path == Path::new("/")) {
        read.extend(places.shown.iter().cloned());
    }
    let listed = resolver.domains(&profile.domains)?;
    let plan = ConfinementPlan {
        profile: name.to_owned(),
        level,
        bubblewrap: places.bubblewrap.clone(),
        read,
        sockets: resolver.paths(&profile.sockets)?,
        tmp: profile
            .write
            .iter()
            .any(|word| word == "@tmp")
            .then(|| places.tmp.clone()),
        network: profile.network,
        domains: listed.names,
        local_ports: listed.local_ports,
        unasked: places.unasked.clone(),
        hold_ms: profile.hold.as_millis(),
        processes: profile.limits.processes,
        hide,
        write,
        read_only,
    };
    if is_hidden(&plan, &places.folder) {
        return Err(ResolveError::FolderHidden {
            profile: name.to_owned(),
            folder: places.folder.clone(),
        });
    }
    Ok(plan)
}

/// Whether a folder is hidden, and not shown again by a longer path.
fn is_hidden(plan: &ConfinementPlan, folder: &Path) -> bool {
    let longest = |roots: &[PathBuf]| {
        let holds = roots.iter().filter(|root| folder.starts_with(root));
        holds.map(|root| root.components().count()).max()
    };
    let shown = longest(&plan.write).max(longest(&plan.read));
    longest(&plan.hide).is_some_and(|hidden| Some(hidden) >= shown)
}

struct PathResolver<'a> {
    name: &'a str,
    places: &'a ProfilePlaces,
}

impl PathResolver<'_> {
    fn paths(&self, list: &[String]) -> Result<Vec<PathBuf>, ResolveError> {
        let mut paths = Vec::new();
        for text in list {
            paths.extend(self.path(text)?);
        }
        Ok(paths)
    }

    fn domains(&self, list: &[String]) -> Result<ListedServers, ResolveError> {
        let mut listed = ListedServers::default();
        for text in list {
            if text == "@model" {
                // What cannot be listed is asked about, like any other server.
                for server in &self.places.model {
                    listed.add(server);
                }
            } else if !listed.add(text) {
                return Err(ResolveError::NotADomain {
                    profile: self.name.to_owned(),
                    domain: text.clone(),
                });
            }
        }
        if listed.local_ports.len() > SANDBOX_LOCAL_PORTS_MAX {
            return Err(ResolveError::TooManyPorts {
                profile: self.name.to_owned(),
            });
        }
        Ok(listed)
    }

    fn path(&self, text: &str) -> Result<Vec<PathBuf>, ResolveError> {
        let places = self.places;
        let paths = match text {
            "@worktree" => vec![places.folder.clone()],
            "@git" => places.git.clone(),
            // A folder of its own takes its place, which the plan names apart.
            "@tmp" => Vec::new(),
            "@caches" => places.caches.clone(),
            "@agent" => places.agent.clone(),
            "@countersign" => places.countersign.clone(),
            "@host" => vec![places.host.clone()],
            "@rules" => {
                let rules = places.rules.iter();
                rules.map(|file| places.folder.join(file)).collect()
            }
            other => vec![self.plain_path(other)?],
        };
        Ok(paths)
    }

    fn plain_path(&self, text: &str) -> Result<PathBuf, ResolveError> {
        let profile = self.name.to_owned();
        if text.starts_with('@') {
            let word = text.to_owned();
            return Err(ResolveError::UnknownWord { profile, word });
        }
        let path = text.to_owned();
        if Path::new(text)
            .components()
            .any(|part| part.as_os_str() == "..")
        {
            return Err(ResolveError::GoesUp { profile, path });
        }
        match (text.strip_prefix("~/"), &self.places.home) {
            (Some(rest), Some(home)) => Ok(home.join(rest)),
            (Some(_), None) => Err(ResolveError::NoHome { profile, path }),
            (None, _) => Ok(self.places.folder.join(text)),
        }
    }
}

/// Servers that need no ask.
#[derive(Default)]
struct ListedServers {
    names: Vec<String>,
    local_ports: Vec<u16>,
}

impl ListedServers {
    /// False if it is neither a name nor a port of this machine.
    fn add(&mut self, text: &str) -> bool {
        if let Some(port) = text.strip_prefix("localhost:") {
            let port = port.parse::<u16>().ok().filter(|port| is_forwarded(*port));
            self.local_ports.extend(port);
            self.local_ports.sort_unstable();
            self.local_ports.dedup();
            return port.is_some();
        }
        let name = text.strip_prefix("*.").unwrap_or(text);
        let is_name = name.split('.').all(is_label);
        // Numbers are addresses, which only a rule allows.
        let is_number = name.ends_with(|letter: char| letter.is_ascii_digit());
        if is_name && !is_number {
            self.names.push(text.to_ascii_lowercase());
        }
        is_name && !is_number
    }
}

/// Where the proxy is nothing else can be.
fn is_forwarded(port: u16) -> bool {
    port != 0 && port != PROXY_PORT
}

fn is_label(label: &str) -> bool {
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    !label.is_empty() && label.chars().all(is_known)
}

#[cfg(test)]
mod tests;
