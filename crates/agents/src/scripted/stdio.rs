//! The agent's own standard input and output. Pipes are watched by the runtime: threads that read and
//! write for it would be a part of every time the agent measures.

use std::io;
use std::os::fd::AsFd;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;

pub(super) fn input() -> Box<dyn AsyncRead + Send + Unpin> {
    let own = io::stdin().as_fd().try_clone_to_owned();
    match own.and_then(pipe::Receiver::from_owned_fd) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdin()),
    }
}

pub(super) fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    let own = io::stdout().as_fd().try_clone_to_owned();
    match own.and_then(pipe::Sender::from_owned_fd) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdout()),
    }
}
