//! `watch`: the inbox live on a plain terminal, answered by key.
//!
//! The loop here moves keys, events and answers; what a key does and what is drawn are pure
//! functions in `keys` and `draw`.

mod draw;
mod host_events;
mod keys;
mod picture;
#[cfg(test)]
mod safety_tests;
mod screen;
#[cfg(test)]
mod shared_safety_tests;

use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::pin::Pin;
use std::time::{Duration, Instant};

use countersign_protocol::{
    AnswerBody, ApprovalTarget, BypassRow, ChosenAnswer, HostEvent, NoParams, QuestionTarget,
    Reason, Remember, RememberBody, ResolutionBody, SubscribeParams, SuggestRulesParams, method,
};
use countersign_tui::decision_guard::GuardEvent;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures_util::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::host_events::apply_event;
use self::keys::{KeyAction, KeyPress, KeyTime};
use self::screen::{HostPresence, HostWarnings, WatchScreen};
use crate::client::{CallError, HostClient, HostEndpoint};
use crate::duration;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::notes;
use crate::render::inbox_item::InboxItem;
use crate::render::{approvals, rules};
use crate::screen::{KeyboardReader, RawTerminal, terminal_error};

pub(crate) const KEYS_HELP: &str = "Examples:
  countersign watch

Keys:
  ↑/↓ select        PgUp/PgDn scroll
  a   approve, after a second key: y or Enter
  s   approve and save as a rule, after the rule is shown
  d   deny          m  deny with a message
  r   reply: answer a question, or choose an option of an ask
  v   view all: also details, digest and history
  q   quit

Notes of agents that have no orchestrator are at the end of the list for a day, as in `inbox`; they
need no answer.

Keys are ignored for half a second after the selected ask appears or changes. An ask that does not
fit on the screen can be approved only after you scrolled to its end.";

/// How long to wait before a new try to reach the host.
const RETRY: Duration = Duration::from_millis(500);
/// How often broken rule files and bypasses are asked for.
const WARNINGS_EVERY: Duration = Duration::from_secs(2);
/// Events taken in before the screen is drawn again.
const EVENTS_PER_DRAW: usize = 1_000;

type ReconnectFuture = Pin<Box<dyn Future<Output = (HostClient, InboxSnapshot)>>>;

/// What a new connection begins with.
struct InboxSnapshot {
    items: Vec<InboxItem>,
    cares: HostWarnings,
}

/// The connection, or the attempt to get one.
enum WatchConnection {
    Up(Box<HostClient>),
    Down(ReconnectFuture),
}

struct WatchLoop {
    endpoint: HostEndpoint,
    wire: WatchConnection,
    screen: WatchScreen,
    keyboard: KeyboardReader,
    terminal: RawTerminal,
    warnings_at: Instant,
}

/// Runs until the person quits; `note` is what they are told first.
pub(crate) async fn watch(endpoint: &HostEndpoint, note: &str) -> Result<CliExit, CliError> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(CliError::usage("`watch` needs a terminal").with_hint(
            "list asks with `countersign inbox`, or new events with `countersign events --follow`",
        ));
    }
    let mut client = HostClient::connect(endpoint).await?;
    let opened = subscribe(&mut client).await?;
    let mut screen = WatchScreen::new(Instant::now(), duration::now());
    apply_snapshot(&mut screen, opened);
    note.clone_into(&mut screen.note);
    // Only now: an error before this is printed on an ordinary screen.
    let terminal = RawTerminal::enter().map_err(terminal_error)?;
    let mut watch = WatchLoop {
        endpoint: endpoint.clone(),
        wire: WatchConnection::Up(Box::new(client)),
        screen,
        keyboard: KeyboardReader::open().map_err(terminal_error)?,
        terminal,
        warnings_at: Instant::now(),
    };
    // What was typed before the first picture was meant for something else.
    watch.flush_keyboard();
    watch.run().await.map_err(terminal_error)?;
    Ok(CliExit::Ok)
}

enum WakeReason {
    Input(Option<(Instant, Event)>),
    Event(Box<Result<HostEvent, CallError>>),
    Back(Box<HostClient>, Box<InboxSnapshot>),
    Tick,
    Ended,
}

