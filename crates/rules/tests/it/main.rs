//! The engine from outside: what it must never let through, and what it must.

mod bypasses;
mod floor;
mod judging;
mod support;
