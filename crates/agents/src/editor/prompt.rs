//! Prompts: what the editor's user says, and the end of the turn that takes it.

use agent_client_protocol_schema::v1::{ContentBlock, EmbeddedResourceResource};
use serde_json::{Value, json};

use super::host_call::{EditorHostCall, PendingCall};
use super::{EditorConnection, EditorOutput, notes};
use crate::acp::envelope;
use crate::adapter::RequestId;

/// A prompt that is not answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EditorPrompt {
    pub(super) request: RequestId,
    /// The message, by which the turn that takes it is known.
    text: String,
    turn: Option<u32>,
    is_cancelled: bool,
}

impl EditorConnection {
    pub(super) fn send_prompt(
        &mut self,
        output: &mut EditorOutput,
        request: RequestId,
        session: String,
        blocks: &[Value],
    ) {
        let Some(opened) = self.find_open(output, &request, &session) else {
            return;
        };
        let text = message_text(blocks);
        if text.trim().is_empty() {
            let message = "the prompt has no text";
            return output.error(&request, envelope::INVALID_PARAMS, message);
        }
        opened.prompts.push(EditorPrompt {
            request: request.clone(),
            text: text.clone(),
            turn: None,
            is_cancelled: false,
        });
        let call = EditorHostCall::SendMessage {
            session: session.clone(),
            text,
        };
        self.call(output, call, PendingCall::Prompt { session, request });
    }

    /// Ends the turn that runs. Prompts that wait behind it end when their own turn begins: a message
    /// cannot be taken back.
    pub(super) fn cancel_prompts(&mut self, output: &mut EditorOutput, session: &str) {
        let Some(opened) = self.sessions.get_mut(session) else {
            return;
        };
        for prompt in &mut opened.prompts {
            prompt.is_cancelled = true;
        }
        self.interrupt(output, session);
    }

    fn interrupt(&mut self, output: &mut EditorOutput, session: &str) {
        let session = session.to_owned();
        let call = EditorHostCall::Interrupt { session };
        self.call(output, call, PendingCall::Unanswered);
    }

    /// The session of a prompt that is not answered yet.
    pub(super) fn session_of_prompt(&self, request: &RequestId) -> Option<String> {
        let mut sessions = self.sessions.iter();
        let found = sessions.find(|(_, session)| {
            let mut prompts = session.prompts.iter();
            prompts.any(|prompt| prompt.request == *request)
        });
        found.map(|(id, _)| id.clone())
    }

    /// Whether a message to the agent is a prompt of this editor, which shows it already. Notes the turn
    /// that took it.
    pub(super) fn claim_message(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        turn: u32,
        text: &str,
    ) -> bool {
        let opened = self.sessions.get_mut(session);
        let found = opened.and_then(|opened| {
            let mut prompts = opened.prompts.iter_mut();
            // By its text, because the transcript does not carry the number of the message. Of two
            // equal prompts it does not matter which is taken first.
            prompts.find(|prompt| prompt.turn.is_none() && prompt.text == text)
        });
        let Some(prompt) = found else {
            return false;
        };
        prompt.turn = Some(turn);
        // It was cancelled while it waited in the queue: only now is there a turn to end.
        if prompt.is_cancelled {
            self.interrupt(output, session);
        }
        true
    }

    pub(super) fn end_turn(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        turn: u32,
        reason: &str,
        message: Option<&str>,
    ) {
        let Some(opened) = self.sessions.get_mut(session) else {
            return;
        };
        let ended = opened
            .prompts
            .extract_if(.., |prompt| prompt.turn == Some(turn));
        for prompt in ended {
            answer_prompt(output, &prompt, reason, message);
        }
    }

    /// Prompts that no turn took, and none will.
    pub(super) fn fail_waiting_prompts(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        reason: &str,
    ) {
        let Some(opened) = self.sessions.get_mut(session) else {
            return;
        };
        for prompt in opened
            .prompts
            .extract_if(.., |prompt| prompt.turn.is_none())
        {
            answer_prompt(output, &prompt, "error", Some(reason));
        }
    }

    /// A prompt that somebody took back before its turn.
    pub(super) fn fail_withdrawn_prompt(
        &mut self,
        output: &mut EditorOutput,
        session: &str,
        text: &str,
        by: &str,
    ) {
        let opened = self.sessions.get_mut(session);
        let place = opened.as_ref().and_then(|opened| {
            let mut prompts = opened.prompts.iter();
            prompts.position(|prompt| prompt.turn.is_none() && prompt.text == text)
        });
        if let (Some(opened), Some(place)) = (opened, place) {
            let prompt = opened.prompts.remove(place);
            let why = format!("{by} withdrew the message");
            answer_prompt(output, &prompt, "error", Some(&why));
        }
    }

    /// A prompt that the host did not take.
    pub(super) fn drop_prompt(&mut self, session: &str, request: &RequestId) {
        if let Some(opened) = self.sessions.get_mut(session) {
            opened.prompts.retain(|prompt| prompt.request != *request);
        }
    }
}

fn answer_prompt(
    output: &mut EditorOutput,
    prompt: &EditorPrompt,
    reason: &str,
    message: Option<&str>,
) {
    // An editor that cancelled must be told so, whatever the agent called it.
    let reason = if prompt.is_cancelled {
        "cancelled"
    } else {
        reason
    };
    match reason {
        "end_turn" | "max_tokens" | "max_turn_requests" | "refusal" | "cancelled" => {
            output.result(&prompt.request, &json!({"stopReason": reason}));
        }
        other => {
            let message = message.unwrap_or("the agent did not say why");
            let message = format!("the turn ended ({other}): {message}");
            output.error(&prompt.request, envelope::INTERNAL_ERROR, &message);
        }
    }
}

/// The blocks of a prompt as one message. What has no text is named.
fn message_text(blocks: &[Value]) -> String {
    let texts = blocks.iter().map(|block| {
        let block = serde_json::from_value::<ContentBlock>(block.clone());
        block.map_or_else(|_| String::new(), |block| block_text(&block))
    });
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    texts.join("\n")
}

fn block_text(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::ResourceLink(link) => file_path(&link.uri).to_owned(),
        ContentBlock::Resource(resource) => match &resource.resource {
            EmbeddedResourceResource::TextResourceContents(text) => {
                format!("{}\n{}", file_path(&text.uri), notes::fenced(&text.text))
            }
            EmbeddedResourceResource::BlobResourceContents(blob) => file_path(&blob.uri).to_owned(),
            _ => String::new(),
        },
        // Neither is offered in `promptCapabilities`.
        ContentBlock::Image(_) => "[an image that was not passed on]".to_owned(),
        ContentBlock::Audio(_) => "[a sound that was not passed on]".to_owned(),
        _ => String::new(),
    }
}

/// A file by its path, anything else by its address.
fn file_path(uri: &str) -> &str {
    uri.strip_prefix("file://").unwrap_or(uri)
}
