//! Worktrees of real repositories, some of them written to by somebody hostile.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign_agents::worktree::{
    self, DiffFile, DiscardWork, FileStatus, MergeOutcome, RemovalOutcome, WorktreeDiff,
    WorktreeError, WorktreeStatus,
};
use countersign_core::event::Worktree;
use tempfile::TempDir;

/// A scratch repository with one commit.
struct Scratch {
    _folder: TempDir,
    repo: PathBuf,
}

impl Scratch {
    fn new() -> Self {
        Self::with(&["init", "-q", "-b", "main"])
    }

    fn with(init: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let repo = folder.path().canonicalize().unwrap().join("app");
        fs::create_dir(&repo).unwrap();
        let scratch = Self {
            _folder: folder,
            repo,
        };
        git(&scratch.repo, init);
        scratch.write("README.md", "one\n");
        scratch.write("src/lib.rs", "fn a() {}\nfn b() {}\n");
        scratch.write(".gitignore", ".env\n/target/\nsecret/\n");
        scratch.commit("first");
        scratch
    }

    fn write(&self, path: &str, text: &str) {
        write(&self.repo, path, text);
    }

    fn commit(&self, words: &str) {
        commit(&self.repo, words);
    }

    fn head(&self) -> String {
        git(&self.repo, &["rev-parse", "HEAD"])
    }

    async fn worktree(&self) -> Worktree {
        worktree::create(&self.repo, "builder", None).await.unwrap()
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn commit(root: &Path, words: &str) {
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "-m", words]);
}

fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {args:?}: {words}");
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned()
}

fn read(worktree: &Worktree, path: &str) -> Option<String> {
    fs::read_to_string(Path::new(&worktree.path).join(path)).ok()
}

fn file(path: &str, status: FileStatus, added: u64, removed: u64) -> DiffFile {
    DiffFile {
        path: path.into(),
        from: None,
        status,
        added,
        removed,
        binary: false,
    }
}

fn removed() -> RemovalOutcome {
    RemovalOutcome::Removed { branch_kept: None }
}

#[tokio::test]
async fn a_worktree_lies_beside_the_repository_on_a_branch_of_its_own() {
    let scratch = Scratch::new();
    let first = scratch.worktree().await;
    let second = worktree::create(&scratch.repo.join("src"), "Builder!", None)
        .await
        .unwrap();
    let expected = |word: &str| Worktree {
        path: scratch
            .repo
            .with_file_name("app.worktrees")
            .join(word)
            .display()
            .to_string(),
        branch: format!("countersign/{word}"),
        base: scratch.head(),
        repository: scratch.repo.display().to_string(),
    };
    assert_eq!(
        [&first, &second],
        [&expected("builder"), &expected("builder-2")]
    );
    assert_eq!(read(&first, "README.md"), Some("one\n".into()));
    assert_eq!(git(Path::new(&first.path), &["status", "--porcelain"]), "");
    assert_eq!(git(&scratch.repo, &["status", "--porcelain"]), "");
    let below = worktree::folder(&second, &scratch.repo.join("src"));
    assert_eq!(below, Path::new(&second.path).join("src"));
    assert_eq!(
        worktree::folder(&second, Path::new("/")),
        Path::new(&second.path)
    );
}

#[tokio::test]
async fn ids_of_the_longer_kind_work_too() {
    let scratch = Scratch::with(&["init", "-q", "-b", "main", "--object-format=sha256"]);
    let made = scratch.worktree().await;
    write(Path::new(&made.path), "new", "x\n");
    let diff = worktree::diff(&made, None).await.unwrap();
    assert_eq!(diff.files, [file("new", FileStatus::Added, 1, 0)]);
}

#[tokio::test]
async fn one_file_is_compared_alone_and_its_name_is_no_pattern() {
    let scratch = Scratch::new();
    let made = scratch.worktree().await;
    for name in ["a*", "ab"] {
        write(Path::new(&made.path), name, "x\n");
    }
    let one = worktree::diff(&made, Some("a*")).await.unwrap();
    assert_eq!(one.files, [file("a*", FileStatus::Added, 1, 0)]);
    assert_eq!(one.text.matches("diff --git").count(), 1);
    let none = worktree::diff(&made, Some("b")).await.unwrap();
    assert_eq!(none, WorktreeDiff::default());
}

