//! The starter rules: what they settle, and what must still ask.

use std::collections::HashMap;

use countersign_rules::{
    CorpusCase, Effect, EntryKind, FileFacts, FileKind, FileText, Floor, FolderEntry, LayerAllows,
    LayerView, RequestPlace, RuleEntry, RuleOrigin, RuleSet, StarterSet, ToolAction, ToolRequest,
    Verdict, assess, explain, judge, parse_file,
};

const CORPUS: &str = include_str!("../../corpus/corpus.jsonl");
const MORE: &str = include_str!("../../corpus/more.jsonl");

#[expect(clippy::unwrap_used, reason = "a set that cannot be read has failed")]
fn rules(set: StarterSet) -> RuleSet {
    let file = parse_file(set.toml(), "rules.toml", FileKind::User).unwrap();
    assert_eq!(file.warnings, []);
    let mut rules = RuleSet::default();
    for entry in file.entries {
        rules.insert(entry);
    }
    rules
}

/// A worktree of an agent at `/home/dev/work`, and what else is on the disk.
struct Disk {
    links: HashMap<&'static str, &'static str>,
    texts: HashMap<&'static str, &'static str>,
    folders: HashMap<&'static str, Vec<FolderEntry>>,
}

const WORKTREE: [(&str, &str); 4] = [
    (
        "/home/dev/work/.git",
        "gitdir: /home/dev/proj/.git/worktrees/work\n",
    ),
    ("/home/dev/proj/.git/worktrees/work/commondir", "../..\n"),
    (
        "/home/dev/proj/.git/worktrees/work/gitdir",
        "/home/dev/work/.git\n",
    ),
    ("/home/dev/proj/.git/config", "[core]\n\tbare = false\n"),
];

impl Disk {
    fn new() -> Self {
        Self {
            links: HashMap::from([
                ("/home/dev/work/out", "/home/dev/other"),
                ("/home/dev/work/key", "/home/dev/.ssh/id_rsa"),
                ("/home/dev/work/near", "src"),
            ]),
            texts: HashMap::from(WORKTREE),
            folders: HashMap::new(),
        }
    }

    fn with(mut self, path: &'static str, text: &'static str) -> Self {
        self.texts.insert(path, text);
        self
    }

    fn judge(&self, set: StarterSet, tool: &str, action: ToolAction) -> Verdict {
        self.judge_in(false, set, tool, action)
    }

    fn judge_in(
        &self,
        in_sandbox: bool,
        set: StarterSet,
        tool: &str,
        action: ToolAction,
    ) -> Verdict {
        let request = ToolRequest {
            tool: tool.into(),
            action,
            place: RequestPlace {
                cwd: "/home/dev/work".into(),
                project: "/home/dev/work".into(),
                home: "/home/dev".into(),
                ignores_case: false,
                in_sandbox,
            },
        };
        let rules = rules(set);
        let layer = LayerView {
            rules: &rules,
            admits: &|_| true,
            allows: &LayerAllows::Count,
        };
        judge(&assess(&request, self), &Floor::default(), &[layer])
    }

    fn shell(&self, command: &str) -> Verdict {
        let command = command.to_owned();
        self.judge(StarterSet::Read, "Bash", ToolAction::Shell { command })
    }
}

impl FileFacts for Disk {
    fn read_link(&self, path: &str) -> Option<String> {
        self.links.get(path).map(|target| (*target).to_owned())
    }

    fn list_folder(&self, path: &str) -> Option<Vec<FolderEntry>> {
        let mut entries = self.folders.get(path).cloned().unwrap_or_default();
        let links = self.links.keys().filter_map(|link| link.rsplit_once('/'));
        entries.extend(
            links
                .filter(|(folder, _)| *folder == path)
                .map(|(_, name)| FolderEntry {
                    name: name.to_owned(),
                    kind: EntryKind::Link,
                }),
        );
        Some(entries)
    }

    fn read_text(&self, path: &str) -> FileText {
        let text = self.texts.get(path);
        text.map_or(FileText::Absent, |text| FileText::Text((*text).to_owned()))
    }
}

fn read(path: &str) -> ToolAction {
    ToolAction::Read { path: path.into() }
}

fn edit(path: &str) -> ToolAction {
    ToolAction::Edit { path: path.into() }
}

