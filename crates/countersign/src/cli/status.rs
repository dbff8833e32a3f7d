//! `status`: the host at a glance.

use clap::Args;
use countersign_protocol::{HostStatus, ListParams, ListStatus, NoParams, Time, method};
use serde_json::json;

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::{escape, rules};
use crate::{duration, output};

#[derive(Args)]
pub(crate) struct StatusArgs {
    /// Print one short line for a prompt or a status bar: what waits, and since when; nothing if nothing waits
    #[arg(long)]
    line: bool,
}

/// Asks that are looked through for the oldest.
const SEARCHED_MAX: u64 = 200;

pub(super) async fn status(common: &CommonArgs, args: &StatusArgs) -> Result<CliExit, CliError> {
    if args.line {
        return status_line(common).await;
    }
    let status = common.call::<method::Status>(&NoParams {}).await?;
    common.print(&status, || {
        output::fields(&status_fields(&status, duration::now()))
    })
}

/// `◐3 ?1 4m`: asks, questions, the age of the oldest.
async fn status_line(common: &CommonArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let status = client.call::<method::Status>(&NoParams {}).await?;
    let mut parts = Vec::new();
    if status.pending_approvals > 0 {
        parts.push(format!("◐{}", status.pending_approvals));
    }
    if status.pending_questions > 0 {
        parts.push(format!("?{}", status.pending_questions));
    }
    if status.pending_approvals > 0 {
        let params = ListParams {
            status: Some(ListStatus::Pending),
            limit: Some(SEARCHED_MAX),
            ..ListParams::default()
        };
        let asks = client.call::<method::Approvals>(&params).await?;
        let oldest = asks.iter().map(|ask| ask.created_at).min();
        parts.extend(oldest.map(|at| duration::age(duration::now(), at)));
    }
    let line = parts.join(" ");
    common.print(&json!({ "line": line }), || {
        if line.is_empty() {
            String::new()
        } else {
            format!("{line}\n")
        }
    })
}

fn web_page(status: &HostStatus) -> String {
    let is_built = status.web.as_ref().is_some_and(|web| web.built);
    let text = match (is_built, &status.listen) {
        (false, _) => "not built: run `make web` and build the host again",
        (true, None) => "needs TCP, and this host listens on the socket alone",
        (true, Some(_)) => "open it with `countersign open`",
    };
    text.to_owned()
}

fn status_fields(status: &HostStatus, now: Time) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        (
            "host",
            format!(
                "version {}, pid {}, up {}",
                status.version,
                status.pid,
                duration::age(now, status.started_at)
            ),
        ),
        (
            "listen",
            status.listen.clone().unwrap_or_else(|| "no TCP".into()),
        ),
        ("web page", web_page(status)),
        ("socket", status.socket.clone()),
        ("database", status.database.clone()),
        ("agents", status.agents.to_string()),
        ("open asks", status.pending_approvals.to_string()),
        ("open questions", status.pending_questions.to_string()),
        ("connections", status.connections.to_string()),
        ("newest event", status.event_sequence.to_string()),
        (
            "you are",
            format!("{} ({})", escape::line(&status.you.name), status.you.role),
        ),
    ];
    let warnings = rules::warnings(&status.rule_problems, &status.bypassed, now);
    if !warnings.is_empty() {
        fields.push(("warning", warnings.join("\n")));
    }
    if status.unnamed_callers {
        let allowed =
            "over TCP a token is enough, even if the calling process cannot be identified";
        fields.push(("unnamed callers", allowed.to_owned()));
    }
    fields.extend(status.store_error.as_ref().map(|error| {
        let error = escape::line(error);
        if status.record_lost {
            ("RECORD LOST", error.into_owned())
        } else {
            ("store error", format!("{error}: nothing is allowed"))
        }
    }));
    fields
}
