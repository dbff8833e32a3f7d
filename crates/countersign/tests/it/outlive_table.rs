//! The table: the host, the runner or the agent is killed before and after every step of an ask, for
//! an ask for permission, a terminal and a file. Nothing is lost without a word, nothing is done twice,
//! nothing is allowed that was not committed, and nothing of an agent that ended is left.

mod play;

use play::{Seen, play};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A command that the agent runs itself once it may.
    Permission,
    /// A command that the host is to run.
    Terminal,
    /// A file that the host is to write.
    Write,
}

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Host,
    Runner,
    Agent,
}

/// When somebody is killed.
#[derive(Clone, Copy, Debug)]
struct Moment {
    step: &'static str,
    /// The point at which the host stands still; without one the agent does, before it asks.
    point: &'static str,
    /// What the person answers.
    answer: &'static str,
}

/// How often something was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ran {
    Never,
    Once,
    /// The host does what a person allowed, unless it hears first that nobody waits for it.
    AtMostOnce,
}

/// What becomes of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is open with the next host: a person allows it, and the agent goes on.
    OpenAgain,
    /// It is open with the next host although somebody had answered: that was not committed. Now a
    /// person denies it, and the agent goes on.
    NotAnswered,
    /// Nobody is asked again: the answer is told by the next host, and the agent goes on.
    Answered,
    /// There is none; the agent ends in words.
    NotAsked,
    /// It is cancelled, and the agent ends in words.
    Cancelled,
    /// It was answered and nobody can say whether the agent heard it; the agent ends in words that
    /// name what may have run.
    Unknown(Ran),
    /// It was answered and the agent heard it; it ends in words that name what may have run.
    Told,
    /// One of the two: the answer was on its way.
    ToldOrUnknown,
}

use End::{Answered, Cancelled, NotAnswered, NotAsked, OpenAgain, Told, ToldOrUnknown, Unknown};

