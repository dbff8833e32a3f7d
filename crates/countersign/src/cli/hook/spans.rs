//! JSON that is changed where it stands: values are found by their place in the text, so that whatever
//! is not touched stays as it is to the byte.
//!
//! Invariant: taking out what was put in gives back the text as it was. What is put into an empty
//! object or list stands directly behind its bracket, without a blank; what stands alone behind a blank
//! was put there together with its brackets, and leaves with them.

use std::ops::Range;

use countersign_core::JsonMembers;
use serde_json::value::RawValue;

/// A place in a text.
pub(super) type JsonSpan = Range<usize>;

/// What an object consists of, in order, with each value's place.
pub(super) fn members(text: &str, object: &JsonSpan) -> Option<Vec<(String, JsonSpan)>> {
    let found = JsonMembers::parse(&text[object.clone()])?;
    let spans = found.0.into_iter();
    Some(
        spans
            .map(|(key, value)| (key, place_in(text, value)))
            .collect(),
    )
}

/// The places of a list's elements.
pub(super) fn elements(text: &str, list: &JsonSpan) -> Option<Vec<JsonSpan>> {
    let found: Vec<&RawValue> = serde_json::from_str(&text[list.clone()]).ok()?;
    let spans = found.into_iter().map(|value| place_in(text, value));
    Some(spans.collect())
}

/// The place of the whole document's value.
pub(super) fn whole(text: &str) -> Result<JsonSpan, serde_json::Error> {
    let value: &RawValue = serde_json::from_str(text)?;
    Ok(place_in(text, value))
}

fn place_in(text: &str, value: &RawValue) -> JsonSpan {
    // A raw value borrows from `text`, so the distance of their addresses is its offset.
    let start = value.get().as_ptr() as usize - text.as_ptr() as usize;
    start..start + value.get().len()
}

/// How a text is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonLayout {
    pub(super) line_end: &'static str,
    pub(super) indent: String,
}

impl JsonLayout {
    pub(super) fn of(text: &str) -> Self {
        let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let indented = text.lines().skip(1).find(|line| line.trim_start() != *line);
        let indent = indented.map(|line| line[..line.len() - line.trim_start().len()].to_owned());
        let usable = indent.filter(|indent| !indent.is_empty() && indent.len() <= 8);
        Self {
            line_end,
            indent: usable.unwrap_or_else(|| "  ".to_owned()),
        }
    }

    /// The beginning of a line at this depth.
    pub(super) fn line(&self, depth: usize) -> String {
        format!("{}{}", self.line_end, self.indent.repeat(depth))
    }
}

/// Puts `item`, an element or a member, at the end of what stands at `container`. `line` begins a line
/// at the depth of the item.
pub(super) fn insert(
    text: &str,
    container: &JsonSpan,
    children: &[JsonSpan],
    item: &str,
    line: &str,
) -> String {
    let first = children.first().map_or(container.end, |child| child.start);
    let is_spread = text[container.start..first].contains('\n');
    let (at, before) = match children.last() {
        None => (container.start + 1, String::new()),
        Some(last) if is_spread => (last.end, format!(",{line}")),
        Some(last) => (last.end, ", ".to_owned()),
    };
    format!("{}{before}{item}{}", &text[..at], &text[at..])
}

/// What is left when a child is taken out of a container.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RemovalResult {
    Text(String),
    /// The container came with the child, and is to be taken out itself.
    Nothing,
}

/// Takes one child out. `begins` says where each child begins, key included; `ends` where it ends.
pub(super) fn remove(
    text: &str,
    container: &JsonSpan,
    children: &[JsonSpan],
    index: usize,
) -> RemovalResult {
    let child = &children[index];
    let cut = if let Some(before) = index.checked_sub(1) {
        children[before].end..child.end
    } else if let Some(next) = children.get(1) {
        child.start..next.start
    } else if child.start == container.start + 1 {
        child.clone()
    } else {
        return RemovalResult::Nothing;
    };
    RemovalResult::Text(format!("{}{}", &text[..cut.start], &text[cut.end..]))
}

/// The places of an object's members, keys included.
pub(super) fn member_spans(
    text: &str,
    object: &JsonSpan,
    members: &[(String, JsonSpan)],
) -> Vec<JsonSpan> {
    let mut from = object.start + 1;
    let mut spans = Vec::with_capacity(members.len());
    for (_, value) in members {
        // Between two members there are only blanks and a comma, so the next quote begins a key.
        let key = text[from..value.start].find('"').unwrap_or(0);
        spans.push(from + key..value.end);
        from = value.end;
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_and_taken_out_leaves_the_text_as_it_was() {
        let layout = JsonLayout::of("");
        for text in [
            "[]",
            "[ ]",
            "[1]",
            "[1,2]",
            "[\n  1\n]",
            "[\n\n]",
            " [1 , 2 ]\n",
        ] {
            let list = whole(text).unwrap();
            let before = elements(text, &list).unwrap();
            let put = insert(text, &list, &before, "\"x\"", &layout.line(1));
            let list = whole(&put).unwrap();
            let after = elements(&put, &list).unwrap();
            assert_eq!(after.len(), before.len() + 1, "{put}");
            let left = remove(&put, &list, &after, before.len());
            assert_eq!(left, RemovalResult::Text(text.to_owned()));
        }
    }

    #[test]
    fn what_stands_alone_behind_a_blank_leaves_with_its_brackets() {
        let text = "[ 1 ]";
        let list = whole(text).unwrap();
        let children = elements(text, &list).unwrap();
        assert_eq!(remove(text, &list, &children, 0), RemovalResult::Nothing);
        let text = "[1, 2]";
        let list = whole(text).unwrap();
        let children = elements(text, &list).unwrap();
        assert_eq!(
            remove(text, &list, &children, 0),
            RemovalResult::Text("[2]".to_owned())
        );
    }

    #[test]
    fn members_are_found_with_their_keys() {
        let text = r#" { "a" : 1, "b\"c":{"d":[2]} } "#;
        let object = whole(text).unwrap();
        let found = members(text, &object).unwrap();
        let spans = member_spans(text, &object, &found);
        let shown: Vec<&str> = spans.into_iter().map(|span| &text[span]).collect();
        assert_eq!(shown, [r#""a" : 1"#, r#""b\"c":{"d":[2]}"#]);
        assert_eq!(found[1].0, "b\"c");
        assert!(members("[]", &(0..2)).is_none());
    }

    #[test]
    fn the_layout_is_the_texts_own() {
        let tabs = JsonLayout::of("{\n\t\"a\": 1\n}");
        assert_eq!((tabs.line_end, tabs.indent.as_str()), ("\n", "\t"));
        let wide = JsonLayout::of("{\r\n    \"a\": 1\r\n}");
        assert_eq!((wide.line_end, wide.indent.as_str()), ("\r\n", "    "));
        assert_eq!(JsonLayout::of("{}").indent, "  ");
    }
}
