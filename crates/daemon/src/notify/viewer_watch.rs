//! Tells one screen which asks are open on others.

use std::future;

use tokio::sync::watch;

use super::screens::AskViewer;
use crate::service::Service;

/// What is open on other screens than one, whenever it changes.
pub struct ViewerWatch {
    service: Service,
    /// The screen that is told.
    screen: String,
    changed: watch::Receiver<()>,
    told: Vec<AskViewer>,
}

impl ViewerWatch {
    pub(crate) fn new(service: Service, screen: String) -> Self {
        let changed = service.screens().watch();
        Self {
            service,
            screen,
            changed,
            told: Vec::new(),
        }
    }

    /// Waits until something else is open elsewhere than was returned last; nothing, at first.
    /// Dropping the wait loses nothing.
    pub async fn next(&mut self) -> Vec<AskViewer> {
        loop {
            // Marked as seen before it is read: what is reported meanwhile wakes once more.
            self.changed.mark_unchanged();
            let now = self.service.now();
            let screens = self.service.screens();
            let (viewers, until) = screens.viewers_besides(&self.screen, now);
            if viewers != self.told {
                self.told.clone_from(&viewers);
                return viewers;
            }
            let left = until.map(|until| self.service.until(until));
            let expiry = async {
                match left {
                    Some(left) => tokio::time::sleep(left).await,
                    None => future::pending().await,
                }
            };
            tokio::select! {
                changed = self.changed.changed() => {
                    if changed.is_err() {
                        return future::pending().await;
                    }
                }
                () = expiry => {}
            }
        }
    }
}
