//! A second adapter goes on from the state of an earlier line: it is given the later orders again,
//! in another order, hears the later lines again, and says the same things under the same names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::tests::{ONCE, permission, start};
use super::*;
use crate::adapter::{ClientRequestError, ClientResponse, PermissionAnswer, SessionSpec, WriteId};

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end as u64).unwrap()
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len())].clone())
    }
}

/// What a line of the agent is, as far as orders depend on it.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Request {
        id: RequestId,
        /// Whether an interrupted turn has no place for it.
        begins: bool,
        /// Whether its id was used before.
        reused: bool,
    },
    Cancel {
        id: RequestId,
    },
    Handshake,
    TurnEnd,
    ModeSet,
    ModelSet,
    Other,
}

#[derive(Clone, Debug)]
enum Step {
    Heard {
        number: u64,
        text: String,
        kind: Kind,
    },
    Ordered(AgentCommand),
}

/// What was written under each name.
type Written = BTreeMap<WriteId, AgentWrite>;

fn note(written: &mut Written, lines: Vec<AgentWrite>) {
    for line in lines {
        let earlier = written.insert(line.id.clone(), line);
        assert_eq!(earlier, None, "said twice under one name");
    }
}

fn perform(acp: &mut AcpAdapter, step: &Step) -> (Vec<AgentEvent>, Vec<AgentWrite>) {
    let done = match step {
        Step::Heard { number, text, .. } => {
            let heard = acp.handle_line(text.as_bytes(), *number);
            (heard.events, heard.writes)
        }
        Step::Ordered(order) => (Vec::new(), acp.apply_command(order.clone()).unwrap()),
    };
    assert_eq!(AcpAdapter::restore(&acp.state()).unwrap(), *acp);
    done
}

/// A conversation as it went the first time.
struct Conversation {
    dice: Dice,
    acp: AcpAdapter,
    steps: Vec<Step>,
    /// After each line: how many steps were taken, and the state.
    states: Vec<(usize, Json)>,
    /// What each step wrote.
    written: Vec<Vec<AgentWrite>>,
    asks: Vec<RequestId>,
    wishes: Vec<RequestId>,
    used: BTreeSet<RequestId>,
    bytes: u64,
    turn: u32,
    revision: u32,
}

impl Conversation {
    fn record(seed: u64) -> Self {
        let acp = AcpAdapter::new();
        let mut talk = Self {
            dice: Dice(seed),
            states: vec![(0, acp.state())],
            acp,
            steps: Vec::new(),
            written: Vec::new(),
            asks: Vec::new(),
            wishes: Vec::new(),
            used: BTreeSet::new(),
            bytes: 0,
            turn: 0,
            revision: 0,
        };
        talk.open();
        for _ in 0..60 {
            talk.go_on();
        }
        talk
    }

    fn order(&mut self, order: AgentCommand) {
        let step = Step::Ordered(order);
        let (_, lines) = perform(&mut self.acp, &step);
        self.steps.push(step);
        self.written.push(lines);
    }

    fn hear(&mut self, message: &Value, kind: Kind) {
        let text = message.to_string();
        self.bytes += text.len() as u64 + 1;
        let number = self.bytes;
        let step = Step::Heard { number, text, kind };
        let (happenings, lines) = perform(&mut self.acp, &step);
        for happening in happenings {
            self.follow(happening);
        }
        self.steps.push(step);
        self.written.push(lines);
        self.states.push((self.steps.len(), self.acp.state()));
    }

    fn follow(&mut self, happening: AgentEvent) {
        match happening {
            AgentEvent::Asked(ask) if !self.asks.contains(&ask.request) => {
                self.asks.push(ask.request);
            }
            AgentEvent::ClientRequested { request, .. } => self.wishes.push(request),
            AgentEvent::Withdrawn { request } => {
                self.asks.retain(|ask| *ask != request);
                self.wishes.retain(|wish| *wish != request);
            }
            _ => {}
        }
    }

