//! Notifications: who looks at a screen, how channels fare, which browsers are told.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::scalar::Time;
use crate::states::HostDoor;

/// `host.presence`: a page says whether it is in front of somebody. From then on its connection is
/// sent what is open on others ([`VIEWERS_NOTIFICATION`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresenceParams {
    pub focused: bool,
    /// The id of the ask or question that it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// The method of the notification that tells a page what is open on others. Each replaces the one
/// before; until the first, nothing is.
pub const VIEWERS_NOTIFICATION: &str = "host.viewers";

/// The parameters of `host.viewers`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewersNotice {
    pub viewers: Vec<AskViewerRow>,
}

/// Another screen on which an ask or a question is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AskViewerRow {
    /// The id of the ask or question.
    pub subject: String,
    /// Who looks.
    pub name: String,
    /// What the user of a browser that logged in calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<HostDoor>,
}

/// `host.notify_status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotifyStatus {
    pub channels: Vec<NotifyChannelRow>,
    /// The `applicationServerKey` with which a browser subscribes, in URL-safe base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_key: Option<String>,
}

/// How a channel fares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotifyChannelRow {
    pub name: String,
    pub kind: NotifyChannelKind,
    /// When it last told something, since the host started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_ok: Option<Time>,
    /// Why the last attempt failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// What a channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotifyChannelKind {
    Command,
    Ntfy,
    Webhook,
    Push,
    /// A kind of a later version.
    #[serde(other)]
    Unknown,
}

/// `host.notify_test`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifyTestResult {
    pub results: Vec<NotifyTestRow>,
}

/// What came of testing a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifyTestRow {
    pub name: String,
    pub ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `host.push_subscribe`: what a browser's `PushSubscription` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushSubscribeParams {
    pub endpoint: String,
    pub p256dh: String,
    pub auth: String,
    /// What its user calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// The id of a subscription: the same if a browser subscribes again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushSubscriptionId {
    pub id: String,
}
