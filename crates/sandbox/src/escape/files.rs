//! Changes outside the roots, and inside them where they may not be.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps,
    XattrFlags,
};

use super::scene::CONTENT;
use super::{EscapeCase, EscapeScene, case, stopped};

pub(super) const CASES: &[EscapeCase] = &[
    case("write", "write to a file", |s| write(&s.victim("write"))),
    case("append", "append to a file", |s| {
        append(&s.victim("append"))
    }),
    case("truncate", "truncate a file by its path", |s| {
        let file = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(s.victim("truncate"))?;
        file.set_len(0)
    }),
    case("create", "create a file", |s| {
        File::create_new(s.outside.join("new")).map(drop)
    }),
    case(
        "create_hidden",
        "create a file without a name and link it",
        unnamed_file,
    ),
    case("make_folder", "create a folder", |s| {
        fs::create_dir(s.outside.join("new-folder"))
    }),
    case("delete", "delete a file", |s| {
        fs::remove_file(s.victim("delete"))
    }),
    case("delete_folder", "delete a folder", |s| {
        fs::remove_dir(s.outside.join("empty"))
    }),
    case("rename", "rename a file", |s| {
        fs::rename(s.victim("rename"), s.outside.join("renamed"))
    }),
    case("rename_in", "move a file into a root", |s| {
        fs::rename(s.victim("rename_in"), s.inside.join("moved"))
    }),
    case("rename_out", "move a file out of a root", |s| {
        fs::rename(s.own_file("rename_out")?, s.outside.join("moved-out"))
    }),
    case(
        "rename_exchange",
        "exchange a file for one in a root",
        |s| {
            let own = s.own_file("rename_exchange")?;
            let flags = RenameFlags::EXCHANGE;
            Ok(rustix::fs::renameat_with(
                CWD,
                own,
                CWD,
                s.victim("rename_exchange"),
                flags,
            )?)
        },
    ),
    case(
        "hard_link_in",
        "hard link a file into a root and write to it",
        |s| {
            let link = s.inside.join("hard-link");
            fs::hard_link(s.victim("hard_link_in"), &link)?;
            write(&link)
        },
    ),
    case("hard_link_out", "hard link a file out of a root", |s| {
        fs::hard_link(s.own_file("hard_link_out")?, s.outside.join("linked-out"))
    }),
    case("symlink", "write through a symbolic link", |s| {
        let link = s.inside.join("link");
        symlink(s.victim("symlink"), &link)?;
        write(&link)
    }),
    case("symlink_out", "create a symbolic link", |s| {
        symlink("/", s.outside.join("link-out"))
    }),
    case(
        "symlink_race",
        "write through a link that changes its target",
        race,
    ),
    case("proc_root", "write through /proc/self/root", |s| {
        write(&beneath("/proc/self/root", &s.victim("proc_root")))
    }),
    case("proc_cwd", "write through /proc/self/cwd and ..", |s| {
        std::env::set_current_dir(&s.inside)?;
        write(Path::new("/proc/self/cwd/../outside/proc_cwd"))
    }),
    case(
        "proc_fd",
        "open for writing again what was opened for reading",
        |s| {
            let file = File::open(s.victim("proc_fd"))?;
            write(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
        },
    ),
    case(
        "folder_handle",
        "write relative to the handle of a folder",
        |s| {
            let folder = File::open(&s.inside)?;
            let flags = OFlags::WRONLY;
            let opened =
                rustix::fs::openat(folder, "../outside/folder_handle", flags, Mode::empty())?;
            Ok(rustix::io::write(opened, b"x").map(drop)?)
        },
    ),
    case("openat2", "write with openat2", |s| {
        let path = s.victim("openat2");
        let (flags, how) = (OFlags::WRONLY, ResolveFlags::NO_SYMLINKS);
        let opened = rustix::fs::openat2(CWD, path, flags, Mode::empty(), how)?;
        Ok(rustix::io::write(opened, b"x").map(drop)?)
    }),
    case("chmod", "change the mode of a file", |s| {
        fs::set_permissions(s.victim("chmod"), Permissions::from_mode(0o600))
    }),
    case("chmod_folder", "change the mode of a folder", |s| {
        fs::set_permissions(s.outside.join("folder"), Permissions::from_mode(0o711))
    }),
    case(
        "chmod_handle",
        "change the mode of a file by its handle",
        |s| {
            let file = File::open(s.victim("chmod_handle"))?;
            file.set_permissions(Permissions::from_mode(0o600))
        },
    ),
    case("chown", "change the owner of a file", |s| {
        let (path, file) = (s.victim("chown"), fs::metadata(s.victim("chown"))?);
        std::os::unix::fs::chown(path, Some(file.uid()), Some(file.gid()))
    }),
    case("utimes", "change the times of a file", |s| {
        let time = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        Ok(rustix::fs::utimensat(
            CWD,
            s.victim("utimes"),
            &times,
            AtFlags::empty(),
        )?)
    }),
    case("xattr", "set an extended attribute of a file", |s| {
        let path = s.victim("xattr");
        Ok(rustix::fs::setxattr(
            path,
            "user.escape",
            b"x",
            XattrFlags::empty(),
        )?)
    }),
    case("fifo", "create a named pipe", |s| {
        let (kind, mode) = (FileType::Fifo, Mode::from_bits_truncate(0o600));
        Ok(rustix::fs::mknodat(
            CWD,
            s.outside.join("fifo"),
            kind,
            mode,
            0,
        )?)
    }),
    case("device", "create a device in a root", |s| {
        let (kind, mode) = (FileType::CharacterDevice, Mode::from_bits_truncate(0o600));
        let device = rustix::fs::makedev(1, 3);
        Ok(rustix::fs::mknodat(
            CWD,
            s.inside.join("device"),
            kind,
            mode,
            device,
        )?)
    }),
    case(
        "inherited",
        "write to a descriptor that was inherited",
        |s| {
            let number = s
                .inherited
                .ok_or_else(|| stopped("nothing was left open"))?;
            let path = format!("/proc/self/fd/{number}");
            let target = fs::read_link(&path)?;
            if target == s.victim("inherited") {
                write(Path::new(&path))
            } else {
                Err(stopped("closed"))
            }
        },
    ),
    case("start_file", "write to a shell's start file", |s| {
        append(&s.home.join(".bashrc"))
    }),
    case(
        "git_hook",
        "add a git hook to the repository in a root",
        |s| File::create_new(s.inside.join(".git/hooks/pre-commit")).map(drop),
    ),
    case(
        "git_config",
        "have git run a program by its configuration",
        |s| append(&s.inside.join(".git/config")),
    ),
    case("git_config_replaced", "replace git's configuration", |s| {
        let own = s.own_file("config")?;
        fs::rename(own, s.inside.join(".git/config"))
    }),
    case("git_common", "point git at another folder", |s| {
        File::create_new(s.inside.join(".git/commondir")).map(drop)
    }),
    case("rules", "change the rules in a root", |s| {
        append(&s.inside.join(".countersign/rules.toml"))
    }),
    case("git_replaced", "replace the whole .git folder", |s| {
        fs::rename(s.inside.join(".git"), s.inside.join("git-moved"))
    }),
];

fn write(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(b"x")
}

fn append(path: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(b"x")
}

fn beneath(root: &str, path: &Path) -> PathBuf {
    let mut whole = PathBuf::from(root);
    whole.extend(path.components().skip(1));
    whole
}

fn unnamed_file(scene: &EscapeScene) -> io::Result<()> {
    let flags = i32::try_from(OFlags::TMPFILE.bits()).unwrap_or_default();
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(flags)
        .open(&scene.outside)?;
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let (to, how) = (scene.outside.join("unnamed"), AtFlags::SYMLINK_FOLLOW);
    Ok(rustix::fs::linkat(CWD, link, CWD, to, how)?)
}

/// One thread turns a link back and forth, another opens it.
fn race(scene: &EscapeScene) -> io::Result<()> {
    const ROUNDS: usize = 300;
    let own = scene.own_file("race")?;
    let victim = scene.victim("symlink_race");
    let (link, next) = (
        scene.inside.join("race-link"),
        scene.inside.join("race-next"),
    );
    symlink(&own, &link)?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for target in [&victim, &own] {
                    // The next round does what this one could not.
                    drop(symlink(target, &next));
                    drop(fs::rename(&next, &link));
                }
            }
        });
        for _ in 0..ROUNDS {
            // Whether it worked shows in the file.
            drop(write(&link));
        }
        over.store(true, Ordering::Relaxed);
    });
    // However the threads met: the last state of the link counts too.
    drop(fs::remove_file(&link));
    symlink(&victim, &link)?;
    drop(write(&link));
    if fs::read(&victim)? == CONTENT {
        Err(stopped("the file is as it was"))
    } else {
        Ok(())
    }
}
