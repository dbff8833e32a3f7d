//! `queue`: messages that wait for an agent, and taking them back.

use std::collections::BTreeMap;

use clap::Args;
use countersign_protocol::{
    AgentParams, QueuedMessageRow, Time, WithdrawMessageParams, WithdrawnMessage, method,
};

use super::CommonArgs;
use crate::client::HostClient;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::escape;
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign queue builder
  countersign queue builder --withdraw 3
  countersign queue builder --withdraw 3 | countersign send docs -

A message that is sent to a working agent waits until its turn ends. --withdraw takes it back and prints
its text. A message that the agent already has cannot be withdrawn: exits with 1.")]
pub(crate) struct QueueArgs {
    /// Name or id of the agent
    agent: String,
    /// Withdraw the message of this number, and print its text; repeatable
    #[arg(long = "withdraw", value_name = "NUMBER")]
    withdrawn: Vec<u64>,
}

pub(super) async fn queue(common: &CommonArgs, args: QueueArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    if args.withdrawn.is_empty() {
        list(common, &mut client, args.agent).await
    } else {
        withdraw(common, &mut client, args).await
    }
}

async fn list(
    common: &CommonArgs,
    client: &mut HostClient,
    agent_id: String,
) -> Result<CliExit, CliError> {
    let params = AgentParams { agent_id };
    let messages = client.call::<method::QueuedMessages>(&params).await?;
    if common.json {
        output::print_json(&BTreeMap::from([("messages", messages)]))?;
    } else if messages.is_empty() {
        output::print_message("no messages wait");
    } else {
        let now = duration::now();
        output::print(&message_list(&messages, now, output::list_width()))?;
    }
    Ok(CliExit::Ok)
}

fn message_list(messages: &[QueuedMessageRow], now: Time, width: usize) -> String {
    let rows = messages.iter().map(|message| {
        vec![
            message.number.to_string(),
            duration::age(now, message.sent_at),
            escape::line(&message.sent_by.name).into_owned(),
            escape::line(&message.text).into_owned(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    output::columns(&["NUMBER", "AGE", "FROM", "TEXT"], &rows, width)
}

/// Takes messages back in the given order, and stops at the first that cannot be.
async fn withdraw(
    common: &CommonArgs,
    client: &mut HostClient,
    args: QueueArgs,
) -> Result<CliExit, CliError> {
    for number in args.withdrawn {
        let params = WithdrawMessageParams {
            agent_id: args.agent.clone(),
            number,
        };
        let withdrawn = client.call::<method::WithdrawMessage>(&params).await?;
        print_withdrawn(common, &withdrawn)?;
    }
    Ok(CliExit::Ok)
}

fn print_withdrawn(common: &CommonArgs, withdrawn: &WithdrawnMessage) -> Result<(), CliError> {
    if common.json {
        return output::print_json(withdrawn);
    }
    output::print_message(format_args!("withdrew message {}", withdrawn.number));
    output::print(&format!("{}\n", escape::block(&withdrawn.text)))
}

#[cfg(test)]
mod tests {
    use countersign_protocol::{HostRole, Who};

    use super::*;

    #[test]
    fn messages_are_listed_with_their_number_and_escaped() {
        let row = |number, text: &str| QueuedMessageRow {
            number,
            sent_at: Time(1_000_000),
            sent_by: Who {
                agent_id: None,
                name: "ann".to_owned(),
                role: HostRole::Operator,
            },
            text: text.to_owned(),
            truncated: false,
            withdrawable: true,
        };
        let rows = [row(3, "two\nlines"), row(14, "stop")];
        let listed = message_list(&rows, Time(61_000_000), 80);
        let expected = "NUMBER  AGE  FROM  TEXT\n\
             3       1m   ann   two\\nlines\n\
             14      1m   ann   stop\n";
        assert_eq!(anstream::adapter::strip_str(&listed).to_string(), expected);
    }
}
