//! Rule files that come, change, break and vanish.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_daemon::{
    DirRules, ListedRule, RuleFileProblem, Rulebook, RulebookConfig, RulebookError, foreign_policy,
};
use countersign_rules::{Effect, ForeignTool, LayerAllows, ToolRequest, assess, judge};
use tempfile::TempDir;

/// A home with a project in it.
struct Fixture {
    _folder: TempDir,
    home: PathBuf,
    project: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let project = home.join("project");
        fs::create_dir_all(project.join(".git")).unwrap();
        Self {
            _folder: folder,
            home,
            project,
        }
    }

    fn user_file(&self) -> PathBuf {
        self.home.join("rules.toml")
    }

    fn project_file(&self) -> PathBuf {
        self.project.join(".countersign/rules.toml")
    }

    fn config(&self) -> RulebookConfig {
        RulebookConfig {
            user_file: self.user_file(),
            home: self.home.clone(),
            host_paths: vec![self.home.join("countersign.db")],
            managed_claude: self.home.join("managed-settings.json"),
        }
    }

    fn open(&self) -> Arc<Rulebook> {
        Rulebook::open(self.config()).unwrap()
    }

    fn chapter(&self, book: &Rulebook) -> Arc<DirRules> {
        book.refresh();
        book.rules_for(self.project.to_str())
    }

    /// The rules of the project, each with its effect, where it stands and whether it counts.
    fn listed(&self, book: &Rulebook) -> Vec<String> {
        book.refresh();
        let listed = book.list_rules(self.project.to_str());
        listed.iter().map(|listed| self.shown(listed)).collect()
    }

    fn shown(&self, listed: &ListedRule) -> String {
        let ListedRule { rule, counts, .. } = listed;
        let file = rule
            .source
            .strip_prefix(self.home.to_str().unwrap())
            .unwrap();
        let line = rule.line.unwrap();
        let effect = rule.effect.as_str();
        let not = if *counts { "" } else { " (does not count)" };
        format!("{effect} {} {file}:{line}{not}", rule.rule)
    }

    fn problems(&self, book: &Rulebook) -> Vec<String> {
        book.refresh();
        let shown = |problem: RuleFileProblem| {
            let file = Path::new(&problem.file).strip_prefix(&self.home).unwrap();
            let line = problem.line.map(|line| format!(":{line}"));
            let suspends = if problem.suspends { " (suspends)" } else { "" };
            let line = line.unwrap_or_default();
            format!("{}{line}: {}{suspends}", file.display(), problem.message)
        };
        book.problems().into_iter().map(shown).collect()
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_host_without_rule_files_opens() {
    let fixture = Fixture::new();
    let book = fixture.open();
    let chapter = fixture.chapter(&book);
    assert_eq!(
        (
            chapter.layers.len(),
            chapter.suspended.clone(),
            chapter.place.project.clone(),
            chapter.floor.host_paths.clone(),
        ),
        (
            0,
            None,
            fixture.project.to_str().unwrap().to_owned(),
            vec![
                fixture
                    .home
                    .join("countersign.db")
                    .to_str()
                    .unwrap()
                    .to_owned()
            ],
        )
    );
}

#[test]
fn a_users_file_with_a_bad_deny_stops_the_host_with_file_and_line() {
    let fixture = Fixture::new();
    write(&fixture.user_file(), "allow = []\ndeny = [\n  \"\",\n]\n");
    let refused = Rulebook::open(fixture.config()).unwrap_err();
    let RulebookError::Rules(problems) = refused else {
        panic!("{refused}");
    };
    assert_eq!(
        problems.to_string(),
        format!("{}:3: ``: the rule is empty", fixture.user_file().display())
    );
}

#[test]
fn a_file_that_is_a_link_to_nowhere_is_broken_from_the_start() {
    let fixture = Fixture::new();
    let nowhere = fixture.home.join("nowhere");
    fs::create_dir_all(fixture.project_file().parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&nowhere, fixture.project_file()).unwrap();
    let chapter = fixture.chapter(&fixture.open());
    let why = format!(
        "{} is broken: it is a link that leads nowhere",
        fixture.project_file().display()
    );
    assert_eq!(chapter.suspended, Some(why));
    std::os::unix::fs::symlink(&nowhere, fixture.user_file()).unwrap();
    let error = Rulebook::open(fixture.config()).unwrap_err();
    assert!(matches!(error, RulebookError::Rules(_)), "{error}");
}

#[test]
fn an_edit_counts_without_a_restart_and_is_announced() {
    let fixture = Fixture::new();
    write(&fixture.user_file(), "allow = [\"Bash(ls)\"]\n");
    let book = fixture.open();
    let mut changes = book.changes();
    assert_eq!(fixture.listed(&book), ["allow Bash(ls) /rules.toml:1"]);
    changes.mark_unchanged();
    write(&fixture.user_file(), "\ndeny = [\"Bash(rm)\"]\n");
    assert_eq!(fixture.listed(&book), ["deny Bash(rm) /rules.toml:2"]);
    assert!(changes.has_changed().unwrap());
}

#[tokio::test]
async fn an_edit_is_noticed_when_nobody_asks() {
    let fixture = Fixture::new();
    let book = fixture.open();
    let mut changes = book.changes();
    assert!(!changes.has_changed().unwrap());
    write(&fixture.user_file(), "deny = [\"Bash(rm)\"]\n");
    changes.changed().await.unwrap();
    let rules: usize = book.rules_for(None).list_rules().len();
    assert_eq!(rules, 1);
}

#[test]
fn a_folder_that_cannot_be_is_one_that_is_not_known() {
    let fixture = Fixture::new();
    let book = fixture.open();
    for cwd in ["", "relative", "/a\0b", &"/a".repeat(4096)] {
        assert_eq!(book.rules_for(Some(cwd)).place.cwd, "", "{cwd}");
    }
}

#[test]
fn a_users_file_that_breaks_keeps_its_denies_and_suspends_every_allow() {
    let fixture = Fixture::new();
    write(
        &fixture.user_file(),
        "allow = [\"Bash(ls)\"]\nask = [\"Bash(git push)\"]\ndeny = [\"Bash(rm)\"]\n",
    );
    write(&fixture.project_file(), "ask = [\"Bash(make)\"]\n");
    let book = fixture.open();
    let whole = fixture.listed(&book);
    write(&fixture.user_file(), "dney = []\n");
    assert_eq!(
        fixture.listed(&book),
        [
            "ask Bash(git push) /rules.toml:2",
            "deny Bash(rm) /rules.toml:3",
            "ask Bash(make) /project/.countersign/rules.toml:1",
        ]
    );
    assert_eq!(
        fixture.problems(&book),
        [
            "rules.toml:1: unknown key `dney`; known are allow, ask, deny, rule, folder, worktree, sandbox, others (suspends)"
        ]
    );
    assert!(fixture.chapter(&book).suspended.is_some());
    assert!(book.rules_for(None).suspended.is_some());
    write(
        &fixture.user_file(),
        "allow = [\"Bash(ls)\"]\nask = [\"Bash(git push)\"]\ndeny = [\"Bash(rm)\"]\n",
    );
    assert_eq!(fixture.listed(&book), whole);
    assert_eq!(fixture.chapter(&book).suspended, None);
    assert_eq!(fixture.problems(&book), Vec::<String>::new());
}

#[test]
fn a_users_file_that_vanishes_is_broken_if_it_was_strict() {
    let fixture = Fixture::new();
    write(
        &fixture.user_file(),
        "allow = [\"Bash(ls)\"]\ndeny = [\"Bash(rm)\"]\n",
    );
    let book = fixture.open();
    fs::remove_file(fixture.user_file()).unwrap();
    assert_eq!(fixture.listed(&book), ["deny Bash(rm) /rules.toml:2"]);
    assert!(fixture.chapter(&book).suspended.is_some());
    write(&fixture.user_file(), "");
    assert_eq!(fixture.listed(&book), Vec::<String>::new());
    assert_eq!(fixture.chapter(&book).suspended, None);
}

#[test]
fn a_users_file_that_only_allowed_may_go() {
    let fixture = Fixture::new();
    write(&fixture.user_file(), "allow = [\"Bash(ls)\"]\n");
    let book = fixture.open();
    fs::remove_file(fixture.user_file()).unwrap();
    assert_eq!(fixture.listed(&book), Vec::<String>::new());
    assert_eq!(fixture.problems(&book), Vec::<String>::new());
}

#[test]
fn a_file_replaced_by_rename_is_read_whole() {
    let fixture = Fixture::new();
    write(&fixture.user_file(), "deny = [\"Bash(rm)\"]\n");
    let book = fixture.open();
    let new = fixture.home.join("rules.toml.new");
    write(&new, "deny = [\"Bash(dd)\"]\n");
    fs::rename(new, fixture.user_file()).unwrap();
    assert_eq!(fixture.listed(&book), ["deny Bash(dd) /rules.toml:1"]);
}

#[test]
fn a_project_file_tightens_at_once_and_loosens_only_when_trusted() {
    let fixture = Fixture::new();
    let text = "allow = [\"Bash(make)\"]\ndeny = [\"Bash(rm)\"]\n";
    write(&fixture.project_file(), text);
    let book = fixture.open();
    assert_eq!(
        fixture.listed(&book),
        [
            "allow Bash(make) /project/.countersign/rules.toml:1 (does not count)",
            "deny Bash(rm) /project/.countersign/rules.toml:2",
        ]
    );
    let chapter = fixture.chapter(&book);
    assert_eq!(chapter.layers[0].allows, LayerAllows::Untrusted);
    let content = chapter.untrusted[0].clone();
    assert_eq!(content.0, fixture.project_file().to_str().unwrap());

    book.set_trusted(HashSet::from([content]));
    assert_eq!(fixture.chapter(&book).layers[0].allows, LayerAllows::Count);
    assert_eq!(fixture.chapter(&book).untrusted, []);

    write(&fixture.project_file(), &text.replace("make)", "make:*)"));
    assert_eq!(
        fixture.chapter(&book).layers[0].allows,
        LayerAllows::Untrusted
    );
}

#[test]
fn a_project_file_without_allows_needs_no_trust() {
    let fixture = Fixture::new();
    write(&fixture.project_file(), "deny = [\"Bash(rm)\"]\n");
    let book = fixture.open();
    assert_eq!(fixture.chapter(&book).untrusted, []);
}

#[test]
fn a_broken_project_file_suspends_that_project_alone() {
    let fixture = Fixture::new();
    write(&fixture.project_file(), "deny = [\"Bash(rm)\"]\n");
    let book = fixture.open();
    fixture.chapter(&book);
    write(&fixture.project_file(), "deny = [");
    assert_eq!(
        fixture.listed(&book),
        ["deny Bash(rm) /project/.countersign/rules.toml:1"]
    );
    assert!(fixture.chapter(&book).suspended.is_some());
    assert_eq!(book.rules_for(fixture.home.to_str()).suspended, None);
}

#[test]
fn a_project_file_that_was_never_understood_suspends_that_project() {
    let fixture = Fixture::new();
    write(&fixture.project_file(), "deny = 1\n");
    let book = fixture.open();
    let chapter = fixture.chapter(&book);
    let why = format!(
        "{}:1 is broken: `deny` must be a list of rules",
        fixture.project_file().display()
    );
    assert_eq!(chapter.suspended, Some(why.clone()));
    assert_eq!(chapter.layers[0].allows, LayerAllows::Suspended(why));
}

#[test]
fn a_project_file_that_vanishes_leaves_its_denies() {
    let fixture = Fixture::new();
    write(
        &fixture.project_file(),
        "allow = [\"Bash(make)\"]\ndeny = [\"Bash(rm)\"]\n",
    );
    let book = fixture.open();
    fixture.chapter(&book);
    fs::remove_file(fixture.project_file()).unwrap();
    assert_eq!(
        fixture.listed(&book),
        ["deny Bash(rm) /project/.countersign/rules.toml:2"]
    );
    assert_eq!(fixture.chapter(&book).suspended, None);
    assert_eq!(
        fixture.problems(&book),
        [
            "project/.countersign/rules.toml: missing: its denies and asks still hold until it is restored \
          or the host restarts"
        ]
    );
}

#[test]
fn a_project_file_that_leads_out_of_the_project_is_refused() {
    let fixture = Fixture::new();
    write(&fixture.home.join("elsewhere.toml"), "");
    fs::create_dir(fixture.project.join(".countersign")).unwrap();
    std::os::unix::fs::symlink(fixture.home.join("elsewhere.toml"), fixture.project_file())
        .unwrap();
    let book = fixture.open();
    assert!(fixture.chapter(&book).suspended.is_some());
    assert_eq!(
        fixture.problems(&book),
        ["project/.countersign/rules.toml: it is a link that leads out of the project (suspends)"]
    );
}

#[test]
fn a_project_file_that_is_no_file_or_too_large_is_refused() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.project_file()).unwrap();
    let book = fixture.open();
    fixture.chapter(&book);
    assert_eq!(
        fixture.problems(&book),
        ["project/.countersign/rules.toml: it is no regular file (suspends)"]
    );
    fs::remove_dir(fixture.project_file()).unwrap();
    write(&fixture.project_file(), &"#".repeat(1024 * 1024 + 1));
    assert_eq!(
        fixture.problems(&book),
        ["project/.countersign/rules.toml: it is larger than 1048576 bytes (suspends)"]
    );
}

