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
        // Nobody asked for one.
        assert_eq!(sandbox_of(&settings, None), Ok(("open".to_owned(), open)));
        let refused = format!(
            "the sandbox profile `work` requires level full, and this machine has {}: bubblewrap is not installed; \
             install the package `bubblewrap`, or start the agent with `--sandbox open`",
            level.as_str()
        );
        assert_eq!(sandbox_of(&settings, Some("work")), Err(refused.clone()));
        settings.usual = Some("work".to_owned());
        assert_eq!(sandbox_of(&settings, None), Err(refused));
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
fn an_agent_is_confined_on_request_only() {
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
    assert_eq!(
        codex(None, &settings),
        ("open".to_owned(), SandboxLevel::Open)
    );
    assert_eq!(codex(Some("tight"), &settings), tight);
    settings.usual = Some("tight".to_owned());
    assert_eq!(codex(None, &settings), tight);
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
