//! Files in the folders of agents: who may read and write them, what stays outside, and that nothing is overwritten
//! unseen.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::host::Host;
use crate::http::{Rest, http};
use crate::wire::Wire;

/// A host that has started an agent, which ended at once: its folder stays.
struct FilesScene {
    host: Host,
    wire: Wire,
    folder: PathBuf,
    agent: String,
}

impl FilesScene {
    async fn start() -> Self {
        let host = Host::start_with(|settings, _| {
            settings.runners.command = vec!["/bin/false".into()];
        });
        let folder = host.home().canonicalize().unwrap().join("work");
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(folder.join("src/lib.rs"), "fn main() {}\n").unwrap();
        fs::write(folder.join("README.md"), "# App\n").unwrap();
        let mut wire = Wire::operator(&host).await;
        let spawn = json!({ "name": "fix", "command": ["/bin/true"], "cwd": folder });
        let agent = wire.ok("host.spawn_agent", spawn).await["id"].take();
        Self {
            host,
            wire,
            folder,
            agent: agent.as_str().unwrap().to_owned(),
        }
    }

    fn with(&self, fields: Value) -> Value {
        let mut params = fields;
        params["agent_id"] = json!(self.agent);
        params
    }

    async fn read(&mut self, path: &str) -> Value {
        let params = self.with(json!({ "path": path }));
        self.wire.ok("host.file", params).await
    }

    async fn refusal(&mut self, method: &str, fields: Value) -> (String, String) {
        let params = self.with(fields);
        let error = self.wire.no(method, params).await;
        let reason = error["data"]["reason"].as_str().unwrap().to_owned();
        (reason, error["message"].as_str().unwrap().to_owned())
    }
}

const MISSING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

