//! Searching transcripts: what every backend must do, and what is left in a file afterwards.

use countersign_core::event::{
    AgentPlan, PlanStep, SearchedKind, ToolStatus, TranscriptAdded, TranscriptEntry,
};
use countersign_core::{AgentId, ExcerptPiece, Seq, WordQuery};
use countersign_store::{SearchHit, SearchPage, SearchQuery};

use crate::file::Host;
use crate::fixture::{Script, ask, at, json, notified};

/// Text that is indexed at once, and some more.
const STEP: usize = 80 * 1024;

pub(crate) fn part(agent: &str, turn: u32, entries: Vec<TranscriptEntry>) -> TranscriptAdded {
    TranscriptAdded {
        agent: AgentId::new(agent),
        turn,
        entries,
    }
}

pub(crate) fn said(text: &str) -> TranscriptEntry {
    TranscriptEntry::Assistant {
        text: text.to_owned(),
    }
}

fn told(text: &str) -> TranscriptEntry {
    TranscriptEntry::User {
        text: text.to_owned(),
        from: None,
    }
}

pub(crate) fn query(text: &str) -> SearchQuery {
    SearchQuery {
        words: WordQuery::parse(text).unwrap(),
        agents: None,
        before: None,
        limit: 100,
    }
}

fn page(script: &Script, query: &SearchQuery) -> SearchPage {
    script.history.search(query).unwrap()
}

/// Hits as event, entry and excerpt, with what was looked for in brackets.
fn found(script: &Script, query: &SearchQuery) -> Vec<(u64, usize, String)> {
    let hits = page(script, query).hits.into_iter();
    hits.map(|hit| (hit.seq.0, hit.entry, shown(&hit.excerpt)))
        .collect()
}

fn shown(excerpt: &[ExcerptPiece]) -> String {
    let pieces = excerpt.iter().map(|piece| {
        if piece.is_hit {
            format!("[{}]", piece.text)
        } else {
            piece.text.clone()
        }
    });
    pieces.collect()
}

fn seqs(script: &Script, text: &str) -> Vec<u64> {
    let hits = page(script, &query(text)).hits.into_iter();
    hits.map(|hit| hit.seq.0).collect()
}

/// Words of which no test looks for one, enough of them to be indexed.
fn filler() -> TranscriptAdded {
    part("filler", 1, vec![said(&"lorem ipsum ".repeat(STEP / 12))])
}

