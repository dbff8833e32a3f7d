//! Words: what a word of bash stands for once its quotes are gone, and what cannot be known of it.

use std::ops::Range;

/// A word after quoting.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own that parsers must agree on"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellWord {
    /// Its text. What is expanded at run time is left out, save the home and working directory.
    pub(crate) text: String,
    /// Whether something in it is expanded at run time.
    pub(crate) dynamic: bool,
    /// Whether an unquoted `*`, `?` or `[` makes it stand for file names. The text then has
    /// quoted wildcards behind a backslash.
    pub(crate) glob: bool,
    /// Whether an unquoted `~` begins it.
    pub(crate) tilde: bool,
    /// Whether any of it was quoted.
    pub(crate) quoted: bool,
}

impl ShellWord {
    /// The text as the program would get it, where that is certain.
    pub(crate) fn literal(&self) -> Option<&str> {
        (!self.dynamic && !self.glob).then_some(self.text.as_str())
    }
}

/// Builds a word piece by piece, whichever parser found the pieces.
#[derive(Default)]
pub(crate) struct WordBuilder {
    text: String,
    /// For each character of the text, whether it was quoted.
    quoted: Vec<bool>,
    dynamic: bool,
    any_quoted: bool,
}

impl WordBuilder {
    pub(crate) fn bare(&mut self, c: char) {
        self.text.push(c);
        self.quoted.push(false);
    }

    pub(crate) fn quote(&mut self, c: char) {
        self.text.push(c);
        self.quoted.push(true);
        self.any_quoted = true;
    }

    /// Empty quotes still make a word.
    pub(crate) fn quotes(&mut self) {
        self.any_quoted = true;
    }

    pub(crate) fn quote_all(&mut self, text: &str) {
        self.quotes();
        text.chars().for_each(|c| self.quote(c));
    }

    pub(crate) fn expands(&mut self) {
        self.dynamic = true;
    }

    pub(crate) fn finish(self) -> ShellWord {
        let chars: Vec<char> = self.text.chars().collect();
        let glob = chars
            .iter()
            .zip(&self.quoted)
            .any(|(c, quoted)| !quoted && matches!(c, '*' | '?' | '['));
        let tilde = chars.first() == Some(&'~') && !self.quoted[0];
        // Braces are expanded before anything else and can make several words of one, so a word
        // with them is not a literal, although nothing in it depends on the machine.
        let dynamic = self.dynamic || expands_braces(&chars, &self.quoted);
        let text = if glob {
            escape_quoted(&chars, &self.quoted)
        } else {
            self.text
        };
        ShellWord {
            text,
            dynamic,
            glob,
            tilde,
            quoted: self.any_quoted,
        }
    }
}

/// In a word with wildcards, quoted ones are kept apart by a backslash.
fn escape_quoted(chars: &[char], quoted: &[bool]) -> String {
    let mut text = String::with_capacity(chars.len());
    for (c, quoted) in chars.iter().zip(quoted) {
        if *quoted && matches!(c, '*' | '?' | '[' | ']' | '\\') {
            text.push('\\');
        }
        text.push(*c);
    }
    text
}

/// Whether braces in it make several words: `{a,b}` or `{1..3}`, unquoted.
fn expands_braces(chars: &[char], quoted: &[bool]) -> bool {
    let mut open = false;
    let mut previous = ' ';
    for (at, c) in chars.iter().enumerate() {
        if quoted[at] {
            previous = ' ';
            continue;
        }
        match c {
            // A `}` does not end it: to take `{a}x,y` for an expansion only asks more.
            '{' => open = true,
            ',' if open => return true,
            '.' if open && previous == '.' => return true,
            _ => {}
        }
        previous = *c;
    }
    false
}

/// Takes the quotes off one word of source text. A word whose quotes do not close is dynamic.
pub(crate) fn dequote(source: &str) -> ShellWord {
    read_word(source).out.finish()
}

/// What of a word is known only when it runs, as it is written: `$i` of `a-$i.txt`. The word itself
/// if nothing smaller is.
pub(crate) fn expansions(source: &str) -> Vec<String> {
    let reader = read_word(source);
    if reader.expanded.is_empty() {
        return vec![source.to_owned()];
    }
    let ranges = reader.expanded.into_iter();
    ranges
        .map(|range| reader.chars[range].iter().collect())
        .collect()
}

