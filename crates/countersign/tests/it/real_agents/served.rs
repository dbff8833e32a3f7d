//! Terminals and files that an agent leaves to the host.
