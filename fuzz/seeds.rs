//! Writes the corpus of rule cases as seeds: `seeds CORPUS.jsonl FOLDER`.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(corpus), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: seeds CORPUS.jsonl FOLDER".into());
    };
    for kind in ["verdict", "rule"] {
        std::fs::create_dir_all(Path::new(&folder).join(kind))?;
    }
    for (at, line) in std::fs::read_to_string(corpus)?.lines().enumerate() {
        let case: serde_json::Value = serde_json::from_str(line)?;
        if let Some(command) = case["request"]["command"].as_str() {
            // The first byte chooses the rules.
            let seed = [&[u8::try_from(at % 4)?], command.as_bytes()].concat();
            std::fs::write(Path::new(&folder).join("verdict").join(at.to_string()), seed)?;
        }
        let rules = case["rules"].as_object().into_iter().flat_map(|rules| rules.values());
        for (n, rule) in rules.flat_map(|list| list.as_array().into_iter().flatten()).enumerate().take(8) {
            if let Some(rule) = rule.as_str() {
                let seed = format!("{rule}\n{}", case["request"]["path"].as_str().unwrap_or("src/a"));
                std::fs::write(Path::new(&folder).join("rule").join(format!("{at}-{n}")), seed)?;
            }
        }
    }
    Ok(())
}