    fn open(&mut self) {
        let mode = self.dice.pick(&[None, Some("plan".to_owned())]).flatten();
        let model = self.dice.pick(&[None, Some("big".to_owned())]).flatten();
        self.order(AgentCommand::Start(SessionSpec {
            mode,
            model,
            ..start()
        }));
        let hello = json!({"id": 0, "result": {"protocolVersion": 1}});
        self.hear(&hello, Kind::Handshake);
        let modes = json!({"currentModeId": "m", "availableModes":
            [{"id": "m", "name": "M"}, {"id": "plan", "name": "P"}]});
        let models = json!({"currentModelId": "small", "availableModels":
            [{"modelId": "small"}, {"modelId": "big"}]});
        let opened = json!({"id": 1, "result":
            {"sessionId": "s", "modes": modes, "models": models}});
        self.hear(&opened, Kind::Handshake);
        while self.acp.state.phase != AcpPhase::Open {
            let ids: Vec<u64> = self.acp.state.sent.keys().copied().collect();
            let id = self.dice.pick(&ids).unwrap();
            self.hear(&json!({"id": id, "result": {}}), Kind::Handshake);
        }
    }

    fn go_on(&mut self) {
        if self.acp.state.turn().is_none() && self.dice.below(3) == 0 {
            self.turn += 1;
            return self.order(prompt(self.turn));
        }
        match self.dice.below(16) {
            0..2 => self.chat(),
            2..5 => self.tell_of_a_call(),
            5..8 => self.request_permission(),
            8..10 => self.wish(),
            10..12 => self.answer(),
            12 => self.serve(),
            13 => self.change(),
            14 => self.cancel(),
            _ => self.end(),
        }
    }

    fn chat(&mut self) {
        let content = json!({"type": "text", "text": "hm"});
        let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
        self.update(&update);
    }

    fn update(&mut self, update: &Value) {
        let params = json!({"sessionId": "s", "update": update});
        let message = json!({"method": "session/update", "params": params});
        self.hear(&message, Kind::Other);
    }

    fn call(&mut self) -> Value {
        let mut call = json!({"toolCallId": format!("call-{}", self.dice.below(4))});
        if self.dice.below(2) == 0 {
            call["kind"] = json!("execute");
            call["rawInput"] = json!({"command": format!("echo {}", self.dice.below(3))});
        }
        call
    }

    fn tell_of_a_call(&mut self) {
        let mut update = self.call();
        update["sessionUpdate"] = json!("tool_call_update");
        if self.dice.below(2) == 0 {
            update["sessionUpdate"] = json!("tool_call");
        }
        let status = self.dice.pick(&["pending", "in_progress", "completed"]);
        update["status"] = json!(status);
        self.update(&update);
    }

    /// Mostly a new one.
    fn request_id(&mut self) -> Value {
        if self.dice.below(8) == 0 {
            json!(self.dice.below(10))
        } else {
            json!(self.bytes.to_string())
        }
    }

    fn request(&mut self, message: &Value, begins: bool) {
        let id = RequestId(message["id"].to_string());
        let reused = !self.used.insert(id.clone());
        let kind = Kind::Request { id, begins, reused };
        self.hear(message, kind);
    }

    fn request_permission(&mut self) {
        let id = self.request_id();
        let call = self.call();
        self.request(&permission(&id, &call, &ONCE), false);
    }

    fn wish(&mut self) {
        let id = self.request_id();
        let file = json!({"sessionId": "s", "path": "/p/a", "content": "x"});
        let terminal = json!({"sessionId": "s", "terminalId": "t", "command": "ls"});
        let wishes = [
            ("fs/read_text_file", file.clone(), true),
            ("fs/write_text_file", file, true),
            ("terminal/create", terminal.clone(), true),
            ("terminal/output", terminal.clone(), false),
            ("terminal/wait_for_exit", terminal, false),
            ("elicitation/create", json!({}), false),
        ];
        let (method, params, begins) = self.dice.pick(&wishes).unwrap();
        let message = json!({"id": id, "method": method, "params": params});
        self.request(&message, begins);
    }

