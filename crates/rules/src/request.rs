//! Requests: what an agent wants to do, in the few shapes that rules can speak of.

use serde_json::Value;

/// What is to be judged, and where it would happen.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The tool, by the name its agent has for it.
    pub tool: String,
    /// What it would do.
    pub action: Action,
    /// Where.
    pub place: Place,
}

/// Where a request would run: absolute paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The working directory.
    pub cwd: String,
    /// The root of the project; rules that begin with `/` start here.
    pub project: String,
    /// The home directory; rules that begin with `~/` start here.
    pub home: String,
    /// Whether file names differ by more than case.
    pub ignores_case: bool,
}

/// What a request would do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Runs text in bash.
    Shell {
        /// The text.
        command: String,
    },
    /// Reads a file or lists a folder.
    Read {
        /// Its path, as it was given.
        path: String,
    },
    /// Writes a file.
    Edit {
        /// Its path, as it was given.
        path: String,
    },
    /// Fetches a page.
    Fetch {
        /// Its address, as it was given.
        url: String,
    },
    /// Calls a tool of an MCP server.
    Mcp {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
    },
    /// Anything else: only its name is known.
    Other,
    /// Several things, all of which must be allowed.
    All(Vec<Action>),
    /// Something of which a part was not understood: it asks, unless it is denied.
    Unclear {
        /// What was understood.
        known: Box<Action>,
        /// What was not.
        reason: String,
    },
}

impl Request {
    /// Reads a tool's name and input as agents send them.
    pub fn from_tool(tool: &str, input: Option<&Value>, place: Place) -> Self {
        let _ = input;
        Self {
            tool: tool.to_owned(),
            action: Action::Other,
            place,
        }
    }
}
