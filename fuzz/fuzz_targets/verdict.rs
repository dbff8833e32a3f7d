//! Any text as a command: no panic, no allow that the parts do not bear, no deny that is lost.
#![no_main]

use std::sync::OnceLock;

use countersign_rules::{
    ToolAction, LayerAllows, Effect, RuleEntry, Floor, LayerView, NoFacts, RuleOrigin, RequestPlace, ToolRequest, RuleSet, assess,
    judge,
};
use libfuzzer_sys::fuzz_target;

const PROFILES: [&[&str]; 4] = [
    &["Bash(ls:*)", "Bash(echo:*)", "Bash(cat:*)", "Bash(git status:*)", "Bash(cd:*)"],
    &[
        "Bash(ls:*)", "Bash(cat:*)", "Bash(grep:*)", "Bash(rg:*)", "Bash(find:*)", "Bash(sort:*)",
        "Bash(sed:*)", "Bash(awk:*)", "Bash(git log:*)", "Bash(git diff:*)", "Bash(git commit:*)",
        "Bash(npm run:*)", "Bash(cargo test:*)", "Bash(make test:*)", "Bash(tar:*)", "Bash(jq:*)",
        "Edit(/build/**)", "Read(./**)", "Bash(cd:*)", "Bash(echo:*)", "Bash(printf:*)",
    ],
    &["Bash", "Edit(./**)", "Read(./**)"],
    &["Bash(git * main)", "Bash(npm *)", "Bash(l*)", "Bash(timeout 5 make:*)", "Bash(npx tsc:*)"],
];

fn rules(profile: usize, deny: bool) -> &'static RuleSet {
    static SETS: OnceLock<Vec<RuleSet>> = OnceLock::new();
    let sets = SETS.get_or_init(|| {
        let mut sets = Vec::new();
        for allows in PROFILES {
            let mut set = RuleSet::default();
            for rule in allows {
                set.insert(entry(Effect::Allow, rule));
            }
            sets.push(set.clone());
            set.insert(entry(Effect::Deny, "Bash(evil:*)"));
            sets.push(set);
        }
        sets
    });
    &sets[profile * 2 + usize::from(deny)]
}

fn entry(effect: Effect, rule: &str) -> RuleEntry {
    RuleEntry::parse(effect, rule, RuleOrigin::file("rules.toml", 1)).expect("a rule")
}

fn verdict(command: &str, cwd: &str, rules: &RuleSet) -> Effect {
    let request = ToolRequest {
        tool: "Bash".into(),
        action: ToolAction::Shell { command: command.into() },
        place: RequestPlace {
            cwd: cwd.into(),
            project: "/home/dev/proj".into(),
            home: "/home/dev".into(),
            ignores_case: false,
            in_sandbox: false,
        },
    };
    let layer = LayerView { rules, admits: &|_| true, allows: &LayerAllows::Count };
    judge(&assess(&request, &NoFacts), &Floor::default(), &[layer]).effect
}

const HOME: &str = "/home/dev/proj";

/// A reading of lists that shares nothing with the engine's: only where nothing is quoted,
/// expanded, grouped or redirected.
fn simple_list(text: &str) -> Option<Vec<&str>> {
    let odd = |c: char| "'\"\\$`(){}<>#!~*?[]=\n\t".contains(c) || c.is_control();
    if text.contains(odd) {
        return None;
    }
    Some(text.split([';', '&', '|']).map(str::trim).filter(|part| !part.is_empty()).collect())
}

fn check_list(text: &str, rules: &RuleSet) {
    let Some(parts) = simple_list(text) else { return };
    // After a change of directory the parts run elsewhere; those lists are checked by the engine's own tests.
    if parts.iter().any(|part| part.starts_with("cd") || part.starts_with("pushd")) {
        return;
    }
    for part in parts {
        assert_eq!(verdict(part, HOME, rules), Effect::Allow, "{part:?} of {text:?}");
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((profile, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let profile = usize::from(*profile) % PROFILES.len();
    let allowed = verdict(text, HOME, rules(profile, false));
    let with_deny = verdict(text, HOME, rules(profile, true));
    assert!(with_deny >= allowed, "a deny made it laxer: {text:?}");
    if allowed != Effect::Allow {
        return;
    }
    check_list(text, rules(profile, false));
    // Whatever is allowed stays a whole: one more command is seen, wherever it stands.
    for worse in [
        format!("{text}\nevil x"),
        format!("evil x; {text}"),
        format!("{text}\necho $(evil x)"),
        format!("evil x &\n{text}"),
    ] {
        let said = verdict(&worse, HOME, rules(profile, true));
        assert_eq!(said, Effect::Deny, "{worse:?}");
        // Longer commands than are judged ask instead.
        let said = verdict(&worse, HOME, rules(profile, false));
        if profile != 2 {
            assert!(said > Effect::Allow, "{worse:?}");
        }
    }
});
