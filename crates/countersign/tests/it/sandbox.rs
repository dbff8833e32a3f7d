//! Agents in their sandbox, on the real binary: what they and their commands cannot do, and what people are told.
//!
//! All but the last need bubblewrap, which `scripts/bubblewrap` installs.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::host::{DEFAULT_SANDBOX, Host, command};
use crate::managed::{PROGRAM, script};
use crate::managed_terminals::play;
use crate::scene::{Scene, rested, told};
use crate::wire::Wire;

const NOBODY: u32 = 65534;

/// What is blocked fails at once here, instead of becoming an ask.
const WITHOUT_HOLDS: &str = "[sandbox.work]\nhold = \"0s\"\n";

/// Everything may run: the kernel is what stops it here.
const RULES: &str = "allow = [\"Bash\", \"Edit(**)\", \"Read(**)\"]\n";

fn begin(config: &str) -> Scene {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("rules.toml"), RULES).unwrap();
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    Scene::begin_in(home, &[DEFAULT_SANDBOX])
}

/// A folder that is not for temporary files, which a sandbox has its own of.
fn elsewhere() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Says how a command ended.
fn tried(line: &str) -> String {
    format!("if {line}; then echo DONE; else echo STOPPED; fi 2>/dev/null")
}

#[tokio::test]
async fn an_agent_and_its_terminals_change_nothing_outside_their_folder() {
    let scene = begin(WITHOUT_HOLDS);
    let outside = elsewhere();
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "as it was").unwrap();
    let victim_word = victim.display();
    let own = scene.path("own");
    let database = scene.host.home().join("countersign.db");
    let steps = json!([
        { "run": tried(&format!("echo x > {victim_word}")) },
        { "run": tried(&format!("chmod 600 {victim_word}")) },
        { "run": tried(&format!("test -e {}", database.display())) },
        { "run": tried(&format!("echo agent > {own}")) },
        { "run": tried("echo shared > /tmp/shared") },
        { "terminal": { "command": "sh", "args": ["-c", tried(&format!("rm {victim_word}"))] } },
        { "terminal": { "command": "sh", "args": ["-c", tried("test -s /tmp/shared")] } },
    ]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let (_, said) = play(&scene, &mut wire, &steps).await;
    let expected = [
        "STOPPED", "STOPPED", "STOPPED", "DONE", "DONE", "STOPPED", "DONE",
    ];
    assert_eq!(outcomes(&said), expected, "{said}");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "as it was");
    assert_eq!(std::fs::read_to_string(own).unwrap(), "agent\n");
    assert!(!Path::new("/tmp/shared").exists());
    let agents = wire.ok("host.agents", json!({})).await;
    let sandbox = &agents[0]["managed"]["sandbox"];
    assert_eq!(
        *sandbox,
        json!({ "profile": "work", "level": "full" }),
        "{agents}"
    );
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn variables_of_a_command_reach_nothing_that_makes_its_sandbox() {
    let scene = begin(WITHOUT_HOLDS);
    // The loader complains of it in each program that it reaches.
    let env = json!([["LD_PRELOAD", "/nowhere/own.so"], ["WORD", "kept"]]);
    let steps = json!([{ "terminal": { "command": "echo \"a word: $WORD\"", "env": env } }]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let (_, said) = play(&scene, &mut wire, &steps).await;
    assert!(said.contains("a word: kept"), "{said}");
    assert_eq!(said.matches("/nowhere/own.so").count(), 1, "{said}");
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_confined_agent_reaches_the_hosts_tools_and_its_asks_name_its_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let scene = Scene::begin_in(home, &[DEFAULT_SANDBOX]);
    let socket = scene.host.home().join("run/host.sock");
    let look = format!(
        "'{PROGRAM}' mcp --socket {} < /dev/null && echo REACHED",
        socket.display()
    );
    let steps = json!([
        { "run": look },
        { "ask": { "tool": { "call": "c", "kind": "execute", "input": { "command": "make" } } } },
    ]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    let ask = loop {
        let event = wire.event().await;
        if event["kind"] == "approval.requested" {
            break event["payload"].clone();
        }
    };
    let shown = command(scene.host.home())
        .args(["show", ask["id"].as_str().unwrap()])
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("work (full)"), "{shown}");
    let listed = command(scene.host.home())
        .env("COLUMNS", "200")
        .arg("ls")
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("work (full)"), "{listed}");
    let deny = json!({ "approval_id": ask["id"], "resolution": "deny" });
    wire.ok("host.resolve_approval", deny).await;
    let said = told(&mut wire, &id).await;
    assert!(said.contains("REACHED"), "{said}");
    scene.end_all(&mut wire).await;
}

