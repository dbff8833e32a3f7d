//! Any text as a rule, and any text as what it is held against.
#![no_main]

use countersign_rules::{
    ToolAction, LayerAllows, Effect, RuleEntry, Floor, LayerView, NoFacts, RuleOrigin, RequestPlace, ToolRequest, RuleSet, assess,
    judge, suggest,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some((rule, subject)) = text.split_once('\n') else { return };
    let place = RequestPlace {
        cwd: "/home/dev/proj".into(),
        project: "/home/dev/proj".into(),
        home: "/home/dev".into(),
        ignores_case: rule.len() % 2 == 1,
        in_sandbox: false,
    };
    let actions = [
        ToolAction::Shell { command: subject.into() },
        ToolAction::Read { path: subject.into() },
        ToolAction::Edit { path: subject.into() },
        ToolAction::Fetch { url: subject.into() },
        ToolAction::Mcp { server: subject.into(), tool: "x".into() },
    ];
    for action in actions {
        let request = ToolRequest { tool: "Bash".into(), action, place: place.clone() };
        let assessment = assess(&request, &NoFacts);
        let said = |effects: &[Effect]| {
            let mut set = RuleSet::default();
            for effect in effects {
                set.insert(RuleEntry::parse(*effect, rule, RuleOrigin::file("rules.toml", 1)).ok()?);
            }
            let layer = LayerView { rules: &set, admits: &|_| true, allows: &LayerAllows::Count };
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
