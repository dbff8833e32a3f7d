//! Who is calling: found out from the kernel first, and only then from what the caller shows.
//!
//! Invariants: a process that is an agent, or descends from one, is that agent, whatever token it
//! shows; a process that uses an agent's token is marked as that agent before anything is done
//! for it; what could not be found out about a peer on this machine is refused, not assumed.

mod connection;
mod find_peer;

use std::sync::Arc;

use countersign_core::event::ProcessKey;
use countersign_core::{AgentId, Principal, PrincipalKey, Role, Timestamp};
use countersign_daemon::{Service, TokenIdentity, procfs};
use countersign_protocol::{ErrorCode, Reason};

use crate::api_error::ApiError;
use crate::peer::{TcpPeers, find_root};
use crate::request_log;

pub(crate) use connection::{CallerConnection, ConnectionPeer};
pub(crate) use find_peer::{FoundPeer, PeerLineage};

/// Who a caller turned out to be, and until when that holds.
#[derive(Clone, Debug)]
pub(crate) struct CallerIdentity {
    pub(crate) principal: Arc<Principal>,
    expires_at: Option<Timestamp>,
    trust_version: u64,
    /// What was known of the other end by then.
    peer_version: u64,
    token: Option<Arc<str>>,
}

/// What finding out who is calling needs.
pub(crate) struct Authenticator {
    pub(crate) service: Service,
    pub(crate) peers: Arc<TcpPeers>,
    /// Who the host runs as: the only user the Unix socket lets in.
    pub(crate) uid: u32,
    pub(crate) login: Arc<str>,
    /// Whether a token alone counts on TCP where nobody can say which process shows it.
    pub(crate) unnamed_callers: bool,
}

impl Authenticator {
    /// Finds out who is calling, with what they show.
    pub(crate) async fn identify(
        &self,
        connection: &Arc<CallerConnection>,
        token: Option<Arc<str>>,
    ) -> Result<CallerIdentity, ApiError> {
        // Read before anything is looked up: what changes meanwhile then makes this identity stale, not fresh.
        let trust_version = self.service.trust_version();
        if let ConnectionPeer::Unix { uid, .. } = connection.peer
            && uid != self.uid
        {
            return Err(ApiError::refused(
                Reason::AuthFailed,
                "the socket is for its owner alone",
            ));
        }
        // First what is cheap: who shows nothing, or nothing that is known, costs no further search of /proc.
        let bearer = self.find_bearer(token.as_deref())?;
        if bearer.is_none() && !connection.is_unix() {
            return Err(auth_required());
        }
        let found = self.find_peer(connection).await?;
        let (principal, expires_at) = match (found, bearer) {
            (FoundPeer::Agent(agent), _) => (agent_principal(agent), None),
            (FoundPeer::Other(lineage), Some((token, bearer))) => {
                if let Role::Agent(agent) = &bearer.principal.role {
                    self.mark_token_users(agent, &token, &lineage).await?;
                    connection.note_agent(agent.clone());
                }
                (bearer.principal, bearer.expires_at)
            }
            (FoundPeer::Other(_), None) => (self.owner_principal(), None),
        };
        request_log::note_principal(&principal);
        Ok(CallerIdentity {
            principal,
            expires_at,
            trust_version,
            peer_version: connection.version(),
            token,
        })
    }

    fn find_bearer(
        &self,
        token: Option<&str>,
    ) -> Result<Option<(String, TokenIdentity)>, ApiError> {
        let Some(token) = token else { return Ok(None) };
        let bearer = self.service.identify(token);
        let bearer = bearer
            .ok_or_else(|| ApiError::plain(Reason::AuthFailed, "auth failed: token mismatch"))?;
        Ok(Some((token.to_owned(), bearer)))
    }

    /// Whoever uses an agent's token is that agent, before anything is done for it.
    async fn mark_token_users(
        &self,
        agent: &AgentId,
        token: &str,
        lineage: &PeerLineage,
    ) -> Result<(), ApiError> {
        for process in lineage.users_of(token) {
            self.mark_process(agent, process).await?;
        }
        Ok(())
    }

