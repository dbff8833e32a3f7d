//! ntfy: one `POST` of JSON to the server, with buttons to open and to deny.

use serde::Serialize;

use crate::http::OutgoingPost;
use crate::{NotifyMessage, SendError};

/// A topic on an ntfy server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NtfyChannel {
    pub server: String,
    pub topic: String,
    pub token: Option<String>,
}

#[derive(Serialize)]
struct NtfyBody<'a> {
    topic: &'a str,
    title: &'a str,
    message: &'a str,
    /// A second message with the same id replaces the first, since ntfy 2.16.
    sequence_id: &'a str,
    priority: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    click: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    actions: Vec<NtfyAction<'a>>,
}

#[derive(Serialize)]
struct NtfyAction<'a> {
    action: &'static str,
    label: &'static str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    clear: bool,
}

const DEFAULT_PRIORITY: u8 = 3;
const HIGH_PRIORITY: u8 = 4;

impl NtfyChannel {
    pub fn send(&self, message: &NotifyMessage) -> Result<(), SendError> {
        let body = self.body(message)?;
        let authorization = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(
            authorization
                .iter()
                .map(|value| ("authorization", value.as_str())),
        );
        let request = OutgoingPost {
            url: &self.server,
            headers: &headers,
            body: &body,
        };
        // A topic cannot go away for good, while a proxy in front may be set up wrongly for a while.
        request.send().map_err(|error| match error {
            SendError::Gone(text) => SendError::Later(text),
            other => other,
        })
    }

    fn body(&self, message: &NotifyMessage) -> Result<Vec<u8>, SendError> {
        let (open_url, deny_url) = (message.url(), message.deny_url());
        let open = open_url.as_deref().map(|url| NtfyAction {
            action: "view",
            label: "Open",
            url,
            method: None,
            clear: false,
        });
        let deny = deny_url.as_deref().map(|url| NtfyAction {
            action: "http",
            label: "Deny",
            url,
            method: Some("POST"),
            clear: true,
        });
        let body = NtfyBody {
            topic: &self.topic,
            title: &message.title,
            message: &message.text,
            sequence_id: &message.id,
            priority: if message.waits {
                HIGH_PRIORITY
            } else {
                DEFAULT_PRIORITY
            },
            click: open_url.as_deref(),
            actions: open.into_iter().chain(deny).collect(),
        };
        serde_json::to_vec(&body).map_err(|error| SendError::Refused(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::serve_once;
    use crate::message::sample;

    #[test]
    fn an_ask_has_buttons_to_open_and_to_deny_and_none_to_allow() {
        let (server, served) = serve_once(200, "{}");
        let channel = NtfyChannel {
            server,
            topic: "asks".to_owned(),
            token: Some("tk_secret".to_owned()),
        };
        channel.send(&sample()).unwrap();
        let request = served.join().unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("authorization: Bearer tk_secret"), "{head}");
        let expected = serde_json::json!({
            "topic": "asks",
            "title": "fix asks: Bash",
            "message": "cargo test",
            "sequence_id": "evt_7_1700000000000000",
            "priority": 4,
            "click": "https://box.example/ask/approval-1",
            "actions": [
                {"action": "view", "label": "Open", "url": "https://box.example/ask/approval-1", "clear": false},
                {"action": "http", "label": "Deny", "url": "https://box.example/notify/deny/SECRET",
                 "method": "POST", "clear": true},
            ],
        });
        let sent: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(sent, expected);
    }

    #[test]
    fn without_a_public_address_there_are_no_buttons() {
        let message = NotifyMessage {
            public_url: None,
            waits: false,
            ..sample()
        };
        let channel = NtfyChannel {
            server: String::new(),
            topic: "asks".to_owned(),
            token: None,
        };
        let body: serde_json::Value =
            serde_json::from_slice(&channel.body(&message).unwrap()).unwrap();
        let expected = serde_json::json!({
            "topic": "asks",
            "title": "fix asks: Bash",
            "message": "cargo test",
            "sequence_id": "evt_7_1700000000000000",
            "priority": 3,
        });
        assert_eq!(body, expected);
    }
}
