//! A scratch tree with files that must not be touched, and a real bash whose every access to them
//! is noticed.
//!
//! Reads are noticed by the kernel (inotify), changes by comparing the guarded files before and
//! after. The fuzz target for wildcards uses this file too.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "it is for tests: it makes real files and runs a real shell"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use countersign_rules::{
    Effect, EntryKind, FileFacts, Floor, FolderEntry, LayerAllows, LayerView, RequestPlace,
    RuleEntry, RuleOrigin, RuleSet, ToolAction, ToolRequest, Verdict, assess, judge,
};
use rustix::fs::inotify;

/// Programs that the rules of the scratch tree allow.
const ALLOWED: [&str; 62] = [
    "cat",
    "head",
    "tail",
    "wc",
    "grep",
    "egrep",
    "fgrep",
    "ls",
    "find",
    "sort",
    "uniq",
    "cut",
    "tr",
    "diff",
    "cmp",
    "comm",
    "join",
    "paste",
    "nl",
    "tac",
    "rev",
    "od",
    "strings",
    "base64",
    "md5sum",
    "sha256sum",
    "cksum",
    "stat",
    "du",
    "file",
    "readlink",
    "realpath",
    "sed",
    "awk",
    "echo",
    "printf",
    "pwd",
    "true",
    "tee",
    "cp",
    "mv",
    "ln",
    "touch",
    "mkdir",
    "rm",
    "rmdir",
    "chmod",
    "install",
    "truncate",
    "dd",
    "tar",
    "gzip",
    "split",
    "fold",
    "fmt",
    "expand",
    "test",
    "xxd",
    "basename",
    "dirname",
    "cd",
    "pushd",
];

/// Files that no command may read or list, relative to the home.
const DENIED: [&str; 6] = [
    ".ssh",
    ".aws",
    "proj/.env",
    "proj/secrets",
    ".local/share/countersign",
    ".config/countersign",
];

/// The rules that deny them; the last two of `DENIED` are the host's own.
const DENIES: [&str; 4] = [
    "Read(~/.ssh/**)",
    "Read(~/.aws/**)",
    "Read(./.env)",
    "Read(./secrets/**)",
];

/// Names that at least ask before they change, as the scratch tree has them.
const GUARDED: [&str; 12] = [
    ".git",
    ".claude",
    ".vscode",
    ".mcp.json",
    ".envrc",
    ".bashrc",
    ".profile",
    ".zshrc",
    ".gitconfig",
    ".npmrc",
    ".bash_profile",
    ".zshenv",
];

const FILES: [&str; 39] = [
    ".ssh/id_rsa",
    ".ssh/config",
    ".ssh/known_hosts",
    ".aws/credentials",
    ".bashrc",
    ".profile",
    ".zshrc",
    ".gitconfig",
    ".claude/settings.json",
    ".config/countersign/rules.toml",
    ".local/share/countersign/countersign.db",
    ".local/share/countersign/run/host.sock",
    "notes.txt",
    "other/file.txt",
    "other/.git/config",
    "proj/.env",
    "proj/.envrc",
    "proj/.mcp.json",
    "proj/.npmrc",
    "proj/.git/config",
    "proj/.git/HEAD",
    "proj/.git/hooks/pre-commit",
    "proj/.claude/settings.json",
    "proj/.vscode/settings.json",
    "proj/secrets/key.pem",
    "proj/secrets/deep/token",
    "proj/src/main.rs",
    "proj/src/lib.rs",
    "proj/src/util/mod.rs",
    "proj/src/[x].rs",
    "proj/docs/a.md",
    "proj/docs/b.md",
    "proj/out/log",
    "proj/a",
    "proj/b",
    "proj/data.json",
    "proj/two words",
    "proj/pack/.bashrc",
    "proj/pack/.git/config",
];

