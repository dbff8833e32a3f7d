//! Many asks of the scripted agent, with a ledger of what came of each: for load.
//!
//! A line of the ledger is `NUMBER ANSWER BEGAN MICROS`: which ask, `allow`, `deny` or `cancel`, when it
//! was written (microseconds since 1970), and how long it took until its answer was read. The last
//! line is `unasked N`: answers that nobody waited for, such as second ones.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::script::{AskMany, ScriptedAsk, ScriptedTerminal, ScriptedTool};
use super::session::{ScriptSession, TurnFlow};

/// An ask that waits for its answer.
struct UnansweredAsk {
    number: u64,
    began: Duration,
    since: Instant,
    answer: oneshot::Receiver<Value>,
}

impl ScriptSession {
    pub(super) async fn ask_many(&self, many: &AskMany) -> TurnFlow {
        let file = Path::new(&self.cwd).join(&many.ledger);
        let opened = File::options().create(true).append(true).open(&file);
        let mut ledger = match opened {
            Ok(ledger) => ledger,
            Err(error) => return TurnFlow::End(Some(Err((-32603, format!("no ledger: {error}"))))),
        };
        let at_once = many.at_once.max(1);
        let mut number = 0;
        while number < many.count && !self.is_cancelled() && !is_over(many) {
            let end = many.count.min(number + at_once);
            let mut open = Vec::new();
            for number in number..end {
                self.say_lines(many, number).await;
                open.push(self.open_one(many, number).await);
            }
            number = end;
            for one in open {
                let (number, (answer, line)) = (one.number, one.answered().await);
                note(&mut ledger, &line);
                if many.runs && answer == "allow" {
                    self.run_one(many, number).await;
                }
            }
            if many.pause_us > 0
                && let TurnFlow::End(answer) = self.sleep(pause(many.pause_us, number)).await
            {
                return TurnFlow::End(answer);
            }
        }
        note(&mut ledger, &format!("unasked {}\n", self.wire.unasked()));
        TurnFlow::Next
    }

    async fn say_lines(&self, many: &AskMany, number: u64) {
        for line in 0..many.lines {
            self.say(&format!("{number}.{line} {}\n", many.words)).await;
        }
    }

    async fn run_one(&self, many: &AskMany, number: u64) {
        let terminal = ScriptedTerminal {
            command: command_of(many, number),
            ..ScriptedTerminal::default()
        };
        self.terminal(&terminal).await;
    }

    async fn open_one(&self, many: &AskMany, number: u64) -> UnansweredAsk {
        let command = command_of(many, number);
        let ask = ScriptedAsk {
            tool: ScriptedTool {
                call: format!("many-{number}"),
                title: command.clone(),
                input: json!({"command": command}),
                ..ScriptedTool::default()
            },
            ..ScriptedAsk::default()
        };
        let began = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = Instant::now();
        let (_, answer) = self.request_permission(&ask).await;
        UnansweredAsk {
            number,
            began: began.unwrap_or_default(),
            since,
            answer,
        }
    }
}

impl UnansweredAsk {
    /// What came of it: in a word, and as a line.
    async fn answered(self) -> (&'static str, String) {
        let response = self.answer.await.unwrap_or_default();
        let micros = self.since.elapsed().as_micros();
        let option = response.pointer("/result/outcome/optionId");
        let answer = match option.and_then(Value::as_str) {
            Some(option) if option.starts_with("allow") => "allow",
            Some(_) => "deny",
            None => "cancel",
        };
        let (number, began) = (self.number, self.began.as_micros());
        (answer, format!("{number} {answer} {began} {micros}\n"))
    }
}

fn command_of(many: &AskMany, number: u64) -> String {
    many.command.replace("{n}", &number.to_string())
}

fn is_over(many: &AskMany) -> bool {
    many.until.as_ref().is_some_and(|file| file.exists())
}

/// Between half of it and one and a half, other for each process: agents that rest equally long would
/// ask all at once for ever, since they are answered together.
fn pause(about_us: u64, number: u64) -> Duration {
    let seed = u64::from(std::process::id()).wrapping_add(number);
    let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    Duration::from_micros(about_us / 2 + mixed % about_us.max(1))
}

/// One write for each line, so that a ledger is whole whenever the agent ends.
fn note(ledger: &mut File, line: &str) {
    if let Err(error) = ledger.write_all(line.as_bytes()) {
        tracing::error!(%error, "could not write the ledger");
    }
}