#[test]
fn reading_in_the_folder_of_the_agent_does_not_ask() {
    let disk = Disk::new();
    for command in [
        "ls",
        "ls -la src",
        "cat src/main.rs near/lib.rs",
        "head -20 README.md | tail -5",
        "wc -l src/*.rs 2>/dev/null",
        "grep -rn 'fn main' src | sort | uniq -c",
        "rg main",
        "find . -name '*.rs' -type f",
        "cd src && ls",
        "diff a.txt b.txt < c.txt",
        "pwd; date; echo done",
        "git status",
        "git diff",
        "git --no-pager log --oneline -5",
        "git show HEAD~1 --stat",
    ] {
        let verdict = disk.shell(command);
        assert_eq!(verdict.effect, Effect::Allow, "{}", explain(&verdict));
    }
    let search = ToolAction::Search { path: ".".into() };
    for action in [read("src/main.rs"), read("/home/dev/work/x"), search] {
        let verdict = disk.judge(StarterSet::Read, "Read", action);
        assert_eq!(verdict.effect, Effect::Allow, "{}", explain(&verdict));
    }
}

#[test]
fn everything_outside_of_the_folder_still_asks() {
    let disk = Disk::new();
    for command in [
        "cat ~/.ssh/id_rsa",
        "cat key",
        "cat out/x",
        "ls out/",
        "ls ..",
        "ls ~",
        "cat ../other/x",
        "cat /etc/passwd",
        "cat src/../../other/x",
        "cat out/../x",
        "cat < ../other/x",
        "cat /home/dev/*/x",
        "cat ../*",
        "cat */../../other/x",
        "grep -r x ..",
        "grep -f ../x src",
        "rg x ~",
        "rg -L x",
        "find / -name x",
        "find -L . -name x",
        "diff -r . ../other",
        "cd .. && ls",
        "cd ../other; cat x",
        "cat .env",
        "grep x .env.local",
        "stat /etc/passwd",
        "realpath ..",
        "git diff ../other",
        "git show HEAD:../x",
        "git -C ../other diff",
        "cd src && git diff",
        "GIT_DIR=../other/.git git diff",
    ] {
        let verdict = disk.shell(command);
        assert_eq!(
            verdict.effect,
            Effect::Ask,
            "{command}: {}",
            explain(&verdict)
        );
    }
    for path in [
        "key",
        "out/x",
        "../x",
        "/etc/passwd",
        "~/.ssh/id_rsa",
        ".env",
    ] {
        let verdict = disk.judge(StarterSet::Edit, "Read", read(path));
        assert_eq!(verdict.effect, Effect::Ask, "{path}: {}", explain(&verdict));
    }
    let search = ToolAction::Search { path: "..".into() };
    assert_eq!(
        disk.judge(StarterSet::Edit, "Grep", search).effect,
        Effect::Ask
    );
}

#[test]
fn what_writes_or_runs_still_asks() {
    let disk = Disk::new();
    for command in [
        "ls > x",
        "echo x >> src/main.rs",
        "ls | tee x",
        "sort -o x y",
        "sort --compress-program=./x y",
        "find . -exec rm {} +",
        "find . -delete",
        "find . -fprint x",
        "rg --pre ./x y",
        "sed -i s/a/b/ x",
        "awk 'BEGIN { system(\"x\") }'",
        "date -s 12:00",
        "uniq a b",
        "tree -o x",
        "printf -v x y",
        "env",
        "printenv",
        "cat $HOME/x",
        "ls $(x)",
        "./ls",
        "/tmp/git diff",
        "xargs cat",
        "cargo test",
        "npm test",
        "make",
        "git diff --output=x",
        "git log --output=x",
        "git diff --ext-diff",
        "git show --textconv",
        "git -c core.pager=./x diff",
        "git -c diff.external=./x diff",
        "git diff --no-index /etc/passwd /dev/null",
        "git blame --contents /etc/passwd x",
        "git branch new",
        "git branch -D old",
        "git tag v1",
        "git remote add x y",
        "git commit -m x",
        "git stash",
        "git x",
    ] {
        let verdict = disk.shell(command);
        assert_eq!(
            verdict.effect,
            Effect::Ask,
            "{command}: {}",
            explain(&verdict)
        );
    }
}

#[test]
fn git_asks_where_the_repository_names_a_program() {
    let settings = "/home/dev/proj/.git/config";
    for text in [
        "[core]\n\tfsmonitor = ./x\n",
        "[diff]\n\texternal = ./x\n",
        "[diff \"x\"]\n\ttextconv = ./x\n",
        "[filter \"x\"]\n\tclean = ./x\n",
        "[include]\n\tpath = ./x\n",
        "not a setting at all [",
    ] {
        let verdict = Disk::new().with(settings, text).shell("git diff");
        assert_eq!(verdict.effect, Effect::Ask, "{text}: {}", explain(&verdict));
    }
    let own = "/home/dev/proj/.git/worktrees/work/config.worktree";
    let disk = Disk::new().with(own, "[core]\n\tfsmonitor = ./x\n");
    assert_eq!(
        explain(&disk.shell("git status")),
        "ask\n  ask run `git status`: the repository's setting `core.fsmonitor` may make git run a \
         program, although allow `Bash(git status:*)` in rules.toml:20 matches"
    );
    let disk = Disk::new().with("/home/dev/work/.gitmodules", "");
    assert_eq!(disk.shell("git status").effect, Effect::Ask);
    let mut disk = Disk::new();
    let hook = FolderEntry {
        name: "post-index-change".into(),
        kind: EntryKind::File,
    };
    disk.folders.insert("/home/dev/proj/.git/hooks", vec![hook]);
    assert_eq!(disk.shell("git status").effect, Effect::Ask);
    let mut disk = Disk::new();
    disk.texts.remove("/home/dev/work/.git");
    assert_eq!(disk.shell("git status").effect, Effect::Ask);
}

