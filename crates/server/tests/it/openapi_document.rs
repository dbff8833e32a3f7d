//! The OpenAPI document in the tree, kept true: others generate clients from it, and a test of the web page compares the
//! page's types with it.
//!
//! `COUNTERSIGN_BLESS=1 cargo test -p countersign-server --test it openapi_document` writes it anew.

use serde_json::Value;

use crate::golden::{check_golden, sort_members};
use crate::host::Host;
use crate::http::http;

#[tokio::test]
async fn the_document_in_the_tree_is_the_one_that_is_served() {
    let host = Host::start();
    let answer = http(&host.address, "GET", "/api/v1/openapi.json", &[], "").await;
    let mut document = answer.json();
    // It changes with every release, and says nothing about the API.
    document["info"]["version"] = Value::from("0.0.0");
    let text = serde_json::to_string_pretty(&sort_members(document)).unwrap();
    check_golden("docs/openapi.json", &format!("{text}\n"));
}
