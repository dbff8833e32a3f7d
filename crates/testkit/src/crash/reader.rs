//! A reader: one cursor through all hosts, and everything it saw.

use std::sync::{Arc, Mutex, MutexGuard};

use super::client::{Line, Refusal, SeenEvent};
use super::ledger::lock;
use super::record::Fact;

/// What one reader saw, in the order in which it saw it.
#[derive(Debug)]
pub(super) struct Readings {
    /// Whether it also reads what is for the host alone.
    pub(super) all: bool,
    seen: Mutex<Vec<Fact>>,
}

impl Readings {
    pub(super) fn seen(&self) -> MutexGuard<'_, Vec<Fact>> {
        lock(&self.seen)
    }
}

pub(super) struct Reader {
    line: Line,
    pub(super) readings: Arc<Readings>,
}

impl Reader {
    pub(super) fn new(line: Line, all: bool) -> Self {
        let seen = Mutex::default();
        Self {
            line,
            readings: Arc::new(Readings { all, seen }),
        }
    }

    pub(super) async fn run(mut self) {
        let Err(refusal) = self.work().await;
        self.line.complain_of("a reader", &refusal);
    }

    async fn work(&mut self) -> Result<std::convert::Infallible, Refusal> {
        loop {
            let event = self.line.next_event().await?;
            self.readings.seen().push(to_fact(event));
        }
    }
}

fn to_fact(event: SeenEvent) -> Fact {
    let id = event.payload["id"].as_str().unwrap_or_default();
    let resolution = event.payload["resolution"].as_str().unwrap_or_default();
    let about = match event.kind.as_str() {
        "approval.requested" => id.to_owned(),
        "approval.resolved" => format!("{id} {resolution}"),
        _ => String::new(),
    };
    Fact {
        sequence: event.sequence,
        kind: event.kind,
        about,
    }
}
