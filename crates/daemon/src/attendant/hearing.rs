//! Hearing: what an agent says becomes inputs of the loop, in the order it was said.
//!
//! Text is held and committed in pieces, and before everything it came before. An ask enters the loop
//! and is not waited for.

use std::sync::Arc;

use countersign_agents::adapter::{Exit, Happening, Ready, Report, RequestId, TurnEnd};
use countersign_agents::runner::LinkEvent;
use countersign_core::event::TurnEnded;
use countersign_core::limits::{AGENT_LINE_BYTES_SHORT, AGENT_LOG_BYTES_KEPT, RUNNER_BYTES_HELD};
use countersign_core::{Bookmark, Input, ManagedInput, Ran};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::crash;

use super::pace::Pace;
use super::run::{Last, Run};
use super::story::Story;
use super::talk::{Lost, Mark};

/// What the hearing side keeps.
#[derive(Default)]
pub(super) struct Hearing {
    pub(super) story: Story,
    log: String,
    pub(super) in_turn: bool,
    /// Whether more of the newest line is still to be taken in.
    is_partial: bool,
    /// The number of the newest line.
    heard: u64,
    /// The number of the newest line that is committed.
    committed: u64,
}

impl Run {
    /// Hears an agent to its end.
    pub(super) async fn hear_all(
        self: Arc<Self>,
        mut events: mpsc::Receiver<LinkEvent>,
        (log, heard, in_turn): (String, u64, bool),
    ) -> Last {
        let mut hearing = Hearing {
            log,
            in_turn,
            heard,
            committed: heard,
            ..Hearing::default()
        };
        let ended = self.hear_until_over(&mut events, &mut hearing).await;
        Last {
            report: hearing.story.take_report(&self.agent),
            said: hearing.story.take(),
            ended: ended.ok(),
            in_turn: hearing.in_turn,
            log: hearing.log,
            link: Some(events),
        }
    }

    async fn hear_until_over(
        self: &Arc<Self>,
        events: &mut mpsc::Receiver<LinkEvent>,
        hearing: &mut Hearing,
    ) -> Result<(Exit, Option<String>), Lost> {
        let mut pace = Pace::begin(Instant::now());
        loop {
            match next(events, &hearing.story).await {
                Next::Due => self.commit(hearing, Vec::new()).await?,
                Next::Came(Some(LinkEvent::Exited { exit, why })) => return Ok((exit, why)),
                Next::Came(None | Some(LinkEvent::Lost)) => return Err(Lost),
                Next::Came(Some(event)) => {
                    let rest = pace.heard(size_of(&event), Instant::now());
                    self.take(event, hearing).await?;
                    if let Some(until) = rest {
                        tokio::time::sleep_until(until).await;
                    }
                }
            }
        }
    }

    async fn take(self: &Arc<Self>, event: LinkEvent, hearing: &mut Hearing) -> Result<(), Lost> {
        match event {
            LinkEvent::Line { number, bytes } => self.take_line(number, &bytes, hearing).await?,
            LinkEvent::Oversized { number, bytes } => {
                let words = format!("a line of {bytes} bytes was too long to be read");
                hearing.story.note(words);
                self.skip_to(number);
                hearing.heard = number;
            }
            LinkEvent::Log(text) => {
                tracing::debug!(agent = %self.agent, text, "log of an agent");
                keep_end(&mut hearing.log, &text);
            }
            LinkEvent::Exited { .. } | LinkEvent::Lost => {}
        }
        if hearing.story.is_full() || is_far(hearing) {
            self.commit(hearing, Vec::new()).await?;
        }
        Ok(())
    }

    async fn take_line(
        self: &Arc<Self>,
        number: u64,
        bytes: &[u8],
        hearing: &mut Hearing,
    ) -> Result<(), Lost> {
        let heard = aside(bytes.len(), || self.hear(bytes, number));
        hearing.heard = number;
        let mut happenings = heard.happenings.into_iter();
        while let Some(happening) = happenings.next() {
            hearing.is_partial = happenings.as_slice().iter().any(matters);
            self.happen(happening, hearing).await?;
        }
        hearing.is_partial = false;
        Ok(())
    }

    async fn happen(
        self: &Arc<Self>,
        happening: Happening,
        hearing: &mut Hearing,
    ) -> Result<(), Lost> {
        match happening {
            Happening::Said(entry) => {
                hearing.in_turn = true;
                hearing.story.add(entry);
                crash::point("text_heard");
            }
            Happening::Reported(report) => hearing.story.report(report),
            Happening::Ready(ready) => self.is_ready(ready, hearing).await?,
            Happening::StartFailed { message } => {
                self.useless.send_replace(Some(message));
            }
            Happening::Asked(ask) => self.asked(*ask, hearing).await?,
            Happening::Withdrawn { request } => self.withdrew(request, hearing).await?,
            Happening::Wanted {
                request,
                line,
                want,
            } => self.wanted((request, line), want, hearing).await?,
            Happening::TurnEnded { turn, end } => self.turn_ended(turn, end, hearing).await?,
            Happening::Noise(text) => {
                tracing::debug!(agent = %self.agent, text, "noise of an agent");
            }
        }
        Ok(())
    }

