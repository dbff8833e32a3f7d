//! The one answer of a hook, in the form its caller reads, and the watchdog that gives it if nobody
//! else does.
//!
//! Invariant: whoever speaks first speaks alone, and then the process ends. If the answer cannot be
//! written whole, the exit code says no.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use countersign_core::{TextLayout, visible};
use countersign_protocol::{HookDecision, HookEnd, HookResult, Raw};
use serde_json::{Value, json};

/// To Claude Code this exit code blocks, with stderr as the reason. Most others do not.
const BLOCKED: i32 = 2;

/// How long an answer may take to be written before its writer is given up.
const WRITING: Duration = Duration::from_secs(1);

static SPOKEN: AtomicBool = AtomicBool::new(false);
static FORM: AtomicU8 = AtomicU8::new(Form::Unknown as u8);

/// In which form the caller reads an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Form {
    /// It is not known what is being asked, so only the exit code can be trusted to be read.
    Unknown,
    PreToolUse,
    PermissionRequest,
    /// Nothing is decided.
    Plain,
}

impl Form {
    fn current() -> Self {
        let forms = [Self::PreToolUse, Self::PermissionRequest, Self::Plain];
        let current = FORM.load(Ordering::Acquire);
        let found = forms.into_iter().find(|form| *form as u8 == current);
        found.unwrap_or(Self::Unknown)
    }
}

/// From now on it is known what is asked.
pub(super) fn set_form(form: Form) {
    FORM.store(form as u8, Ordering::Release);
}

/// What a hook says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    decision: HookDecision,
    reason: String,
    input: Option<Raw>,
}

impl Answer {
    pub(super) fn deny(reason: &str) -> Self {
        Self {
            decision: HookDecision::Deny,
            reason: reason.to_owned(),
            input: None,
        }
    }

    pub(super) fn end(end: HookEnd, reason: &str) -> Self {
        let decision = match end {
            HookEnd::Deny => HookDecision::Deny,
            HookEnd::Ask => HookDecision::Ask,
        };
        Self {
            decision,
            ..Self::deny(reason)
        }
    }

    pub(super) fn none() -> Self {
        Self {
            decision: HookDecision::None,
            ..Self::deny("")
        }
    }
}

impl From<HookResult> for Answer {
    fn from(result: HookResult) -> Self {
        let mut reason = result.reason.unwrap_or_default();
        if result.told_before {
            reason.push_str(" (told before: it may already have run)");
        }
        Self {
            decision: result.decision,
            reason: format!("countersign: {reason}"),
            input: result.edited_input,
        }
    }
}

/// What is written where.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    out: String,
    err: String,
    code: i32,
}

fn say(answer: &Answer, form: Form) -> Said {
    let out = match form {
        Form::PreToolUse => Some(before_tool(answer)),
        Form::PermissionRequest => Some(before_prompt(answer)),
        Form::Plain => Some(json!({})),
        Form::Unknown => None,
    };
    let reason = visible(&answer.reason, TextLayout::Line).into_owned();
    match out {
        Some(out) => Said {
            out: format!("{out}\n"),
            err: String::new(),
            code: 0,
        },
        None => Said {
            out: String::new(),
            err: format!("{reason}\n"),
            code: BLOCKED,
        },
    }
}

fn before_tool(answer: &Answer) -> Value {
    let decision = match answer.decision {
        HookDecision::Allow => "allow",
        HookDecision::Deny => "deny",
        HookDecision::Ask | HookDecision::None => "ask",
    };
    let mut output = json!({
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": answer.reason,
    });
    add_input(&mut output, answer);
    json!({ "hookSpecificOutput": output })
}

fn before_prompt(answer: &Answer) -> Value {
    let mut decision = match answer.decision {
        HookDecision::Allow => json!({ "behavior": "allow" }),
        HookDecision::Deny => json!({ "behavior": "deny", "message": answer.reason }),
        // The prompt goes on as if there were no hook.
        HookDecision::Ask | HookDecision::None => return json!({}),
    };
    add_input(&mut decision, answer);
    let output = json!({ "hookEventName": "PermissionRequest", "decision": decision });
    json!({ "hookSpecificOutput": output })
}

fn add_input(output: &mut Value, answer: &Answer) {
    if let Some(input) = &answer.input
        && answer.decision == HookDecision::Allow
    {
        output["updatedInput"] = serde_json::from_str(input.text()).unwrap_or_default();
    }
}

