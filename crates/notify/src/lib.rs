//! Outgoing channels: how a message leaves the machine for ntfy, a webhook or a browser.
//!
//! Invariants: nothing here decides what is told, or when; each call sends one message once and ends
//! within [`SEND_MS`](countersign_core::limits::NOTIFY_SEND_MS); no redirect is followed, so that a
//! secret reaches only the server it was meant for; no message can carry a way to allow anything.
#![forbid(unsafe_code)]

mod address;
mod http;
mod key_file;
mod message;
mod ntfy;
mod push;
mod webhook;

pub use address::{AddressError, check_address};
pub use http::SendError;
pub use key_file::{KeyFileError, NotifyKeys};
pub use message::NotifyMessage;
pub use ntfy::NtfyChannel;
pub use push::{PushChannel, PushSubscription, SubscriptionError};
pub use webhook::{WebhookChannel, WebhookSecretError};
