//! Asking the rules: before an ask enters the loop, and again about what is open when rules change.
//!
//! No ask falls between the two. Grants are looked at inside the loop, so an ask is decided before
//! a grant is made, and then it is open when everything open is looked at again after that; or
//! later, and then it is judged with the grant. Files are looked at before the loop, so an ask that
//! is still open after they changed meanwhile is looked at again by whoever asked it.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::limits::RECOVERY_MS;
use countersign_core::{
    AgentId, Approval, ApprovalId, Ask, AskRequest, Bookmark, Input, Rejection, is_own_tool,
};
use tokio::sync::oneshot;

use crate::gate::{Assessed, Unread};
use crate::reply::{Reply, ServiceError};
use crate::rulebook::Rulebook;
use crate::supervisor::{Command, Raised, View};

use super::{Result, Service, approval};

/// Asks taken apart at a time.
const PASS_ASKS: usize = 64;

/// How long to wait before what failed is tried again.
const AGAIN: Duration = Duration::from_millis(RECOVERY_MS);

/// Passes that may fail before what is open is left as it is: each takes long.
const FAILED_PASSES_MAX: usize = 3;

/// Settling.
impl Service {
    /// Takes an ask apart, off the loop and off the async threads. What cannot be read for whatever
    /// reason is nothing the rules can settle.
    pub(super) async fn assess(&self, unread: Unread) -> Option<Box<Assessed>> {
        let read = move |rulebook: &Rulebook| Box::new(Assessed::read(rulebook, &unread));
        self.look(read).await
    }

    async fn assess_all(&self, unread: Vec<Unread>) -> Option<Vec<Box<Assessed>>> {
        self.look(move |rulebook| {
            let read = |unread| Box::new(Assessed::read(rulebook, unread));
            unread.iter().map(read).collect()
        })
        .await
    }

    /// An ask with a tool goes to the rules first; any other waits for a person.
    pub(super) async fn ask_the_rules(&self, request: AskRequest) -> Result<Approval> {
        let seen = *self.shared.rulebook.changes().borrow();
        let unread = self.unread_request(&request).await?;
        let Some(assessed) = self.assess(unread).await else {
            return self.ask_a_person(request).await;
        };
        let wait = self.send_raised(raised(request, Some(assessed))).await?;
        let asked = approval(wait.await.map_err(|_| self.unavailable())??)?;
        if asked.is_pending() && *self.shared.rulebook.changes().borrow() != seen {
            self.shared.doubt.notify_one();
        }
        Ok(asked)
    }

    async fn send_raised(&self, raised: Raised) -> Result<oneshot::Receiver<Result<Reply>>> {
        let (answer, wait) = oneshot::channel();
        self.send(Command::Ask(raised, answer)).await?;
        Ok(wait)
    }

    /// An ask of a managed agent enters the loop; what follows from it is a duty, so nobody has to
    /// wait for more than its acceptance. What is sent after this is decided after it.
    ///
    /// `before` is decided right before it, and if any of that is refused the ask is too. The bookmark
    /// is committed with the ask if it is accepted: opened, settled by rules, or covered.
    pub(crate) async fn send_ask(
        &self,
        request: AskRequest,
        before: Vec<Input>,
        bookmark: Option<Bookmark>,
    ) -> Result<Asked> {
        let seen = *self.shared.rulebook.changes().borrow();
        let unread = self.unread_request(&request).await?;
        let assessed = match &request.tool {
            Some(_) => self.assess(unread).await,
            None => None,
        };
        let raised = Raised {
            before,
            bookmark,
            ..raised(request, assessed)
        };
        Ok(Asked {
            service: self.clone(),
            seen,
            wait: self.send_raised(raised).await?,
        })
    }

    async fn unread_request(&self, request: &AskRequest) -> Result<Unread> {
        let known = request.cwd.is_some();
        let (project, above) = match request.asking_agent().cloned() {
            Some(agent) => {
                self.read(move |view| {
                    let project = project_of(view, &agent).filter(|_| !known);
                    (project, above(view, Some(&agent)))
                })
                .await?
            }
            None => (None, Vec::new()),
        };
        Ok(Unread {
            tool: request.tool.clone().unwrap_or_default(),
            input: request.input.clone(),
            cwd: request.cwd.clone(),
            project,
            own_tool: self.is_about_own_tool(request),
            above,
        })
    }

    /// Whether a managed agent asks to call what the host gave it. What the host asks on behalf of an
    /// agent that called is another matter, although it is about the same tool.
    fn is_about_own_tool(&self, request: &AskRequest) -> bool {
        let managed = request.managed.as_ref();
        let given = self.shared.runners.tools.is_some();
        // Nothing else may come in under the name.
        let alone = managed.is_some_and(|managed| managed.passes.is_empty());
        given && alone && request.tool.as_deref().is_some_and(is_own_tool)
    }

