//! A host on a record in a folder of its own, and who calls it.

use std::path::Path;
use std::sync::Arc;

use countersign_core::event::{AgentProfile, Effect, GrantScope};
use countersign_core::{
    AgentId, Approval, ApprovalAnswer, ApprovalId, AskRequest, Caller, Json, Principal,
    PrincipalKey, RegisterAgent, Role,
};
use countersign_daemon::{GrantDraft, HostSettings, Service, SupervisorExit, random_hex};
use tempfile::TempDir;

/// A host that is running.
pub(crate) struct Host {
    pub(crate) service: Service,
    stopped: SupervisorExit,
    pub(crate) folder: TempDir,
}

impl Host {
    pub(crate) async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap()).await
    }

    async fn start_in(folder: TempDir) -> Self {
        let (service, stopped) = open(folder.path()).await;
        Self {
            service,
            stopped,
            folder,
        }
    }

    /// Ends the host and starts another on the same record.
    pub(crate) async fn restart(mut self) -> Self {
        self.service.stop().await;
        self.stopped.wait().await;
        Self::start_in(self.folder).await
    }

    /// An agent asks to run a command.
    pub(crate) async fn asks(&self, agent: &str, command: &str) -> Approval {
        self.service
            .request_approval(request(agent, command))
            .await
            .unwrap()
    }

    pub(crate) async fn shows(&self, approval: &Approval) -> String {
        let id = approval.ask.id.clone();
        outcome(&self.service.load_approval(&ann(), id).await.unwrap())
    }

    pub(crate) async fn register(&self, agent: &str) {
        let input = RegisterAgent {
            caller: bot(agent),
            profile: AgentProfile::new(AgentId::new(agent), agent),
        };
        self.service.register_agent(input).await.unwrap();
    }
}

pub(crate) async fn open(folder: &Path) -> (Service, SupervisorExit) {
    let path = folder.join("countersign.db");
    countersign_daemon::open(&path, HostSettings::new("test"))
        .await
        .unwrap()
}

/// How an ask stands, in one line.
pub(crate) fn outcome(approval: &Approval) -> String {
    approval.ended.as_ref().map_or("open".to_owned(), |ended| {
        let ending = &ended.ending;
        format!("{:?} by {}", ending.outcome, ending.by.name)
    })
}

pub(crate) fn ann() -> Caller {
    caller(Role::Operator, "ann")
}

pub(crate) fn olga() -> Caller {
    caller(Role::Observer, "olga")
}

pub(crate) fn bot(agent: &str) -> Caller {
    caller(Role::Agent(AgentId::new(agent)), agent)
}

fn caller(role: Role, name: &str) -> Caller {
    Caller {
        principal: Arc::new(Principal {
            role,
            name: name.into(),
            key: PrincipalKey::new(name),
        }),
        client: None,
        door: None,
    }
}

pub(crate) fn request(agent: &str, command: &str) -> AskRequest {
    let input = serde_json::json!({ "command": command });
    AskRequest {
        tool: Some("Bash".to_owned()),
        input: Some(Json::from_value(&input).unwrap()),
        cwd: Some("/srv/app".to_owned()),
        ..AskRequest::new(
            bot(agent),
            ApprovalId::new(format!("approval-{}", random_hex::<6>())),
            "run it",
        )
    }
}

/// A grant for everybody, for good.
pub(crate) fn draft(effect: Effect, rule: &str) -> GrantDraft {
    GrantDraft {
        rule: rule.to_owned(),
        effect,
        scope: GrantScope::default(),
        expires_in_ms: None,
        uses: None,
        origin: None,
    }
}

pub(crate) fn once(rule: &str) -> GrantDraft {
    GrantDraft {
        uses: Some(1),
        ..draft(Effect::Allow, rule)
    }
}

pub(crate) fn answer(resolution: &str, remember: Vec<GrantDraft>) -> ApprovalAnswer {
    ApprovalAnswer {
        resolution: resolution.to_owned(),
        remember,
        ..ApprovalAnswer::default()
    }
}
