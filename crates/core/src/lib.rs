#![forbid(unsafe_code)]

mod visible;

pub use visible::{Layout, hidden_count, visible};
