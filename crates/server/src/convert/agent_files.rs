//! Files in the folders of agents on the wire.

use std::time::SystemTime;

use countersign_daemon::{ListedFile, ListedKind, PieceText};
use countersign_protocol::{
    FileForm, FilePage, ListedFileKind, ListedFileRow, ListedFiles, SavedFile, Time,
};

use crate::ops::agent_files::{ListedFolder, ReadPiece, WrittenByPerson};

pub(super) fn listed(listed: &ListedFolder) -> ListedFiles {
    let listing = &listed.look.listing;
    ListedFiles {
        entries: listing.entries.iter().map(row).collect(),
        folder: listed.look.folder.display().to_string(),
        more: listing.is_cut,
        path: listed.path.clone(),
    }
}

fn row(file: &ListedFile) -> ListedFileRow {
    ListedFileRow {
        bytes: file.bytes,
        kind: match file.kind {
            ListedKind::File => ListedFileKind::File,
            ListedKind::Folder => ListedFileKind::Folder,
            ListedKind::Link => ListedFileKind::Link,
            ListedKind::Other => ListedFileKind::Other,
        },
        modified_at: file.modified.and_then(time_of),
        name: file.name.clone(),
    }
}

pub(super) fn page(read: &ReadPiece) -> FilePage {
    let piece = &read.piece;
    let (form, content) = match &piece.text {
        PieceText::Whole(text) => (FileForm::Text, Some(text.clone())),
        PieceText::Damaged(text) => (FileForm::Damaged, Some(text.clone())),
        PieceText::Binary => (FileForm::Binary, None),
    };
    FilePage {
        content,
        digest: piece.digest.clone(),
        form,
        from: piece.from,
        modified_at: piece.modified.and_then(time_of),
        next: piece.next,
        path: read.path.clone(),
        size: piece.size,
    }
}

pub(super) fn saved(written: &WrittenByPerson) -> SavedFile {
    SavedFile {
        digest: written.file.digest.clone(),
        path: written.path.clone(),
        size: written.file.bytes,
    }
}

fn time_of(time: SystemTime) -> Option<Time> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_micros()).ok().map(Time)
}