#[test]
fn what_is_told_about_a_file_is_bounded() {
    let fixture = Fixture::new();
    let book = fixture.open();
    let many = format!("ask = [{}]\n", "\"Bash(\",\n".repeat(2_000));
    write(&fixture.project_file(), &many);
    fixture.chapter(&book);
    assert_eq!(book.problems().len(), 1_000);
}

#[test]
fn a_folder_cannot_leave_its_project_by_declaring_itself_one() {
    let fixture = Fixture::new();
    write(
        &fixture.project_file(),
        "allow = [\"Bash(make)\"]\ndeny = [\"Bash(rm)\", \"Read(/secret/**)\"]\n",
    );
    let inner = fixture.project.join("inner");
    fs::create_dir_all(inner.join(".git")).unwrap();
    let book = fixture.open();
    let chapter = book.rules_for(inner.to_str());
    let listed: Vec<_> = chapter
        .list_rules()
        .iter()
        .map(|rule| fixture.shown(rule))
        .collect();
    let secret = format!(
        "deny Read(/{}/secret/**) /project/.countersign/rules.toml:2",
        fixture.project.display()
    );
    assert_eq!(chapter.place.project, inner.to_str().unwrap());
    assert_eq!(
        listed,
        [
            "deny Bash(rm) /project/.countersign/rules.toml:2".to_owned(),
            secret
        ]
    );
}

