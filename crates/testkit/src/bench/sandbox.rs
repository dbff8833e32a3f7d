//! What a sandbox costs: the start of an agent, a command in a terminal, an open inside of the roots, a build, and a
//! connection that a rule allows. Everything is measured in turns, with a sandbox and without, in one run.
//!
//! Agents are scripted. Opens and connections are measured by this program itself, which the agent runs.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::hosts::MeasuredHost;
use super::measure::Latencies;
use super::report::{Report, Row};
use crate::wire::Connection;

/// What to measure and how much of it.
#[derive(Debug, Clone, Args)]
pub struct SandboxOptions {
    /// The built binary
    #[arg(long, default_value = "target/release/countersign")]
    pub countersign: PathBuf,
    /// An empty folder for agents to work in, which must not be one for temporary files
    #[arg(long, default_value = "target/bench-sandbox")]
    pub folder: PathBuf,
    /// Agents that are started each way
    #[arg(long, default_value_t = 15)]
    pub starts: usize,
    /// Commands and connections of each agent
    #[arg(long, default_value_t = 40)]
    pub commands: usize,
    /// Builds each way; a build takes seconds
    #[arg(long, default_value_t = 3)]
    pub builds: usize,
}

/// What is measured inside a sandbox, by the agent running this program.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum InnerMeasurement {
    /// Open a file for writing, and close it
    Opens { file: PathBuf, count: usize },
    /// Connect to a server and read a byte, through a proxy if there is one
    Connects { server: SocketAddr, count: usize },
}

const OPENS: usize = 20_000;
/// Profiles of the measured host, in the order of the cases.
const PROFILES: [&str; 2] = ["open", "work"];
const CONFIG: &str = "[sandbox.work]\nnetwork = \"proxy\"\n";
const TURN: Duration = Duration::from_mins(5);

#[derive(Default)]
struct SideBySide([Latencies; 2]);

impl SideBySide {
    fn rows(&self, what: &str, in_us: bool) -> Vec<Row> {
        let sides = PROFILES.iter().zip(&self.0);
        let rows = sides.map(|(profile, latencies)| {
            let mut row = Row::new("sandbox", format!("{what}, {profile}"));
            if in_us {
                row.set_latencies_us(latencies);
            } else {
                row.set_latencies_ms(latencies);
            }
            row
        });
        rows.collect()
    }
}

/// Measures everything.
pub async fn run(options: &SandboxOptions) -> Result<Report> {
    let bench = SandboxBench::begin(options).await?;
    let (mut starts, mut terminals, mut builds) = (
        SideBySide::default(),
        SideBySide::default(),
        SideBySide::default(),
    );
    let (mut opens, mut connects) = (SideBySide::default(), SideBySide::default());
    for _ in 0..options.starts {
        for (side, profile) in PROFILES.into_iter().enumerate() {
            let agent = bench.start(profile).await?;
            starts.0[side].record(agent.started_in);
            bench.end(&agent).await?;
        }
    }
    for (side, profile) in PROFILES.into_iter().enumerate() {
        let mut agent = bench.start(profile).await?;
        for _ in 0..options.commands {
            let step = json!([{ "terminal": { "command": "true" } }]);
            terminals.0[side].record(agent.turn(&step).await?);
        }
        for taken in agent.inner(&bench.opens()).await? {
            opens.0[side].record(taken);
        }
        let counted = bench.connects(options.commands);
        for taken in agent.inner(&counted).await? {
            connects.0[side].record(taken);
        }
        bench.end(&agent).await?;
    }
    for _ in 0..options.builds {
        for (side, profile) in PROFILES.into_iter().enumerate() {
            let mut agent = bench.start(profile).await?;
            let line = "rm -rf target && cargo build --offline --quiet";
            let taken = agent.turn(&json!([{ "run": line }])).await?;
            ensure!(bench.built().exists(), "nothing was built");
            builds.0[side].record(taken);
            bench.end(&agent).await?;
        }
    }
    let mut report = Report::default();
    report.add(starts.rows("start of an agent", false));
    report.add(terminals.rows("a turn with a command in a terminal", false));
    report.add(opens.rows("a write-open inside of the roots", true));
    report.add(connects.rows("a connection that a rule allows", false));
    report.add(builds.rows("a small cargo build", false));
    Ok(report)
}

struct SandboxBench {
    host: MeasuredHost,
    countersign: PathBuf,
    folder: PathBuf,
    server: SocketAddr,
    itself: PathBuf,
}

impl SandboxBench {
    async fn begin(options: &SandboxOptions) -> Result<Self> {
        let server = serve_bytes()?;
        let home = tempfile::tempdir()?;
        let rules = format!("allow = [\"Bash\", \"Network(address:{server})\"]\n");
        std::fs::write(home.path().join("rules.toml"), rules)?;
        std::fs::write(home.path().join("config.toml"), CONFIG)?;
        write_crate(&options.folder)?;
        Ok(Self {
            host: MeasuredHost::start_in(&options.countersign, home).await?,
            countersign: options.countersign.canonicalize()?,
            folder: options.folder.canonicalize()?,
            server,
            itself: std::env::current_exe()?,
        })
    }

