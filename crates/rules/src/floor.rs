//! The floor: what no rule, grant or bypass lifts.

/// The host's own files, which are denied to agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// Absolute paths of the host's files and folders: database, sockets, tokens, configuration.
    pub host_paths: Vec<String>,
}
