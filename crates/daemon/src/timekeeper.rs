//! The timekeeper: performs the one duty owed to time, waking the loop when something is due.

use countersign_core::Timestamp;
use tokio::sync::{mpsc, watch};

use crate::clock::HostClock;
use crate::supervisor::SupervisorCommand;

/// Sends [`SupervisorCommand::Time`] at each deadline that the supervisor names; ends with it.
pub(crate) async fn run_timekeeper(
    clock: HostClock,
    mut deadline: watch::Receiver<Option<Timestamp>>,
    commands: mpsc::Sender<SupervisorCommand>,
) {
    loop {
        let next = *deadline.borrow_and_update();
        let due = async {
            match next {
                Some(at) => tokio::time::sleep(clock.until(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = deadline.changed() => if changed.is_err() { return },
            () = due => {
                // The supervisor names the next deadline after each batch, this command's too, so
                // waiting for it cannot miss one and does not send the same deadline twice.
                if commands.send(SupervisorCommand::Time).await.is_err() || deadline.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}
