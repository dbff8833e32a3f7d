//! Trees: nothing of an agent survives.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use countersign_agents::{ContainmentMethod, ProcessTree, TreeRecord, probe_containment};
use countersign_core::event::ProcessKey;
use tempfile::TempDir;

use crate::support::{cgroup_tree, daemonise, env, guarded, is_alive, key_of, trees};

const HOST_KIND: &str = "COUNTERSIGN_TEST_HOST";

/// A process of a tree. It waits for its input, which nobody closes, and is reaped when it is dropped.
struct TreeMember {
    key: ProcessKey,
    child: Child,
}

impl TreeMember {
    fn start(tree: &ProcessTree, program: &str, args: &[&str]) -> std::io::Result<Self> {
        let child = tree.spawn(&|| {
            let mut command = Command::new(program);
            command
                .args(args)
                .current_dir("/")
                .env_clear()
                .envs(env())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            Ok(command)
        })?;
        let key = key_of(child.id());
        Ok(Self { key, child })
    }

    fn shell(tree: &ProcessTree, script: &str) -> Self {
        Self::start(tree, "sh", &["-c", script]).expect("it should start")
    }

    fn read_lines<const COUNT: usize>(&mut self) -> [String; COUNT] {
        let mut output = BufReader::new(self.child.stdout.take().expect("its output")).lines();
        std::array::from_fn(|_| output.next().expect("a line").expect("text"))
    }

    /// The process whose number is its first line.
    fn read_process(&mut self) -> ProcessKey {
        let [pid] = self.read_lines();
        key_of(pid.parse().expect("a number"))
    }
}

