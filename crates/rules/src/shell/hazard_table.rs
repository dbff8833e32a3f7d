//! The table of dangerous arguments. It errs towards asking: a line too many costs a question.

/// The dangerous arguments of some programs.
pub(super) struct Hazard {
    pub(super) programs: &'static [&'static str],
    /// Long options without their dashes; any abbreviation counts.
    pub(super) long: &'static [&'static str],
    /// Long options that are harmless although they abbreviate a dangerous one.
    pub(super) but: &'static [&'static str],
    /// Options, with their dashes, that load what they name if it is a path.
    pub(super) loading: &'static [&'static str],
    /// Whether the long options must be written out.
    pub(super) whole: bool,
    /// Letters of short options.
    pub(super) short: &'static str,
    /// Letters whose rest is their value.
    pub(super) valued: &'static str,
    /// Whole words; a final `*` takes any ending.
    pub(super) words: &'static [&'static str],
}

const NONE: Hazard = Hazard {
    programs: &[],
    long: &[],
    but: &[],
    loading: &[],
    whole: false,
    short: "",
    valued: "",
    words: &[],
};

pub(super) const HAZARDS: &[Hazard] = &[
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
        whole: true,
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
            "volno-file",
            "listed-incremental",
            "remove-files",
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
        words: &["@*", "--expand-*", "*%output{*"],
        ..NONE
    },
    Hazard {
        programs: &["ag", "ack"],
        long: &["pager", "ackrc"],
        ..NONE
    },
    Hazard {
        programs: &["java"],
        words: &[
            "-agent*",
            "-javaagent*",
            "@*",
            "-cp*",
            "-classpath*",
            "--module-path*",
        ],
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
        whole: true,
        long: &[
            "config",
            "manifest-path",
            "lockfile-path",
            "target-dir",
            "artifact-dir",
            "out-dir",
        ],
        but: &["target"],
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
            "log-file",
            "report-log",
            "cov-report",
            "cov-config",
            "html",
        ],
        but: &["co", "collect-only", "pdb", "color", "cov", "count"],
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
        short: "C",
        ..NONE
    },
    Hazard {
        programs: &["webpack", "rollup", "babel", "eslint", "stylelint"],
        whole: true,
        long: &[
            "resolve-plugins-relative-to",
            "rulesdir",
            "plugin",
            "plugins",
            "presets",
            "plugin-search-dir",
            "require",
            "loader",
            "config",
            "config-file",
            "out-dir",
            "out-file",
        ],
        short: "rcpo",
        ..NONE
    },
    Hazard {
        programs: &["jest", "vitest", "mocha", "ava", "tap", "karma"],
        whole: true,
        long: &[
            "config",
            "setupFiles",
            "setupFilesAfterEnv",
            "resolver",
            "testResultsProcessor",
            "watchPlugins",
            "outputFile",
            "rootDir",
            "root",
            "require",
            "loader",
            "transform",
            "globalSetup",
            "global-setup",
            "runner",
            "testRunner",
            "file",
            "ui",
            "package",
            "import",
        ],
        loading: &[
            "--reporter",
            "--reporters",
            "-R",
            "--environment",
            "--testEnvironment",
            "--preset",
        ],
        short: "cr",
        ..NONE
    },
    Hazard {
        programs: &["eslint", "stylelint"],
        whole: true,
        long: &[
            "config",
            "custom-formatter",
            "parser",
            "output-file",
            "cache-location",
            "cache-file",
            "custom-syntax",
            "init",
        ],
        loading: &["-f", "--format", "--formatter"],
        short: "co",
        ..NONE
    },
    Hazard {
        programs: &["prettier"],
        whole: true,
        long: &[
            "config",
            "plugin",
            "plugin-search-dir",
            "cache-location",
            "cache-file",
            "ignore-path",
        ],
        ..NONE
    },
    Hazard {
        programs: &["tsc"],
        whole: true,
        long: &[
            "outDir",
            "outFile",
            "declarationDir",
            "tsBuildInfoFile",
            "generateTrace",
            "generateCpuProfile",
            "out",
        ],
        ..NONE
    },
    Hazard {
        programs: &["node", "nodejs"],
        whole: true,
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
        long: &["set", "file"],
        short: "sf",
        valued: "drI",
        ..NONE
    },
    Hazard {
        programs: &["printf", "test", "["],
        words: &["-v*"],
        ..NONE
    },
    Hazard {
        programs: &["wait", "jobs"],
        short: "px",
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
        programs: &["docker", "podman"],
        whole: true,
        long: &["config", "host", "tlscacert", "tlscert", "tlskey"],
        words: &["-H*"],
        ..NONE
    },
    Hazard {
        programs: &["kubectl", "helm"],
        whole: true,
        long: &[
            "kubeconfig",
            "post-renderer",
            "cache-dir",
            "server",
            "profile-output",
            "token",
            "user",
            "cluster",
            "certificate-authority",
            "as",
        ],
        words: &["-s*"],
        ..NONE
    },
    Hazard {
        programs: &["gcc", "cc", "g++", "clang", "rustc", "javac"],
        words: &[
            "-fplugin*",
            "-wrapper*",
            "-specs*",
            "--codegen*",
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
            "append-config",
            "settings-path",
            "plugins",
            "load-plugins",
            "init-hook",
            "python-executable",
            "install-types",
            "rcfile",
            "output-file",
            "junit-xml",
            "junit-format",
            "any-exprs-report",
            "cobertura-xml-report",
            "html-report",
            "linecount-report",
            "linecoverage-report",
            "lineprecision-report",
            "txt-report",
            "xml-report",
            "xslt-html-report",
            "xslt-txt-report",
            "cache-dir",
            "custom-typeshed-dir",
            "shadow-file",
            "output",
        ],
        but: &["output-format", "show-config"],
        short: "o",
        ..NONE
    },
];