    fn answer(&mut self) {
        let message = Some("no".to_owned());
        let deny = PermissionAnswer::Deny {
            message,
            stop: false,
        };
        let answers = [
            PermissionAnswer::Allow { input: None },
            deny,
            PermissionAnswer::Cancelled,
        ];
        if let Some(request) = self.dice.pick(&self.asks) {
            let answer = self.dice.pick(&answers).unwrap();
            self.asks.retain(|ask| *ask != request);
            self.order(AgentCommand::Answer { request, answer });
        }
    }

    fn serve(&mut self) {
        let failed = Err(ClientRequestError::Failed("no".into()));
        let served = [Ok(ClientResponse::Done), failed];
        if let Some(request) = self.dice.pick(&self.wishes) {
            let served = self.dice.pick(&served).unwrap();
            self.wishes.retain(|wish| *wish != request);
            self.order(AgentCommand::Serve { request, served });
        }
    }

    /// Another mode or model, or the agent's word that it took one.
    fn change(&mut self) {
        let ours = self.acp.state.sent.iter();
        let pending = ours.filter_map(|(id, ours)| match ours {
            SentRequest::SetMode { .. } => Some((*id, Kind::ModeSet)),
            SentRequest::SetModel { .. } => Some((*id, Kind::ModelSet)),
            _ => None,
        });
        let pending: Vec<_> = pending.collect();
        if let Some((id, kind)) = self.dice.pick(&pending) {
            return self.hear(&json!({"id": id, "result": {}}), kind);
        }
        self.revision += 1;
        let revision = self.revision;
        if self.dice.below(2) == 0 {
            let mode = self.dice.pick(&["m", "plan"]).unwrap().to_owned();
            self.order(AgentCommand::SetMode { revision, mode });
        } else {
            let model = self.dice.pick(&["small", "big"]).unwrap().to_owned();
            self.order(AgentCommand::SetModel { revision, model });
        }
    }

    fn cancel(&mut self) {
        let open: Vec<_> = self.asks.iter().chain(&self.wishes).cloned().collect();
        if let Some(id) = self.dice.pick(&open) {
            let request: Value = serde_json::from_str(&id.0).unwrap();
            let params = json!({"requestId": request});
            let message = json!({"method": "$/cancel_request", "params": params});
            self.hear(&message, Kind::Cancel { id });
        }
    }

    /// An interrupt, and sometime after it the end of the turn.
    fn end(&mut self) {
        let Some(turn) = self.acp.state.turn() else {
            return;
        };
        if self.dice.below(2) == 0 && !self.acp.state.interrupted {
            self.asks.clear();
            return self.order(AgentCommand::Interrupt);
        }
        let id = SentRequest::Prompt { turn }.id();
        let result = json!({"stopReason": "end_turn"});
        self.hear(&json!({"id": id, "result": result}), Kind::TurnEnd);
    }
}

fn prompt(turn: u32) -> AgentCommand {
    let messages = vec![format!("turn {turn}")];
    AgentCommand::Prompt {
        turn,
        messages,
        attachments: Vec::new(),
    }
}

fn about(order: &AgentCommand) -> Option<&RequestId> {
    match order {
        AgentCommand::Answer { request, .. } | AgentCommand::Serve { request, .. } => Some(request),
        _ => None,
    }
}

