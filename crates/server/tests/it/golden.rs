//! Files of the tree that tests keep true.

use std::path::Path;

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
