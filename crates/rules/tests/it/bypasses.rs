//! Every published bypass of a permission gate that we know of, by name. Each was an allow once.

use std::collections::HashMap;

use countersign_rules::{
    Effect, Floor, LayerAllows, LayerView, NoFacts, ToolAction, ToolRequest, assess, judge,
};

use crate::support::{Links, action, place, rules, shell, verdict_at};

use Effect::{Allow, Ask, Deny};

fn read(path: &str) -> ToolAction {
    ToolAction::Read { path: path.into() }
}

fn edit(path: &str) -> ToolAction {
    ToolAction::Edit { path: path.into() }
}

fn fetch(url: &str) -> ToolAction {
    ToolAction::Fetch { url: url.into() }
}

#[test]
fn cve_2025_54795_echo_cannot_carry_a_command() {
    for command in [
        "echo \"\\\"; node evil.js; echo \\\"\" ; node evil.js",
        "echo x; node evil.js",
        "echo \"$(node evil.js)\"",
        "echo `node evil.js`",
        "echo x\nnode evil.js",
        "echo ${x:=$(node evil.js)}",
    ] {
        assert_eq!(shell(command, &["+Bash(echo:*)"]), Ask, "{command}");
    }
}

/// One parser reads `time` as a program with arguments, the other as a word of the grammar.
#[test]
fn the_time_of_a_group_is_asked_although_each_command_in_it_is_allowed() {
    let rules = ["+Bash(ls:*)", "+Bash(time:*)"];
    for command in [
        "time { ls; }",
        "time -p { ls; }",
        "time ( ls )",
        "time ! ls",
        "time (ls; ls)",
        "time",
        "! time { ls; }",
    ] {
        assert_eq!(shell(command, &rules), Ask, "{command}");
    }
    for command in ["time ls", "time -p ls", "ls && { ls; }", "(ls)"] {
        assert_eq!(shell(command, &rules), Allow, "{command}");
    }
}

/// Arithmetic sets variables and evaluates what they hold. One parser reads it as nothing at all.
#[test]
fn arithmetic_beside_an_allowed_command_is_asked() {
    for command in [
        "(( 1 )) && ls",
        "((ls)) ; ls",
        "((PATH=0)); ls",
        "ls; ((x))",
        "ls || (( x++ ))",
    ] {
        assert_eq!(shell(command, &["+Bash(ls:*)"]), Ask, "{command}");
    }
}

#[test]
fn cve_2025_54794_a_neighbour_with_the_same_prefix_is_outside() {
    let allow = ["+Read(./**)", "+Edit(./**)"];
    assert_eq!(action(read("/home/dev/proj-evil/x"), &allow), Ask);
    assert_eq!(action(edit("/home/dev/proj-evil/x"), &allow), Ask);
    assert_eq!(action(read("/home/dev/proj/x"), &allow), Allow);
}

#[test]
fn cve_2025_55284_nothing_is_allowed_by_default() {
    for command in [
        "cat .env",
        "ping x.evil.test",
        "nslookup x.evil.test",
        "ls",
        "pwd",
    ] {
        assert_eq!(shell(command, &[]), Ask, "{command}");
    }
    assert_eq!(shell("cat .env | nslookup", &["+Bash(cat:*)"]), Ask);
}

#[test]
fn cve_2025_58764_rg_runs_no_preprocessor() {
    for command in [
        "rg --pre sh x",
        "rg --pre=./evil x",
        "rg --hostname-bin ./evil x",
        "rg x --pre ./evil .",
        "rg \"x\"; node evil.js",
    ] {
        assert_eq!(shell(command, &["+Bash(rg:*)"]), Ask, "{command}");
    }
    assert_eq!(shell("rg --pretty -n x src", &["+Bash(rg:*)"]), Allow);
}

#[test]
fn cve_2025_64755_sed_writes_and_runs_nothing() {
    for command in [
        "sed 'w /home/dev/.bashrc' f",
        "sed -n '1w x' f",
        "sed 's/a/b/w x' f",
        "sed 's/a/b/gw x' f",
        "sed 's/a/id/e' f",
        "sed '1e id' f",
        "sed -e p -e 'w x' f",
        "sed --expression='w x' f",
        "sed -i s/a/b/ f",
        "sed -ni p f",
        "sed --in-place p f",
        "sed -f script f",
    ] {
        assert_eq!(shell(command, &["+Bash(sed:*)"]), Ask, "{command}");
    }
}

