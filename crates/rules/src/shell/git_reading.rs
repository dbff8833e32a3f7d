//! Commands of git that only read: known options alone, as a starter set allows them.
//!
//! Invariant: an option is accepted as it is written here, never by its beginning, so that git takes
//! it for nothing else.

/// Why a git command may do more than read the repository it runs in; nothing if it does not.
pub(crate) fn doubt(arguments: &[String]) -> Option<String> {
    let mut words = arguments.iter().map(String::as_str);
    let sub = words.find(|word| *word != "--no-pager");
    let Some(command) = sub.and_then(|sub| COMMANDS.iter().find(|command| command.name == sub))
    else {
        return Some("this command of git is not known to only read".to_owned());
    };
    let mut operands = 0;
    let mut is_path = false;
    while let Some(word) = words.next() {
        if is_path || !word.starts_with('-') || word == "-" {
            operands += 1;
            continue;
        }
        if word == "--" {
            is_path = true;
        } else if command.has_value(word) {
            // A value that looks like an option may be one after all.
            if words.next().is_none_or(|value| value.starts_with('-')) {
                return Some(format!("the value of `{word}` is not certain"));
            }
        } else if !command.accepts(word) {
            return Some(format!("`{word}` is not known to only read"));
        }
    }
    let is_list = arguments
        .iter()
        .any(|word| matches!(word.as_str(), "-l" | "--list"));
    (operands > 0 && !command.takes_operands && !(is_list && command.lists))
        .then(|| format!("`git {}` with a name changes the repository", command.name))
}

struct ReadingCommand {
    name: &'static str,
    /// Options without a value, or with one behind `=`.
    options: &'static [&'static [&'static str]],
    takes_operands: bool,
    /// Whether it takes patterns once it is told to list.
    lists: bool,
}

impl ReadingCommand {
    fn accepts(&self, word: &str) -> bool {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        let mut known = self.options.iter().copied().flatten();
        known.any(|option| *option == name) || self.is_number(word)
    }

    /// `-3`, `-U5`, `-M90%`.
    fn is_number(&self, word: &str) -> bool {
        let rest = word.strip_prefix('-').unwrap_or_default();
        let rest = rest.strip_prefix(['U', 'M', 'C', 'n']).unwrap_or(rest);
        let rest = rest.strip_suffix('%').unwrap_or(rest);
        let is_digits = !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit());
        is_digits && self.options.contains(&DIFF)
    }

    /// Options whose value is the next word. Only text that git compares is one.
    fn has_value(&self, word: &str) -> bool {
        let shows_commits = self.options.contains(&LOG);
        let shows_changes = self.options.contains(&DIFF);
        match word {
            "-n" | "--max-count" | "--author" | "--grep" | "--since" | "--until" | "--after"
            | "--before" | "--skip" => shows_commits,
            "-S" | "-G" | "--diff-filter" => shows_changes,
            "-L" => self.name == "blame",
            _ => false,
        }
    }
}

const COMMANDS: [ReadingCommand; 11] = [
    ReadingCommand {
        name: "status",
        options: &[STATUS],
        takes_operands: true,
        lists: false,
    },
    ReadingCommand {
        name: "diff",
        options: &[DIFF],
        takes_operands: true,
        lists: false,
    },
    ReadingCommand {
        name: "log",
        options: &[DIFF, LOG],
        takes_operands: true,
        lists: false,
    },
    ReadingCommand {
        name: "show",
        options: &[DIFF, LOG],
        takes_operands: true,
        lists: false,
    },
    ReadingCommand {
        name: "blame",
        options: &[BLAME],
        takes_operands: true,
        lists: false,
    },
    ReadingCommand {
        name: "rev-parse",
        options: &[REV_PARSE],
        takes_operands: true,
        lists: false,
    },
    ReadingCommand {
        name: "ls-files",
        options: &[LS_FILES],
        takes_operands: true,
        lists: false,
    },
    ReadingCommand {
        name: "describe",
        options: &[&[
            "--tags", "--always", "--dirty", "--all", "--long", "--abbrev",
        ]],
        takes_operands: true,
        lists: false,
    },
    ReadingCommand {
        name: "branch",
        options: &[BRANCH],
        takes_operands: false,
        lists: true,
    },
    ReadingCommand {
        name: "tag",
        options: &[&["-l", "--list"]],
        takes_operands: false,
        lists: true,
    },
    ReadingCommand {
        name: "remote",
        options: &[&["-v", "--verbose"]],
        takes_operands: false,
        lists: false,
    },
];

const STATUS: &[&str] = &[
    "-s",
    "--short",
    "-b",
    "--branch",
    "-sb",
    "-bs",
    "--porcelain",
    "--long",
    "-z",
    "-uno",
    "-unormal",
    "-uall",
    "--untracked-files",
    "--show-stash",
    "--ahead-behind",
    "--no-ahead-behind",
    "--renames",
    "--no-renames",
];

