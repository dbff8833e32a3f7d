//! A subscriber that does not read, measured by the memory of the host's process.

use serde_json::json;

use crate::host::Host;
use crate::wire::Wire;

/// One subscriber reads nothing while another reads along.
#[tokio::test]
async fn a_subscriber_that_does_not_read_costs_only_itself() {
    const EVENTS: usize = 20_000;
    const AT_A_TIME: usize = 200;
    let host = Host::start();
    let mut stuck = Wire::subscriber(&host).await;
    let mut reader = Wire::subscriber(&host).await;
    let mut sender = Wire::operator(&host).await;
    let padding = "p".repeat(300);
    let before = host.resident();
    let sending = async {
        for batch in 0..EVENTS / AT_A_TIME {
            for number in 0..AT_A_TIME {
                let message = (batch * AT_A_TIME + number).to_string();
                sender
                    .request(
                        "host.notify",
                        json!({ "message": message, "payload": padding }),
                    )
                    .await;
            }
            for _ in 0..AT_A_TIME {
                assert!(sender.next().await.get("result").is_some());
            }
        }
    };
    let ((), order) = tokio::join!(sending, in_order(&mut reader, EVENTS));
    let grown = host.resident().saturating_sub(before);
    assert!(grown < 64 * 1024 * 1024, "grew by {grown} bytes");
    // When it reads again it gets everything, in the same order.
    assert_eq!(in_order(&mut stuck, EVENTS).await, order);
}

/// The sequence numbers of notifications `0..count`, which must come in order.
async fn in_order(wire: &mut Wire, count: usize) -> Vec<u64> {
    // Requests that are served side by side may be committed in another order than they were sent.
    let mut sequences = Vec::with_capacity(count);
    let mut seen = vec![false; count];
    for _ in 0..count {
        let event = wire.event().await;
        let number: usize = event["message"].as_str().unwrap().parse().unwrap();
        assert!(
            !std::mem::replace(&mut seen[number], true),
            "{number} came twice"
        );
        let sequence = event["sequence"].as_u64().unwrap();
        assert!(sequences.last().is_none_or(|last| *last < sequence));
        sequences.push(sequence);
    }
    sequences
}
