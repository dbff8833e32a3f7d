//! Files in the folders of agents, for people to read and write.
//!
//! Invariant: an agent may call none of them, whatever its role; an observer may read.

use countersign_core::Caller;
use countersign_core::limits::FILE_PIECE_BYTES;
use countersign_daemon::{
    ExpectedFile, FilePiece, FileRange, FolderLook, ListDepth, RewrittenFile, Service,
};
use countersign_protocol as wire;
use countersign_protocol::Reason;

use super::Result;
use super::agents::find_id;
use crate::api_error::ApiError;

/// `if_digest` of a file that must not exist.
const NO_DIGEST: &str = "none";

/// A folder as it was listed.
pub(crate) struct ListedFolder {
    pub(crate) path: String,
    pub(crate) look: FolderLook,
}

/// A piece of a file as it was read.
pub(crate) struct ReadPiece {
    pub(crate) path: String,
    pub(crate) piece: FilePiece,
}

pub(crate) struct WrittenByPerson {
    pub(crate) path: String,
    pub(crate) file: RewrittenFile,
}

pub(crate) async fn list(
    service: &Service,
    caller: &Caller,
    agent: &str,
    query: wire::ListFilesQuery,
) -> Result<ListedFolder> {
    caller.refuse_agents()?;
    let agent = find_id(service, caller, agent)?;
    let depth = if query.recursive {
        ListDepth::Tree
    } else {
        ListDepth::Folder
    };
    let path = query.path.unwrap_or_default();
    let look = service
        .list_folder(caller, agent, path.clone(), depth)
        .await?;
    Ok(ListedFolder { path, look })
}

pub(crate) async fn read(
    service: &Service,
    caller: &Caller,
    agent: &str,
    query: wire::ReadFileQuery,
) -> Result<ReadPiece> {
    caller.refuse_agents()?;
    let agent = find_id(service, caller, agent)?;
    if query.from_end && query.offset.is_some() {
        let message = "give one of offset and from_end";
        return Err(ApiError::plain(Reason::InvalidParams, message));
    }
    let limit = query
        .limit
        .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let range = FileRange {
        offset: (!query.from_end).then(|| query.offset.unwrap_or_default()),
        bytes: limit.unwrap_or(FILE_PIECE_BYTES),
    };
    let piece = service
        .read_file(caller, agent, query.path.clone(), range)
        .await?;
    Ok(ReadPiece {
        path: query.path,
        piece,
    })
}

pub(crate) async fn write(
    service: &Service,
    caller: &Caller,
    agent: &str,
    body: wire::WriteFileBody,
) -> Result<WrittenByPerson> {
    caller.require_operator()?;
    let agent = find_id(service, caller, agent)?;
    let wire::WriteFileBody {
        content,
        if_digest,
        path,
    } = body;
    let digest = if_digest.filter(|digest| digest != NO_DIGEST);
    let expected = digest.map_or(ExpectedFile::Absent, ExpectedFile::Digest);
    let written = service.write_file(caller, agent, path.clone(), content, expected);
    Ok(WrittenByPerson {
        file: written.await?,
        path,
    })
}