#[tokio::test]
async fn a_folder_is_listed_and_a_file_is_read_and_written() {
    let mut scene = FilesScene::start().await;
    let listed = scene.with(json!({}));
    let mut listed = scene.wire.ok("host.files", listed).await;
    for entry in listed["entries"].as_array_mut().unwrap() {
        assert!(entry["modified_at"].take().is_string());
    }
    assert_eq!(
        listed,
        json!({
            "entries": [
                { "name": "src", "kind": "folder", "modified_at": null },
                { "name": "README.md", "kind": "file", "bytes": 6, "modified_at": null },
            ],
            "folder": scene.folder, "more": false, "path": "",
        })
    );
    let tree = scene.with(json!({ "recursive": true }));
    let tree = scene.wire.ok("host.files", tree).await;
    let names: Vec<&str> = tree["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["README.md", "src/lib.rs"]);

    fs::set_permissions(
        scene.folder.join("src/lib.rs"),
        fs::Permissions::from_mode(0o754),
    )
    .unwrap();
    let file = scene.read("src/lib.rs").await;
    assert_eq!(
        (&file["content"], &file["form"]),
        (&json!("fn main() {}\n"), &json!("text"))
    );
    let save = scene.with(
        json!({ "path": "src/lib.rs", "content": "fn new() {}\n", "if_digest": file["digest"] }),
    );
    let saved = scene.wire.ok("host.write_file", save).await;
    assert_eq!(saved["size"], 12);
    assert_eq!(
        fs::read_to_string(scene.folder.join("src/lib.rs")).unwrap(),
        "fn new() {}\n"
    );
    let mode = fs::metadata(scene.folder.join("src/lib.rs"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o754);
    assert_eq!(scene.read("src/lib.rs").await["digest"], saved["digest"]);
    // Nothing of how it was written is left.
    assert_eq!(fs::read_dir(scene.folder.join("src")).unwrap().count(), 1);
}

#[tokio::test]
async fn what_was_changed_since_it_was_read_is_not_overwritten() {
    let mut scene = FilesScene::start().await;
    let digest = scene.read("README.md").await["digest"].take();
    fs::write(scene.folder.join("README.md"), "# Theirs\n").unwrap();
    let save =
        scene.with(json!({ "path": "README.md", "content": "# Mine\n", "if_digest": digest }));
    let error = scene.wire.no("host.write_file", save).await;
    let theirs = scene.read("README.md").await;
    assert_eq!(theirs["content"], "# Theirs\n");
    assert_eq!(
        (&error["data"]["reason"], &error["data"]["digest"]),
        (&json!("file_changed"), &theirs["digest"])
    );
    // A new file must not exist, and one that was removed is not made again.
    for (path, expected) in [
        ("README.md", None),
        ("README.md", Some("none")),
        ("gone.txt", Some(MISSING)),
    ] {
        let save = json!({ "path": path, "content": "x", "if_digest": expected });
        assert_eq!(
            scene.refusal("host.write_file", save).await.0,
            "file_changed",
            "{path}"
        );
    }
    let save =
        scene.with(json!({ "path": "docs/new.md", "content": "new\n", "if_digest": "none" }));
    scene.wire.ok("host.write_file", save).await;
    assert_eq!(
        fs::read_to_string(scene.folder.join("docs/new.md")).unwrap(),
        "new\n"
    );
    assert_eq!(fs::read_dir(&scene.folder).unwrap().count(), 3);
}

#[tokio::test]
async fn of_several_writers_who_read_the_same_one_succeeds() {
    let mut scene = FilesScene::start().await;
    let digest = scene.read("README.md").await["digest"].take();
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..8 {
        let mut wire = Wire::operator(&scene.host).await;
        let save = scene.with(
            json!({ "path": "README.md", "content": format!("{number}\n"), "if_digest": digest }),
        );
        writers.spawn(async move { wire.reply("host.write_file", save).await });
    }
    let mut reasons = Vec::new();
    for reply in writers.join_all().await {
        reasons.push(
            reply["error"]["data"]["reason"]
                .as_str()
                .unwrap_or("saved")
                .to_owned(),
        );
    }
    reasons.sort();
    let mut expected = vec!["file_changed".to_owned(); 7];
    expected.push("saved".to_owned());
    assert_eq!(reasons, expected);
    assert_eq!(fs::read_dir(&scene.folder).unwrap().count(), 2);
}

#[tokio::test]
async fn nothing_outside_the_folder_is_reached() {
    let mut scene = FilesScene::start().await;
    let secret = scene.host.home().join("secret");
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, scene.folder.join("leak")).unwrap();
    symlink(scene.host.home(), scene.folder.join("up")).unwrap();
    symlink("src/lib.rs", scene.folder.join("inside")).unwrap();
    assert_eq!(scene.read("inside").await["content"], "fn main() {}\n");
    for (path, reason) in [
        ("leak", "file_outside"),
        ("up/secret", "file_outside"),
        ("../secret", "invalid_params"),
        ("src/../../secret", "invalid_params"),
        ("/etc/passwd", "invalid_params"),
        ("src", "invalid_params"),
        ("gone", "unknown_file"),
        ("", "invalid_params"),
    ] {
        let (found, message) = scene.refusal("host.file", json!({ "path": path })).await;
        assert_eq!(found, reason, "{path}: {message}");
    }
    for path in ["leak", "up/secret", "up/new", "../new", "/tmp/new"] {
        let save = json!({ "path": path, "content": "x" });
        let (found, message) = scene.refusal("host.write_file", save).await;
        assert!(
            found == "file_outside" || found == "invalid_params",
            "{path}: {found}: {message}"
        );
    }
    assert_eq!(
        scene.refusal("host.files", json!({ "path": "up" })).await.0,
        "file_outside"
    );
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    // A link in the place of the folder itself leads nowhere.
    fs::rename(&scene.folder, scene.host.home().join("moved")).unwrap();
    symlink(scene.host.home(), &scene.folder).unwrap();
    assert_eq!(
        scene
            .refusal("host.file", json!({ "path": "secret" }))
            .await
            .0,
        "file_outside"
    );
    assert_eq!(
        scene.refusal("host.files", json!({})).await.0,
        "file_outside"
    );
}

#[tokio::test]
async fn the_hosts_own_files_are_neither_read_nor_written() {
    let mut scene = FilesScene::start().await;
    let home = scene.host.home().canonicalize().unwrap();
    fs::create_dir(home.join("own")).unwrap();
    fs::write(home.join("own/config.toml"), "").unwrap();
    let spawn = json!({ "name": "home", "command": ["/bin/true"], "cwd": home });
    scene.agent = scene.wire.ok("host.spawn_agent", spawn).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let (reason, message) = scene
        .refusal("host.file", json!({ "path": "own/config.toml" }))
        .await;
    assert_eq!(
        (reason.as_str(), message.ends_with("belongs to the host")),
        ("file_outside", true),
        "{message}"
    );
    let save = json!({ "path": "own/new.toml", "content": "x" });
    assert_eq!(
        scene.refusal("host.write_file", save).await.0,
        "file_outside"
    );
}

#[tokio::test]
async fn large_binary_and_damaged_files_are_said_to_be() {
    let mut scene = FilesScene::start().await;
    fs::write(scene.folder.join("image"), b"\x89PNG\0\0").unwrap();
    fs::write(scene.folder.join("latin"), b"caf\xe9\n").unwrap();
    let long = "é".repeat(700_000);
    fs::write(scene.folder.join("long"), &long).unwrap();
    let image = scene.read("image").await;
    assert_eq!(
        (&image["form"], image.get("content")),
        (&json!("binary"), None)
    );
    let latin = scene.read("latin").await;
    assert_eq!(
        (&latin["form"], &latin["content"]),
        (&json!("damaged"), &json!("caf\u{fffd}\n"))
    );
    // Pieces end between characters, and together they are the file.
    let (mut text, mut offset) = (String::new(), 0);
    while offset < long.len() as u64 {
        let params = scene.with(json!({ "path": "long", "offset": offset, "limit": 99_999 }));
        let piece = scene.wire.ok("host.file", params).await;
        assert_eq!(
            (&piece["form"], piece.get("digest")),
            (&json!("text"), None)
        );
        text.push_str(piece["content"].as_str().unwrap());
        offset = piece["next"].as_u64().unwrap();
    }
    assert_eq!(text, long);
    let params = scene.with(json!({ "path": "long", "from_end": true, "limit": 5 }));
    let end = scene.wire.ok("host.file", params).await;
    assert_eq!(
        (&end["content"], &end["next"]),
        (&json!("éé"), &json!(1_400_000))
    );
    let params = scene.with(json!({ "path": "long", "offset": 9_999_999 }));
    assert_eq!(scene.wire.ok("host.file", params).await["next"], 1_400_000);
    let save = json!({ "path": "big", "content": "x".repeat(1_048_577) });
    assert_eq!(scene.refusal("host.write_file", save).await.0, "too_large");
    let both = json!({ "path": "long", "offset": 1, "from_end": true });
    assert_eq!(scene.refusal("host.file", both).await.0, "invalid_params");
}

#[tokio::test]
async fn a_full_folder_is_listed_in_part_and_a_read_only_one_says_so() {
    let mut scene = FilesScene::start().await;
    let many = scene.folder.join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..2_100 {
        fs::write(many.join(format!("{number:04}")), "").unwrap();
    }
    let params = scene.with(json!({ "path": "many" }));
    let listed = scene.wire.ok("host.files", params).await;
    assert_eq!(
        (&listed["more"], listed["entries"].as_array().unwrap().len()),
        (&json!(true), 2_000)
    );
    assert_eq!(listed["entries"][0]["name"], "0000");
    // A file system that cannot be written, for root as well: the one of the kernel's own values.
    let spawn = json!({ "name": "proc", "command": ["/bin/true"], "cwd": "/proc/sys/kernel" });
    scene.agent = scene.wire.ok("host.spawn_agent", spawn).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let (reason, message) = scene
        .refusal(
            "host.write_file",
            json!({ "path": "new-file", "content": "x" }),
        )
        .await;
    assert_eq!(reason, "failed", "{message}");
    assert!(
        message.contains("could not write `/proc/sys/kernel/new-file`"),
        "{message}"
    );
}

#[tokio::test]
async fn agents_reach_no_files_and_observers_write_none() {
    let mut scene = FilesScene::start().await;
    let calls = [
        ("host.files", json!({})),
        ("host.file", json!({ "path": "README.md" })),
        ("host.write_file", json!({ "path": "new", "content": "x" })),
    ];
    let mut agent = Agent::connected(&scene.host, &mut scene.wire, "external").await;
    for (method, fields) in calls.clone() {
        let error = agent.no(method, scene.with(fields)).await;
        assert_eq!(error["data"]["reason"], "agent_not_allowed", "{method}");
    }
    // What an agent says about itself names no folder.
    let registered = json!({ "name": "self", "id": "self", "project": "/" });
    scene.wire.ok("host.register_agent", registered).await;
    for (method, mut fields) in calls.clone() {
        fields["agent_id"] = json!("self");
        let error = scene.wire.no(method, fields).await;
        assert_eq!(error["data"]["reason"], "not_managed", "{method}");
    }
    let made = json!({ "role": "observer", "name": "screen", "ttl_ms": 60_000 });
    let token = scene.wire.ok("host.create_token", made).await["token"].take();
    let mut observer = Wire::connect(&scene.host, token.as_str().unwrap()).await;
    observer.ok("host.files", scene.with(json!({}))).await;
    observer
        .ok("host.file", scene.with(json!({ "path": "README.md" })))
        .await;
    let save = scene.with(json!({ "path": "new", "content": "x" }));
    let error = observer.no("host.write_file", save).await;
    assert_eq!(error["data"]["reason"], "observer_cannot_change");
    assert!(!scene.folder.join("new").exists());
}

#[tokio::test]
async fn rest_does_the_same() {
    let scene = FilesScene::start().await;
    let token = scene.host.token();
    let rest = Rest {
        address: &scene.host.address,
        token: &token,
    };
    let listed = rest.get("/api/v1/agents/fix/files?path=src").await.json();
    assert_eq!(listed["entries"][0]["name"], "lib.rs");
    let file = rest
        .get("/api/v1/agents/fix/file?path=README.md")
        .await
        .json();
    assert_eq!(file["content"], "# App\n");
    let body = json!({ "path": "README.md", "content": "# New\n", "if_digest": file["digest"] });
    let saved = rest
        .send("PUT", "/api/v1/agents/fix/file", body.clone())
        .await;
    assert_eq!(
        (saved.status, saved.json()["size"].clone()),
        (200, json!(6))
    );
    let again = rest.send("PUT", "/api/v1/agents/fix/file", body).await;
    assert_eq!(again.refusal(), (409, "file_changed".to_owned()));
    let outside = rest
        .get("/api/v1/agents/fix/file?path=../countersign.db")
        .await;
    assert_eq!(outside.refusal(), (400, "invalid_params".to_owned()));
    let nameless = rest.get("/api/v1/agents/fix/file").await;
    assert_eq!(nameless.refusal(), (400, "invalid_params".to_owned()));
    let open = http(
        &scene.host.address,
        "GET",
        "/api/v1/agents/fix/files",
        &[],
        "",
    )
    .await;
    assert_eq!(open.refusal(), (401, "auth_required".to_owned()));
}
