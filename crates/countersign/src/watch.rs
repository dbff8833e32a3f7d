//! `watch`: the inbox live on a plain terminal, answered by key.
//!
//! The loop here moves keys, events and answers; what a key does and what is drawn are pure
//! functions in `keys` and `draw`.

mod draw;
mod keyboard;
mod keys;
mod news;
#[cfg(test)]
mod safety_tests;
mod screen;
mod terminal;

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::pin::Pin;
use std::time::{Duration, Instant};

use countersign_protocol::{
    AnswerQuestionParams, BypassRow, HostApproval, HostEvent, HostQuestion, HostSnapshot,
    HostStatus, Reason, Remember, RememberBody, ResolutionBody, ResolveApprovalParams,
    RuleSuggestions, SubscribeParams, SuggestRulesParams,
};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures_util::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::keyboard::Keyboard;
use self::keys::{Action, Key};
use self::news::take_event;
use self::screen::{Cares, Item, Link, Screen};
use self::terminal::Terminal;
use crate::client::{CallError, Client, Endpoint};
use crate::exit::Exit;
use crate::failure::CliError;
use crate::{describe, duration, questions_text, rules_text};

pub(crate) const KEYS_HELP: &str = "Keys:
  ↑/↓ select        PgUp/PgDn scroll
  a   approve, asks once more and wants y or Enter
  s   approve and save as a rule, which is shown first
  d   deny          m  deny with a message
  r   answer a question, or choose among an ask's options
  q   quit

A key that comes within half a second after the selected ask appeared or changed is ignored, and
an ask that does not fit on the screen can be approved only after its end was scrolled into view.";

/// How long to wait before a new try to reach the host.
const RETRY: Duration = Duration::from_millis(500);
/// How often broken rule files and bypasses are asked for.
const CARES_EVERY: Duration = Duration::from_secs(2);
/// Events taken in before the screen is drawn again.
const EVENTS_PER_DRAW: usize = 1_000;

type Reconnecting = Pin<Box<dyn Future<Output = (Client, Opened)>>>;

/// What a new connection begins with.
struct Opened {
    items: Vec<Item>,
    cares: Cares,
    names: BTreeMap<String, String>,
}

/// The connection, or the attempt to get one.
enum Wire {
    Up(Box<Client>),
    Down(Reconnecting),
}

struct Watch {
    endpoint: Endpoint,
    wire: Wire,
    screen: Screen,
    keyboard: Keyboard,
    terminal: Terminal,
    cares_at: Instant,
}

/// Runs until the person quits; `note` is what they are told first.
pub(crate) async fn watch(endpoint: &Endpoint, note: &str) -> Result<Exit, CliError> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(CliError::Usage {
            what: "`watch` needs a terminal".into(),
            hint: Some("list what waits with `countersign inbox`, or follow with `countersign events --follow`".into()),
        });
    }
    let mut client = Client::connect(endpoint).await?;
    let opened = subscribe(&mut client).await?;
    let failed = |source| CliError::io("could not use the terminal", source);
    let mut screen = Screen::new(Instant::now(), duration::now());
    take_opened(&mut screen, opened);
    note.clone_into(&mut screen.note);
    let terminal = Terminal::enter().map_err(failed)?;
    let mut watch = Watch {
        endpoint: endpoint.clone(),
        wire: Wire::Up(Box::new(client)),
        screen,
        keyboard: Keyboard::open().map_err(failed)?,
        terminal,
        cares_at: Instant::now(),
    };
    // What was typed before the first picture was meant for something else.
    watch.flush_keyboard();
    watch.run().await.map_err(failed)?;
    Ok(Exit::Ok)
}

/// What can wake the loop.
enum Woken {
    Input(Option<(Instant, Event)>),
    Event(Box<Result<HostEvent, CallError>>),
    Back(Box<Client>, Box<Opened>),
    Tick,
    Ended,
}

impl Watch {
    async fn run(&mut self) -> io::Result<()> {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        let mut ends = [
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::interrupt())?,
        ];
        loop {
            self.draw()?;
            let woken = self.woken(&mut tick, &mut ends).await;
            let is_news = matches!(woken, Woken::Event(_) | Woken::Back(..));
            let changed_at = self.screen.changed_at;
            let goes_on = self.handle(woken).await?;
            if !goes_on {
                return Ok(());
            }
            if is_news && self.screen.changed_at != changed_at {
                self.flush_keyboard();
            }
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let (width, height) = crossterm::terminal::size()?;
        self.screen.wall = duration::now();
        let picture = draw::draw(&self.screen, width.into(), height.into());
        self.terminal.put(&picture.lines)?;
        self.screen.drawn(picture.page, picture.body);
        Ok(())
    }

