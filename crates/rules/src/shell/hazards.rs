//! Dangerous arguments: what makes an allowed program run or write something else.
//!
//! The table errs towards asking: options are found wherever they stand, abbreviated or bundled.

use super::{awk, sed};

/// The dangerous arguments of some programs.
struct Hazard {
    programs: &'static [&'static str],
    /// Long options without their dashes; any abbreviation counts.
    long: &'static [&'static str],
    /// Long options that are harmless although they abbreviate a dangerous one.
    but: &'static [&'static str],
    /// Letters of short options.
    short: &'static str,
    /// Letters whose rest is their value.
    valued: &'static str,
    /// Whole words; a final `*` takes any ending.
    words: &'static [&'static str],
}

const NONE: Hazard = Hazard {
    programs: &[],
    long: &[],
    but: &[],
    short: "",
    valued: "",
    words: &[],
};

const HAZARDS: &[Hazard] = &[
    Hazard {
        programs: &["find"],
        words: &[
            "-exec*",
            "-ok*",
            "-delete",
            "-fprint*",
            "-fls*",
            "-files0-from*",
        ],
        ..NONE
    },
    Hazard {
        programs: &["fd", "fdfind"],
        long: &["exec", "exec-batch", "base-directory", "list-details"],
        short: "xXl",
        valued: "dtegEScj",
        ..NONE
    },
    Hazard {
        programs: &["sort"],
        long: &[
            "compress-program",
            "output",
            "temporary-directory",
            "files0-from",
        ],
        short: "oT",
        valued: "ktS",
        ..NONE
    },
    Hazard {
        programs: &["rg"],
        long: &["pre", "hostname-bin", "search-zip"],
        but: &["pretty", "pre-glob"],
        short: "z",
        valued: "ABCEegjmMrtTdf",
        ..NONE
    },
    Hazard {
        programs: &["tar", "bsdtar", "gtar"],
        long: &[
            "use-compress-program",
            "to-command",
            "checkpoint-action",
            "rsh-command",
            "rmt-command",
            "info-script",
            "new-volume-script",
            "absolute-names",
            "index-file",
        ],
        short: "IFP",
        valued: "fCTXbgLNVK",
        ..NONE
    },
    Hazard {
        programs: &["split"],
        long: &["filter"],
        ..NONE
    },
    Hazard {
        programs: &["zip", "unzip"],
        long: &["unzip-command", "test"],
        short: "TO",
        words: &["-TT*", "-ms*"],
        ..NONE
    },
    Hazard {
        programs: &["man", "apropos"],
        long: &["pager", "html", "browser", "config-file", "preprocessor"],
        short: "PHCp",
        valued: "mMrRLeES",
        ..NONE
    },
    Hazard {
        programs: &["less", "more", "most"],
        long: &[
            "log-file",
            "LOG-FILE",
            "lesskey-file",
            "lesskey-src",
            "lesskey-content",
            "tag-file",
        ],
        short: "oOkT",
        words: &["+*"],
        ..NONE
    },
    Hazard {
        programs: &["bat", "batcat"],
        long: &["pager", "config-file", "diff"],
        ..NONE
    },
    Hazard {
        programs: &[
            "vim", "vi", "nvim", "ex", "view", "gvim", "vimdiff", "rvim", "nano", "emacs", "ed",
            "joe", "micro", "pico",
        ],
        long: &[
            "cmd", "eval", "execute", "load", "funcall", "script", "remote", "listen", "rcfile",
            "server",
        ],
        short: "csSuUwWlfiqL",
        words: &["+*"],
        ..NONE
    },
    Hazard {
        programs: &[
            "ssh",
            "scp",
            "sftp",
            "slogin",
            "ssh-keygen",
            "ssh-add",
            "sshfs",
        ],
        short: "oFSEIPDLRJwWbsi",
        ..NONE
    },
    Hazard {
        programs: &["rsync"],
        long: &[
            "rsh",
            "rsync-path",
            "daemon",
            "config",
            "log-file",
            "password-file",
            "early-input",
            "write-batch",
            "copy-as",
            "server",
        ],
        short: "eM",
        ..NONE
    },
    Hazard {
        programs: &["wget", "wget2"],
        long: &[
            "use-askpass",
            "execute",
            "config",
            "output-document",
            "output-file",
            "append-output",
            "directory-prefix",
            "post-file",
            "body-file",
            "input-file",
            "save-cookies",
            "load-cookies",
            "warc-file",
            "rejected-log",
            "hsts-file",
            "ca-certificate",
            "certificate",
            "private-key",
        ],
        short: "eOoaPi",
        ..NONE
    },
    Hazard {
        programs: &["curl"],
        long: &[
            "output",
            "remote-name",
            "remote-name-all",
            "output-dir",
            "config",
            "dump-header",
            "cookie-jar",
            "trace",
            "trace-ascii",
            "stderr",
            "libcurl",
            "etag-save",
            "hsts",
            "alt-svc",
            "upload-file",
            "engine",
            "proto-redir",
            "unix-socket",
            "abstract-unix-socket",
            "create-dirs",
        ],
        short: "oOKDcT",
        valued: "XHAebdFuUmrwxzyY",
        words: &["@*"],
        ..NONE
    },
    Hazard {
        programs: &["make", "gmake"],
        long: &["file", "makefile", "eval", "directory", "include-dir"],
        short: "fCIE",
        valued: "jloWO",
        words: &["*=*"],
        ..NONE
    },
    Hazard {
        programs: &["cargo"],
        long: &["config", "manifest-path", "lockfile-path"],
        short: "CZ",
        valued: "pjF",
        words: &["+*"],
        ..NONE
    },
    Hazard {
        programs: &["pytest", "py.test"],
        long: &[
            "override-ini",
            "config-file",
            "rootdir",
            "confcutdir",
            "basetemp",
            "pastebin",
            "debug",
            "junit-xml",
            "junitxml",
            "pdbcls",
            "import-mode",
        ],
        short: "pco",
        valued: "kmnrWd",
        ..NONE
    },
    Hazard {
        programs: &["go"],
        words: &[
            "-exec*",
            "--exec*",
            "-toolexec*",
            "--toolexec*",
            "-overlay*",
            "--overlay*",
            "-modfile*",
            "--modfile*",
            "-vettool*",
            "--vettool*",
            "-C*",
            "-ldflags*",
            "--ldflags*",
            "-gcflags*",
            "--gcflags*",
            "-pkgdir*",
            "-workfile*",
        ],
        ..NONE
    },
    Hazard {
        programs: &["npm", "yarn", "pnpm", "bun"],
        long: &[
            "script-shell",
            "prefix",
            "node-options",
            "userconfig",
            "globalconfig",
            "cwd",
            "dir",
            "shell",
            "init-module",
            "git",
            "cache",
            "use-yarnrc",
            "require",
            "preload",
            "shell-emulator",
        ],
        but: &["dry-run"],
        short: "Cr",
        ..NONE
    },
    Hazard {
        programs: &[
            "eslint",
            "prettier",
            "tsc",
            "jest",
            "vitest",
            "mocha",
            "webpack",
            "rollup",
            "babel",
            "stylelint",
        ],
        long: &[
            "resolve-plugins-relative-to",
            "rulesdir",
            "plugin",
            "plugin-search-dir",
            "require",
            "loader",
            "transform",
            "global-setup",
            "globalSetup",
            "runner",
            "testRunner",
        ],
        short: "r",
        ..NONE
    },
    Hazard {
        programs: &["node", "nodejs"],
        long: &[
            "require",
            "import",
            "loader",
            "experimental-loader",
            "eval",
            "print",
            "env-file",
            "inspect",
            "inspect-brk",
            "openssl-config",
            "icu-data-dir",
            "diagnostic-dir",
            "redirect-warnings",
            "build-snapshot",
        ],
        short: "repi",
        ..NONE
    },
    Hazard {
        programs: &["python", "python3", "python2", "perl", "ruby", "php", "lua"],
        short: "c",
        ..NONE
    },
    Hazard {
        programs: &["perl", "ruby", "lua"],
        short: "eEiIM",
        ..NONE
    },
    Hazard {
        programs: &["php"],
        short: "rBREfd",
        ..NONE
    },
    Hazard {
        programs: &["tree"],
        short: "oR",
        valued: "LPIH",
        ..NONE
    },
    Hazard {
        programs: &["file"],
        long: &["compile", "uncompress", "magic-file"],
        short: "CzZm",
        ..NONE
    },
    Hazard {
        programs: &["date"],
        long: &["set"],
        short: "s",
        valued: "drfI",
        ..NONE
    },
    Hazard {
        programs: &["printf", "test", "["],
        words: &["-v*"],
        ..NONE
    },
    Hazard {
        programs: &["test", "["],
        words: &["-R*", "-o"],
        ..NONE
    },
    Hazard {
        programs: &["yq"],
        long: &["inplace", "in-place", "split-exp", "split-exp-file"],
        short: "is",
        ..NONE
    },
    Hazard {
        programs: &["diff"],
        long: &["paginate", "to-file", "from-file"],
        short: "l",
        valued: "UCIxXFDW",
        ..NONE
    },
    Hazard {
        programs: &["ls", "dir"],
        long: &["hyperlink"],
        ..NONE
    },
    Hazard {
        programs: &["du", "wc"],
        long: &["files0-from"],
        short: "X",
        valued: "dtB",
        ..NONE
    },
    Hazard {
        programs: &["grep", "egrep", "fgrep", "zgrep"],
        long: &["file"],
        but: &["files-with-matches", "files-without-match"],
        short: "f",
        valued: "eABCmDd",
        ..NONE
    },
    Hazard {
        programs: &["docker", "podman", "kubectl", "helm"],
        long: &[
            "config",
            "kubeconfig",
            "host",
            "context",
            "tlscacert",
            "kubectl",
            "post-renderer",
            "cache-dir",
        ],
        but: &["host-port"],
        words: &["-H*", "-c"],
        ..NONE
    },
    Hazard {
        programs: &["gcc", "cc", "g++", "clang", "rustc", "javac"],
        words: &[
            "-fplugin*",
            "-wrapper*",
            "-specs*",
            "-B*",
            "@*",
            "-Clinker*",
            "-C",
            "--plugin*",
            "-processor*",
            "-J*",
        ],
        ..NONE
    },
    Hazard {
        programs: &["mypy", "ruff", "black", "isort", "flake8", "pylint"],
        long: &[
            "config-file",
            "config",
            "plugins",
            "load-plugins",
            "init-hook",
            "python-executable",
            "install-types",
            "rcfile",
        ],
        short: "",
        ..NONE
    },
];

