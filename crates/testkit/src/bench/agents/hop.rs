//! The hop through a runner: lines that are answered at once, over a pipe and through a runner.
//!
//! The agent is this program again ([`ask_lines`]): it writes a line, waits for one and notes how long
//! that took. The host answers without a look. Both ways take turns, so that a busy machine is the
//! same for both.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use countersign_agents::ProcessTree;
use countersign_agents::adapter::{AgentWrite, WriteKind};
use countersign_agents::runner::{Link, LinkEvent, RunnerRecord, RunnerStartSpec, connect, start};

use crate::bench::measure::{Latencies, Process, to_megabytes, to_us};
use crate::bench::report::{Metric, Report, Row};

/// How often the two ways take turns.
const TURNS: usize = 6;
/// Asks of one turn.
const ASKS: u64 = 1_000;
/// As long as a request for permission is, about.
const ASK_BYTES: usize = 400;
const ANSWER: &[u8] =
    br#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"selected","optionId":"allow"}}}"#;
const PATIENCE_MS: u64 = 60_000;

/// Measures both ways.
pub async fn hop(countersign: &Path) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let (mut direct, mut hopped) = (Latencies::default(), Latencies::default());
    let mut private_bytes = 0;
    for turn in 0..TURNS {
        let place = folder.path().join(turn.to_string());
        std::fs::create_dir(&place)?;
        direct.merge(&over_pipe(&place)?);
        let (latencies, bytes) = through_runner(&place, countersign).await?;
        hopped.merge(&latencies);
        private_bytes = bytes.max(private_bytes);
    }
    let mut pipe_row = Row::new("agents, the hop", "over a pipe");
    pipe_row.set_latencies_us(&direct);
    let mut runner_row = Row::new("agents, the hop", "through a runner");
    runner_row.set_latencies_us(&hopped);
    if let (Some(hopped), Some(direct)) = (hopped.quantile(0.5), direct.quantile(0.5)) {
        runner_row.set(Metric::OverPipeUs, to_us(hopped) - to_us(direct));
    }
    runner_row.set(Metric::PrivateMb, to_megabytes(private_bytes));
    let mut report = Report::default();
    report.add(vec![pipe_row, runner_row]);
    Ok(report)
}

fn over_pipe(place: &Path) -> Result<Latencies> {
    let noted = place.join("direct");
    let mut agent = Command::new(own_program()?)
        .args(ask_args(&noted))
        .current_dir(place)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut answers = agent.stdin.take().context("the agent has no input")?;
    let asks = agent.stdout.take().context("the agent has no output")?;
    for line in BufReader::new(asks).lines() {
        line?;
        answers.write_all(&answer())?;
    }
    let status = agent.wait()?;
    ensure!(status.success(), "the agent ended with {status}");
    read_noted(&noted)
}

async fn through_runner(place: &Path, countersign: &Path) -> Result<(Latencies, u64)> {
    let noted = place.join("hopped");
    let tree = ProcessTree::create_with_marks()?;
    let record = RunnerRecord {
        tree: tree.record(),
        folder: place.join("runner"),
        sockets: vec![place.join("sockets/one")],
        patience_ms: PATIENCE_MS,
        protocol: countersign_core::event::Protocol::Acp,
    };
    let command = vec![countersign.canonicalize()?.into(), "runner".into()];
    let spec = RunnerStartSpec { command, record };
    let runner = start(&spec).await?.key();
    let mut link = connect(&spec.record, runner, 0, Vec::new()).await?;
    let (program, args) = (own_program()?, ask_args(&noted));
    link.sender
        .launch(program, args, place.to_owned(), Vec::new(), None)
        .await?;
    answer_all(&mut link).await?;
    let private_bytes = Process::new(runner.pid).private_bytes()?;
    link.sender.bye().await;
    Ok((read_noted(&noted)?, private_bytes))
}

async fn answer_all(link: &mut Link) -> Result<()> {
    loop {
        match link.events.recv().await {
            Some(LinkEvent::Line { number, .. }) => {
                drop(link.sender.write(vec![AgentWrite::reply_to(
                    number,
                    WriteKind::Allow,
                    answer(),
                )]));
                // The line stays open until its answer is written.
                link.sender.committed(number, vec![number]);
            }
            Some(LinkEvent::Exited { exit, .. }) => {
                ensure!(exit.code == Some(0), "the agent ended with {exit:?}");
                return Ok(());
            }
            Some(LinkEvent::Lost) | None => anyhow::bail!("the runner was lost"),
            Some(_) => {}
        }
    }
}

fn answer() -> Vec<u8> {
    [ANSWER, b"\n"].concat()
}

fn own_program() -> Result<OsString> {
    Ok(std::env::current_exe()?.into_os_string())
}

fn ask_args(noted: &Path) -> Vec<OsString> {
    vec!["ask-lines".into(), noted.into()]
}

fn read_noted(noted: &Path) -> Result<Latencies> {
    let text = std::fs::read_to_string(noted).context("the agent noted nothing")?;
    let mut latencies = Latencies::default();
    for line in text.lines() {
        latencies.record(Duration::from_micros(line.parse()?));
    }
    ensure!(
        latencies.count() == ASKS,
        "an agent asked {} times",
        latencies.count()
    );
    Ok(latencies)
}

/// What the agent does: nothing but asking, and a note of how long each answer took.
pub fn ask_lines(noted: &Path) -> Result<()> {
    let (mut out, mut answers) = (std::io::stdout().lock(), std::io::stdin().lock());
    let line = format!("{}\n", "x".repeat(ASK_BYTES));
    let (mut notes, mut answer) = (String::new(), String::new());
    for _ in 0..ASKS {
        let since = Instant::now();
        out.write_all(line.as_bytes())?;
        out.flush()?;
        answer.clear();
        ensure!(answers.read_line(&mut answer)? > 0, "the input ended");
        writeln!(notes, "{}", since.elapsed().as_micros())?;
    }
    std::fs::write(noted, notes)?;
    Ok(())
}