    async fn woken(&mut self, tick: &mut tokio::time::Interval, ends: &mut [Signal; 3]) -> Woken {
        let [terminate, hangup, interrupt] = ends;
        let wire = async {
            match &mut self.wire {
                Wire::Up(client) => Woken::Event(Box::new(client.next_event().await)),
                Wire::Down(reconnecting) => {
                    let (client, opened) = reconnecting.await;
                    Woken::Back(Box::new(client), Box::new(opened))
                }
            }
        };
        tokio::select! {
            biased;
            _ = terminate.recv() => Woken::Ended,
            _ = hangup.recv() => Woken::Ended,
            _ = interrupt.recv() => Woken::Ended,
            // News before keys: a key is judged against what the host has said by then.
            woken = wire => woken,
            input = self.keyboard.next() => Woken::Input(input),
            _ = tick.tick() => Woken::Tick,
        }
    }

    /// Whether the loop goes on.
    async fn handle(&mut self, woken: Woken) -> io::Result<bool> {
        match woken {
            Woken::Ended | Woken::Input(None) => return Ok(false),
            Woken::Tick => self.look_at_cares().await,
            Woken::Input(Some((at, input))) => return Ok(self.input(at, input).await),
            Woken::Event(event) => match *event {
                Ok(event) => self.events(&event),
                Err(_) => self.lost(),
            },
            Woken::Back(client, opened) => {
                self.wire = Wire::Up(client);
                self.screen.link = Link::Up;
                self.screen.note = "the host is back".into();
                take_opened(&mut self.screen, *opened);
            }
        }
        Ok(true)
    }

    /// Takes in an event and those that came with it.
    fn events(&mut self, first: &HostEvent) {
        take_event(&mut self.screen, first, Instant::now());
        for _ in 0..EVENTS_PER_DRAW {
            let Wire::Up(client) = &mut self.wire else {
                return;
            };
            match client.next_event().now_or_never() {
                Some(Ok(event)) => take_event(&mut self.screen, &event, Instant::now()),
                Some(Err(_)) => return self.lost(),
                None => return,
            }
        }
    }

    /// Files break and bypasses begin without an ask: the host is asked now and then.
    async fn look_at_cares(&mut self) {
        if self.cares_at.elapsed() < CARES_EVERY {
            return;
        }
        self.cares_at = Instant::now();
        let Wire::Up(client) = &mut self.wire else {
            return;
        };
        let status: Result<HostStatus, _> =
            client.call("host.status", &serde_json::json!({})).await;
        match status {
            Ok(status) => {
                self.screen.cares = Cares {
                    problems: status.rule_problems,
                    bypassed: status.bypassed,
                    store_error: status.store_error,
                };
            }
            Err(error) if error.is_connection() => self.lost(),
            Err(CallError::Refused(refusal))
                if refusal.reason == Some(Reason::StoreUnavailable) =>
            {
                self.screen.cares.store_error = Some(refusal.words());
            }
            // Somebody who may not see it sees none.
            Err(_) => {}
        }
    }

    fn lost(&mut self) {
        self.screen.link = Link::Lost;
        self.screen.note = "the host is gone; open asks are kept, waiting for it".into();
        self.wire = Wire::Down(Box::pin(reconnect(self.endpoint.clone())));
    }

    /// Whether the loop goes on. `at` is when the key came in: what was typed before a change
    /// of the selected item is judged as that, however late it is read.
    async fn input(&mut self, at: Instant, input: Event) -> bool {
        let key = match input {
            Event::Key(event) => key_of(&event),
            Event::Paste(text) => Some(Key::Paste(text)),
            Event::Resize(..) => {
                self.screen.resized();
                None
            }
            _ => None,
        };
        let Some(key) = key else { return true };
        match keys::key(&mut self.screen, key, at) {
            Action::None => {}
            Action::Quit => return false,
            Action::Resolve {
                id,
                option,
                message,
                remember,
            } => {
                let body = ResolutionBody {
                    resolution: option,
                    message,
                    edited_input: None,
                    stop: false,
                    remember: remembered(remember),
                };
                self.resolve(id, body).await;
            }
            Action::Suggest { id, option } => self.suggest(id, option).await,
            Action::Answer { id, words } => self.answer(id, words).await,
        }
        true
    }

    async fn resolve(&mut self, id: String, body: ResolutionBody) {
        let Wire::Up(client) = &mut self.wire else {
            return;
        };
        let params = ResolveApprovalParams {
            approval_id: id,
            body,
        };
        let result: Result<HostApproval, _> = client.call("host.resolve_approval", &params).await;
        match result {
            Ok(row) if row.passed_to_owner == Some(true) => {
                self.screen.note = format!(
                    "{} was passed to its owner, who decides",
                    describe::short_id(&row.id)
                );
            }
            Ok(row) => {
                let note = format!(
                    "{} {}",
                    describe::short_id(&row.id),
                    describe::ask_state(&row)
                );
                self.screen
                    .settled(&params.approval_id, note, Instant::now());
            }
            Err(error) => self.failed(error),
        }
        self.flush_keyboard();
    }

