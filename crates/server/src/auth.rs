//! Who is calling: found out from the kernel first, and only then from what the caller shows.
//!
//! Invariants: a process that is an agent, or descends from one, is that agent, whatever token it
//! shows; a process that uses an agent's token is marked as that agent before anything is done
//! for it; what could not be found out about a peer on this machine is refused, not assumed.

mod connection;
mod find_peer;

use std::sync::Arc;

use countersign_core::event::ProcessKey;
use countersign_core::{AgentId, Principal, PrincipalKey, Role, Timestamp, TokenId};
use countersign_daemon::{Service, TokenIdentity, procfs};
use countersign_protocol::{ErrorCode, Reason};

use crate::api_error::ApiError;
use crate::peer::{TcpPeers, find_root};
use crate::request_log;

pub(crate) use connection::{CallerConnection, ConnectionPeer};
pub(crate) use find_peer::{FoundPeer, PeerLineage};

/// Who a caller is, and what has to stay the same for that to hold.
#[derive(Clone, Debug)]
pub(crate) struct CallerIdentity {
    pub(crate) principal: Arc<Principal>,
    expires_at: Option<Timestamp>,
    trust_version: u64,
    /// The version of what was known about the other end.
    peer_version: u64,
    token: Option<Arc<str>>,
    /// The token, if a device is logged in with it.
    device: Option<TokenId>,
}

/// Identifies callers.
pub(crate) struct Authenticator {
    pub(crate) service: Service,
    pub(crate) peers: Arc<TcpPeers>,
    /// The user that the host runs as, the only one that may use the Unix socket.
    pub(crate) uid: u32,
    pub(crate) login: Arc<str>,
    /// Whether a token alone is enough on TCP if the calling process cannot be identified.
    pub(crate) unnamed_callers: bool,
}

