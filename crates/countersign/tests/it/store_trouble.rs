//! When the record cannot be had or written: a clear word, and nothing allowed.

use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::json;

use crate::host::{Host, command, poll};
use crate::http::http;
use crate::wire::Wire;

fn start_again(home: &Path) -> (Output, String) {
    let ended = command(home)
        .args(["up", "--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&ended.stderr).into_owned();
    (ended, words)
}

#[tokio::test]
async fn a_second_host_on_the_same_home_is_refused() {
    let host = Host::start();
    let (ended, words) = start_again(host.home());
    assert!(!ended.status.success());
    assert!(words.contains("a host is already running"), "{words}");
    // The socket is only a hint: the record itself has one writer.
    std::fs::rename(host.socket(), host.home().join("run/elsewhere")).unwrap();
    let (ended, words) = start_again(host.home());
    assert!(!ended.status.success());
    assert!(words.contains("another host"), "{words}");
    std::fs::rename(host.home().join("run/elsewhere"), host.socket()).unwrap();
    let mut wire = Wire::unix(&host.socket()).await;
    wire.ok("host.notify", json!({ "message": "still here" }))
        .await;
    let mut wire = Wire::operator(&host).await;
    wire.ok("host.agents", json!({})).await;
}

#[test]
fn a_record_that_is_none_is_refused_and_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let record = home.path().join("countersign.db");
    let garbage = "not a database, but something somebody may want back".repeat(100);
    std::fs::write(&record, &garbage).unwrap();
    let (ended, words) = start_again(home.path());
    assert!(!ended.status.success());
    assert!(words.contains("countersign.db"), "{words}");
    assert_eq!(std::fs::read_to_string(&record).unwrap(), garbage);
}

#[tokio::test]
async fn a_record_damaged_in_the_middle_is_refused() {
    let mut host = Host::start();
    let mut wire = Wire::operator(&host).await;
    for _ in 0..20 {
        wire.ok("host.notify", json!({ "payload": "p".repeat(2000) }))
            .await;
    }
    host.stop();
    let record = host.home().join("countersign.db");
    let mut bytes = std::fs::read(&record).unwrap();
    let end = bytes.len().min(64 * 1024);
    bytes[100..end].fill(0xaa);
    std::fs::write(&record, &bytes).unwrap();
    let (ended, words) = start_again(host.home());
    assert!(!ended.status.success());
    assert!(words.contains("countersign.db"), "{words}");
}

#[test]
fn a_home_that_cannot_be_written_is_refused() {
    let (ended, words) = start_again(Path::new("/proc/self/countersign"));
    assert!(!ended.status.success());
    assert!(words.contains("could not make the folder"), "{words}");
}

/// The host's files may not grow past a bound, as on a disk that is full.
#[tokio::test]
async fn a_full_disk_allows_nothing_and_says_so() {
    let mut host = Host::start_bounded(4096);
    let mut wire = Wire::operator(&host).await;
    let id = wire
        .ok(
            "host.request_approval",
            json!({ "action": "x", "system_level": true }),
        )
        .await["id"]
        .take();
    let mut refusal = json!(null);
    let mut told = 0;
    for _ in 0..200 {
        let reply = wire
            .reply("host.notify", json!({ "payload": "p".repeat(100_000) }))
            .await;
        if let Some(error) = reply.get("error") {
            refusal = error.clone();
            break;
        }
        told += 1;
    }
    assert_eq!(
        (&refusal["code"], &refusal["data"]["reason"]),
        (&json!(-32603), &json!("store_unavailable")),
        "{refusal}"
    );
    let health = http(&host.address, "GET", "/healthz", &[], "").await;
    assert_eq!(health.status, 503, "{health:?}");
    let params = json!({ "approval_id": id, "resolution": "approve" });
    let answered = wire.reply("host.resolve_approval", params).await;
    // With room again, the record is whole and says exactly what callers were told.
    host.restart();
    let verified = command(host.home())
        .args(["audit", "verify"])
        .output()
        .unwrap();
    assert!(verified.status.success(), "{verified:?}");
    let mut wire = Wire::operator(&host).await;
    let row = wire.ok("host.approval", json!({ "approval_id": id })).await;
    let state = if answered.get("result").is_some() {
        "allowed"
    } else {
        "pending"
    };
    assert_eq!(row["state"], state, "{answered}");
    let events = wire
        .ok(
            "host.events",
            json!({ "kinds": ["host.notification"], "limit": 1000 }),
        )
        .await;
    assert_eq!(events.as_array().unwrap().len(), told);
}

/// Commits fail one after the other beside those who wait; each of them had no part in it.
#[tokio::test]
async fn who_waits_goes_on_waiting_while_commits_of_others_fail() {
    let mut host = Host::start_bounded(4096);
    let mut ask = command(host.home())
        .args(["ask", "wait for me", "--key", "k"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut noisy = Wire::operator(&host).await;
    let id = loop {
        let open = noisy
            .ok("host.approvals", json!({ "status": "pending" }))
            .await;
        if let Some(row) = open.get(0) {
            break row["id"].clone();
        }
    };
    let mut held = Wire::operator(&host).await;
    let long = json!({ "approval_id": id, "timeout_ms": 600_000 });
    let held_wait = held.request("host.wait_approval", long.clone()).await;
    let large = json!({ "payload": "p".repeat(100_000) });
    while noisy
        .reply("host.notify", large.clone())
        .await
        .get("error")
        .is_none()
    {}
    // New waits arrive in the very turns that fail.
    let mut late = Wire::operator(&host).await;
    let (mut late_waits, mut failed) = (Vec::new(), 0);
    for _ in 0..50 {
        let notified = noisy.request("host.notify", large.clone()).await;
        late_waits.push(late.request("host.wait_approval", long.clone()).await);
        let reply = noisy.reply_to(notified).await;
        failed += usize::from(reply.get("error").is_some());
    }
    assert_eq!(failed, 50);
    let looks = json!({ "approval_id": id, "timeout_ms": 1 });
    let look = late.request("host.wait_approval", looks).await;
    // Whatever had been refused would have come before this.
    assert_eq!(late.reply_to(look).await["result"]["state"], "pending");
    assert_eq!(ask.try_wait().unwrap(), None);
    host.restart();
    let mut wire = Wire::operator(&host).await;
    let params = json!({ "approval_id": id, "resolution": "approve" });
    wire.ok("host.resolve_approval", params).await;
    let ended = poll("the script", || ask.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
    drop((held, held_wait, late_waits));
}
