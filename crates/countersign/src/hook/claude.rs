//! Claude Code's hook input, turned into words that fit any tool.
//!
//! Invariant: what cannot be read is never taken for something harmless.

use std::time::Duration;

use countersign_core::{ASK_PERSON_TOOL, hex};
use countersign_protocol::{HookEvent, HookParams, Raw};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::output::{AnswerForm, HookAnswer};
use crate::config::HookConfig;

/// The host is told of events that decide nothing as long as nobody is held up by it.
pub(super) const PLAIN_LIMIT: Duration = Duration::from_secs(3);

/// A tool that shows the person at the terminal a plan. To allow it is to answer nothing.
const FOR_THE_TERMINAL: &str = "ExitPlanMode";

/// Events that name a tool and can no longer stop it.
const AFTERWARDS: [&str; 3] = ["PostToolUse", "PostToolUseFailure", "PermissionDenied"];

/// Which of Claude Code's events it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaudeEvent {
    name: String,
    names_tool: bool,
}

impl ClaudeEvent {
    pub(super) fn form(&self) -> AnswerForm {
        match self.name.as_str() {
            "PreToolUse" => AnswerForm::PreToolUse,
            "PermissionRequest" => AnswerForm::PermissionRequest,
            // A later version may ask for permission by an event that is unknown here. As a plain event
            // it would pass, so it has no form and is blocked.
            name if self.names_tool && !AFTERWARDS.contains(&name) => AnswerForm::Unknown,
            _ => AnswerForm::Plain,
        }
    }

    fn kind(&self) -> Option<HookEvent> {
        match self.name.as_str() {
            "PreToolUse" => Some(HookEvent::Ask),
            "PermissionRequest" => Some(HookEvent::Prompt),
            "SessionStart" => Some(HookEvent::SessionStarted),
            "SessionEnd" => Some(HookEvent::SessionEnded),
            "Stop" => Some(HookEvent::Idle),
            "Notification" => Some(HookEvent::Notice),
            _ => None,
        }
    }
}

/// Reads no more than what decides how an answer looks.
pub(super) fn read_event(text: &[u8]) -> Result<ClaudeEvent, String> {
    #[derive(Deserialize)]
    struct Head<'a> {
        hook_event_name: String,
        // Of any type: a name that is not text must not make the event look as if it named no tool.
        #[serde(borrow, default)]
        tool_name: Option<&'a RawValue>,
    }
    let head: Head<'_> = serde_json::from_slice(text)
        .map_err(|error| format!("countersign: could not read the hook input: {error}"))?;
    Ok(ClaudeEvent {
        name: head.hook_event_name,
        names_tool: head.tool_name.is_some(),
    })
}

#[derive(Deserialize)]
struct ClaudeHookInput<'a> {
    session_id: String,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(borrow, default)]
    tool_input: Option<&'a RawValue>,
    #[serde(default)]
    tool_use_id: Option<String>,
    #[serde(default)]
    permission_mode: Option<String>,
    #[serde(default)]
    agent_type: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

