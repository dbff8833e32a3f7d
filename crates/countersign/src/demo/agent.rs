//! One scripted agent: a process of its own that asks, waits and reacts, and never answers.

use std::time::Duration;

use clap::Args;
use countersign_protocol::{
    AskQuestionParams, HostAgentDisplay, HostApproval, HostQuestion, NotifyParams, Raw,
    RegisterAgentParams, RequestApprovalParams, SetStatusParams, StatusBody, WaitQuestionParams,
};
use serde::de::IgnoredAny;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::script::{Script, Step};
use crate::cli::{Common, ask};
use crate::client::{CallError, Client, Endpoint};
use crate::duration::{self, Limit};
use crate::exit::Exit;
use crate::failure::CliError;
use crate::nonce::nonce;
use crate::output;

/// How long an ask or question of the demo stays open.
const OPEN: Duration = Duration::from_mins(30);
const WAIT: Duration = Duration::from_secs(30);
const WAIT_SLACK: Duration = Duration::from_secs(15);
/// A host that is away longer than this is not coming back.
const AWAY_MAX: Duration = Duration::from_mins(1);
const RETRY: Duration = Duration::from_millis(500);

#[derive(Args)]
pub(crate) struct AgentArgs {
    /// Its id and name
    name: String,
    /// What it does
    #[arg(long)]
    script: Script,
}

struct Agent {
    name: String,
    endpoint: Endpoint,
    client: Client,
}

pub(super) async fn agent(common: &Common, args: AgentArgs) -> Result<Exit, CliError> {
    let mut endpoint = common.endpoint()?;
    endpoint.agent_id = Some(args.name.clone());
    if endpoint.token.is_none() {
        return Err(CliError::usage(
            "an agent needs its token in COUNTERSIGN_TOKEN",
        ));
    }
    let failed = |source| CliError::io("could not listen for signals", source);
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let client = Client::connect(&endpoint).await?;
    let mut agent = Agent {
        name: args.name,
        endpoint,
        client,
    };
    agent.register(args.script).await?;
    let outcome = tokio::select! {
        outcome = agent.live(args.script) => outcome,
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
    };
    // Whether the host still hears it or not, the agent ends here.
    agent.status("completed", None).await.ok();
    match outcome {
        Ok(()) | Err(CliError::NoHost { .. }) => Ok(Exit::Ok),
        Err(error) => Err(error),
    }
}

impl Agent {
    async fn live(&mut self, script: Script) -> Result<(), CliError> {
        loop {
            for step in script.steps() {
                match self.step(step).await {
                    Err(CliError::Call(error)) if error.is_connection() => {
                        self.come_back(script).await?;
                    }
                    other => other?,
                }
            }
        }
    }

    async fn step(&mut self, step: &Step) -> Result<(), CliError> {
        match step {
            Step::Work { on, seconds } => {
                self.status("running", Some(on)).await?;
                tokio::time::sleep(Duration::from_secs(*seconds)).await;
            }
            Step::Ask {
                action,
                tool,
                input,
                denied,
            } => {
                let row = self.ask(action, tool, input).await?;
                let words = reaction(&row, action, denied);
                self.say(&words).await?;
            }
            Step::Question { text } => {
                let row = self.question(text).await?;
                let words = match row.answer {
                    Some(answer) if row.state == "answered" => format!("I was told: {answer}"),
                    _ => "nobody answered, so I choose myself".into(),
                };
                self.say(&words).await?;
            }
        }
        Ok(())
    }

    async fn register(&mut self, script: Script) -> Result<(), CallError> {
        let params = RegisterAgentParams {
            id: Some(self.name.clone()),
            name: self.name.clone(),
            kind: "demo".into(),
            capabilities: vec!["ask".into(), "question".into()],
            project: Some(format!("demo/{}", script.word())),
            pid: Some(std::process::id()),
            display: HostAgentDisplay::default(),
            metadata: Raw::null(),
        };
        let _: IgnoredAny = self.client.call("host.register_agent", &params).await?;
        Ok(())
    }

