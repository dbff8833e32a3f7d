//! What an attacker sends, by each door.

use serde_json::{Value, json};

/// What is attacked, and with what.
pub(super) struct Target<'a> {
    pub(super) host: &'a str,
    pub(super) approval: &'a str,
    /// An operator's token, if the attacker came to know one.
    pub(super) token: Option<&'a str>,
    /// The path of a login link.
    pub(super) ticket: &'a str,
}

impl Target<'_> {
    /// By every door: an answer, a token, what others asked, a cookie.
    pub(super) fn all(&self) -> Vec<(&'static str, Vec<u8>)> {
        vec![
            ("rest answer", self.rest_answer()),
            ("rest mint", self.rest_mint()),
            (
                "rest read",
                self.http("GET", "/api/v1/approvals", &[], None),
            ),
            ("sse", self.sse()),
            ("mcp", self.mcp()),
            ("ticket", self.login()),
            ("websocket answer", self.websocket_answer()),
            ("websocket mint", self.websocket_mint()),
        ]
    }

    pub(super) fn rest_answer(&self) -> Vec<u8> {
        let path = format!("/api/v1/approvals/{}/resolution", self.approval);
        let body = json!({ "resolution": "approve" });
        self.http("POST", &path, &[], Some(&body))
    }

    fn rest_mint(&self) -> Vec<u8> {
        let body = json!({ "role": "operator", "name": "minted" });
        self.http("POST", "/api/v1/tokens", &[], Some(&body))
    }

    fn login(&self) -> Vec<u8> {
        let form = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("content-length", "0"),
        ];
        self.http("POST", self.ticket, &form, None)
    }

    fn sse(&self) -> Vec<u8> {
        let accept = [("accept", "text/event-stream")];
        self.http("GET", "/api/v1/events?after=0", &accept, None)
    }

    fn mcp(&self) -> Vec<u8> {
        let arguments = json!({ "approval_id": self.approval, "decision": "allow" });
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "resolve_approval", "arguments": arguments },
        });
        let accept = [("accept", "application/json, text/event-stream")];
        self.http("POST", "/mcp", &accept, Some(&body))
    }

    pub(super) fn websocket_answer(&self) -> Vec<u8> {
        let params = json!({ "approval_id": self.approval, "resolution": "approve" });
        self.websocket("host.resolve_approval", &params)
    }

    fn websocket_mint(&self) -> Vec<u8> {
        let params = json!({ "role": "operator", "name": "minted" });
        self.websocket("host.create_token", &params)
    }

    fn http(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Vec<u8> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut lines = vec![
            format!("{method} {path} HTTP/1.1"),
            format!("host: {}", self.host),
            "connection: close".to_owned(),
        ];
        let token = self.token.map(|token| format!("Bearer {token}"));
        let bearer = token.as_deref().map(|token| ("authorization", token));
        for (name, value) in headers.iter().copied().chain(bearer) {
            lines.push(format!("{name}: {value}"));
        }
        if !body.is_empty() {
            lines.push("content-type: application/json".to_owned());
            lines.push(format!("content-length: {}", body.len()));
        }
        let head = lines.join("\r\n");
        format!("{head}\r\n\r\n{body}").into_bytes()
    }

    /// The handshake and both frames in one go.
    fn websocket(&self, method: &str, params: &Value) -> Vec<u8> {
        let mut bytes = format!(
            "GET / HTTP/1.1\r\nhost: {}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            self.host
        )
        .into_bytes();
        let auth = json!({ "token": self.token });
        for (id, method, params) in [(0, "session.auth", &auth), (1, method, params)] {
            let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            bytes.extend(text_frame(&frame.to_string()));
        }
        bytes
    }
}

/// Masked, as clients must, with a mask that changes nothing.
fn text_frame(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81];
    if let Ok(length @ ..126) = u8::try_from(text.len()) {
        frame.push(0x80 | length);
    } else {
        frame.push(0xfe);
        frame.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
    }
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    frame
}
