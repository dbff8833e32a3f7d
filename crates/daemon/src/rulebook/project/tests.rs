use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A repository with one worktree, made as git makes them.
struct Fixture {
    _folder: TempDir,
    base: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let fixture = Self {
            _folder: folder,
            base,
        };
        fixture.write("repo/.git/HEAD", "ref: refs/heads/main\n");
        fixture.write("repo/src/main.rs", "");
        fixture.write("tree/.git", "gitdir: ../repo/.git/worktrees/tree\n");
        let back = fixture.base.join("tree/.git").display().to_string();
        fixture.write("repo/.git/worktrees/tree/gitdir", &format!("{back}\n"));
        fixture.write("repo/.git/worktrees/tree/commondir", "../..\n");
        fixture
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.base.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Root and identity of a folder, from the base on.
    fn find(&self, cwd: &str) -> Option<(String, String)> {
        let has_rules = |folder: &Path| folder.join(PROJECT_FILE).exists();
        let project = ProjectRoot::find(&self.base.join(cwd), has_rules)?;
        let shown = |path: &Path| path.strip_prefix(&self.base).unwrap().display().to_string();
        Some((shown(&project.root), shown(&project.identity)))
    }
}

fn pair(root: &str, identity: &str) -> (String, String) {
    (root.into(), identity.into())
}

#[test]
fn all_worktrees_of_a_repository_are_one_project() {
    let fixture = Fixture::new();
    assert_eq!(fixture.find("repo/src"), Some(pair("repo", "repo/.git")));
    assert_eq!(fixture.find("tree"), Some(pair("tree", "repo/.git")));
}

#[test]
fn a_folder_that_does_not_exist_belongs_where_it_would_be() {
    let fixture = Fixture::new();
    assert_eq!(
        fixture.find("repo/new/folder"),
        Some(pair("repo", "repo/.git"))
    );
}

#[test]
fn without_git_the_folder_with_rules_is_the_project() {
    let fixture = Fixture::new();
    fixture.write("plain/.countersign/rules.toml", "");
    fixture.write("plain/a/b", "");
    assert_eq!(fixture.find("plain/a"), Some(pair("plain", "plain")));
    assert_eq!(fixture.find(""), None);
}

#[test]
fn a_pointer_to_anothers_repository_is_not_believed() {
    let fixture = Fixture::new();
    fixture.write("evil/.git", "gitdir: ../repo/.git\n");
    assert_eq!(fixture.find("evil"), Some(pair("evil", "evil")));
    fixture.write("evil/.git", "gitdir: ../repo/.git/worktrees/tree\n");
    assert_eq!(fixture.find("evil"), Some(pair("evil", "evil")));
}

#[test]
fn a_pointer_both_ways_outside_of_the_repository_is_not_believed() {
    let fixture = Fixture::new();
    fixture.write("evil/.git", "gitdir: ../made\n");
    let back = fixture.base.join("evil/.git").display().to_string();
    fixture.write("made/gitdir", &back);
    let common = fixture.base.join("repo/.git").display().to_string();
    fixture.write("made/commondir", &common);
    assert_eq!(fixture.find("evil"), Some(pair("evil", "evil")));
}

#[test]
fn a_link_to_anothers_repository_is_not_believed() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.base.join("evil")).unwrap();
    symlink(
        fixture.base.join("repo/.git"),
        fixture.base.join("evil/.git"),
    )
    .unwrap();
    assert_eq!(fixture.find("evil"), Some(pair("evil", "evil")));
}

#[test]
fn a_copied_worktree_is_its_own_project() {
    let fixture = Fixture::new();
    fixture.write("copy/.git", "gitdir: ../repo/.git/worktrees/tree\n");
    assert_eq!(fixture.find("copy"), Some(pair("copy", "copy")));
    assert_eq!(fixture.find("tree"), Some(pair("tree", "repo/.git")));
}
