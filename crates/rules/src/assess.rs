//! Assessing: a request taken apart, before any rule is looked at.

use std::sync::Arc;

use countersign_core::event::PartKind;

use crate::confinement::AgentFolder;
use crate::expand::expand;
use crate::facts::FileFacts;
use crate::folder_tree::{TreeNames, walk_tree};
use crate::host::{self, FetchTarget};
use crate::locate::{AccessedPath, PathAccess, PathLocator};
use crate::network::{self, NetworkHost, NetworkTarget};
use crate::path::{ResolvedPath, below, is_standard_stream, resolve};
use crate::replaced_path::{ReplacedPath, runs_at_once};
use crate::request::{RequestPlace, ToolAction, ToolRequest};
use crate::shell::{
    self, AllowForm, ArgumentHazard, CommandFacts, DenyForm, FileUse, FolderWalk, RedirectKind,
    RedirectStep, ShellStep, StepKind,
};
use crate::spawn;

/// Longer subjects are shown by their beginning.
const SUBJECT_BYTES_MAX: usize = 2_000;

/// What speaks against rules for the agent's folder where nothing more is known.
const NOT_IN_FOLDER: &str = "it is not about files in the folder the agent works in";

/// A request taken apart.
#[derive(Clone, Debug)]
pub struct Assessment {
    pub(crate) tool: String,
    pub(crate) place: RequestPlace,
    pub(crate) parts: Vec<RequestPart>,
}

/// One thing a request would do.
#[derive(Clone, Debug)]
pub(crate) struct RequestPart {
    pub(crate) kind: PartKind,
    pub(crate) subject: String,
    pub(crate) body: PartBody,
    /// The names below its path, if everything there is looked at too.
    pub(crate) below: Option<Arc<TreeNames>>,
    /// Why no rule can allow it, if none can.
    pub(crate) doubt: Option<String>,
    /// The argument because of which not every rule for its program allows it.
    pub(crate) hazard: Option<PartHazard>,
    /// Why it may concern more than files in the folder of its agent, or do more than read them if it
    /// is a command.
    pub(crate) leaves_folder: Option<String>,
    /// The same, or why that folder is no worktree.
    pub(crate) leaves_worktree: Option<String>,
    /// Whether it is a command, or a file that a command's redirection names. What else an agent asks
    /// for may be done by the host, outside its sandbox.
    pub(crate) in_command: bool,
}

/// A hazard, and what people are told of it.
#[derive(Clone, Debug)]
pub(crate) struct PartHazard {
    pub(crate) hazard: ArgumentHazard,
    pub(crate) reason: String,
}

#[derive(Clone, Debug)]
pub(crate) enum PartBody {
    Command {
        allow: Vec<AllowForm>,
        deny: Vec<DenyForm>,
        touched: Vec<PathAccess>,
    },
    /// A file that is read or written: every place it may be.
    Path(Vec<ResolvedPath>),
    Fetch(Option<FetchTarget>),
    Network(Option<NetworkTarget>),
    Mcp {
        server: String,
        tool: String,
    },
    Spawn {
        names: Vec<String>,
        beyond: Option<String>,
    },
    Tool,
    /// Only its doubt matters.
    Nothing,
}

/// Takes a request apart.
pub fn assess(request: &ToolRequest, facts: &dyn FileFacts) -> Assessment {
    let mut assessor = RequestAssessor {
        request,
        facts,
        folder: AgentFolder::new(&request.place, facts),
        parts: Vec::new(),
        start: Vec::from_iter((!request.place.cwd.is_empty()).then(|| request.place.cwd.clone())),
        replaced: Vec::new(),
    };
    assessor.action(&request.action);
    if assessor.parts.is_empty() {
        assessor.doubt(&request.tool, "there is nothing in it");
    }
    Assessment {
        tool: request.tool.clone(),
        place: request.place.clone(),
        parts: assessor.parts,
    }
}

struct RequestAssessor<'r> {
    request: &'r ToolRequest,
    facts: &'r dyn FileFacts,
    folder: AgentFolder<'r>,
    parts: Vec<RequestPart>,
    /// The directories in which it may start; none where that is not known.
    start: Vec<String>,
    /// Where other parts of the same command may leave links.
    replaced: Vec<ReplacedPath>,
}

