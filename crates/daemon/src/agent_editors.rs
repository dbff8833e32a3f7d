//! The editors that agents are open in, as far as the host has them do something: run commands and give files
//! as they have them.
//!
//! Invariants: one editor serves an agent at a time, and another only after that one was lost; a call is answered
//! once, by the editor it was meant for; an editor that was out of reach for [`EDITOR_LOST_MS`] is lost, and
//! with it every call that it did not answer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_agents::{
    EditorAbilities, EditorCall, EditorCallError, EditorFuture, EditorLink, EditorReply,
};
use countersign_core::AgentId;
use countersign_core::limits::{EDITOR_CALLS_OPEN_MAX, EDITOR_LOST_MS};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

type EditorCallResult = Result<EditorReply, EditorCallError>;

/// The editors of all agents.
#[derive(Clone, Default)]
pub(crate) struct AgentEditors(Arc<Mutex<HashMap<AgentId, Arc<AgentEditor>>>>);

/// The editor of one agent.
struct AgentEditor {
    table: Mutex<EditorTable>,
    /// Changes with every call and with who serves.
    changed: watch::Sender<()>,
}

struct EditorTable {
    serving: Option<ServingEditor>,
    calls: BTreeMap<u64, OpenEditorCall>,
    /// Creates that nobody waits for any more; what they start is ended.
    abandoned: BTreeSet<u64>,
    next: u64,
}

struct ServingEditor {
    id: String,
    abilities: EditorAbilities,
    /// Requests for calls that it holds open.
    held: usize,
    /// When it last let go of one.
    seen: Instant,
}

struct OpenEditorCall {
    editor: String,
    call: EditorCall,
    answer: Option<oneshot::Sender<EditorCallResult>>,
}

impl ServingEditor {
    fn lost_at(&self) -> Option<Instant> {
        (self.held == 0).then(|| self.seen + Duration::from_millis(EDITOR_LOST_MS))
    }

    fn is_lost(&self) -> bool {
        self.lost_at().is_some_and(|at| at <= Instant::now())
    }
}

impl AgentEditors {
    fn of(&self, agent: &AgentId) -> Arc<AgentEditor> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let editor = all.entry(agent.clone()).or_insert_with(|| {
            Arc::new(AgentEditor {
                table: Mutex::new(EditorTable {
                    serving: None,
                    calls: BTreeMap::new(),
                    abandoned: BTreeSet::new(),
                    // Above those of every earlier host, so that an editor's cursor stays right.
                    next: now_micros(),
                }),
                changed: watch::channel(()).0,
            })
        });
        editor.clone()
    }

    /// The way to the editor of an agent.
    pub(crate) fn link(&self, agent: &AgentId) -> AgentEditorLink {
        AgentEditorLink(self.of(agent))
    }

    /// Calls for an editor after a number; waits for the first until `until`. While it waits, the editor serves.
    pub(crate) async fn take(
        &self,
        agent: &AgentId,
        editor: &str,
        abilities: EditorAbilities,
        after: u64,
        until: Instant,
    ) -> Vec<(u64, EditorCall)> {
        let agent_editor = self.of(agent);
        let mut changed = agent_editor.changed.subscribe();
        let mut held: Option<EditorPollGuard> = None;
        loop {
            changed.mark_unchanged();
            if held.is_none() {
                held = agent_editor.attach(editor, abilities);
            }
            let calls = agent_editor.calls_after(editor, after);
            if !calls.is_empty() {
                return calls;
            }
            // Another editor serves: this one takes over when that one is lost.
            let retry = match held {
                Some(_) => until,
                None => until.min(Instant::now() + Duration::from_millis(EDITOR_LOST_MS / 2)),
            };
            tokio::select! {
                _ = changed.changed() => {}
                () = sleep_until(retry) => if Instant::now() >= until { return Vec::new() },
            }
        }
    }

    /// Takes an editor's answer. One that nobody waits for is dropped, and what it started is ended.
    pub(crate) fn answer(
        &self,
        agent: &AgentId,
        editor: &str,
        call: u64,
        result: EditorCallResult,
    ) {
        self.of(agent).answer(editor, call, result);
    }
}

fn now_micros() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_micros()).unwrap_or_default()
}

/// Keeps an editor present until it is dropped.
struct EditorPollGuard {
    editor: Arc<AgentEditor>,
    id: String,
}

impl Drop for EditorPollGuard {
    fn drop(&mut self) {
        let mut table = self.editor.table();
        if let Some(serving) = table.serving.as_mut().filter(|found| found.id == self.id) {
            serving.held = serving.held.saturating_sub(1);
            serving.seen = Instant::now();
        }
        drop(table);
        self.editor.changed.send_replace(());
    }
}

