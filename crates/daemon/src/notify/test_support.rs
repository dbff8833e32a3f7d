//! What the tests of the notifier share.

use countersign_core::{Ask, Caller, RecordedActor, Timestamp};
use serde_json::{Value, json};

/// An ask that has these fields, and else only what every ask has.
pub(super) fn ask(fields: Value) -> Ask {
    let mut all = json!({
        "id": "approval-1",
        "action": "run",
        "options": ["approve", "deny"],
        "approving": ["approve"],
        "by": RecordedActor::from(&Caller::host()),
        "attachment": "none",
        "asked_at": Timestamp(0),
    });
    let Value::Object(fields) = fields else {
        panic!("fields are an object")
    };
    for (name, value) in fields {
        all[name] = value;
    }
    serde_json::from_value(all).unwrap()
}