/// Says which argument is dangerous, if one is.
pub(crate) fn find(words: &[String]) -> Option<String> {
    let (name, arguments) = words.split_first()?;
    let found = match name.as_str() {
        "git" => super::git::hazard(arguments),
        "sed" | "gsed" => sed::hazard(arguments),
        "awk" | "gawk" | "mawk" | "nawk" => awk::hazard(arguments),
        "uniq" => second_file(arguments),
        "tar" | "bsdtar" | "gtar" => old_style_tar(arguments),
        _ => None,
    };
    found.or_else(|| {
        HAZARDS
            .iter()
            .filter(|hazard| applies(hazard, name, arguments))
            .find_map(|hazard| hazard.find(name, arguments))
    })
}

/// Modules and launched tools are judged like the program itself.
fn applies(hazard: &Hazard, name: &str, arguments: &[String]) -> bool {
    let launched = |word: &String| hazard.programs.contains(&word.as_str());
    hazard.programs.contains(&name)
        || (matches!(name, "npx" | "bunx" | "uvx" | "pnpx") && arguments.iter().any(launched))
        || (name.starts_with("python")
            && arguments.first().is_some_and(|word| word == "-m")
            && arguments.get(1).is_some_and(launched))
}

impl Hazard {
    fn find(&self, name: &str, arguments: &[String]) -> Option<String> {
        // What follows `--` goes to the script; `python -m NAME` has its module's options.
        let to_script = matches!(name, "npm" | "yarn" | "pnpm" | "bun" | "cargo");
        let skip =
            usize::from(name.starts_with("python") && arguments.first().is_some_and(|w| w == "-m"))
                * 2;
        let mut arguments = arguments.iter().skip(skip);
        arguments
            .by_ref()
            .take_while(|word| !(to_script && *word == "--"))
            .find(|word| self.is_dangerous(word))
            .cloned()
    }

