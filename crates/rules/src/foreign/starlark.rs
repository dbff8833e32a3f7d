//! The part of Starlark that codex rules are written in: calls with named arguments made of texts
//! and lists. Everything else is refused.

/// A call at the top of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StarlarkCall {
    pub(super) line: u32,
    pub(super) name: String,
    pub(super) arguments: Vec<(String, StarlarkValue)>,
}

/// What an argument can be.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StarlarkValue {
    Text(String),
    List(Vec<StarlarkValue>),
}

/// What is wrong, and on which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StarlarkError {
    pub(super) line: u32,
    pub(super) message: String,
}

/// How deep lists may nest; the rules need two.
const DEPTH_MAX: usize = 4;

/// Reads a file that is nothing but calls.
pub(super) fn parse(text: &str) -> Result<Vec<StarlarkCall>, StarlarkError> {
    let mut parser = StarlarkParser {
        rest: text.chars().peekable(),
        line: 1,
    };
    let mut calls = Vec::new();
    loop {
        parser.blank();
        if parser.rest.peek().is_none() {
            return Ok(calls);
        }
        calls.push(parser.call()?);
    }
}

struct StarlarkParser<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: u32,
}

impl StarlarkParser<'_> {
    fn fail<T>(&self, message: &str) -> Result<T, StarlarkError> {
        Err(StarlarkError {
            line: self.line,
            message: message.to_owned(),
        })
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        if next == Some('\n') {
            self.line = self.line.saturating_add(1);
        }
        next
    }

    /// Passes blanks and comments.
    fn blank(&mut self) {
        while let Some(c) = self.rest.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' => {
                    self.next();
                }
                '#' => {
                    while self.rest.peek().is_some_and(|c| *c != '\n') {
                        self.next();
                    }
                }
                _ => return,
            }
        }
    }

    fn expect(&mut self, wanted: char) -> Result<(), StarlarkError> {
        self.blank();
        if self.next() == Some(wanted) {
            return Ok(());
        }
        self.fail(&format!("not understood: `{wanted}` was expected"))
    }

    fn name(&mut self) -> Result<String, StarlarkError> {
        self.blank();
        let mut name = String::new();
        while let Some(c) = self.rest.peek() {
            if !c.is_ascii_alphanumeric() && *c != '_' {
                break;
            }
            name.extend(self.next());
        }
        if name.is_empty() {
            return self.fail("not understood: a name was expected");
        }
        Ok(name)
    }

    fn call(&mut self) -> Result<StarlarkCall, StarlarkError> {
        let line = self.line;
        let name = self.name()?;
        self.expect('(')?;
        let mut arguments: Vec<(String, StarlarkValue)> = Vec::new();
        while !self.closes(')', arguments.is_empty())? {
            let key = self.name()?;
            self.expect('=')?;
            if arguments.iter().any(|(known, _)| *known == key) {
                return self.fail(&format!("`{key}` stands twice"));
            }
            arguments.push((key, self.argument(0)?));
        }
        Ok(StarlarkCall {
            line,
            name,
            arguments,
        })
    }

    /// Passes what stands between two members; says whether the end was reached instead.
    fn closes(&mut self, end: char, first: bool) -> Result<bool, StarlarkError> {
        self.blank();
        if !first && self.rest.peek() != Some(&end) {
            self.expect(',')?;
            self.blank();
        }
        if self.rest.peek() != Some(&end) {
            return Ok(false);
        }
        self.next();
        Ok(true)
    }

    fn argument(&mut self, depth: usize) -> Result<StarlarkValue, StarlarkError> {
        self.blank();
        match self.rest.peek() {
            Some('"' | '\'') => Ok(StarlarkValue::Text(self.text()?)),
            Some('[') if depth < DEPTH_MAX => {
                self.next();
                let mut items = Vec::new();
                while !self.closes(']', items.is_empty())? {
                    items.push(self.argument(depth + 1)?);
                }
                Ok(StarlarkValue::List(items))
            }
            _ => self.fail("not understood: a text or a list was expected"),
        }
    }

    fn text(&mut self) -> Result<String, StarlarkError> {
        let quote = self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return self.fail("a text does not end"),
                end if end == quote => break,
                Some('\\') => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(c @ ('\\' | '"' | '\'')) => text.push(c),
                    _ => return self.fail("not understood: an escape"),
                },
                Some(c) => text.push(c),
            }
        }
        // Two texts side by side, or a third quote, mean something else.
        if matches!(self.rest.peek(), Some('"' | '\'')) {
            return self.fail("not understood: quotes");
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_with_their_lines() {
        let text = "# c\nf(\n  a = [\"x\", ['y', \"z\\\"\"],], # d\n)\ng()\n";
        let texts = |items: &[&str]| {
            items
                .iter()
                .map(|t| StarlarkValue::Text((*t).into()))
                .collect()
        };
        let list = vec![
            StarlarkValue::Text("x".into()),
            StarlarkValue::List(texts(&["y", "z\""])),
        ];
        assert_eq!(
            parse(text),
            Ok(vec![
                StarlarkCall {
                    line: 2,
                    name: "f".into(),
                    arguments: vec![("a".into(), StarlarkValue::List(list))],
                },
                StarlarkCall {
                    line: 5,
                    name: "g".into(),
                    arguments: vec![],
                },
            ])
        );
    }

    #[test]
    fn whatever_else_starlark_has_is_refused_with_its_line() {
        for (text, line) in [
            ("x = 1", 1),
            ("\nload(\"a\")", 2),
            ("f(a = b)", 1),
            ("f(a = [x for x in y])", 1),
            ("f(a = \"x\" + \"y\")", 1),
            ("f(a = \"x\" \"y\")", 1),
            ("f(a = \"\"\"x\"\"\")", 1),
            ("f(a = r\"x\")", 1),
            ("for x in y:\n  f()", 1),
            ("f(a = \"x\", a = \"y\")", 1),
            ("f(a = [[[[[\"x\"]]]]])", 1),
            ("f(", 1),
        ] {
            let found = parse(text).map_err(|error| error.line);
            assert_eq!(found, Err(line), "{text}");
        }
    }
}