#[test]
fn cve_2025_66032_field_separators_and_short_flags_hide_nothing() {
    for command in [
        "cat$IFS/etc/passwd",
        "cat${IFS}x",
        "ls$IFS-la",
        "{cat,/etc/passwd}",
    ] {
        assert_eq!(
            shell(command, &["+Bash(cat:*)", "+Bash(ls:*)"]),
            Ask,
            "{command}"
        );
    }
    assert_eq!(shell("sort -ro out in", &["+Bash(sort:*)"]), Ask);
    assert_eq!(shell("man -Pid ls", &["+Bash(man:*)"]), Ask);
}

#[test]
fn cve_2026_24052_a_host_is_compared_whole() {
    let allow = ["+WebFetch(domain:modelcontextprotocol.io)"];
    assert_eq!(
        action(
            fetch("https://modelcontextprotocol.io.example.com/"),
            &allow
        ),
        Ask
    );
    assert_eq!(
        action(
            fetch("https://modelcontextprotocol.io@example.com/"),
            &allow
        ),
        Ask
    );
    assert_eq!(
        action(fetch("https://modelcontextprotocol.io/x"), &allow),
        Allow
    );
}

#[test]
fn cve_2026_25722_a_write_after_cd_is_resolved_there() {
    let lines = [
        "+Bash(cd:*)",
        "+Bash(echo:*)",
        "+Edit(/settings.json)",
        "-Edit(/.claude/**)",
    ];
    assert_eq!(
        shell("cd .claude && echo '{}' > settings.json", &lines),
        Deny
    );
    assert_eq!(shell("cd .claude; echo '{}' > settings.json", &lines), Deny);
    assert_eq!(
        shell("cd src && cd ../.claude && echo x > settings.json", &lines),
        Deny
    );
}

#[test]
fn cve_2026_25724_a_deny_holds_through_a_link() {
    let links = Links(HashMap::from([(
        "/home/dev/proj/a",
        "/home/dev/.ssh/id_rsa",
    )]));
    let lines = ["+Read(./**)", "+Bash(cat:*)", "-Read(~/.ssh/**)"];
    let said = |action| verdict_at(action, place(), &links, &Floor::default(), &lines).effect;
    assert_eq!(said(read("a")), Deny);
    assert_eq!(
        said(ToolAction::Shell {
            command: "cat a".into()
        }),
        Deny
    );
}

#[test]
fn cve_2026_39861_a_write_through_a_link_does_not_leave_the_tree() {
    let links = Links(HashMap::from([(
        "/home/dev/proj/src/out",
        "/home/dev/.bashrc",
    )]));
    let lines = ["+Edit(/src/**)", "+Bash(echo:*)"];
    let said = |action| verdict_at(action, place(), &links, &Floor::default(), &lines).effect;
    assert_eq!(said(edit("src/out")), Ask);
    assert_eq!(
        said(ToolAction::Shell {
            command: "echo x > src/out".into()
        }),
        Ask
    );
}

#[test]
fn brokensec_awk_runs_and_writes_nothing() {
    for command in [
        "awk 'BEGIN{system(\"id\")}'",
        "awk '{print > \"x\"}' f",
        "awk '{print | \"sh\"}' f",
        "awk '\"id\" | getline' f",
        "awk -f x f",
        "gawk '@load \"x\"' f",
    ] {
        assert_eq!(
            shell(command, &["+Bash(awk:*)", "+Bash(gawk:*)"]),
            Ask,
            "{command}"
        );
    }
}

#[test]
fn claude_issue_24887_find_executes_nothing() {
    for command in [
        "find . -exec id {} +",
        "find . -execdir id ;",
        "find . -ok id ;",
        "find . -delete",
        "find . -fprintf x y",
    ] {
        assert_eq!(shell(command, &["+Bash(find:*)"]), Ask, "{command}");
    }
}

#[test]
fn adversa_a_deny_holds_after_any_number_of_commands() {
    for count in [50, 51, 200, 2_000] {
        let command = format!("{}rm -rf x", "true && ".repeat(count));
        assert_eq!(
            shell(&command, &["+Bash(true:*)", "-Bash(rm:*)"]),
            Deny,
            "{count}"
        );
    }
}

