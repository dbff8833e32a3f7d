//! Who is calling: found out from the kernel first, and only then from what the caller shows.
//!
//! Invariants: a process that is an agent, or descends from one, is that agent, whatever token it
//! shows; a process that uses an agent's token is marked as that agent before anything is done
//! for it; what could not be found out about a peer on this machine is refused, not assumed.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use countersign_core::event::ProcessKey;
use countersign_core::{AgentId, Principal, PrincipalKey, Role, Timestamp};
use countersign_daemon::{Identified, Service};
use countersign_protocol::{ErrorCode, Reason};

use tokio::sync::OwnedSemaphorePermit;

use crate::fault::Fault;
use crate::peer::{
    Found, Origin, ProcessId, Reach, TcpPeers, ancestry, find_root, identify, origin, was_given,
};

/// The other end of a connection, as the kernel names it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    /// A process on the Unix socket, as it was when it connected: its number may be another's later.
    Unix {
        uid: u32,
        process: Option<ProcessId>,
    },
    /// A TCP connection.
    Tcp { peer: SocketAddr, local: SocketAddr },
}

/// A connection and what was found out about its other end, once.
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    /// Held as long as anything of the connection lives, its upgrade included.
    _room: OwnedSemaphorePermit,
    lineage: OnceLock<Result<Lineage, &'static str>>,
}

/// The processes that hold the other end, and everything they descend from.
#[derive(Clone, Debug, Default)]
struct Lineage {
    holders: Vec<ProcessKey>,
    all: Vec<ProcessKey>,
    /// The same for each holder by itself, the holder first.
    chains: Vec<Vec<ProcessKey>>,
}

impl Lineage {
    /// Who uses an agent's token: those at the other end, and whoever was started with it and
    /// lets a child of its own speak.
    fn users_of(&self, token: &str) -> Vec<ProcessKey> {
        let mut users = self.all.clone();
        users.retain(|process| self.holders.contains(process) || was_given(process.pid, token));
        users
    }
}

impl Connection {
    pub(crate) fn new(peer: Peer, room: OwnedSemaphorePermit) -> Self {
        Self {
            peer,
            _room: room,
            lineage: OnceLock::new(),
        }
    }

    /// Whether the other end is on the Unix socket.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.peer, Peer::Unix { .. })
    }

    async fn lineage(self: &Arc<Self>, peers: &Arc<TcpPeers>) -> Result<Lineage, Fault> {
        let found = if let Some(found) = self.lineage.get() {
            found.clone()
        } else {
            let (connection, peers) = (self.clone(), peers.clone());
            let looking = tokio::task::spawn_blocking(move || {
                connection
                    .lineage
                    .get_or_init(|| look_up(connection.peer, &peers))
                    .clone()
            });
            looking.await.unwrap_or(Err("it could not be looked up"))
        };
        found.map_err(|why| {
            Fault::refused(
                Reason::AuthFailed,
                format!("the calling process is not known: {why}"),
            )
        })
    }
}

fn look_up(peer: Peer, peers: &TcpPeers) -> Result<Lineage, &'static str> {
    let pids = match peer {
        Peer::Unix {
            process: Some(process),
            ..
        } if identify(process.pid) == Some(process) => {
            vec![process.pid]
        }
        Peer::Unix { .. } if cfg!(target_os = "linux") => return Err("it has ended"),
        // Without /proc nobody's descent is known; SECURITY.md says so.
        Peer::Unix { .. } => Vec::new(),
        Peer::Tcp { peer, local } => match peers.look_up(peer, local) {
            Found::Held(pids) => pids,
            // Another user's process or a forwarded port: the token alone counts.
            Found::Hidden => Vec::new(),
            Found::Closed => return Err("it closed its end"),
        },
    };
    let mut lineage = Lineage::default();
    for pid in pids {
        let found = ancestry(pid);
        if found.reach == Reach::TooDeep {
            return Err("it is nested too deeply");
        }
        let processes = found.processes.iter().map(|id| ProcessKey {
            pid: id.pid,
            start_time: id.start_time,
        });
        let chain: Vec<ProcessKey> = processes.collect();
        lineage.holders.push(*chain.first().ok_or("it has ended")?);
        lineage.all.extend(&chain);
        lineage.chains.push(chain);
    }
    Ok(lineage)
}

/// Who a caller turned out to be, and until when that holds.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) principal: Arc<Principal>,
    expires_at: Option<Timestamp>,
    trust_version: u64,
    token: Option<Arc<str>>,
}

/// What finding out who is calling needs.
pub(crate) struct Doorkeeper {
    pub(crate) service: Service,
    pub(crate) peers: Arc<TcpPeers>,
    /// Who the host runs as: the only user the Unix socket lets in.
    pub(crate) uid: u32,
    pub(crate) login: Arc<str>,
}

impl Doorkeeper {
    /// Finds out who is calling, with what they show.
    pub(crate) async fn identify(
        &self,
        connection: &Arc<Connection>,
        token: Option<Arc<str>>,
    ) -> Result<Identity, Fault> {
        let trust_version = self.service.trust_version();
        if let Peer::Unix { uid, .. } = connection.peer
            && uid != self.uid
        {
            return Err(Fault::refused(
                Reason::AuthFailed,
                "the socket is for its owner alone",
            ));
        }
        // First what is cheap: who shows nothing, or nothing that is known, costs no search of /proc.
        let bearer = self.find_bearer(token.as_deref()).await?;
        if bearer.is_none() && !connection.is_unix() {
            return Err(auth_required());
        }
        let lineage = connection.lineage(&self.peers).await?;
        let descends_from = self.descent(&lineage).await?;
        let (principal, expires_at) = match (descends_from, bearer) {
            (Some(agent), _) => (agent_by_descent(agent), None),
            (None, Some((token, bearer))) => {
                self.mark_users(&bearer, &token, &lineage).await?;
                (bearer.principal, bearer.expires_at)
            }
            (None, None) => (self.owner(), None),
        };
        Ok(Identity {
            principal,
            expires_at,
            trust_version,
            token,
        })
    }