fn read_word(source: &str) -> WordReader {
    let mut reader = WordReader {
        chars: source.chars().collect(),
        at: 0,
        out: WordBuilder::default(),
        expanded: Vec::new(),
    };
    reader.read();
    reader
}

struct WordReader {
    chars: Vec<char>,
    at: usize,
    out: WordBuilder,
    /// The characters that stand for something else at run time.
    expanded: Vec<Range<usize>>,
}

impl WordReader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn read(&mut self) {
        while let Some(c) = self.next() {
            match c {
                '\\' => match self.next() {
                    Some('\n') => {}
                    Some(c) => self.out.quote(c),
                    None => self.out.expands(),
                },
                '\'' => self.single(),
                '"' => self.double(),
                '$' => self.expansion(|reader| reader.dollar(false)),
                '`' => self.expansion(Self::backtick),
                '<' | '>' => {
                    // Only a process substitution leaves these in a word.
                    self.out.expands();
                    self.out.bare(c);
                }
                c => self.out.bare(c),
            }
        }
    }

    fn single(&mut self) {
        self.out.quotes();
        loop {
            match self.next() {
                Some('\'') => return,
                Some(c) => self.out.quote(c),
                None => return self.out.expands(),
            }
        }
    }

    fn double(&mut self) {
        self.out.quotes();
        loop {
            match self.next() {
                Some('"') => return,
                // Between double quotes a backslash is kept unless one of these follows.
                Some('\\') => match self.next() {
                    Some('\n') => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => self.out.quote(c),
                    Some(c) => {
                        self.out.quote('\\');
                        self.out.quote(c);
                    }
                    None => return self.out.expands(),
                },
                Some('$') => self.expansion(|reader| reader.dollar(true)),
                Some('`') => self.expansion(Self::backtick),
                Some(c) => self.out.quote(c),
                None => return self.out.expands(),
            }
        }
    }

    /// Reads what may be an expansion, and notes where it is if it is one.
    fn expansion(&mut self, read: impl Fn(&mut Self)) {
        let start = self.at - 1;
        let was_dynamic = std::mem::take(&mut self.out.dynamic);
        read(self);
        if self.out.dynamic {
            self.expanded.push(start..self.at);
        }
        self.out.dynamic |= was_dynamic;
    }

    fn backtick(&mut self) {
        self.out.expands();
        while let Some(c) = self.next() {
            match c {
                '\\' => {
                    self.next();
                }
                '`' => return,
                _ => {}
            }
        }
    }

    fn dollar(&mut self, in_double: bool) {
        match self.peek() {
            Some('\'') if !in_double => {
                self.at += 1;
                self.ansi();
            }
            Some('"') if !in_double => {
                // The text between is translated at run time.
                self.at += 1;
                self.out.expands();
                self.double();
            }
            Some('(') => self.skip_balanced('(', ')'),
            Some('{') => self.braced(),
            Some('[') => self.skip_balanced('[', ']'),
            Some(c) if c == '_' || c.is_ascii_alphabetic() => self.variable(),
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                self.at += 1;
                self.out.expands();
            }
            _ if in_double => self.out.quote('$'),
            _ => self.out.bare('$'),
        }
    }

    fn variable(&mut self) {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|c| c == '_' || c.is_ascii_alphanumeric())
        {
            self.at += 1;
        }
        let name: String = self.chars[start..self.at].iter().collect();
        self.expand(&name);
    }

    fn braced(&mut self) {
        let start = self.at + 1;
        self.skip_balanced('{', '}');
        let end = self.at.saturating_sub(1).max(start);
        let inner: String = self.chars[start.min(end)..end].iter().collect();
        self.expand(&inner);
    }

    /// The home and the working directory are known well enough for a deny.
    fn expand(&mut self, name: &str) {
        // Still dynamic: an earlier command may have set them, so no allow may rest on this.
        self.out.expands();
        match name {
            "HOME" => self.out.bare('~'),
            "PWD" => self.out.bare('.'),
            _ => {}
        }
    }

    fn skip_balanced(&mut self, open: char, close: char) {
        self.out.expands();
        let mut depth = 0usize;
        while let Some(c) = self.next() {
            if c == '\\' {
                self.next();
            } else if c == open {
                depth += 1;
            } else if c == close {
                depth -= 1;
                if depth == 0 {
                    return;
                }
            }
        }
    }

    fn ansi(&mut self) {
        let mut inner = String::new();
        loop {
            match self.next() {
                Some('\'') => break,
                Some('\\') => {
                    inner.push('\\');
                    inner.extend(self.next());
                }
                Some(c) => inner.push(c),
                None => return self.out.expands(),
            }
        }
        match decode_ansi(&inner) {
            Some(text) => self.out.quote_all(&text),
            None => self.out.expands(),
        }
    }
}