#[test]
fn penligent_a_nul_in_a_host_is_no_host() {
    let allow = ["+WebFetch(domain:*.google.com)"];
    assert_eq!(
        action(fetch("https://evil.test\0.google.com/"), &allow),
        Ask
    );
    assert_eq!(
        action(fetch("https://evil.test%00.google.com/"), &allow),
        Ask
    );
}

#[test]
fn claude_issues_4956_28784_94314_every_command_of_a_list_is_judged() {
    for command in [
        "ls && node evil.js",
        "ls & node evil.js",
        "ls | node evil.js",
        "ls |& node evil.js",
        "ls\nnode evil.js",
        "ls || node evil.js",
        "ls; node evil.js",
        "ls <(node evil.js)",
        "{ ls; node evil.js; }",
        "(ls; node evil.js)",
        "! node evil.js",
    ] {
        assert_eq!(shell(command, &["+Bash(ls:*)"]), Ask, "{command}");
    }
}

#[test]
fn claude_issue_92542_other_wrappers_are_no_way_around() {
    for wrapper in [
        "env",
        "setsid",
        "ionice -c3",
        "doas",
        "flock /tmp/x",
        "unshare -r",
        "proxychains4",
        "chrt -i 0",
        "systemd-run",
    ] {
        let allow = [
            "+Bash(ls:*)",
            "+Bash(env:*)",
            "+Bash(setsid:*)",
            "+Bash(ionice:*)",
            "+Bash(flock:*)",
        ];
        assert_eq!(
            shell(&format!("{wrapper} node evil.js"), &allow),
            Ask,
            "{wrapper}"
        );
        assert_eq!(
            shell(&format!("{wrapper} rm x"), &["-Bash(rm:*)"]),
            Deny,
            "{wrapper}"
        );
    }
}

#[test]
fn claude_issue_36637_a_deny_is_never_ignored() {
    for command in [
        "rm x",
        "/bin/rm x",
        "\\rm x",
        "'rm' x",
        "command rm x",
        "sudo rm x",
        "bash -c 'rm x'",
        "x=$(rm x)",
        "nohup rm x &",
    ] {
        assert_eq!(shell(command, &["+Bash", "-Bash(rm:*)"]), Deny, "{command}");
    }
}

#[test]
fn codex_pr_20113_a_heredoc_keeps_its_redirection_and_assignments() {
    for command in [
        "PATH=/tmp/bad:$PATH cat <<'EOF' > /tmp/bad/hello.txt\nhello\nEOF",
        "cat <<'EOF' > /tmp/bad/hello.txt\nhello\nEOF",
        "PATH=/tmp/bad cat <<'EOF'\nhello\nEOF",
    ] {
        assert_eq!(shell(command, &["+Bash(cat:*)"]), Ask, "{command}");
    }
}

#[test]
fn cve_2025_61260_a_projects_file_loosens_nothing_by_itself() {
    let request = ToolRequest {
        tool: "Bash".into(),
        action: ToolAction::Shell {
            command: "node evil.js".into(),
        },
        place: place(),
    };
    let set = rules(&["+Bash(node:*)", "-Bash(rm:*)"]);
    let judge_with = |allows: &LayerAllows| {
        let layer = LayerView {
            rules: &set,
            admits: &|_| true,
            allows,
        };
        judge(&assess(&request, &NoFacts), &Floor::default(), &[layer]).effect
    };
    assert_eq!(judge_with(&LayerAllows::Untrusted), Ask);
    assert_eq!(judge_with(&LayerAllows::Suspended("broken".into())), Ask);
    assert_eq!(judge_with(&LayerAllows::Count), Allow);
}

#[test]
fn cve_2026_22708_builtins_do_not_poison_what_follows() {
    for command in [
        "export GIT_PAGER='sh -c id' && git log",
        "declare -x LD_PRELOAD=./x.so; git log",
        "typeset -x A=b; git log",
        "alias git=node; git log",
        "hash -p /tmp/evil git; git log",
        "set -o allexport; git log",
        "readonly PATH=/tmp; git log",
        "PATH=/tmp; git log",
        "source x; git log",
        "enable -f ./x.so git; git log",
    ] {
        let allow = [
            "+Bash(git log:*)",
            "+Bash(export:*)",
            "+Bash(alias:*)",
            "+Bash(set:*)",
            "+Bash(hash:*)",
        ];
        assert_eq!(shell(command, &allow), Ask, "{command}");
    }
}

