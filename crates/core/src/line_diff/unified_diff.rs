//! Unified diffs, as git prints them, taken apart.

use sha2::{Digest as _, Sha256};

use super::{DiffBudget, DiffHunk, DiffLine, DiffLineKind, segments, show_line};
use crate::json::hex;
use crate::visible::{TextLayout, visible};

/// The hunks of each file of a diff, in its order. A file without lines, such as one that was only
/// moved, has none.
pub fn parse_unified_diff(text: &str) -> Vec<FilePatch<'_>> {
    let mut files: Vec<FilePatch<'_>> = Vec::new();
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        if line.starts_with("diff --git ") {
            files.push(FilePatch::default());
        } else if let (Some(start), Some(file)) = (HunkStart::parse(line), files.last_mut()) {
            file.hunks.push(PatchHunk::take(start, &mut lines));
        }
    }
    files
}

/// What a diff says of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FilePatch<'a> {
    pub hunks: Vec<PatchHunk<'a>>,
}

impl FilePatch<'_> {
    pub fn line_count(&self) -> usize {
        self.hunks.iter().map(|hunk| hunk.lines.len()).sum()
    }
}

/// One hunk as it stands in a diff.
#[derive(Debug, PartialEq, Eq)]
pub struct PatchHunk<'a> {
    start: HunkStart<'a>,
    /// Without their marks.
    lines: Vec<(DiffLineKind, &'a str)>,
}

#[derive(Debug, PartialEq, Eq)]
struct HunkStart<'a> {
    old_start: usize,
    old_lines: usize,
    new_start: usize,
    new_lines: usize,
    /// What git found above the hunk, such as the name of a function.
    header: &'a str,
}

impl<'a> HunkStart<'a> {
    /// `@@ -1,2 +3,4 @@ header`
    fn parse(line: &'a str) -> Option<Self> {
        let (ranges, header) = line.strip_prefix("@@ -")?.split_once(" @@")?;
        let (old, new) = ranges.split_once(" +")?;
        let (old_start, old_lines) = parse_range(old)?;
        let (new_start, new_lines) = parse_range(new)?;
        Some(Self {
            old_start,
            old_lines,
            new_start,
            new_lines,
            header: header.trim(),
        })
    }
}

