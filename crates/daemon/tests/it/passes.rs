//! How often an ask passes the loop, and what is read without a pass.

use std::sync::atomic::Ordering;

use countersign_core::event::ProcessKey;
use countersign_core::{AgentId, AskRequest, Role};

use crate::fixture::{Host, ann, request};

const ASKS: u64 = 10;

impl Host {
    fn commands(&self) -> u64 {
        self.service.counters().commands.load(Ordering::Relaxed)
    }
}

/// One pass for each ask; the host itself may look once at what is open when it starts.
fn assert_one_pass_each(passes: u64) {
    assert!((ASKS..=ASKS + 1).contains(&passes), "{passes} passes");
}

fn process(pid: u32) -> ProcessKey {
    ProcessKey {
        pid,
        start_time: u64::from(pid),
    }
}

/// An ask of a hook for one call of a tool.
fn call(number: u64) -> AskRequest {
    AskRequest {
        turn: Some("session".to_owned()),
        tool_call: Some(format!("call-{number}")),
        ..request("bot", "make")
    }
}

#[tokio::test]
async fn an_external_ask_passes_the_loop_once() {
    let host = Host::start().await;
    host.register("bot").await;
    let before = host.commands();
    for number in 0..ASKS {
        host.asks("bot", &format!("make t{number}")).await;
    }
    assert_one_pass_each(host.commands() - before);
}

#[tokio::test]
async fn a_hooks_ask_passes_the_loop_once() {
    let host = Host::start().await;
    let bot = AgentId::new("bot");
    host.register("bot").await;
    let marked = host.service.mark_process(bot.clone(), process(7));
    marked.await.unwrap();
    let before = host.commands();
    for number in 0..ASKS {
        let found = host.service.find_marked(&[process(6), process(7)]);
        assert_eq!(found, Some(bot.clone()));
        assert!(host.service.find_agent(&bot).is_some());
        let asked = host.service.request_call_approval(call(number));
        assert!(asked.await.unwrap().is_pending());
    }
    assert_one_pass_each(host.commands() - before);
}

#[tokio::test]
async fn hooks_of_one_call_that_ask_at_once_share_one_ask() {
    let host = Host::start().await;
    host.register("bot").await;
    let (one, two, other) = tokio::join!(
        host.service.request_call_approval(call(1)),
        host.service.request_call_approval(call(1)),
        host.service.request_call_approval(call(2)),
    );
    let (one, two, other) = (one.unwrap(), two.unwrap(), other.unwrap());
    assert_eq!(one.ask.id, two.ask.id);
    assert_ne!(one.ask.id, other.ask.id);
}

#[tokio::test]
async fn whoever_saw_a_reply_reads_its_effect_in_the_directory() {
    let host = Host::start().await;
    let (service, bot) = (&host.service, AgentId::new("bot"));
    for pid in 1..100 {
        let version = service.trust_version();
        let marked = service.mark_process(bot.clone(), process(pid));
        marked.await.unwrap();
        assert_eq!(service.find_marked(&[process(pid)]), Some(bot.clone()));
        assert!(service.trust_version() > version);
        let made = service.create_token(ann(), Role::Observer, "eve".to_owned(), None);
        let (secret, token) = made.await.unwrap();
        assert!(service.identify(&secret).is_some());
        service.revoke_token(ann(), token.id).await.unwrap();
        assert!(service.identify(&secret).is_none());
    }
    service.forget_processes(vec![process(1)]).await.unwrap();
    assert_eq!(service.find_marked(&[process(1)]), None);
    assert_eq!(service.processes_of(&bot).len(), 98);
    let host = host.restart().await;
    assert_eq!(host.service.find_marked(&[process(2)]), Some(bot));
}
