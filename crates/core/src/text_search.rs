//! Words of texts, and texts that contain all words of a query: the same in every store.
//!
//! Invariants: a query is words and nothing else, so that nothing a person types is an expression; an index only
//! proposes texts, and [`WordQuery::find`] decides.
//!
//! A word is a run of letters and digits of any script, without case, and without accents where these are Latin.
//! Scripts that put no space between words are split into single characters, which a query then looks for next to
//! each other. Deliberately absent: stems and synonyms, which differ by language.

use std::iter::Peekable;
use std::ops::Range;
use std::str::CharIndices;

use crate::combining::is_combining;
use crate::limits::{SEARCH_EXCERPT_CHARS, SEARCH_WORD_CHARS_MAX};

/// Characters of an excerpt before its first hit.
const CHARS_BEFORE: usize = 40;

/// The shortest last word that is completed: a single letter begins too many words to be of use.
const PREFIX_CHARS_MIN: usize = 2;

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextWord {
    /// Where it stands, in bytes.
    pub place: Range<usize>,
    /// The form in which words are compared: letters and digits only, in lower case.
    pub folded: String,
}

/// The words of a text, in order.
pub fn split_words(text: &str) -> impl Iterator<Item = TextWord> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || next_word(&mut rest))
}

fn next_word(rest: &mut Peekable<CharIndices<'_>>) -> Option<TextWord> {
    let (start, first) = rest.find(|(_, c)| c.is_alphanumeric())?;
    let mut end = start + first.len_utf8();
    let mut folded = FoldedWord::default();
    folded.push(first);
    while let Some((at, c)) = rest.next_if(|(_, c)| continues_word(first, *c)) {
        end = at + c.len_utf8();
        folded.push(c);
    }
    Some(TextWord {
        place: start..end,
        folded: folded.text,
    })
}

fn continues_word(first: char, c: char) -> bool {
    // A mark belongs to the character before it, also where that is a word by itself.
    is_combining(c) || (c.is_alphanumeric() && !is_word_alone(first) && !is_word_alone(c))
}

/// Whether a character belongs to a script that puts no space between words.
fn is_word_alone(c: char) -> bool {
    matches!(c,
        // Thai and Lao, Myanmar, Khmer.
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        // Kana, and Han with its compatibility forms and extensions.
        | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// A word while it is folded.
#[derive(Default)]
struct FoldedWord {
    text: String,
    chars: usize,
}

impl FoldedWord {
    fn push(&mut self, c: char) {
        for lower in c.to_lowercase() {
            // Beyond the bound words are equal: a text of encoded bytes is one word of any length.
            if self.chars < SEARCH_WORD_CHARS_MAX && !matches!(lower, '\u{300}'..='\u{36f}') {
                self.text.push(without_accent(lower));
                self.chars += 1;
            }
        }
    }
}

/// The letters of U+00E0 to U+017F without their accents. From the decompositions of the Unicode Character Database.
const LATIN: &str = "aaaaaaæceeeeiiiiðnooooo÷øuuuuyþyaaaaaaccccccccddđđeeeeeeeeeegggggggghhħħiiiiiiiiiıĳĳjjkkĸllllllŀŀłłnnnnnnŉŋŋooooooœœrrrrrrssssssssttttŧŧuuuuuuuuuuuuwwyyyzzzzzzſ";

fn without_accent(c: char) -> char {
    match c {
        '\u{e0}'..='\u{17f}' => {
            let index = c as usize - 0xe0;
            LATIN.chars().nth(index).unwrap_or(c)
        }
        // The two forms of one letter.
        'ς' => 'σ',
        _ => c,
    }
}

/// What somebody looks for: every word of it, the last one also as the beginning of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordQuery {
    /// Words that were typed without a space between them stand next to each other in a text.
    runs: Vec<Vec<String>>,
    completes_last: bool,
}

impl WordQuery {
    /// Reads what was typed. Nothing if there is no word in it.
    pub fn parse(text: &str) -> Option<Self> {
        let runs = text.split_whitespace().map(|typed| {
            let words = split_words(typed);
            words.map(|word| word.folded).collect::<Vec<_>>()
        });
        let runs: Vec<_> = runs.filter(|run| !run.is_empty()).collect();
        let last = runs.last()?.last()?;
        Some(Self {
            completes_last: last.chars().count() >= PREFIX_CHARS_MIN,
            runs,
        })
    }

    /// The words, each with whether it may be the beginning of one.
    pub fn words(&self) -> impl Iterator<Item = (&str, bool)> {
        let count: usize = self.runs.iter().map(Vec::len).sum();
        let words = self.runs.iter().flatten().enumerate();
        words.map(move |(index, word)| {
            let is_last = index + 1 == count;
            (word.as_str(), is_last && self.completes_last)
        })
    }

    /// Where the words stand in a text, in order and apart from each other. Nothing unless all of them are there.
    pub fn find(&self, text: &str) -> Option<Vec<Range<usize>>> {
        let words: Vec<TextWord> = split_words(text).collect();
        let mut places = Vec::new();
        for (index, run) in self.runs.iter().enumerate() {
            let completes = self.completes_last && index + 1 == self.runs.len();
            let before = places.len();
            let windows = words.windows(run.len());
            let found = windows.filter(|window| is_run(window, run, completes));
            places.extend(
                found.filter_map(|window| {
                    Some(window.first()?.place.start..window.last()?.place.end)
                }),
            );
            if places.len() == before {
                return None;
            }
        }
        Some(join_places(places))
    }
}

fn is_run(words: &[TextWord], run: &[String], completes: bool) -> bool {
    let last = run.len() - 1;
    let mut pairs = words.iter().zip(run).enumerate();
    pairs.all(|(index, (word, wanted))| {
        word.folded == *wanted || (completes && index == last && word.folded.starts_with(wanted))
    })
}

fn join_places(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    places.sort_unstable_by_key(|place| (place.start, place.end));
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(places.len());
    for place in places {
        match joined.last_mut() {
            Some(last) if place.start < last.end => last.end = last.end.max(place.end),
            _ => joined.push(place),
        }
    }
    joined
}

/// A piece of an excerpt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcerptPiece {
    pub text: String,
    /// Whether it is what was looked for.
    pub is_hit: bool,
}

