//! Doors of the kernel: namespaces, mounts, keys, tracing, settings of the machine.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::IntoRawFd as _;

use super::{EscapeCase, case, stopped};
use crate::system_calls::{KernelCall, call_kernel};

pub(super) const CASES: &[EscapeCase] = &[
    case("user_namespace", "make a user namespace", |_| {
        call_kernel(KernelCall::UnshareUser)
    }),
    case("mount_namespace", "make a mount namespace", |_| {
        call_kernel(KernelCall::UnshareMounts)
    }),
    case("clone3", "make a namespace with clone3", |_| {
        call_kernel(KernelCall::Clone3)
    }),
    case(
        "join_namespace",
        "join the namespace of the first process",
        |_| {
            let namespace = std::fs::File::open("/proc/1/ns/uts")?;
            crate::system_calls::join_namespace(&namespace)
        },
    ),
    case("mount", "mount a file system", |_| {
        call_kernel(KernelCall::Mount)
    }),
    case("fsopen", "make a file system", |_| {
        call_kernel(KernelCall::OpenFileSystem)
    }),
    case("open_tree", "copy a tree of mounts", |_| {
        call_kernel(KernelCall::CopyMounts)
    }),
    case("pivot_root", "change the root of mounts", |_| {
        call_kernel(KernelCall::PivotRoot)
    }),
    case("chroot", "change the root", |_| {
        Ok(rustix::process::chroot("/")?)
    }),
    case("io_uring", "make system calls through io_uring", |_| {
        call_kernel(KernelCall::IoUring)
    }),
    #[cfg(target_arch = "x86_64")]
    case(
        "x32",
        "make system calls of another convention (x32)",
        |_| call_kernel(KernelCall::X32),
    ),
    case("bpf", "load a program into the kernel", |_| {
        call_kernel(KernelCall::Bpf)
    }),
    case("perf", "watch other programs with perf", |_| {
        call_kernel(KernelCall::PerfEvents)
    }),
    case("userfaultfd", "handle page faults", |_| {
        call_kernel(KernelCall::PageFaults)
    }),
    case("fanotify", "watch files of other programs", |_| {
        call_kernel(KernelCall::WatchFiles)
    }),
    case("file_handles", "open files by their number", |_| {
        call_kernel(KernelCall::OpenByNumber)
    }),
    case("keyctl", "read the keys of the session", |_| {
        call_kernel(KernelCall::ReadKeys)
    }),
    case("add_key", "add a key to the session", |_| {
        call_kernel(KernelCall::AddKey)
    }),
    case("module", "load a kernel module", |_| {
        call_kernel(KernelCall::LoadModule)
    }),
    case("swap", "change swap space", |_| {
        call_kernel(KernelCall::SwapOff)
    }),
    case("accounting", "have the kernel write to a file", |_| {
        call_kernel(KernelCall::Accounting)
    }),
    case("host_name", "change the machine's name", |_| {
        call_kernel(KernelCall::HostName)
    }),
    case("kernel_log", "read the kernel's log", |_| {
        call_kernel(KernelCall::KernelLog)
    }),
    case("terminal_input", "type into a terminal", |_| {
        type_into_terminal()
    }),
    case("sysctl", "change a setting of the kernel", |_| {
        open("/proc/sys/kernel/core_pattern")
    }),
    case("sysrq", "press a system key", |_| {
        open("/proc/sysrq-trigger")
    }),
    case("kernel_messages", "write to the kernel's log", |_| {
        open("/dev/kmsg")
    }),
    case("device_settings", "change a setting of a device", |_| {
        open("/sys/kernel/mm/ksm/run")
    }),
];

/// Only opened: what can be opened can be written.
fn open(path: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path).map(drop)
}

/// Into a terminal of its own, which asks for the same right.
fn type_into_terminal() -> io::Result<()> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    let pair = openpt(OpenptFlags::RDWR)?;
    grantpt(&pair)?;
    unlockpt(&pair)?;
    let name = ptsname(&pair, Vec::new())?;
    let name = name
        .to_str()
        .map_err(|_| stopped("the terminal has no name"))?;
    // It becomes the terminal of this process, if this process leads a session.
    let _ = rustix::process::setsid();
    let terminal = OpenOptions::new().read(true).write(true).open(name)?;
    // Left open until the process ends: closing it hangs up the terminal, and the signal of that would
    // end the attempt before it says what came of it.
    let _ = pair.into_raw_fd();
    crate::system_calls::type_byte(&terminal)
}
