//! Files through the host.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use countersign_agents::{
    FileError, FileRoots, open_for_read, open_for_write, read_text, write_text,
};
use tempfile::TempDir;

struct Room {
    _dir: TempDir,
    inside: PathBuf,
    outside: PathBuf,
    roots: FileRoots,
}

impl Room {
    fn new() -> Self {
        let dir = TempDir::new().expect("a folder");
        let real = dir.path().canonicalize().expect("a real folder");
        let (inside, outside) = (real.join("inside"), real.join("outside"));
        fs::create_dir(&inside).expect("a folder");
        fs::create_dir(&outside).expect("a folder");
        fs::write(inside.join("a"), "one\ntwo\nthree").expect("a file");
        fs::write(outside.join("secret"), "secret").expect("a file");
        Self {
            roots: FileRoots::resolve([inside.clone()]),
            _dir: dir,
            inside,
            outside,
        }
    }

    fn read(&self, path: impl AsRef<Path>) -> Result<String, FileError> {
        let opened = open_for_read(&self.inside.join(path), &self.roots)?;
        read_text(opened, None, None)
    }

    fn write(&self, path: impl AsRef<Path>, content: &str) -> Result<(), FileError> {
        let target = open_for_write(&self.inside.join(path), &self.roots)?;
        write_text(&target, content)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.inside).expect("a folder");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .map(|name| name.into_string().expect("text"))
            .collect();
        names.sort();
        names
    }
}

fn is_outside<T>(result: Result<T, FileError>, expected: &Path) -> bool {
    matches!(result, Err(FileError::Outside { path }) if path == expected)
}

#[test]
fn lines_are_counted_from_one() {
    let room = Room::new();
    let read = |line, limit| {
        let opened = open_for_read(&room.inside.join("a"), &room.roots).expect("a file");
        read_text(opened, line, limit).expect("text")
    };
    assert_eq!(read(None, None), "one\ntwo\nthree");
    assert_eq!(read(Some(2), None), "two\nthree");
    assert_eq!(read(Some(2), Some(1)), "two\n");
    assert_eq!(read(None, Some(1)), "one\n");
    assert_eq!(read(Some(9), None), "");
}

#[test]
fn what_is_outside_is_named_as_it_truly_is() {
    let room = Room::new();
    let secret = room.outside.join("secret");
    symlink(&secret, room.inside.join("link")).expect("a link");
    symlink(&room.outside, room.inside.join("folder")).expect("a link");
    symlink("../outside", room.inside.join("relative")).expect("a link");
    let ways = [
        secret.clone(),
        "link".into(),
        "../outside/secret".into(),
        "folder/secret".into(),
        "relative/secret".into(),
        "folder/../outside/secret".into(),
    ];
    for way in ways {
        assert!(is_outside(room.read(&way), &secret), "{way:?}");
        assert!(is_outside(room.write(&way, "x"), &secret), "{way:?}");
    }
    assert!(is_outside(
        room.write("folder/new/file", "x"),
        &room.outside.join("new/file")
    ));
    assert_eq!(fs::read_to_string(&secret).expect("a file"), "secret");
    assert!(!room.outside.join("new").exists());
}

#[test]
fn links_that_stay_inside_are_followed() {
    let room = Room::new();
    symlink(room.inside.join("a"), room.inside.join("absolute")).expect("a link");
    assert_eq!(room.read("absolute").expect("text"), "one\ntwo\nthree");
    room.write("absolute", "new").expect("a write");
    assert_eq!(room.read("a").expect("text"), "new");
    assert!(room.inside.join("absolute").is_symlink());
}

#[test]
fn one_file_can_be_admitted() {
    let room = Room::new();
    let secret = room.outside.join("secret");
    let link = room.inside.join("link");
    symlink(&secret, &link).expect("a link");
    let admitted = room.roots.clone().admit_exact(&secret);
    let opened = open_for_read(&link, &admitted).expect("it was admitted");
    assert_eq!(opened.real_path(), secret);
    assert_eq!(read_text(opened, None, None).expect("text"), "secret");
    let other = room.outside.join("other");
    assert!(is_outside(
        open_for_write(&other, &admitted).map(drop),
        &other
    ));
    fs::remove_file(&link).expect("no link");
    symlink("/etc/passwd", &link).expect("another link");
    let passwd = Path::new("/etc/passwd");
    assert!(is_outside(
        open_for_read(&link, &admitted).map(drop),
        passwd
    ));
}

#[test]
fn a_name_that_changes_after_it_was_judged_changes_nothing() {
    let room = Room::new();
    let path = room.inside.join("a");
    let secret = room.outside.join("secret");
    let opened = open_for_read(&path, &room.roots).expect("a file");
    let target = open_for_write(&path, &room.roots).expect("a file");
    fs::rename(&path, room.inside.join("b")).expect("moved");
    symlink(&secret, &path).expect("a link");
    assert_eq!(
        read_text(opened, None, None).expect("text"),
        "one\ntwo\nthree"
    );
    write_text(&target, "new").expect("a write");
    assert!(!path.is_symlink());
    assert_eq!(room.read("a").expect("text"), "new");
    assert_eq!(fs::read_to_string(&secret).expect("a file"), "secret");
}