/// The part of a text around the first of some places, in pieces. Runs of white space become one space, and what is
/// left out an ellipsis.
pub fn excerpt(text: &str, places: &[Range<usize>]) -> Vec<ExcerptPiece> {
    let first = places.first().map_or(0, |place| place.start);
    let before = text[..first].char_indices().rev().take(CHARS_BEFORE);
    let start = before.last().map_or(first, |(at, _)| at);
    let mut after = text[start..].char_indices().skip(SEARCH_EXCERPT_CHARS);
    let end = after.next().map_or(text.len(), |(at, _)| start + at);
    let mut pieces = Vec::new();
    let mut at = start;
    for place in places.iter().take_while(|place| place.start < end) {
        push_piece(&mut pieces, &text[at..place.start], false);
        at = place.end.min(end);
        push_piece(&mut pieces, &text[place.start..at], true);
    }
    push_piece(&mut pieces, &text[at..end], false);
    if start > 0 {
        mark_cut(&mut pieces, 0, |piece| piece.insert(0, '…'));
    }
    if end < text.len() {
        let last = pieces.len();
        mark_cut(&mut pieces, last, |piece| piece.push('…'));
    }
    pieces
}

fn push_piece(pieces: &mut Vec<ExcerptPiece>, text: &str, is_hit: bool) {
    let mut single = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_whitespace() {
            single.push(c);
        } else if !single.ends_with(' ') {
            single.push(' ');
        }
    }
    if !single.is_empty() {
        pieces.push(ExcerptPiece {
            text: single,
            is_hit,
        });
    }
}

