//! A host's connection: its hello, what it asks for, and what it is sent.
//!
//! Invariants: nothing is served before a hello was accepted; sending never waits for reading, nor
//! reading for sending.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use countersign_core::limits;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::frame::{read_frame, write_frame};
use super::state::{HostHandle, HostHello, SendStep};
use super::wire::{LaunchRequest, ToHost, ToRunner};
use super::{Runner, shell_calls};
use crate::adapter::{WriteId, WriteKind};

/// Serves one caller that may be served, until it goes or another takes its place.
/// `turn` is given back when it has said who it is.
pub(super) async fn serve(runner: Arc<Runner>, stream: UnixStream, turn: OwnedSemaphorePermit) {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    let patience = Duration::from_millis(limits::LINK_CONNECT_MS);
    let Ok(greeted) = timeout(patience, read_hello(&mut from)).await else {
        return;
    };
    // Given back before anything else: a host stays for hours, and others must be able to say
    // hello.
    drop(turn);
    let welcomed = greeted.and_then(|greeting| runner.state().welcome(&greeting));
    let joined = match welcomed {
        Ok(joined) => joined,
        Err(why) => return refuse(&mut to, why).await,
    };
    tokio::select! {
        () = joined.over.cancelled() => {}
        told = send_all(&runner, &joined, to) => {
            if let Err(error) = told {
                tracing::debug!(%error, "a host could not be told");
            }
        }
        () = perform_all(&runner, &joined, from) => {}
    }
    runner.state().disconnect(joined.number);
}

/// Says why, and nothing else.
pub(super) async fn refuse(to: &mut OwnedWriteHalf, why: String) {
    let patience = Duration::from_millis(limits::LINK_CONNECT_MS);
    let refused = ToHost::Refused { why };
    // Whoever does not want to know need not.
    drop(timeout(patience, write_frame(to, &refused, &[])).await);
}

async fn read_hello(from: &mut BufReader<OwnedReadHalf>) -> Result<HostHello, String> {
    match read_frame(from).await {
        Ok(Some((
            ToRunner::Hello {
                oldest,
                newest,
                heard,
                open,
            },
            _,
        ))) => Ok(HostHello {
            oldest,
            newest,
            heard,
            open,
        }),
        Ok(_) => Err("a host says hello first".to_owned()),
        Err(error) => Err(format!("no hello could be read: {error}")),
    }
}

async fn send_all(runner: &Runner, joined: &HostHandle, mut to: OwnedWriteHalf) -> io::Result<()> {
    loop {
        let next = runner.state().next(joined.number)?;
        match next {
            SendStep::Send(bytes) => to.write_all(&bytes).await?,
            SendStep::Wait => joined.wake.notified().await,
            SendStep::Leave => return Ok(()),
        }
    }
}

/// Until the host goes. After a word that cannot be obeyed it is only waited for that it is told.
async fn perform_all(
    runner: &Arc<Runner>,
    joined: &HostHandle,
    mut from: BufReader<OwnedReadHalf>,
) {
    loop {
        let why = match read_frame(&mut from).await {
            Ok(Some((order, body))) => match perform(runner, joined, order, &body) {
                Ok(()) => continue,
                Err(why) => why,
            },
            // The connection still works, so the host is told. Any other error ended it.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
            Ok(None) | Err(_) => return,
        };
        runner.state().refuse(joined.number, why);
        // Returning would end the connection before the refusal is sent; `send_all` ends it instead.
        return std::future::pending().await;
    }
}

fn perform(
    runner: &Arc<Runner>,
    joined: &HostHandle,
    order: ToRunner,
    body: &[u8],
) -> Result<(), String> {
    let number = joined.number;
    match order {
        ToRunner::Hello { .. } => return Err("a host says hello once".to_owned()),
        ToRunner::Launch(launch) => launch_once(runner, number, launch),
        ToRunner::Write { items } => return runner.queue_writes(number, items, body),
        ToRunner::Committed { through, open } => {
            return runner.state().host_committed(number, through, &open);
        }
        ToRunner::Claim { id, name } => return claim(runner, number, id, name),
        ToRunner::Shell { id, call } => shell_calls::call(runner, joined, id, call),
        ToRunner::Release { id, hold, allow } => {
            let mut state = runner.state();
            let known = state.holds.release(hold, allow);
            state.send_to(number, &ToHost::Released { id, known }, &[], None);
        }
        ToRunner::Stop { grace_ms } => runner.stop(Duration::from_millis(grace_ms)),
        ToRunner::Bye => runner.bye.cancel(),
    }
    Ok(())
}

fn launch_once(runner: &Arc<Runner>, host: u64, launch: LaunchRequest) {
    let told = match runner.launch_once(launch) {
        Ok(process) => ToHost::Launched { process },
        Err(why) => ToHost::NotLaunched { why },
    };
    runner.state().send_to(host, &told, &[], None);
}

fn claim(runner: &Runner, host: u64, id: u64, name: WriteId) -> Result<(), String> {
    let mut state = runner.state();
    // Looked up and recorded under one lock, so that of two hosts only one is told that it is first.
    let fresh = state.claimed.find_kind(&name).is_none();
    if fresh && state.claimed.len() >= limits::RUNNER_USED_IDS_MAX {
        return Err("too much is claimed".to_owned());
    }
    if fresh {
        state.claimed.insert(name, WriteKind::Unspecified);
    }
    state.send_to(host, &ToHost::Claimed { id, fresh }, &[], None);
    Ok(())
}
