//! Any text as a rule, and any text as what it is held against.
#![no_main]

use countersign_rules::{
    Action, Allows, Effect, Entry, Floor, Layer, NoFacts, Origin, Place, Request, RuleSet, assess,
    judge, suggest,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some((rule, subject)) = text.split_once('\n') else { return };
    let place = Place {
        cwd: "/home/dev/proj".into(),
        project: "/home/dev/proj".into(),
        home: "/home/dev".into(),
        ignores_case: rule.len() % 2 == 1,
    };
    let actions = [
        Action::Shell { command: subject.into() },
        Action::Read { path: subject.into() },
        Action::Edit { path: subject.into() },
        Action::Fetch { url: subject.into() },
        Action::Mcp { server: subject.into(), tool: "x".into() },
    ];
    for action in actions {
        let request = Request { tool: "Bash".into(), action, place: place.clone() };
        let assessment = assess(&request, &NoFacts);
        let said = |effects: &[Effect]| {
            let mut set = RuleSet::default();
            for effect in effects {
                set.insert(Entry::parse(*effect, rule, Origin::file("rules.toml", 1)).ok()?);
            }
            let layer = Layer { rules: &set, admits: &|_| true, allows: Allows::Count };
            Some(judge(&assessment, &Floor::default(), &[layer]).effect)
        };
        // What a rule allows, the same rule denies: a deny never matches less.
        if said(&[Effect::Allow]) == Some(Effect::Allow) {
            assert_eq!(said(&[Effect::Deny]), Some(Effect::Deny), "{rule:?} {:?}", request.action);
            assert_eq!(said(&[Effect::Allow, Effect::Deny]), Some(Effect::Deny));
            assert_eq!(said(&[Effect::Allow, Effect::Ask]), Some(Effect::Ask));
        }
        // Suggesting tries dozens of attacks; a part of the inputs is enough.
        if data.len() % 16 != 0 {
            continue;
        }
        let candidates = suggest(&request, &NoFacts, &Floor::default(), &[]);
        assert!(candidates.len() <= 5);
    }
});