    /// Marks a process; where there is no room, those that ended make it.
    pub(crate) async fn mark_process(
        &self,
        agent: &AgentId,
        process: ProcessKey,
    ) -> Result<(), ApiError> {
        if self
            .service
            .mark_process(agent.clone(), process)
            .await
            .is_ok()
        {
            return Ok(());
        }
        self.forget_ended_processes().await?;
        Ok(self.service.mark_process(agent.clone(), process).await?)
    }

    /// The process that started an agent's hook, or the reason why there is none.
    pub(crate) async fn find_agent_root(
        &self,
        connection: &Arc<CallerConnection>,
    ) -> Result<Result<ProcessKey, String>, ApiError> {
        let lineage = match self.find_peer(connection).await? {
            FoundPeer::Other(lineage) => lineage.all(),
            FoundPeer::Agent(_) => connection.holder_processes(),
        };
        let looking = tokio::task::spawn_blocking(move || find_root(&lineage));
        let found = looking.await;
        Ok(found.unwrap_or_else(|_| Err("it could not be looked up".to_owned())))
    }

    /// Drops marks of processes that have ended.
    pub(crate) async fn forget_ended_processes(&self) -> Result<(), ApiError> {
        let mut marked = self.service.marked_processes();
        marked.retain(|process| !procfs::exists(*process));
        Ok(self.service.forget_processes(marked).await?)
    }

    fn owner_principal(&self) -> Arc<Principal> {
        let key = PrincipalKey::new(format!("uid:{}", self.uid));
        Arc::new(Principal {
            role: Role::Operator,
            name: self.login.clone(),
            key,
        })
    }

    /// Refuses a connection whose other end is an agent.
    pub(crate) async fn refuse_agents(
        &self,
        connection: &Arc<CallerConnection>,
    ) -> Result<(), ApiError> {
        match self.find_peer(connection).await? {
            FoundPeer::Agent(agent) => {
                Err(countersign_core::Rejection::AgentNotAllowed(agent).into())
            }
            FoundPeer::Other(_) => Ok(()),
        }
    }

    /// Whether events may still be sent to whoever began to read them.
    pub(crate) async fn may_keep_reading(
        &self,
        connection: &Arc<CallerConnection>,
        identity: &mut CallerIdentity,
    ) -> bool {
        self.refresh_identity(connection, identity).await.is_ok()
            && identity.principal.agent().is_none()
    }

    /// Whether what was done for a caller may be shown to whoever is at the other end now.
    pub(crate) async fn confirm_identity(
        &self,
        connection: &Arc<CallerConnection>,
        identity: &mut CallerIdentity,
    ) -> Result<(), ApiError> {
        let before = identity.principal.key.clone();
        self.refresh_identity(connection, identity).await?;
        if identity.principal.key == before {
            return Ok(());
        }
        let message = "auth failed: the connection is another caller's now";
        Err(ApiError::plain(Reason::AuthFailed, message))
    }

    /// Looks again who is at the other end, and whether an identity still holds.
    pub(crate) async fn refresh_identity(
        &self,
        connection: &Arc<CallerConnection>,
        identity: &mut CallerIdentity,
    ) -> Result<(), ApiError> {
        if identity
            .expires_at
            .is_some_and(|end| self.service.now() >= end)
        {
            return Err(ApiError::plain(
                Reason::AuthFailed,
                "auth failed: the token's time is over",
            ));
        }
        self.find_peer(connection).await?;
        if identity.trust_version != self.service.trust_version()
            || identity.peer_version != connection.version()
        {
            *identity = self.identify(connection, identity.token.clone()).await?;
        }
        Ok(())
    }
}

/// Who an agent is, however it was found out.
pub(crate) fn agent_principal(agent: AgentId) -> Arc<Principal> {
    let key = PrincipalKey::new(format!("agent:{agent}"));
    Arc::new(Principal {
        name: agent.as_str().into(),
        role: Role::Agent(agent),
        key,
    })
}

pub(crate) fn auth_required() -> ApiError {
    ApiError::new(
        ErrorCode::AuthRequired,
        Reason::AuthRequired,
        "auth required: send `session.auth` with a token first, or an `Authorization: Bearer` header",
    )
}

/// The login name of a user, as the record shows it.
pub(crate) fn login_name(uid: u32) -> Arc<str> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.into())
    });
    found.unwrap_or_else(|| format!("uid {uid}").into())
}
