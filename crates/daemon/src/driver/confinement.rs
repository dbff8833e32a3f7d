//! Which sandbox an agent gets, and the plan for it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use countersign_agents::catalog::{self, AgentStateFolder};
use countersign_agents::runner::TMP_FOLDER;
use countersign_agents::worktree;
use countersign_core::event::{AgentSandbox, SandboxLevel, SpawnOptions, Worktree};
use countersign_core::limits::RULE_FILE_BYTES_MAX;
use countersign_sandbox::{
    ConfinementPlan, ProfilePlaces, RepositorySandbox, SandboxProfile, SandboxSupport, detect,
    resolve,
};
use url::{Host, Url};

/// What build tools keep for speed, in the home folder, and the files by which those of one user take turns.
const TOOL_CACHES: [&str; 12] = [
    ".cargo/registry",
    ".cargo/git",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".npm",
    ".local/share/pnpm/store",
    ".m2/repository",
    ".gradle/caches",
    ".ivy2/cache",
    ".nuget/packages",
    "go/pkg/mod",
    ".bun/install/cache",
];

/// Where build tools note how they were used, with whatever begins like it. They work without, so nobody is asked.
const TOOL_NOTES: [&str; 2] = [".cargo/.global-cache", ".config/go/telemetry"];

/// What a repository says about the sandbox of agents that work in it.
const REPOSITORY_FILE: &str = ".countersign/sandbox.toml";
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// Rule files, in an agent's folder.
const RULES: [&str; 1] = [".countersign"];

/// Profiles, and where the host's own files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSettings {
    /// What people wrote, by name.
    pub profiles: BTreeMap<String, SandboxProfile>,
    /// What agents get that are not told otherwise.
    pub usual: String,
    /// A program that understands `confine`.
    pub helper: OsString,
    /// Files and folders of the host that agents do not see.
    pub host_files: Vec<PathBuf>,
    /// The folder of the host's socket, which agents see.
    pub socket_folder: PathBuf,
    /// Folders in it that they do not.
    pub runner_sockets: Vec<PathBuf>,
    found: Arc<OnceLock<SandboxSupport>>,
}

impl SandboxSettings {
    pub fn new(helper: OsString, socket_folder: PathBuf) -> Self {
        Self {
            profiles: BTreeMap::new(),
            usual: usual_profile().to_owned(),
            helper,
            host_files: Vec::new(),
            socket_folder,
            runner_sockets: Vec::new(),
            found: Arc::default(),
        }
    }

    /// What the machine can enforce. Looked at again as long as something is missing: it may be installed meanwhile.
    pub fn support(&self) -> SandboxSupport {
        if let Some(found) = self.found.get() {
            return found.clone();
        }
        let found = detect(&self.helper, std::env::var_os("PATH").as_deref());
        if found.level == SandboxLevel::Full {
            // Another thread may have been quicker, with the same.
            drop(self.found.set(found.clone()));
        }
        found
    }

    /// The profile that an agent gets with these options; nothing if it gets no sandbox.
    fn wanted<'a>(&'a self, options: &'a SpawnOptions) -> Option<&'a str> {
        let name = options.sandbox.as_deref().unwrap_or(&self.usual);
        (name != SandboxProfile::OPEN).then_some(name)
    }

    /// Refuses options with which nothing would be started. What a repository adds is read when the agent starts.
    pub fn check(&self, options: &SpawnOptions) -> Result<(), String> {
        match self.wanted(options) {
            Some(name) => self.find_enforced(name, &self.find(name)?).map(drop),
            None => Ok(()),
        }
    }

    /// What the machine enforces of a profile, if that is enough for it.
    fn find_enforced(
        &self,
        name: &str,
        profile: &SandboxProfile,
    ) -> Result<SandboxSupport, String> {
        let support = self.support();
        if profile.require.is_met_by(support.level) {
            Ok(support)
        } else {
            Err(describe_missing(name, profile, &support))
        }
    }

    fn find(&self, name: &str) -> Result<SandboxProfile, String> {
        if let Some(profile) = self.profiles.get(name) {
            return Ok(profile.clone());
        }
        if name == SandboxProfile::USUAL {
            return Ok(SandboxProfile::default());
        }
        Err(format!(
            "there is no sandbox profile `{name}`; add a table `[sandbox.{name}]` to config.toml, or use `{}` or `{}`",
            SandboxProfile::USUAL,
            SandboxProfile::OPEN
        ))
    }
}

/// Also where the machine cannot enforce it: an agent that is not told otherwise is refused there, because nobody
/// said that it may run without. Where there is no sandbox at all, nobody can have one.
fn usual_profile() -> &'static str {
    if cfg!(target_os = "linux") {
        SandboxProfile::USUAL
    } else {
        SandboxProfile::OPEN
    }
}

