//! Who is at the other end of a connection: the one decision that every door depends on.
//!
//! It is made when a connection is accepted, and again before anything is done or shown. A caller
//! that cannot be identified is refused, unless the operator allowed unnamed callers.
//!
//! While no process can be an agent's, it is enough to see that the processes which held the socket
//! still hold it. Otherwise all processes are read each time, because a socket can be passed to any
//! of them without a trace.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use countersign_core::AgentId;
use countersign_core::event::ProcessKey;
use countersign_daemon::{CgroupAgent, procfs};
use countersign_protocol::Reason;

use super::Authenticator;
use super::connection::{CallerConnection, ConnectionPeer, PeerHolder, UnnamedReason};
use crate::api_error::ApiError;
use crate::peer::{
    AncestryReach, OrphanOrigin, SocketDescriptor, SocketFacts, TcpEnds, ancestry, find_origin,
    was_started_with,
};

/// Who is at the other end.
#[derive(Clone, Debug)]
pub(crate) enum FoundPeer {
    /// This agent.
    Agent(AgentId),
    /// Not an agent: its token decides, or the user on the Unix socket.
    Other(PeerLineage),
}

/// The processes that hold the other end, and everything they descend from. Empty for an unnamed
/// caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerLineage {
    /// For each holder the chain from it upwards.
    chains: Vec<Vec<ProcessKey>>,
}

impl PeerLineage {
    /// All of them, each holder before what is above it.
    pub(super) fn all(&self) -> Vec<ProcessKey> {
        self.chains.concat()
    }

    /// The processes that use an agent's token: those at the other end, and each of their ancestors
    /// that was started with the token in its environment.
    pub(super) fn users_of(&self, token: &str) -> Vec<ProcessKey> {
        let holders: Vec<_> = self
            .chains
            .iter()
            .filter_map(|chain| chain.first())
            .collect();
        let mut users = self.all();
        users.retain(|process| holders.contains(&process) || was_started_with(process.pid, token));
        users
    }
}

impl Authenticator {
    /// Finds the agent at the other end, if there is one, and refuses a peer that cannot be
    /// identified.
    pub(crate) async fn find_peer(
        &self,
        connection: &Arc<CallerConnection>,
    ) -> Result<FoundPeer, ApiError> {
        // Final: no later look can make the connection anybody else's.
        if let Some(agent) = connection.record().agent.clone() {
            return Ok(FoundPeer::Agent(agent));
        }
        match connection.peer {
            ConnectionPeer::Unix { process, .. } => self.inspect_process(connection, process).await,
            ConnectionPeer::Tcp(ends) => self.inspect_socket(connection, ends).await,
        }
        self.judge_peer(connection).await?;
        let record = connection.record();
        match (&record.agent, record.unnamed) {
            // Before `unnamed`: one holder that cannot be identified does not hide an agent among
            // the others, and `unnamed_callers` lets no agent in.
            (Some(agent), _) => Ok(FoundPeer::Agent(agent.clone())),
            (None, Some(reason)) if connection.is_unix() || !self.unnamed_callers => {
                Err(refuse_unnamed(reason, connection))
            }
            (None, _) => {
                let holders = record.holders.iter();
                let chains = holders.map(|holder| holder.chain.clone()).collect();
                Ok(FoundPeer::Other(PeerLineage { chains }))
            }
        }
    }

    /// The kernel named the process when it connected; it must still be that one.
    async fn inspect_process(
        &self,
        connection: &Arc<CallerConnection>,
        process: Option<ProcessKey>,
    ) {
        // Without /proc no descent is known, and only the user is checked: SECURITY.md, macOS.
        if cfg!(not(target_os = "linux")) {
            return;
        }
        let Some(process) = process.filter(|process| procfs::exists(*process)) else {
            return connection.record().note_unnamed(UnnamedReason::Ended);
        };
        // The chain that was judged is kept: ancestors that ended since would only be missing from
        // a new one.
        if self.is_judged(connection) {
            return;
        }
        let reading = tokio::task::spawn_blocking(move || find_chain(process.pid));
        let chain = reading.await.unwrap_or(Err(UnnamedReason::Ended));
        let mut record = connection.record();
        match chain {
            Ok(chain) => record.note_holders(vec![PeerHolder {
                descriptor: None,
                chain,
                is_foreign: false,
            }]),
            Err(reason) => record.note_unnamed(reason),
        }
    }

