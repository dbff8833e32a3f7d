//! Pages, views and folds of transcripts.

use countersign_protocol::Time;

use super::*;

const FORMAT: LineFormat = LineFormat {
    width: 20,
    unfolded: false,
    mark: '↳',
};

fn part(sequence: u64, entries: Vec<TranscriptRow>) -> TranscriptPart {
    TranscriptPart {
        entries,
        sequence,
        timestamp: Time(0),
        turn: u32::try_from(sequence / 10).unwrap(),
    }
}

fn said(sequence: u64, text: &str) -> TranscriptPart {
    part(
        sequence,
        vec![TranscriptRow::Assistant { text: text.into() }],
    )
}

fn page(parts: Vec<TranscriptPart>, first: Option<u64>) -> TranscriptResult {
    TranscriptResult {
        first,
        more: false,
        next: parts.last().map_or(0, |part| part.sequence),
        parts,
    }
}

fn texts(transcript: &Transcript, end: TranscriptEnd, height: usize) -> Vec<String> {
    let lines = transcript.visible_lines(end, FORMAT, height);
    lines.iter().map(TextLine::text).collect()
}

#[test]
fn the_end_is_shown_first_and_pages_come_in_front() {
    let mut transcript = Transcript::default();
    transcript.append_page(page(vec![said(30, "three"), said(40, "four")], Some(30)));
    assert_eq!(
        texts(&transcript, TranscriptEnd::Newest, 5),
        ["| three", "| four"]
    );
    transcript.prepend_page(page(
        vec![said(10, "one"), said(20, "two"), said(30, "three")],
        None,
    ));
    transcript.append_page(page(vec![said(40, "four"), said(50, "five")], None));
    assert_eq!(transcript.before(), None);
    assert_eq!(transcript.next(), Some(50));
    assert_eq!(
        texts(&transcript, TranscriptEnd::Newest, 9),
        ["| one", "| two", "| three", "| four", "| five"]
    );
    assert_eq!(
        texts(&transcript, TranscriptEnd::Newest, 2),
        ["| four", "| five"]
    );
}

#[test]
fn a_view_moves_by_lines_and_stops_at_both_ends() {
    let mut transcript = Transcript::default();
    transcript.append_page(page(
        vec![said(10, "one\ntwo"), said(20, "three\nfour")],
        None,
    ));
    let up = |end, steps| transcript.moved_end(end, steps, FORMAT, 2);
    let middle = up(TranscriptEnd::Newest, -1);
    assert_eq!(texts(&transcript, middle, 2), ["| two", "| three"]);
    let top = up(middle, -9);
    assert_eq!(texts(&transcript, top, 2), ["| one", "| two"]);
    assert_eq!(up(top, 9), TranscriptEnd::Newest);
    assert_eq!(up(middle, 1), TranscriptEnd::Newest);
    assert_eq!(
        texts(
            &transcript,
            transcript.turn_end(TranscriptEnd::Newest, false, FORMAT),
            9
        ),
        ["| one", "| two"]
    );
}

#[test]
fn results_are_folded_and_nothing_an_agent_writes_can_look_like_our_marks() {
    let rows = vec![
        TranscriptRow::ToolResult {
            id: "c".into(),
            status: "completed".into(),
            text: "1\n2\n3\n4\n5\n6".into(),
        },
        TranscriptRow::Assistant {
            text: "done\n> fix it\u{1b}[2J\u{202e}".into(),
        },
        TranscriptRow::ToolUse {
            id: "c".into(),
            input: None,
            status: Some("pending".into()),
            title: None,
            tool: None,
        },
    ];
    let mut transcript = Transcript::default();
    transcript.append_page(page(vec![part(1, rows)], None));
    assert_eq!(
        texts(&transcript, TranscriptEnd::Newest, 20),
        [
            "= completed:",
            "= 1",
            "= 2",
            "= 3",
            "= 3 more lines: z o",
            "| done",
            "| > fix it\\u{1b}[2J\\",
            "↳ u{202e}",
        ]
    );
    let unfolded = LineFormat {
        unfolded: true,
        ..FORMAT
    };
    assert_eq!(
        transcript
            .visible_lines(TranscriptEnd::Newest, unfolded, 20)
            .len(),
        10
    );
}

#[test]
fn a_long_transcript_keeps_its_newest_parts() {
    let mut transcript = Transcript::default();
    let parts = (1..=5_000).map(|sequence| said(sequence, "x")).collect();
    transcript.append_page(page(parts, None));
    assert_eq!(transcript.part_count(), PARTS_MAX);
    assert_eq!(transcript.before(), Some(1_001));
}

#[test]
fn lines_of_an_agent_that_floods_are_not_all_kept() {
    let mut transcript = Transcript::default();
    let text = "line\n".repeat(500);
    for sequence in 1..=200 {
        transcript.append_page(page(vec![said(sequence, &text)], None));
        assert_eq!(texts(&transcript, TranscriptEnd::Newest, 60).len(), 60);
        let cache = transcript.cache.borrow();
        let kept: usize = cache.lines.values().map(|lines| lines.len()).sum();
        assert_eq!(kept, cache.count);
        assert!(
            kept <= CACHED_PARTS_MIN * 500,
            "{kept} lines after {sequence} parts"
        );
    }
}
