//! `status`: the host at a glance.

use countersign_protocol::{HostStatus, Time};
use serde_json::json;

use super::Common;
use crate::exit::Exit;
use crate::failure::CliError;
use crate::{duration, output, rules_text, shown};

pub(super) async fn status(common: &Common) -> Result<Exit, CliError> {
    let status: HostStatus = common
        .connect()
        .await?
        .call("host.status", &json!({}))
        .await?;
    if common.json {
        output::put_json(&status)?;
    } else {
        output::put(&output::fields(&status_fields(&status, duration::now())))?;
    }
    Ok(Exit::Ok)
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
        ("socket", status.socket.clone()),
        ("database", status.database.clone()),
        ("agents", status.agents.to_string()),
        ("open asks", status.pending_approvals.to_string()),
        ("open questions", status.pending_questions.to_string()),
        ("connections", status.connections.to_string()),
        ("newest event", status.event_sequence.to_string()),
        (
            "you are",
            format!("{} ({})", shown::line(&status.you.name), status.you.role),
        ),
    ];
    let warnings = rules_text::warnings(&status.rule_problems, &status.bypassed, now);
    if !warnings.is_empty() {
        fields.push(("care", warnings.join("\n")));
    }
    if status.unnamed_callers {
        let allowed = "on TCP a token alone counts where the calling process cannot be named";
        fields.push(("unnamed callers", allowed.to_owned()));
    }
    fields.extend(status.store_error.as_ref().map(|error| {
        let error = shown::line(error);
        if status.record_lost {
            ("RECORD LOST", error.into_owned())
        } else {
            ("store error", format!("{error}: nothing is allowed"))
        }
    }));
    fields
}
