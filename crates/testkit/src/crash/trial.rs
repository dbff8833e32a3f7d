//! A trial: hosts started, loaded, killed, and held to what they promised.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use countersign_daemon::CRASH_POINTS;
use countersign_protocol::{HostApproval, HostDelivery};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Plan;
use super::client::{Client, Doorway, Refusal, Trouble};
use super::host::{CrashHost, Phase};
use super::ledger::Promise;
use super::load::{Fate, Load, Tokens};
use super::record::{Record, state_of};
use super::report::{Progress, Summary, Tally};
use super::schedule::{Kill, Mode, Schedule};
use crate::host::{create_token, run as run_countersign};

/// A point must be passed often enough by then: the load never pauses.
const PASSED_WITHIN: Duration = Duration::from_mins(1);
/// What is open when the killing stops must have ended by then.
const DONE_WITHIN: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(5);
/// A long record is verified after every second kill, every third, and so on.
const EVENTS_PER_AUDIT: u64 = 20_000;
const PAGE: usize = 500;
const TOKEN_TTL_MS: u64 = 24 * 3_600_000;
/// So many faults are enough to see what is wrong.
const FAULTS_SHOWN: usize = 20;

struct Trial<'a> {
    plan: &'a Plan,
    home: &'a Path,
    tokens: Tokens,
    record: Record,
    load: Load,
    checked: Vec<usize>,
    doorway: watch::Sender<Option<Doorway>>,
    generation: u64,
    progress: Progress,
    tallies: BTreeMap<&'static str, Tally>,
    audits: usize,
    slowest_start: Duration,
}

