//! An asker: asks, waits across any number of hosts, and notes what it was told.

use countersign_protocol::{HostApproval, HostApprovalState};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::client::{Line, Refusal, Trouble};
use super::ledger::Promise;
use super::load::{ASKERS, Ask};

/// How long one call waits; then the asker waits again.
const WAIT_MS: u64 = 10_000;

pub(super) struct Asker {
    line: Line,
    seed: u64,
    next: u64,
    asking_ends: CancellationToken,
}

impl Asker {
    pub(super) fn new(line: Line, seed: u64, first: u64, asking_ends: CancellationToken) -> Self {
        Self {
            line,
            seed,
            next: first,
            asking_ends,
        }
    }

    pub(super) async fn run(mut self) {
        while !self.asking_ends.is_cancelled() {
            let ask = Ask::new(self.seed, self.next);
            self.next += ASKERS;
            if let Err(refusal) = self.ask_and_wait(&ask).await {
                self.line.complain_of("an asker", &refusal);
                return;
            }
        }
    }

    async fn ask_and_wait(&mut self, ask: &Ask) -> Result<(), Refusal> {
        let Some(row) = self.ask(ask).await? else {
            return Ok(());
        };
        self.note_asked(ask, &row);
        if row.state != HostApprovalState::Pending {
            self.note_told(ask, &row);
        }
        self.wait(ask, &row.id).await?;
        if ask.is_told_again() {
            self.come_back(ask, &row.id).await?;
        }
        Ok(())
    }

    /// Nothing if the host died before it took an ask that has no key: nobody knows whether it was taken.
    async fn ask(&mut self, ask: &Ask) -> Result<Option<HostApproval>, Refusal> {
        let method = "host.request_approval";
        if ask.key().is_some() {
            return self.line.insist(method, &ask.params()).await.map(Some);
        }
        match self.line.call(method, &ask.params()).await {
            Ok(row) => Ok(Some(row)),
            Err(Trouble::Lost) => Ok(None),
            Err(Trouble::Refused(refusal)) => Err(refusal),
        }
    }

    async fn wait(&mut self, ask: &Ask, approval: &str) -> Result<(), Refusal> {
        let params = json!({ "approval_id": approval, "timeout_ms": WAIT_MS });
        loop {
            let row: HostApproval = self.line.insist("host.wait_approval", &params).await?;
            if row.state != HostApprovalState::Pending {
                self.note_told(ask, &row);
                return Ok(());
            }
        }
    }

    /// By its key if it has one, else by waiting once more: the answer must be the same.
    async fn come_back(&mut self, ask: &Ask, approval: &str) -> Result<(), Refusal> {
        if ask.key().is_none() {
            return self.wait(ask, approval).await;
        }
        if let Some(row) = self.ask(ask).await? {
            self.note_asked(ask, &row);
            self.note_told(ask, &row);
        }
        Ok(())
    }

    fn note_asked(&self, ask: &Ask, row: &HostApproval) {
        self.line.ledger.promise(Promise::Asked {
            n: ask.n,
            approval: row.id.clone(),
        });
    }

    fn note_told(&self, ask: &Ask, row: &HostApproval) {
        let fate = ask.fate();
        let resolution = row.resolution.clone().unwrap_or_default();
        if row.state.as_str() != fate.state() || resolution != fate.resolution() {
            self.line.ledger.complain(format!(
                "ask {} must end as {fate:?}, but its asker was told `{}`, `{resolution}`",
                ask.n, row.state
            ));
        }
        self.line.ledger.promise(Promise::Told {
            approval: row.id.clone(),
            state: row.state.to_string(),
            resolution,
            deliveries: row.deliveries,
        });
    }
}