impl WatchLoop {
    async fn run(&mut self) -> io::Result<()> {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        // Signals end the loop instead of the process, so that the terminal is restored on the way out.
        let mut ends = [
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::interrupt())?,
        ];
        loop {
            self.draw()?;
            let woken = self.next_wake(&mut tick, &mut ends).await;
            let is_news = matches!(woken, WakeReason::Event(_) | WakeReason::Back(..));
            let settled_at = self.screen.guard.settled_at();
            let goes_on = self.handle(woken).await?;
            if !goes_on {
                return Ok(());
            }
            // The new picture has not been drawn yet. Whatever was typed up to now, even after the
            // change itself, was meant for the old one.
            if is_news && self.screen.guard.settled_at() != settled_at {
                self.flush_keyboard();
            }
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let (width, height) = crossterm::terminal::size()?;
        self.screen.wall = duration::now();
        self.screen.drop_old_notes();
        let picture = draw::draw(&self.screen, width.into(), height.into());
        picture::put(&self.terminal, &picture.lines)?;
        self.screen
            .record_drawn(picture.page, picture.body, Instant::now());
        Ok(())
    }

    async fn next_wake(
        &mut self,
        tick: &mut tokio::time::Interval,
        ends: &mut [Signal; 3],
    ) -> WakeReason {
        let [terminate, hangup, interrupt] = ends;
        let wire = async {
            match &mut self.wire {
                WatchConnection::Up(client) => {
                    WakeReason::Event(Box::new(client.next_event().await))
                }
                WatchConnection::Down(reconnecting) => {
                    let (client, opened) = reconnecting.await;
                    WakeReason::Back(Box::new(client), Box::new(opened))
                }
            }
        };
        tokio::select! {
            biased;
            _ = terminate.recv() => WakeReason::Ended,
            _ = hangup.recv() => WakeReason::Ended,
            _ = interrupt.recv() => WakeReason::Ended,
            // News before keys: a key is judged against what the host has said by then.
            woken = wire => woken,
            input = self.keyboard.next() => WakeReason::Input(input),
            _ = tick.tick() => WakeReason::Tick,
        }
    }

    /// Whether the loop goes on.
    async fn handle(&mut self, woken: WakeReason) -> io::Result<bool> {
        match woken {
            WakeReason::Ended | WakeReason::Input(None) => return Ok(false),
            WakeReason::Tick => self.refresh_warnings().await,
            WakeReason::Input(Some((at, input))) => return Ok(self.handle_input(at, input).await),
            WakeReason::Event(event) => match *event {
                Ok(event) => self.apply_events(&event),
                Err(_) => self.start_reconnect(),
            },
            WakeReason::Back(client, opened) => {
                self.wire = WatchConnection::Up(client);
                self.screen.set_link(HostPresence::Up, Instant::now());
                self.screen.note = "reconnected to the host".into();
                apply_snapshot(&mut self.screen, *opened);
            }
        }
        Ok(true)
    }

    /// Takes in an event and those that came with it.
    fn apply_events(&mut self, first: &HostEvent) {
        apply_event(&mut self.screen, first, Instant::now());
        // Bounded, so that a flood of events cannot keep keys and the picture waiting.
        for _ in 0..EVENTS_PER_DRAW {
            let WatchConnection::Up(client) = &mut self.wire else {
                return;
            };
            // Polled once and dropped: `next_event` loses nothing by that.
            match client.next_event().now_or_never() {
                Some(Ok(event)) => apply_event(&mut self.screen, &event, Instant::now()),
                Some(Err(_)) => return self.start_reconnect(),
                None => return,
            }
        }
    }

    /// Files break and bypasses begin without an ask: the host is asked now and then.
    async fn refresh_warnings(&mut self) {
        if self.warnings_at.elapsed() < WARNINGS_EVERY {
            return;
        }
        self.warnings_at = Instant::now();
        let WatchConnection::Up(client) = &mut self.wire else {
            return;
        };
        let status = client.call::<method::Status>(&NoParams {}).await;
        match status {
            Ok(status) => {
                self.screen.warnings = HostWarnings {
                    problems: status.rule_problems,
                    bypassed: status.bypassed,
                    store_error: status.store_error,
                };
            }
            Err(error) if error.is_connection() => self.start_reconnect(),
            Err(CallError::Refused(refusal))
                if refusal.reason == Some(Reason::StoreUnavailable) =>
            {
                self.screen.warnings.store_error = Some(refusal.describe());
            }
            // Somebody who may not see it sees none.
            Err(_) => {}
        }
    }