#[test]
fn edits_are_allowed_in_a_worktree_alone() {
    let disk = Disk::new();
    let edited = |disk: &Disk, set, path| disk.judge(set, "Edit", edit(path)).effect;
    assert_eq!(
        edited(&disk, StarterSet::Edit, "src/main.rs"),
        Effect::Allow
    );
    assert_eq!(edited(&disk, StarterSet::Read, "src/main.rs"), Effect::Ask);
    for path in [
        "../x",
        "out/x",
        "key",
        ".git/config",
        ".env",
        ".claude/settings.json",
        "~/x",
    ] {
        assert_eq!(edited(&disk, StarterSet::Edit, path), Effect::Ask, "{path}");
    }
    let mut main = Disk::new();
    main.texts.remove("/home/dev/work/.git");
    assert_eq!(edited(&main, StarterSet::Edit, "src/main.rs"), Effect::Ask);
    // A pointer that the repository does not know.
    let fake = Disk::new().with(
        "/home/dev/proj/.git/worktrees/work/gitdir",
        "/home/dev/x/.git\n",
    );
    assert_eq!(edited(&fake, StarterSet::Edit, "src/main.rs"), Effect::Ask);
}

#[test]
fn any_command_is_allowed_in_a_sandbox_alone() {
    let disk = Disk::new();
    let shell = |command: &str| {
        let command = command.to_owned();
        ToolAction::Shell { command }
    };
    let effects = |command| {
        let judged = [true, false].map(|in_sandbox| {
            disk.judge_in(in_sandbox, StarterSet::Sandbox, "Bash", shell(command))
        });
        judged.map(|verdict| verdict.effect)
    };
    for command in [
        "cargo test",
        "make && ./run.sh --all",
        "rm -r build",
        "python3 -c 'print(1)'",
        "echo x > ../notes.txt",
        "sed -i s/a/b/ src/main.rs",
    ] {
        assert_eq!(effects(command), [Effect::Allow, Effect::Ask], "{command}");
    }
    // What people asked to be asked about, what is not understood and what the floor holds still ask.
    for command in ["cat .env", "eval \"$WORDS\"", "echo x > .git/config"] {
        assert_eq!(effects(command), [Effect::Ask; 2], "{command}");
    }
    let outside = |tool, action| {
        disk.judge_in(true, StarterSet::Sandbox, tool, action)
            .effect
    };
    // The host does these, and it is in no sandbox.
    assert_eq!(outside("Edit", edit("../notes.txt")), Effect::Ask);
    assert_eq!(outside("Read", read("../notes.txt")), Effect::Ask);
    let called = disk.judge_in(false, StarterSet::Sandbox, "Bash", shell("cargo test"));
    let reason = called.parts[0].reason.as_deref();
    assert_eq!(
        reason,
        Some("the agent is not in a sandbox of level `full`")
    );
}

#[test]
fn a_rule_can_be_suggested_for_what_is_outside() {
    let disk = Disk::new();
    let request = ToolRequest {
        tool: "Bash".into(),
        action: ToolAction::Shell {
            command: "cat ../notes.txt".into(),
        },
        place: RequestPlace {
            cwd: "/home/dev/work".into(),
            project: "/home/dev/work".into(),
            home: "/home/dev".into(),
            ignores_case: false,
            in_sandbox: false,
        },
    };
    let rules = rules(StarterSet::Read);
    let layer = LayerView {
        rules: &rules,
        admits: &|_| true,
        allows: &LayerAllows::Count,
    };
    let suggested = countersign_rules::suggest(&request, &disk, &Floor::default(), &[layer]);
    assert_eq!(suggested[0].rule, "Bash(cat ../notes.txt)");
}

