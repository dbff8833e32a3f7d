use countersign_sandbox::{MissingLayer, RequiredLevel};

use super::*;

fn settings(level: SandboxLevel) -> SandboxSettings {
    let settings = SandboxSettings::new("unused".into(), "/state/run".into());
    let missing = (level != SandboxLevel::Full).then(|| MissingLayer {
        what: "bubblewrap is not installed".to_owned(),
        advice: "install the package `bubblewrap`".to_owned(),
    });
    settings
        .found
        .set(SandboxSupport {
            level,
            bubblewrap: None,
            missing,
        })
        .unwrap();
    settings
}

fn request(sandbox: Option<&str>) -> ConfinementRequest {
    ConfinementRequest {
        options: Arc::new(SpawnOptions {
            agent: Some("claude".to_owned()),
            sandbox: sandbox.map(str::to_owned),
            ..SpawnOptions::default()
        }),
        folder: "/srv/app".into(),
        worktree: None,
        runner_folder: "/state/runners/1".into(),
        command: vec!["claude".to_owned()],
        env: Vec::new(),
        host_program: None,
    }
}

fn sandbox_of(
    settings: &SandboxSettings,
    wanted: Option<&str>,
) -> Result<(String, SandboxLevel), String> {
    let (sandbox, plan) = request(wanted).plan(Some(settings))?;
    let confined = sandbox.level != SandboxLevel::Open;
    assert_eq!(
        plan.map(|plan| plan.level),
        confined.then_some(sandbox.level)
    );
    Ok((sandbox.profile, sandbox.level))
}

/// `~` needs a home, which the request has not.
fn homeless(require: RequiredLevel) -> SandboxProfile {
    SandboxProfile {
        hide: Vec::new(),
        require,
        ..SandboxProfile::default()
    }
}

#[test]
fn nothing_starts_with_less_than_its_profile_requires() {
    let (open, landlock) = (SandboxLevel::Open, SandboxLevel::Landlock);
    for level in [open, landlock] {
        let mut settings = settings(level);
        let refused = format!(
            "the sandbox profile `work` requires level full, and this machine has {}: bubblewrap is not installed; \
             install the package `bubblewrap`, or do without a sandbox: `--sandbox open` for one agent, \
             `sandbox = \"open\"` below `[agents]` in config.toml for all",
            level.as_str()
        );
        assert_eq!(sandbox_of(&settings, Some("work")), Err(refused.clone()));
        // Nobody asked for one.
        assert_eq!(sandbox_of(&settings, None), Err(refused.clone()));
        assert_eq!(settings.check(&SpawnOptions::default()), Err(refused));
        settings.usual = "open".to_owned();
        assert_eq!(sandbox_of(&settings, None), Ok(("open".to_owned(), open)));
        assert_eq!(settings.check(&SpawnOptions::default()), Ok(()));
        assert_eq!(
            sandbox_of(&settings, Some("open")),
            Ok(("open".to_owned(), open))
        );
    }
}

#[test]
fn a_profile_that_requires_less_takes_what_there_is() {
    let mut settings = settings(SandboxLevel::Landlock);
    let profiles = &mut settings.profiles;
    profiles.insert("some".to_owned(), homeless(RequiredLevel::Landlock));
    profiles.insert("any".to_owned(), homeless(RequiredLevel::None));
    let landlock = |name: &str| Ok((name.to_owned(), SandboxLevel::Landlock));
    assert_eq!(sandbox_of(&settings, Some("some")), landlock("some"));
    assert_eq!(sandbox_of(&settings, Some("any")), landlock("any"));
    let unknown = sandbox_of(&settings, Some("other")).unwrap_err();
    assert!(
        unknown.starts_with("there is no sandbox profile `other`"),
        "{unknown}"
    );
}