fn git(folder: &Path, words: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(words)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status();
    assert!(done.unwrap().success(), "{words:?}");
}

/// What came of each `tried` line, in its order.
fn outcomes(said: &str) -> Vec<&str> {
    said.split(|letter: char| !letter.is_ascii_uppercase())
        .filter(|word| ["DONE", "STOPPED"].contains(word))
        .collect()
}

/// With git's own folder of the worktree in `own`.
fn in_git_folder(line: &str) -> String {
    format!("own=$(git rev-parse --absolute-git-dir) && test -d \"$own\" && {line}")
}

/// Nobody is asked about anything of it: what git writes beside the files that it may write is a lock, which it could
/// not put in place afterwards.
#[tokio::test]
async fn git_works_in_a_worktree_and_touches_nothing_of_others() {
    let scene = begin("");
    let repo = scene.folder().join("repo");
    std::fs::create_dir(&repo).unwrap();
    std::fs::write(repo.join("a"), "one\n").unwrap();
    for words in [
        &["init", "-q", "-b", "main"] as &[&str],
        &["add", "-A"],
        &["commit", "-qm", "one"],
        &["branch", "packed"],
        &["pack-refs", "--all"],
        &["branch", "other"],
        &["config", "extensions.worktreeConfig", "true"],
    ] {
        git(&repo, words);
    }
    let commit = "git -c user.name=a -c user.email=a@example.org commit --allow-empty -qm two";
    let hook = repo.join(".git/hooks/pre-commit");
    let lines = [
        (commit.to_owned(), "DONE"),
        (commit.replace("-qm two", "--amend -qm three"), "DONE"),
        ("git log -1".to_owned(), "DONE"),
        ("git branch side".to_owned(), "DONE"),
        ("git switch -q -c feature".to_owned(), "DONE"),
        ("git switch -q countersign/ann".to_owned(), "DONE"),
        ("git update-ref refs/heads/other HEAD".to_owned(), "STOPPED"),
        (
            "git update-ref refs/heads/packed HEAD".to_owned(),
            "STOPPED",
        ),
        ("git config core.fsmonitor touch".to_owned(), "STOPPED"),
        (
            "git config --worktree core.fsmonitor touch".to_owned(),
            "STOPPED",
        ),
        // Shared by all worktrees, so these would be the person's too.
        ("echo x >> a && git stash".to_owned(), "STOPPED"),
        ("git tag t".to_owned(), "STOPPED"),
        ("git replace HEAD HEAD~".to_owned(), "STOPPED"),
        ("git pack-refs --all".to_owned(), "STOPPED"),
        (in_git_folder("echo /tmp > \"$own/commondir\""), "STOPPED"),
        (in_git_folder("echo /tmp > \"$own/gitdir\""), "STOPPED"),
        (in_git_folder("rm -f \"$own/config.worktree\""), "STOPPED"),
        (
            in_git_folder("mv \"$own/config.worktree\" \"$own/x\""),
            "STOPPED",
        ),
        (in_git_folder("mv \"$own\" \"$own.2\""), "STOPPED"),
        (in_git_folder("mkdir \"$own/../other\""), "STOPPED"),
        (
            in_git_folder("echo x > \"$own/../../packed-refs\""),
            "STOPPED",
        ),
        (
            in_git_folder("echo x > \"$own/../../info/attributes\""),
            "STOPPED",
        ),
        (
            in_git_folder("mkdir -p \"$own/../../modules/x\""),
            "STOPPED",
        ),
        (format!("touch {}", hook.display()), "STOPPED"),
        ("mv .git elsewhere".to_owned(), "STOPPED"),
        ("echo gitdir: /tmp > .git".to_owned(), "STOPPED"),
    ];
    let steps: Vec<_> = lines
        .iter()
        .map(|(line, _)| json!({ "run": tried(line) }))
        .collect();
    let mut params = scene.spawn_params("ann", &json!(steps));
    params["cwd"] = json!(repo);
    params["worktree"] = json!({});
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = wire.ok("host.spawn_agent", params).await["id"].take();
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    let expected: Vec<_> = lines.iter().map(|(_, outcome)| *outcome).collect();
    assert_eq!(outcomes(&said), expected, "{said}");
    let commits = |branch: &str| {
        let count = Command::new("git")
            .args(["rev-list", "--count", branch])
            .current_dir(&repo)
            .output()
            .unwrap();
        String::from_utf8(count.stdout).unwrap().trim().to_owned()
    };
    let counts = [
        "countersign/ann",
        "side",
        "feature",
        "main",
        "other",
        "packed",
    ];
    assert_eq!(counts.map(commits), ["2", "2", "2", "1", "1", "1"]);
    let locks = Command::new("find")
        .args([".git", "-name", "*.lock"])
        .current_dir(&repo)
        .output();
    assert_eq!(String::from_utf8(locks.unwrap().stdout).unwrap(), "");
    scene.end_all(&mut wire).await;
}