const DIFF: &[&str] = &[
    "-p",
    "-u",
    "--patch",
    "-s",
    "--no-patch",
    "--unified",
    "--raw",
    "--minimal",
    "--patience",
    "--histogram",
    "--diff-algorithm",
    "--stat",
    "--compact-summary",
    "--numstat",
    "--shortstat",
    "--dirstat",
    "--summary",
    "--name-only",
    "--name-status",
    "--color",
    "--no-color",
    "--color-moved",
    "--word-diff",
    "--color-words",
    "--no-renames",
    "--find-renames",
    "-M",
    "-C",
    "-R",
    "-a",
    "--text",
    "-b",
    "-w",
    "--ignore-space-change",
    "--ignore-all-space",
    "--ignore-blank-lines",
    "--ignore-space-at-eol",
    "--inter-hunk-context",
    "-W",
    "--function-context",
    "--exit-code",
    "--quiet",
    "--full-index",
    "--abbrev",
    "--check",
    "-z",
    "--cached",
    "--staged",
    "--merge-base",
    "--no-prefix",
    "--no-ext-diff",
    "--no-textconv",
    "--diff-filter",
    "--pickaxe-all",
    "--pickaxe-regex",
];

const LOG: &[&str] = &[
    "--oneline",
    "--max-count",
    "--skip",
    "--since",
    "--until",
    "--after",
    "--before",
    "--author",
    "--grep",
    "-i",
    "-E",
    "-F",
    "--invert-grep",
    "--all",
    "--branches",
    "--tags",
    "--remotes",
    "--graph",
    "--decorate",
    "--no-decorate",
    "--pretty",
    "--format",
    "--date",
    "--abbrev-commit",
    "--no-abbrev-commit",
    "--first-parent",
    "--merges",
    "--no-merges",
    "--reverse",
    "--follow",
    "--date-order",
    "--topo-order",
    "--left-right",
    "--cherry-pick",
    "--full-history",
    "--simplify-merges",
    "-c",
    "--cc",
    "-m",
];

const BLAME: &[&str] = &[
    "-w",
    "-M",
    "-C",
    "-s",
    "-l",
    "-t",
    "-e",
    "-f",
    "-n",
    "-p",
    "--porcelain",
    "--line-porcelain",
    "--show-name",
    "--show-number",
    "--show-email",
    "--date",
    "--abbrev",
    "--since",
];

const REV_PARSE: &[&str] = &[
    "--show-toplevel",
    "--show-prefix",
    "--show-cdup",
    "--git-dir",
    "--git-common-dir",
    "--absolute-git-dir",
    "--is-inside-work-tree",
    "--is-inside-git-dir",
    "--is-bare-repository",
    "--abbrev-ref",
    "--symbolic",
    "--symbolic-full-name",
    "--short",
    "--verify",
    "-q",
    "--quiet",
];

const LS_FILES: &[&str] = &[
    "-c",
    "--cached",
    "-m",
    "--modified",
    "-d",
    "--deleted",
    "-o",
    "--others",
    "-s",
    "--stage",
    "-u",
    "--unmerged",
    "-t",
    "-z",
    "--exclude-standard",
    "--full-name",
    "--error-unmatch",
    "--directory",
];

const BRANCH: &[&str] = &[
    "-a",
    "--all",
    "-r",
    "--remotes",
    "-v",
    "-vv",
    "-av",
    "-avv",
    "--verbose",
    "--show-current",
    "-l",
    "--list",
    "--no-color",
    "--sort",
    "--format",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn is_reading(command: &str) -> bool {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        doubt(&words).is_none()
    }

    #[test]
    fn commands_that_read_are_known() {
        for command in [
            "status",
            "status -sb",
            "status --porcelain=v2",
            "diff",
            "--no-pager diff --stat HEAD~1",
            "diff -U5 main...work -- src",
            "log --oneline -20",
            "log -n 5 --author Ann -p -- src/main.rs",
            "show HEAD:src/main.rs",
            "blame -L 1,20 src/main.rs",
            "branch",
            "branch -a",
            "branch --list work*",
            "tag -l v*",
            "remote -v",
            "rev-parse --abbrev-ref HEAD",
            "ls-files -o --exclude-standard",
        ] {
            assert!(is_reading(command), "{command}");
        }
    }

    #[test]
    fn whatever_else_git_can_do_is_doubt() {
        for command in [
            "diff --output=x",
            "diff --outp=x",
            "log --output x",
            "diff --no-index a b",
            "diff --ext-diff",
            "show --textconv",
            "log --show-signature",
            "-c core.pager=x diff",
            "-C .. diff",
            "--git-dir=x diff",
            "--paginate diff",
            "-p diff",
            "log --author --output=x",
            "blame --contents x y",
            "blame --contents=x y",
            "blame --ignore-revs-file x y",
            "branch new",
            "branch -D old",
            "tag v1",
            "remote add x y",
            "stash",
            "commit",
            "grep -O x",
            "config --list",
            "evil",
            "",
        ] {
            assert!(!is_reading(command), "{command}");
        }
    }
}
