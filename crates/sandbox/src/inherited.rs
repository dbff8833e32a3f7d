//! What a process was started with besides its standard streams.

use std::io;

/// Keeps every descriptor that is open now from the programs that this process starts. One that should reach a program
/// is handed on by whoever starts it.
#[cfg(target_os = "linux")]
pub fn close_inherited_on_exec() -> io::Result<()> {
    crate::system_calls::close_on_exec(3)
}

/// There is no call for this here.
#[cfg(not(target_os = "linux"))]
pub fn close_inherited_on_exec() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
