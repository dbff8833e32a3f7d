//! A reader: one cursor through all hosts, and everything it saw.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::client::{Line, Refusal, Seen};
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
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
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

fn to_fact(event: Seen) -> Fact {
    let text = |name: &str| event.payload[name].as_str().unwrap_or_default().to_owned();
    let about = match event.kind.as_str() {
        "approval.requested" => text("id"),
        "approval.resolved" => format!("{} {}", text("id"), text("resolution")),
        _ => String::new(),
    };
    Fact {
        sequence: event.sequence,
        kind: event.kind,
        about,
    }
}
