//! The scripted model: a server on loopback that speaks the APIs of models (Anthropic's messages, `OpenAI`'s responses) and does what a script
//! in the prompt says, so that real agents are deterministic.
//!
//! A script is a JSON array between `<script>` and `</script>`, for example
//! `[{"say":"First this."},{"shell":"touch a"},{"write":{"path":"/x","content":"y"}}]`. The steps are
//! `shell`, `write`, `read`, `tool` (by exact name, with `input`), `parallel` (several of these in one
//! message), `say`, `delay_ms` and `error` (an HTTP status). After the last step the model says the
//! last tool result. In a tool's `input`, `{"after":"WORDS"}` stands for the word that follows these
//! words in what was said to the model: an id that was not known when the script was written.
//!
//! Invariants: what is answered follows from the request alone; nothing is kept from one request to
//! the next. A prompt without a script goes on with the script before it, so a test that prompts
//! twice scripts both.

mod anthropic;
mod conversation;
mod gemini;
mod message;
mod quote;
mod responses;
mod script;
mod server;
mod tools;

#[cfg(test)]
mod framing_tests;

pub use server::ScriptedModel;