    async fn inspect_socket(&self, connection: &Arc<CallerConnection>, ends: TcpEnds) {
        // It becomes true before the first process of an agent starts: while it is false, no
        // process is an agent's.
        let has_agents = self.service.has_agent_processes();
        if !has_agents && self.is_judged(connection) && is_held_as_before(connection) {
            return;
        }
        let facts = match self.peers.describe(ends) {
            Ok(Some(facts)) => facts,
            Ok(None) => return connection.record().note_unnamed(UnnamedReason::Closed),
            Err(_) => return connection.record().note_unnamed(UnnamedReason::Hidden),
        };
        connection.record().note_socket(facts);
        // Noted, and its holders are read all the same: an agent of ours may be among them.
        if facts.uid != self.uid {
            connection.record().note_unnamed(UnnamedReason::OtherUser);
        }
        let descriptors = self.find_descriptors(facts, has_agents).await;
        self.note_descriptors(connection, facts, descriptors).await;
    }

    async fn find_descriptors(
        &self,
        facts: SocketFacts,
        has_agents: bool,
    ) -> Vec<SocketDescriptor> {
        let found = if has_agents {
            self.peers.find_all(facts.inode).await
        } else {
            self.peers.find_some(facts.inode).await
        };
        if !found.is_empty() {
            return found;
        }
        // A socket that is passed from a process to its child during a scan may be seen in neither.
        // A second scan finds it.
        self.peers.find_all(facts.inode).await
    }

    async fn note_descriptors(
        &self,
        connection: &Arc<CallerConnection>,
        facts: SocketFacts,
        descriptors: Vec<SocketDescriptor>,
    ) {
        // Holders that were read before the last change of trust are read again: the version says
        // that something about their ancestors may be known now.
        let known = if self.is_judged(connection) {
            connection.record().holders.clone()
        } else {
            Vec::new()
        };
        let uid = self.uid;
        let reading = tokio::task::spawn_blocking(move || {
            let holders = descriptors.into_iter();
            let holders = holders.map(|one| find_holder(one, facts.inode, uid, &known));
            holders.filter_map(Result::transpose).collect()
        });
        let found: Vec<Result<_, _>> = reading.await.unwrap_or_default();
        let mut record = connection.record();
        if found.is_empty() {
            return record.note_unnamed(UnnamedReason::Hidden);
        }
        // All of them are noted, also if one cannot be identified: an agent may be among the
        // others.
        let mut holders = Vec::new();
        for holder in found {
            match holder {
                Ok(holder) => holders.push(holder),
                Err(reason) => record.note_unnamed(reason),
            }
        }
        if holders.iter().any(|holder| holder.is_foreign) {
            record.note_unnamed(UnnamedReason::OtherUser);
        }
        record.note_holders(holders);
    }

    /// Whether nothing has changed since it was last decided who the peer is.
    fn is_judged(&self, connection: &CallerConnection) -> bool {
        let record = connection.record();
        record.judged == Some((self.service.trust_version(), record.version))
    }

    /// Finds the agent among all that were ever seen at the other end.
    async fn judge_peer(&self, connection: &Arc<CallerConnection>) -> Result<(), ApiError> {
        if self.is_judged(connection) {
            return Ok(());
        }
        // Read before the search, like `version` below: what changes during the search is not
        // covered by it, and is judged the next time.
        let trust_version = self.service.trust_version();
        if !self.service.has_agent_processes() {
            let mut record = connection.record();
            record.judged = Some((trust_version, record.version));
            return Ok(());
        }
        self.judge_creator(connection).await?;
        let (version, seen, chains) = {
            let record = connection.record();
            let chains = record.holders.iter().map(|holder| holder.chain.clone());
            (record.version, record.seen.clone(), chains.collect())
        };
        // Marks are looked up for everybody who ever held the socket; descent and cgroups, which
        // only living processes have, for those who hold it now.
        let agent = match self.service.find_marked(&seen) {
            Some(agent) => Some(agent),
            None => self.find_ancestor_agent(chains).await?,
        };
        let mut record = connection.record();
        match agent {
            Some(agent) => record.note_agent(agent),
            None => record.judged = Some((trust_version, version)),
        }
        Ok(())
    }

    /// A socket that was created in an agent's cgroup is that agent's, whatever process holds it
    /// now.
    async fn judge_creator(&self, connection: &Arc<CallerConnection>) -> Result<(), ApiError> {
        let cgroup = {
            let record = connection.record();
            let socket = record.socket.filter(|_| !record.creator_checked);
            socket.and_then(|facts| facts.cgroup)
        };
        let Some(cgroup) = cgroup else { return Ok(()) };
        let creator = self.service.find_cgroup_agent(cgroup).await?;
        let mut record = connection.record();
        // Once is enough: the creator of a socket does not change, and its cgroup may be removed.
        record.creator_checked = true;
        match creator {
            CgroupAgent::Agent(agent) => record.note_agent(agent),
            CgroupAgent::Unknown => record.note_unnamed(UnnamedReason::CreatorUnknown),
            CgroupAgent::None => {}
        }
        Ok(())
    }