    async fn is_ready(&self, ready: Ready, hearing: &mut Hearing) -> Result<(), Lost> {
        hearing.in_turn = false;
        for warning in ready.warnings {
            hearing.story.note(warning);
        }
        hearing.story.report(Report {
            mode: ready.mode,
            ..Report::default()
        });
        let opened = Ran::Ready {
            session: ready.session,
            resumable: ready.resumable,
        };
        self.commit(hearing, vec![opened]).await?;
        crash::point("session_recorded");
        self.ready.send_replace(true);
        Ok(())
    }

    async fn turn_ended(&self, turn: u32, end: TurnEnd, hearing: &mut Hearing) -> Result<(), Lost> {
        hearing.in_turn = false;
        let ended = Ran::TurnEnded {
            said: hearing.story.take(),
            end: Box::new(TurnEnded {
                agent: self.agent.clone(),
                turn,
                reason: end.reason,
                message: end.message,
                usage: end.usage,
            }),
            left_open: end.left_open,
        };
        self.commit(hearing, vec![ended]).await
    }

    async fn withdrew(&self, request: RequestId, hearing: &mut Hearing) -> Result<(), Lost> {
        let request = request.0;
        self.commit(hearing, vec![Ran::Withdrew { request }]).await
    }

    /// Commits what was heard and then `more`, with how far that is.
    async fn commit(&self, hearing: &mut Hearing, more: Vec<Ran>) -> Result<(), Lost> {
        let mut inputs = self.take_told();
        inputs.extend(self.reported(&mut hearing.story));
        let said = hearing.story.take();
        let said = (!said.is_empty()).then_some(Ran::Said(said));
        inputs.extend(said.into_iter().chain(more).map(|ran| self.input(ran)));
        let mark = self.mark_unless_partial(hearing);
        if inputs.is_empty() && mark.is_none() {
            return Ok(());
        }
        let bookmark = mark.as_ref().map(|mark| self.bookmark(mark));
        if let Err(error) = self.service.heard(inputs, bookmark).await {
            tracing::warn!(agent = %self.agent, %error, "what an agent did was not recorded");
            return Err(Lost);
        }
        self.acknowledge(hearing, mark);
        Ok(())
    }

    /// A line counts as heard once all of it is taken in.
    pub(super) fn mark_unless_partial(&self, hearing: &Hearing) -> Option<Mark> {
        (!hearing.is_partial).then(|| self.talk().mark())
    }

    pub(super) fn bookmark(&self, mark: &Mark) -> Bookmark {
        Bookmark {
            agent: self.agent.clone(),
            run: self.number,
            heard: mark.heard,
            kept: mark.kept.clone(),
        }
    }

    /// Tells the runner what it need not keep any longer.
    pub(super) fn acknowledge(&self, hearing: &mut Hearing, mark: Option<Mark>) {
        if let Some(mark) = mark {
            hearing.committed = mark.heard;
            self.talk().link().committed(mark.heard, mark.open);
        }
    }

    pub(super) fn reported(&self, story: &mut Story) -> Option<Input> {
        let report = story.take_report(&self.agent)?;
        Some(self.input(Ran::Reported(Box::new(report))))
    }

    pub(super) fn input(&self, ran: Ran) -> Input {
        Input::Managed(ManagedInput::Ran(self.agent.clone(), self.number, ran))
    }
}

/// Whether something of a line has to be taken in.
fn matters(happening: &Happening) -> bool {
    !matches!(happening, Happening::Noise(_))
}

/// Whether so much was heard without anything to commit that the runner should let go of it.
fn is_far(hearing: &Hearing) -> bool {
    hearing.heard.saturating_sub(hearing.committed) > RUNNER_BYTES_HELD as u64 / 2
}

/// What takes long to understand must not hold up whoever shares the thread.
fn aside<T>(bytes: usize, understand: impl FnOnce() -> T) -> T {
    let shares = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if shares && bytes > AGENT_LINE_BYTES_SHORT {
        tokio::task::block_in_place(understand)
    } else {
        understand()
    }
}

enum Next {
    Came(Option<LinkEvent>),
    Due,
}

async fn next(events: &mut mpsc::Receiver<LinkEvent>, story: &Story) -> Next {
    let Some(due) = story.due() else {
        return Next::Came(events.recv().await);
    };
    tokio::select! {
        event = events.recv() => Next::Came(event),
        () = tokio::time::sleep_until(due) => Next::Due,
    }
}

fn size_of(event: &LinkEvent) -> usize {
    match event {
        LinkEvent::Line { bytes, .. } => bytes.len(),
        LinkEvent::Log(text) => text.len(),
        LinkEvent::Oversized { .. } | LinkEvent::Exited { .. } | LinkEvent::Lost => 0,
    }
}

fn keep_end(log: &mut String, text: &str) {
    log.push_str(text);
    if !text.ends_with('\n') {
        log.push('\n');
    }
    let surplus = log.len().saturating_sub(AGENT_LOG_BYTES_KEPT);
    let cut = (surplus..=log.len()).find(|at| log.is_char_boundary(*at));
    log.drain(..cut.unwrap_or(0));
}