impl Authenticator {
    /// Identifies a caller by its process, and by its token if the process is not an agent's.
    pub(crate) async fn identify(
        &self,
        connection: &Arc<CallerConnection>,
        token: Option<Arc<str>>,
    ) -> Result<CallerIdentity, ApiError> {
        // Read before anything is looked up: a mark or a revocation that comes meanwhile then makes
        // this identity stale, and the next request identifies the caller again.
        let trust_version = self.service.trust_version();
        // The mode of the socket keeps other users out. This check still holds if somebody widened
        // it.
        if let ConnectionPeer::Unix { uid, .. } = connection.peer
            && uid != self.uid
        {
            return Err(ApiError::refused(
                Reason::AuthFailed,
                "only the owner of the socket may use it",
            ));
        }
        // The token first, because it is cheap: a caller without a valid one must not be able to
        // make the host search /proc with every request.
        let bearer = self.find_bearer(token.as_deref())?;
        if bearer.is_none() && !connection.is_unix() {
            return Err(auth_required());
        }
        let found = self.find_peer(connection).await?;
        let (principal, expires_at, device) = match (found, bearer) {
            (FoundPeer::Agent(agent), _) => (agent_principal(&self.service, agent), None, None),
            // The process decides and not the token: an agent that got hold of an operator's token
            // is still that agent.
            (FoundPeer::Other(lineage), Some((token, bearer))) => {
                if let Role::Agent(agent) = &bearer.principal.role {
                    // Committed before the caller is served, so that none of these processes can
                    // show an operator's token afterwards, nor after a restart of the host.
                    self.mark_token_users(agent, &token, &lineage).await?;
                    // The connection as well: passing it on to an unmarked process changes nothing.
                    connection.note_agent(agent.clone());
                }
                (bearer.principal, bearer.expires_at, bearer.device)
            }
            // Only on the Unix socket, whose user was checked above.
            (FoundPeer::Other(_), None) => (self.owner_principal(), None, None),
        };
        if let Some(device) = &device {
            self.service.note_device_use(device).await;
        }
        request_log::note_principal(&principal);
        Ok(CallerIdentity {
            principal,
            expires_at,
            trust_version,
            peer_version: connection.version(),
            token,
            device,
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

    /// Marks every process that uses an agent's token as that agent.
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

    /// Marks a process as an agent's. If there are too many marks, those of ended processes go
    /// first.
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
        // The first error is not looked at: if it was another one than "too many", the second
        // attempt fails in the same way and reports it.
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
            // An agent is known by its connection alone; its processes are still needed here, to
            // tell the session that was registered from one that it started.
            FoundPeer::Agent(_) => connection.holder_processes(),
        };
        let found = tokio::task::spawn_blocking(move || find_root(&lineage)).await;
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

    /// Whether a reader of events may get the next ones: its identity still holds, and it is not an
    /// agent.
    pub(crate) async fn may_keep_reading(
        &self,
        connection: &Arc<CallerConnection>,
        identity: &mut CallerIdentity,
    ) -> bool {
        self.refresh_identity(connection, identity).await.is_ok()
            && identity.principal.agent().is_none()
    }

    /// Refuses if the connection belongs to another caller than the one that made the request.
    pub(crate) async fn confirm_identity(
        &self,
        connection: &Arc<CallerConnection>,
        identity: &mut CallerIdentity,
    ) -> Result<(), ApiError> {
        // The key and not the whole identity: what was learnt about other callers meanwhile changes
        // the versions, and the caller can still be the same.
        let before = identity.principal.key.clone();
        self.refresh_identity(connection, identity).await?;
        if identity.principal.key == before {
            return Ok(());
        }
        let message = "auth failed: the connection now belongs to another caller";
        Err(ApiError::plain(Reason::AuthFailed, message))
    }

    /// Refuses if the connection does not belong to this agent.
    pub(crate) async fn confirm_agent(
        &self,
        connection: &Arc<CallerConnection>,
        agent: &str,
    ) -> Result<(), ApiError> {
        match self.find_peer(connection).await? {
            FoundPeer::Agent(found) if found.as_str() == agent => Ok(()),
            FoundPeer::Agent(_) | FoundPeer::Other(_) => {
                let message = "auth failed: the connection now belongs to another caller";
                Err(ApiError::plain(Reason::AuthFailed, message))
            }
        }
    }

    /// Brings an identity up to date: the token may have expired or been revoked, and the
    /// connection may have been passed to another process.
    pub(crate) async fn refresh_identity(
        &self,
        connection: &Arc<CallerConnection>,
        identity: &mut CallerIdentity,
    ) -> Result<(), ApiError> {
        self.refresh_expiry(identity)?;
        // Always, and before the versions are compared: this is what notices that the connection
        // was passed on, and then the peer's version rises.
        self.find_peer(connection).await?;
        if identity.trust_version != self.service.trust_version()
            || identity.peer_version != connection.version()
        {
            *identity = self.identify(connection, identity.token.clone()).await?;
        } else if let Some(device) = &identity.device {
            self.service.note_device_use(device).await;
        }
        Ok(())
    }

    fn refresh_expiry(&self, identity: &mut CallerIdentity) -> Result<(), ApiError> {
        let now = self.service.now();
        if identity.expires_at.is_none_or(|end| now < end) {
            return Ok(());
        }
        // A device that was used since is logged in for longer than was known before.
        let token = identity.token.as_deref();
        let Some(bearer) = token.and_then(|token| self.service.identify(token)) else {
            let message = "auth failed: the token has expired";
            return Err(ApiError::plain(Reason::AuthFailed, message));
        };
        identity.expires_at = bearer.expires_at;
        Ok(())
    }

    /// Whether the token that a caller was identified by was withdrawn or has expired.
    pub(crate) fn has_lost_token(&self, identity: &CallerIdentity) -> bool {
        let token = identity.token.as_deref();
        token.is_some_and(|token| self.service.identify(token).is_none())
    }
}

/// The principal of an agent that was identified by its process.
pub(crate) fn agent_principal(service: &Service, agent: AgentId) -> Arc<Principal> {
    // The same key that the daemon gives to an agent's token: what the agent asked under one of
    // them is its own under the other.
    let key = PrincipalKey::new(format!("agent:{agent}"));
    let name = service.agent_name(&agent);
    Arc::new(Principal {
        name: name.map_or_else(|| agent.as_str().into(), Arc::from),
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
    // The file is enough, because the name is only shown: a user is identified by the number.
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.into())
    });
    found.unwrap_or_else(|| format!("uid {uid}").into())
}
