//! Wildcards: in text, where `*` stands for anything, and in paths, where it stays in its segment.

/// A text in which `*` stands for any text and `\*` for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextGlob {
    /// The literal pieces between the wildcards; one more than there are wildcards.
    pieces: Vec<String>,
}

impl TextGlob {
    pub(crate) fn new(pattern: &str) -> Self {
        let mut pieces = vec![String::new()];
        let mut chars = pattern.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' if matches!(chars.peek(), Some('*' | '\\')) => {
                    push(&mut pieces, chars.next().unwrap_or('\\'));
                }
                '*' => pieces.push(String::new()),
                c => push(&mut pieces, c),
            }
        }
        Self { pieces }
    }

    /// Whether there is no wildcard in it.
    pub(crate) fn is_literal(&self) -> bool {
        self.pieces.len() == 1
    }

    /// The text before the first wildcard.
    pub(crate) fn head(&self) -> &str {
        self.pieces.first().map_or("", String::as_str)
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        let Some((first, rest)) = self.pieces.split_first() else {
            return text.is_empty();
        };
        let Some(mut text) = text.strip_prefix(first.as_str()) else {
            return false;
        };
        let Some((last, middle)) = rest.split_last() else {
            return text.is_empty();
        };
        // The first place that fits leaves the most text for what follows, so no other has to be
        // tried.
        for piece in middle {
            let Some(at) = text.find(piece.as_str()) else {
                return false;
            };
            text = &text[at + piece.len()..];
        }
        text.ends_with(last.as_str())
    }
}

fn push(pieces: &mut [String], c: char) {
    if let Some(last) = pieces.last_mut() {
        last.push(c);
    }
}

/// One segment of a path pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathSegment {
    /// `**`: any number of segments.
    Any,
    /// A name without wildcards.
    Name(String),
    /// A name with `*`, `?` or `[…]`.
    Glob(Vec<GlobToken>),
}

/// One element of a segment with wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GlobToken {
    Char(char),
    One,
    Many,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl GlobToken {
    /// The character, where it stands for exactly one.
    pub(crate) fn as_char(&self) -> Option<char> {
        match self {
            Self::Char(c) => Some(*c),
            Self::One | Self::Many | Self::Class { .. } => None,
        }
    }
}

/// Reads the wildcards of one name of a shell's word. What stands between the first `[` and the
/// last `]` counts as any text: where a bracket ends, and what quotes, classes and the locale make
/// of it, is not certain.
pub(crate) fn shell_tokens(text: &str) -> Vec<GlobToken> {
    let chars: Vec<char> = text.chars().collect();
    let last = chars.iter().rposition(|c| *c == ']');
    let mut tokens = Vec::with_capacity(chars.len());
    let mut at = 0;
    while at < chars.len() {
        match (chars[at], last) {
            ('[', Some(last)) if at < last => {
                tokens.push(GlobToken::Many);
                at = last;
            }
            ('*', _) => tokens.push(GlobToken::Many),
            ('?', _) => tokens.push(GlobToken::One),
            ('\\', _) if at + 1 < chars.len() => {
                at += 1;
                tokens.push(GlobToken::Char(chars[at]));
            }
            (c, _) => tokens.push(GlobToken::Char(c)),
        }
        at += 1;
    }
    tokens
}

/// Whether a shell takes `name` for the wildcards: a dot at the beginning must be written out.
pub(crate) fn name_fits(tokens: &[GlobToken], name: &str, fold: bool) -> bool {
    let hidden = name.starts_with('.') && tokens.first() != Some(&GlobToken::Char('.'));
    !hidden && glob_matches(tokens, &folded(name, fold), fold)
}

/// Whether some name that a shell takes for the wildcards is `name`, whatever its case.
pub(crate) fn may_be_name(tokens: &[GlobToken], name: &str) -> bool {
    name_fits(tokens, name, true)
}

impl PathSegment {
    pub(crate) fn parse(text: &str) -> Self {
        if text == "**" {
            return Self::Any;
        }
        let tokens = tokens(text);
        let literal: Option<String> = tokens.iter().map(GlobToken::as_char).collect();
        literal.map_or(Self::Glob(tokens), Self::Name)
    }