/// Marks that something is left out beside a piece. The mark is never part of a hit.
fn mark_cut(pieces: &mut Vec<ExcerptPiece>, index: usize, mark: impl FnOnce(&mut String)) {
    let beside = index.min(pieces.len().saturating_sub(1));
    if let Some(piece) = pieces.get_mut(beside).filter(|piece| !piece.is_hit) {
        return mark(&mut piece.text);
    }
    let mut text = String::new();
    mark(&mut text);
    pieces.insert(
        index,
        ExcerptPiece {
            text,
            is_hit: false,
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        split_words(text).map(|word| word.folded).collect()
    }

    fn found(query: &str, text: &str) -> Option<Vec<String>> {
        let places = WordQuery::parse(query).unwrap().find(text)?;
        Some(places.into_iter().map(|at| text[at].to_owned()).collect())
    }

    /// Hits in brackets.
    fn shown(query: &str, text: &str) -> String {
        let places = WordQuery::parse(query).unwrap().find(text).unwrap();
        let pieces = excerpt(text, &places).into_iter();
        let pieces = pieces.map(|piece| {
            if piece.is_hit {
                format!("[{}]", piece.text)
            } else {
                piece.text
            }
        });
        pieces.collect()
    }

    #[test]
    fn words_are_letters_and_digits_of_any_script() {
        assert_eq!(
            words("Fix src/parse_all.rs: 3×\u{202e}\u{1b}[2J"),
            ["fix", "src", "parse", "all", "rs", "3", "2j"]
        );
        assert_eq!(
            words("Größe ÉTÉ e\u{301}te ŁÓDŹ"),
            ["große", "ete", "ete", "łodz"]
        );
        assert_eq!(words("ΣΟΦΟΣ Йод हिन्दी"), ["σοφοσ", "йод", "हिन्दी"]);
        assert_eq!(words("日本語の文 ok"), ["日", "本", "語", "の", "文", "ok"]);
        assert_eq!(words(" -- \u{300}"), Vec::<String>::new());
    }

    #[test]
    fn letters_without_accents_are_as_many_as_with() {
        assert_eq!(LATIN.chars().count(), 0x180 - 0xe0);
    }

    #[test]
    fn every_word_of_a_query_must_be_there() {
        let text = "The parser drops the last line; parse.rs:41 is why.";
        assert_eq!(
            found("line PARSER", text),
            Some(vec!["parser".into(), "line".into()])
        );
        assert_eq!(found("parser lexer", text), None);
        // The last word may be the beginning of one, and the others may not.
        assert_eq!(
            found("pars", text),
            Some(vec!["parser".into(), "parse".into()])
        );
        assert_eq!(found("pars last", text), None);
        assert_eq!(found("l", text), None);
        // What is typed together stands together.
        assert_eq!(found("parse.rs:41", text), Some(vec!["parse.rs:41".into()]));
        assert_eq!(found("rs/parse", text), None);
        assert_eq!(found("本語", "日本語の文"), Some(vec!["本語".into()]));
        assert_eq!(found("語本", "日本語の文"), None);
    }

    #[test]
    fn nothing_that_is_typed_is_an_expression() {
        assert_eq!(WordQuery::parse(" \"*^:() - "), None);
        let query = WordQuery::parse("NOT a* \"b OR NEAR(c, 2) col:d^").unwrap();
        let words: Vec<_> = query.words().collect();
        assert_eq!(
            words,
            [
                ("not", false),
                ("a", false),
                ("b", false),
                ("or", false),
                ("near", false),
                ("c", false),
                ("2", false),
                ("col", false),
                ("d", false),
            ]
        );
    }

    #[test]
    fn a_word_of_any_length_is_bounded() {
        let long = "x".repeat(100_000);
        assert_eq!(words(&long), ["x".repeat(SEARCH_WORD_CHARS_MAX)]);
        assert_eq!(found(&long, &long), Some(vec![long.clone()]));
    }

    #[test]
    fn an_excerpt_says_where_the_hits_are_and_what_is_left_out() {
        assert_eq!(shown("two", "one\n\t two  three"), "one [two] three");
        assert_eq!(shown("two", "two"), "[two]");
        let (left, right) = ("a".repeat(60), "z".repeat(300));
        let kept = SEARCH_EXCERPT_CHARS - CHARS_BEFORE - "é".chars().count() - 1;
        assert_eq!(
            shown("é", &format!("{left} é {right}")),
            format!(
                "…{} [é] {}…",
                "a".repeat(CHARS_BEFORE - 1),
                "z".repeat(kept)
            )
        );
        // A hit that is longer than the excerpt.
        let long = "x".repeat(1_000);
        assert_eq!(
            shown("xx", &long),
            format!("[{}]…", "x".repeat(SEARCH_EXCERPT_CHARS))
        );
    }
}
