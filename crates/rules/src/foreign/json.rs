//! JSON with its order and its lines, and with comments where a tool allows them.
//!
//! Deliberately strict: a key that stands twice is refused, because tools differ in which counts.

use std::collections::HashSet;
use std::iter::Peekable;
use std::str::Chars;

/// How deep values may nest.
const DEPTH_MAX: usize = 64;

/// How many values a file may hold; settings that people write have a few hundred.
const VALUES_MAX: usize = 10_000;

/// A value and the line it begins on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonNode {
    pub(super) line: u32,
    pub(super) value: JsonValue,
}

/// A JSON value whose objects keep their order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JsonValue {
    Null,
    Bool(bool),
    Number,
    Text(String),
    List(Vec<JsonNode>),
    Object(Vec<(String, JsonNode)>),
}

/// Whether comments and commas at the end are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonDialect {
    Json,
    WithComments,
}

/// What is wrong, and on which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonError {
    pub(super) line: u32,
    pub(super) message: String,
}

impl JsonNode {
    /// The value of a key of an object.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let JsonValue::Object(members) = &self.value else {
            return None;
        };
        let found = members.iter().find(|(name, _)| name == key)?;
        Some(&found.1)
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.value {
            JsonValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Reads one value and nothing after it.
pub(super) fn parse(text: &str, dialect: JsonDialect) -> Result<JsonNode, JsonError> {
    let mut parser = JsonParser {
        rest: text.chars().peekable(),
        line: 1,
        left: VALUES_MAX,
        dialect,
    };
    let node = parser.value(0)?;
    parser.blank()?;
    match parser.rest.peek() {
        None => Ok(node),
        Some(_) => parser.fail("there is more after the end"),
    }
}

struct JsonParser<'a> {
    rest: Peekable<Chars<'a>>,
    line: u32,
    left: usize,
    dialect: JsonDialect,
}