    async fn come_back(&mut self, script: Script) -> Result<(), CliError> {
        output::say("the host is gone; waiting for it");
        let give_up = Instant::now() + AWAY_MAX;
        loop {
            tokio::time::sleep(RETRY).await;
            match Client::connect(&self.endpoint).await {
                Ok(client) => {
                    self.client = client;
                    return Ok(self.register(script).await?);
                }
                Err(error) if Instant::now() >= give_up => return Err(error),
                Err(_) => {}
            }
        }
    }

    async fn status(&mut self, status: &str, task: Option<&str>) -> Result<(), CallError> {
        let status = StatusBody {
            status: status.into(),
            current_task: task.map(str::to_owned),
            message: None,
            payload: None,
        };
        let params = SetStatusParams {
            agent_id: self.name.clone(),
            status,
        };
        let _: IgnoredAny = self.client.call("host.set_status", &params).await?;
        Ok(())
    }

    async fn say(&mut self, words: &str) -> Result<(), CallError> {
        output::say(words);
        let params = NotifyParams {
            kind: Some("demo.progress".into()),
            agent_id: Some(self.name.clone()),
            message: words.into(),
            payload: Raw::null(),
        };
        let _: IgnoredAny = self.client.call("host.notify", &params).await?;
        Ok(())
    }

    async fn ask(
        &mut self,
        action: &str,
        tool: &str,
        input: &str,
    ) -> Result<HostApproval, CliError> {
        let key = nonce()?;
        let params = RequestApprovalParams {
            action: action.into(),
            agent_id: Some(self.name.clone()),
            tool: Some(tool.into()),
            input: serde_json::from_str(input).ok(),
            tool_call_id: Some(format!("call-{key}")),
            idempotency_key: Some(key),
            timeout_ms: Some(duration::millis(OPEN)),
            ..RequestApprovalParams::default()
        };
        let row = self.client.call("host.request_approval", &params).await?;
        ask::wait(
            &self.endpoint,
            &mut self.client,
            &params,
            row,
            Limit::After(OPEN),
        )
        .await
    }

    async fn question(&mut self, text: &str) -> Result<HostQuestion, CallError> {
        let params = AskQuestionParams {
            question: text.into(),
            agent_id: Some(self.name.clone()),
            timeout_ms: Some(duration::millis(OPEN)),
        };
        let mut row: HostQuestion = self.client.call("host.ask_question", &params).await?;
        while row.state == "pending" {
            let params = WaitQuestionParams {
                question_id: row.id.clone(),
                timeout_ms: Some(duration::millis(WAIT)),
            };
            row = self
                .client
                .call_within(WAIT + WAIT_SLACK, "host.wait_question", &params)
                .await?;
        }
        Ok(row)
    }
}

/// What the agent says about an answer.
fn reaction(row: &HostApproval, action: &str, denied: &str) -> String {
    let words = row
        .message
        .as_deref()
        .map(|message| format!(" ({message})"))
        .unwrap_or_default();
    match (row.state.as_str(), &row.edited_input) {
        ("allowed", None) => format!("allowed{words}: {action}, done"),
        ("allowed", Some(edited)) => {
            format!("allowed with another input{words}: ran {}", edited.text())
        }
        ("denied", _) => format!("denied{words}: {denied}"),
        (state, _) => format!("{state}{words}: {denied}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_agent_reacts_to_the_words_it_gets() {
        let row = |state: &str, message: Option<&str>| HostApproval {
            state: state.into(),
            message: message.map(str::to_owned),
            ..sample::approval()
        };
        let said = |row| reaction(&row, "Run the tests", "I stop");
        assert_eq!(said(row("allowed", None)), "allowed: Run the tests, done");
        assert_eq!(
            said(row("denied", Some("too slow"))),
            "denied (too slow): I stop"
        );
        assert_eq!(said(row("expired", None)), "expired: I stop");
    }
}
