//! Files that people attach to messages: looked at when they are attached, read again when they are sent.
//!
//! Invariant: what an agent gets is what was attached, or only the name of the file.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use countersign_agents::adapter::AttachedFile;
use countersign_core::event::PromptAttachment;
use countersign_core::limits::{ATTACHMENT_BYTES_MAX, ATTACHMENTS_BYTES_MAX, ATTACHMENTS_MAX};
use countersign_core::{Caller, Rejection};
use sha2::{Digest as _, Sha256};

use crate::reply::ServiceError;

/// What is recorded of the files. Only people attach files: what an agent may read is asked for.
pub(crate) async fn inspect(
    caller: &Caller,
    paths: Vec<String>,
) -> Result<Vec<PromptAttachment>, ServiceError> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    caller.require_operator()?;
    if paths.len() > ATTACHMENTS_MAX {
        return Err(Rejection::TooMany {
            what: "attachments",
            limit: ATTACHMENTS_MAX,
        }
        .into());
    }
    let inspected = tokio::task::spawn_blocking(move || inspect_all(paths)).await;
    inspected
        .unwrap_or_else(|_| Err(Rejection::BadAttachment("it could not be read".into())))
        .map_err(Into::into)
}

fn inspect_all(paths: Vec<String>) -> Result<Vec<PromptAttachment>, Rejection> {
    let mut found = Vec::new();
    let mut total = 0;
    for path in paths {
        if !path.starts_with('/') {
            return Err(Rejection::NotAbsolute("the path of a file"));
        }
        let content = read(Path::new(&path))
            .map_err(|error| Rejection::BadAttachment(format!("`{path}`: {error}")))?;
        let bytes = content.len() as u64;
        total += bytes;
        if total > ATTACHMENTS_BYTES_MAX {
            return Err(Rejection::BadAttachment(format!(
                "together they are longer than {ATTACHMENTS_BYTES_MAX} bytes"
            )));
        }
        found.push(PromptAttachment {
            mime_type: mime_type(&content).to_owned(),
            bytes,
            sha256: digest(&content),
            path,
        });
    }
    Ok(found)
}

/// The files as they go to the agent. One that has changed since goes without its content.
pub(crate) fn load(attachments: &[PromptAttachment]) -> Vec<AttachedFile> {
    attachments
        .iter()
        .map(|file| {
            let content = read(Path::new(&file.path)).ok();
            AttachedFile {
                path: file.path.clone().into(),
                mime_type: file.mime_type.clone(),
                content: content.filter(|content| digest(content) == file.sha256),
            }
        })
        .collect()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Looked at before it is opened: opening a pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut content = Vec::new();
    let file = File::open(path)?;
    file.take(ATTACHMENT_BYTES_MAX + 1)
        .read_to_end(&mut content)?;
    if content.len() as u64 > ATTACHMENT_BYTES_MAX {
        let message = format!("longer than {ATTACHMENT_BYTES_MAX} bytes");
        return Err(io::Error::other(message));
    }
    Ok(content)
}

fn digest(content: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in Sha256::digest(content) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// By what the file holds and not by its name: models refuse an image that is not what it claims to be.
fn mime_type(content: &[u8]) -> &'static str {
    match content {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => "image/webp",
        [b'%', b'P', b'D', b'F', ..] => "application/pdf",
        content if std::str::from_utf8(content).is_ok() => "text/plain",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changed_goes_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        std::fs::write(&path, "one").unwrap();
        let name = path.to_str().unwrap().to_owned();
        let found = inspect_all(vec![name.clone()]).unwrap();
        let expected = PromptAttachment {
            path: name,
            mime_type: "text/plain".into(),
            bytes: 3,
            sha256: "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed".into(),
        };
        assert_eq!(found, [expected]);
        assert_eq!(load(&found)[0].content.as_deref(), Some(&b"one"[..]));
        std::fs::write(&path, "two").unwrap();
        assert_eq!(load(&found)[0].content, None);
    }

    #[test]
    fn folders_pipes_and_long_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("long");
        let file = File::create(&long).unwrap();
        file.set_len(ATTACHMENT_BYTES_MAX + 1).unwrap();
        for path in [folder.path(), &long, Path::new("/nowhere/file")] {
            let refused = inspect_all(vec![path.to_str().unwrap().to_owned()]);
            assert!(
                matches!(refused, Err(Rejection::BadAttachment(_))),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn the_type_follows_from_the_content() {
        assert_eq!(mime_type(b"\x89PNG\r\n"), "image/png");
        assert_eq!(mime_type(b"\xff\xd8\xff\xe0"), "image/jpeg");
        assert_eq!(mime_type(b"RIFF0000WEBPVP8"), "image/webp");
        assert_eq!(mime_type("gr\u{fc}n".as_bytes()), "text/plain");
        assert_eq!(mime_type(b"\xff\x00"), "application/octet-stream");
    }
}
