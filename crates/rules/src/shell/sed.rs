//! Scripts of sed, read far enough to know that they only print.

/// Says which argument runs or writes something, or is not understood.
pub(crate) fn hazard(arguments: &[String]) -> Option<String> {
    let mut script_given = false;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').unwrap_or((long, ""));
            match name {
                "" | "quiet" | "silent" | "regexp-extended" | "posix" | "sandbox" | "debug"
                | "separate" | "unbuffered" | "null-data" | "zero-terminated" | "version"
                | "help" => {}
                "expression" => {
                    script_given = true;
                    let script = if long.contains('=') {
                        value
                    } else {
                        words.next()?
                    };
                    if !only_prints(script) {
                        return Some(word.clone());
                    }
                }
                _ => return Some(word.clone()),
            }
            continue;
        }
        if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            match short(letters) {
                ShortOption::Harmless => {}
                ShortOption::Dangerous => return Some(word.clone()),
                ShortOption::Script(attached) => {
                    script_given = true;
                    let script = if attached.is_empty() {
                        words.next()?
                    } else {
                        attached
                    };
                    if !only_prints(script) {
                        return Some(script.to_owned());
                    }
                }
            }
            continue;
        }
        // The first plain word is the script, unless an option gave one; then it is a file.
        if !script_given {
            script_given = true;
            if !only_prints(word) {
                return Some(word.clone());
            }
        }
    }
    None
}

enum ShortOption<'w> {
    Harmless,
    Dangerous,
    Script(&'w str),
}

fn short(letters: &str) -> ShortOption<'_> {
    for (at, letter) in letters.char_indices() {
        match letter {
            'n' | 'E' | 'r' | 's' | 'u' | 'z' => {}
            'e' => return ShortOption::Script(&letters[at + 1..]),
            // The length may be the next word.
            'l' if at + 1 == letters.len() => return ShortOption::Dangerous,
            'l' => return ShortOption::Harmless,
            _ => return ShortOption::Dangerous,
        }
    }
    ShortOption::Harmless
}

/// Whether a script is understood and neither runs, reads nor writes anything.
fn only_prints(script: &str) -> bool {
    let mut reader = SedReader {
        chars: script.chars().collect(),
        at: 0,
    };
    reader.script().is_some()
}

struct SedReader {
    chars: Vec<char>,
    at: usize,
}

impl SedReader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn skip(&mut self, wanted: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
    }

    /// Each `None` below means: not understood, or not harmless.
    fn script(&mut self) -> Option<()> {
        loop {
            // Braces are not paired: sed itself refuses a script in which they do not match.
            self.skip(|c| c.is_whitespace() || c == ';' || c == '{' || c == '}');
            if self.peek().is_none() {
                return Some(());
            }
            self.addresses()?;
            self.skip(|c| c.is_whitespace() || c == '!');
            self.command()?;
        }
    }

    fn addresses(&mut self) -> Option<()> {
        self.address()?;
        self.skip(|c| c == ' ');
        if self.peek() == Some(',') {
            self.at += 1;
            self.skip(|c| c == ' ');
            self.address()?;
        }
        Some(())
    }

    fn address(&mut self) -> Option<()> {
        match self.peek()? {
            '$' => self.at += 1,
            '/' => {
                self.at += 1;
                self.delimited('/')?;
                self.skip(|c| matches!(c, 'I' | 'M'));
            }
            '\\' => {
                self.at += 1;
                let delimiter = self.peek()?;
                self.at += 1;
                self.delimited(delimiter)?;
                self.skip(|c| matches!(c, 'I' | 'M'));
            }
            c if c.is_ascii_digit() || matches!(c, '+' | '~') => {
                self.skip(|c| c.is_ascii_digit() || matches!(c, '+' | '~'));
            }
            _ => {}
        }
        Some(())
    }

    /// Up to the next delimiter that no backslash protects.
    fn delimited(&mut self, delimiter: char) -> Option<()> {
        let mut in_class = false;
        loop {
            let c = self.peek()?;
            self.at += 1;
            match c {
                '\n' => return None,
                '\\' => self.at += 1,
                '[' if !in_class => {
                    // Inside a class the delimiter is still one for sed, so a class with it is not
                    // judged.
                    in_class = true;
                }
                ']' => in_class = false,
                c if c == delimiter && in_class => return None,
                c if c == delimiter => return Some(()),
                _ => {}
            }
        }
    }

    fn command(&mut self) -> Option<()> {
        let Some(command) = self.peek() else {
            return Some(());
        };
        self.at += 1;
        match command {
            'p' | 'P' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'x' | 'z' | '=' | 'F' => {
                self.end_of_command()
            }
            'q' | 'Q' | 'l' | 'L' => {
                self.skip(|c| c == ' ' || c.is_ascii_digit());
                self.end_of_command()
            }
            's' => self.substitution(),
            'y' => {
                let delimiter = self.peek()?;
                self.at += 1;
                self.delimited(delimiter)?;
                self.delimited(delimiter)?;
                self.end_of_command()
            }
            'b' | 't' | 'T' | ':' => {
                self.skip(|c| c == ' ');
                self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
                self.end_of_command()
            }
            '#' => {
                self.skip(|c| c != '\n');
                Some(())
            }
            'a' | 'i' | 'c' => self.text(),
            '{' => Some(()),
            _ => None,
        }
    }

    fn substitution(&mut self) -> Option<()> {
        let delimiter = self
            .peek()
            .filter(|c| !c.is_alphanumeric() && !matches!(c, '\\' | '\n' | '['))?;
        self.at += 1;
        self.delimited(delimiter)?;
        self.replacement(delimiter)?;
        // Not `e`, which runs the result, and not `w`, which writes it to a file.
        self.skip(|c| matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M') || c.is_ascii_digit());
        self.end_of_command()
    }

    fn replacement(&mut self, delimiter: char) -> Option<()> {
        loop {
            let c = self.peek()?;
            self.at += 1;
            match c {
                '\\' => self.at += 1,
                c if c == delimiter => return Some(()),
                _ => {}
            }
        }
    }

    /// Text to the end of the line; a backslash could carry it into the next.
    fn text(&mut self) -> Option<()> {
        let start = self.at;
        self.skip(|c| c != '\n' && c != '\\');
        let text: String = self.chars[start..self.at].iter().collect();
        (!text.trim().is_empty() && self.peek() != Some('\\')).then_some(())
    }

    fn end_of_command(&mut self) -> Option<()> {
        self.skip(|c| c == ' ' || c == '\t');
        match self.peek() {
            None | Some(';' | '\n' | '}' | '#') => Some(()),
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_printing_scripts_are_harmless() {
        for script in [
            "s/foo/bar/g",
            "1,20p",
            "/a/,/b/d",
            "$!N;p",
            "s|a|b|;s/x/y/2",
            "y/abc/xyz/",
            "5q",
            "/x/{p;d}",
            "s/[0-9]*//",
            "n;d",
            "1i header",
            "/x/a foo",
            ":a;N;ba",
        ] {
            assert!(only_prints(script), "{script}");
        }
        for script in [
            "w /x",
            "s/a/b/w x",
            "s/a/b/e",
            "e id",
            "1e",
            "r /etc/passwd",
            "R x",
            "W x",
            "s/a/b/gw x",
            "a\\\nw x",
            "a",
            ":a w out",
            "b a w out",
            "t x e id",
            "v",
            "/x/w y",
            "s/a/b/;w x",
            "s/[/]/x/w f",
            "p;e",
            "s,a,b,\nw x",
        ] {
            assert!(!only_prints(script), "{script}");
        }
    }
}
