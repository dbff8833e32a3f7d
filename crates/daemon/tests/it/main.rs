//! The service with the real loop and the real record; and the rulebook with real files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod bypass;
mod cost;
mod crash;
mod files;
mod fixture;
mod grants;
mod passes;
mod replay;
mod rulebook;