#[test]
fn cve_2025_62354_nothing_is_injected_into_an_allowed_command() {
    for command in [
        "git log `node evil.js`",
        "git log $(node evil.js)",
        "git log <(node evil.js)",
        "git log > >(node evil.js)",
        "git log;node evil.js",
    ] {
        assert_eq!(shell(command, &["+Bash(git log:*)"]), Ask, "{command}");
    }
}

#[test]
fn cve_2025_59944_case_hides_nothing_where_it_does_not_matter() {
    let mut place = place();
    place.ignores_case = true;
    let lines = ["+Edit(./**)", "-Edit(/.cursor/mcp.json)"];
    let verdict = verdict_at(
        edit(".Cursor/MCP.json"),
        place,
        &Links::default(),
        &Floor::default(),
        &lines,
    );
    assert_eq!(verdict.effect, Deny);
}

#[test]
fn ghsa_g8r9_g2v8_jv6f_dangerous_expansions_ask() {
    for command in [
        "echo ${x@P}",
        "echo ${!x}",
        "echo ${x:=y}",
        "y='$(id)'; echo ${y@P}",
        "echo \"${x@P}\"",
        "echo $((a[$(id)]))",
    ] {
        assert_eq!(shell(command, &["+Bash(echo:*)"]), Ask, "{command}");
    }
}

#[test]
fn qwen_code_10192_an_assignment_runs_nothing() {
    for command in [
        "X=`touch y` npm --version",
        "X=$(touch y) npm --version",
        "NODE_ENV=`touch y` npm --version",
    ] {
        assert_eq!(
            shell(command, &["+Bash(npm --version:*)"]),
            Ask,
            "{command}"
        );
    }
}

#[test]
fn cve_2026_27566_31992_env_runs_nothing_unseen() {
    for command in [
        "env bash -c id",
        "env -S 'bash -c id'",
        "env -Sbash",
        "/usr/bin/env node evil.js",
        "env --split-string='node evil.js'",
    ] {
        assert_eq!(
            shell(
                command,
                &["+Bash(env:*)", "+Bash(/usr/bin/env:*)", "+Bash(ls:*)"]
            ),
            Ask,
            "{command}"
        );
    }
    assert_eq!(shell("env -S 'rm x'", &["-Bash(rm:*)"]), Deny);
}

#[test]
fn cve_2026_28363_long_options_are_seen_abbreviated() {
    for command in [
        "sort --compress-prog=sh f",
        "sort --comp sh f",
        "sort --compress-program sh f",
        "tar --to-com=sh -xf a",
        "tar --use-c=sh -xf a",
    ] {
        assert_eq!(
            shell(command, &["+Bash(sort:*)", "+Bash(tar:*)"]),
            Ask,
            "{command}"
        );
    }
}

#[test]
fn cve_2026_31996_sort_writes_nothing() {
    for command in [
        "sort -o x y",
        "sort -ox y",
        "sort -uo x y",
        "sort --output=x y",
        "sort y -o x",
    ] {
        assert_eq!(shell(command, &["+Bash(sort:*)"]), Ask, "{command}");
    }
}

#[test]
fn cve_2026_28460_a_joined_line_makes_no_substitution() {
    for command in [
        "git commit -m \"$\\\n(node evil.js)\"",
        "cat <<EOF\n$\\\n(node evil.js)\nEOF",
        "git log $\\\n(node evil.js)",
    ] {
        assert_eq!(
            shell(
                command,
                &["+Bash(git commit:*)", "+Bash(cat:*)", "+Bash(git log:*)"]
            ),
            Ask,
            "{command}"
        );
    }
}

