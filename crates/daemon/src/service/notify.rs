//! Notifications: who looks at a screen, how channels fare, which browsers are told.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::{
    Approval, ApprovalAnswer, Caller, ClientId, DENY, Door, Json, Principal, PrincipalKey,
    Rejection, Role, Timestamp, TokenId,
};
use countersign_notify::PushSubscription;
use tokio::sync::oneshot;

use super::{Service, ServiceResult};
use crate::notify::{
    self, AskViewer, ChannelReport, ChannelTest, ScreenReport, ScreenReports, ViewerWatch,
};
use crate::supervisor::SupervisorCommand;

/// How people elsewhere are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyOverview {
    pub channels: Vec<ChannelReport>,
    /// What a browser needs to subscribe, in base64.
    pub push_key: String,
}

/// Notifications.
impl Service {
    /// A page says whether it is in front of somebody, and what it shows.
    pub fn note_presence(
        &self,
        caller: &Caller,
        focused: bool,
        subject: Option<&str>,
    ) -> ServiceResult<()> {
        caller.require_operator()?;
        let report = ScreenReport {
            screen: screen_of(caller).to_owned(),
            focused,
            shown: subject.map(|subject| self.viewer(caller, subject)),
        };
        self.screens().report(report, self.now());
        Ok(())
    }

    /// Tells a screen from now on what is open on others. Never an agent or an observer.
    pub fn watch_viewers(&self, caller: &Caller) -> ServiceResult<ViewerWatch> {
        caller.require_operator()?;
        let screen = screen_of(caller).to_owned();
        Ok(ViewerWatch::new(self.clone(), screen))
    }

    pub(super) fn forget_screen(&self, client: &ClientId) {
        self.screens().forget(client.as_str());
    }

    pub(crate) fn screens(&self) -> &ScreenReports {
        &self.shared.notify.screens
    }

    fn viewer(&self, caller: &Caller, subject: &str) -> AskViewer {
        let principal = &caller.principal;
        let directory = self.shared.directory.read();
        let token = directory.find_token(&TokenId::new(principal.key.as_str()));
        let device = token.and_then(|token| token.device.as_ref());
        AskViewer {
            subject: subject.to_owned(),
            name: principal.name.to_string(),
            device: device.map(|device| device.name.clone()),
            door: caller.door,
        }
    }

    pub fn notify_overview(&self, caller: &Caller) -> ServiceResult<NotifyOverview> {
        caller.require_operator()?;
        Ok(NotifyOverview {
            channels: self.shared.notify.reports(),
            push_key: self.shared.notify.keys()?.public_key(),
        })
    }

    /// Sends a test to every channel.
    pub async fn test_notifications(&self, caller: &Caller) -> ServiceResult<Vec<ChannelTest>> {
        caller.require_operator()?;
        Ok(self.shared.notify.test_channels(self.now()).await)
    }

    /// Tells a browser from now on; gives the id to end that with.
    pub async fn subscribe_push(
        &self,
        caller: &Caller,
        subscription: PushSubscription,
    ) -> ServiceResult<String> {
        caller.require_operator()?;
        let center = &self.shared.notify;
        let owner = caller.principal.key.clone();
        let id = notify::subscribe(self, center, subscription, owner).await?;
        tracing::info!(%id, by = %caller.principal.name, "a browser subscribed to notifications");
        Ok(id)
    }

    /// Tells a browser nothing more. Returns whether it was known.
    pub async fn unsubscribe_push(&self, caller: &Caller, id: &str) -> ServiceResult<bool> {
        caller.require_operator()?;
        notify::unsubscribe(self, &self.shared.notify, id).await
    }

    /// Denies the ask that an address in a notification was made for; `None` if this host made no such
    /// address. Whoever has the address may use it, and can do nothing but deny this one ask.
    pub async fn deny_by_code(&self, code: &str) -> ServiceResult<Option<Approval>> {
        let Some((id, channel)) = self.shared.notify.parse_deny_code(code)? else {
            return Ok(None);
        };
        let caller = Caller {
            principal: Arc::new(Principal {
                role: Role::Operator,
                name: format!("notification ({channel})").into(),
                key: PrincipalKey::new(format!("notify:{channel}")),
            }),
            client: None,
            door: Some(Door::Rest),
        };
        let found = self.load_approval(&caller, id.clone()).await?;
        // An ask could count `deny` among its approving options.
        if found.ask.approving.iter().any(|option| option == DENY) {
            return Ok(None);
        }
        if !found.is_pending() {
            return Err(Rejection::AlreadyResolved(Box::new(found)).into());
        }
        let answer = ApprovalAnswer {
            resolution: DENY.to_owned(),
            ..ApprovalAnswer::default()
        };
        let (denied, _) = self.resolve_approval(caller, id, answer).await?;
        Ok(Some(denied))
    }

    pub(super) async fn start_notifier(&self) -> ServiceResult<()> {
        notify::start_channels(self, &self.shared.notify).await
    }

    pub(crate) async fn load_notify_documents(&self) -> ServiceResult<Vec<(String, Json)>> {
        self.history(|history| history.notify_documents()).await
    }

    pub(crate) async fn save_notify_documents(
        &self,
        documents: Vec<(String, Option<Json>)>,
    ) -> ServiceResult<()> {
        let (answer, wait) = oneshot::channel();
        let command = SupervisorCommand::SaveNotifyDocuments { documents, answer };
        self.send(command).await?;
        wait.await.map_err(|_| self.unavailable())?.map(drop)
    }

    pub(crate) fn spawn_task(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.tasks.spawn(task);
    }

    /// Resolves when the loop has ended.
    pub(crate) async fn loop_ended(&self) {
        self.shared.commands.closed().await;
    }

    pub(crate) fn until(&self, at: Timestamp) -> Duration {
        self.shared.clock.until(at)
    }

    /// Whether a token still lets its bearer in.
    pub(crate) fn is_token_valid(&self, token: &TokenId) -> bool {
        let directory = self.shared.directory.read();
        let end = directory.find_token(token).map(|token| token.expires_at);
        end.is_some_and(|end| end.is_none_or(|end| self.now() < end))
    }
}

/// The connection, because one token may have several pages open.
fn screen_of(caller: &Caller) -> &str {
    match &caller.client {
        Some(client) => client.as_str(),
        None => caller.principal.key.as_str(),
    }
}
