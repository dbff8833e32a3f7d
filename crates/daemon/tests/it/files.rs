//! Rule files and the gate together: what changes on the disk settles what is open.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::{Effect, GrantScope};
use countersign_core::{Approval, AskRequest};
use countersign_daemon::{
    CheckRequest, GrantDraft, HostSettings, Rulebook, RulebookConfig, Service, SupervisorExit,
};
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

use crate::fixture::{ann, draft, outcome, request};

const LIMIT: Option<Duration> = Some(Duration::from_secs(30));

/// A host with rule files of its own.
struct Place {
    folder: TempDir,
    rulebook: Arc<Rulebook>,
    service: Service,
    _stopped: SupervisorExit,
}

impl Place {
    async fn new(rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("rules.toml"), rules).unwrap();
        let rulebook = Rulebook::open(RulebookConfig {
            user_file: path("rules.toml"),
            home: path("home"),
            host_paths: vec![path("host")],
            managed_claude: path("managed.json"),
        })
        .unwrap();
        let settings = HostSettings {
            rulebook: rulebook.clone(),
            ..HostSettings::new("test")
        };
        let record = path("host").join("countersign.db");
        let (service, stopped) = countersign_daemon::open(&record, settings).await.unwrap();
        Self {
            folder,
            rulebook,
            service,
            _stopped: stopped,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self.rulebook.refresh();
    }

    async fn asks(&self, cwd: &Path, command: &str) -> Approval {
        let asked = AskRequest {
            cwd: Some(cwd.to_str().unwrap().to_owned()),
            ..request("bot", command)
        };
        self.service.request_approval(asked).await.unwrap()
    }

    async fn ends(&self, approval: &Approval) -> String {
        let id = approval.ask.id.clone();
        let ended = self.service.wait_approval(&ann(), id, LIMIT).await;
        outcome(&ended.unwrap())
    }
}