impl AgentEditor {
    fn table(&self) -> MutexGuard<'_, EditorTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attach(self: &Arc<Self>, id: &str, abilities: EditorAbilities) -> Option<EditorPollGuard> {
        let mut table = self.table();
        match &mut table.serving {
            Some(serving) if serving.id == id => {
                serving.held += 1;
                serving.abilities = abilities;
            }
            Some(serving) if !serving.is_lost() => return None,
            serving => {
                *serving = Some(ServingEditor {
                    id: id.to_owned(),
                    abilities,
                    held: 1,
                    seen: Instant::now(),
                });
                table.drop_calls_of_others(id);
            }
        }
        drop(table);
        self.changed.send_replace(());
        Some(EditorPollGuard {
            editor: self.clone(),
            id: id.to_owned(),
        })
    }

    fn calls_after(&self, editor: &str, after: u64) -> Vec<(u64, EditorCall)> {
        let table = self.table();
        let calls = table.calls.range(after.saturating_add(1)..);
        calls
            .filter(|(_, open)| open.editor == editor)
            .map(|(id, open)| (*id, open.call.clone()))
            .collect()
    }

    fn answer(&self, editor: &str, call: u64, result: EditorCallResult) {
        let mut table = self.table();
        if table.abandoned.remove(&call) {
            if let Ok(EditorReply::Terminal { terminal }) = result {
                let kill = EditorCall::KillTerminal {
                    terminal: terminal.clone(),
                };
                table.add(editor, kill, None);
                table.add(editor, EditorCall::ReleaseTerminal { terminal }, None);
                drop(table);
                self.changed.send_replace(());
            }
            return;
        }
        let is_meant = table
            .calls
            .get(&call)
            .is_some_and(|open| open.editor == editor);
        let open = table.calls.remove(&call).filter(|_| is_meant);
        if let Some(answer) = open.and_then(|open| open.answer) {
            // Whoever asked may have left.
            answer.send(result).ok();
        }
    }

    /// The editor that a call goes to, as soon as there is one that can do it.
    async fn find_editor(
        &self,
        wanted: Option<&str>,
        call: &EditorCall,
    ) -> Result<String, EditorCallError> {
        let mut changed = self.changed.subscribe();
        // A host that was just replaced has not met the editor yet.
        let give_up = Instant::now() + Duration::from_millis(EDITOR_LOST_MS);
        loop {
            changed.mark_unchanged();
            match self.find_serving(wanted, call) {
                Some(found) => return found,
                None if Instant::now() >= give_up => return Err(EditorCallError::Lost),
                None => {}
            }
            tokio::select! {
                _ = changed.changed() => {}
                () = sleep_until(give_up) => {}
            }
        }
    }

    fn find_serving(
        &self,
        wanted: Option<&str>,
        call: &EditorCall,
    ) -> Option<Result<String, EditorCallError>> {
        let table = self.table();
        let serving = table.serving.as_ref().filter(|found| !found.is_lost())?;
        // Another one serves, so the one that is wanted was lost before.
        if wanted.is_some_and(|wanted| wanted != serving.id) {
            return Some(Err(EditorCallError::Lost));
        }
        let can = match call {
            EditorCall::ReadFile { .. } => serving.abilities.files,
            _ => serving.abilities.terminals,
        };
        if can {
            return Some(Ok(serving.id.clone()));
        }
        Some(Err(EditorCallError::Refused {
            message: "it cannot do this".to_owned(),
        }))
    }

    /// Returns when this editor is lost.
    async fn wait_until_lost(&self, editor: &str) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let lost_at = match &self.table().serving {
                Some(serving) if serving.id == editor => serving.lost_at(),
                _ => return,
            };
            match lost_at {
                Some(at) if at <= Instant::now() => return,
                Some(at) => tokio::select! {
                    _ = changed.changed() => {}
                    () = sleep_until(at) => {}
                },
                None => drop(changed.changed().await),
            }
        }
    }

    async fn call(
        &self,
        wanted: Option<&str>,
        call: EditorCall,
    ) -> Result<(String, EditorReply), EditorCallError> {
        let editor = self.find_editor(wanted, &call).await?;
        let (sender, answer) = oneshot::channel();
        let is_create = matches!(call, EditorCall::CreateTerminal { .. });
        let id = self.table().add(&editor, call, Some(sender));
        let id = id.ok_or_else(|| EditorCallError::Refused {
            message: "too many calls wait for it".to_owned(),
        })?;
        self.changed.send_replace(());
        // Whatever ends this, the call is not given to the editor again.
        let _open = CallGuard {
            editor: self,
            id,
            is_create,
        };
        tokio::select! {
            biased;
            answered = answer => {
                let reply = answered.unwrap_or(Err(EditorCallError::Lost))?;
                Ok((editor, reply))
            }
            () = self.wait_until_lost(&editor) => Err(EditorCallError::Lost),
        }
    }
}

impl EditorTable {
    /// Nothing if there are too many.
    fn add(
        &mut self,
        editor: &str,
        call: EditorCall,
        answer: Option<oneshot::Sender<EditorCallResult>>,
    ) -> Option<u64> {
        if self.calls.len() >= EDITOR_CALLS_OPEN_MAX {
            return None;
        }
        let id = self.next;
        self.next += 1;
        let editor = editor.to_owned();
        let open = OpenEditorCall {
            editor,
            call,
            answer,
        };
        self.calls.insert(id, open);
        Some(id)
    }

