//! The ACP adapter against the scripted agent, over real pipes: every quirk that real agents showed.

mod asks;
mod rude;
mod sessions;
mod talk;