impl JsonParser<'_> {
    fn fail<T>(&self, message: &str) -> Result<T, JsonError> {
        Err(JsonError {
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

    fn expect(&mut self, wanted: char) -> Result<(), JsonError> {
        if self.next() == Some(wanted) {
            return Ok(());
        }
        self.fail(&format!("`{wanted}` is missing"))
    }

    /// Passes blanks, and comments where they are allowed.
    fn blank(&mut self) -> Result<(), JsonError> {
        loop {
            match self.rest.peek() {
                Some(' ' | '\t' | '\r' | '\n') => {
                    self.next();
                }
                Some('/') if self.dialect == JsonDialect::WithComments => self.comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) -> Result<(), JsonError> {
        self.next();
        match self.next() {
            Some('/') => {
                while self.rest.peek().is_some_and(|c| *c != '\n') {
                    self.next();
                }
                Ok(())
            }
            Some('*') => {
                let mut star = false;
                while let Some(c) = self.next() {
                    if star && c == '/' {
                        return Ok(());
                    }
                    star = c == '*';
                }
                self.fail("a comment does not end")
            }
            _ => self.fail("a comment was expected"),
        }
    }

    fn value(&mut self, depth: usize) -> Result<JsonNode, JsonError> {
        self.blank()?;
        if depth > DEPTH_MAX {
            return self.fail("it is nested too deep");
        }
        let Some(left) = self.left.checked_sub(1) else {
            return self.fail("it holds too much");
        };
        self.left = left;
        let line = self.line;
        let value = match self.rest.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.list(depth)?,
            Some('"') => JsonValue::Text(self.text()?),
            Some(_) => self.word()?,
            None => return self.fail("it ends too early"),
        };
        Ok(JsonNode { line, value })
    }

    fn object(&mut self, depth: usize) -> Result<JsonValue, JsonError> {
        let mut members: Vec<(String, JsonNode)> = Vec::new();
        let mut known = HashSet::new();
        self.next();
        while !self.closes('}', members.is_empty())? {
            if self.rest.peek() != Some(&'"') {
                return self.fail("a key was expected");
            }
            let key = self.text()?;
            if !known.insert(key.clone()) {
                return self.fail(&format!("`{key}` stands twice"));
            }
            self.blank()?;
            self.expect(':')?;
            let node = self.value(depth + 1)?;
            members.push((key, node));
        }
        Ok(JsonValue::Object(members))
    }

    fn list(&mut self, depth: usize) -> Result<JsonValue, JsonError> {
        let mut items = Vec::new();
        self.next();
        while !self.closes(']', items.is_empty())? {
            items.push(self.value(depth + 1)?);
        }
        Ok(JsonValue::List(items))
    }

    /// Passes what stands between two members; says whether the end was reached instead.
    fn closes(&mut self, end: char, first: bool) -> Result<bool, JsonError> {
        self.blank()?;
        if self.rest.peek() == Some(&end) {
            self.next();
            return Ok(true);
        }
        if first {
            return Ok(false);
        }
        self.expect(',')?;
        self.blank()?;
        if self.rest.peek() != Some(&end) {
            return Ok(false);
        }
        if self.dialect == JsonDialect::Json {
            return self.fail("a comma stands before the end");
        }
        self.next();
        Ok(true)
    }

    fn text(&mut self) -> Result<String, JsonError> {
        self.next();
        // The escapes of a text are those of JSON, so what stands between the quotes is handed on.
        let mut quoted = String::from('"');
        loop {
            match self.next() {
                None | Some('\n') => return self.fail("a text does not end"),
                Some('"') => break,
                Some('\\') => {
                    quoted.push('\\');
                    quoted.extend(self.next());
                }
                Some(c) => quoted.push(c),
            }
        }
        quoted.push('"');
        serde_json::from_str(&quoted).or_else(|_| self.fail("a text is not understood"))
    }

    fn word(&mut self) -> Result<JsonValue, JsonError> {
        let mut word = String::new();
        while let Some(c) = self.rest.peek() {
            if !c.is_ascii_alphanumeric() && !"+-.".contains(*c) {
                break;
            }
            word.extend(self.next());
        }
        match word.as_str() {
            "null" => Ok(JsonValue::Null),
            "true" => Ok(JsonValue::Bool(true)),
            "false" => Ok(JsonValue::Bool(false)),
            number if serde_json::from_str::<serde_json::Number>(number).is_ok() => {
                Ok(JsonValue::Number)
            }
            _ => self.fail("a value was expected"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Result<Vec<(String, u32)>, JsonError> {
        let node = parse(text, JsonDialect::WithComments)?;
        let JsonValue::Object(members) = node.value else {
            return Ok(Vec::new());
        };
        Ok(members
            .into_iter()
            .map(|(key, node)| (key, node.line))
            .collect())
    }

    #[test]
    fn order_and_lines_are_kept() {
        let text = "{ // one\n \"b\": 1,\n /* two\n */ \"a\": [true, null,],\n}";
        assert_eq!(lines(text), Ok(vec![("b".into(), 2), ("a".into(), 4)]));
    }

    #[test]
    fn what_is_not_json_names_its_line() {
        for (text, line) in [
            ("", 1),
            ("{\n\"a\"", 2),
            ("{\"a\":1\n,\"a\":2}", 2),
            ("{} x", 1),
            ("[tru]", 1),
            ("\"a\nb\"", 2),
            ("/* x", 1),
        ] {
            let found = parse(text, JsonDialect::WithComments).map_err(|error| error.line);
            assert_eq!(found, Err(line), "{text}");
        }
        assert!(parse(&"[".repeat(100), JsonDialect::Json).is_err());
        assert!(parse(&format!("[{}1]", "1,".repeat(20_000)), JsonDialect::Json).is_err());
        assert!(parse("[1,]", JsonDialect::Json).is_err());
        assert!(parse("// x\n1", JsonDialect::Json).is_err());
    }

    #[test]
    fn escapes_are_read() {
        let node = parse(r#""a\"\u00e9\ud83d\ude00""#, JsonDialect::Json).unwrap();
        assert_eq!(node.value, JsonValue::Text("a\"é😀".into()));
    }
}