    /// The agent that a caller descends from, or did before what started it ended.
    async fn descent(&self, lineage: &Lineage) -> Result<Option<AgentId>, Fault> {
        if let Some(agent) = self.service.agent_among(lineage.all.clone()).await? {
            return Ok(Some(agent));
        }
        let outside = self.service.outside_processes().await?;
        if outside.is_empty() {
            return Ok(None);
        }
        let chains = lineage.chains.clone();
        let roots: Vec<ProcessKey> = outside.iter().map(|(root, _)| *root).collect();
        let looking = tokio::task::spawn_blocking(move || {
            let origins = chains.iter().map(|chain| origin(chain, &roots));
            origins.collect::<Vec<Origin>>()
        });
        let origins = looking.await.unwrap_or_else(|_| vec![Origin::Doubtful]);
        let known = outside
            .into_iter()
            .find(|(root, _)| origins.contains(&Origin::Root(*root)));
        if let Some((_, agent)) = known {
            return Ok(Some(agent));
        }
        if origins.contains(&Origin::Doubtful) {
            let words = "the calling process may be an agent's: whatever started it has ended, and an \
                         agent that the host did not start is there. Run this from a terminal";
            return Err(Fault::refused(Reason::AuthFailed, words));
        }
        Ok(None)
    }

    async fn find_bearer(
        &self,
        token: Option<&str>,
    ) -> Result<Option<(String, Identified)>, Fault> {
        let Some(token) = token else { return Ok(None) };
        let bearer = self.service.identify(token).await?;
        let bearer = bearer
            .ok_or_else(|| Fault::plain(Reason::AuthFailed, "auth failed: token mismatch"))?;
        Ok(Some((token.to_owned(), bearer)))
    }

    /// Whoever uses an agent's token is that agent, before anything is done for it.
    async fn mark_users(
        &self,
        bearer: &Identified,
        token: &str,
        lineage: &Lineage,
    ) -> Result<(), Fault> {
        if let Role::Agent(agent) = &bearer.principal.role {
            for process in lineage.users_of(token) {
                self.mark(agent, process).await?;
            }
        }
        Ok(())
    }

    /// Marks a process; where there is no room, those that ended make it.
    pub(crate) async fn mark(&self, agent: &AgentId, process: ProcessKey) -> Result<(), Fault> {
        if self
            .service
            .mark_process(agent.clone(), process)
            .await
            .is_ok()
        {
            return Ok(());
        }
        self.forget_ended().await?;
        Ok(self.service.mark_process(agent.clone(), process).await?)
    }

    /// The process that an agent's hook was started by, or in words why there is none.
    pub(crate) async fn root_of(
        &self,
        connection: &Arc<Connection>,
    ) -> Result<Result<ProcessKey, String>, Fault> {
        let lineage = connection.lineage(&self.peers).await?;
        let looking = tokio::task::spawn_blocking(move || find_root(&lineage.all));
        let found = looking.await;
        Ok(found.unwrap_or_else(|_| Err("it could not be looked up".to_owned())))
    }

    /// Drops marks of processes that have ended.
    pub(crate) async fn forget_ended(&self) -> Result<(), Fault> {
        let mut marked = self.service.marked_processes().await?;
        marked.retain(|process| {
            identify(process.pid).is_none_or(|id| id.start_time != process.start_time)
        });
        Ok(self.service.forget_processes(marked).await?)
    }

    fn owner(&self) -> Arc<Principal> {
        let key = PrincipalKey::new(format!("uid:{}", self.uid));
        Arc::new(Principal {
            role: Role::Operator,
            name: self.login.clone(),
            key,
        })
    }

    /// Refuses a connection whose other end is an agent.
    pub(crate) async fn refuse_agents(&self, connection: &Arc<Connection>) -> Result<(), Fault> {
        let lineage = connection.lineage(&self.peers).await?;
        match self.descent(&lineage).await? {
            Some(agent) => Err(countersign_core::Rejection::AgentNotAllowed(agent).into()),
            None => Ok(()),
        }
    }

    /// Whether events may still be sent to whoever began to read them.
    pub(crate) async fn may_read_on(
        &self,
        connection: &Arc<Connection>,
        identity: &mut Identity,
    ) -> bool {
        self.refresh(connection, identity).await.is_ok() && identity.principal.agent().is_none()
    }

    /// Whether an identity still holds; looks again when trust has changed since.
    pub(crate) async fn refresh(
        &self,
        connection: &Arc<Connection>,
        identity: &mut Identity,
    ) -> Result<(), Fault> {
        if identity
            .expires_at
            .is_some_and(|end| self.service.now() >= end)
        {
            return Err(Fault::plain(
                Reason::AuthFailed,
                "auth failed: the token's time is over",
            ));
        }
        if identity.trust_version != self.service.trust_version() {
            *identity = self.identify(connection, identity.token.clone()).await?;
        }
        Ok(())
    }
}

/// Who an agent is, however it was found out.
pub(crate) fn agent_by_descent(agent: AgentId) -> Arc<Principal> {
    let key = PrincipalKey::new(format!("agent:{agent}"));
    Arc::new(Principal {
        name: agent.as_str().into(),
        role: Role::Agent(agent),
        key,
    })
}

pub(crate) fn auth_required() -> Fault {
    Fault::new(
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