/// Whether an order may come on either side of a line. It may not come before what it rests on, nor
/// after what makes it void.
fn passes(order: &AgentCommand, kind: &Kind) -> bool {
    match (order, kind) {
        (AgentCommand::Start(_), _) | (_, Kind::Handshake) => false,
        (AgentCommand::SetMode { .. }, kind) => *kind != Kind::ModeSet,
        (AgentCommand::SetModel { .. }, kind) => *kind != Kind::ModelSet,
        (_, Kind::TurnEnd) => false,
        (AgentCommand::Interrupt, Kind::Request { begins, reused, .. }) => !begins && !reused,
        (AgentCommand::Answer { request, .. } | AgentCommand::Serve { request, .. }, kind) => {
            !matches!(kind, Kind::Request { id, .. } | Kind::Cancel { id } if id == request)
        }
        _ => true,
    }
}

/// Whether two orders may be given in either order.
fn are_apart(one: &AgentCommand, other: &AgentCommand) -> bool {
    use AgentCommand::{Answer, Interrupt, Prompt, SetMode, SetModel, Start};
    match (one, other) {
        (Start(_), _)
        | (_, Start(_))
        | (Prompt { .. } | Interrupt, Prompt { .. } | Interrupt)
        | (Interrupt, Answer { .. })
        | (Answer { .. }, Interrupt)
        | (SetMode { .. }, SetMode { .. })
        | (SetModel { .. }, SetModel { .. }) => false,
        _ => about(one).is_none() || about(one) != about(other),
    }
}

fn may_swap(one: &Step, other: &Step) -> bool {
    match (one, other) {
        (Step::Heard { .. }, Step::Heard { .. }) => false,
        (Step::Ordered(order), Step::Heard { kind, .. })
        | (Step::Heard { kind, .. }, Step::Ordered(order)) => passes(order, kind),
        (Step::Ordered(one), Step::Ordered(other)) => are_apart(one, other),
    }
}

fn shuffle(dice: &mut Dice, steps: &mut [Step]) {
    if steps.len() < 2 {
        return;
    }
    for _ in 0..steps.len() * 20 {
        let at = dice.below(steps.len() - 1);
        if may_swap(&steps[at], &steps[at + 1]) {
            steps.swap(at, at + 1);
        }
    }
}

/// Orders that can be given again give what they gave, and change nothing.
fn repeat(acp: &mut AcpAdapter, first: &Written) {
    let again = |acp: &mut AcpAdapter, order, kind: &str, number| {
        let before = acp.clone();
        let lines = acp.apply_command(order).unwrap();
        assert_eq!(lines, [first[&WriteId::own(kind, number)].clone()]);
        assert_eq!(*acp, before);
    };
    if acp.state.phase != AcpPhase::New {
        again(acp, AgentCommand::Start(start()), "start", 0);
    }
    if let Some(turn) = acp.state.turn() {
        again(acp, prompt(turn), "prompt", turn);
        if acp.state.interrupted {
            again(acp, AgentCommand::Interrupt, "interrupt", turn);
        }
    }
}

#[test]
fn whoever_goes_on_from_an_earlier_line_says_the_same_under_the_same_names() {
    let mut said = 0;
    for seed in 0..100 {
        let mut first = Conversation::record(seed);
        let (taken, state) = first.dice.pick(&first.states).unwrap();
        let mut all = Written::new();
        note(&mut all, first.written.concat());
        let mut later = Written::new();
        note(&mut later, first.written[taken..].concat());

        let mut steps = first.steps[taken..].to_vec();
        shuffle(&mut first.dice, &mut steps);
        let mut second = AcpAdapter::restore(&state).unwrap();
        let mut written = Written::new();
        for step in &steps {
            let (_, lines) = perform(&mut second, step);
            note(&mut written, lines);
            repeat(&mut second, &all);
        }
        assert_eq!(written, later, "seed {seed}");
        let outcome = |acp: &AcpAdapter| {
            let state = &acp.state;
            let told = (state.session.clone(), state.phase, state.interrupted);
            (acp.open_requests(), state.sent.clone(), told)
        };
        assert_eq!(outcome(&second), outcome(&first.acp), "seed {seed}");
        said += written.len();
    }
    assert!(said > 500, "{said}");
}