    pub(crate) fn matches(&self, name: &str, fold: bool) -> bool {
        match self {
            Self::Any => true,
            Self::Name(own) if fold => own.to_lowercase() == name.to_lowercase(),
            Self::Name(own) => own == name,
            Self::Glob(tokens) => {
                let name: Vec<char> = folded(name, fold);
                glob_matches(tokens, &name, fold)
            }
        }
    }

    /// Whether some name fits both this segment and the wildcards of `tokens`.
    fn meets(&self, tokens: &[GlobToken], fold: bool) -> bool {
        match self {
            Self::Any => true,
            // A wildcard at the beginning does not stand for a dot.
            Self::Name(own)
                if own.starts_with('.') && tokens.first() != Some(&GlobToken::Char('.')) =>
            {
                false
            }
            Self::Glob(own)
                if own.first() == Some(&GlobToken::Char('.'))
                    && tokens.first() != Some(&GlobToken::Char('.')) =>
            {
                false
            }
            Self::Name(own) => glob_matches(tokens, &folded(own, fold), fold),
            Self::Glob(own) => globs_meet(own, tokens),
        }
    }
}

fn folded(name: &str, fold: bool) -> Vec<char> {
    if fold {
        name.to_lowercase().chars().collect()
    } else {
        name.chars().collect()
    }
}

/// Reads the wildcards of one segment; a backslash takes the next character as it is.
pub(crate) fn tokens(text: &str) -> Vec<GlobToken> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::with_capacity(chars.len());
    let mut at = 0;
    while at < chars.len() {
        match chars[at] {
            '\\' if at + 1 < chars.len() => {
                tokens.push(GlobToken::Char(chars[at + 1]));
                at += 2;
            }
            '*' => {
                tokens.push(GlobToken::Many);
                at += 1;
            }
            '?' => {
                tokens.push(GlobToken::One);
                at += 1;
            }
            '[' => {
                let (token, next) = class(&chars, at).unwrap_or((GlobToken::Char('['), at + 1));
                tokens.push(token);
                at = next;
            }
            c => {
                tokens.push(GlobToken::Char(c));
                at += 1;
            }
        }
    }
    tokens
}

fn class(chars: &[char], open: usize) -> Option<(GlobToken, usize)> {
    let mut at = open + 1;
    let negated = matches!(chars.get(at), Some('!' | '^'));
    at += usize::from(negated);
    let first = at;
    let mut ranges = Vec::new();
    loop {
        let c = *chars.get(at)?;
        if c == ']' && at > first {
            return Some((GlobToken::Class { negated, ranges }, at + 1));
        }
        let end = chars.get(at + 2).copied().filter(|end| *end != ']');
        if let (Some('-'), Some(end)) = (chars.get(at + 1), end) {
            ranges.push((c, end));
            at += 3;
        } else {
            ranges.push((c, c));
            at += 1;
        }
    }
}

fn token_matches(token: &GlobToken, c: char, fold: bool) -> bool {
    match token {
        GlobToken::Char(own) if fold => own.to_lowercase().eq(c.to_lowercase()),
        GlobToken::Char(own) => *own == c,
        GlobToken::One | GlobToken::Many => true,
        GlobToken::Class { negated, ranges } => {
            let within = ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
            within != *negated
        }
    }
}