#[tokio::test]
async fn what_cannot_be_a_worktree_is_refused_in_words() {
    let nowhere = TempDir::new().unwrap();
    let words = |result: Result<Worktree, WorktreeError>| result.unwrap_err().to_string();
    let path = nowhere.path().display();
    assert_eq!(
        words(worktree::create(nowhere.path(), "a", None).await),
        format!("`{path}` is not inside a git repository")
    );
    git(nowhere.path(), &["init", "-q"]);
    let real = nowhere.path().canonicalize().unwrap();
    assert_eq!(
        words(worktree::create(nowhere.path(), "a", None).await),
        format!("the repository `{}` has no commit yet", real.display())
    );
    let scratch = Scratch::new();
    let create = async |branch| words(worktree::create(&scratch.repo, "a", Some(branch)).await);
    for bad in ["-x", "a..b", "HEAD", ""] {
        assert_eq!(
            create(bad).await,
            format!("`{bad}` cannot be the name of a branch")
        );
    }
    let repo = scratch.repo.display();
    assert_eq!(
        create("main").await,
        format!("branch `main` is checked out in `{repo}`")
    );
    assert!(!scratch.repo.with_file_name("app.worktrees").exists());
}

#[tokio::test]
async fn a_named_branch_is_used_or_made_and_outlives_the_worktree_if_it_was_there() {
    let scratch = Scratch::new();
    git(&scratch.repo, &["branch", "old"]);
    let old = worktree::create(&scratch.repo, "a", Some("old"))
        .await
        .unwrap();
    let new = worktree::create(&scratch.repo, "b", Some("feature/new"))
        .await
        .unwrap();
    assert_eq!([&*old.branch, &*new.branch], ["old", "feature/new"]);
    let kept = RemovalOutcome::Removed {
        branch_kept: Some("old".into()),
    };
    assert_eq!(worktree::remove(&old, DiscardWork::No).await.unwrap(), kept);
    assert_eq!(
        worktree::remove(&new, DiscardWork::No).await.unwrap(),
        removed()
    );
    let branches = git(&scratch.repo, &["branch", "--format=%(refname:short)"]);
    assert_eq!(branches, "main\nold");
}

