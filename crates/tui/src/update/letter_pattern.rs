//! Finding texts by some of their letters, in their order.

/// Added to the score of a text that has the phrase inside a word.
const INSIDE_WORD: usize = 100;
/// Added where the letters are there but not side by side.
const SCATTERED: usize = 1_000;
/// Added where a path has the letters but the name at its end lacks them.
const OUTSIDE_NAME: usize = 10_000;

/// What was typed to find something.
pub(super) struct LetterPattern {
    phrase: String,
    letters: Vec<char>,
}

impl LetterPattern {
    pub(super) fn new(typed: &str) -> Self {
        let phrase = typed.trim().to_lowercase();
        let letters = phrase.chars().filter(|c| !c.is_whitespace()).collect();
        Self { phrase, letters }
    }

    /// How well a text has the letters: less is better, nothing if it lacks one.
    pub(super) fn score(&self, text: &str) -> Option<usize> {
        // First what needs no copy of the text: most texts are left out by it.
        let gaps = self.count_skipped(text)?;
        let text = text.to_lowercase();
        let Some(at) = text.find(&self.phrase) else {
            return Some(SCATTERED + gaps);
        };
        let at_word = at == 0 || !text[..at].ends_with(char::is_alphanumeric);
        Some(if at_word { at } else { INSIDE_WORD + at })
    }

    /// The same for a path: letters in the name at its end count for more than those of its folders.
    pub(super) fn score_path(&self, path: &str) -> Option<usize> {
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        let in_name = self.score(name);
        in_name.or_else(|| self.score(path).map(|score| OUTSIDE_NAME + score))
    }

    /// How many characters stand between the letters and before them.
    fn count_skipped(&self, text: &str) -> Option<usize> {
        let mut skipped = 0;
        let mut rest = text.chars().flat_map(char::to_lowercase);
        for wanted in &self.letters {
            skipped += rest.by_ref().position(|found| found == *wanted)?;
        }
        Some(skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best_first(mut texts: Vec<&str>, score: impl Fn(&str) -> Option<usize>) -> Vec<&str> {
        texts.retain(|text| score(text).is_some());
        texts.sort_by_key(|text| score(text));
        texts
    }

    #[test]
    fn words_that_begin_like_what_was_typed_come_first() {
        let kill = LetterPattern::new(" Kill");
        let texts = vec![
            "k i l l",
            "nothing",
            "skill issue",
            "agent.kill: end this agent",
        ];
        assert_eq!(
            best_first(texts, |text| kill.score(text)),
            ["agent.kill: end this agent", "skill issue", "k i l l"]
        );
        assert_eq!(LetterPattern::new("").score("anything"), Some(0));
    }

    #[test]
    fn names_come_before_folders() {
        let lib = LetterPattern::new("lib");
        let paths = vec![
            "lib/docs/notes.txt",
            "src/LIB.rs",
            "src/main.rs",
            "a/l_i_b.rs",
        ];
        assert_eq!(
            best_first(paths, |path| lib.score_path(path)),
            ["src/LIB.rs", "a/l_i_b.rs", "lib/docs/notes.txt"]
        );
        let in_two = LetterPattern::new("src lib");
        assert_eq!(
            best_first(vec!["lib/src.rs", "src/lib.rs"], |path| in_two
                .score_path(path)),
            ["src/lib.rs"]
        );
    }
}
