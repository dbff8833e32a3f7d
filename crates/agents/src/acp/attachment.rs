//! Files that go with a prompt, as content blocks.
//!
//! Every agent takes text and links to files. Images and embedded files only go to those that said so.

use serde_json::{Value, json};

use super::state::PromptAbilities;
use crate::adapter::AttachedFile;

pub(super) fn encode(abilities: PromptAbilities, file: &AttachedFile) -> Value {
    let uri = file_uri(file);
    let mime_type = &file.mime_type;
    if let Some(data) = file.image().filter(|_| abilities.image) {
        return json!({"type": "image", "mimeType": mime_type, "data": data, "uri": uri});
    }
    if let Some(text) = file.text().filter(|_| abilities.embedded_context) {
        let resource = json!({"uri": uri, "mimeType": mime_type, "text": text});
        return json!({"type": "resource", "resource": resource});
    }
    json!({"type": "resource_link", "uri": uri, "name": file.name(), "mimeType": mime_type})
}

/// Everything but what every reader of URIs takes as it is becomes an escape.
fn file_uri(file: &AttachedFile) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    let mut uri = String::from("file://");
    for byte in file.path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(mime_type: &str, content: Option<&[u8]>) -> AttachedFile {
        AttachedFile {
            path: "/p/a b.png".into(),
            mime_type: mime_type.into(),
            content: content.map(<[u8]>::to_vec),
        }
    }

    #[test]
    fn a_file_has_the_form_that_the_agent_takes() {
        let all = PromptAbilities {
            image: true,
            embedded_context: true,
        };
        let none = PromptAbilities::default();
        let image = file("image/png", Some(b"\x89PNG"));
        let text = file("text/plain", Some(b"hello"));
        let changed = file("image/png", None);
        let uri = "file:///p/a%20b.png";
        let link = |mime_type: &str| json!({"type": "resource_link", "uri": uri, "name": "a b.png", "mimeType": mime_type});
        let cases = [
            (
                all,
                &image,
                json!({"type": "image", "mimeType": "image/png", "data": "iVBORw==", "uri": uri}),
            ),
            (
                all,
                &text,
                json!({"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": "hello"}}),
            ),
            (none, &image, link("image/png")),
            (none, &text, link("text/plain")),
            (all, &changed, link("image/png")),
        ];
        for (abilities, file, expected) in cases {
            assert_eq!(encode(abilities, file), expected);
        }
    }
}
