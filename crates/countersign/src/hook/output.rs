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

// Statics, because the watchdog and the panic hook answer from threads that have nothing else in hand.
static ANSWERED: AtomicBool = AtomicBool::new(false);
static FORM: AtomicU8 = AtomicU8::new(AnswerForm::Unknown as u8);

/// In which form the caller reads an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum AnswerForm {
    /// It is not known what is being asked, so only the exit code can be trusted to be read.
    Unknown,
    PreToolUse,
    PermissionRequest,
    /// Nothing is decided.
    Plain,
}

impl AnswerForm {
    fn current() -> Self {
        let forms = [Self::PreToolUse, Self::PermissionRequest, Self::Plain];
        let current = FORM.load(Ordering::Acquire);
        let found = forms.into_iter().find(|form| *form as u8 == current);
        found.unwrap_or(Self::Unknown)
    }
}

/// From now on it is known what is asked.
pub(super) fn set_form(form: AnswerForm) {
    FORM.store(form as u8, Ordering::Release);
}

/// What a hook says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HookAnswer {
    decision: HookDecision,
    reason: String,
    input: Option<Raw>,
}

impl HookAnswer {
    pub(super) fn deny(reason: &str) -> Self {
        Self {
            decision: HookDecision::Deny,
            reason: reason.to_owned(),
            input: None,
        }
    }

    pub(super) fn on_end(end: HookEnd, reason: &str) -> Self {
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

impl From<HookResult> for HookAnswer {
    fn from(result: HookResult) -> Self {
        let mut reason = result.reason.unwrap_or_default();
        if result.told_before {
            reason.push_str(" (answered before: it may already have run)");
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
struct RenderedAnswer {
    out: String,
    err: String,
    code: i32,
}

fn render_answer(answer: &HookAnswer, form: AnswerForm) -> RenderedAnswer {
    let out = match form {
        AnswerForm::PreToolUse => Some(before_tool(answer)),
        AnswerForm::PermissionRequest => Some(before_prompt(answer)),
        AnswerForm::Plain => Some(json!({})),
        AnswerForm::Unknown => None,
    };
    // JSON escapes control characters by itself; stderr goes to a terminal as it is.
    let reason = visible(&answer.reason, TextLayout::Line).into_owned();
    match out {
        // Zero for a denial too: Claude Code reads JSON from stdout only if the hook succeeded.
        Some(out) => RenderedAnswer {
            out: format!("{out}\n"),
            err: String::new(),
            code: 0,
        },
        None => RenderedAnswer {
            out: String::new(),
            err: format!("{reason}\n"),
            code: BLOCKED,
        },
    }
}

fn before_tool(answer: &HookAnswer) -> Value {
    let decision = match answer.decision {
        HookDecision::Allow => "allow",
        HookDecision::Deny => "deny",
        // Never silence: without a decision the settings of Claude Code may allow the tool unasked.
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

fn before_prompt(answer: &HookAnswer) -> Value {
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

fn add_input(output: &mut Value, answer: &HookAnswer) {
    if let Some(input) = &answer.input
        && answer.decision == HookDecision::Allow
    {
        output["updatedInput"] = serde_json::from_str(input.text()).unwrap_or_default();
    }
}

/// Speaks, if nobody has, and ends the process.
pub(super) fn give_answer(answer: &HookAnswer) -> ExitCode {
    // The swap decides who answers: the main thread, a watchdog or the panic hook. Two answers would be
    // two documents, which no caller can read.
    if ANSWERED.swap(true, Ordering::AcqRel) {
        // Another thread speaks and ends the process; the watchdog sees to that.
        loop {
            thread::park();
        }
    }
    let said = render_answer(answer, AnswerForm::current());
    // A decision that was written in part may mean nothing, or the wrong thing. The exit code blocks
    // whatever the caller makes of it.
    let code = write(&said).map_or(BLOCKED, |()| said.code);
    exit_process(code)
}

fn write(said: &RenderedAnswer) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // The reason first: if it cannot be written, no decision is on stdout yet.
    io::stderr().lock().write_all(said.err.as_bytes())?;
    out.write_all(said.out.as_bytes())?;
    out.flush()
}

#[expect(
    clippy::exit,
    reason = "whatever else runs in this process must not outlive its answer"
)]
fn exit_process(code: i32) -> ! {
    std::process::exit(code)
}

/// Has a thread give this answer at that instant, if none was given before. False if it could not be
/// started.
pub(super) fn answer_by(deadline: Instant, answer: HookAnswer) -> bool {
    let watchdog = thread::Builder::new().spawn(move || {
        thread::sleep(deadline.saturating_duration_since(Instant::now()));
        if ANSWERED.load(Ordering::Acquire) {
            // Somebody has begun to speak and does not come to an end.
            thread::sleep(WRITING);
            exit_process(BLOCKED);
        }
        give_answer(&answer);
    });
    watchdog.is_ok()
}

/// A panic anywhere in the process is a no.
pub(super) fn deny_on_panic() {
    // An ordinary panic exits with 101, which by itself does not block the tool.
    std::panic::set_hook(Box::new(|_| {
        give_answer(&HookAnswer::deny(
            "countersign: internal error in the hook, so nothing was allowed",
        ));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(decision: HookDecision, input: Option<&str>) -> HookAnswer {
        let raw = |text: &str| serde_json::from_str(text).unwrap();
        HookAnswer {
            decision,
            reason: "why".to_owned(),
            input: input.map(raw),
        }
    }

    fn out(answer: &HookAnswer, form: AnswerForm) -> Value {
        let said = render_answer(answer, form);
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
            assert_eq!(
                out(&answer(decision, None), AnswerForm::PreToolUse),
                expected
            );
            if decision == HookDecision::Allow {
                expected["hookSpecificOutput"]["updatedInput"] = json!({ "command": "ls" });
            }
            assert_eq!(
                out(&answer(decision, edited), AnswerForm::PreToolUse),
                expected
            );
        }
    }

    #[test]
    fn before_a_prompt_only_a_decision_is_one() {
        let decided = |decision| out(&answer(decision, None), AnswerForm::PermissionRequest);
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
            out(&edited, AnswerForm::PermissionRequest),
            output(json!({ "behavior": "allow", "updatedInput": { "a": 1 } }))
        );
    }

    #[test]
    fn where_no_form_is_known_the_exit_code_blocks() {
        for decision in [HookDecision::Allow, HookDecision::Deny, HookDecision::Ask] {
            let expected = RenderedAnswer {
                out: String::new(),
                err: "why\n".to_owned(),
                code: 2,
            };
            assert_eq!(
                render_answer(&answer(decision, None), AnswerForm::Unknown),
                expected
            );
        }
        assert_eq!(
            out(&answer(HookDecision::Deny, None), AnswerForm::Plain),
            json!({})
        );
    }
}
