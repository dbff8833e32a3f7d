//! Ways to turn an open that was allowed into another one.
//!
//! Whoever runs the suite allows [`PERMITTED`] after a while and denies everything else.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::{EscapeCase, EscapeScene, case, stopped};
use crate::system_calls;

/// The file that may be opened. It has as many letters as the first case.
pub(super) const PERMITTED: &str = "held_permit";

/// Each of them that is allowed waits for as long as a quick person.
const TRIES: usize = 16;

pub(super) const CASES: &[EscapeCase] = &[
    case(
        "held_memory",
        "change a path in memory while its open is held",
        change_memory,
    ),
    case(
        "held_link",
        "swap a link in a root while its open is held",
        swap_link,
    ),
    case(
        "held_descent",
        "reach another file through the descriptor of an allowed one",
        |s| {
            // Where nobody holds anything it can be opened as well.
            let allowed = OpenOptions::new()
                .write(true)
                .open(s.outside.join(PERMITTED))?;
            let number = allowed.as_raw_fd();
            let path = format!("/proc/self/fd/{number}/../held_descent");
            let through = OpenOptions::new().write(true).open(path);
            through
                .or_else(|_| {
                    OpenOptions::new()
                        .write(true)
                        .open(s.victim("held_descent"))
                })
                .map(drop)
        },
    ),
];

fn change_memory(scene: &EscapeScene) -> io::Result<()> {
    let (allowed, victim) = (scene.outside.join(PERMITTED), scene.victim("held_memory"));
    let path: Vec<AtomicU8> = terminated(&allowed).map(AtomicU8::new).collect();
    let set = |to: &Path| {
        for (byte, new) in path.iter().zip(terminated(to)) {
            byte.store(new, Ordering::SeqCst);
        }
    };
    let is_over = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                set(&victim);
                std::thread::yield_now();
                set(&allowed);
                std::thread::yield_now();
            }
        });
        let found = (0..TRIES).find_map(|_| reach(system_calls::open_shared(&path), &victim));
        is_over.store(true, Ordering::SeqCst);
        found
    });
    set(&victim);
    let found = found.or_else(|| reach(system_calls::open_shared(&path), &victim));
    found.ok_or_else(|| stopped("only what was judged was opened"))
}

fn swap_link(scene: &EscapeScene) -> io::Result<()> {
    let (allowed, victim) = (scene.outside.join(PERMITTED), scene.victim("held_link"));
    let (link, next) = (scene.inside.join("held"), scene.inside.join("held-next"));
    let point_to = |to: &Path| symlink(to, &next).and_then(|()| fs::rename(&next, &link));
    let open = || OpenOptions::new().write(true).open(&link);
    point_to(&allowed)?;
    let is_over = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                if point_to(&victim).and_then(|()| point_to(&allowed)).is_err() {
                    return;
                }
            }
        });
        let found = (0..TRIES).find_map(|_| reach(open(), &victim));
        is_over.store(true, Ordering::SeqCst);
        found
    });
    point_to(&victim)?;
    let found = found.or_else(|| reach(open(), &victim));
    found.ok_or_else(|| stopped("only what was judged was opened"))
}

/// Something if what was opened is the file that nobody allowed.
fn reach(opened: io::Result<File>, victim: &Path) -> Option<()> {
    let (opened, victim) = (opened.ok()?.metadata().ok()?, fs::metadata(victim).ok()?);
    (opened.ino() == victim.ino()).then_some(())
}

fn terminated(path: &Path) -> impl Iterator<Item = u8> {
    let text: &OsStr = path.as_os_str();
    text.as_bytes().iter().copied().chain([0])
}