#[test]
fn a_folder_that_is_moved_after_it_was_judged_is_not_written_to() {
    let room = Room::new();
    fs::create_dir(room.inside.join("sub")).expect("a folder");
    let target = open_for_write(&room.inside.join("sub/new"), &room.roots).expect("a place");
    fs::rename(room.inside.join("sub"), room.outside.join("sub")).expect("moved");
    let error = write_text(&target, "x").expect_err("it was moved");
    assert!(matches!(error, FileError::Moved { .. }));
    assert!(!room.outside.join("sub/new").exists());
}

#[test]
fn a_root_that_becomes_a_link_opens_nothing_new() {
    let room = Room::new();
    fs::rename(&room.inside, room.outside.join("moved")).expect("moved");
    symlink("/", &room.inside).expect("a link");
    let passwd = Path::new("/etc/passwd");
    assert!(is_outside(room.read("etc/passwd"), passwd));
}

#[test]
fn only_regular_files_are_opened() {
    let room = Room::new();
    let fifo = room.inside.join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo").success());
    let _socket = std::os::unix::net::UnixListener::bind(room.inside.join("s")).expect("a socket");
    symlink("nowhere", room.inside.join("dangling")).expect("a link");
    symlink("circle", room.inside.join("circle")).expect("a link");
    fs::create_dir(room.inside.join("dir")).expect("a folder");
    for name in ["fifo", "s", "dir", "circle", "a/below"] {
        let refused = |result| matches!(result, Err(FileError::NotRegular { .. }));
        assert!(refused(room.read(name).map(drop)), "{name}");
        assert!(refused(room.write(name, "x")), "{name}");
    }
    let error = room.write("dangling", "x");
    assert!(matches!(error, Err(FileError::NotRegular { .. })));
    let device = FileRoots::resolve(["/dev".into()]);
    let error = open_for_read(Path::new("/dev/null"), &device);
    assert!(matches!(error, Err(FileError::NotRegular { .. })));
    let proc = FileRoots::resolve(["/".into()]);
    let error = open_for_read(Path::new("/proc/self/exe"), &proc);
    assert!(matches!(error, Err(FileError::NotRegular { .. })));
}

#[test]
fn what_is_no_text_or_too_large_or_missing_says_so() {
    let room = Room::new();
    fs::write(room.inside.join("binary"), b"a\xff").expect("a file");
    assert!(matches!(
        room.read("binary"),
        Err(FileError::NotText { .. })
    ));
    let huge = fs::File::create(room.inside.join("huge")).expect("a file");
    huge.set_len(1 << 40).expect("a sparse file");
    let large = |result| matches!(result, Err(FileError::TooLarge { .. }));
    assert!(large(room.read("huge").map(drop)));
    assert!(large(room.write("a", &"x".repeat(9 * 1024 * 1024))));
    assert!(matches!(room.read("none"), Err(FileError::NotFound { .. })));
    let relative = open_for_read(Path::new("a"), &room.roots);
    assert!(matches!(relative, Err(FileError::BadPath { .. })));
    assert_eq!(room.read("a").expect("text"), "one\ntwo\nthree");
}

#[test]
fn a_file_is_replaced_as_a_whole_and_keeps_its_mode() {
    let room = Room::new();
    let path = room.inside.join("a");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).expect("a mode");
    let before = fs::File::open(&path).expect("a file");
    room.write("a", "new").expect("a write");
    let kept = fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(
        (kept & 0o7777, room.read("a").expect("text")),
        (0o750, "new".into())
    );
    let old = std::io::read_to_string(before).expect("the old text");
    assert_eq!(old, "one\ntwo\nthree");
    assert_eq!(room.names(), ["a"]);
}

#[test]
fn missing_folders_are_made_when_the_file_is_written() {
    let room = Room::new();
    let path = room.inside.join("x/y/new");
    let target = open_for_write(&path, &room.roots).expect("a place");
    assert_eq!(
        (target.real_path(), target.exists()),
        (path.as_path(), false)
    );
    assert_eq!(room.names(), ["a"]);
    write_text(&target, "text").expect("a write");
    assert_eq!(room.read("x/y/new").expect("text"), "text");
    let error = room.write("none/../other", "x");
    assert!(matches!(error, Err(FileError::BadPath { .. })));
}

#[test]
fn a_link_put_in_the_place_of_a_missing_folder_is_not_followed() {
    let room = Room::new();
    let target = open_for_write(&room.inside.join("x/new"), &room.roots).expect("a place");
    symlink(&room.outside, room.inside.join("x")).expect("a link");
    let error = write_text(&target, "text").expect_err("it is a link");
    assert!(matches!(error, FileError::Failed { .. }));
    assert!(!room.outside.join("new").exists());
}
