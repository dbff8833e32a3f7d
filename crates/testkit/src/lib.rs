//! What tests and measurements share; never shipped.
#![forbid(unsafe_code)]

pub mod bench;
pub mod crash;
pub mod doors;
mod host;
pub mod model;
mod random;
pub mod real;
mod wire;