/// Links of the tree: where, and to what; `~` is the home.
const LINKS: [(&str, &str); 15] = [
    ("proj/k1", "~/.ssh"),
    ("proj/key", "~/.ssh/id_rsa"),
    ("proj/up", ".."),
    ("proj/hm", "~"),
    ("proj/gl", ".git"),
    ("proj/cl", ".claude/settings.json"),
    ("proj/env.txt", ".env"),
    ("proj/ho", "~/.local/share/countersign"),
    ("proj/rc", "~/.bashrc"),
    ("proj/loop", "loop"),
    ("proj/gone", "nowhere"),
    ("proj/fake.rs", "secrets/key.pem"),
    ("proj/linked/back", "../secrets"),
    ("proj/linked/ssh", "~/.ssh"),
    // Not the process itself: below it lies the root, and whatever follows links would leave the tree.
    ("proj/selfproc", "/proc/self/cwd"),
];

/// A home with a project in it, made anew for each command that may change it.
pub(crate) struct ScratchTree {
    _holder: tempfile::TempDir,
    home: PathBuf,
    rules: RuleSet,
    floor: Floor,
}

impl ScratchTree {
    /// Makes the tree, in memory where there is such a folder.
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let holder = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
        let holder = holder.unwrap();
        let home = fs::canonicalize(holder.path()).unwrap().join("home");
        let hosts = [".local/share/countersign", ".config/countersign"];
        let host_paths = hosts.map(|path| home.join(path).display().to_string());
        let tree = Self {
            _holder: holder,
            rules: rules(),
            floor: Floor {
                host_paths: host_paths.into(),
            },
            home,
        };
        tree.reset();
        tree
    }

    /// Makes all files as they are meant to be.
    pub(crate) fn reset(&self) {
        fs::remove_dir_all(&self.home).ok();
        for file in FILES {
            let path = self.home.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("text of {file}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        }
        for (link, target) in LINKS {
            let path = self.home.join(link);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(self.spelled(target), path).unwrap();
        }
    }

    /// Text in which `~~` stands for the home, written out.
    pub(crate) fn spelled(&self, text: &str) -> String {
        let home = self.home.display().to_string();
        match text.strip_prefix('~') {
            Some(rest) if !text.starts_with("~~") => format!("{home}{rest}"),
            _ => text.replace("~~", &home),
        }
    }

    fn project(&self) -> PathBuf {
        self.home.join("proj")
    }

    /// What the rules of the tree say of a command.
    pub(crate) fn judge(&self, command: &str) -> Verdict {
        let project = self.project().display().to_string();
        let request = ToolRequest {
            tool: "Bash".into(),
            action: ToolAction::Shell {
                command: command.into(),
            },
            place: RequestPlace {
                cwd: project.clone(),
                project,
                home: self.home.display().to_string(),
                ignores_case: false,
                in_sandbox: false,
            },
        };
        let layer = LayerView {
            rules: &self.rules,
            admits: &|_| true,
            allows: &LayerAllows::Count,
        };
        judge(&assess(&request, &RealFiles), &self.floor, &[layer])
    }

    /// Runs a command in a real bash; gives what it touched that it must not touch. The tree is
    /// afterwards as it was.
    pub(crate) fn run(&self, command: &str) -> Vec<String> {
        let before = self.snapshot();
        let watch = Watch::new(&self.home);
        self.bash(command);
        let mut touched = watch.finish();
        let changed = differences(&before, &self.snapshot());
        if !changed.is_empty() {
            self.reset();
        }
        let guarded = changed.iter().filter(|path| self.is_guarded(path));
        touched.extend(guarded.map(|path| format!("changed {}", path.display())));
        touched
    }

    fn bash(&self, command: &str) {
        let mut shell = Command::new("bash");
        shell.args(["--norc", "--noprofile", "-c", command]);
        shell.current_dir(self.project()).env_clear();
        shell.env("HOME", &self.home).env("PATH", "/usr/bin:/bin");
        shell
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A group of its own, so that whatever it started ends with it.
        let mut child = shell.process_group(0).spawn().unwrap();
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if began.elapsed() > Duration::from_secs(5) {
                let group = rustix::process::Pid::from_child(&child);
                rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// Every file and folder, with what shows that it changed.
    fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.home.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let Ok(meta) = fs::symlink_metadata(&path) else {
                    continue;
                };
                found.insert(path.clone(), stamp(&path, &meta));
                if meta.is_dir() {
                    folders.push(path);
                }
            }
        }
        found
    }

    /// Whether a file at least asks before it changes. What is in `pack` is there to be copied.
    fn is_guarded(&self, path: &Path) -> bool {
        let below = path.strip_prefix(&self.home).unwrap_or(path);
        let named = |name: &std::ffi::OsStr| GUARDED.iter().any(|own| name == *own);
        let denied = DENIED.iter().any(|own| below.starts_with(own));
        let packed = below.starts_with("proj/pack");
        !packed && (denied || below.iter().any(named))
    }
}