    fn drop_calls_of_others(&mut self, editor: &str) {
        self.calls.retain(|_, open| open.editor == editor);
        self.abandoned.clear();
    }
}

/// Takes a call off the table when its caller leaves.
struct CallGuard<'a> {
    editor: &'a AgentEditor,
    id: u64,
    is_create: bool,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let mut table = self.editor.table();
        let was_open = table.calls.remove(&self.id).is_some();
        if was_open && self.is_create && table.abandoned.len() < EDITOR_CALLS_OPEN_MAX {
            table.abandoned.insert(self.id);
        }
    }
}

/// The way to the editor of one agent.
pub(crate) struct AgentEditorLink(Arc<AgentEditor>);

impl AgentEditorLink {
    /// Whether an editor is there that gives files.
    pub(crate) fn has_files(&self) -> bool {
        let table = self.0.table();
        let serving = table.serving.as_ref().filter(|found| !found.is_lost());
        serving.is_some_and(|serving| serving.abilities.files)
    }
}

impl EditorLink for AgentEditorLink {
    fn call<'a>(&'a self, editor: Option<&'a str>, call: EditorCall) -> EditorFuture<'a> {
        Box::pin(self.0.call(editor, call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: EditorAbilities = EditorAbilities {
        terminals: true,
        files: true,
    };

    fn create() -> EditorCall {
        EditorCall::CreateTerminal {
            key: 1,
            only_known: false,
            program: "sh".to_owned(),
            args: Vec::new(),
            title: String::new(),
            env: Vec::new(),
            cwd: "/".to_owned(),
            output_bytes_max: 1,
        }
    }

    fn output() -> EditorCall {
        EditorCall::TerminalOutput {
            terminal: "t".to_owned(),
        }
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_mins(10)
    }

    #[tokio::test]
    async fn a_call_is_answered_once_and_by_its_editor() {
        let editors = AgentEditors::default();
        let agent = AgentId::new("a");
        let link = editors.link(&agent);
        let serve = async {
            let calls = editors.take(&agent, "one", BOTH, 0, far()).await;
            let [(id, call)] = &calls[..] else {
                panic!("{calls:?}")
            };
            assert_eq!(*call, output());
            editors.answer(&agent, "two", id + 1, Ok(EditorReply::Done));
            // Taken again because the reply was lost: it is the same call.
            let again = editors.take(&agent, "one", BOTH, 0, far()).await;
            assert_eq!(again, calls);
            editors.answer(&agent, "one", *id, Ok(EditorReply::Done));
        };
        let (done, ()) = tokio::join!(link.call(None, output()), serve);
        assert_eq!(done, Ok(("one".to_owned(), EditorReply::Done)));
    }

    #[tokio::test]
    async fn an_editor_that_stops_asking_is_lost_and_the_next_serves() {
        let editors = AgentEditors::default();
        let agent = AgentId::new("a");
        let link = editors.link(&agent);
        let serve = async {
            editors.take(&agent, "one", BOTH, 0, far()).await;
        };
        let (lost, ()) = tokio::join!(link.call(None, output()), serve);
        assert_eq!(lost, Err(EditorCallError::Lost));
        let until = Instant::now() + Duration::from_secs(1);
        let calls = editors.take(&agent, "two", BOTH, 0, until).await;
        assert_eq!(calls, []);
        let lost = link.call(Some("one"), output()).await;
        assert_eq!(lost, Err(EditorCallError::Lost));
    }

    #[tokio::test]
    async fn without_an_editor_a_call_is_lost() {
        let link = AgentEditors::default().link(&AgentId::new("a"));
        assert_eq!(link.call(None, create()).await, Err(EditorCallError::Lost));
    }

    #[tokio::test]
    async fn what_a_late_create_started_is_ended() {
        let editors = AgentEditors::default();
        let agent = AgentId::new("a");
        let link = editors.link(&agent);
        let late = tokio::time::timeout(Duration::from_secs(1), link.call(None, create()));
        let take = editors.take(&agent, "one", BOTH, 0, far());
        let (late, calls) = tokio::join!(late, take);
        late.expect_err("nobody answered");
        let id = calls[0].0;
        let terminal = "t".to_owned();
        let made = EditorReply::Terminal {
            terminal: terminal.clone(),
        };
        editors.answer(&agent, "one", id, Ok(made));
        let calls = editors.take(&agent, "one", BOTH, id, far()).await;
        let calls: Vec<_> = calls.into_iter().map(|(_, call)| call).collect();
        let kill = EditorCall::KillTerminal {
            terminal: terminal.clone(),
        };
        assert_eq!(calls, [kill, EditorCall::ReleaseTerminal { terminal }]);
    }
}