#[tokio::test]
async fn an_edited_file_settles_what_is_open_and_what_comes() {
    let place = Place::new("allow = [\"Bash(git status:*)\"]\n").await;
    let cwd = place.path("work");
    let status = place.asks(&cwd, "git status").await;
    assert_eq!(outcome(&status), "Allowed by rules");
    let log = place.asks(&cwd, "git log").await;
    let push = place.asks(&cwd, "git push").await;
    assert_eq!(
        (outcome(&log), outcome(&push)),
        ("open".into(), "open".into())
    );
    place.write(
        "rules.toml",
        "allow = [\"Bash(git log:*)\"]\ndeny = [\"Bash(git push:*)\"]\n",
    );
    assert_eq!(place.ends(&log).await, "Allowed by rules");
    assert_eq!(place.ends(&push).await, "Denied by rules");
    assert_eq!(outcome(&place.asks(&cwd, "git status").await), "open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_ask_falls_between_its_own_judgement_and_an_edited_file() {
    let tasks = TaskTracker::new();
    for _ in 0..5 {
        let place = Arc::new(Place::new("").await);
        let asks: Vec<_> = (0..32)
            .map(|_| {
                let place = place.clone();
                tasks.spawn(async move { place.asks(&place.path("work"), "git log").await })
            })
            .collect();
        place.write("rules.toml", "allow = [\"Bash(git log:*)\"]\n");
        for ask in asks {
            let asked = ask.await.unwrap();
            assert_eq!(place.ends(&asked).await, "Allowed by rules");
        }
    }
}

#[tokio::test]
async fn a_broken_file_suspends_grants_too_until_it_is_mended() {
    let place = Place::new("").await;
    let cwd = place.path("work");
    let grant = draft(Effect::Allow, "Bash(git status:*)");
    place.service.add_grant(ann(), grant).await.unwrap();
    place.write("rules.toml", "deny = [\"Bash(\"]\n");
    let asked = place.asks(&cwd, "git status").await;
    assert_eq!(outcome(&asked), "open");
    let rules = place.service.rules(&ann(), None).await.unwrap();
    assert!(rules.suspended.is_some());
    assert!(rules.problems.iter().any(|problem| problem.suspends));
    place.write("rules.toml", "");
    assert_eq!(place.ends(&asked).await, "Allowed by rules");
}

#[tokio::test]
async fn a_projects_file_loosens_only_once_it_is_trusted() {
    let place = Place::new("").await;
    let cwd = place.path("work");
    fs::create_dir_all(cwd.join(".git")).unwrap();
    fs::write(cwd.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    place.write(
        "work/.countersign/rules.toml",
        "allow = [\"Bash(make:*)\"]\n",
    );
    let asked = place.asks(&cwd, "make test").await;
    assert_eq!(outcome(&asked), "open");
    let cwd_text = cwd.to_str().unwrap().to_owned();
    let chapter = place.rulebook.rules_for(Some(&cwd_text));
    let (file, digest) = chapter.untrusted[0].clone();
    place
        .service
        .trust_rules(ann(), file, digest)
        .await
        .unwrap();
    assert_eq!(place.ends(&asked).await, "Allowed by rules");
    let rules = place.service.rules(&ann(), Some(cwd_text)).await.unwrap();
    assert_eq!(rules.untrusted, Vec::<String>::new());
}

#[tokio::test]
async fn a_grant_for_a_project_counts_in_it_alone() {
    let place = Place::new("").await;
    for name in ["one", "two"] {
        let git = place.path(name).join(".git");
        fs::create_dir_all(&git).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }
    let one = place.path("one").to_str().unwrap().to_owned();
    let rules = place.service.rules(&ann(), Some(one)).await.unwrap();
    let grant = GrantDraft {
        scope: GrantScope {
            project: rules.project,
            ..GrantScope::default()
        },
        ..draft(Effect::Allow, "Bash(make:*)")
    };
    place.service.add_grant(ann(), grant).await.unwrap();
    let asks = async |cwd: &str| outcome(&place.asks(&place.path(cwd), "make test").await);
    assert_eq!(asks("one").await, "Allowed by rules");
    assert_eq!(asks("one/src").await, "Allowed by rules");
    assert_eq!(asks("two").await, "open");
}

#[tokio::test]
async fn a_folder_in_the_input_is_where_an_ask_is_judged() {
    let place = Place::new("").await;
    let path = |name: &str| place.path(name).to_str().unwrap().to_owned();
    for name in ["one/.git", "one/sub", "two/.git"] {
        fs::create_dir_all(place.path(name)).unwrap();
    }
    std::os::unix::fs::symlink(place.path("two/.git"), place.path("one/link")).unwrap();
    let deny = "deny = [\"Bash(make clean:*)\"]\n";
    place.write("two/.countersign/rules.toml", deny);
    let rules = place.service.rules(&ann(), Some(path("one"))).await;
    let scope = GrantScope {
        project: rules.unwrap().project,
        ..GrantScope::default()
    };
    let grant = GrantDraft {
        scope,
        ..draft(Effect::Allow, "Bash(make:*)")
    };
    place.service.add_grant(ann(), grant).await.unwrap();
    let asks = async |command: &str, folder: &str| {
        let input = serde_json::json!({ "command": command, "workdir": folder });
        let asked = AskRequest {
            input: Some(countersign_core::Json::from_value(&input).unwrap()),
            cwd: Some(path("one")),
            ..request("bot", command)
        };
        outcome(&place.service.request_approval(asked).await.unwrap())
    };
    assert_eq!(asks("make test", "sub").await, "Allowed by rules");
    assert_eq!(
        asks("make test", &path("one/sub")).await,
        "Allowed by rules"
    );
    for folder in ["../two", "link/..", &path("two")] {
        assert_eq!(asks("make test", folder).await, "open", "{folder}");
        assert_eq!(
            asks("make clean", folder).await,
            "Denied by rules",
            "{folder}"
        );
    }
}

#[tokio::test]
async fn the_hosts_own_files_are_denied_whatever_is_granted() {
    let place = Place::new("").await;
    let grant = draft(Effect::Allow, "Read");
    place.service.add_grant(ann(), grant).await.unwrap();
    let record = place.path("host").join("countersign.db");
    let input = serde_json::json!({ "file_path": record });
    let checked = place
        .service
        .check_rules(
            &ann(),
            CheckRequest {
                tool: "Read".to_owned(),
                input: Some(countersign_core::Json::from_value(&input).unwrap()),
                cwd: None,
                agent: None,
            },
        )
        .await
        .unwrap();
    assert_eq!(checked.verdict.effect, Effect::Deny);
}
