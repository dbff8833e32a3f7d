//! Children: the strictest of their own rules and of those above them counts.

use std::path::Path;

use countersign_core::event::{AgentRole, GrantScope, SpawnOptions};
use countersign_core::{
    ApprovalAnswer, ApprovalId, AskRequest, Caller, ConnectionPresence, CreateGrant,
    DecisionContext, GrantDraft, Input, Json, ManagedInput, Principal, PrincipalKey,
    ResolveApproval, Role, SpawnAgent, decide, own_tool_name,
};
use tempfile::TempDir;

use super::*;
use crate::rulebook::{Rulebook, RulebookConfig};

/// A host in miniature with an orchestrator, and the worktree of a child that lies outside its folder.
struct World {
    folder: TempDir,
    state: State,
    gate: Gate,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            folder: TempDir::new().unwrap(),
            state: State::default(),
            gate: Gate::default(),
        };
        for folder in ["lead/.git", "tree/.git"] {
            std::fs::create_dir_all(world.path(folder)).unwrap();
        }
        let options = SpawnOptions {
            agent: Some("claude".to_owned()),
            cwd: world.text("lead"),
            role: Some(AgentRole::Orchestrator),
            ..SpawnOptions::default()
        };
        world.feed(Input::Managed(ManagedInput::Spawn(Box::new(SpawnAgent {
            attachments: Vec::new(),
            caller: Caller::host(),
            id: lead(),
            name: Some("lead".to_owned()),
            kind: "claude".to_owned(),
            options,
            prompt: None,
        }))));
        world
    }

    fn path(&self, below: &str) -> std::path::PathBuf {
        self.folder.path().canonicalize().unwrap().join(below)
    }

    fn text(&self, below: &str) -> String {
        self.path(below).to_str().unwrap().to_owned()
    }

    fn write(&self, file: &str, rules: &str) {
        let file = self.path(file);
        std::fs::create_dir_all(file.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(file, rules).unwrap();
    }

    fn feed(&mut self, input: Input) {
        let presence = ConnectionPresence::default();
        let context = DecisionContext {
            now: Timestamp(1),
            presence: &presence,
            expiry_held_until: Timestamp(0),
            owner_grace_ms: 0,
            escalation_ms: 0,
        };
        let decision = decide(&self.state, context, input).unwrap();
        for event in &decision.events {
            let seq = self.state.head().next();
            self.state.apply(seq, Timestamp(1), event);
            self.gate.apply_event(event);
        }
    }

    fn grant(&mut self, effect: Effect, rule: &str, session: Option<AgentId>) {
        let scope = GrantScope {
            session,
            ..GrantScope::default()
        };
        self.grant_in(effect, rule, scope);
    }

    fn grant_to_name(&mut self, effect: Effect, rule: &str, name: &str) {
        let scope = GrantScope {
            agent: Some(name.to_owned()),
            ..GrantScope::default()
        };
        self.grant_in(effect, rule, scope);
    }

    fn grant_in(&mut self, effect: Effect, rule: &str, scope: GrantScope) {
        let id = format!("{effect:?} {rule}");
        self.feed(Input::CreateGrant(CreateGrant {
            caller: Caller::host(),
            id: GrantId::new(id),
            draft: GrantDraft {
                rule: rule.to_owned(),
                effect,
                scope,
                expires_in_ms: None,
                uses: None,
                origin: None,
            },
        }));
    }

    /// The orchestrator starts the child, under a name that it chose.
    fn spawn_child(&mut self, name: &str) {
        let caller = Caller {
            principal: Arc::new(Principal {
                role: Role::Agent(lead()),
                name: "lead".into(),
                key: PrincipalKey::new("lead"),
            }),
            client: None,
            door: None,
        };
        let ask = ApprovalId::new("spawn");
        self.feed(Input::RequestApproval(Box::new(AskRequest {
            tool: Some(own_tool_name("spawn_agent")),
            ..AskRequest::new(caller.clone(), ask.clone(), "start an agent")
        })));
        self.feed(Input::ResolveApproval(ResolveApproval {
            caller: Caller::host(),
            approval: ask.clone(),
            answer: ApprovalAnswer {
                resolution: "approve".to_owned(),
                ..ApprovalAnswer::default()
            },
            grant_ids: Vec::new(),
            delegated: None,
        }));
        let options = SpawnOptions {
            agent: Some("claude".to_owned()),
            cwd: self.text("lead"),
            allowed_by: Some(ask),
            ..SpawnOptions::default()
        };
        self.feed(Input::Managed(ManagedInput::Spawn(Box::new(SpawnAgent {
            attachments: Vec::new(),
            caller,
            id: child(),
            name: Some(name.to_owned()),
            kind: "claude".to_owned(),
            options,
            prompt: None,
        }))));
    }

    /// What is said of a command in the child's folder, with its orchestrator above it or without.
    fn says(&self, command: &str, below: bool) -> Effect {
        let book = Rulebook::open(RulebookConfig {
            user_file: self.path("rules.toml"),
            home: self.path("home"),
            host_paths: Vec::new(),
            managed_claude: self.path("managed-settings.json"),
        })
        .unwrap();
        book.refresh();
        let input = serde_json::json!({ "command": command });
        let above = below.then(|| (lead(), self.text("lead")));
        let unread = AskFacts {
            tool: "Bash".to_owned(),
            input: Json::from_value(&input).ok(),
            cwd: Some(self.text("tree")),
            ancestors: above.into_iter().collect(),
            ..AskFacts::default()
        };
        let assessed = AssessedAsk::assess(&book, &unread);
        let judged = self
            .gate
            .judge(&self.state, &assessed, Some(&child()), Timestamp(1));
        judged.verdict.effect
    }
}