/// What the host is to be told: nothing, of events it need not know. An answer, where there is
/// nothing to ask.
pub(super) fn hook_params(
    text: &[u8],
    event: &ClaudeEvent,
    config: &HookConfig,
) -> Result<Option<HookParams>, HookAnswer> {
    if event.form() == AnswerForm::Unknown {
        let message = format!("countersign: unknown hook event `{}`", event.name);
        return Err(HookAnswer::deny(&message));
    }
    let Some(kind) = event.kind() else {
        return Ok(None);
    };
    let input: ClaudeHookInput<'_> = serde_json::from_slice(text).map_err(|error| {
        HookAnswer::deny(&format!(
            "countersign: could not read the hook input: {error}"
        ))
    })?;
    let asks = matches!(kind, HookEvent::Ask | HookEvent::Prompt);
    // After the fact a tool is only mentioned: the host must not take it for a request.
    let tool = input.tool_name.filter(|_| asks);
    if let Some(tool) = tool.as_deref().filter(|tool| *tool == FOR_THE_TERMINAL) {
        let message = format!("countersign: {tool} is answered in the terminal");
        return Err(HookAnswer::on_end(
            countersign_protocol::HookEnd::Ask,
            &message,
        ));
    }
    let details = json!({
        "hook": "claude", "event": event.name,
        "permission_mode": input.permission_mode, "agent_type": input.agent_type,
    });
    let details = serde_json::value::to_raw_value(&details).ok();
    Ok(Some(HookParams {
        hook: None,
        event: kind,
        session_id: input.session_id,
        // Chosen once for all attempts of this hook, which makes them one ask.
        request_id: Some(new_id()?),
        cwd: input.cwd,
        tool,
        input: input
            .tool_input
            .filter(|_| asks)
            .map(|raw| Raw(raw.to_owned().into())),
        tool_call_id: input.tool_use_id,
        wait_ms: 0,
        after_wait: config.on_timeout,
        message: input.message.or(input.reason),
        details: details.map_or_else(Raw::null, |raw| Raw(raw.into())),
    }))
}

/// Whether it asks the person at the terminal something, which the host is told and does not answer.
pub(super) fn is_question(params: &HookParams) -> bool {
    params.tool.as_deref() == Some(ASK_PERSON_TOOL)
}

fn new_id() -> Result<String, HookAnswer> {
    let mut bytes = [0; 16];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|_| HookAnswer::deny("countersign: no random bytes from the system"))?;
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> ClaudeEvent {
        read_event(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_form_follows_the_event_and_an_unknown_one_with_a_tool_has_none() {
        let form = |name: &str, rest: &str| {
            event(&format!(r#"{{"hook_event_name":"{name}"{rest}}}"#)).form()
        };
        let tool = r#","tool_name":"Bash""#;
        assert_eq!(form("PreToolUse", tool), AnswerForm::PreToolUse);
        assert_eq!(form("PermissionRequest", ""), AnswerForm::PermissionRequest);
        assert_eq!(form("Stop", ""), AnswerForm::Plain);
        assert_eq!(form("SomethingNew", ""), AnswerForm::Plain);
        assert_eq!(form("SomethingNew", tool), AnswerForm::Unknown);
        assert_eq!(form("PostToolUse", tool), AnswerForm::Plain);
        for broken in [
            "",
            "x",
            "[]",
            "{}",
            r#"{"hook_event_name":1}"#,
            r#"{"hook_event_name":"Stop"} x"#,
        ] {
            assert!(read_event(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_tools_input_is_handed_on_to_the_byte() {
        let text = r#"{"session_id":"s","cwd":"/p","hook_event_name":"PreToolUse","tool_name":"Bash",
            "tool_input":{"b": 1.00,"a":"\u0041"},"tool_use_id":"t","permission_mode":"default"}"#;
        let config = HookConfig::default();
        let mut told = hook_params(text.as_bytes(), &event(text), &config)
            .unwrap()
            .unwrap();
        assert_eq!(
            told.input.take().unwrap().text(),
            r#"{"b": 1.00,"a":"\u0041"}"#
        );
        let request = told.request_id.take();
        assert_eq!(request.map(|id| id.len()), Some(32));
        let told = serde_json::to_value(told).unwrap();
        let expected = json!({
            "event": "ask", "session_id": "s", "cwd": "/p", "tool": "Bash", "tool_call_id": "t",
            "wait_ms": 0, "after_wait": "deny",
            "details": { "hook": "claude", "event": "PreToolUse", "permission_mode": "default", "agent_type": null },
        });
        assert_eq!(told, expected);
    }

    #[test]
    fn a_plan_stays_in_the_terminal() {
        let text = r#"{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"ExitPlanMode","tool_input":{}}"#;
        let said = hook_params(text.as_bytes(), &event(text), &HookConfig::default()).unwrap_err();
        let message = "countersign: ExitPlanMode is answered in the terminal";
        assert_eq!(
            said,
            HookAnswer::on_end(countersign_protocol::HookEnd::Ask, message)
        );
    }
}