/// Which agent is to be confined.
pub struct ConfinementRequest {
    pub options: Arc<SpawnOptions>,
    /// The folder it works in, or the whole of its worktree.
    pub folder: PathBuf,
    /// The worktree that was made for it.
    pub worktree: Option<Worktree>,
    pub runner_folder: PathBuf,
    pub command: Vec<String>,
    pub env: Vec<(OsString, OsString)>,
    /// The program of the host, which agents start for its tools.
    pub host_program: Option<PathBuf>,
}

impl ConfinementRequest {
    /// The sandbox and the plan for it, for which folders of the agent are made. Fails with a message for people if less would be enforced than has to be.
    pub(super) fn plan_and_prepare(
        &self,
        settings: Option<&SandboxSettings>,
    ) -> Result<(AgentSandbox, Option<ConfinementPlan>), String> {
        let planned = self.plan(settings)?;
        if planned.1.is_some() {
            let home = self.home();
            create_folders(&self.agent_places(home.as_deref()).0);
            create_folders(&self.cache_folders(home.as_deref()));
        }
        Ok(planned)
    }

    fn open_sandbox(&self) -> (AgentSandbox, Option<ConfinementPlan>) {
        let sandbox = AgentSandbox {
            profile: SandboxProfile::OPEN.to_owned(),
            level: SandboxLevel::Open,
            terminals: self.options.terminals,
        };
        (sandbox, None)
    }

    /// The sandbox and the plan for it.
    pub fn plan(
        &self,
        settings: Option<&SandboxSettings>,
    ) -> Result<(AgentSandbox, Option<ConfinementPlan>), String> {
        let Some(settings) = settings else {
            return Ok(self.open_sandbox());
        };
        let Some(name) = settings.wanted(&self.options) else {
            return Ok(self.open_sandbox());
        };
        let profile = settings.find(name)?;
        let profile = profile.tightened(self.repository_sandbox()?);
        let support = settings.find_enforced(name, &profile)?;
        let sandbox = AgentSandbox {
            profile: name.to_owned(),
            level: support.level,
            terminals: self.options.terminals,
        };
        if support.level == SandboxLevel::Open {
            return Ok((sandbox, None));
        }
        let places = self.places(settings, &support);
        let plan = resolve(name, &profile, support.level, &places);
        let plan = plan.map_err(|error| error.to_string())?;
        self.check_links(&plan)?;
        Ok((sandbox, Some(plan)))
    }

    /// Refuses a path in a folder that the agent may change if it leads out of that folder: a repository may come with
    /// a link there, or an earlier run have left one, and what it leads to would be shown or could be changed.
    fn check_links(&self, plan: &ConfinementPlan) -> Result<(), String> {
        let roots: Vec<_> = plan.write.iter().chain([&self.folder]).collect();
        for path in [&plan.read, &plan.write, &plan.sockets]
            .into_iter()
            .flatten()
        {
            let is_left = |root: &&&PathBuf| {
                let is_inside = path.starts_with(root) && path != **root;
                is_inside && leads_out(root, path)
            };
            if let Some(root) = roots.iter().find(is_left) {
                return Err(format!(
                    "the sandbox profile `{}` opens `{}`, which leads out of `{}` through a link",
                    plan.profile,
                    path.display(),
                    root.display()
                ));
            }
        }
        Ok(())
    }

    /// What the repository adds. A file that cannot be read or understood starts nothing.
    fn repository_sandbox(&self) -> Result<RepositorySandbox, String> {
        let file = self.folder.join(REPOSITORY_FILE);
        // Whatever a link leads to is not this process's to open: it could be the host's record, whose locks would be
        // gone when it is closed again.
        if leads_out(&self.folder, &file) {
            return Err(format!("`{}` leads out of the folder", file.display()));
        }
        let text = match read_bounded(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.map_err(|error| format!("`{}`: {error}", file.display()))?,
        };
        let parsed = RepositorySandbox::parse(&text);
        parsed.map_err(|problem| format!("`{}`: {problem}", file.display()))
    }

    fn places(&self, settings: &SandboxSettings, support: &SandboxSupport) -> ProfilePlaces {
        let home = self.home();
        let git = self.worktree.as_ref().and_then(worktree::git_places);
        let repository = git.as_ref().map(|git| git.repository.clone());
        let git = git.unwrap_or_default();
        let (agent, agent_settings) = self.agent_places(home.as_deref());
        let words = self.command.iter().map(PathBuf::from);
        let shown = words
            .chain(home.clone())
            .chain(repository)
            .chain(self.host_program.clone());
        ProfilePlaces {
            folder: self.folder.clone(),
            git: git.write,
            git_read_only: git.read_only.into_iter().chain(agent_settings).collect(),
            tmp: self.runner_folder.join(TMP_FOLDER),
            caches: self.caches(home.as_deref()),
            model: self.model_servers(),
            agent,
            unasked: self.unasked_files(home.as_deref()),
            countersign: settings.host_files.clone(),
            host: settings.socket_folder.clone(),
            host_hidden: settings.runner_sockets.clone(),
            rules: RULES.map(PathBuf::from).to_vec(),
            shown: shown.filter(|path| path.is_absolute()).collect(),
            bubblewrap: support.bubblewrap.clone().unwrap_or_default(),
            home,
        }
    }

