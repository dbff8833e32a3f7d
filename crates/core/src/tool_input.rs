//! The names under which agents pass a tool's command, folder and file.
//!
//! Invariant: what is shown and bound to an approval and what the rules judge read these same
//! names. With a second table, a field that only one side knows would be a way around the rules.

use serde_json::{Map, Value};

/// Names of the field with the command that a tool runs.
pub const COMMAND_FIELDS: [&str; 4] = ["command", "cmd", "script", "commandLine"];

/// Names of the field with the folder that a tool runs in.
pub const DIRECTORY_FIELDS: [&str; 5] = [
    "cwd",
    "workdir",
    "working_directory",
    "workingDirectory",
    "dir",
];

/// Names of the field with the file that a tool reads or writes.
pub const PATH_FIELDS: [&str; 8] = [
    "file_path",
    "path",
    "notebook_path",
    "filePath",
    "filename",
    "file",
    "absolute_path",
    "target_file",
];

/// Names of fields that say what a tool is used on, if it has neither a command nor a file.
const OTHER_SUBJECT_FIELDS: [&str; 4] = ["url", "query", "pattern", "description"];

/// What a tool is used on, for the line that names an ask.
pub fn find_subject(input: &Map<String, Value>) -> Option<&str> {
    COMMAND_FIELDS
        .iter()
        .chain(&PATH_FIELDS)
        .chain(&OTHER_SUBJECT_FIELDS)
        .find_map(|name| input.get(*name)?.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_has_two_meanings() {
        let all = [&COMMAND_FIELDS[..], &DIRECTORY_FIELDS[..], &PATH_FIELDS[..]].concat();
        let distinct: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