    fn is_dangerous(&self, word: &str) -> bool {
        if self.words.iter().any(|own| fits(own, word)) {
            return true;
        }
        if let Some(long) = word.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            return abbreviates(name, self.long) && !self.but.contains(&name);
        }
        let Some(letters) = word.strip_prefix('-') else {
            return false;
        };
        letters
            .chars()
            .take_while(|letter| !self.valued.contains(*letter))
            .any(|letter| self.short.contains(letter))
    }
}

/// Whether `name` is one of the options or the beginning of one.
pub(super) fn abbreviates(name: &str, options: &[&str]) -> bool {
    !name.is_empty() && options.iter().any(|option| option.starts_with(name))
}

fn fits(pattern: &str, word: &str) -> bool {
    crate::glob::TextGlob::new(pattern).matches(word)
}

/// `uniq IN OUT` writes its second file.
fn second_file(arguments: &[String]) -> Option<String> {
    let plain =
        |word: &&String| !(word.len() > 1 && (word.starts_with('-') || word.starts_with('+')));
    arguments.iter().filter(plain).nth(1).cloned()
}

/// `tar xIf` without a dash.
fn old_style_tar(arguments: &[String]) -> Option<String> {
    arguments
        .first()
        .filter(|word| !word.starts_with('-') && word.contains(['I', 'F', 'P']))
        .filter(|word| word.chars().all(|c| c.is_ascii_alphabetic()))
        .cloned()
}
