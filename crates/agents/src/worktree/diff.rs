//! What an agent changed: everything between the commit its worktree began from and its files now,
//! committed or not.

use countersign_core::event::Worktree;
use countersign_core::limits;
use serde::{Deserialize, Serialize};

use super::WorktreeError;
use super::changes::{FileComparison, WorktreeCheckout, lossy, whole};
use super::git::GitCommand;

/// What changed in a worktree since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorktreeDiff {
    /// The changes as git prints them.
    pub text: String,
    pub files: Vec<DiffFile>,
    /// Whether there is more than `text` and `files` hold.
    pub truncated: bool,
}

/// One changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffFile {
    /// Where it is, relative to the worktree.
    pub path: String,
    /// Where it was, if it was moved.
    pub from: Option<String>,
    pub status: FileStatus,
    pub added: u64,
    pub removed: u64,
    /// Whether it has no lines.
    pub binary: bool,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileStatus {
    Added,
    Modified,
    Deleted,
    Renamed,
    /// It became a link, or something else.
    TypeChanged,
    /// A repository of its own, whose changes are not shown.
    Repository,
}

/// What changed since the worktree was made: committed, uncommitted, and files that git does not
/// know unless they are ignored. With `path`, of one file alone.
pub async fn diff(worktree: &Worktree, path: Option<&str>) -> Result<WorktreeDiff, WorktreeError> {
    let place = WorktreeCheckout::find(worktree).await?;
    let compared = place.compare_with(&worktree.base).await?;
    let list = call(&compared, &worktree.base, &["--raw", "--numstat", "-z"]);
    let list = list.run().await?.succeeded("compare the files")?;
    let mut files = parse(&lossy(whole(&list.bytes, list.cut)));
    files.extend(compared.repositories.iter().cloned().map(repository));
    files.retain(|file| path.is_none_or(|path| file.path == path));
    if path.is_some() && files.is_empty() {
        return Ok(WorktreeDiff::default());
    }
    let text = call(&compared, &worktree.base, &["--patch"]);
    let text = text.args(path.iter().flat_map(|_| &files).flat_map(file_pathspecs));
    let text = text.output_bytes_max(limits::DIFF_BYTES_MAX).run().await?;
    let text = text.succeeded("compare the files")?;
    let truncated =
        compared.cut || list.cut || text.cut || files.len() > limits::WORKTREE_FILES_SHOWN;
    files.truncate(limits::WORKTREE_FILES_SHOWN);
    Ok(WorktreeDiff {
        text: lossy(whole_lines(&text.bytes, text.cut)),
        files,
        truncated,
    })
}

/// Where a file is and was, for a command of git that is about it alone. Its name is no pattern.
fn file_pathspecs(file: &DiffFile) -> Vec<String> {
    let names = [Some(&file.path), file.from.as_ref()].into_iter().flatten();
    names.cloned().collect()
}

fn call(compared: &FileComparison, base: &str, form: &[&str]) -> GitCommand {
    let call = compared
        .aside
        .git("compare the files")
        .args(["diff"])
        .args(form);
    // Attributes in the tree could choose a driver of the person's own configuration: a program.
    call.args([
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--ignore-submodules=dirty",
    ])
    .args([
        "--submodule=short",
        "--no-relative",
        "--unified=3",
        "--inter-hunk-context=0",
    ])
    .args([
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "--find-renames",
        base,
        "--",
    ])
}

fn whole_lines(bytes: &[u8], cut: bool) -> &[u8] {
    let end = bytes
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    if cut { &bytes[..end] } else { bytes }
}

fn repository(path: String) -> DiffFile {
    DiffFile {
        path,
        from: None,
        status: FileStatus::Repository,
        added: 0,
        removed: 0,
        binary: false,
    }
}

/// Reads `--raw --numstat -z`: first a record per file that says what happened, then one per file
/// with its lines.
fn parse(text: &str) -> Vec<DiffFile> {
    let mut files: Vec<DiffFile> = Vec::new();
    let mut records = text.split('\0').filter(|record| !record.is_empty());
    while let Some(record) = records.next() {
        if let Some(raw) = record.strip_prefix(':') {
            files.extend(raw_file(raw, &mut records));
        } else {
            count_lines(record, &mut records, &mut files);
        }
    }
    files
}

fn raw_file<'a>(raw: &str, rest: &mut impl Iterator<Item = &'a str>) -> Option<DiffFile> {
    let letter = raw.rsplit(' ').next()?.chars().next()?;
    let first = rest.next()?.to_owned();
    let (status, from, path) = match letter {
        'R' | 'C' => (FileStatus::Renamed, Some(first), rest.next()?.to_owned()),
        'A' => (FileStatus::Added, None, first),
        'D' => (FileStatus::Deleted, None, first),
        'T' => (FileStatus::TypeChanged, None, first),
        _ => (FileStatus::Modified, None, first),
    };
    Some(DiffFile {
        path,
        from,
        status,
        added: 0,
        removed: 0,
        binary: false,
    })
}

/// `added TAB removed TAB path`, or an empty path and two records for a file that was moved.
fn count_lines<'a>(record: &str, rest: &mut impl Iterator<Item = &'a str>, files: &mut [DiffFile]) {
    let mut columns = record.splitn(3, '\t');
    let (Some(added), Some(removed), Some(path)) = (columns.next(), columns.next(), columns.next())
    else {
        return;
    };
    let path = if path.is_empty() {
        // The first record is where the file was.
        rest.nth(1).unwrap_or_default()
    } else {
        path
    };
    if let Some(file) = files.iter_mut().find(|file| file.path == path) {
        file.binary = added == "-";
        file.added = added.parse().unwrap_or(0);
        file.removed = removed.parse().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_lists_is_read_with_moves_and_bytes() {
        let text = ":100644 100644 1 0 M\0a b\0:100644 100644 1 0 R090\0old\0new\0:000000 100644 0 0 A\0bin\0\
                    1\t2\ta b\x003\t4\t\0old\0new\0-\t-\tbin\0";
        let file = |path: &str, status, added, removed| DiffFile {
            path: path.into(),
            from: None,
            status,
            added,
            removed,
            binary: false,
        };
        let expected = vec![
            file("a b", FileStatus::Modified, 1, 2),
            DiffFile {
                from: Some("old".into()),
                ..file("new", FileStatus::Renamed, 3, 4)
            },
            DiffFile {
                binary: true,
                ..file("bin", FileStatus::Added, 0, 0)
            },
        ];
        assert_eq!(parse(text), expected);
    }
}