fn lead() -> AgentId {
    AgentId::new("lead")
}

fn child() -> AgentId {
    AgentId::new("child")
}

#[test]
fn what_those_above_are_denied_their_children_are_denied() {
    let mut world = World::new();
    world.write(
        "rules.toml",
        "allow = [\"Bash(git status)\", \"Bash(ls)\"]\n",
    );
    assert_eq!(world.says("git status", true), Effect::Allow);
    world.write(
        "lead/.countersign/rules.toml",
        "deny = [\"Bash(git status)\"]\nask = [\"Bash(ls)\"]\n",
    );
    assert_eq!(world.says("git status", false), Effect::Allow);
    assert_eq!(world.says("git status", true), Effect::Deny);
    assert_eq!(world.says("ls", false), Effect::Allow);
    assert_eq!(world.says("ls", true), Effect::Ask);
    world.grant(Effect::Deny, "Bash(pwd)", Some(lead()));
    world.grant(Effect::Allow, "Bash(pwd)", None);
    assert_eq!(world.says("pwd", false), Effect::Allow);
    assert_eq!(world.says("pwd", true), Effect::Deny);
}

#[test]
fn a_childs_own_denies_hold_and_its_grants_count() {
    let mut world = World::new();
    world.write("rules.toml", "allow = [\"Bash(ls)\"]\n");
    world.write("tree/.countersign/rules.toml", "deny = [\"Bash(ls)\"]\n");
    assert_eq!(world.says("ls", true), Effect::Deny);
    world.grant(Effect::Allow, "Bash(pwd)", None);
    assert_eq!(world.says("pwd", true), Effect::Allow);
}

/// An orchestrator could take any name that a person has rules for.
#[test]
fn a_name_that_an_orchestrator_chose_is_allowed_nothing() {
    let mut world = World::new();
    world.write(
        "rules.toml",
        "[[rule]]\nallow = \"Bash(ls)\"\nagent = \"builder\"\n",
    );
    world.grant_to_name(Effect::Allow, "Bash(pwd)", "builder");
    world.spawn_child("builder");
    for below in [true, false] {
        assert_eq!(world.says("ls", below), Effect::Ask);
        assert_eq!(world.says("pwd", below), Effect::Ask);
    }
    world.feed(Input::Managed(ManagedInput::Rename {
        caller: Caller::host(),
        agent: child(),
        name: "builder".to_owned(),
    }));
    assert_eq!(world.says("ls", true), Effect::Allow);
    assert_eq!(world.says("pwd", true), Effect::Allow);
}

/// A person who sees an agent under its name denies it something by that name.
#[test]
fn a_name_that_an_orchestrator_chose_is_denied_what_the_name_is() {
    let mut world = World::new();
    world.write(
        "rules.toml",
        "allow = [\"Bash(ls)\", \"Bash(pwd)\"]\n\
         [[rule]]\ndeny = \"Bash(ls)\"\nagent = \"builder\"\n",
    );
    world.spawn_child("builder");
    assert_eq!(world.says("pwd", true), Effect::Allow);
    world.grant_to_name(Effect::Deny, "Bash(pwd)", "builder");
    assert_eq!(world.says("ls", true), Effect::Deny);
    assert_eq!(world.says("pwd", true), Effect::Deny);
}
