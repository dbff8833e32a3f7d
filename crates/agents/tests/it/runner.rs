//! Runners: real processes, driven by hand over their link.

mod client;
mod ends;
mod hosts;
mod output;
mod peers;
mod terminals;