#[test]
fn a_link_in_the_agents_folder_opens_nothing_outside() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("app");
    fs::create_dir_all(folder.join("inside")).unwrap();
    std::os::unix::fs::symlink(root.path(), folder.join("target")).unwrap();
    std::os::unix::fs::symlink("inside", folder.join("near")).unwrap();
    let planned = |read: &str, write: &str| {
        let mut settings = settings(SandboxLevel::Full);
        let profile = SandboxProfile {
            read: vec![read.to_owned()],
            write: vec![write.to_owned()],
            ..homeless(RequiredLevel::Full)
        };
        settings.profiles.insert("own".to_owned(), profile);
        let request = ConfinementRequest {
            folder: folder.clone(),
            ..request(Some("own"))
        };
        request.plan(Some(&settings)).map(drop)
    };
    let refused = Err(format!(
        "the sandbox profile `own` opens `{0}/target`, which leads out of `{0}` through a link",
        folder.display()
    ));
    assert_eq!(planned("/", "target"), refused);
    assert_eq!(planned("target", "inside"), refused);
    assert_eq!(planned("/", "target/app/inside"), Ok(()));
    for write in ["near", "inside", "absent", "/srv", "@tmp"] {
        assert_eq!(planned("/", write), Ok(()), "{write}");
    }
    // A variable may put a cache into the folder, too.
    let request = ConfinementRequest {
        folder: folder.clone(),
        env: [("XDG_CACHE_HOME".into(), folder.join("target").into())].into(),
        ..request(Some("own"))
    };
    let mut settings = settings(SandboxLevel::Full);
    settings
        .profiles
        .insert("own".to_owned(), homeless(RequiredLevel::Full));
    assert_eq!(request.plan(Some(&settings)).map(drop), refused);
}

#[test]
fn an_agent_is_confined_unless_it_is_told_otherwise() {
    let mut settings = settings(SandboxLevel::Full);
    settings
        .profiles
        .insert("tight".to_owned(), homeless(RequiredLevel::Full));
    let codex = |sandbox: Option<&str>, settings: &SandboxSettings| {
        let options = SpawnOptions {
            agent: Some("codex".to_owned()),
            sandbox: sandbox.map(str::to_owned),
            ..SpawnOptions::default()
        };
        let request = ConfinementRequest {
            options: Arc::new(options),
            ..request(None)
        };
        let (sandbox, _) = request.plan(Some(settings)).unwrap();
        (sandbox.profile, sandbox.level)
    };
    let tight = ("tight".to_owned(), SandboxLevel::Full);
    let open = ("open".to_owned(), SandboxLevel::Open);
    assert_eq!(settings.usual, "work");
    assert_eq!(codex(Some("open"), &settings), open);
    assert_eq!(codex(Some("tight"), &settings), tight);
    settings.usual = "tight".to_owned();
    assert_eq!(codex(None, &settings), tight);
    settings.usual = "open".to_owned();
    assert_eq!(codex(None, &settings), open);
}

#[test]
fn a_host_without_settings_confines_nothing() {
    let (sandbox, plan) = request(None).plan(None).unwrap();
    assert_eq!(
        (sandbox.profile.as_str(), sandbox.level),
        ("open", SandboxLevel::Open)
    );
    assert_eq!(plan, None);
}

#[test]
fn the_server_of_a_model_is_what_its_url_says() {
    let cases = [
        ("http://127.0.0.1:8080/v1", Some("localhost:8080")),
        ("http://localhost:11434", Some("localhost:11434")),
        ("http://localhost", Some("localhost:80")),
        (
            "https://Gateway.example.org/api",
            Some("gateway.example.org"),
        ),
        (
            "https://user@models.example.org:444",
            Some("models.example.org"),
        ),
        ("http://10.0.0.5:80", None),
        ("http://[::1]:80", None),
        ("unix:/run/model.sock", None),
        ("models.example.org", None),
    ];
    for (url, expected) in cases {
        assert_eq!(find_server(url).as_deref(), expected, "{url}");
    }
}

#[test]
fn cargo_takes_its_turn_in_a_sandbox_and_asks_nobody() {
    let home = Path::new("/home/ann");
    let request = ConfinementRequest {
        env: vec![("HOME".into(), home.into())],
        ..request(Some("work"))
    };
    let (_, plan) = request.plan(Some(&settings(SandboxLevel::Full))).unwrap();
    let plan = plan.unwrap();
    assert!(plan.write.contains(&home.join(".cargo/.package-cache")));
    // What it notes there is read by the cargo of the person, so it stays closed.
    assert!(plan.unasked.contains(&home.join(".cargo/.global-cache")));
}
