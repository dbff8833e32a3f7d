//! A real runner, and the host's side of its link.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use countersign_agents::ProcessTree;
use countersign_agents::runner::{Link, RunnerRecord, RunnerStartSpec, connect, start};
use countersign_core::event::ProcessKey;
use tempfile::TempDir;

use super::{env, guarded};
use crate::link::wait_until_reaped;

const PATIENCE_MS: u64 = 60_000;

/// Cargo builds the examples of a crate beside its tests.
pub(crate) fn find_example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("our own path");
    let built = test.parent().and_then(Path::parent).expect("its folder");
    let program = built.join("examples").join(name);
    assert!(
        program.exists(),
        "`cargo test` of the whole crate builds it, and so does `cargo build --examples`"
    );
    program
}

pub(crate) struct Run {
    pub(crate) dir: TempDir,
    pub(crate) record: RunnerRecord,
    pub(crate) runner: ProcessKey,
}

impl Run {
    pub(crate) async fn start() -> Self {
        let dir = TempDir::new().expect("a folder");
        let tree = ProcessTree::create_with_marks().expect("a tree");
        let record = RunnerRecord {
            tree: tree.record(),
            folder: dir.path().join("run"),
            sockets: vec![dir.path().join("sockets/one"), dir.path().join("two/two")],
            patience_ms: PATIENCE_MS,
            protocol: countersign_core::event::Protocol::Acp,
        };
        let spec = RunnerStartSpec {
            command: vec![find_example("runner").into(), "runner".into()],
            record: record.clone(),
        };
        let started = guarded(start(&spec)).await.expect("a runner");
        let runner = started.key();
        Self {
            dir,
            record,
            runner,
        }
    }

    pub(crate) async fn connect(&self, heard: u64, open: Vec<u64>) -> Link {
        let link = connect(&self.record, self.runner, heard, open);
        guarded(link).await.expect("a link")
    }

    pub(crate) async fn launch(&self, link: &Link, script: &str) -> ProcessKey {
        let args = ["-c", script].map(OsString::from).to_vec();
        let cwd = self.dir.path().to_owned();
        let launched = link.sender.launch("/bin/sh".into(), args, cwd, env(), None);
        guarded(launched).await.expect("an agent")
    }

    pub(crate) async fn end(self, link: Link) {
        guarded(link.sender.bye()).await;
        wait_until_reaped(self.runner).await;
        assert!(!self.record.folder.exists());
    }
}
