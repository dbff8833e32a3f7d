//! Files of the tree that tests keep true.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// Compares a file, by its path in the tree, with what it should hold. With `COUNTERSIGN_BLESS` it is written anew.
pub(crate) fn check_golden(path: &str, expected: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    if std::env::var_os("COUNTERSIGN_BLESS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, expected).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = found
        .lines()
        .zip(expected.lines())
        .position(|(a, b)| a != b);
    assert!(
        found == expected,
        "{path} differs from what the host does, first in line {}; look at the change and write it anew with \
         COUNTERSIGN_BLESS=1",
        differs.unwrap_or_else(|| found.lines().count()) + 1
    );
}

/// The same JSON with the members of its objects in the order of their names, which otherwise depends on features of
/// `serde_json` that other crates choose.
pub(crate) fn sort_members(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let sorted: BTreeMap<String, Value> = members.into_iter().collect();
            let sorted = sorted.into_iter();
            Value::Object(
                sorted
                    .map(|(name, value)| (name, sort_members(value)))
                    .collect(),
            )
        }
        Value::Array(items) => items.into_iter().map(sort_members).collect(),
        other => other,
    }
}
