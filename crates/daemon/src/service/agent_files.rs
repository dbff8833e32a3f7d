//! Files in the folders of agents, for people: off the async threads, on a bounded number of threads, in bounded
//! time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use countersign_agents::{
    ExpectedFile, FileError, FilePiece, FileRange, FolderListing, ListDepth, PeopleFolder,
    RewrittenFile,
};
use countersign_core::limits::{FOLDER_READ_MS, FOLDER_READERS_MAX};
use countersign_core::{AgentId, Caller, Rejection, error_chain};

use super::{Service, ServiceResult};
use crate::reply::ServiceError;

/// A folder of an agent as it was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderLook {
    /// The agent's folder.
    pub folder: PathBuf,
    pub listing: FolderListing,
}

impl Service {
    /// Lists a folder inside an agent's folder.
    pub async fn list_folder(
        &self,
        caller: &Caller,
        agent: AgentId,
        path: String,
        depth: ListDepth,
    ) -> ServiceResult<FolderLook> {
        caller.refuse_agents()?;
        self.with_folder(agent, move |folder| {
            let listing = folder.list(&path, depth)?;
            let folder = folder.real_path().to_owned();
            Ok(FolderLook { folder, listing })
        })
        .await
    }

    /// Reads a piece of a file inside an agent's folder.
    pub async fn read_file(
        &self,
        caller: &Caller,
        agent: AgentId,
        path: String,
        range: FileRange,
    ) -> ServiceResult<FilePiece> {
        caller.refuse_agents()?;
        self.with_folder(agent, move |folder| folder.read(&path, range))
            .await
    }

    /// Writes a file inside an agent's folder, if it is what its writer read. Only for people: an orchestrator
    /// writes with tools of its own, which are judged.
    pub async fn write_file(
        &self,
        caller: &Caller,
        agent: AgentId,
        path: String,
        content: String,
        expected: ExpectedFile,
    ) -> ServiceResult<RewrittenFile> {
        caller.require_operator()?;
        let who = caller.principal.name.clone();
        let (owner, named) = (agent.clone(), path.clone());
        let written = self
            .with_folder(agent, move |folder| {
                folder.write(&path, &content, &expected)
            })
            .await?;
        let (bytes, digest) = (written.bytes, &written.digest);
        tracing::info!(agent = %owner, path = named, bytes, digest, %who, "a person wrote a file");
        Ok(written)
    }

    async fn with_folder<T: Send + 'static>(
        &self,
        agent: AgentId,
        work: impl FnOnce(&PeopleFolder) -> Result<T, FileError> + Send + 'static,
    ) -> ServiceResult<T> {
        let (found, _) = self.read_agent(agent.clone()).await?;
        // An agent that registered itself could name any folder as its own.
        let managed = found.managed.ok_or(Rejection::NotManaged(agent))?;
        let folder = PathBuf::from(managed.folder());
        let permit = self.shared.folder_readers.clone().try_acquire_owned();
        let permit = permit.map_err(|_| Rejection::TooMany {
            what: "readers of agents' folders",
            limit: FOLDER_READERS_MAX,
        })?;
        let rulebook = self.shared.rulebook.clone();
        let looking = tokio::task::spawn_blocking(move || {
            let floor = rulebook.rules_for(None).floor.clone();
            let own = floor.host_paths.iter().map(PathBuf::from).collect();
            let done = PeopleFolder::open(&folder, own).and_then(|folder| work(&folder));
            // On the blocking thread: a mount that never answers keeps its place.
            drop(permit);
            done
        });
        match tokio::time::timeout(Duration::from_millis(FOLDER_READ_MS), looking).await {
            Ok(Ok(done)) => done.map_err(refuse),
            Ok(Err(_)) => Err(ServiceError::ShuttingDown),
            Err(_) => Err(ServiceError::World(
                "the agent's folder did not answer in time; what was to be written may still be"
                    .into(),
            )),
        }
    }
}

fn refuse(error: FileError) -> ServiceError {
    let message = error_chain(&error);
    let rejection = match error {
        FileError::NotFound { .. } => Rejection::UnknownFile(message),
        FileError::BadPath { path } => Rejection::BadFilePath(bad_path(&path)),
        FileError::NotRegular { .. } | FileError::NotText { .. } => Rejection::BadFilePath(message),
        FileError::Outside { .. }
        | FileError::HostFile { .. }
        | FileError::FolderReplaced { .. } => Rejection::FileOutside(message),
        FileError::Changed { digest, .. } => Rejection::FileChanged { message, digest },
        FileError::TooLarge { max, .. } => Rejection::TooLarge {
            what: "the file",
            limit: max,
        },
        FileError::Moved { .. } | FileError::Failed { .. } => {
            return ServiceError::World(message.into());
        }
    };
    rejection.into()
}

fn bad_path(path: &Path) -> String {
    format!(
        "`{}` is not a path below the agent's folder",
        path.display()
    )
}