impl Drop for TreeMember {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// An agent that left a daemon, and that waits.
fn start_with_daemon(tree: &ProcessTree, prefix: &str) -> (TreeMember, ProcessKey) {
    let dir = TempDir::new().expect("a folder");
    let script = format!(
        "cd {}; {}; cat",
        dir.path().display(),
        daemonise("f", prefix)
    );
    let mut agent = TreeMember::shell(tree, &script);
    let daemon = agent.read_process();
    (agent, daemon)
}

#[tokio::test]
async fn a_process_leads_its_session_and_is_known_by_its_start() {
    let tree = ProcessTree::create_with_marks().expect("a tree");
    let mut agent = TreeMember::shell(&tree, "echo $$; cut -d' ' -f5,6 /proc/$$/stat; cat");
    let pid = agent.key.pid;
    assert_eq!(
        agent.read_lines(),
        [pid.to_string(), format!("{pid} {pid}")]
    );
    tree.kill_all().await.expect("nothing left");
    assert!(!is_alive(agent.key));
}

#[tokio::test]
async fn a_daemon_ends_with_its_agent() {
    for tree in trees("daemon") {
        let (agent, daemon) = start_with_daemon(&tree, "");
        assert!(tree.holds(daemon.pid) && tree.record().holds(agent.key.pid));
        assert!(!tree.holds(std::process::id()));
        tree.kill_all().await.expect("nothing left");
        assert_eq!((is_alive(daemon), is_alive(agent.key)), (false, false));
        if let ContainmentMethod::Cgroup { path } = tree.containment() {
            assert!(!path.exists());
        }
        tree.kill_all().await.expect("nothing is left again");
    }
}

#[tokio::test]
async fn a_cgroup_holds_a_daemon_that_cleared_its_environment() {
    let Some(tree) = cgroup_tree("cleared") else {
        return;
    };
    let prefix = "env -i PATH=/usr/bin:/bin";
    let (_agent, daemon) = start_with_daemon(&tree, prefix);
    assert!(tree.holds(daemon.pid));
    tree.kill_all().await.expect("nothing left");
    assert!(!is_alive(daemon));
}

#[tokio::test]
async fn marks_reach_a_child_that_cleared_its_environment_and_did_not_detach() {
    let tree = ProcessTree::create_with_marks().expect("a tree");
    let script = "env -i /bin/sh -c 'echo $$; exec /bin/sleep 1000' & cat";
    let mut agent = TreeMember::shell(&tree, script);
    let child = agent.read_process();
    tree.kill_all().await.expect("nothing left");
    assert!(!is_alive(child));
}

#[tokio::test]
async fn what_replaces_itself_again_and_again_is_caught() {
    for tree in trees("chain") {
        let dir = TempDir::new().expect("a folder");
        let script = dir.path().join("chain");
        std::fs::write(&script, "setsid sh \"$0\" </dev/null >/dev/null 2>&1 &\n").expect("file");
        let script = script.to_str().expect("text");
        let mut first = TreeMember::start(&tree, "sh", &[script]).expect("it should start");
        first.child.wait().expect("its end");
        tree.kill_all().await.expect("nothing left");
        for _ in 0..5 {
            let left = guarded(tree.record().sweep(None)).await.expect("a look");
            assert_eq!(left, 0);
        }
    }
}

#[tokio::test]
async fn a_tree_in_which_nothing_started_leaves_nothing() {
    let Some(tree) = cgroup_tree("unused") else {
        return;
    };
    let ContainmentMethod::Cgroup { path } = tree.containment() else {
        panic!("it should have a cgroup")
    };
    assert!(path.exists());
    let absent = TreeMember::start(&tree, "no-such-agent", &[]);
    assert!(absent.is_err());
    drop(tree);
    assert!(!path.exists());
}

/// Not a test: a host that the test below starts and kills.
#[tokio::test]
#[ignore = "a part of `the_next_host_ends_what_a_killed_host_left`"]
async fn host_that_is_killed() {
    let Ok(kind) = std::env::var(HOST_KIND) else {
        return;
    };
    let tree = match kind.as_str() {
        "cgroup" => cgroup_tree("killed"),
        _ => ProcessTree::create_with_marks().ok(),
    };
    let mut out = std::io::stdout();
    let Some(tree) = tree else {
        return;
    };
    let (agent, daemon) = start_with_daemon(&tree, "");
    let record = serde_json::to_string(&tree.record()).expect("JSON");
    let key = agent.key;
    let facts = format!("{} {} {}", key.pid, key.start_time, daemon.pid);
    writeln!(out, "\nhost {facts} {record}").expect("a line");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn the_next_host_ends_what_a_killed_host_left() {
    for kind in ["marks", "cgroup"] {
        let mut host = Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--exact",
                "tree::host_that_is_killed",
                "--ignored",
                "--nocapture",
            ])
            .env(HOST_KIND, kind)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a host");
        let lines = BufReader::new(host.stdout.take().expect("its output")).lines();
        let said = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("host ").map(str::to_owned));
        host.kill().expect("a signal");
        let status = host.wait().expect("its end");
        let Some(said) = said else {
            println!("skipped under {kind}: the host could make none");
            continue;
        };
        assert_eq!(status.signal(), Some(9));
        let words: Vec<_> = said.splitn(4, ' ').collect();
        let root = ProcessKey {
            pid: words[0].parse().expect("a number"),
            start_time: words[1].parse().expect("a number"),
        };
        let daemon = key_of(words[2].parse().expect("a number"));
        let record: TreeRecord = serde_json::from_str(words[3]).expect("a record");
        assert!(is_alive(daemon) && record.holds(daemon.pid));
        let ended = guarded(record.sweep(Some(root)))
            .await
            .expect("nothing left");
        assert_eq!((is_alive(daemon), is_alive(root)), (false, false));
        assert!(ended >= 1);
        assert_eq!(record.sweep(Some(root)).await.expect("a look"), 0);
    }
}

#[tokio::test]
async fn a_process_that_has_the_number_of_a_root_is_left_alone() {
    let mut stranger = Command::new("sleep").arg("1000").spawn().expect("sleep");
    let key = key_of(stranger.id());
    let reused = ProcessKey {
        start_time: key.start_time - 1,
        ..key
    };
    let record = ProcessTree::create_with_marks().expect("a tree").record();
    assert_eq!(record.sweep(Some(reused)).await.expect("a look"), 0);
    assert!(is_alive(key));
    stranger.kill().expect("a signal");
    stranger.wait().expect("its end");
}

#[test]
fn the_means_are_told_in_words() {
    let words = probe_containment().to_string();
    println!("{words}");
    let told = ["cgroup at /", "marks in the environment: "];
    assert!(told.iter().any(|start| words.starts_with(start)));
}

#[test]
fn a_record_is_kept_as_json() {
    let record = TreeRecord {
        containment: ContainmentMethod::Cgroup {
            path: "/sys/fs/cgroup/countersign-a/agent-b".into(),
        },
        mark: "00ff".into(),
    };
    let json = r#"{"containment":{"cgroup":{"path":"/sys/fs/cgroup/countersign-a/agent-b"}},"mark":"00ff"}"#;
    assert_eq!(serde_json::to_string(&record).expect("JSON"), json);
    assert_eq!(
        serde_json::from_str::<TreeRecord>(json).expect("a record"),
        record
    );
}
