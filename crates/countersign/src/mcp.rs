//! `mcp`: the host's MCP tools on standard input and output, for agents that start their servers
//! themselves. Lines that come in are posted to the host, and what it says comes out.
//!
//! Invariants: every request is answered once, unless it was cancelled; what may have been done is
//! said again only where saying it twice does no more than saying it once; nothing is kept that the
//! next host needs, so hosts may come and go; when the agent closes its end, this ends. It is small:
//! there is one for each agent. Who calls is found out by the host, from this process itself, so nothing
//! secret passes through here.

mod call;
pub(crate) mod lines;
mod message;
mod stdout;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use clap::Args;
use countersign_core::limits::MCP_CALLS_AT_ONCE_MAX;

use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::paths::HostPaths;
use crate::random_id::random_id;

use call::CancellableCall;
use lines::{InputLine, InputLines};
use message::{AgentMessage, McpRequest};
use stdout::StdoutWriter;

/// What one call needs besides the lines it holds: little, since it decides nothing.
const CALL_STACK_BYTES: usize = 256 * 1024;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  countersign mcp\n  countersign mcp --socket /run/user/1000/countersign/host.sock\n\nConfiguration of an agent that starts it:\n  {\"mcpServers\": {\"countersign\": {\"command\": \"countersign\", \"args\": [\"mcp\"]}}}\n\nAgents that the host starts have this already."
)]
pub(crate) struct McpArgs {
    /// Unix socket of the host [default: the one of your host]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// The arguments as an agent is told to give them, read without building the whole command line.
/// Anything else is left to it.
pub(crate) fn arguments(mut given: impl Iterator<Item = OsString>) -> Option<McpArgs> {
    if given.next()? != "mcp" {
        return None;
    }
    let socket = match (given.next(), given.next(), given.next()) {
        (None, _, _) => None,
        (Some(flag), Some(socket), None) if flag == "--socket" => Some(PathBuf::from(socket)),
        _ => return None,
    };
    Some(McpArgs { socket })
}

/// Relays until standard input ends.
pub(crate) fn mcp(args: McpArgs) -> Result<CliExit, CliError> {
    let socket = match args.socket {
        Some(socket) => socket,
        None => HostPaths::from_environment()?.socket,
    };
    if io::stdin().is_terminal() {
        // On stderr: stdout carries the protocol and nothing else.
        output::print_message(
            "this command speaks MCP on stdin and stdout; agents start it themselves",
        );
    }
    let bridge = McpBridge::new(&socket, random_id()?);
    relay(&bridge, io::stdin().lock())
        .map_err(|source| CliError::io("could not read from the agent", source))?;
    Ok(CliExit::Ok)
}

/// What all calls share.
struct McpBridge {
    socket: PathBuf,
    /// Tells the calls of this process from those of others.
    nonce: String,
    out: StdoutWriter,
    /// Calls that are not answered yet, by their ids as they were written.
    underway: Mutex<HashMap<String, Arc<CancellableCall>>>,
    /// The version of the protocol that the host agreed to.
    version: Mutex<Option<String>>,
}

impl McpBridge {
    fn new(socket: &Path, nonce: String) -> Arc<Self> {
        Arc::new(Self {
            socket: socket.to_owned(),
            nonce,
            out: StdoutWriter::default(),
            underway: Mutex::default(),
            version: Mutex::default(),
        })
    }

    fn pending_calls(&self) -> MutexGuard<'_, HashMap<String, Arc<CancellableCall>>> {
        self.underway.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a call off the list, unless it was cancelled: then another may have its id.
    fn finish(&self, id: &str, call: &CancellableCall) -> bool {
        let mut all = self.pending_calls();
        let is_this = all
            .get(id)
            .is_some_and(|found| std::ptr::eq(Arc::as_ptr(found), call));
        is_this && all.remove(id).is_some()
    }

    fn version(&self) -> MutexGuard<'_, Option<String>> {
        self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn relay(bridge: &Arc<McpBridge>, input: impl io::BufRead) -> io::Result<()> {
    let mut lines = InputLines::new(input);
    for number in 0_u64.. {
        match lines.next()? {
            None => break,
            Some(InputLine::TooLong) => bridge.out.refuse("null", -32_600, "the line is too long"),
            Some(InputLine::Whole(line)) => handle_line(bridge, line, number),
        }
    }
    Ok(())
}

fn handle_line(bridge: &Arc<McpBridge>, line: Vec<u8>, number: u64) {
    match message::read_agent_message(&line) {
        // Answered here: a ping asks whether this server lives, and it does while a host is being
        // replaced.
        AgentMessage::Request(request) if request.method == "ping" => {
            bridge.out.result(&request.id, "{}");
        }
        AgentMessage::Request(request) => start_call(bridge, request, line, number),
        AgentMessage::Cancelled(id) => {
            // Off the list first: from then on nobody answers under this id. In a statement of its own,
            // so that the list is not locked while the connection is shut down.
            let found = bridge.pending_calls().remove(&id);
            if let Some(underway) = found {
                underway.cancel();
            }
        }
        // The host keeps no sessions, so it has no use for what needs no answer.
        AgentMessage::Other => {}
        // Under no id: which request it would have been cannot be known.
        AgentMessage::Broken(why) => bridge.out.refuse("null", -32_700, why),
    }
}

/// Each call has a thread and a connection of its own: some wait for hours.
fn start_call(bridge: &Arc<McpBridge>, request: McpRequest, line: Vec<u8>, number: u64) {
    let underway = Arc::new(CancellableCall::default());
    let id = request.id.clone();
    {
        let mut all = bridge.pending_calls();
        let refusal = if all.len() >= MCP_CALLS_AT_ONCE_MAX {
            Some("too many calls at once: wait for some answers first")
        } else if all.contains_key(&id) {
            Some("another call has this id")
        } else {
            all.insert(id.clone(), underway.clone());
            None
        };
        drop(all);
        if let Some(message) = refusal {
            return bridge.out.refuse(&id, -32_000, message);
        }
    }
    let own = bridge.clone();
    let started = thread::Builder::new()
        .stack_size(CALL_STACK_BYTES)
        .spawn(move || call::perform(&own, &request, &line, number, &underway));
    if started.is_err() {
        bridge.pending_calls().remove(&id);
        bridge.out.refuse(&id, -32_000, "could not start a thread");
    }
}

#[cfg(test)]
mod tests;