#[test]
fn the_users_own_file_is_no_project_file() {
    let fixture = Fixture::new();
    let user_file = fixture.home.join(".countersign/rules.toml");
    write(&user_file, "allow = [\"Bash(ls)\"]\n");
    let config = RulebookConfig {
        user_file,
        ..fixture.config()
    };
    let book = Rulebook::open(config).unwrap();
    let chapter = book.rules_for(fixture.home.to_str());
    assert_eq!(
        (
            chapter.project.clone(),
            chapter.layers.len(),
            chapter.untrusted.clone()
        ),
        (None, 1, vec![])
    );
}

/// What the rules of others add: files below the home.
fn others(fixture: &Fixture, switches: &str) {
    write(&fixture.user_file(), &format!("[others]\n{switches}\n"));
}

const CLAUDE: &str = r#"{"permissions": {"allow": ["Bash(ls)"], "deny": ["Bash(rm:*)"]}}"#;

#[test]
fn the_rules_of_others_count_only_when_switched_on() {
    let fixture = Fixture::new();
    write(&fixture.home.join(".claude/settings.json"), CLAUDE);
    let book = fixture.open();
    assert_eq!(fixture.listed(&book), Vec::<String>::new());
    others(&fixture, "claude = true");
    assert_eq!(
        fixture.listed(&book),
        [
            "allow Bash(ls) /.claude/settings.json:1",
            "deny Bash(rm:*) /.claude/settings.json:1",
        ]
    );
    others(&fixture, "claude = false");
    assert_eq!(fixture.listed(&book), Vec::<String>::new());
}