/// Speaks, if nobody has, and ends the process.
pub(super) fn speak(answer: &Answer) -> ExitCode {
    if SPOKEN.swap(true, Ordering::AcqRel) {
        // Another thread speaks and ends the process; the watchdog sees to that.
        loop {
            thread::park();
        }
    }
    let said = say(answer, Form::current());
    let code = write(&said).map_or(BLOCKED, |()| said.code);
    end(code)
}

fn write(said: &Said) -> io::Result<()> {
    let mut out = io::stdout().lock();
    io::stderr().lock().write_all(said.err.as_bytes())?;
    out.write_all(said.out.as_bytes())?;
    out.flush()
}

#[expect(
    clippy::exit,
    reason = "whatever else runs in this process must not outlive its answer"
)]
fn end(code: i32) -> ! {
    std::process::exit(code)
}

/// Has a thread give this answer at that instant, if none was given before. False if it could not be
/// started.
pub(super) fn answer_by(deadline: Instant, answer: Answer) -> bool {
    let watchdog = move || {
        thread::sleep(deadline.saturating_duration_since(Instant::now()));
        if SPOKEN.load(Ordering::Acquire) {
            // Somebody has begun to speak and does not come to an end.
            thread::sleep(WRITING);
            end(BLOCKED);
        }
        speak(&answer);
    };
    thread::Builder::new().spawn(watchdog).is_ok()
}

/// A panic anywhere in the process is a no.
pub(super) fn survive_panics() {
    std::panic::set_hook(Box::new(|_| {
        speak(&Answer::deny(
            "countersign: the hook failed inside, so nothing was allowed",
        ));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(decision: HookDecision, input: Option<&str>) -> Answer {
        let raw = |text: &str| serde_json::from_str(text).unwrap();
        Answer {
            decision,
            reason: "why".to_owned(),
            input: input.map(raw),
        }
    }

    fn out(answer: &Answer, form: Form) -> Value {
        let said = say(answer, form);
        assert_eq!((said.err.as_str(), said.code), ("", 0));
        serde_json::from_str(&said.out).unwrap()
    }

    #[test]
    fn before_a_tool_there_is_always_a_decision() {
        let edited = Some(r#"{"command":"ls"}"#);
        let all = [
            (HookDecision::Allow, "allow"),
            (HookDecision::Deny, "deny"),
            (HookDecision::Ask, "ask"),
            (HookDecision::None, "ask"),
        ];
        for (decision, word) in all {
            let mut expected = json!({ "hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": word,
                "permissionDecisionReason": "why",
            } });
            assert_eq!(out(&answer(decision, None), Form::PreToolUse), expected);
            if decision == HookDecision::Allow {
                expected["hookSpecificOutput"]["updatedInput"] = json!({ "command": "ls" });
            }
            assert_eq!(out(&answer(decision, edited), Form::PreToolUse), expected);
        }
    }

    #[test]
    fn before_a_prompt_only_a_decision_is_one() {
        let decided = |decision| out(&answer(decision, None), Form::PermissionRequest);
        let output = |decision| json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest", "decision": decision } });
        assert_eq!(
            decided(HookDecision::Allow),
            output(json!({ "behavior": "allow" }))
        );
        assert_eq!(
            decided(HookDecision::Deny),
            output(json!({ "behavior": "deny", "message": "why" }))
        );
        assert_eq!(decided(HookDecision::Ask), json!({}));
        assert_eq!(decided(HookDecision::None), json!({}));
        let edited = answer(HookDecision::Allow, Some(r#"{"a":1}"#));
        assert_eq!(
            out(&edited, Form::PermissionRequest),
            output(json!({ "behavior": "allow", "updatedInput": { "a": 1 } }))
        );
    }

    #[test]
    fn where_no_form_is_known_the_exit_code_blocks() {
        for decision in [HookDecision::Allow, HookDecision::Deny, HookDecision::Ask] {
            let expected = Said {
                out: String::new(),
                err: "why\n".to_owned(),
                code: 2,
            };
            assert_eq!(say(&answer(decision, None), Form::Unknown), expected);
        }
        assert_eq!(
            out(&answer(HookDecision::Deny, None), Form::Plain),
            json!({})
        );
    }
}