    fn home(&self) -> Option<PathBuf> {
        self.variable("HOME").map(PathBuf::from)
    }

    fn caches(&self, home: Option<&Path>) -> Vec<PathBuf> {
        let of_tools = home
            .into_iter()
            .flat_map(|home| TOOL_CACHES.map(|path| home.join(path)));
        let mut caches = self.cache_folders(home);
        caches.extend(of_tools);
        caches
    }

    /// Where any program may keep what it can make again. Programs make it if it is missing, which they cannot do
    /// in a sandbox.
    fn cache_folders(&self, home: Option<&Path>) -> Vec<PathBuf> {
        let usual = home.map(|home| home.join(".cache"));
        let named = self.variable("XDG_CACHE_HOME").map(PathBuf::from);
        let folders = usual.into_iter().chain(named);
        folders.filter(|path| path.is_absolute()).collect()
    }

    /// What the agent keeps, and what in it may not change.
    fn agent_places(&self, home: Option<&Path>) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let known = self.options.agent.as_deref().and_then(catalog::find);
        let place = |folder: &AgentStateFolder| {
            let named = folder.variable.and_then(|name| self.variable(name));
            let named = named.map(PathBuf::from).filter(|path| path.is_absolute());
            named.or_else(|| Some(home?.join(folder.path)))
        };
        let (mut folders, mut settings) = (Vec::new(), Vec::new());
        for folder in known.iter().flat_map(|known| known.state) {
            if let Some(path) = place(folder) {
                settings.extend(folder.settings.iter().map(|file| path.join(file)));
                folders.push(path);
            }
        }
        (folders, settings)
    }

    fn unasked_files(&self, home: Option<&Path>) -> Vec<PathBuf> {
        let known = self.options.agent.as_deref().and_then(catalog::find);
        let of_agent = known.map(|known| known.unasked).unwrap_or_default();
        let files = of_agent.iter().chain(&TOOL_NOTES);
        let in_home = home
            .into_iter()
            .flat_map(|home| files.clone().map(|file| home.join(file)));
        in_home.collect()
    }

    /// Where the model of a known agent is: what is known of it, and what its variables say.
    fn model_servers(&self) -> Vec<String> {
        let Some(known) = self.options.agent.as_deref().and_then(catalog::find) else {
            return Vec::new();
        };
        let named = known.model_variables.iter();
        let named = named.filter_map(|name| find_server(self.variable(name)?.to_str()?));
        let usual = known.model.iter().map(|&name| name.to_owned());
        usual.chain(named).collect()
    }

    /// The last one counts where a name comes twice.
    fn variable(&self, name: &str) -> Option<&OsStr> {
        let found = self.env.iter().rev().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_os_str())
    }
}

/// What is not there is left out of the sandbox, wherever it would lead.
fn leads_out(root: &Path, path: &Path) -> bool {
    match (root.canonicalize(), path.canonicalize()) {
        (Ok(root), Ok(path)) => !path.starts_with(root),
        _ => false,
    }
}

/// The server of a URL as a profile would list it; nothing if a person has to be asked about it.
fn find_server(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let is_local = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address == Ipv4Addr::LOCALHOST,
        Host::Ipv6(_) => false,
    };
    match url.host()? {
        _ if is_local => Some(format!("localhost:{}", url.port_or_known_default()?)),
        Host::Domain(name) => Some(name.to_owned()),
        Host::Ipv4(_) | Host::Ipv6(_) => None,
    }
}

/// Opened without waiting: it may be a pipe.
fn read_bounded(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(NONBLOCK)
        .open(file)?;
    let room = u64::try_from(RULE_FILE_BYTES_MAX).unwrap_or(u64::MAX);
    opened.take(room + 1).read_to_string(&mut text)?;
    if text.len() > RULE_FILE_BYTES_MAX {
        return Err(io::Error::other("it is too long"));
    }
    Ok(text)
}

/// Without them an agent that never ran could not keep anything. Where it fails the agent finds out itself.
fn create_folders(folders: &[PathBuf]) {
    for folder in folders {
        if let Err(error) = fs::create_dir_all(folder) {
            tracing::warn!(?folder, %error, "could not make a folder for an agent");
        }
    }
}

fn describe_missing(name: &str, profile: &SandboxProfile, support: &SandboxSupport) -> String {
    let (what, advice) = match &support.missing {
        Some(missing) => (missing.what.as_str(), missing.advice.as_str()),
        None => ("no reason was found", "see `countersign doctor`"),
    };
    format!(
        "the sandbox profile `{name}` requires level {}, and this machine has {}: {what}; {advice}, or do without a \
         sandbox: `--sandbox open` for one agent, `sandbox = \"open\"` below `[agents]` in config.toml for all",
        profile.require.as_str(),
        support.level.as_str(),
    )
}

#[cfg(test)]
mod tests;
