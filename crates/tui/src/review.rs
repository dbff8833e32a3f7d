//! The changes of an agent, and the comments on them that become one message. Pure.
//!
//! Invariant: a comment belongs to a hunk by its digest, so that one on code that changed since says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use countersign_protocol::{AgentDiff, DiffFileRow, HostDiffHunk, HostDiffLine, HostDiffLineKind};

/// Comments that one review can have.
pub const COMMENTS_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewComment {
    pub path: String,
    pub digest: String,
    /// The line of the hunk, from zero.
    pub line: usize,
    /// Where it was in the file when it was written, for people.
    pub place: String,
    /// The line as it was, with its mark.
    pub quoted: String,
    pub text: String,
}

/// One row of a diff as it is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiffRow<'a> {
    File(&'a DiffFileRow),
    Hunk(&'a HostDiffHunk),
    Line {
        file: &'a DiffFileRow,
        hunk: &'a HostDiffHunk,
        index: usize,
    },
    Comment(&'a ReviewComment),
    /// What is not shown, and why.
    Note(&'static str),
}

/// What a person looks at and has written about one agent's changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Review {
    pub diff: Option<AgentDiff>,
    /// Why there is none.
    pub problem: Option<String>,
    pub comments: Vec<ReviewComment>,
    /// Digests of files as they were when they were marked as viewed, by path.
    viewed: BTreeMap<String, String>,
    /// Hunks that existed when the last review was sent.
    sent: Option<BTreeSet<String>>,
    /// Whether only what came after the last review is shown.
    pub only_new: bool,
}

/// The host's digest of a hunk; its text where there is none.
fn digest_of(hunk: &HostDiffHunk) -> String {
    match &hunk.digest {
        Some(digest) => digest.clone(),
        None => hunk.lines.iter().map(marked).collect::<Vec<_>>().join("\n"),
    }
}

fn file_digest(file: &DiffFileRow) -> String {
    let hunks = file.hunks.iter().flatten().map(digest_of);
    let start = format!("{} {} {}", file.status, file.added, file.removed);
    std::iter::once(start)
        .chain(hunks)
        .collect::<Vec<_>>()
        .join(" ")
}

pub fn mark_of(kind: HostDiffLineKind) -> char {
    match kind {
        HostDiffLineKind::Context => ' ',
        HostDiffLineKind::Added => '+',
        HostDiffLineKind::Removed => '-',
    }
}

fn marked(line: &HostDiffLine) -> String {
    format!("{}{}", mark_of(line.kind), line.text)
}

/// The number of a line in the new text, or in the old one if it goes.
pub fn line_number(hunk: &HostDiffHunk, index: usize) -> usize {
    let is_removed = hunk
        .lines
        .get(index)
        .is_some_and(|line| line.kind == HostDiffLineKind::Removed);
    let (start, other) = if is_removed {
        (hunk.old_start, HostDiffLineKind::Added)
    } else {
        (hunk.new_start, HostDiffLineKind::Removed)
    };
    start
        + hunk
            .lines
            .iter()
            .take(index)
            .filter(|line| line.kind != other)
            .count()
}

impl Review {
    pub fn files(&self) -> &[DiffFileRow] {
        self.diff.as_ref().map_or(&[], |diff| &diff.files)
    }

    pub fn is_viewed(&self, file: &DiffFileRow) -> bool {
        self.viewed.get(&file.path) == Some(&file_digest(file))
    }

    /// Marks a file as viewed, or takes that back. A change of the file takes it back as well.
    pub fn toggle_viewed(&mut self, path: &str) {
        let Some(file) = self.files().iter().find(|file| file.path == path) else {
            return;
        };
        let digest = file_digest(file);
        if self.is_viewed(&file.clone()) {
            self.viewed.remove(path);
        } else {
            self.viewed.insert(path.to_owned(), digest);
        }
    }

    /// Whether a review was sent, so that there is something to compare with.
    pub fn was_sent(&self) -> bool {
        self.sent.is_some()
    }

    fn shows(&self, hunk: &HostDiffHunk) -> bool {
        let reviewed = self.sent.as_ref().filter(|_| self.only_new);
        reviewed.is_none_or(|digests| !digests.contains(&digest_of(hunk)))
    }

    /// All rows in the order in which they are drawn. The lines of files that were viewed are folded.
    pub fn rows(&self) -> Vec<DiffRow<'_>> {
        let mut rows = Vec::new();
        for file in self.files() {
            rows.push(DiffRow::File(file));
            if self.is_viewed(file) {
                continue;
            }
            match &file.hunks {
                _ if file.binary => rows.push(DiffRow::Note("not text")),
                None => rows.push(DiffRow::Note(
                    "too large to be shown here: `countersign diff` prints it",
                )),
                Some(hunks) => {
                    for hunk in hunks.iter().filter(|hunk| self.shows(hunk)) {
                        self.push_hunk(file, hunk, &mut rows);
                    }
                }
            }
        }
        for comment in self.outdated_comments() {
            rows.push(DiffRow::Note("the code of this comment changed since:"));
            rows.push(DiffRow::Comment(comment));
        }
        rows
    }

    fn push_hunk<'a>(
        &'a self,
        file: &'a DiffFileRow,
        hunk: &'a HostDiffHunk,
        rows: &mut Vec<DiffRow<'a>>,
    ) {
        rows.push(DiffRow::Hunk(hunk));
        let digest = digest_of(hunk);
        for index in 0..hunk.lines.len() {
            rows.push(DiffRow::Line { file, hunk, index });
            let here = self.comments.iter().filter(|comment| {
                comment.path == file.path && comment.digest == digest && comment.line == index
            });
            rows.extend(here.map(DiffRow::Comment));
        }
    }

    /// Comments on code that changed since they were written, or is no longer changed at all.
    fn outdated_comments(&self) -> Vec<&ReviewComment> {
        let known: BTreeSet<(String, String)> = self
            .files()
            .iter()
            .flat_map(|file| {
                file.hunks
                    .iter()
                    .flatten()
                    .map(|hunk| (file.path.clone(), digest_of(hunk)))
            })
            .collect();
        let comments = self.comments.iter();
        comments
            .filter(|comment| !known.contains(&(comment.path.clone(), comment.digest.clone())))
            .collect()
    }

    /// The comment that a row would get: where, and what it is about.
    pub fn comment_at(&self, row: usize, text: &str) -> Option<ReviewComment> {
        let rows = self.rows();
        let DiffRow::Line { file, hunk, index } = rows.get(row)? else {
            return None;
        };
        let line = hunk.lines.get(*index)?;
        let word = if line.kind == HostDiffLineKind::Removed {
            "removed line"
        } else {
            "line"
        };
        Some(ReviewComment {
            path: file.path.clone(),
            digest: digest_of(hunk),
            line: *index,
            place: format!("{word} {}", line_number(hunk, *index)),
            quoted: marked(line),
            text: text.to_owned(),
        })
    }

    pub fn add_comment(&mut self, comment: ReviewComment) {
        if self.comments.len() < COMMENTS_MAX {
            self.comments.push(comment);
        }
    }

    /// Removes the comment in a row, or below the line in it.
    pub fn remove_comment(&mut self, row: usize) -> bool {
        let rows = self.rows();
        let found = [row, row + 1]
            .into_iter()
            .find_map(|row| match rows.get(row) {
                Some(DiffRow::Comment(comment)) => Some((*comment).clone()),
                _ => None,
            });
        let Some(found) = found else { return false };
        let index = self.comments.iter().position(|comment| *comment == found);
        index.map(|index| self.comments.remove(index)).is_some()
    }

    /// All comments as one message to the agent.
    pub fn message(&self) -> String {
        let count = match self.comments.len() {
            1 => "1 comment".to_owned(),
            count => format!("{count} comments"),
        };
        let mut text = format!("Review of your changes, {count}.");
        for comment in &self.comments {
            let ReviewComment {
                path,
                place,
                quoted,
                text: said,
                ..
            } = comment;
            let _ = write!(text, "\n\n{path}, {place}:\n> {quoted}\n\n{}", said.trim());
        }
        text
    }

    /// The comments are gone, and what is there now counts as reviewed.
    pub fn mark_sent(&mut self) {
        self.comments.clear();
        let hunks = self
            .files()
            .iter()
            .flat_map(|file| file.hunks.iter().flatten());
        self.sent = Some(hunks.map(digest_of).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(second: &str) -> AgentDiff {
        serde_json::from_value(serde_json::json!({
            "text": "", "truncated": false,
            "files": [
                { "path": "src/a.rs", "status": "modified", "added": 1, "removed": 1, "hunks": [
                    { "digest": "d1", "old_start": 40, "new_start": 40, "lines": [
                        { "kind": "context", "text": "let rest = text;" },
                        { "kind": "removed", "text": "old" },
                        { "kind": "added", "text": "new" },
                    ] },
                    { "digest": second, "old_start": 90, "new_start": 90, "lines": [
                        { "kind": "added", "text": "more" },
                    ] },
                ] },
                { "path": "b.bin", "status": "added", "added": 0, "removed": 0, "binary": true },
            ],
        }))
        .unwrap()
    }

    fn review() -> Review {
        Review {
            diff: Some(diff("d2")),
            ..Review::default()
        }
    }

    #[test]
    fn comments_stand_at_their_lines_and_become_one_message() {
        let mut review = review();
        let comment = review.comment_at(3, "handle \\r\\n as well").unwrap();
        assert_eq!(
            (comment.place.as_str(), comment.quoted.as_str()),
            ("removed line 41", "-old")
        );
        review.add_comment(comment);
        assert_eq!(review.comment_at(0, "x"), None);
        assert!(matches!(review.rows()[4], DiffRow::Comment(_)));
        assert_eq!(
            review.message(),
            "Review of your changes, 1 comment.\n\nsrc/a.rs, removed line 41:\n> -old\n\nhandle \\r\\n as well"
        );
        assert!(review.remove_comment(3));
        assert!(!review.remove_comment(3));
    }

    #[test]
    fn a_comment_on_code_that_changed_says_so() {
        let mut review = review();
        let row = review.rows().len() - 3;
        review.add_comment(review.comment_at(row, "why?").unwrap());
        review.diff = Some(diff("d3"));
        let rows = review.rows();
        assert_eq!(
            rows[rows.len() - 2],
            DiffRow::Note("the code of this comment changed since:")
        );
    }

    #[test]
    fn what_was_viewed_is_folded_until_it_changes() {
        let mut review = review();
        let all = review.rows().len();
        review.toggle_viewed("src/a.rs");
        assert_eq!(review.rows().len(), 3);
        review.diff = Some(diff("d3"));
        assert_eq!(review.rows().len(), all);
    }

    #[test]
    fn after_a_review_only_what_came_later_is_shown() {
        let mut review = review();
        review.mark_sent();
        review.only_new = true;
        review.diff = Some(diff("d9"));
        let hunks = review
            .rows()
            .iter()
            .filter(|row| matches!(row, DiffRow::Hunk(_)))
            .count();
        assert_eq!(hunks, 1);
    }

    #[test]
    fn lines_are_numbered_as_in_the_files() {
        let diff = diff("d2");
        let hunk = &diff.files[0].hunks.as_ref().unwrap()[0];
        let numbers: Vec<usize> = (0..3).map(|index| line_number(hunk, index)).collect();
        assert_eq!(numbers, [40, 41, 41]);
    }
}