    fn start_reconnect(&mut self) {
        self.screen.set_link(HostPresence::Lost, Instant::now());
        self.screen.note = "lost the host, waiting for it; open asks are kept".into();
        self.wire = WatchConnection::Down(Box::pin(reconnect(self.endpoint.clone())));
    }

    /// Whether the loop goes on. `at` is when the key came in: what was typed before a change
    /// of the selected item is judged as that, however late it is read.
    async fn handle_input(&mut self, at: Instant, input: Event) -> bool {
        let is_repeat = is_repeat(&input);
        let key = match input {
            Event::Key(event) => key_of(&event),
            Event::Paste(text) => Some(KeyPress::Paste(text)),
            other => {
                self.handle_window_event(&other);
                None
            }
        };
        let Some(key) = key else { return true };
        // With `at`: a key that waited behind a slow call must not gain reading time by that.
        let time = KeyTime {
            handled: Instant::now(),
            pressed: at,
            is_repeat,
        };
        match keys::handle_key(&mut self.screen, key, time) {
            KeyAction::None => {}
            KeyAction::Quit => return false,
            KeyAction::Resolve {
                id,
                option,
                message,
                remember,
            } => {
                let body = ResolutionBody {
                    resolution: option,
                    message,
                    remember: remember_rules(remember),
                    ..ResolutionBody::default()
                };
                self.resolve(id, body).await;
            }
            KeyAction::AnswerAsk {
                id,
                option,
                answers,
            } => {
                let body = ResolutionBody {
                    resolution: option,
                    answers: Some(answers.into_iter().map(ChosenAnswer::Several).collect()),
                    ..ResolutionBody::default()
                };
                self.resolve(id, body).await;
            }
            KeyAction::Suggest { id, option } => self.suggest(id, option).await,
            KeyAction::Answer { id, text } => self.answer(id, text).await,
        }
        true
    }

    fn handle_window_event(&mut self, event: &Event) {
        let now = Instant::now();
        match event {
            Event::Resize(..) => self.screen.restart_reading(now),
            Event::FocusGained => drop(self.screen.tell_guard(&GuardEvent::Focus, now)),
            Event::FocusLost => drop(self.screen.tell_guard(&GuardEvent::Blur, now)),
            _ => {}
        }
    }

    async fn resolve(&mut self, id: String, body: ResolutionBody) {
        let WatchConnection::Up(client) = &mut self.wire else {
            return;
        };
        let body = ResolutionBody {
            considered_ms: Some(self.screen.considered_ms(Instant::now())),
            ..body
        };
        let params = ApprovalTarget {
            approval_id: id,
            body,
        };
        let result = client.call::<method::ResolveApproval>(&params).await;
        match result {
            // The owner decides. The ask stays on the screen until an event says how it ended.
            Ok(row) if row.passed_to_owner == Some(true) => {
                self.screen.note = format!(
                    "{} was passed to the program that owns it",
                    approvals::short_id(&row.id)
                );
            }
            Ok(row) => {
                let note = format!(
                    "{} {}",
                    approvals::short_id(&row.id),
                    approvals::ask_state(&row)
                );
                self.screen
                    .remove_settled(&params.approval_id, note, Instant::now());
            }
            Err(error) => self.show_failure(error),
        }
        self.flush_keyboard();
    }

    /// Finds the rules that an allow could become, and shows them.
    async fn suggest(&mut self, id: String, option: String) {
        let WatchConnection::Up(client) = &mut self.wire else {
            return;
        };
        let params = SuggestRulesParams {
            approval_id: Some(id.clone()),
        };
        let found = client.call::<method::SuggestRules>(&params).await;
        match found.map(|found| rules::narrowest(&found.candidates)) {
            Ok(rules) if rules.is_empty() => {
                self.screen.note = "no narrow rule can be suggested: a approves it once".into();
            }
            Ok(rules) => self
                .screen
                .show_rule_offer(&id, option, rules, Instant::now()),
            Err(error) => self.show_failure(error),
        }
        self.flush_keyboard();
    }

