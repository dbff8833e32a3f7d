//! Files in the folders of agents, for people to read and write.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::Time;

/// What of an agent's folder is listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListFilesQuery {
    /// The folder, relative to the agent's. Default: the agent's folder itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// List all files below it by their paths, the nearest first, without `.git`, `node_modules` and caches.
    #[serde(default)]
    pub recursive: bool,
}

/// What a folder holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ListedFiles {
    /// Folders first, then by name.
    pub entries: Vec<ListedFileRow>,
    /// The agent's folder, absolute.
    pub folder: String,
    /// Whether there is more than is listed.
    pub more: bool,
    /// The folder that was listed, relative to the agent's.
    pub path: String,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ListedFileRow {
    /// The length of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    pub kind: ListedFileKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub modified_at: Option<Time>,
    /// Its name, or its path below the listed folder.
    pub name: String,
}

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListedFileKind {
    File,
    Folder,
    Link,
    /// A pipe, a socket, a device, or a name that is not text.
    Other,
}

/// Which piece of a file is read.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ReadFileQuery {
    /// The file, relative to the agent's folder.
    pub path: String,
    /// The first byte. Default: the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How many bytes, at most 1048576. Default: 262144.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Read the last bytes instead; not together with `offset`.
    #[serde(default)]
    pub from_end: bool,
}

/// A piece of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FilePage {
    /// The text; absent if the file is binary. It may be an agent's: show control characters instead of obeying
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// SHA-256 of the whole file in hexadecimal, for files of at most 1048576 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    pub form: FileForm,
    /// The number of the first byte.
    pub from: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub modified_at: Option<Time>,
    /// Pass as `offset` to continue.
    pub next: u64,
    pub path: String,
    /// How many bytes the file has.
    pub size: u64,
}

/// What a piece of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileForm {
    /// UTF-8.
    Text,
    /// Text in which bytes that are not UTF-8 were replaced. It cannot be written back.
    Damaged,
    Binary,
}

/// A file as it is to be.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WriteFileBody {
    /// All of the file, at most 1048576 bytes.
    pub content: String,
    /// The digest of what the writer read. Absent or `none`: the file must not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_digest: Option<String>,
    /// The file, relative to the agent's folder.
    pub path: String,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SavedFile {
    pub digest: String,
    pub path: String,
    pub size: u64,
}
