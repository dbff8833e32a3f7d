//! The tree of files of an agent, listed folder by folder.

use std::collections::{BTreeMap, BTreeSet};

use countersign_protocol::{ListedFileKind, ListedFileRow, ListedFiles};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileTree {
    /// The agent's folder, absolute, once it was listed.
    pub folder: Option<String>,
    /// By their paths; the agent's folder is the empty one.
    pub folders: BTreeMap<String, ListedFolder>,
    pub expanded: BTreeSet<String>,
    /// The path of the selected row.
    pub cursor: String,
    pub problem: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedFolder {
    pub entries: Vec<ListedFileRow>,
    pub is_cut: bool,
}

/// One row of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeRow<'t> {
    pub path: String,
    pub depth: usize,
    /// Nothing for the row which says that more is not listed.
    pub entry: Option<&'t ListedFileRow>,
    pub is_expanded: bool,
}

/// A path below a folder.
pub fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

impl FileTree {
    pub fn replace_folder(&mut self, listed: ListedFiles) {
        self.problem = None;
        self.folder = Some(listed.folder);
        let folder = ListedFolder {
            entries: listed.entries,
            is_cut: listed.more,
        };
        self.folders.insert(listed.path, folder);
    }

    /// The rows that are shown: with a filter those whose path has it, of what was listed.
    pub fn rows(&self, filter: &str) -> Vec<TreeRow<'_>> {
        let mut rows = Vec::new();
        let filter = filter.to_lowercase();
        self.push_rows("", 0, &filter, &mut rows);
        rows
    }

    fn push_rows<'t>(
        &'t self,
        folder: &str,
        depth: usize,
        filter: &str,
        rows: &mut Vec<TreeRow<'t>>,
    ) {
        let Some(listed) = self.folders.get(folder) else {
            return;
        };
        for entry in &listed.entries {
            let path = join_path(folder, &entry.name);
            let is_expanded = entry.kind == ListedFileKind::Folder && self.expanded.contains(&path);
            if filter.is_empty() || path.to_lowercase().contains(filter) {
                rows.push(TreeRow {
                    path: path.clone(),
                    depth,
                    entry: Some(entry),
                    is_expanded,
                });
            }
            if is_expanded {
                self.push_rows(&path, depth + 1, filter, rows);
            }
        }
        if listed.is_cut && filter.is_empty() {
            rows.push(TreeRow {
                path: join_path(folder, "…"),
                depth,
                entry: None,
                is_expanded: false,
            });
        }
    }

    /// The selected row: the first, if what was selected is not listed any more.
    pub fn selected_index(&self, filter: &str) -> usize {
        let rows = self.rows(filter);
        let found = rows.iter().position(|row| row.path == self.cursor);
        found.unwrap_or(0)
    }

    pub fn move_cursor(&mut self, filter: &str, steps: isize) {
        let index = self.selected_index(filter);
        let rows = self.rows(filter);
        let index = index
            .saturating_add_signed(steps)
            .min(rows.len().saturating_sub(1));
        let path = rows.get(index).map(|row| row.path.clone());
        self.cursor = path.unwrap_or_default();
    }

    /// Folders that are shown and were not listed yet.
    pub fn missing(&self) -> Vec<String> {
        let root = std::iter::once(String::new());
        let wanted = root.chain(self.expanded.iter().cloned());
        wanted
            .filter(|path| !self.folders.contains_key(path))
            .collect()
    }
}