#[test]
fn the_rules_of_others_in_a_project_loosen_only_when_trusted() {
    let fixture = Fixture::new();
    others(&fixture, "claude = true");
    let local = fixture.project.join(".claude/settings.local.json");
    write(&local, CLAUDE);
    let book = fixture.open();
    let file = "/project/.claude/settings.local.json:1";
    assert_eq!(
        fixture.listed(&book),
        [
            format!("allow Bash(ls) {file} (does not count)"),
            format!("deny Bash(rm:*) {file}"),
        ]
    );
    let untrusted = fixture.chapter(&book).untrusted.clone();
    assert_eq!(untrusted[0].0, local.to_str().unwrap());
    book.set_trusted(untrusted.into_iter().collect());
    assert_eq!(
        fixture.listed(&book),
        [
            format!("allow Bash(ls) {file}"),
            format!("deny Bash(rm:*) {file}"),
        ]
    );
}

#[test]
fn a_broken_file_of_another_tool_suspends_and_never_stops_the_host() {
    let fixture = Fixture::new();
    others(&fixture, "claude = true\ncodex = true");
    let settings = fixture.home.join(".claude/settings.json");
    write(&settings, "{");
    write(
        &fixture.home.join(".codex/rules/default.rules"),
        "prefix_rule(pattern=[\"ls\"])\n",
    );
    let book = fixture.open();
    let why = format!("{}:1: a key was expected", settings.display());
    assert_eq!(fixture.chapter(&book).suspended, Some(why.clone()));
    assert_eq!(
        book.problems(),
        [RuleFileProblem {
            file: "rules of claude".into(),
            line: None,
            message: why,
            suspends: true,
        }]
    );
    write(&settings, "{}");
    assert_eq!(fixture.chapter(&book).suspended, None);
    assert_eq!(
        fixture.listed(&book),
        ["allow Bash(ls:*) /.codex/rules/default.rules:1"]
    );
}