#[tokio::test]
async fn ignored_files_that_are_named_are_copied_and_nothing_else() {
    let scratch = Scratch::new();
    let outside = TempDir::new().unwrap();
    write(outside.path(), "key", "outside");
    scratch.write(".worktreeinclude", ".env\n*.md\nsecret/\nlink\n");
    scratch.write(".gitignore", ".env\n/target/\nsecret/\nlink\n");
    scratch.commit("include");
    scratch.write(".env", "KEY=1\n");
    scratch.write("src/.env", "KEY=2\n");
    scratch.write("notes.md", "not ignored\n");
    scratch.write("target/big", "not named\n");
    scratch.write("secret/run", "#!/bin/sh\n");
    let run = scratch.repo.join("secret/run");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(outside.path().join("key"), scratch.repo.join("link")).unwrap();
    symlink(outside.path(), scratch.repo.join("secret/out")).unwrap();
    let made = scratch.worktree().await;
    let found = [
        ".env",
        "src/.env",
        "secret/run",
        "notes.md",
        "target/big",
        "link",
        "secret/out/key",
    ]
    .map(|path| read(&made, path));
    let expected = [
        Some("KEY=1\n"),
        Some("KEY=2\n"),
        Some("#!/bin/sh\n"),
        None,
        None,
        None,
        None,
    ];
    assert_eq!(found, expected.map(|text| text.map(str::to_owned)));
    let mode = fs::metadata(Path::new(&made.path).join("secret/run"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(
        worktree::remove(&made, DiscardWork::No).await.unwrap(),
        removed()
    );
}

#[tokio::test]
async fn a_diff_shows_committed_changed_moved_and_unknown_files() {
    let scratch = Scratch::new();
    scratch.write("gone", "bye\n");
    scratch.write("long", &"line\n".repeat(50));
    scratch.commit("more");
    let made = scratch.worktree().await;
    let root = Path::new(&made.path);
    write(root, "README.md", "one\ntwo\n");
    commit(root, "agent's");
    write(root, "src/lib.rs", "fn a() {}\n");
    write(root, ".env", "FORCED=1\n");
    git(root, &["add", "-f", ".env"]);
    write(root, "target/out", "ignored\n");
    write(root, "with space\n", "x\n");
    fs::rename(root.join("long"), root.join("moved")).unwrap();
    fs::remove_file(root.join("gone")).unwrap();
    git(root, &["init", "-q", "nested"]);
    write(root, "nested/inner", "x\n");
    let WorktreeDiff {
        text,
        files,
        truncated,
    } = worktree::diff(&made, None).await.unwrap();
    let expected = [
        file(".env", FileStatus::Added, 1, 0),
        file("README.md", FileStatus::Modified, 1, 0),
        file("gone", FileStatus::Deleted, 0, 1),
        DiffFile {
            from: Some("long".into()),
            ..file("moved", FileStatus::Renamed, 0, 0)
        },
        file("src/lib.rs", FileStatus::Modified, 0, 1),
        file("with space\n", FileStatus::Added, 1, 0),
        file("nested/", FileStatus::Repository, 0, 0),
    ];
    assert_eq!((files, truncated), (expected.to_vec(), false));
    assert!(
        text.contains("+++ b/README.md\n@@ -1 +1,2 @@\n one\n+two\n"),
        "{text}"
    );
    assert!(text.contains("-fn b() {}\n"), "{text}");
}

#[tokio::test]
async fn a_diff_that_is_too_long_ends_at_a_line_and_says_so() {
    let scratch = Scratch::new();
    let made = scratch.worktree().await;
    write(
        Path::new(&made.path),
        "big",
        &"a line of text\n".repeat(200_000),
    );
    let diff = worktree::diff(&made, None).await.unwrap();
    assert_eq!(diff.files, [file("big", FileStatus::Added, 200_000, 0)]);
    assert!(diff.truncated && diff.text.ends_with("+a line of text\n"));
    assert!(diff.text.len() <= countersign_core::limits::DIFF_BYTES_MAX);
}

#[tokio::test]
async fn changes_that_git_was_told_to_overlook_are_seen() {
    let scratch = Scratch::new();
    let made = scratch.worktree().await;
    let root = Path::new(&made.path);
    git(root, &["update-index", "--assume-unchanged", "README.md"]);
    git(root, &["update-index", "--skip-worktree", "src/lib.rs"]);
    write(root, "README.md", "hidden\n");
    write(root, "src/lib.rs", "hidden\n");
    let files = worktree::diff(&made, None).await.unwrap().files;
    let expected = [
        file("README.md", FileStatus::Modified, 1, 1),
        file("src/lib.rs", FileStatus::Modified, 1, 2),
    ];
    assert_eq!(files, expected);
    let kept = worktree::remove(&made, DiscardWork::No).await.unwrap();
    let why = "2 files are not committed, `README.md` among them".to_owned();
    assert_eq!(kept, RemovalOutcome::Kept { why });
}

#[tokio::test]
async fn uncommitted_work_is_deleted_only_when_told_to() {
    let scratch = Scratch::new();
    let made = scratch.worktree().await;
    let root = Path::new(&made.path);
    write(root, "draft", "x\n");
    let kept = |why: &str| RemovalOutcome::Kept { why: why.into() };
    let try_it = async || worktree::remove(&made, DiscardWork::No).await.unwrap();
    assert_eq!(try_it().await, kept("`draft` is not committed"));
    git(root, &["add", "draft"]);
    fs::remove_file(root.join("draft")).unwrap();
    assert_eq!(try_it().await, kept("`draft` is not committed"));
    git(root, &["reset", "-q", "--hard"]);
    git(root, &["checkout", "-q", "--detach"]);
    write(root, "lost", "x\n");
    commit(root, "on no branch");
    let head = git(root, &["rev-parse", "HEAD"]);
    assert_eq!(
        try_it().await,
        kept(&format!("commit {} is on no branch", &head[..12]))
    );
    write(root, "draft", "x\n");
    assert_eq!(
        worktree::remove(&made, DiscardWork::Yes).await.unwrap(),
        removed()
    );
    assert!(!root.exists());
    assert_eq!(
        worktree::remove(&made, DiscardWork::No).await.unwrap(),
        removed()
    );
}

#[tokio::test]
async fn commits_that_only_the_branch_holds_keep_it() {
    let scratch = Scratch::new();
    let made = scratch.worktree().await;
    write(Path::new(&made.path), "done", "x\n");
    commit(Path::new(&made.path), "work");
    let status = worktree::status(&made).await.unwrap();
    let expected = WorktreeStatus {
        branch: Some(made.branch.clone()),
        head: git(Path::new(&made.path), &["rev-parse", "HEAD"]),
        commits: 1,
        uncommitted: Vec::new(),
        more: false,
    };
    assert_eq!(status, expected);
    let kept = RemovalOutcome::Removed {
        branch_kept: Some(made.branch.clone()),
    };
    assert_eq!(
        worktree::remove(&made, DiscardWork::Yes).await.unwrap(),
        kept
    );
    assert_eq!(
        git(&scratch.repo, &["log", "--format=%s", "-1", &made.branch]),
        "work"
    );
}

/// Everything in a repository that names a program, made to leave a trace.
fn booby_trap(scratch: &Scratch, trace: &Path) {
    let repo = &scratch.repo;
    let program = trace.with_file_name("trap");
    fs::write(
        &program,
        format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat\n", trace.display()),
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let trap = program.display().to_string();
    let hooks = repo.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in [
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "pre-auto-gc",
    ] {
        fs::copy(&program, hooks.join(hook)).unwrap();
    }
    let attributes = "* filter=evil diff=evil merge=evil\n";
    fs::write(repo.join(".git/info/attributes"), attributes).unwrap();
    scratch.write(".gitattributes", attributes);
    scratch.commit("attributes");
    for name in [
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.alternateRefsCommand",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "hook.evil.command",
        "gpg.program",
        "pager.diff",
    ] {
        git(repo, &["config", name, &trap]);
    }
    for event in ["post-checkout", "reference-transaction"] {
        git(repo, &["config", "--add", "hook.evil.event", event]);
    }
    git(repo, &["config", "filter.evil.required", "true"]);
    git(repo, &["config", "log.showSignature", "true"]);
    fs::remove_file(trace).ok();
}

#[tokio::test]
async fn nothing_a_repository_names_is_run() {
    let scratch = Scratch::new();
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("trace");
    scratch.write(".worktreeinclude", ".env\n");
    scratch.write(".env", "x\n");
    booby_trap(&scratch, &trace);
    let made = scratch.worktree().await;
    write(Path::new(&made.path), "README.md", "changed\n");
    write(Path::new(&made.path), "new", "x\n");
    let files = worktree::diff(&made, None).await.unwrap().files;
    let expected = [
        file("README.md", FileStatus::Modified, 1, 1),
        file("new", FileStatus::Added, 1, 0),
    ];
    assert_eq!(files, expected);
    worktree::status(&made).await.unwrap();
    assert_eq!(
        worktree::remove(&made, DiscardWork::Yes).await.unwrap(),
        removed()
    );
    assert_eq!(fs::read_to_string(&trace).unwrap_or_default(), "");
}

#[tokio::test]
async fn a_worktree_whose_link_was_bent_is_still_judged_by_its_own_files() {
    let scratch = Scratch::new();
    let made = scratch.worktree().await;
    let other = Scratch::new();
    fs::write(
        Path::new(&made.path).join(".git"),
        format!("gitdir: {}\n", other.repo.join(".git").display()),
    )
    .unwrap();
    write(Path::new(&made.path), "draft", "x\n");
    let kept = RemovalOutcome::Kept {
        why: "`draft` is not committed".into(),
    };
    assert_eq!(
        worktree::remove(&made, DiscardWork::No).await.unwrap(),
        kept
    );
}

/// An agent's worktree with one commit on its branch.
async fn with_work(scratch: &Scratch, text: &str) -> Worktree {
    git(&scratch.repo, &["config", "user.name", "t"]);
    git(&scratch.repo, &["config", "user.email", "t@example.org"]);
    let worktree = scratch.worktree().await;
    write(Path::new(&worktree.path), "src/lib.rs", text);
    commit(Path::new(&worktree.path), "work");
    worktree
}

#[tokio::test]
async fn a_branch_is_merged_by_moving_forward_or_with_a_commit() {
    let scratch = Scratch::new();
    let worktree = with_work(&scratch, "fn a() {}\nfn c() {}\n").await;
    let work = git(Path::new(&worktree.path), &["rev-parse", "HEAD"]);
    // A change that is not in the way stays.
    scratch.write("README.md", "mine\n");
    let merged = worktree::merge(&worktree, None).await.unwrap();
    let expected = MergeOutcome::Merged {
        into: "main".into(),
        commit: work.clone(),
        fast_forward: true,
    };
    assert_eq!((merged, scratch.head()), (expected, work));
    assert_eq!(
        git(&scratch.repo, &["status", "--porcelain"]),
        " M README.md"
    );
    let again = worktree::merge(&worktree, None).await.unwrap();
    let into = "main".to_owned();
    assert_eq!(again, MergeOutcome::UpToDate { into });

    scratch.commit("mine");
    let before = scratch.head();
    write(Path::new(&worktree.path), "new", "new\n");
    commit(Path::new(&worktree.path), "more");
    let merged = worktree::merge(&worktree, None).await.unwrap();
    let MergeOutcome::Merged {
        commit,
        fast_forward: false,
        ..
    } = merged
    else {
        panic!("{merged:?}");
    };
    let parents = git(&scratch.repo, &["rev-list", "--parents", "-1", "HEAD"]);
    let work = git(Path::new(&worktree.path), &["rev-parse", "HEAD"]);
    assert_eq!(parents, format!("{commit} {before} {work}"));
    assert_eq!(git(&scratch.repo, &["status", "--porcelain"]), "");
    assert_eq!(
        fs::read_to_string(scratch.repo.join("new")).unwrap(),
        "new\n"
    );
}

#[tokio::test]
async fn a_merge_with_conflicts_or_files_in_the_way_changes_nothing() {
    let scratch = Scratch::new();
    let worktree = with_work(&scratch, "theirs\n").await;
    // Uncommitted changes of a person to a file that the merge would change.
    scratch.write("src/lib.rs", "unsaved\n");
    let before = scratch.head();
    let merged = worktree::merge(&worktree, None).await.unwrap();
    assert!(matches!(merged, MergeOutcome::Refused { .. }), "{merged:?}");
    let text = fs::read_to_string(scratch.repo.join("src/lib.rs")).unwrap();
    assert_eq!((scratch.head(), text), (before, "unsaved\n".into()));

    scratch.write("src/lib.rs", "ours\n");
    scratch.commit("ours");
    let before = scratch.head();
    let merged = worktree::merge(&worktree, None).await.unwrap();
    let expected = MergeOutcome::Conflicts {
        into: "main".into(),
        files: vec!["src/lib.rs".into()],
    };
    assert_eq!((merged, scratch.head()), (expected, before));
    assert_eq!(git(&scratch.repo, &["status", "--porcelain"]), "");

    write(Path::new(&worktree.path), "loose", "not committed\n");
    let merged = worktree::merge(&worktree, None).await.unwrap();
    let why = "`loose` in the worktree is not committed".to_owned();
    assert_eq!(merged, MergeOutcome::Refused { why });
}

#[tokio::test]
async fn a_merge_runs_no_driver_that_the_repository_names() {
    let scratch = Scratch::new();
    scratch.write(".gitattributes", "* merge=evil\n");
    scratch.commit("attributes");
    let worktree = with_work(&scratch, "fn a() {}\nfn c() {}\n").await;
    let ran = scratch.repo.with_file_name("ran");
    let driver = format!("touch '{}'", ran.display());
    git(&scratch.repo, &["config", "merge.evil.driver", &driver]);
    scratch.write("src/lib.rs", "fn z() {}\nfn b() {}\n");
    scratch.commit("ours");
    let merged = worktree::merge(&worktree, None).await.unwrap();
    assert!(
        matches!(merged, MergeOutcome::Conflicts { .. }),
        "{merged:?}"
    );
    assert!(!ran.exists());
}