/// Decodes the inside of `$'…'`; nothing for what is not text or ends the string early.
pub(crate) fn decode_ansi(inner: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        let decoded = match chars.next()? {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'e' | 'E' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            c @ ('\\' | '\'' | '"' | '?') => c,
            'x' => number(&mut chars, 16, 2)?,
            'u' => number(&mut chars, 16, 4)?,
            'U' => number(&mut chars, 16, 8)?,
            c if c.is_digit(8) => {
                let rest = octal_rest(&mut chars);
                byte(c.to_digit(8)? * 8u32.pow(rest.1) + rest.0)?
            }
            _ => return None,
        };
        // Bash ends the string here and drops the rest.
        if decoded == '\0' {
            return None;
        }
        text.push(decoded);
    }
    Some(text)
}

fn octal_rest(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> (u32, u32) {
    let (mut value, mut count) = (0, 0);
    while count < 2 {
        let Some(digit) = chars.peek().and_then(|c| c.to_digit(8)) else {
            break;
        };
        chars.next();
        value = value * 8 + digit;
        count += 1;
    }
    (value, count)
}

/// Bytes beyond ASCII are parts of characters: what they make is not certain.
fn byte(value: u32) -> Option<char> {
    (value < 128).then(|| char::from_u32(value)).flatten()
}

fn number(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    radix: u32,
    digits: usize,
) -> Option<char> {
    let mut value = 0u32;
    let mut count = 0;
    while count < digits {
        let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix)) else {
            break;
        };
        chars.next();
        value = value.checked_mul(radix)?.checked_add(digit)?;
        count += 1;
    }
    if count == 0 {
        return None;
    }
    if digits == 2 {
        byte(value)
    } else {
        char::from_u32(value)
    }
}

/// Splits text by blanks as a shell would; nothing if a word of it is not literal.
pub(crate) fn plain_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut source = String::new();
    let mut quote = None;
    let mut escaped = false;
    for c in text.chars() {
        if quote.is_none() && !escaped && c.is_whitespace() {
            if !source.is_empty() {
                words.push(std::mem::take(&mut source));
            }
            continue;
        }
        match quote {
            _ if escaped => escaped = false,
            None if matches!(c, '\'' | '"') => quote = Some(c),
            Some(open) if c == open => quote = None,
            Some('\'') => {}
            _ => escaped = c == '\\',
        }
        source.push(c);
    }
    if !source.is_empty() {
        words.push(source);
    }
    words
        .iter()
        .map(|source| dequote(source).literal().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(source: &str) -> Option<String> {
        dequote(source).literal().map(str::to_owned)
    }

    #[test]
    fn quotes_come_off_as_bash_takes_them_off() {
        let cases = [
            ("r\"\"m", Some("rm")),
            ("'a b'\\ c", Some("a b c")),
            ("\"a\\$b\\n\"", Some("a$b\\n")),
            ("$'\\162m'", Some("rm")),
            ("$'\\x72\\u006d'", Some("rm")),
            ("$'a\\'b'", Some("a'b")),
            ("stash@{0}", Some("stash@{0}")),
            ("wo\\\nrd", Some("word")),
            ("a$", Some("a$")),
            ("{a,b}", None),
            ("{1..3}", None),
            ("$x", None),
            ("\"$(c)\"", None),
            ("`c`", None),
            ("'open", None),
            ("*.rs", None),
            ("'*.rs'", Some("*.rs")),
            ("$'\\377'", None),
        ];
        for (source, expected) in cases {
            assert_eq!(text(source).as_deref(), expected, "{source}");
        }
    }

    #[test]
    fn what_expands_is_left_out_but_the_home() {
        assert_eq!(dequote("r$@m").text, "rm");
        assert_eq!(dequote("$HOME/.ssh").text, "~/.ssh");
        assert_eq!(dequote("${x:-$(c)}y").text, "y");
    }
}
