//! Standard output: whole lines, one writer at a time.

use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use serde_json::json;

/// Where lines go. If nobody reads them any more, standard input ends too, and with it everything.
#[derive(Default)]
pub(super) struct StdoutWriter(Mutex<()>);

impl StdoutWriter {
    /// A message as it is; line breaks between its parts mean nothing in JSON.
    pub(super) fn message(&self, text: &str) {
        let turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = text.replace(['\n', '\r'], " ") + "\n";
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(line.as_bytes());
        drop(written.and_then(|()| stdout.flush()));
        drop(turn);
    }

    /// An answer; the id and the result as they are written.
    pub(super) fn result(&self, id: &str, result: &str) {
        self.message(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
        ));
    }

    /// An answer that is a refusal of the protocol.
    pub(super) fn refuse(&self, id: &str, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
    }

    /// A tool's result that says in words why there is none.
    pub(super) fn tool_error(&self, id: &str, message: &str) {
        let result = json!({"content": [{"type": "text", "text": message}], "isError": true});
        self.result(id, &result.to_string());
    }

    /// A word on how far a call is. `told` rises with each.
    pub(super) fn progress(&self, token: &str, told: u64, message: &str) {
        let message = json!(message);
        self.message(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{told},"message":{message}}}}}"#
        ));
    }
}