/// Linear in the product of both lengths, whatever the pattern.
fn glob_matches(tokens: &[GlobToken], name: &[char], fold: bool) -> bool {
    let (mut t, mut n) = (0, 0);
    // Only the last `*` is tried again. What an earlier one could take instead, the last can take
    // too.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match tokens.get(t) {
            Some(GlobToken::Many) => {
                retry = Some((t + 1, n));
                t += 1;
            }
            Some(token) if token_matches(token, name[n], fold) => {
                t += 1;
                n += 1;
            }
            _ => match retry {
                Some((after, from)) => {
                    retry = Some((after, from + 1));
                    t = after;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    tokens[t..].iter().all(|token| *token == GlobToken::Many)
}

/// Whether some text fits both patterns. Says yes where it cannot tell.
fn globs_meet(left: &[GlobToken], right: &[GlobToken]) -> bool {
    let width = right.len() + 1;
    let mut reachable = vec![false; (left.len() + 1) * width];
    reachable[0] = true;
    for l in 0..=left.len() {
        for r in 0..=right.len() {
            if !reachable[l * width + r] {
                continue;
            }
            let (a, b) = (left.get(l), right.get(r));
            if a == Some(&GlobToken::Many) {
                reachable[(l + 1) * width + r] = true;
                if b.is_some() {
                    reachable[l * width + r + 1] = true;
                }
            }
            if b == Some(&GlobToken::Many) {
                reachable[l * width + r + 1] = true;
                if a.is_some() {
                    reachable[(l + 1) * width + r] = true;
                }
            }
            if let (Some(a), Some(b)) = (a, b)
                && tokens_meet(a, b)
            {
                reachable[(l + 1) * width + r + 1] = true;
            }
        }
    }
    reachable[left.len() * width + right.len()]
}

fn tokens_meet(left: &GlobToken, right: &GlobToken) -> bool {
    match (left, right) {
        (GlobToken::Char(a), token) | (token, GlobToken::Char(a)) => token_matches(token, *a, true),
        // Two classes may have no character in common. To say yes only makes a deny hold for more.
        _ => true,
    }
}

/// A pattern of segments against the names of a path.
pub(crate) fn path_matches(pattern: &[PathSegment], names: &[&str], fold: bool) -> bool {
    walk(pattern, names.len(), |segment, n| {
        segment.matches(names[n], fold)
    })
}

/// Whether some path fits both `pattern` and the segments of a word with wildcards.
pub(crate) fn path_meets(pattern: &[PathSegment], globs: &[Vec<GlobToken>], fold: bool) -> bool {
    walk(pattern, globs.len(), |segment, n| {
        segment.meets(&globs[n], fold)
    })
}

fn walk(pattern: &[PathSegment], names: usize, fits: impl Fn(&PathSegment, usize) -> bool) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < names {
        match pattern.get(p) {
            Some(PathSegment::Any) => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(segment) if fits(segment, n) => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((after, from)) => {
                    retry = Some((after, from + 1));
                    p = after;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..]
        .iter()
        .all(|segment| *segment == PathSegment::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_in_text_stands_for_anything() {
        let glob = TextGlob::new("git log * main");
        assert!(glob.matches("git log -5 main"));
        assert!(glob.matches("git log -5 --all main"));
        assert!(!glob.matches("git log main"));
        assert!(TextGlob::new(r"echo \*").matches("echo *"));
        assert!(!TextGlob::new(r"echo \*").matches("echo x"));
        assert!(!TextGlob::new("ab*ba").matches("aba"));
    }

    #[test]
    fn a_star_in_a_path_stays_in_its_segment() {
        let pattern: Vec<PathSegment> = ["src", "**", "*.ts"].map(PathSegment::parse).into();
        let fits = |path: &str| path_matches(&pattern, &path.split('/').collect::<Vec<_>>(), false);
        assert!(fits("src/a.ts"));
        assert!(fits("src/a/b/c.ts"));
        assert!(!fits("src/a/b/c.js"));
        assert!(!fits("lib/a.ts"));
    }

    #[test]
    fn wildcards_meet_where_a_name_fits_both() {
        let meets = |rule: &str, word: &str| {
            let rule: Vec<PathSegment> = rule.split('/').map(PathSegment::parse).collect();
            let word: Vec<_> = word.split('/').map(tokens).collect();
            path_meets(&rule, &word, false)
        };
        assert!(meets(".env", ".en*"));
        assert!(meets("**/.env", "a/.e?v"));
        assert!(meets("*.pem", "[ab]*"));
        assert!(!meets(".env", "*.ts"));
        assert!(!meets("secrets/**", "src/*"));
    }
}