fn stamp(path: &Path, meta: &fs::Metadata) -> String {
    let target = fs::read_link(path).unwrap_or_default();
    // A folder's times change with its entries, which are looked at themselves.
    let times = if meta.is_dir() {
        (0, 0, 0)
    } else {
        (meta.mtime(), meta.mtime_nsec(), meta.size())
    };
    format!(
        "{} {:o} {times:?} {}",
        meta.ino(),
        meta.mode(),
        target.display()
    )
}

fn differences(
    before: &BTreeMap<PathBuf, String>,
    after: &BTreeMap<PathBuf, String>,
) -> BTreeSet<PathBuf> {
    let paths = before.keys().chain(after.keys());
    let changed = paths.filter(|path| before.get(*path) != after.get(*path));
    changed.cloned().collect()
}

/// Watches the files that must not be read.
struct Watch {
    queue: rustix::fd::OwnedFd,
    paths: BTreeMap<i32, String>,
}

impl Watch {
    fn new(home: &Path) -> Self {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let mut watch = Self {
            queue: inotify::init(flags).unwrap(),
            paths: BTreeMap::new(),
        };
        for path in DENIED {
            watch.add(&home.join(path));
        }
        watch
    }

    fn add(&mut self, path: &Path) {
        let events = inotify::WatchFlags::OPEN | inotify::WatchFlags::ACCESS;
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap().flatten() {
                self.add(&entry.path());
            }
        }
        let id = inotify::add_watch(&self.queue, path, events).unwrap();
        self.paths.insert(id, path.display().to_string());
    }

    fn finish(self) -> Vec<String> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.queue, &mut buffer);
        let mut told = Vec::new();
        while let Ok(event) = reader.next() {
            let path = self.paths.get(&event.wd()).cloned().unwrap_or_default();
            told.push(format!("read {path}"));
        }
        told.sort();
        told.dedup();
        told
    }
}

fn rules() -> RuleSet {
    let mut set = RuleSet::default();
    let programs = ALLOWED.map(|program| format!("Bash({program}:*)"));
    let files = ["Read(./**)", "Edit(./**)"].map(str::to_owned);
    let allows = programs
        .into_iter()
        .chain(files)
        .map(|rule| (Effect::Allow, rule));
    let denies = DENIES.map(|rule| (Effect::Deny, rule.to_owned()));
    for (effect, rule) in allows.chain(denies) {
        set.insert(RuleEntry::parse(effect, &rule, RuleOrigin::file("rules.toml", 1)).unwrap());
    }
    set
}

/// The file system as it is.
struct RealFiles;

impl FileFacts for RealFiles {
    fn read_link(&self, path: &str) -> Option<String> {
        Some(fs::read_link(path).ok()?.to_str()?.to_owned())
    }

    fn has_other_names(&self, path: &str) -> bool {
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.nlink() > 1)
    }

    fn list_folder(&self, path: &str) -> Option<Vec<FolderEntry>> {
        let Ok(entries) = fs::read_dir(path) else {
            return (!Path::new(path).is_dir()).then(Vec::new);
        };
        let entry = |entry: fs::DirEntry| {
            let kind = entry.file_type().ok()?;
            Some(FolderEntry {
                name: entry.file_name().to_str()?.to_owned(),
                kind: match kind {
                    kind if kind.is_symlink() => EntryKind::Link,
                    kind if kind.is_dir() => EntryKind::Folder,
                    _ => EntryKind::File,
                },
            })
        };
        entries.map(|found| found.ok().and_then(entry)).collect()
    }
}
