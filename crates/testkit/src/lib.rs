//! What tests and measurements share; never shipped.
#![forbid(unsafe_code)]

pub mod bench;
pub mod crash;
pub mod doors;
pub mod model;
pub mod real;
mod tokens;