    /// Finds the rules that an allow could become, and shows them.
    async fn suggest(&mut self, id: String, option: String) {
        let Wire::Up(client) = &mut self.wire else {
            return;
        };
        let params = SuggestRulesParams {
            approval_id: Some(id.clone()),
        };
        let found: Result<RuleSuggestions, _> = client.call("host.suggest_rules", &params).await;
        match found.map(|found| rules_text::narrowest(&found.candidates)) {
            Ok(rules) if rules.is_empty() => {
                self.screen.note =
                    "there is no narrow rule to suggest: a to approve it this once".into();
            }
            Ok(rules) => self.screen.offer(&id, option, rules, Instant::now()),
            Err(error) => self.failed(error),
        }
        self.flush_keyboard();
    }

    async fn answer(&mut self, question_id: String, answer: String) {
        let Wire::Up(client) = &mut self.wire else {
            return;
        };
        let params = AnswerQuestionParams {
            question_id,
            answer,
        };
        let result: Result<HostQuestion, _> = client.call("host.answer_question", &params).await;
        match result {
            Ok(row) => {
                let note = format!("{} answered", describe::short_id(&row.id));
                self.screen
                    .settled(&params.question_id, note, Instant::now());
            }
            Err(error) => self.failed(error),
        }
        self.flush_keyboard();
    }

    fn failed(&mut self, error: CallError) {
        if error.is_connection() {
            self.lost();
            self.screen.note =
                "the host is gone: whether that was taken will show when it is back".into();
        } else {
            self.screen.note = CliError::from(error).to_string().replace('\n', " ");
        }
    }

    /// Forgets what was typed and not yet read.
    fn flush_keyboard(&mut self) {
        if self
            .keyboard
            .drain()
            .any(|event| matches!(event, Event::Resize(..)))
        {
            self.screen.resized();
        }
        for _ in self.keyboard.drain() {}
    }
}

/// Rules by their text, so that what is saved is what was shown.
fn remembered(rules: Vec<String>) -> Option<Remember> {
    let named = RememberBody {
        rules: Some(rules).filter(|rules| !rules.is_empty()),
        ..RememberBody::default()
    };
    named.rules.is_some().then_some(Remember::Named(named))
}

/// Subscribes, and returns everything that is open and what must be known.
async fn subscribe(client: &mut Client) -> Result<Opened, CallError> {
    let mut snapshot: HostSnapshot = client
        .call("host.subscribe", &SubscribeParams::default())
        .await?;
    let bypassed = snapshot.agents.iter().filter_map(|agent| {
        Some(BypassRow {
            agent_id: agent.id.clone(),
            name: agent.name.clone(),
            until: agent.bypass_until?,
        })
    });
    let cares = Cares {
        bypassed: bypassed.collect(),
        problems: snapshot.rule_problems,
        store_error: snapshot.store_error,
    };
    questions_text::name_orchestrators(&mut snapshot.questions, &snapshot.agents);
    let asks = snapshot.approvals.into_iter().map(Item::ask);
    let questions = snapshot.questions.into_iter().map(Item::question);
    let open = asks.chain(questions).filter(|item| item.ended.is_none());
    let agents = snapshot.agents.into_iter();
    Ok(Opened {
        items: open.collect(),
        cares,
        names: agents.map(|agent| (agent.id, agent.name)).collect(),
    })
}

fn take_opened(screen: &mut Screen, opened: Opened) {
    screen.cares = opened.cares;
    screen.names = opened.names;
    screen.replace(opened.items, Instant::now());
}

/// Tries until a host answers.
async fn reconnect(endpoint: Endpoint) -> (Client, Opened) {
    loop {
        tokio::time::sleep(RETRY).await;
        if let Ok(mut client) = Client::connect(&endpoint).await
            && let Ok(opened) = subscribe(&mut client).await
        {
            return (client, opened);
        }
    }
}

fn key_of(event: &KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let held = event
        .modifiers
        .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER);
    match event.code {
        KeyCode::Char('c') if event.modifiers == KeyModifiers::CONTROL => Some(Key::Interrupt),
        _ if held => None,
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        KeyCode::PageUp => Some(Key::PageUp),
        KeyCode::PageDown => Some(Key::PageDown),
        KeyCode::Enter => Some(Key::Enter),
        KeyCode::Esc => Some(Key::Escape),
        KeyCode::Backspace => Some(Key::Backspace),
        KeyCode::Char(c) => Some(Key::Char(c)),
        _ => None,
    }
}
