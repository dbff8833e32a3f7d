//! The state that all doors share, and the operations on the host itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use countersign_core::{Caller, RecordedActor};
use countersign_daemon::{ContainmentMethod, Service};
use countersign_protocol::{
    AgentsAtShutdown, Containment, CreateTicketParams, DecideConfirm, HostStatus, LoginTicket,
    Reason, RescueRecordParams, RescueResult, ShutdownParams, WebStatus,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::api_error::ApiError;
use crate::auth::Authenticator;
use crate::capacity::ConnectionLimits;
use crate::convert;
use crate::figures::read_figures;
use crate::login_tickets::LoginTickets;
use crate::ops;
use crate::origin_guard::OriginGuard;
use crate::screen_files::ScreenFiles;
use crate::web_assets::WebAssets;
use crate::web_options::WebOptions;

pub(crate) struct ServerState {
    pub(crate) service: Service,
    pub(crate) authenticator: Authenticator,
    pub(crate) guard: OriginGuard,
    pub(crate) tickets: LoginTickets,
    pub(crate) hook_waiters: ops::hook::HookWaiters,
    pub(crate) shutdown: CancellationToken,
    pub(crate) limits: ConnectionLimits,
    pub(crate) tcp_permits: Arc<Semaphore>,
    pub(crate) unix_permits: Arc<Semaphore>,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) socket: PathBuf,
    pub(crate) database: PathBuf,
    pub(crate) agents_alone_ms: u64,
    pub(crate) web: WebOptions,
    pub(crate) web_assets: WebAssets,
    pub(crate) decide_confirm: DecideConfirm,
    pub(crate) screen_files: Option<Arc<dyn ScreenFiles>>,
    /// The caller that wanted the agents to end with the host, if there was one.
    pub(crate) agents_ended_by: Arc<OnceLock<Caller>>,
}

async fn containment(service: &Service) -> Option<Containment> {
    let means = service.means().await?;
    Some(Containment {
        means: means.to_string(),
        holds_detached: matches!(means, ContainmentMethod::Cgroup { .. }),
    })
}

impl ServerState {
    pub(crate) fn connections(&self) -> usize {
        let ConnectionLimits { tcp, unix } = self.limits;
        tcp - self.tcp_permits.available_permits() + unix - self.unix_permits.available_permits()
    }

    pub(crate) async fn status(&self, caller: &Caller) -> Result<HostStatus, ApiError> {
        caller.refuse_agents()?;
        let overview = self.service.overview(caller).await?;
        let rule_problems = self.service.rule_problems(caller).await?;
        Ok(HostStatus {
            agents: overview.agents.len(),
            agents_alone_ms: Some(self.agents_alone_ms),
            bypassed: convert::rules::bypassed(&overview.agents, self.service.now()),
            connections: self.connections(),
            containment: containment(&self.service).await,
            database: self.database.display().to_string(),
            decide_confirm: self.decide_confirm,
            event_sequence: overview.head.0,
            figures: read_figures(&self.service, &self.database),
            listen: self.address.map(|address| address.to_string()),
            pending_approvals: overview
                .approvals
                .iter()
                .filter(|approval| approval.is_pending())
                .count(),
            pending_questions: overview.questions.len(),
            pid: std::process::id(),
            record_lost: self.service.record_is_lost(),
            rule_problems: rule_problems.iter().map(convert::rules::problem).collect(),
            socket: self.socket.display().to_string(),
            started_at: convert::time(self.service.started_at()),
            store_error: self.service.store_error().map(|error| error.to_string()),
            unnamed_callers: self.authenticator.unnamed_callers,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            web: Some(WebStatus {
                built: self.web_assets.is_built(),
                public_url: self.web.public_url.as_ref().map(ToString::to_string),
            }),
            you: convert::who(&RecordedActor::from(caller)),
        })
    }

    /// Writes what can still be read of a lost record to another file.
    pub(crate) async fn rescue_record(
        &self,
        caller: &Caller,
        params: RescueRecordParams,
    ) -> Result<RescueResult, ApiError> {
        caller.require_operator()?;
        let target = PathBuf::from(&params.path);
        if !target.is_absolute() {
            let message = "the path of the new file must be absolute";
            return Err(ApiError::plain(Reason::InvalidParams, message));
        }
        if target == self.database {
            let message = "choose a file other than the database: its remaining log would be mixed with the new file";
            return Err(ApiError::plain(Reason::InvalidParams, message));
        }
        tracing::warn!(by = %caller.principal.name, file = %target.display(), "rescuing the record");
        let rescued = self.service.rescue_record(target).await?;
        Ok(RescueResult {
            database: self.database.display().to_string(),
            events: rescued.events,
            head: format!("{}:{}", rescued.head, rescued.head_hash),
            path: params.path,
        })
    }

    /// Ends the host, after its agents if those are to end too.
    pub(crate) async fn shut_down(
        &self,
        caller: &Caller,
        params: ShutdownParams,
    ) -> Result<(), ApiError> {
        caller.require_operator()?;
        tracing::info!(by = %caller.principal.name, agents = ?params.agents, "told to end");
        if params.agents == AgentsAtShutdown::End {
            // The agents first: a host that ended before them could not say which of them still
            // run.
            let left = self.service.end_agents(caller).await?;
            if let Some(agent) = left.first() {
                let message = format!(
                    "{} agents still run, `{}` among them, so the host keeps running",
                    left.len(),
                    agent.profile.name
                );
                return Err(ApiError::plain(Reason::StillRuns, message));
            }
            // Agents can still be started until the last connection has ended; the caller's name is
            // kept for their end. It is already set if another caller asked for the same before.
            drop(self.agents_ended_by.set(caller.clone()));
        }
        self.shutdown.cancel();
        Ok(())
    }

    pub(crate) fn create_ticket(
        &self,
        caller: &Caller,
        params: CreateTicketParams,
    ) -> Result<LoginTicket, ApiError> {
        caller.require_operator()?;
        let base = self.login_address(params.phone)?;
        let (ticket, expires_at) = self
            .tickets
            .issue(&caller.principal.name, self.service.now())?;
        Ok(LoginTicket {
            expires_at: convert::time(expires_at),
            url: format!("{base}/login/{ticket}"),
        })
    }

    /// The address for a browser on this machine, or for one on another.
    fn login_address(&self, is_elsewhere: bool) -> Result<String, ApiError> {
        if !is_elsewhere {
            let address = self.address.map(|address| address.to_string());
            return Ok(format!(
                "http://{}",
                address.as_deref().unwrap_or("localhost")
            ));
        }
        let message = "other machines cannot reach this host: set `public_url` under `[web]` in config.toml to the address of a tunnel, and restart the host";
        let public_url = self.web.public_url.as_ref().map(ToString::to_string);
        public_url.ok_or_else(|| ApiError::plain(Reason::InvalidParams, message))
    }
}