#[test]
fn a_file_of_another_tool_that_breaks_keeps_its_denies() {
    let fixture = Fixture::new();
    others(&fixture, "claude = true");
    let settings = fixture.home.join(".claude/settings.json");
    write(&settings, CLAUDE);
    let book = fixture.open();
    write(&settings, "{");
    let deny = "deny Bash(rm:*) /.claude/settings.json:1";
    assert_eq!(fixture.listed(&book), [deny]);
    assert!(fixture.chapter(&book).suspended.is_some());
    fs::remove_file(&settings).unwrap();
    assert_eq!(fixture.listed(&book), Vec::<String>::new());
    assert_eq!(fixture.chapter(&book).suspended, None);
}

#[test]
fn folders_of_rules_are_followed_as_files_come_and_go() {
    let fixture = Fixture::new();
    others(&fixture, "gemini = true");
    let rule = |prefix: &str| {
        format!(
            "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"{prefix}\"\ndecision = \"deny\"\npriority = 1\n"
        )
    };
    let folder = fixture.home.join(".gemini/policies");
    let book = fixture.open();
    assert_eq!(fixture.listed(&book), Vec::<String>::new());
    write(&folder.join("a.toml"), &rule("rm"));
    write(&folder.join("ignored.txt"), "x");
    assert_eq!(
        fixture.listed(&book),
        ["deny Bash(rm:*) /.gemini/policies/a.toml:1"]
    );
    write(&folder.join("b.toml"), &rule("dd"));
    fs::remove_file(folder.join("a.toml")).unwrap();
    assert_eq!(
        fixture.listed(&book),
        ["deny Bash(dd:*) /.gemini/policies/b.toml:1"]
    );
}

#[test]
fn every_tool_is_found_where_it_keeps_its_rules() {
    let fixture = Fixture::new();
    others(
        &fixture,
        "claude = true\nopencode = true\ncodex = true\ngemini = true\ngoose = true",
    );
    let codex = |word: &str| format!("prefix_rule(pattern=[\"{word}\"], decision=\"forbidden\")\n");
    let claude = |word: &str| format!("{{\"permissions\": {{\"deny\": [\"Bash({word}:*)\"]}}}}");
    let opencode =
        |word: &str| format!("{{\"permission\": {{\"bash\": {{\"{word} *\": \"deny\"}}}}}}");
    let home = &fixture.home;
    let project = &fixture.project;
    write(&home.join("managed-settings.json"), &claude("a"));
    write(&home.join("managed-settings.d/x.json"), &claude("b"));
    write(&project.join(".claude/settings.json"), &claude("c"));
    write(
        &home.join(".config/opencode/opencode.jsonc"),
        &opencode("d"),
    );
    write(&project.join("opencode.json"), &opencode("e"));
    write(&home.join(".codex/rules/x.rules"), &codex("f"));
    write(&project.join(".codex/rules/x.rules"), &codex("g"));
    write(
        &home.join(".config/goose/permission.yaml"),
        "user:\n  never_allow:\n  - developer__shell\n",
    );
    let book = fixture.open();
    assert_eq!(
        fixture.listed(&book),
        [
            "deny Bash(a:*) /managed-settings.json:1",
            "deny Bash(b:*) /managed-settings.d/x.json:1",
            "deny Bash(c:*) /project/.claude/settings.json:1",
            "deny Bash(d:*) /.config/opencode/opencode.jsonc:1",
            "deny Bash(e:*) /project/opencode.json:1",
            "deny Bash(f:*) /.codex/rules/x.rules:1",
            "deny Bash(g:*) /project/.codex/rules/x.rules:1",
            "deny developer__shell /.config/goose/permission.yaml:3",
            "deny Bash /.config/goose/permission.yaml:3",
        ]
    );
}

