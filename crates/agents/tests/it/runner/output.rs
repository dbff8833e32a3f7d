//! What an agent says reaches a host whole, whatever hosts do.

use std::fs;

use countersign_core::limits;
use serde_json::json;

use super::client::{Host, Running, until};
use crate::support::guarded;

/// A small generator, so that a failure can be seen again.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[tokio::test]
async fn it_is_whole_and_in_order_over_hosts_that_come_and_go() {
    let running = Running::start();
    let (first, _) = running.shell("seq 200000; head -c 3000000 /dev/zero").await;
    drop(first);
    let mut expected: Vec<u8> = (1..=200_000)
        .flat_map(|n| format!("{n}\n").into_bytes())
        .collect();
    expected.extend(vec![0; 3_000_000]);
    let mut random = Random(42);
    let mut heard: Vec<u8> = Vec::new();
    let mut committed = 0;
    for _ in 0..40 {
        // Some of what was heard was not committed before the host was killed.
        heard.truncate(usize::try_from(committed).unwrap());
        let (mut host, _) = running.host_at(committed, &[]).await;
        take(&mut host, &mut heard, random.below(400_000)).await;
        committed += random.below(heard.len() as u64 - committed + 1);
        if random.below(2) == 0 {
            host.say(json!({"type": "committed", "through": committed, "open": []}))
                .await;
            host.say(json!({"type": "claim", "id": 1, "name": {"line": 1}}))
                .await;
            take_until_claimed(&mut host, &mut heard).await;
        }
    }
    heard.truncate(usize::try_from(committed).unwrap());
    let (mut host, _) = running.host_at(committed, &[]).await;
    let end = loop {
        let (head, body) = host.hear().await;
        if head["type"] != "output" {
            break head;
        }
        assert_eq!(head["at"], heard.len());
        heard.extend(body);
    };
    assert_eq!(end, super::client::exited(0));
    assert!(heard == expected);
}

async fn take(host: &mut Host, heard: &mut Vec<u8>, bytes: u64) {
    let enough = heard.len() as u64 + bytes;
    while (heard.len() as u64) < enough {
        let (head, body) = host.hear().await;
        if head["type"] == "exited" {
            return;
        }
        assert_eq!(head["at"], heard.len());
        heard.extend(body);
    }
}

/// What was committed is known by then.
async fn take_until_claimed(host: &mut Host, heard: &mut Vec<u8>) {
    loop {
        let (head, body) = host.hear().await;
        match head["type"].as_str() {
            Some("claimed") => return,
            Some("output") => heard.extend(body),
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_host_that_does_not_take_it_holds_the_agent_back() {
    let running = Running::start();
    let said = 40_000_000;
    let (mut host, _) = running
        .shell(&format!("head -c {said} /dev/zero; echo end >&2"))
        .await;
    let spill = running.record.folder.join("spill");
    let length = || fs::metadata(&spill).map_or(0, |found| found.len());
    until(|| length() >= limits::AGENT_LINE_BYTES_MAX as u64).await;
    let bound = (limits::AGENT_LINE_BYTES_MAX + limits::RUNNER_BYTES_HELD) as u64;
    for _ in 0..1_000 {
        assert!(length() <= bound);
        tokio::task::yield_now().await;
    }
    assert!(private_bytes(running.key.pid) < 8 * 1024 * 1024);
    // Frames are heard although none is taken.
    host.say(json!({"type": "committed", "through": 0, "open": []}))
        .await;
    let output = guarded(host.output(said)).await;
    assert!(output == vec![0; said]);
    assert_eq!(host.hear_kind("exited").await, super::client::exited(0));
    host.say(json!({"type": "committed", "through": said, "open": []}))
        .await;
    until(|| !spill.exists()).await;
}

#[tokio::test]
async fn a_line_too_long_does_not_stop_the_agent() {
    let running = Running::start();
    let said = 20_000_000;
    let (mut host, _) = running.shell(&format!("head -c {said} /dev/zero")).await;
    assert_eq!(host.output(said).await.len(), said);
    assert_eq!(host.hear_kind("exited").await, super::client::exited(0));
}

#[tokio::test]
async fn an_agent_that_does_not_read_is_heard_and_can_be_stopped() {
    let running = Running::start();
    let (mut host, _) = running.shell("while :; do echo tick; done").await;
    host.write(
        json!({"own": ["prompt", 1]}),
        "unspecified",
        &"x".repeat(1_000_000),
    )
    .await;
    assert!(host.output(100_000).await.starts_with(b"tick\ntick\n"));
    host.say(json!({"type": "stop", "grace_ms": 0})).await;
    let gone = loop {
        let (head, _) = host.hear().await;
        if head["type"] == "written" {
            break head["outcome"].clone();
        }
    };
    assert_eq!(gone, "gone");
    host.hear_kind("exited").await;
}

/// Memory that nobody else has.
pub(crate) fn private_bytes(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let kilobytes = rollup.lines().filter_map(|line| {
        let rest = line.strip_prefix("Private_")?;
        let (kind, size) = rest.split_once(':')?;
        let size = size.trim().strip_suffix(" kB")?.parse::<u64>().ok()?;
        ["Clean", "Dirty"].contains(&kind).then_some(size)
    });
    kilobytes.sum::<u64>() * 1024
}

#[tokio::test]
async fn a_runner_is_small() {
    let running = Running::start();
    let (_host, _) = running.shell("cat").await;
    let private = private_bytes(running.key.pid);
    println!("a runner has {private} bytes to itself");
    assert!(private < 6 * 1024 * 1024);
}
