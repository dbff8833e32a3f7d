//! How long a verdict takes: a typical command, taken apart and held against many rules.

use std::time::Instant;

use anyhow::Result;
use countersign_rules::{
    Effect, Floor, LayerAllows, LayerView, NoFacts, RequestPlace, RuleEntry, RuleOrigin, RuleSet,
    ToolAction, ToolRequest, assess, judge,
};

use super::measure::Latencies;
use super::report::{Report, Row};

/// What developers' agents run all day.
const COMMANDS: [&str; 16] = [
    "git status --short",
    "git diff HEAD~3..HEAD -- src/",
    "git add -A && git commit -m 'fix: keep the lock while the file is open'",
    "cargo test -p core -- --nocapture",
    "npm run build",
    "grep -rn 'fn main' --include='*.rs' src | head -20",
    "rg -n 'unwrap\\(\\)' crates/core/src",
    "find . -name '*.py' -not -path './node_modules/*'",
    "cat package.json | jq .version",
    "ls -la src/components",
    "sed -n '1,80p' src/lib.rs",
    "cd packages/api && cargo check",
    "npm test 2>&1 | tail -n 40",
    "python3 -m pytest tests/test_api.py -q",
    "cargo tree >> build/deps.txt",
    "docker compose ps",
];

/// The programs in them.
const PROGRAMS: &str = "git status, git diff, git add, git commit, cargo test, npm run, grep, head, rg, find, cat, \
    jq, ls, sed, cd, cargo check, npm test, tail, python3 -m pytest, cargo tree, docker compose ps";

/// How many verdicts are measured for each number of rules.
const ROUNDS: usize = 20_000;

/// Measures verdicts with 500 and with 5,000 rules, in turns, so that noise hits both.
pub fn run(report: &mut Report) -> Result<()> {
    let sets = [(500, rules(500)?), (5_000, rules(5_000)?)];
    let mut seen: [Latencies; 2] = Default::default();
    for round in 0..ROUNDS {
        let command = COMMANDS[round % COMMANDS.len()];
        for ((_, set), latencies) in sets.iter().zip(&mut seen) {
            let start = Instant::now();
            let effect = verdict(command, set);
            latencies.record(start.elapsed());
            anyhow::ensure!(effect == Effect::Allow, "`{command}` is not allowed");
        }
    }
    let mut rows = Vec::new();
    for ((count, _), latencies) in sets.iter().zip(&seen) {
        let mut row = Row::new("verdicts", format!("{count} rules"));
        row.set_latencies_us(latencies);
        rows.push(row);
    }
    report.add(rows);
    Ok(())
}

fn verdict(command: &str, rules: &RuleSet) -> Effect {
    let request = ToolRequest {
        tool: "Bash".to_owned(),
        action: ToolAction::Shell {
            command: command.to_owned(),
        },
        place: RequestPlace {
            cwd: "/home/dev/proj".to_owned(),
            project: "/home/dev/proj".to_owned(),
            home: "/home/dev".to_owned(),
            ignores_case: false,
            in_sandbox: false,
        },
    };
    let layer = LayerView {
        rules,
        admits: &|_| true,
        allows: &LayerAllows::Count,
    };
    judge(&assess(&request, &NoFacts), &Floor::default(), &[layer]).effect
}

/// Rules that allow the commands, among as many others as make up the number.
fn rules(count: usize) -> Result<RuleSet> {
    let programs = PROGRAMS.split(", ");
    let mut set = RuleSet::default();
    for program in programs {
        add(&mut set, Effect::Allow, &format!("Bash({program}:*)"))?;
    }
    add(&mut set, Effect::Allow, "Edit(/build/**)")?;
    for at in set.entries().count()..count {
        let (effect, rule) = match at % 10 {
            0..=2 => (Effect::Allow, format!("Bash(npm run script-{at}:*)")),
            3 | 4 => (Effect::Allow, format!("Bash(tool-{at}:*)")),
            5 => (Effect::Deny, format!("Bash(git push origin-{at}:*)")),
            6 => (Effect::Deny, format!("Read(./secrets-{at}/**)")),
            7 => (Effect::Ask, format!("Edit(/deploy-{at}/**)")),
            8 => (Effect::Allow, format!("WebFetch(domain:docs-{at}.example)")),
            _ => (Effect::Deny, format!("Bash(cargo publish --token-{at} *)")),
        };
        add(&mut set, effect, &rule)?;
    }
    Ok(set)
}

fn add(set: &mut RuleSet, effect: Effect, rule: &str) -> Result<()> {
    let line = u32::try_from(set.entries().count() + 1)?;
    let origin = RuleOrigin::file("rules.toml", line);
    set.insert(RuleEntry::parse(effect, rule, origin)?);
    Ok(())
}
