//! What is not there for a confined program.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{EscapeCase, EscapeScene, case};

pub(super) const CASES: &[EscapeCase] = &[
    case("read_hidden", "read a hidden file", |s| {
        read(&s.hidden_file())
    }),
    case("list_hidden", "list a hidden folder", |s| {
        let found = fs::read_dir(&s.hidden)?.next();
        found
            .unwrap_or_else(|| Err(super::stopped("it is empty")))
            .map(drop)
    }),
    case(
        "read_hidden_proc_root",
        "read a hidden file through /proc/self/root",
        |s| read(&in_root("/proc/self/root", &s.hidden_file())),
    ),
    case(
        "read_hidden_sibling_root",
        "read a hidden file through the root of another process",
        |s| {
            read(&in_root(
                &format!("/proc/{}/root", s.sibling),
                &s.hidden_file(),
            ))
        },
    ),
    case(
        "read_hidden_link",
        "read a hidden file through a symbolic link",
        |s| {
            let link = s.inside.join("hidden-link");
            symlink(s.hidden_file(), &link)?;
            read(&link)
        },
    ),
    case(
        "read_hidden_hard_link",
        "hard link a hidden file into a root",
        |s| {
            let link = s.inside.join("hidden-hard-link");
            fs::hard_link(s.hidden_file(), &link)?;
            read(&link)
        },
    ),
    case("write_hidden", "create a file in a hidden folder", |s| {
        fs::write(s.hidden.join("new"), "x")?;
        // An empty folder in its place would not count.
        if read(&s.hidden_file()).is_ok() {
            Ok(())
        } else {
            Err(super::stopped("it is elsewhere"))
        }
    }),
    case("read_tmp", "read somebody else's temporary file", |s| {
        read(&s.tmp_file)
    }),
    case(
        "write_tmp",
        "write to somebody else's temporary file",
        |s| fs::write(&s.tmp_file, "x"),
    ),
];

fn read(path: &Path) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    if text.is_empty() {
        Err(super::stopped("it is empty"))
    } else {
        Ok(())
    }
}

fn in_root(root: &str, path: &Path) -> PathBuf {
    let mut whole = PathBuf::from(root);
    whole.extend(path.components().skip(1));
    whole
}

impl EscapeScene {
    fn hidden_file(&self) -> PathBuf {
        self.hidden.join("secret")
    }
}