/// Git puts each file in place by renaming a lock beside it, so `.git` itself would have to be writable, and a folder in
/// which files can be made cannot keep a name from being made. The index alone would be enough: it can name a folder of
/// the agent as a repository, whose configuration then says what `git status` runs. So nothing in it changes, and nobody
/// is asked.
#[tokio::test]
async fn git_reads_a_plain_repository_and_changes_nothing_of_it() {
    let scene = begin("");
    let repo = scene.folder().join("repo");
    std::fs::create_dir(&repo).unwrap();
    std::fs::write(repo.join("a"), "one\n").unwrap();
    for words in [
        &["init", "-q", "-b", "main"] as &[&str],
        &["add", "-A"],
        &["commit", "-qm", "one"],
    ] {
        git(&repo, words);
    }
    let commit = "git -c user.name=a -c user.email=a@example.org commit --allow-empty -qm two";
    let lines = [
        ("git log -1", "DONE"),
        ("git status --short", "DONE"),
        ("git diff", "DONE"),
        ("echo two > a", "DONE"),
        (commit, "STOPPED"),
        ("git branch side", "STOPPED"),
        ("git config core.fsmonitor touch", "STOPPED"),
        ("touch .git/hooks/pre-commit", "STOPPED"),
        ("echo /tmp > .git/commondir", "STOPPED"),
        ("mkdir .git/worktrees", "STOPPED"),
        ("mv .git elsewhere", "STOPPED"),
    ];
    let steps: Vec<_> = lines
        .iter()
        .map(|(line, _)| json!({ "run": tried(line) }))
        .collect();
    let mut params = scene.spawn_params("ann", &json!(steps));
    params["cwd"] = json!(repo);
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = wire.ok("host.spawn_agent", params).await["id"].take();
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    let expected: Vec<_> = lines.iter().map(|(_, outcome)| *outcome).collect();
    assert_eq!(outcomes(&said), expected, "{said}");
    let mut found: Vec<_> = std::fs::read_dir(repo.join(".git"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| ["commondir", "worktrees", "index.lock"].contains(&name.as_str()))
        .collect();
    found.sort();
    assert_eq!(found, Vec::<String>::new());
    scene.end_all(&mut wire).await;
}

/// Commands whose text once led the rules to another conclusion than the shell.
#[tokio::test]
async fn commands_that_fooled_the_rules_touch_nothing_outside() {
    let scene = begin(WITHOUT_HOLDS);
    let outside = elsewhere();
    let folder = outside.path().display().to_string();
    for name in ["a", "b"] {
        std::fs::write(outside.path().join(name), "as it was\n").unwrap();
    }
    let lines = [
        format!("rm -f {folder}/*"),
        format!("ln -s {folder} l && rm -f l/a"),
        format!("echo x > a && tar -cf t.tar a && tar -C {folder} -xf t.tar"),
        format!("grep -- . a > {folder}/a"),
        format!("sort -o {folder}/a a"),
        format!("sed -i s/a/b/ {folder}/a"),
        format!("find {folder} -name b -delete"),
        format!("cp -r . {folder}/copy"),
        format!("git -C {folder} init -q"),
        format!("awk 'BEGIN {{ print > \"{folder}/a\" }}'"),
        format!("touch -d 2001-01-01 {folder}/a"),
    ];
    let steps: Vec<_> = lines
        .iter()
        .map(|line| json!({ "terminal": { "command": "sh", "args": ["-c", tried(line)] } }))
        .collect();
    let mut wire = Wire::subscriber(&scene.host).await;
    let (_, said) = play(&scene, &mut wire, &json!(steps)).await;
    let expected: Vec<_> = lines.iter().map(|_| "STOPPED").collect();
    assert_eq!(outcomes(&said), expected, "{said}");
    let mut left: Vec<_> = std::fs::read_dir(outside.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["a", "b"]);
    assert_eq!(
        std::fs::read_to_string(outside.path().join("a")).unwrap(),
        "as it was\n"
    );
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_repository_hides_more_and_an_explanation_says_what_an_agent_may_do() {
    let scene = begin(WITHOUT_HOLDS);
    let folder = scene.folder();
    std::fs::create_dir_all(folder.join(".countersign")).unwrap();
    std::fs::create_dir(folder.join("secrets")).unwrap();
    std::fs::write(folder.join("secrets/key"), "key").unwrap();
    let file = folder.join(".countersign/sandbox.toml");
    std::fs::create_dir_all(folder.join(".git/hooks")).unwrap();
    std::fs::write(folder.join(".git/hooks/sample"), "").unwrap();
    let record = scene.host.home().join("countersign.db");
    // Each would open or show something if it were simply mounted.
    let restricted = format!(
        "hide = [\"secrets\"]\nread_only = [\".git/hooks/sample\", {record:?}, \"/run\"]\n"
    );
    std::fs::write(&file, restricted).unwrap();
    let steps = json!([
        { "run": tried("test -e secrets/key") },
        { "run": tried("echo > .countersign/sandbox.toml") },
        { "run": tried("echo > .git/hooks/pre-commit") },
        { "run": tried(&format!("test -e {}", record.display())) },
    ]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let (_, said) = play(&scene, &mut wire, &steps).await;
    assert_eq!(outcomes(&said), ["STOPPED"; 4], "{said}");
    let explained = command(scene.host.home())
        .args(["sandbox", "explain", "ann"])
        .output()
        .unwrap();
    let text = String::from_utf8(explained.stdout).unwrap();
    let secrets = folder.join("secrets");
    let hidden = text
        .split("does not see:")
        .nth(1)
        .unwrap()
        .split("may change:")
        .next()
        .unwrap();
    assert!(hidden.contains(secrets.to_str().unwrap()), "{text}");
    assert!(
        text.starts_with("profile: work (full)\nnetwork: what rules and people allow\nwrites outside: fail at once\n"),
        "{text}"
    );
    std::fs::write(&file, "write = [\"/\"]\n").unwrap();
    let refused = spawn_in(&scene.host, &folder, None).await;
    let message = refused["managed"]["message"].as_str().unwrap();
    assert!(
        message.contains("sandbox.toml`: unknown field `write`"),
        "{message}"
    );
    scene.end_all(&mut wire).await;
}

/// A host that finds no bubblewrap.
fn host_without_bubblewrap(config: &str, path: &Path) -> Host {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    for program in ["sh", "bash", "sleep"] {
        let found = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(program));
        let found = found.iter().find(|file| file.exists()).unwrap();
        std::os::unix::fs::symlink(found, path.join(program)).unwrap();
    }
    Host::start_in(home, &[DEFAULT_SANDBOX, ("PATH", path.to_str().unwrap())])
}

async fn spawn_in(host: &Host, folder: &Path, sandbox: Option<&str>) -> Value {
    let mut wire = Wire::operator(host).await;
    let params = json!({
        "command": [PROGRAM, "demo", "agent"], "cwd": folder, "sandbox": sandbox,
        "prompt": script(&json!([{ "say": "hello" }])),
    });
    let id = wire.ok("host.spawn_agent", params).await["id"].take();
    let params = json!({ "agent_id": id, "timeout_ms": 30_000 });
    let mut found = wire.ok("host.wait_agents", params).await;
    found["agents"][0].take()
}

#[tokio::test]
async fn without_bubblewrap_nothing_starts_with_less_than_required() {
    let (path, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = "[sandbox.some]\nrequire = \"landlock\"\n[sandbox.strict]\n";
    let host = host_without_bubblewrap(config, path.path());
    let mut wire = Wire::operator(&host).await;
    for (sandbox, profile) in [(json!("strict"), "strict"), (Value::Null, "work")] {
        let params = json!({
            "command": [PROGRAM, "demo", "agent"], "cwd": folder.path(), "sandbox": sandbox,
        });
        let refused = wire.reply("host.spawn_agent", params).await;
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        let expected = format!(
            "the sandbox profile `{profile}` requires level full, and this machine has landlock: bubblewrap is not \
             installed; install the package `bubblewrap`, or do without a sandbox: `--sandbox open` for one agent, \
             `sandbox = \"open\"` below `[agents]` in config.toml for all"
        );
        assert!(message.contains(&expected), "{refused}");
    }
    assert_eq!(wire.ok("host.agents", json!({})).await, json!([]));
    let level = |agent: &Value| agent["managed"]["sandbox"].clone();
    let agent = spawn_in(&host, folder.path(), Some("some")).await;
    assert_eq!(
        level(&agent),
        json!({ "profile": "some", "level": "landlock" }),
        "{agent}"
    );
    let agent = spawn_in(&host, folder.path(), Some("open")).await;
    assert_eq!(
        level(&agent),
        json!({ "profile": "open", "level": "open" }),
        "{agent}"
    );
    let mut doctor = command(host.home());
    doctor
        .env("PATH", path.path())
        .env("COUNTERSIGN_SANDBOX", "");
    let said = doctor.arg("doctor").output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(
        said.contains(
            "sandbox: level landlock: bubblewrap is not installed; agents are not started with the profile `work`, \
             which is the default"
        )
            && said.contains("install the package `bubblewrap`"),
        "{said}"
    );
}

/// What came of each attempt, by level: whether it was stopped.
type Outcomes = BTreeMap<String, BTreeMap<String, bool>>;

fn check(user: Option<u32>) -> Outcomes {
    let folder = elsewhere();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let home = folder.path().join("home");
    let mut check = Command::new(PROGRAM);
    check
        .args(["sandbox", "check", "--json", "--folder"])
        .arg(folder.path());
    check.env("COUNTERSIGN_HOME", &home).current_dir("/");
    if let Some(user) = user {
        check.uid(user).gid(user);
    }
    let output = check.output().unwrap();
    let reports: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let mut outcomes = Outcomes::new();
    for report in reports.as_array().unwrap() {
        let level = report["level"].as_str().unwrap().to_owned();
        let results = report["results"].as_array().unwrap().iter();
        let results = results.map(|result| {
            let name = result["name"].as_str().unwrap().to_owned();
            (name, result["stopped"].as_bool().unwrap())
        });
        let results: BTreeMap<_, _> = results.collect();
        assert!(results.len() >= 60, "{} cases", results.len());
        if level == "full" {
            let escapes: Vec<_> = results.iter().filter(|(_, stopped)| !**stopped).collect();
            assert!(escapes.is_empty(), "{escapes:?} as {user:?}: {report}");
            assert_eq!(report["changed"], json!([]), "as {user:?}");
        }
        outcomes.insert(level, results);
    }
    assert!(output.status.success(), "{output:?}");
    outcomes
}

/// The cell of a case at a level: by whom it is stopped.
fn cell(name: &str, level: &str, root: &Outcomes, ordinary: &Outcomes) -> &'static str {
    match (root[level][name], ordinary[level][name]) {
        (true, true) => "stopped",
        (false, true) => "not as root",
        (true, false) => "as root",
        (false, false) => "–",
    }
}

fn table(root: &Outcomes, ordinary: &Outcomes) -> String {
    let heading = "| attempt | full | landlock | open |\n|---|---|---|---|\n".to_owned();
    let rows = countersign_sandbox::escape::cases().map(|case| {
        let cells =
            ["full", "landlock", "open"].map(|level| cell(case.name, level, root, ordinary));
        format!("| {} | {} |\n", case.what, cells.join(" | "))
    });
    std::iter::once(heading).chain(rows).collect()
}

#[test]
fn nothing_gets_out_of_the_sandbox_and_the_table_says_what_each_level_stops() {
    const BEGIN: &str = "<!-- escape suite: begin -->\n";
    const END: &str = "<!-- escape suite: end -->\n";
    // As an ordinary user that is all that can be tried.
    if !rustix::process::getuid().is_root() {
        check(None);
        return;
    }
    let expected = table(&check(None), &check(Some(NOBODY)));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../SECURITY.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_TABLES").is_some() {
        std::fs::write(&file, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(
        without_open(found),
        without_open(&expected),
        "run this test with UPDATE_TABLES=1 to write the table"
    );
}

/// The table without its last column: what is stopped without a sandbox depends on the machine.
fn without_open(table: &str) -> Vec<&str> {
    let rows = table.lines();
    rows.filter_map(|row| row.strip_suffix(" |")?.rsplit_once(" | "))
        .map(|(kept, _)| kept)
        .collect()
}