/// What the files alone say of a command of an agent to which an operator gave a name.
fn says(book: &Rulebook, cwd: &Path, agent: Option<&str>, command: &str) -> Effect {
    book.refresh();
    let chapter = book.rules_for(cwd.to_str());
    let input = serde_json::json!({ "command": command });
    let request = ToolRequest::from_tool("Bash", Some(&input), chapter.place.clone());
    let assessed = assess(&request, book.facts());
    let verdict = chapter.with_layers(agent, |layers| judge(&assessed, &chapter.floor, layers));
    verdict.effect
}

#[test]
fn a_rule_for_one_agent_is_for_no_other() {
    let fixture = Fixture::new();
    write(
        &fixture.user_file(),
        "[[rule]]\nallow = \"Bash(ls)\"\nagent = \"builder\"\n\
         [[rule]]\ndeny = \"Bash(pwd)\"\nagent = \"builder\"\n",
    );
    let book = fixture.open();
    let says = |agent, command| says(&book, &fixture.project, agent, command);
    assert_eq!(says(Some("builder"), "ls"), Effect::Allow);
    assert_eq!(says(Some("other"), "ls"), Effect::Ask);
    assert_eq!(says(None, "ls"), Effect::Ask);
    assert_eq!(says(Some("builder"), "pwd"), Effect::Deny);
    assert_eq!(says(None, "pwd"), Effect::Ask);
}

#[test]
fn verdicts_follow_the_files() {
    let fixture = Fixture::new();
    let user = "allow = [\"Bash(ls)\", \"Bash(cat:*)\"]\ndeny = [\"Bash(rm:*)\"]\n";
    write(&fixture.user_file(), user);
    let book = fixture.open();
    let says = |command| says(&book, &fixture.project, None, command);
    assert_eq!([says("ls"), says("rm x")], [Effect::Allow, Effect::Deny]);

    write(
        &fixture.project_file(),
        "deny = [\"Bash(ls)\", \"Read(/secret/**)\"]\n",
    );
    assert_eq!([says("ls"), says("cat a")], [Effect::Deny, Effect::Allow]);
    assert_eq!(says("cat secret/a"), Effect::Deny);
    std::os::unix::fs::symlink("secret/a", fixture.project.join("link")).unwrap();
    assert_eq!(says("cat link"), Effect::Deny);

    write(&fixture.project_file(), "allow = [\"Bash(make)\"]\n");
    assert_eq!([says("ls"), says("make")], [Effect::Allow, Effect::Ask]);
    let untrusted = fixture.chapter(&book).untrusted.clone();
    book.set_trusted(untrusted.into_iter().collect());
    assert_eq!(says("make"), Effect::Allow);

    write(&fixture.user_file(), "deny = [");
    assert_eq!(says("ls"), Effect::Ask);
    assert_eq!([says("make"), says("rm x")], [Effect::Ask, Effect::Deny]);
}

#[test]
fn denies_hold_in_a_folder_that_declares_itself_a_project() {
    let fixture = Fixture::new();
    write(
        &fixture.user_file(),
        "allow = [\"Bash(cat:*)\", \"Bash(ls:*)\"]\n",
    );
    write(
        &fixture.project_file(),
        "deny = [\"Bash(ls:*)\", \"Read(/secret/**)\"]\n",
    );
    let inner = fixture.project.join("inner");
    fs::create_dir_all(inner.join(".git")).unwrap();
    write(&inner.join(".countersign/rules.toml"), "");
    let book = fixture.open();
    assert_eq!(says(&book, &inner, None, "ls"), Effect::Deny);
    assert_eq!(says(&book, &inner, None, "cat ../secret/a"), Effect::Deny);
    assert_eq!(says(&book, &inner, None, "cat a"), Effect::Allow);
}

#[test]
fn what_a_user_has_with_another_tool_can_be_imported_without_switching_it_on() {
    let fixture = Fixture::new();
    write(&fixture.home.join(".claude/settings.json"), CLAUDE);
    write(&fixture.project.join(".claude/settings.json"), CLAUDE);
    let policy = foreign_policy(&fixture.config(), ForeignTool::Claude);
    let rules: Vec<_> = policy
        .entries
        .iter()
        .map(|entry| entry.rule.text())
        .collect();
    assert_eq!(
        (rules, policy.broken),
        (vec!["Bash(ls)", "Bash(rm:*)"], None)
    );
}