/// One row: a moment, and what becomes of it when the host, the runner or the agent is killed then.
struct Row(&'static [Kind], Moment, [End; 3]);

const PERMISSION: &[Kind] = &[Kind::Permission];
const WISHES: &[Kind] = &[Kind::Terminal, Kind::Write];
const ALL: &[Kind] = &[Kind::Permission, Kind::Terminal, Kind::Write];

const NEVER: End = Unknown(Ran::Never);
const ONCE: End = Unknown(Ran::Once);
const PERHAPS: End = Unknown(Ran::AtMostOnce);

/// The answer and the attempt to tell it are one commit, so what is before or after the one is before
/// or after the other.
#[rustfmt::skip]
const CELLS: [Row; 20] = [
    Row(ALL, allow("before ask", ""), [OpenAgain, NotAsked, NotAsked]),
    Row(ALL, allow("after ask", "ask_heard"), [OpenAgain, Cancelled, Cancelled]),
    Row(ALL, allow("before commit", "ask_committing"), [OpenAgain, Cancelled, Cancelled]),
    Row(ALL, allow("after commit", "ask_committed"), [OpenAgain, Cancelled, Cancelled]),
    Row(ALL, allow("before acknowledge", "ask_accepted"), [OpenAgain, Cancelled, Cancelled]),
    Row(ALL, allow("after acknowledge", "ask_acknowledged"), [OpenAgain, Cancelled, Cancelled]),
    Row(PERMISSION, allow("before decide and attempt", "decision_committing"), [NotAnswered, NEVER, NEVER]),
    Row(WISHES, allow("before decide and attempt", "decision_committing"), [NotAnswered, NEVER, PERHAPS]),
    Row(PERMISSION, allow("after decide and attempt", "decision_committed"), [Answered, NEVER, NEVER]),
    Row(WISHES, allow("after decide and attempt", "decision_committed"), [Answered, NEVER, PERHAPS]),
    Row(WISHES, allow("before it is done", "request_allowed"), [Answered, NEVER, PERHAPS]),
    Row(WISHES, allow("after it is done, before write", "request_done"), [Answered, ONCE, ONCE]),
    Row(WISHES, allow("while it is written", "request_served"), [Answered, ToldOrUnknown, ToldOrUnknown]),
    Row(PERMISSION, allow("before write", "answer_owed"), [Answered, NEVER, NEVER]),
    Row(PERMISSION, allow("while it is written", "answer_sent"), [Answered, ToldOrUnknown, ToldOrUnknown]),
    Row(ALL, allow("after write", "answer_written"), [Answered, Told, Told]),
    Row(ALL, allow("before confirm", "settlement_committing"), [Answered, Told, Told]),
    Row(ALL, allow("after confirm", "settlement_committed"), [Answered, Told, Told]),
    Row(ALL, deny("after decide and attempt", "decision_committed"), [Answered, NEVER, NEVER]),
    Row(ALL, deny("after write", "answer_written"), [Answered, Told, Told]),
];

const fn allow(step: &'static str, point: &'static str) -> Moment {
    Moment {
        step,
        point,
        answer: "approve",
    }
}

const fn deny(step: &'static str, point: &'static str) -> Moment {
    Moment {
        step,
        point,
        answer: "deny",
    }
}

impl Moment {
    /// Whether somebody has answered by then.
    fn is_answered(self) -> bool {
        !self.point.is_empty() && !self.point.starts_with("ask_")
    }

    /// Whether what was asked for is done by then.
    fn has_run(self, kind: Kind) -> bool {
        let first = match kind {
            Kind::Permission => &["answer_sent"][..],
            Kind::Terminal | Kind::Write => &["request_done", "request_served"],
        };
        let later = [
            "answer_written",
            "settlement_committing",
            "settlement_committed",
        ];
        self.answer == "approve" && (first.contains(&self.point) || later.contains(&self.point))
    }
}

/// What is to be seen: any of these.
fn expected(moment: Moment, victim: Victim, end: End) -> Vec<Seen> {
    let seen = |asks: &[&str], ran, may_have_run| {
        let asks: Vec<String> = asks.iter().map(|ask| (*ask).to_owned()).collect();
        Seen {
            answered_again: 0,
            asks,
            ran,
            agent: "error".to_owned(),
            words: words_of_end(victim, may_have_run),
        }
    };
    let goes_on = |answered_again, ask: &str, ran| Seen {
        answered_again,
        agent: "idle".to_owned(),
        words: String::new(),
        ..seen(&[ask], ran, false)
    };
    let is_allowed = moment.answer == "approve";
    let word = if is_allowed { "allowed" } else { "denied" };
    let unknown = |ran| seen(&[&format!("{word}, unknown")], ran, is_allowed);
    let told = || {
        seen(
            &[&format!("{word}, delivered")],
            usize::from(is_allowed),
            is_allowed,
        )
    };
    match end {
        OpenAgain => vec![goes_on(1, "allowed, delivered", 1)],
        NotAnswered => vec![goes_on(1, "denied, delivered", 0)],
        Answered => vec![goes_on(
            0,
            &format!("{word}, delivered"),
            usize::from(is_allowed),
        )],
        NotAsked => vec![seen(&[], 0, false)],
        Cancelled => vec![seen(&["cancelled, withdrawn"], 0, false)],
        Unknown(Ran::Never) => vec![unknown(0)],
        Unknown(Ran::Once) => vec![unknown(1)],
        Unknown(Ran::AtMostOnce) => vec![unknown(0), unknown(1)],
        Told => vec![told()],
        ToldOrUnknown => vec![told(), unknown(usize::from(is_allowed))],
    }
}

fn words_of_end(victim: Victim, may_have_run: bool) -> String {
    let how = match victim {
        Victim::Host => "",
        Victim::Runner => {
            "its runner ended: its runner cannot be reached: the agent's runner has ended"
        }
        Victim::Agent => "its process was ended by SIGKILL in the middle of a turn",
    };
    if may_have_run {
        format!("{how}; allowed in this turn, and may already have run: THE WISH")
    } else {
        how.to_owned()
    }
}

async fn check(kind: Kind, victim: Victim) {
    for Row(kinds, moment, ends) in &CELLS {
        if kinds.contains(&kind) {
            let end = ends[victim as usize];
            let again = if end == NotAnswered {
                "deny"
            } else {
                "approve"
            };
            let seen = play(kind, *moment, victim, again).await;
            let expected = expected(*moment, victim, end);
            let cell = format!("{kind:?}, {victim:?}, {} ({})", moment.step, moment.answer);
            assert!(
                expected.contains(&seen),
                "{cell}: {seen:#?} is none of {expected:#?}"
            );
        }
    }
}

/// A test for each kind and victim, since each row has a host of its own.
macro_rules! table {
    ($($name:ident: $kind:ident, $victim:ident;)*) => {
        $(
            #[tokio::test]
            #[cfg_attr(
                not(debug_assertions),
                ignore = "only builds with debug assertions have points to stop at"
            )]
            async fn $name() {
                check(Kind::$kind, Victim::$victim).await;
            }
        )*
    };
}

table! {
    permission_outlives_the_host_killed_at_any_step: Permission, Host;
    permission_ends_in_words_when_the_runner_is_killed_at_any_step: Permission, Runner;
    permission_ends_in_words_when_the_agent_is_killed_at_any_step: Permission, Agent;
    terminal_outlives_the_host_killed_at_any_step: Terminal, Host;
    terminal_ends_in_words_when_the_runner_is_killed_at_any_step: Terminal, Runner;
    terminal_ends_in_words_when_the_agent_is_killed_at_any_step: Terminal, Agent;
    file_outlives_the_host_killed_at_any_step: Write, Host;
    file_ends_in_words_when_the_runner_is_killed_at_any_step: Write, Runner;
    file_ends_in_words_when_the_agent_is_killed_at_any_step: Write, Agent;
}

#[tokio::test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "only builds with debug assertions have points to stop at"
)]
async fn what_was_heard_before_the_runner_was_killed_is_told() {
    assert_eq!(play::last_words().await, "hello");
}

#[tokio::test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "only builds with debug assertions have points to stop at"
)]
async fn a_file_that_others_changed_meanwhile_is_not_written_again() {
    let moment = allow("after it is done, before write", "request_done");
    let seen = Seen {
        answered_again: 0,
        asks: vec!["allowed, unknown".to_owned()],
        ran: 1,
        agent: "idle".to_owned(),
        words: String::new(),
    };
    let words = "failed: the host ended while it was writing; the file may or may not be written";
    let said = format!(
        "ran: ran: <fs/write_text_file failed: {}>ran: ",
        serde_json::json!({ "code": -32011, "message": words })
    );
    let theirs = vec!["theirs".to_owned()];
    assert_eq!(
        play::file_changed_meanwhile(moment).await,
        (seen, said, theirs)
    );
}