    async fn start(&self, profile: &str) -> Result<MeasuredAgent> {
        let mut connection = self.host.target()?.connect().await?;
        let began = Instant::now();
        let params = json!({
            "command": [self.countersign, "demo", "agent"], "cwd": self.folder, "sandbox": profile,
        });
        let id = connection.call("host.spawn_agent", &params).await?["id"].take();
        wait(&mut connection, &id).await?;
        Ok(MeasuredAgent {
            id,
            folder: self.folder.clone(),
            started_in: began.elapsed(),
            connection,
        })
    }

    async fn end(&self, agent: &MeasuredAgent) -> Result<()> {
        let mut connection = self.host.target()?.connect().await?;
        let params = json!({ "agent_id": agent.id });
        connection.call("host.kill_agent", &params).await?;
        wait(&mut connection, &agent.id).await
    }

    fn opens(&self) -> String {
        let file = self.folder.join("opened");
        let itself = self.itself.display();
        format!("{itself} sandbox-inner opens {} {OPENS}", file.display())
    }

    fn connects(&self, count: usize) -> String {
        let itself = self.itself.display();
        format!("{itself} sandbox-inner connects {} {count}", self.server)
    }

    fn built(&self) -> PathBuf {
        self.folder.join("target/debug/bench-sandbox")
    }
}

struct MeasuredAgent {
    id: Value,
    folder: PathBuf,
    started_in: Duration,
    connection: Connection,
}

impl MeasuredAgent {
    /// From the prompt to the end of the turn.
    async fn turn(&mut self, steps: &Value) -> Result<Duration> {
        let prompt = json!({ "agent_id": self.id, "message": format!("<script>{steps}</script>") });
        let began = Instant::now();
        self.connection.call("host.prompt_agent", &prompt).await?;
        wait(&mut self.connection, &self.id).await?;
        Ok(began.elapsed())
    }

    /// What a run of this program found, in nanoseconds.
    async fn inner(&mut self, line: &str) -> Result<Vec<Duration>> {
        let line = format!("{line} > measured");
        self.turn(&json!([{ "run": line }])).await?;
        let text = std::fs::read_to_string(self.folder.join("measured"))?;
        let taken = text
            .lines()
            .map(|line| Ok(Duration::from_nanos(line.parse()?)));
        let taken: Vec<_> = taken.collect::<Result<_>>()?;
        ensure!(!taken.is_empty(), "nothing was measured");
        Ok(taken)
    }
}

async fn wait(connection: &mut Connection, id: &Value) -> Result<()> {
    let timeout_ms = u64::try_from(TURN.as_millis()).unwrap_or(u64::MAX);
    let params = json!({ "agent_id": id, "timeout_ms": timeout_ms });
    let found = connection.call("host.wait_agents", &params).await?;
    ensure!(found["reached"] == true, "an agent did not rest: {found}");
    Ok(())
}

/// A program that does little, so that the time is that of the compiler.
fn write_crate(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder.join("src"))?;
    let manifest = "[package]\nname = \"bench-sandbox\"\nedition = \"2024\"\n\n[workspace]\n";
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    let functions = (0..400).map(|n| {
        format!("pub fn number_{n}(x: u64) -> String {{ format!(\"{{:?}}\", vec![x; {n}]) }}\n")
    });
    let text: String = functions.collect();
    std::fs::write(folder.join("src/lib.rs"), text)?;
    let main = "fn main() { println!(\"{}\", bench_sandbox::number_7(3)); }\n";
    std::fs::write(folder.join("src/main.rs"), main)?;
    Ok(())
}

/// A server that says one byte to everyone, until this process ends.
fn serve_bytes() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Whoever went away does not get it.
            drop(stream.write_all(b"x"));
        }
    });
    Ok(address)
}

/// Prints how long each took, in nanoseconds.
#[expect(
    clippy::print_stdout,
    reason = "the agent's run is read from its output"
)]
pub fn measure_inside(what: &InnerMeasurement) -> Result<()> {
    let count = match what {
        InnerMeasurement::Opens { count, .. } | InnerMeasurement::Connects { count, .. } => *count,
    };
    for _ in 0..count {
        let began = Instant::now();
        match what {
            InnerMeasurement::Opens { file, .. } => {
                drop(
                    OpenOptions::new()
                        .write(true)
                        .create(true)
                        .truncate(false)
                        .open(file)?,
                );
            }
            InnerMeasurement::Connects { server, .. } => connect(*server)?,
        }
        println!("{}", began.elapsed().as_nanos());
    }
    Ok(())
}

fn connect(server: SocketAddr) -> Result<()> {
    let proxy = std::env::var("HTTPS_PROXY").ok();
    let mut byte = [0];
    let Some(proxy) = proxy else {
        return Ok(TcpStream::connect(server)?.read_exact(&mut byte)?);
    };
    let address = proxy.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "CONNECT {server} HTTP/1.1\r\n\r\n")?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    ensure!(head.starts_with(b"HTTP/1.1 200"), "it was not allowed");
    Ok(stream.read_exact(&mut byte)?)
}
