//! The engine from outside: what it must never let through, and what it must.
#![forbid(unsafe_code)]

mod bypasses;
mod corpus;
mod floor;
mod judging;
mod programs;
mod real_bash;
mod scratch;
mod spawning;
mod starter;
mod support;