/// `3,4`, or `3` for one line.
fn parse_range(text: &str) -> Option<(usize, usize)> {
    match text.split_once(',') {
        Some((start, lines)) => Some((start.parse().ok()?, lines.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

impl<'a> PatchHunk<'a> {
    /// Takes as many lines as the hunk's start says, so that no line of a file is taken for a start.
    fn take(start: HunkStart<'a>, rest: &mut impl Iterator<Item = &'a str>) -> Self {
        let (mut old_left, mut new_left) = (start.old_lines, start.new_lines);
        let mut lines = Vec::new();
        while old_left > 0 || new_left > 0 {
            let Some(line) = rest.next() else { break };
            let kind = match line.as_bytes().first() {
                Some(b'+') => DiffLineKind::Added,
                Some(b'-') => DiffLineKind::Removed,
                Some(b' ') => DiffLineKind::Context,
                // `\ No newline at end of file`
                _ => continue,
            };
            old_left = old_left.saturating_sub(usize::from(kind != DiffLineKind::Added));
            new_left = new_left.saturating_sub(usize::from(kind != DiffLineKind::Removed));
            lines.push((kind, line[1..].strip_suffix('\n').unwrap_or(&line[1..])));
        }
        Self { start, lines }
    }

    /// The hunk for people, with what changed within its lines.
    pub fn show(&self, budget: &mut DiffBudget) -> DiffHunk {
        let lines = self.lines.iter().map(|&(kind, text)| DiffLine {
            kind,
            text: show_line(text),
            segments: Vec::new(),
        });
        let mut lines: Vec<DiffLine> = lines.collect();
        mark_changes(&mut lines, budget);
        let header = visible(self.start.header, TextLayout::Line).into_owned();
        DiffHunk {
            old_start: self.start.old_start,
            new_start: self.start.new_start,
            header: Some(header).filter(|header| !header.is_empty()),
            digest: Some(self.digest()),
            lines,
        }
    }

    /// SHA-256 of the lines with their marks, wherever they stand, in hexadecimal.
    fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for (kind, text) in &self.lines {
            digest.update([kind.mark() as u8]);
            digest.update(text.as_bytes());
            digest.update(b"\n");
        }
        hex(&digest.finalize())
    }
}

/// Compares the lines that go with those that come directly after them.
fn mark_changes(lines: &mut [DiffLine], budget: &mut DiffBudget) {
    let mut at = 0;
    while at < lines.len() {
        let removed = run_length(&lines[at..], DiffLineKind::Removed);
        let added = run_length(&lines[at + removed..], DiffLineKind::Added);
        let (before, after) = lines[at..at + removed + added].split_at_mut(removed);
        for (before, after) in before.iter_mut().zip(after) {
            segments::mark_changes(before, after, &mut budget.words);
        }
        at += (removed + added).max(1);
    }
}

fn run_length(lines: &[DiffLine], kind: DiffLineKind) -> usize {
    lines.iter().take_while(|line| line.kind == kind).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-let x = 1;\n\
        +let x = 2;\n c\n@@ -10 +10,2 @@ fn main() {\n-@@ -1,1 +1,1 @@\n+diff --git a/x b/x\n+\tb\\n\n\
        \\ No newline at end of file\ndiff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n\
        diff --git a/bin b/bin\nBinary files a/bin and b/bin differ\n\
        diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+one\n";

    fn shown(file: &FilePatch<'_>) -> Vec<String> {
        let mut budget = DiffBudget::default();
        let hunks = file.hunks.iter().map(|hunk| {
            let hunk = hunk.show(&mut budget);
            let lines = hunk.lines.iter();
            let lines: Vec<String> = lines
                .map(|line| format!("{}{}", line.kind.mark(), line.text))
                .collect();
            let header = hunk.header.unwrap_or_default();
            format!(
                "{},{} {header}|{}",
                hunk.old_start,
                hunk.new_start,
                lines.join("|")
            )
        });
        hunks.collect()
    }

    #[test]
    fn what_git_prints_is_taken_apart_and_no_line_of_a_file_is_taken_for_more() {
        let files = parse_unified_diff(DIFF);
        let files: Vec<Vec<String>> = files.iter().map(shown).collect();
        assert_eq!(
            files,
            [
                vec![
                    "1,1 | a|-let x = 1;|+let x = 2;| c",
                    r"10,10 fn main() {|-@@ -1,1 +1,1 @@|+diff --git a/x b/x|+\tb\\n",
                ],
                vec![],
                vec![],
                vec!["0,1 |+one"],
            ]
        );
    }

    #[test]
    fn hunks_have_a_digest_of_their_own_text_and_marks_within_lines() {
        let files = parse_unified_diff(DIFF);
        let hunk = files[0].hunks[0].show(&mut DiffBudget::default());
        let changed: Vec<bool> = hunk.lines[1].segments.iter().map(|s| s.changed).collect();
        assert_eq!(changed, [false, true, false]);
        let moved = DIFF.replace("@@ -1,3 +1,3 @@", "@@ -5,3 +6,3 @@");
        let moved = parse_unified_diff(&moved)[0].hunks[0].show(&mut DiffBudget::default());
        assert_eq!((moved.old_start, moved.digest), (5, hunk.digest.clone()));
        let other = DIFF.replace("let x = 2;", "let x = 3;");
        let other = parse_unified_diff(&other)[0].hunks[0].show(&mut DiffBudget::default());
        assert_ne!(other.digest, hunk.digest);
    }

    #[test]
    fn a_diff_that_was_cut_short_gives_what_there_is() {
        let cut = &DIFF[..DIFF.find("+let").unwrap()];
        let files: Vec<_> = parse_unified_diff(cut).iter().map(shown).collect();
        assert_eq!(files, [["1,1 | a|-let x = 1;"]]);
        assert_eq!(parse_unified_diff("@@ -1 +1 @@\n-a\n+b\n"), []);
    }
}