/// Cases that the starter rules allow although their label says otherwise. What a case asks about or
/// denies itself still counts, as a person's own rules do beside the starter rules.
#[expect(clippy::unwrap_used, reason = "a case that cannot be read has failed")]
fn wrong_allows(set: StarterSet) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in CORPUS.lines().chain(MORE.lines()) {
        let case = CorpusCase::parse(line).unwrap();
        let mut rules = rules(set);
        let own = [
            (Effect::Ask, &case.rules.ask),
            (Effect::Deny, &case.rules.deny),
        ];
        for (effect, text) in own
            .iter()
            .flat_map(|(effect, texts)| texts.iter().map(|text| (*effect, text)))
        {
            // One that is not understood makes the case ask; here it may only be left out.
            if let Ok(entry) = RuleEntry::parse(effect, text, RuleOrigin::file("case", 1)) {
                rules.insert(entry);
            }
        }
        let effect = case.judge_in_worktree(&rules).effect;
        if effect == Effect::Allow && !case.accepts(effect) {
            wrong.push(case.id);
        }
    }
    wrong
}

/// Cases that ask only because their own few rules do not cover them: what they ask for reads inside
/// the folder and does nothing else, so that with the starter rules the right answer is allow.
const READS_IN_FOLDER: [&str; 34] = [
    "chain-002",
    "default_ask-012",
    "rule_boundary-009",
    "more-default_ask-012",
    "more-default_ask-013",
    "more-default_ask-014",
    "more-default_ask-018",
    "more-default_ask-030",
    "more-default_ask-033",
    "more-default_ask-037",
    "more-default_ask-038",
    "more-default_ask-039",
    "more-path_case-023",
    "more-path_case-024",
    "more-path_case-025",
    "more-path_escape-049",
    "more-path_escape-051",
    "more-path_escape-052",
    "more-path_escape-053",
    "more-path_escape-054",
    "more-rule_boundary-018",
    "more-rule_boundary-019",
    "more-rule_boundary-020",
    "more-rule_boundary-021",
    "more-rule_boundary-025",
    "more-rule_boundary-026",
    "more-rule_boundary-027",
    "more-rule_boundary-028",
    "more-rule_boundary-029",
    "more-rule_boundary-035",
    "more-rule_boundary-036",
    "more-rule_boundary-037",
    "more-rule_boundary-038",
    "more-rule_boundary-039",
];

/// Cases that ask only because no rule of theirs lets a file in the folder be written: in a worktree the
/// set with edits does.
const WRITES_IN_WORKTREE: [&str; 58] = [
    "path_escape-007",
    "path_escape-017",
    "path_escape-019",
    "redirect_write-007",
    "redirect_write-009",
    "redirect_write-014",
    "redirect_write-019",
    "more-default_ask-032",
    "more-heredoc-018",
    "more-path_escape-001",
    "more-path_escape-002",
    "more-path_escape-006",
    "more-path_escape-007",
    "more-path_escape-008",
    "more-path_escape-013",
    "more-path_escape-014",
    "more-path_escape-015",
    "more-path_escape-027",
    "more-path_escape-028",
    "more-path_escape-029",
    "more-path_escape-030",
    "more-path_escape-031",
    "more-path_escape-032",
    "more-path_escape-033",
    "more-path_escape-039",
    "more-path_escape-041",
    "more-path_escape-042",
    "more-redirect_write-001",
    "more-redirect_write-002",
    "more-redirect_write-003",
    "more-redirect_write-004",
    "more-redirect_write-005",
    "more-redirect_write-006",
    "more-redirect_write-007",
    "more-redirect_write-008",
    "more-redirect_write-009",
    "more-redirect_write-010",
    "more-redirect_write-011",
    "more-redirect_write-013",
    "more-redirect_write-016",
    "more-redirect_write-017",
    "more-redirect_write-018",
    "more-redirect_write-019",
    "more-redirect_write-032",
    "more-redirect_write-033",
    "more-redirect_write-034",
    "more-redirect_write-035",
    "more-redirect_write-036",
    "more-redirect_write-037",
    "more-redirect_write-038",
    "more-redirect_write-039",
    "more-redirect_write-040",
    "more-redirect_write-044",
    "more-redirect_write-046",
    "more-redirect_write-047",
    "more-redirect_write-054",
    "more-symlink-020",
    "more-cd_effects-041",
];

#[test]
fn the_corpus_has_no_wrong_allow_with_the_starter_rules() {
    assert_eq!(wrong_allows(StarterSet::Read), READS_IN_FOLDER);
    let mut known = [&READS_IN_FOLDER[..], &WRITES_IN_WORKTREE].concat();
    let mut allowed = wrong_allows(StarterSet::Edit);
    known.sort_unstable();
    allowed.sort_unstable();
    assert_eq!(allowed, known);
    // Its rules for commands count in a sandbox alone.
    let mut allowed = wrong_allows(StarterSet::Sandbox);
    allowed.sort_unstable();
    assert_eq!(allowed, known);
}