impl RequestAssessor<'_> {
    fn place(&self) -> &RequestPlace {
        &self.request.place
    }

    fn locator(&self) -> PathLocator<'_> {
        PathLocator {
            place: &self.request.place,
            facts: self.facts,
        }
    }

    fn add(&mut self, kind: PartKind, subject: &str, body: PartBody, doubt: Option<String>) {
        self.parts.push(RequestPart {
            kind,
            subject: subject.to_owned(),
            body,
            below: None,
            doubt,
            hazard: None,
            leaves_folder: Some(NOT_IN_FOLDER.to_owned()),
            leaves_worktree: Some(NOT_IN_FOLDER.to_owned()),
            in_command: false,
        });
    }

    /// Adds a part about files, whose places are known.
    fn add_files(
        &mut self,
        kind: PartKind,
        subject: &str,
        spots: Vec<ResolvedPath>,
        doubt: Option<String>,
    ) {
        let leaves_folder = self.folder.doubt_of_paths(&spots);
        self.add(kind, subject, PartBody::Path(spots), doubt);
        self.set_area(leaves_folder);
    }

    /// Says whether the last part stays in the folder of its agent.
    fn set_area(&mut self, leaves_folder: Option<String>) {
        let leaves_worktree = match &leaves_folder {
            Some(reason) => Some(reason.clone()),
            None => self.folder.doubt_of_worktree(),
        };
        if let Some(part) = self.parts.last_mut() {
            part.leaves_folder = leaves_folder;
            part.leaves_worktree = leaves_worktree;
        }
    }

    fn doubt(&mut self, subject: &str, reason: &str) {
        self.add(
            PartKind::Tool,
            subject,
            PartBody::Nothing,
            Some(reason.to_owned()),
        );
    }

    fn action(&mut self, action: &ToolAction) {
        match action {
            ToolAction::Shell { command } => self.shell(command),
            ToolAction::Read { path } => self.path(PartKind::Read, path),
            ToolAction::Search { path } => self.search(path),
            ToolAction::Edit { path } => self.path(PartKind::Write, path),
            ToolAction::Fetch { url } => self.fetch(url),
            ToolAction::Connect { host, port } => self.connect(host, *port),
            ToolAction::Mcp { server, tool } => self.mcp(server, tool),
            ToolAction::Spawn { names, beyond } => self.spawn(names, beyond.as_ref()),
            ToolAction::In { directory, action } => self.start_in(directory, action),
            ToolAction::Other => self.add(
                PartKind::Tool,
                &self.request.tool.clone(),
                PartBody::Tool,
                None,
            ),
            ToolAction::All(actions) => actions.iter().for_each(|action| self.action(action)),
            ToolAction::Unclear { known, reason } => {
                self.action(known);
                self.doubt(&self.request.tool.clone(), reason);
            }
        }
    }

    /// Rules stay where they are anchored; only what runs begins elsewhere.
    fn start_in(&mut self, directory: &str, action: &ToolAction) {
        let place = self.place();
        let start = resolve(directory, &place.cwd, place, self.facts);
        // A directory that cannot be found out leaves none: then nothing that depends on it is
        // allowed.
        let before = std::mem::replace(
            &mut self.start,
            start.map_or(Vec::new(), |spot| spot.forms().map(str::to_owned).collect()),
        );
        self.action(action);
        self.start = before;
    }

    fn path(&mut self, kind: PartKind, path: &str) {
        let base = self.start.first().cloned().unwrap_or_default();
        match resolve(path, &base, self.place(), self.facts) {
            Ok(spot) => {
                let doubt = doubt_of_other_names(kind, &spot);
                let subject = spot.lexical.clone();
                self.add_files(kind, &subject, vec![spot], doubt);
            }
            Err(doubt) => self.add(
                kind,
                path,
                PartBody::Path(Vec::new()),
                Some(doubt.as_str().to_owned()),
            ),
        }
    }

    /// Searches look at hidden files too, and do not follow links.
    fn search(&mut self, path: &str) {
        self.path(PartKind::Read, path);
        if let Some(part) = self.parts.last_mut()
            && let PartBody::Path(spots) = &part.body
        {
            let root = spots.first().map_or("/", ResolvedPath::real_path);
            let tree = walk_tree(root, FolderWalk::All, &self.request.place, self.facts);
            part.below = Some(Arc::new(tree.names));
        }
    }

    fn fetch(&mut self, url: &str) {
        let (target, doubt) = host::read(url);
        let subject = target
            .as_ref()
            .map_or(url, |target| target.host.as_str())
            .to_owned();
        self.add(
            PartKind::Fetch,
            &subject,
            PartBody::Fetch(target),
            doubt.map(str::to_owned),
        );
    }

    fn connect(&mut self, host: &NetworkHost, port: u16) {
        let (target, subject) = network::target(host, port);
        let doubt = (target.is_none()).then(|| "the name cannot be read".to_owned());
        let subject = format!("{} to {subject}", network::NAME);
        let body = PartBody::Network(target);
        self.add(PartKind::Tool, &shorten(&subject), body, doubt);
    }

    fn mcp(&mut self, server: &str, tool: &str) {
        // `mcp__a__b__c` is split at the first `__`: a server whose own name has one would be taken
        // for another server, so a rule for that other server must not allow it.
        let is_clear = is_mcp_name(server) && is_mcp_name(tool) && !server.contains("__");
        let doubt =
            (!is_clear).then(|| "the names of the server and its tool are unusual".to_owned());
        let body = PartBody::Mcp {
            server: server.to_owned(),
            tool: tool.to_owned(),
        };
        self.add(
            PartKind::Tool,
            &format!("mcp__{server}__{tool}"),
            body,
            doubt,
        );
    }

    fn spawn(&mut self, names: &[String], beyond: Option<&String>) {
        let subject = match names {
            [] => spawn::NAME.to_owned(),
            names => format!("{}({})", spawn::NAME, names.join(", ")),
        };
        let body = PartBody::Spawn {
            names: names.to_vec(),
            beyond: beyond.cloned(),
        };
        self.add(PartKind::Tool, &shorten(&subject), body, None);
    }

    fn shell(&mut self, command: &str) {
        let begin = self.parts.len();
        self.command_line(command);
        for part in self.parts.iter_mut().skip(begin) {
            part.in_command = true;
        }
    }

    fn command_line(&mut self, command: &str) {
        let analysis = shell::analyze(command, &self.start, &|to, from| {
            let path = resolve(to, from, self.place(), self.facts).ok()?;
            Some(path.forms().map(str::to_owned).collect())
        });
        if self.start.is_empty() && analysis.steps.iter().any(ShellStep::changes_directory) {
            self.doubt(command, "it changes a directory that is not known");
        }
        let whole = self.parts.len();
        if let Some(reason) = &analysis.doubt {
            self.add(
                PartKind::Command,
                &shorten(command),
                PartBody::Nothing,
                Some(reason.clone()),
            );
        }
        // All steps first: in a pipe a step can be affected by one that is written after it.
        let replaced: Vec<Vec<ReplacedPath>> = analysis
            .steps
            .iter()
            .map(|step| self.replaced_paths(step))
            .collect();
        // In a pipe or in the background a later step may run before an earlier one.
        let in_order = !runs_at_once(command);
        for (at, step) in analysis.steps.iter().enumerate() {
            self.replaced = replaced
                .iter()
                .enumerate()
                .filter(|(other, _)| *other < at || !in_order && *other > at)
                .flat_map(|(_, paths)| paths.clone())
                .collect();
            self.step(step);
        }
        self.replaced.clear();
        if analysis.doubt.is_some() {
            self.drop_repeated(whole);
        }
    }

    /// Leaves the part for a whole command out if one for the same text says more.
    fn drop_repeated(&mut self, whole: usize) {
        let (before, after) = self.parts.split_at(whole + 1);
        let is_repeated = before.last().is_some_and(|whole| {
            after.iter().any(|part| {
                let runs = matches!(&part.body, PartBody::Command { deny, .. } if !deny.is_empty());
                runs && part.doubt.is_some() && part.subject == whole.subject.trim()
            })
        });
        if is_repeated {
            self.parts.remove(whole);
        }
    }

    /// The paths at or below which there may be other files once a step has run.
    fn replaced_paths(&self, step: &ShellStep) -> Vec<ReplacedPath> {
        let StepKind::Run(facts) = &step.what else {
            return Vec::new();
        };
        let directories = step.directories.as_deref();
        let mut replaced = Vec::new();
        if facts.unpacks {
            // Where the directory is not known, an archive may be unpacked anywhere.
            let root = ["/".to_owned()];
            let folders = directories.unwrap_or(&root).iter().cloned();
            replaced.extend(folders.map(ReplacedPath::Below));
        }
        for touched in facts
            .touched
            .iter()
            .filter(|touched| touched.may_become_link)
        {
            for touch in self.locator().locate(touched, directories).touches {
                match touch.at {
                    AccessedPath::Path(spot)
                    | AccessedPath::Tree(spot, _)
                    | AccessedPath::Copied(spot, _) => {
                        replaced.extend(spot.forms().map(|path| ReplacedPath::At(path.to_owned())));
                    }
                    // A wildcard names what is there now, not what will be.
                    AccessedPath::Glob(_) => replaced.push(ReplacedPath::At("/".to_owned())),
                }
            }
        }
        replaced
    }

    /// Whether another part of the command may have put something else where this one looks.
    fn doubt_of_links(
        &self,
        touched: &[PathAccess],
        directories: Option<&[String]>,
    ) -> Option<String> {
        let directories = directories.unwrap_or_default();
        let replaced = self.replaced.iter().find(|replaced| {
            directories.iter().any(|path| replaced.holds(path))
                || touched.iter().any(|access| replaced.meets(&access.at))
        })?;
        let path = replaced.path();
        Some(format!(
            "another part of the command may put a link or other files at `{path}`"
        ))
    }

    fn step(&mut self, step: &ShellStep) {
        let directories = step.directories.as_deref();
        match &step.what {
            StepKind::Run(facts) => self.run(facts, directories),
            StepKind::Redirect(step) => {
                let kinds: &[PartKind] = match step.kind {
                    RedirectKind::Read => &[PartKind::Read],
                    RedirectKind::Write => &[PartKind::Write],
                    RedirectKind::ReadWrite => &[PartKind::Read, PartKind::Write],
                    RedirectKind::Text | RedirectKind::Free => &[],
                };
                self.redirect(kinds, step, directories);
            }
        }
    }

    fn redirect(
        &mut self,
        kinds: &[PartKind],
        step: &RedirectStep,
        directories: Option<&[String]>,
    ) {
        let target = &step.target;
        if target.literal().is_some_and(is_standard_stream) {
            return;
        }
        // A quoted `~` is a plain name; without the `./` it would be taken for the home.
        let path = if target.tilde || target.dynamic || !target.text.starts_with('~') {
            target.text.clone()
        } else {
            format!("./{}", target.text)
        };
        let (mut spots, mut doubt) = self.resolve_everywhere(&path, directories);
        if target.glob {
            spots.extend(self.expand_everywhere(&path, directories));
        }
        if spots.iter().any(is_connection) {
            doubt = Some("the shell would open a connection".to_owned());
        }
        if target.literal().is_none() {
            doubt = Some(shell::known_only_when_run(&shell::expansions(&step.source)));
        }
        let touched: Vec<PathAccess> = spots.iter().cloned().map(PathAccess::read).collect();
        let doubt = doubt.or_else(|| self.doubt_of_links(&touched, directories));
        for kind in kinds {
            let doubt = doubt.clone().or_else(|| {
                spots
                    .iter()
                    .find_map(|spot| doubt_of_other_names(*kind, spot))
            });
            let subject = shorten(&step.source);
            self.add_files(*kind, &subject, spots.clone(), doubt);
        }
    }

    /// Every place that a path with wildcards may name.
    fn expand_everywhere(&self, path: &str, directories: Option<&[String]>) -> Vec<ResolvedPath> {
        let bases = directories.unwrap_or_default().iter();
        let found = bases.map(|base| expand(path, base, self.place(), self.facts));
        found.flat_map(|found| found.matches).collect()
    }

    /// Every place a path may be, from every directory.
    fn resolve_everywhere(
        &self,
        path: &str,
        directories: Option<&[String]>,
    ) -> (Vec<ResolvedPath>, Option<String>) {
        let nowhere = [String::new()];
        let mut spots = Vec::new();
        let mut doubt = None;
        for base in directories.unwrap_or(&nowhere) {
            match resolve(path, base, self.place(), self.facts) {
                Ok(spot) => spots.push(spot),
                Err(reason) => doubt = Some(reason.as_str().to_owned()),
            }
        }
        (spots, doubt)
    }

    fn run(&mut self, facts: &CommandFacts, directories: Option<&[String]>) {
        let doubt = facts
            .doubt
            .clone()
            .or_else(|| self.doubt_of_directory(facts, directories))
            .or_else(|| self.doubt_of_paths(facts, directories));
        let subject = shorten(&facts.source);
        let mut touched = Vec::new();
        // Kept apart: a doubt about the command itself says more to a person than one about a
        // folder.
        let mut unlisted = None;
        for touch in &facts.touched {
            let located = self.locator().locate(touch, directories);
            unlisted = unlisted.or(located.doubt);
            touched.extend(located.touches);
        }
        let mut doubt = doubt.or(unlisted.map(str::to_owned));
        if doubt.is_none() && !shell::stays_in_index(facts) {
            doubt = self.doubt_of_links(&touched, directories);
        }
        let leaves_folder = self.folder.doubt_of_command(facts, &touched, directories);
        let body = PartBody::Command {
            allow: facts.allow.clone(),
            deny: facts.deny.clone(),
            touched,
        };
        self.add(PartKind::Command, &subject, body, doubt);
        self.set_area(leaves_folder);
        if let Some(part) = self.parts.last_mut() {
            part.hazard = facts.hazard.clone().map(|hazard| PartHazard {
                reason: hazard.describe(&facts.program),
                hazard,
            });
        }
    }

    /// A file that cannot be found cannot be held against a deny.
    fn doubt_of_paths(
        &self,
        facts: &CommandFacts,
        directories: Option<&[String]>,
    ) -> Option<String> {
        // Where the directory is not known, only words that are surely files are looked at. Words
        // of other programs are rarely paths; where they might be, rules still see them.
        let mut named = facts.touched.iter().filter(|argument| {
            let is_file = matches!(argument.touches, FileUse::Reads | FileUse::Writes)
                && facts.program != "git";
            !argument.glob && (directories.is_some() || is_file)
        });
        let nowhere = [String::new()];
        named.find_map(|argument| {
            directories
                .unwrap_or(&nowhere)
                .iter()
                .find_map(|base| resolve(&argument.path, base, self.place(), self.facts).err())
                .filter(|doubt| doubt.matters_to_rules())
                .map(|doubt| doubt.as_str().to_owned())
        })
    }

    /// Another directory is another repository with its own settings, scripts and hooks.
    fn doubt_of_directory(
        &self,
        facts: &CommandFacts,
        directories: Option<&[String]>,
    ) -> Option<String> {
        let place = self.place();
        let Some(directories) = directories else {
            // A request that names no directory at all is judged by its words alone.
            let was_given = !self.start.is_empty() || !place.cwd.is_empty();
            return was_given.then(|| "the directory it would run in is not known".to_owned());
        };
        // `any`, since it may run in each of them: the worst counts.
        let is_elsewhere = directories.iter().any(|directory| *directory != place.cwd);
        let is_outside = directories
            .iter()
            .any(|directory| below(directory, &place.project, false).is_none());
        // A repository's settings name programs that git runs: hooks, pagers, filters.
        if facts.program == "git" && is_elsewhere {
            Some("git would run in another directory, with that directory's settings".to_owned())
        } else if is_outside && is_elsewhere && !shell::only_reads(facts) {
            Some("it would run in a directory outside the project".to_owned())
        } else {
            None
        }
    }
}

/// A subject is for people: its beginning is enough, the ask has the whole.
fn shorten(text: &str) -> String {
    countersign_core::truncate_with_ellipsis(text, SUBJECT_BYTES_MAX)
}

fn doubt_of_other_names(kind: PartKind, spot: &ResolvedPath) -> Option<String> {
    (kind == PartKind::Write && spot.has_other_names)
        .then(|| "the file has another name elsewhere, which would change too".to_owned())
}

fn is_mcp_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// Bash opens these as connections, whatever files there are.
fn is_connection(spot: &ResolvedPath) -> bool {
    ["/dev/tcp", "/dev/udp"]
        .iter()
        .any(|folder| below(&spot.lexical, folder, false).is_some())
}
