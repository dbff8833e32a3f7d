//! `status`: the host at a glance.

use countersign_protocol::{HostStatus, NoParams, Time, method};

use super::CommonArgs;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::{escape, rules};
use crate::{duration, output};

pub(super) async fn status(common: &CommonArgs) -> Result<CliExit, CliError> {
    let status = common.call::<method::Status>(&NoParams {}).await?;
    common.print(&status, || {
        output::fields(&status_fields(&status, duration::now()))
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
