//! How many bytes of text an event holds: what bounds the events that are kept in memory.
//!
//! Only text that a client or an agent can make long counts; ids and names have bounds of their own.

use std::sync::Arc;

use super::{
    AgentOffers, AgentPlan, AgentProfile, ApprovalEnding, Ask, Ceiling, Device, Grant, GrantUse,
    OfferedChoice, OfferedCommand, ProcessKey, PromptMessage, QuestionEnding, QuestionText,
    SpawnOptions, TranscriptEntry, Worktree,
};
use crate::json::Json;

pub(super) trait TextBytes {
    fn text_bytes(&self) -> usize;
}

impl TextBytes for String {
    fn text_bytes(&self) -> usize {
        self.len()
    }
}

impl TextBytes for Json {
    fn text_bytes(&self) -> usize {
        self.text().len()
    }
}

impl<T: TextBytes> TextBytes for Option<T> {
    fn text_bytes(&self) -> usize {
        self.as_ref().map_or(0, T::text_bytes)
    }
}

impl<T: TextBytes> TextBytes for Vec<T> {
    fn text_bytes(&self) -> usize {
        self.iter().map(T::text_bytes).sum()
    }
}

impl<T: TextBytes> TextBytes for Arc<T> {
    fn text_bytes(&self) -> usize {
        T::text_bytes(self)
    }
}

macro_rules! text_bytes {
    ($($name:ident = |$body:ident| $bytes:expr;)*) => {$(
        impl TextBytes for $name {
            fn text_bytes(&self) -> usize {
                let $body = self;
                $bytes
            }
        }
    )*};
}

text_bytes! {
    PromptMessage = |message| message.text.len();
    AgentOffers = |offers| offers.modes.text_bytes() + offers.models.text_bytes() + offers.commands.text_bytes();
    OfferedChoice = |choice| choice.id.len() + choice.name.len() + choice.description.text_bytes();
    OfferedCommand = |command| command.name.len() + command.description.len() + command.hint.text_bytes();
    AgentPlan = |plan| plan.steps.iter().map(|step| step.text.len()).sum();
    AgentProfile = |profile| profile.metadata.text_bytes() + profile.capabilities.text_bytes();
    ApprovalEnding = |ending| {
        let verdict = ending.verdict.as_ref().map_or(0, |verdict| verdict.bytes());
        ending.message.text_bytes() + ending.edited_input.text_bytes() + verdict
    };
    Ask = |ask| ask.bytes();
    Ceiling = |ceiling| ceiling.rules.iter().map(String::len).sum();
    Device = |device| device.metadata.text_bytes() + device.capabilities.text_bytes();
    Grant = |grant| grant.rule.len();
    GrantUse = |used| used.grant.as_str().len();
    ProcessKey = |_process| size_of::<ProcessKey>();
    QuestionEnding = |ending| ending.answer.len();
    QuestionText = |question| question.text.len();
    SpawnOptions = |options| {
        options.system_prompt.text_bytes()
            + options.command.text_bytes()
            + options.mcp_servers.text_bytes()
    };
    TranscriptEntry = |entry| entry.weight();
    Worktree = |worktree| worktree.path.len() + worktree.repository.len();
}