#[test]
fn cve_2026_53861_combined_flags_of_a_shell_are_seen() {
    for command in [
        "bash -xc 'rm x'",
        "bash -lc 'rm x'",
        "sh -ec 'rm x'",
        "bash --norc -c 'rm x'",
        "bash -x -c 'rm x'",
        "bash -O extglob -c 'rm x'",
    ] {
        assert_eq!(
            shell(command, &["+Bash(bash:*)", "+Bash(sh:*)", "-Bash(rm:*)"]),
            Deny,
            "{command}"
        );
        assert_eq!(
            shell(command, &["+Bash(bash:*)", "+Bash(sh:*)"]),
            Ask,
            "{command}"
        );
    }
}

#[test]
fn cve_2026_32003_shell_options_in_the_environment_ask() {
    for command in [
        "SHELLOPTS=xtrace PS4='$(id)' ls",
        "PS4='$(id)' ls",
        "BASH_ENV=x ls",
        "ENV=x ls",
        "BASHOPTS=x ls",
    ] {
        assert_eq!(shell(command, &["+Bash(ls:*)"]), Ask, "{command}");
    }
}

#[test]
fn cve_2024_6091_a_program_by_path_is_the_same_program() {
    assert_eq!(shell("/bin/./whoami", &["+Bash", "-Bash(whoami:*)"]), Deny);
    assert_eq!(
        shell("/bin/../bin/whoami", &["+Bash", "-Bash(whoami:*)"]),
        Deny
    );
    assert_eq!(shell("/tmp/whoami", &["+Bash(whoami:*)"]), Ask);
}

#[test]
fn ghsa_5wp8_a_wildcard_reaches_no_denied_file() {
    assert_ne!(
        shell(
            "cat /etc/pass[w]d",
            &["+Bash(cat:*)", "-Read(//etc/passwd)"]
        ),
        Allow
    );
    assert_ne!(
        shell("cat /etc/p?sswd", &["+Bash(cat:*)", "-Read(//etc/passwd)"]),
        Allow
    );
    assert_eq!(
        shell("python3 -P -c 'import os'", &["+Bash(python3 -P:*)"]),
        Ask
    );
}

#[test]
fn codex_parser_a_joined_line_and_a_carriage_return_are_not_blanks() {
    assert_eq!(shell("ls\\\nof -i", &["+Bash(ls:*)"]), Ask);
    assert_eq!(shell("ls\rrm", &["+Bash(ls:*)"]), Ask);
    assert_eq!(shell("r\\\nm x", &["+Bash(r:*)", "-Bash(rm:*)"]), Deny);
}

#[test]
fn opencode_no_command_is_not_nothing_to_check() {
    for command in [
        "> x",
        ">> ~/.bashrc",
        "cd . > ~/.bashrc",
        "A=1",
        "",
        "   ",
        "# only a comment",
        "A=$(id)",
        "<x",
    ] {
        assert_eq!(
            shell(command, &["+Bash(cd:*)", "+Bash(ls:*)"]),
            Ask,
            "{command}"
        );
    }
}

#[test]
fn opencode_issues_5330_32628_39931_31485_options_and_dashes_hide_no_command() {
    for command in [
        "command -- rm x",
        "env -- rm x",
        "git --no-pager push",
        "xargs -- rm",
        "nice -- rm x",
        "git -C . push",
    ] {
        let said = shell(
            command,
            &["+Bash(ls:*)", "-Bash(rm:*)", "-Bash(git push:*)"],
        );
        assert_eq!(said, Deny, "{command}");
    }
}

#[test]
fn gemini_an_allow_never_outranks_a_deny() {
    assert_eq!(shell("rm x", &["+Bash(rm x)", "-Bash(rm:*)"]), Deny);
    let mcp = || ToolAction::Mcp {
        server: "a".into(),
        tool: "b".into(),
    };
    assert_eq!(action(mcp(), &["+mcp__a__b", "-mcp__a"]), Deny);
}

#[test]
fn defect_an_allowed_command_is_not_the_whole_tool() {
    assert_eq!(shell("cargo build", &["+Bash(cargo test)"]), Ask);
}

#[test]
fn sudoers_a_wildcard_in_a_path_stays_below_it() {
    let allow = ["+Read(//tmp/x*)"];
    assert_eq!(action(read("/tmp/x/../../etc/shadow"), &allow), Ask);
    assert_eq!(action(read("/tmp/x1/y"), &allow), Ask);
    assert_eq!(action(read("/tmp/x1"), &allow), Allow);
}
