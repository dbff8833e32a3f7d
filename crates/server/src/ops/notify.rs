//! Operations on notifications.

use countersign_core::Caller;
use countersign_core::limits::{NOTIFY_ENDPOINT_BYTES_MAX, NOTIFY_NAME_BYTES_MAX};
use countersign_daemon::{
    AskViewer, ChannelKind, ChannelReport, ChannelTest, NotifyOverview, PushSubscription, Service,
};
use countersign_protocol as wire;
use countersign_protocol::Reason;

use super::Result;
use crate::api_error::ApiError;
use crate::convert;

pub(crate) fn note_presence(
    service: &Service,
    caller: &Caller,
    params: &wire::PresenceParams,
) -> Result<()> {
    let subject = params.subject.as_deref();
    check_length(
        "subject",
        subject.unwrap_or_default(),
        NOTIFY_NAME_BYTES_MAX,
    )?;
    Ok(service.note_presence(caller, params.focused, subject)?)
}

pub(crate) fn viewers_notice(viewers: Vec<AskViewer>) -> wire::ViewersNotice {
    let rows = viewers.into_iter().map(|viewer| wire::AskViewerRow {
        subject: viewer.subject,
        name: viewer.name,
        device: viewer.device,
        door: viewer.door.map(convert::door),
    });
    wire::ViewersNotice {
        viewers: rows.collect(),
    }
}

pub(crate) fn status(service: &Service, caller: &Caller) -> Result<wire::NotifyStatus> {
    let NotifyOverview { channels, push_key } = service.notify_overview(caller)?;
    Ok(wire::NotifyStatus {
        channels: channels.into_iter().map(channel_row).collect(),
        push_key: Some(push_key),
    })
}

pub(crate) async fn test(service: &Service, caller: &Caller) -> Result<wire::NotifyTestResult> {
    let results = service.test_notifications(caller).await?;
    Ok(wire::NotifyTestResult {
        results: results.into_iter().map(test_row).collect(),
    })
}

pub(crate) async fn subscribe(
    service: &Service,
    caller: &Caller,
    params: wire::PushSubscribeParams,
) -> Result<wire::PushSubscriptionId> {
    // Before anything is looked at: others do not learn what a subscription has to be like.
    caller.require_operator()?;
    check_length("endpoint", &params.endpoint, NOTIFY_ENDPOINT_BYTES_MAX)?;
    check_length(
        "device",
        params.device.as_deref().unwrap_or_default(),
        NOTIFY_NAME_BYTES_MAX,
    )?;
    let subscription = PushSubscription {
        endpoint: params.endpoint,
        p256dh: params.p256dh,
        auth: params.auth,
        device: params.device,
    };
    let checked = subscription.check();
    checked.map_err(|error| ApiError::plain(Reason::InvalidParams, error.to_string()))?;
    let id = service.subscribe_push(caller, subscription).await?;
    Ok(wire::PushSubscriptionId { id })
}

pub(crate) async fn unsubscribe(service: &Service, caller: &Caller, id: String) -> Result<()> {
    if service.unsubscribe_push(caller, &id).await? {
        return Ok(());
    }
    let message = "there is no such subscription";
    Err(ApiError::plain(Reason::UnknownDevice, message))
}

fn check_length(what: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    let message = format!("`{what}` is longer than {bytes_max} bytes");
    Err(ApiError::plain(Reason::InvalidParams, message))
}

fn channel_row(report: ChannelReport) -> wire::NotifyChannelRow {
    wire::NotifyChannelRow {
        name: report.name,
        kind: match report.kind {
            ChannelKind::Command => wire::NotifyChannelKind::Command,
            ChannelKind::Ntfy => wire::NotifyChannelKind::Ntfy,
            ChannelKind::Webhook => wire::NotifyChannelKind::Webhook,
            ChannelKind::Push => wire::NotifyChannelKind::Push,
        },
        last_ok: report.last_ok.map(convert::time),
        last_error: report.last_error,
    }
}

fn test_row(test: ChannelTest) -> wire::NotifyTestRow {
    wire::NotifyTestRow {
        name: test.name,
        ok: test.error.is_none(),
        error: test.error,
    }
}