    /// The agent that a holder descends from, or descended from before its parent ended.
    async fn find_ancestor_agent(
        &self,
        chains: Vec<Vec<ProcessKey>>,
    ) -> Result<Option<AgentId>, ApiError> {
        if let Some(agent) = self.service.find_agent_of(chains.concat()).await? {
            return Ok(Some(agent));
        }
        // What a managed agent detached is still in its cgroup or below its runner and was found
        // above. An agent that the host did not start has neither, so its orphans are looked for.
        let outside = self.service.outside_processes();
        if outside.is_empty() {
            return Ok(None);
        }
        let roots: Vec<ProcessKey> = outside.iter().map(|(root, _)| *root).collect();
        let reading = tokio::task::spawn_blocking(move || {
            let origins = chains.iter().map(|chain| find_origin(chain, &roots));
            origins.collect::<Vec<OrphanOrigin>>()
        });
        // A search that failed proves nothing, so the caller is refused.
        let origins = reading
            .await
            .unwrap_or_else(|_| vec![OrphanOrigin::Doubtful]);
        let known = outside
            .into_iter()
            .find(|(root, _)| origins.contains(&OrphanOrigin::Root(*root)));
        if let Some((_, agent)) = known {
            return Ok(Some(agent));
        }
        if origins.contains(&OrphanOrigin::Doubtful) {
            let message = "the calling process may belong to an agent: the process that started it has ended, and an \
                           agent that the host did not start is running. Run this from a terminal";
            return Err(ApiError::refused(Reason::AuthFailed, message));
        }
        Ok(None)
    }
}

/// Whether each process that held the socket still has it under the same descriptor.
fn is_held_as_before(connection: &CallerConnection) -> bool {
    let record = connection.record();
    let Some(socket) = record.socket else {
        return false;
    };
    // `all` is true for an empty list, and then no holder would ever be looked for again.
    !record.holders.is_empty()
        && record.holders.iter().all(|holder| {
            let descriptor = holder.descriptor;
            descriptor.is_some_and(|descriptor| descriptor.is_socket(socket.inode))
        })
}

/// The process behind a descriptor, with its ancestors. `None` if it has let the socket go.
fn find_holder(
    descriptor: SocketDescriptor,
    inode: u64,
    uid: u32,
    known: &[PeerHolder],
) -> Result<Option<PeerHolder>, UnnamedReason> {
    // The key and not the number, which another process may have got since.
    let process = procfs::find_key(descriptor.pid);
    let same = known.iter().find(|holder| {
        holder.descriptor == Some(descriptor) && holder.chain.first().copied() == process
    });
    if let Some(same) = same {
        return Ok(Some(same.clone()));
    }
    let owner = fs::metadata(format!("/proc/{}", descriptor.pid)).map(|found| found.uid());
    let chain = find_chain(descriptor.pid);
    // Checked after the reads: if the process still holds the socket, its number was not given to
    // another one during them.
    if !descriptor.is_socket(inode) {
        return Ok(None);
    }
    Ok(Some(PeerHolder {
        descriptor: Some(descriptor),
        chain: chain?,
        is_foreign: owner.is_ok_and(|owner| owner != uid),
    }))
}

fn find_chain(pid: u32) -> Result<Vec<ProcessKey>, UnnamedReason> {
    let found = ancestry(pid);
    match found.reach {
        AncestryReach::TooDeep => Err(UnnamedReason::TooDeep),
        AncestryReach::Lost if !found.processes.is_empty() => Err(UnnamedReason::Changing),
        _ if found.processes.is_empty() => Err(UnnamedReason::Ended),
        // An ancestor that exists and cannot be read is a normal end of the chain: where /proc
        // hides other users' processes, the ancestors of every login shell look like that.
        _ => Ok(found.processes),
    }
}

fn refuse_unnamed(reason: UnnamedReason, connection: &CallerConnection) -> ApiError {
    let advice = if connection.is_unix() {
        ""
    } else {
        ". Call from a process of your own on this machine, or by the Unix socket; for a forwarded port, set \
         `unnamed_callers = true` under `[server]` in config.toml"
    };
    tracing::info!(peer = ?connection.peer, %reason, "refused a caller that cannot be named");
    let message = format!("the calling process cannot be identified: {reason}{advice}");
    ApiError::refused(Reason::AuthFailed, message)
}