/// Kills as planned, then lets everything end and compares all there is.
pub(super) async fn run(
    plan: &Plan,
    home: &Path,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Summary> {
    let began = Instant::now();
    let mut trial = Trial::begin(plan, home).await?;
    let mut schedule = Schedule::new(plan.mode, plan.kills, plan.seed);
    while let Some(kill) = schedule.next(trial.record.undelivered()) {
        trial.round(kill).await?;
        progress(&trial.progress);
    }
    trial.finish(began).await
}

impl<'a> Trial<'a> {
    /// The first host only makes the tokens that all later ones must know.
    async fn begin(plan: &'a Plan, home: &'a Path) -> Result<Self> {
        let mut host = CrashHost::start(&plan.countersign, home, None)?;
        ensure!(host.ready().await? == Phase::Alive, "the first host died");
        let token = create_token(&plan.countersign, home)?;
        let tokens = make_tokens(&host, &token).await;
        let tokens = tokens.map_err(|trouble| anyhow!("no tokens were made: {trouble:?}"))?;
        host.kill()?;
        let mut record = Record::new(&home.join("countersign.db"), plan.seed);
        record.read_on()?;
        let (doorway, seen) = watch::channel(None);
        let load = Load::begin(plan.seed, &tokens, &seen);
        Ok(Self {
            plan,
            home,
            tokens,
            record,
            checked: vec![0; load.readings.len()],
            load,
            doorway,
            generation: 0,
            progress: Progress::default(),
            tallies: BTreeMap::new(),
            audits: 0,
            slowest_start: Duration::ZERO,
        })
    }

    /// One host from its start to its kill, and what it left.
    async fn round(&mut self, kill: Kill) -> Result<()> {
        let mut host = CrashHost::start(&self.plan.countersign, self.home, Some(kill))?;
        let started = match kill {
            Kill::AfterStart(moment) => tokio::time::timeout(moment, host.ready()).await,
            Kill::Point { .. } | Kill::AfterReady(_) => Ok(host.ready().await),
        };
        let phase = started.unwrap_or(Ok(Phase::Killed))?;
        let tally = self.tallies.entry(kill.name()).or_default();
        tally.kills += 1;
        tally.starting += usize::from(phase == Phase::Killed);
        if phase == Phase::Alive {
            self.serve(&host).await?;
            wait_for_kill(kill, &mut host).await?;
        }
        self.kill(host)?;
        self.progress.kills += 1;
        self.progress.last = format!("{kill:?}");
        let often = 1 + self.record.head() / EVENTS_PER_AUDIT;
        if (self.progress.kills as u64).is_multiple_of(often) {
            self.audit()?;
        }
        self.examine()
            .with_context(|| format!("after kill {}, {kill:?}", self.progress.kills))
    }

    /// Compares what a fresh host shows with the file it started from, then lets the clients in.
    async fn serve(&mut self, host: &CrashHost) -> Result<()> {
        self.slowest_start = self.slowest_start.max(host.age());
        match self.pending(host).await {
            Ok(rows) => self.compare_pending(&rows),
            // Killed already; a host that only closes its doors is found by the clients.
            Err(Trouble::Lost) => {}
            Err(Trouble::Refused(Refusal { method, error })) => {
                bail!("a fresh host refused `{method}`: {error}")
            }
        }
        self.generation += 1;
        self.doorway.send_replace(Some(Doorway {
            generation: self.generation,
            url: host.url(),
        }));
        Ok(())
    }

    fn kill(&mut self, host: CrashHost) -> Result<()> {
        host.kill()?;
        self.doorway.send_replace(None);
        Ok(())
    }

    async fn open(&self, host: &CrashHost) -> Result<Client, Trouble> {
        Client::open(&host.url(), &self.tokens.answerer).await
    }

    async fn pending(&self, host: &CrashHost) -> Result<Vec<HostApproval>, Trouble> {
        let params = json!({ "status": "pending", "limit": PAGE });
        let mut client = self.open(host).await?;
        client.call("host.approvals", &params).await
    }

    fn compare_pending(&mut self, rows: &[HostApproval]) {
        let shown: HashSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let open: HashMap<&str, Fate> = self
            .record
            .open()
            .map(|(id, entry)| (id.as_str(), entry.ask.fate()))
            .collect();
        let mut wrong = Vec::new();
        for id in shown.iter().filter(|id| !open.contains_key(*id)) {
            wrong.push(format!(
                "a fresh host shows `{id}` as pending, the file does not"
            ));
        }
        // Whatever runs out of time may have done so by now.
        let lasting = open.iter().filter(|(_, fate)| **fate != Fate::Expired);
        for (id, _) in lasting.filter(|(id, _)| !shown.contains(*id)) {
            wrong.push(format!(
                "a fresh host has forgotten `{id}`, which is pending"
            ));
        }
        self.record.wrong.extend(wrong);
    }

    fn audit(&mut self) -> Result<()> {
        self.audits += 1;
        self.record.audit()
    }

    /// Reads the file that a killed host left and holds everything known against it.
    fn examine(&mut self) -> Result<()> {
        self.record.read_on()?;
        for promise in self.load.ledger.take_promises() {
            match promise {
                Promise::Asked { .. } => self.progress.asked += 1,
                Promise::Answered { .. } => self.progress.answered += 1,
                Promise::Told { .. } => self.progress.told += 1,
            }
            self.record.check_promise(&promise);
        }
        self.compare_readings();
        self.progress.events = self.record.head();
        let mut wrong = std::mem::take(&mut self.record.wrong);
        wrong.extend(self.load.ledger.take_complaints());
        if wrong.is_empty() {
            return Ok(());
        }
        let count = wrong.len();
        wrong.truncate(FAULTS_SHOWN);
        bail!("{count} faults\n{}", wrong.join("\n"))
    }

    fn compare_readings(&mut self) {
        let record = &mut self.record;
        for (reader, readings) in self.load.readings.iter().enumerate() {
            let seen = readings.seen();
            let facts = record.facts(readings.all);
            let checked = self.checked[reader];
            let differs = (checked..seen.len()).find(|at| facts.get(*at) != Some(&seen[*at]));
            self.checked[reader] = seen.len();
            if let Some(at) = differs {
                let (saw, holds) = (&seen[at], facts.get(at));
                let wrong = format!("reader {reader} saw {saw:?} where the file has {holds:?}");
                record.wrong.push(wrong);
            }
        }
    }

    /// Kills no more: everything open must end, everybody must have read everything, and the lists of a host that
    /// only reads must be what the events add up to.
    async fn finish(mut self, began: Instant) -> Result<Summary> {
        self.check_tallies()?;
        let host = self.start_for_good().await?;
        self.serve(&host).await?;
        tokio::time::timeout(DONE_WITHIN, self.load.finish_asking())
            .await
            .map_err(|_| anyhow!("an asker still waits, {DONE_WITHIN:?} after the last kill"))?;
        self.kill(host)?;
        self.examine()?;
        let host = self.start_for_good().await?;
        self.serve(&host).await?;
        self.catch_up(&host).await?;
        self.kill(host)?;
        self.examine()?;
        let host = self.start_for_good().await?;
        self.compare_lists(&host).await?;
        host.kill()?;
        self.audit()?;
        // What an operator would type to be sure of the record.
        run_countersign(&self.plan.countersign, self.home, "audit verify")?;
        self.examine()?;
        self.check_end()?;
        let read = self.checked.iter().sum();
        self.load.end().await;
        Ok(Summary {
            seed: self.plan.seed,
            progress: self.progress,
            tallies: self.tallies,
            read,
            audits: self.audits,
            slowest_start: self.slowest_start,
            elapsed: began.elapsed(),
        })
    }

    async fn start_for_good(&mut self) -> Result<CrashHost> {
        let mut host = CrashHost::start(&self.plan.countersign, self.home, None)?;
        ensure!(
            host.ready().await? == Phase::Alive,
            "a host died that nobody killed"
        );
        Ok(host)
    }

    /// Waits until nothing is pending and every reader has everything that was on the record.
    async fn catch_up(&mut self, host: &CrashHost) -> Result<()> {
        let began = Instant::now();
        loop {
            let pending = self
                .pending(host)
                .await
                .map_err(|trouble| anyhow!("{trouble:?}"))?;
            let readings = self.load.readings.iter();
            let behind = readings
                .filter(|readings| readings.seen().len() < self.record.facts(readings.all).len())
                .count();
            if pending.is_empty() && behind == 0 {
                return Ok(());
            }
            ensure!(
                began.elapsed() < DONE_WITHIN,
                "{} asks are still pending and {behind} readers behind, {DONE_WITHIN:?} after the last kill",
                pending.len()
            );
            tokio::time::sleep(POLL).await;
        }
    }

    async fn compare_lists(&mut self, host: &CrashHost) -> Result<()> {
        let rows = self
            .all_approvals(host)
            .await
            .map_err(|trouble| anyhow!("{trouble:?}"))?;
        let mut rows: HashMap<_, _> = rows.into_iter().map(|row| (row.id.clone(), row)).collect();
        let mut wrong = Vec::new();
        for (id, entry) in &self.record.entries {
            let Some(row) = rows.remove(id) else {
                wrong.push(format!("`{id}` is on the record and not in the list"));
                continue;
            };
            let state = entry
                .ended
                .as_ref()
                .map_or("pending", |(outcome, _)| state_of(*outcome));
            let delivered = matches!(
                row.delivery,
                Some(HostDelivery::Delivered | HostDelivery::Unknown)
            );
            if row.state.as_str() != state || row.deliveries != entry.deliveries {
                wrong.push(format!("the list has {row:?}, the record has {entry:?}"));
            } else if entry.deliveries > 0 && !delivered {
                wrong.push(format!(
                    "`{id}` was told, and its delivery is {:?}",
                    row.delivery
                ));
            }
        }
        let strange = rows.into_keys();
        wrong.extend(strange.map(|id| format!("`{id}` is in the list and not on the record")));
        self.record.wrong.extend(wrong);
        Ok(())
    }

    async fn all_approvals(&self, host: &CrashHost) -> Result<Vec<HostApproval>, Trouble> {
        let mut client = self.open(host).await?;
        let mut rows: Vec<HostApproval> = Vec::new();
        loop {
            let mut params = json!({ "limit": PAGE });
            if let Some(last) = rows.last() {
                params["after"] = json!(last.id);
            }
            let page: Vec<HostApproval> = client.call("host.approvals", &params).await?;
            if page.is_empty() {
                return Ok(rows);
            }
            rows.extend(page);
        }
    }

    /// A run that visited every point in name only proves nothing.
    fn check_tallies(&self) -> Result<()> {
        if self.plan.mode == Mode::Random || self.plan.kills < 2 * CRASH_POINTS.len() {
            return Ok(());
        }
        for name in CRASH_POINTS {
            ensure!(
                self.tallies.contains_key(name),
                "no host was killed at `{name}`"
            );
        }
        Ok(())
    }

    fn check_end(&self) -> Result<()> {
        let open = self.record.open().count();
        ensure!(open == 0, "{open} asks never ended");
        let undelivered = self.record.undelivered();
        ensure!(
            undelivered == 0,
            "{undelivered} answers are neither told nor not"
        );
        let Progress {
            asked,
            answered,
            told,
            ..
        } = self.progress;
        ensure!(
            asked.min(answered).min(told) > 0,
            "there was no load: {asked} asks, {answered} answers, {told} tellings"
        );
        Ok(())
    }
}

async fn wait_for_kill(kill: Kill, host: &mut CrashHost) -> Result<()> {
    match kill {
        Kill::Point { name, pass, .. } => {
            let phase = host.killed_within(PASSED_WITHIN).await?;
            ensure!(
                phase == Phase::Killed,
                "a host under load passed `{name}` less than {pass} times in {PASSED_WITHIN:?}"
            );
        }
        Kill::AfterStart(moment) => tokio::time::sleep(moment.saturating_sub(host.age())).await,
        Kill::AfterReady(moment) => tokio::time::sleep(moment).await,
    }
    Ok(())
}

async fn make_tokens(host: &CrashHost, token: &str) -> Result<Tokens, Trouble> {
    let mut client = Client::open(&host.url(), token).await?;
    Ok(Tokens {
        asker: make_token(&mut client, "operator", "asker").await?,
        answerer: make_token(&mut client, "operator", "answerer").await?,
        reader: make_token(&mut client, "observer", "reader").await?,
    })
}

async fn make_token(client: &mut Client, role: &str, name: &str) -> Result<String, Trouble> {
    let params = json!({ "role": role, "name": name, "ttl_ms": TOKEN_TTL_MS });
    let made: Value = client.call("host.create_token", &params).await?;
    Ok(made["token"].as_str().unwrap_or_default().to_owned())
}
