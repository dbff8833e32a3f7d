//! The files of the person who runs the host that say what their screens look like. The binary owns them.

use std::fmt;

/// A layout that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenLayout {
    pub name: String,
    /// As a file has it.
    pub text: String,
    pub is_built_in: bool,
}

/// Takes proposals of agents, each the input of a tool as people were asked about it.
///
/// Both calls refuse whatever touches a key that decides, a name that is a path, or a file that a person wrote.
pub trait ScreenFiles: Send + Sync + fmt::Debug {
    /// What it would change, in one line. Writes nothing.
    fn check(&self, tool: &str, input: &str) -> Result<String, String>;

    /// Keeps what the ask with this id allowed, and says so. The same ask again changes nothing more, whatever the
    /// person has done with the file since.
    fn apply(&self, ask: &str, tool: &str, input: &str) -> Result<String, String>;

    fn layouts(&self) -> Vec<ScreenLayout>;
}
