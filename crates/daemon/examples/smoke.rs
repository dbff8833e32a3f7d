use std::sync::Arc;
use std::time::Duration;
use countersign_core::{Caller, Principal, PrincipalKey, Role, Answer};
use countersign_core::event::SpawnOptions;
use countersign_daemon::{SpawnRequest, Settings};
#[tokio::main(flavor = "multi_thread")]
async fn main() {
    let dir = tempfile::tempdir().unwrap();
    let (service, mut stopped) = countersign_daemon::open(&dir.path().join("x.db"), Settings::new("1")).await.unwrap();
    let caller = Caller { principal: Arc::new(Principal { role: Role::Operator, name: "ann".into(), key: PrincipalKey::new("ann") }), client: None };
    let command: Vec<String> = std::env::args().skip(1).collect();
    let (agent, _) = service.spawn_agent(&caller, SpawnRequest { name: None, options: SpawnOptions { command, cwd: dir.path().to_str().unwrap().into(), ..Default::default() }, secrets: vec![], prompt: Some("hello".into()) }).await.unwrap();
    let id = agent.id().clone();
    let s2 = service.clone(); let c2 = caller.clone();
    let (_, mut sub) = service.subscribe(None, None, countersign_daemon::Filter { kinds: Some(countersign_core::Event::KINDS.iter().map(|k| (*k).to_owned()).collect()), agent: None }).await.unwrap();
    tokio::task::spawn(async move {
        loop {
            for e in sub.next().await.unwrap() {
                println!("{} {:?}", e.committed.seq, e.committed.event);
                if let countersign_core::Event::ApprovalRequested(r) = &e.committed.event {
                    s2.resolve_approval(c2.clone(), r.ask.id.clone(), Answer { resolution: "approve".into(), ..Default::default() }).await.unwrap();
                }
            }
        }
    });
    let done = service.wait_idle(vec![id.clone()], Some(Duration::from_secs(30))).await.unwrap();
    println!("IDLE {:?}", done.is_some());
    let page = service.transcript(id, None, 100).await.unwrap();
    for p in page.parts { println!("{:?}", p.2.entries); }
    service.stop().await; stopped.wait().await;
}