    async fn answer(&mut self, question_id: String, answer: String) {
        let WatchConnection::Up(client) = &mut self.wire else {
            return;
        };
        let params = QuestionTarget {
            question_id,
            body: AnswerBody {
                answer,
                considered_ms: Some(self.screen.considered_ms(Instant::now())),
            },
        };
        let result = client.call::<method::AnswerQuestion>(&params).await;
        match result {
            Ok(row) => {
                let note = format!("{} answered", approvals::short_id(&row.id));
                self.screen
                    .remove_settled(&params.question_id, note, Instant::now());
            }
            Err(error) => self.show_failure(error),
        }
        self.flush_keyboard();
    }

    fn show_failure(&mut self, error: CallError) {
        // The answer may have arrived. After reconnecting, the snapshot says whether the item is still
        // open.
        if error.is_connection() {
            self.start_reconnect();
            self.screen.note =
                "lost the host: whether that arrived is known after reconnecting".into();
        } else {
            self.screen.note = CliError::from(error).to_string().replace('\n', " ");
        }
    }

    /// Forgets what was typed and not yet read.
    fn flush_keyboard(&mut self) {
        let dropped: Vec<Event> = self.keyboard.drain().collect();
        for event in &dropped {
            self.handle_window_event(event);
        }
    }
}

/// Rules by their text, so that what is saved is what was shown.
fn remember_rules(rules: Vec<String>) -> Option<Remember> {
    let named = RememberBody {
        rules: Some(rules).filter(|rules| !rules.is_empty()),
        ..RememberBody::default()
    };
    named.rules.is_some().then_some(Remember::Named(named))
}

/// Subscribes, and returns everything that is open and what must be known.
async fn subscribe(client: &mut HostClient) -> Result<InboxSnapshot, CallError> {
    let snapshot = client
        .call::<method::Subscribe>(&SubscribeParams::default())
        .await?;
    let bypassed = snapshot.agents.iter().filter_map(|agent| {
        Some(BypassRow {
            agent_id: agent.id.clone(),
            name: agent.name.clone(),
            until: agent.bypass_until?,
        })
    });
    let cares = HostWarnings {
        bypassed: bypassed.collect(),
        problems: snapshot.rule_problems,
        store_error: snapshot.store_error,
    };
    let asks = snapshot.approvals.into_iter().map(InboxItem::ask);
    let questions = snapshot.questions.into_iter().map(InboxItem::question);
    // After subscribing, so that a note that comes meanwhile is in this list or in an event.
    let notes = notes::recent(client, None).await?;
    let notes = notes.into_iter().filter_map(InboxItem::note);
    let open = asks.chain(questions).filter(|item| item.ended.is_none());
    let open = open.chain(notes);
    Ok(InboxSnapshot {
        items: open.collect(),
        cares,
    })
}

fn apply_snapshot(screen: &mut WatchScreen, opened: InboxSnapshot) {
    screen.warnings = opened.cares;
    screen.replace_items(opened.items, Instant::now());
}

/// Tries until a host answers.
async fn reconnect(endpoint: HostEndpoint) -> (HostClient, InboxSnapshot) {
    loop {
        // Without a limit: the person quits when they no longer want to wait.
        tokio::time::sleep(RETRY).await;
        if let Ok(mut client) = HostClient::connect(&endpoint).await
            && let Ok(opened) = subscribe(&mut client).await
        {
            return (client, opened);
        }
    }
}

fn is_repeat(event: &Event) -> bool {
    matches!(event, Event::Key(key) if key.kind == KeyEventKind::Repeat)
}

fn key_of(event: &KeyEvent) -> Option<KeyPress> {
    // Some terminals report releases as well: one press must not count twice.
    if event.kind == KeyEventKind::Release {
        return None;
    }
    // With a modifier it is another key: Alt-a is not `a`, and must not approve.
    let held = event
        .modifiers
        .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER);
    match event.code {
        // In raw mode Ctrl-C arrives as a key and not as a signal.
        KeyCode::Char('c') if event.modifiers == KeyModifiers::CONTROL => Some(KeyPress::Interrupt),
        _ if held => None,
        KeyCode::Up => Some(KeyPress::Up),
        KeyCode::Down => Some(KeyPress::Down),
        KeyCode::PageUp => Some(KeyPress::PageUp),
        KeyCode::PageDown => Some(KeyPress::PageDown),
        KeyCode::Enter => Some(KeyPress::Enter),
        KeyCode::Esc => Some(KeyPress::Escape),
        KeyCode::Backspace => Some(KeyPress::Backspace),
        KeyCode::Char(c) => Some(KeyPress::Char(c)),
        _ => None,
    }
}