pub(crate) fn transcripts_are_searched_newest_first(mut script: Script) {
    assert_eq!(page(&script, &query("parser")), SearchPage::default());
    script.tell(part("a", 1, vec![told("Fix the parser.")]));
    script.tell(notified(Some("a"), "the parser"));
    let tool = TranscriptEntry::ToolUse {
        id: "c1".to_owned(),
        title: Some("Run the tests".to_owned()),
        tool: Some("Bash".to_owned()),
        input: Some(json(r#"{"command":"cargo test parser"}"#)),
        status: Some(ToolStatus::Pending),
    };
    let result = TranscriptEntry::ToolResult {
        id: "c1".to_owned(),
        status: ToolStatus::Completed,
        text: "parser".to_owned(),
    };
    let plan = TranscriptEntry::Plan {
        plan: AgentPlan {
            steps: vec![PlanStep {
                text: "parser first".to_owned(),
                status: "pending".to_owned(),
            }],
        },
    };
    script.tell(part("a", 1, vec![said("PARSER,\n fix!"), tool, result]));
    script.tell(part("b", 4, vec![plan]));
    let hit = |seq: u64, agent: &str, turn, entry, kind, pieces: &[(&str, bool)]| SearchHit {
        seq: Seq(seq),
        at: at(Seq(seq)),
        agent: AgentId::new(agent),
        turn,
        entry,
        kind,
        excerpt: pieces
            .iter()
            .map(|(text, is_hit)| ExcerptPiece {
                text: (*text).to_owned(),
                is_hit: *is_hit,
            })
            .collect(),
    };
    let expected = SearchPage {
        hits: vec![
            hit(
                4,
                "b",
                4,
                0,
                SearchedKind::Plan,
                &[("parser", true), (" first", false)],
            ),
            hit(
                3,
                "a",
                1,
                1,
                SearchedKind::ToolUse,
                &[
                    ("Bash: Run the tests: cargo test ", false),
                    ("parser", true),
                ],
            ),
            hit(
                3,
                "a",
                1,
                0,
                SearchedKind::Assistant,
                &[("PARSER", true), (", fix!", false)],
            ),
            hit(
                1,
                "a",
                1,
                0,
                SearchedKind::User,
                &[("Fix the ", false), ("parser", true), (".", false)],
            ),
        ],
        next: None,
    };
    assert_eq!(page(&script, &query("parser")), expected);
}

/// The same words in what is indexed, and in what is not yet.
pub(crate) fn all_words_are_found_in_old_and_new_parts(mut script: Script) {
    let texts = [
        "Größe der Datei",
        "the file's size (in bytes)",
        "日本語の文書",
        "src/size.rs NEAR \"file\" AND size OR NOT*",
    ];
    for text in texts {
        script.tell(part("a", 1, vec![said(text)]));
    }
    script.tell(filler());
    for text in texts {
        script.tell(part("b", 2, vec![said(text)]));
    }
    let both = |one: &[u64]| -> Vec<u64> {
        let newer = one.iter().map(|seq| seq + 5);
        newer.chain(one.iter().copied()).collect()
    };
    let cases: [(&str, Vec<u64>); 12] = [
        ("grosse", vec![]),
        ("GRÖSSE", vec![]),
        ("grö", both(&[1])),
        ("file size", both(&[4, 2])),
        ("siz", both(&[4, 2])),
        ("siz file", vec![]),
        ("size.rs", both(&[4])),
        ("rs.size", vec![]),
        ("本語", both(&[3])),
        ("NEAR(file size)", both(&[4])),
        ("\" OR \"", both(&[4])),
        ("missing", vec![]),
    ];
    for (text, expected) in cases {
        assert_eq!(seqs(&script, text), expected, "{text}");
    }
    let only = |agents: &[&str]| SearchQuery {
        agents: Some(agents.iter().map(|agent| AgentId::new(*agent)).collect()),
        ..query("datei")
    };
    let hit = "Größe der [Datei]".to_owned();
    assert_eq!(found(&script, &only(&["a"])), [(1, 0, hit.clone())]);
    assert_eq!(
        found(&script, &only(&["b", "nobody"])),
        [(6, 0, hit.clone())]
    );
    assert_eq!(
        found(&script, &only(&["a", "b"])),
        [(6, 0, hit.clone()), (1, 0, hit)]
    );
    assert_eq!(found(&script, &only(&["nobody"])), []);
    assert_eq!(found(&script, &only(&[])), []);
    let many: Vec<String> = (0..100).map(|n| format!("agent-{n}")).collect();
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    many.push("b");
    assert_eq!(found(&script, &only(&many)).len(), 1);
}

pub(crate) fn hits_are_paged(mut script: Script) {
    for n in 0..6 {
        let entries = (0..=n % 3).map(|m| said(&format!("word {n} {m}")));
        script.tell(part("a", 1, entries.collect()));
        if n == 3 {
            script.tell(filler());
        }
    }
    let all = found(&script, &query("word"));
    assert_eq!(all.len(), 12);
    for limit in 3..14 {
        let (mut paged, mut before) = (Vec::new(), None);
        loop {
            let query = SearchQuery {
                before,
                limit,
                ..query("word")
            };
            let page = page(&script, &query);
            assert!(page.hits.len() <= limit);
            paged.extend(found(&script, &query));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(paged, all, "{limit}");
    }
    let far = SearchQuery {
        before: Some(Seq(u64::MAX)),
        ..query("word")
    };
    assert_eq!(found(&script, &far), all);
    let none = SearchQuery {
        before: Some(Seq(0)),
        ..query("word")
    };
    assert_eq!(page(&script, &none), SearchPage::default());
}

/// A word in more text than one page may read.
pub(crate) fn a_page_of_long_parts_ends_early(mut script: Script) {
    let long = said(&"long ".repeat(64 * 1024));
    for _ in 0..20 {
        script.tell(part("a", 1, vec![long.clone()]));
    }
    let (mut paged, mut before, mut pages) = (Vec::new(), None, 0);
    loop {
        let query = SearchQuery {
            before,
            ..query("long")
        };
        let page = page(&script, &query);
        paged.extend(page.hits.into_iter().map(|hit| hit.seq.0));
        pages += 1;
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(paged, (1..=20).rev().collect::<Vec<_>>());
    assert_eq!(pages, 2);
}

pub(crate) fn erased_text_is_not_found(mut script: Script) {
    script.tell(part("a", 1, vec![said("first secret")]));
    script.tell(part("a", 1, vec![said("second secret")]));
    script.tell(filler());
    script.tell(part("a", 1, vec![said("third secret")]));
    script.tell(part("a", 1, vec![said("fourth secret")]));
    assert_eq!(seqs(&script, "secret"), [5, 4, 2, 1]);
    script.redact(1).unwrap();
    script.redact(5).unwrap();
    script.redact(1).unwrap();
    assert_eq!(seqs(&script, "secret"), [4, 2]);
    assert_eq!(seqs(&script, "first"), [0; 0]);
    script.tell(filler());
    assert_eq!(seqs(&script, "secret"), [4, 2]);
    script.prune(4).unwrap();
    assert_eq!(seqs(&script, "secret"), [4]);
    // What stays is indexed again.
    script.tell(filler());
    script.tell(part("a", 2, vec![said("fifth secret")]));
    assert_eq!(seqs(&script, "secret"), [12, 4]);
    script.redact(4).unwrap();
    assert_eq!(seqs(&script, "secret"), [12]);
}

/// An index of the file, as another program reads it.
fn indexed_until(host: &Host) -> u64 {
    host.query("SELECT value FROM meta WHERE key = 'words_until'")
}

fn entries_of(host: &Host) -> u64 {
    host.query(
        "SELECT count(*) FROM transcript_words WHERE transcript_words MATCH 'lorem OR little'",
    )
}

#[test]
fn text_is_indexed_with_transcripts_alone() {
    let host = Host::new();
    let mut script = host.script();
    script.tell(part("a", 1, vec![said("little")]));
    assert_eq!((indexed_until(&host), entries_of(&host)), (0, 0));
    script.tell(filler());
    assert_eq!((indexed_until(&host), entries_of(&host)), (2, 2));
    script.tell(part("a", 1, vec![said("little")]));
    for n in 0..1_100 {
        script.settle(ask(&format!("approval-{n}"), Some("a")));
    }
    assert_eq!((indexed_until(&host), entries_of(&host)), (2, 2));
    assert_eq!(seqs(&script, "little"), [3, 1]);
    drop(script);
    // A host that starts indexes what it found with the first transcript.
    let (log, history) = countersign_store::open(&host.path).unwrap();
    let mut script = Script {
        head: Seq(2_203),
        ..Script::new(Box::new(log), history)
    };
    script.tell(part("a", 1, vec![said("little")]));
    assert_eq!((indexed_until(&host), entries_of(&host)), (2_204, 4));
    assert_eq!(seqs(&script, "little"), [2_204, 3, 1]);
}

#[test]
fn erased_words_leave_the_index() {
    let host = Host::new();
    let mut script = host.script();
    // In upper case, which only payloads have. Enough for the index to merge its parts, which moves words about.
    for n in 0..40 {
        let text = format!("word{n} XYLOPHONE{n} {}", "LOREM IPSUM ".repeat(1_000));
        script.tell(part("a", 1, vec![said(&text)]));
    }
    script.tell(filler());
    assert!(indexed_until(&host) >= 20);
    for seq in 1..=10 {
        script.redact(seq).unwrap();
    }
    let is_left = |word: &[u8]| {
        let bytes = host.bytes();
        let mut windows = bytes.iter().flat_map(|file| file.windows(word.len()));
        windows.any(|window| window == word)
    };
    assert!(is_left(b"xylophone"));
    for seq in 11..=41 {
        script.redact(seq).unwrap();
    }
    assert!(!is_left(b"xylophone"));

    script.tell(part("a", 1, vec![said("GLOCKENSPIEL")]));
    script.tell(filler());
    let head = script.head.0;
    assert!(is_left(b"glockenspiel") && indexed_until(&host) == head);
    script.prune(head).unwrap();
    assert!(!is_left(b"glockenspiel"));
}
