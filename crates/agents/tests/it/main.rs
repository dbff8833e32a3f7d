//! Agents' processes, terminals and files, over the real thing.

mod files;
mod pipe;
mod shells;
mod support;
mod tree;