    /// Asks the rules again about what is open: at the start, and whenever files changed.
    pub(super) async fn settle_whenever_rules_change(self) {
        let mut changes = self.shared.rulebook.changes();
        loop {
            let failed = self.settle_open().await.is_err();
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = self.shared.doubt.notified() => {}
                () = tokio::time::sleep(AGAIN), if failed => {}
                () = self.shared.commands.closed() => return,
            }
        }
    }

    /// As [`Service::settle_open`], for callers whose own work is done whatever comes of it. What
    /// could not be settled is tried again.
    pub(super) async fn settle_open_logged(&self) -> usize {
        self.settle_open().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "what is open could not be settled by rules");
            self.shared.doubt.notify_one();
            0
        })
    }

    /// Asks the rules again about everything open. Gives how many asks have ended by that.
    async fn settle_open(&self) -> Result<usize> {
        let open = self.read(open_asks).await?;
        let (mut settled, mut failed) = (0, 0);
        for some in open.chunks(PASS_ASKS) {
            let unread = some.iter().map(|(_, unread)| unread.clone()).collect();
            let Some(assessed) = self.assess_all(unread).await else {
                failed += 1;
                if failed == FAILED_PASSES_MAX {
                    break;
                }
                continue;
            };
            let mut waits = Vec::with_capacity(some.len());
            for ((id, _), assessed) in some.iter().zip(assessed) {
                waits.push(self.send_settle(id.clone(), assessed).await?);
            }
            for wait in waits {
                match wait.await.map_err(|_| self.unavailable())? {
                    Ok(reply) => settled += usize::from(!approval(reply)?.is_pending()),
                    // It ended meanwhile and memory has let go of it.
                    Err(ServiceError::Rejected(Rejection::UnknownApproval(_))) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(settled)
    }

    async fn send_settle(
        &self,
        approval: ApprovalId,
        assessed: Box<Assessed>,
    ) -> Result<oneshot::Receiver<Result<Reply>>> {
        let (answer, wait) = oneshot::channel();
        self.send(Command::Settle {
            approval,
            assessed,
            answer,
        })
        .await?;
        Ok(wait)
    }
}

fn raised(request: AskRequest, assessed: Option<Box<Assessed>>) -> Raised {
    Raised {
        request: Box::new(request),
        assessed,
        before: Vec::new(),
        bookmark: None,
    }
}

/// An ask that is on its way into the loop.
pub(crate) struct Asked {
    service: Service,
    seen: u64,
    wait: oneshot::Receiver<Result<Reply>>,
}

impl Asked {
    /// What the loop made of it: an approval, or an earlier one that allowed exactly this.
    pub(crate) async fn accepted(self) -> Result<Reply> {
        let service = self.service;
        let reply = self.wait.await.map_err(|_| service.unavailable())??;
        let changed = *service.shared.rulebook.changes().borrow() != self.seen;
        if changed && matches!(&reply, Reply::Approval(asked) if asked.is_pending()) {
            service.shared.doubt.notify_one();
        }
        Ok(reply)
    }
}

/// Everything open that has a tool, oldest first: what came first is first to use a grant.
fn open_asks(view: View<'_>) -> Vec<(ApprovalId, Unread)> {
    let open = view.state.open_approvals();
    let mut open: Vec<_> = open
        .filter(|approval| approval.ask.tool.is_some())
        .map(|approval| (approval.opened, approval.ask.clone()))
        .collect();
    open.sort_by_key(|(opened, _)| *opened);
    open.into_iter()
        .map(|(_, ask)| (ask.id.clone(), unread_ask(view, &ask)))
        .collect()
}

pub(super) fn unread_ask(view: View<'_>, ask: &Arc<Ask>) -> Unread {
    let project = ask.agent.as_ref().filter(|_| ask.cwd.is_none());
    let alone = ask.request.is_some() && ask.passes.is_empty();
    Unread {
        tool: ask.tool.clone().unwrap_or_default(),
        input: ask.input.clone(),
        cwd: ask.cwd.clone(),
        project: project.and_then(|agent| project_of(view, agent)),
        own_tool: alone && ask.tool.as_deref().is_some_and(is_own_tool),
        above: above(view, ask.agent.as_ref()),
    }
}

/// Those above an agent, each with the folder it works in.
pub(super) fn above(view: View<'_>, agent: Option<&AgentId>) -> Vec<(AgentId, String)> {
    let above = agent
        .into_iter()
        .flat_map(|agent| view.state.ancestors_of(agent));
    let above = above.filter_map(|id| {
        let managed = view.state.find_agent(id)?.managed.as_ref()?;
        Some((id.clone(), managed.folder().to_owned()))
    });
    above.collect()
}

pub(super) fn project_of(view: View<'_>, agent: &AgentId) -> Option<String> {
    let agent = view.state.find_agent(agent)?;
    agent.profile.project.clone()
}
