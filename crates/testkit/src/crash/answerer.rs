//! An answerer: reads the feed and answers each ask with the one right word, again if the host died meanwhile.

use std::collections::VecDeque;

use countersign_protocol::HostApproval;
use serde_json::{Value, json};

use super::client::{Line, Refusal, SeenEvent, Trouble};
use super::ledger::Promise;
use super::load::Ask;

pub(super) struct Answerer {
    line: Line,
    seed: u64,
    me: u64,
    open: VecDeque<(Ask, String)>,
}

impl Answerer {
    pub(super) fn new(line: Line, seed: u64, me: u64) -> Self {
        Self {
            line,
            seed,
            me,
            open: VecDeque::new(),
        }
    }

    pub(super) async fn run(mut self) {
        let Err(refusal) = self.work().await;
        self.line.complain_of("an answerer", &refusal);
    }

    async fn work(&mut self) -> Result<std::convert::Infallible, Refusal> {
        loop {
            while let Some(event) = self.line.find_event() {
                self.note(&event);
            }
            if let Some((ask, approval)) = self.open.front().cloned() {
                self.answer(&ask, &approval).await?;
                self.open.pop_front();
            } else {
                let event = self.line.next_event().await?;
                self.note(&event);
            }
        }
    }

    fn note(&mut self, event: &SeenEvent) {
        if event.kind != "approval.requested" {
            return;
        }
        let row = &event.payload;
        let (Some(approval), Some(n)) = (row["id"].as_str(), row["details"]["n"].as_u64()) else {
            let complaint = format!("event {} shows no ask: {row}", event.sequence);
            return self.line.ledger.complain(complaint);
        };
        let ask = Ask::new(self.seed, n);
        if ask.is_answered_by(self.me) {
            self.open.push_back((ask, approval.to_owned()));
        }
    }

    async fn answer(&mut self, ask: &Ask, approval: &str) -> Result<(), Refusal> {
        let resolution = ask.fate().resolution();
        let params = json!({ "approval_id": approval, "resolution": resolution });
        let row: HostApproval = self.line.insist("host.resolve_approval", &params).await?;
        if row.resolution.as_deref() != Some(resolution) {
            self.line.ledger.complain(format!(
                "`{resolution}` for ask {} was taken as {:?}",
                ask.n, row.resolution
            ));
        }
        self.line.ledger.promise(Promise::Answered {
            approval: approval.to_owned(),
            resolution: resolution.to_owned(),
        });
        if ask.is_disputed() {
            self.dispute(ask, approval).await?;
        }
        Ok(())
    }

    /// Another answer after the first must be refused.
    async fn dispute(&mut self, ask: &Ask, approval: &str) -> Result<(), Refusal> {
        let resolution = ask.fate().opposite();
        let params = json!({ "approval_id": approval, "resolution": resolution });
        match self
            .line
            .call::<Value>("host.resolve_approval", &params)
            .await
        {
            Err(Trouble::Refused(refusal)) if refusal.reason() == Some("already_resolved") => {}
            Err(Trouble::Refused(refusal)) => return Err(refusal),
            Err(Trouble::Lost) => {}
            Ok(row) => self.line.ledger.complain(format!(
                "`{resolution}` for ask {} was taken after the opposite: {row}",
                ask.n
            )),
        }
        Ok(())
    }
}
