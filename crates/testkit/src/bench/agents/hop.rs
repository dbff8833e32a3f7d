//! The hop through a runner: lines that are answered at once, over a pipe and through a runner.
//!
//! The agent is this program again ([`ask_lines`]): it writes a line, waits for one and notes how long
//! that took. The host answers without a look. Both ways take turns, so that a busy machine is the
//! same for both.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use countersign_agents::adapter::{AgentWrite, WriteKind};
use countersign_agents::runner::{Link, LinkEvent, RunnerRecord, RunnerStartSpec, connect, start};
use countersign_agents::{LaunchSpec, PipeEvent, ProcessTree, launch};

use super::runners::{Private, private};
use crate::bench::Latencies;
use crate::bench::report::{Metric, Row};

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
pub async fn hop(countersign: &Path) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let (mut direct, mut hopped) = (Latencies::default(), Latencies::default());
    let mut memory = Private::default();
    for turn in 0..TURNS {
        let place = folder.path().join(turn.to_string());
        std::fs::create_dir(&place)?;
        direct.merge(over_pipe(&place).await?);
        let (latencies, after) = through_runner(&place, countersign).await?;
        hopped.merge(latencies);
        memory = memory.max(after);
    }
    let mut rows = vec![
        row("over a pipe", &mut direct),
        row("through a runner", &mut hopped),
    ];
    let added = hopped.percentile_ms(500).zip(direct.percentile_ms(500));
    if let Some(last) = rows.last_mut() {
        let added = added.map(|(hopped, direct)| (hopped - direct) * 1000.0);
        last.set_if_known(Metric::OverPipeUs, added);
        last.set(Metric::PrivateMb, memory.megabytes());
    }
    Ok(rows)
}

fn row(case: &str, latencies: &mut Latencies) -> Row {
    let mut row = Row::new("agents, the hop", case);
    let micros = |ms: Option<f64>| ms.map(|ms| ms * 1000.0);
    row.set_if_known(Metric::P50Us, micros(latencies.percentile_ms(500)));
    row.set_if_known(Metric::P99Us, micros(latencies.percentile_ms(990)));
    row
}

async fn over_pipe(place: &Path) -> Result<Latencies> {
    let tree = ProcessTree::create_with_marks()?;
    let noted = place.join("direct");
    let spec = LaunchSpec {
        program: own_program()?,
        args: ask_args(&noted),
        cwd: place.to_owned(),
        env: Vec::new(),
        tree: &tree,
    };
    let (mut pipe, _process) = launch(&spec)?;
    loop {
        match pipe.events.recv().await {
            Some(PipeEvent::Line(_)) => drop(pipe.writer.write(answer())),
            Some(PipeEvent::Exited(_)) | None => break,
            Some(_) => {}
        }
    }
    tree.kill_all().await?;
    read_noted(&noted)
}

async fn through_runner(place: &Path, countersign: &Path) -> Result<(Latencies, Private)> {
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
        .launch(program, args, place.to_owned(), Vec::new())
        .await?;
    answer_all(&mut link).await?;
    let memory = private(runner.pid)?;
    link.sender.bye().await;
    Ok((read_noted(&noted)?, memory))
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
