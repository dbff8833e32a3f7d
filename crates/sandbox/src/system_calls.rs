//! System calls that no crate has a safe interface for.
//!
//! With [`syscall_notices`](crate::syscall_notices) this is what the sandbox has of unsafe code. Invariant: what the kernel is given lives until
//! the call returns.

use std::io;

use libc::{c_long, sock_filter, sock_fprog};

/// Puts a filter on this thread and on all it will start.
#[expect(unsafe_code, reason = "no safe interface takes a filter program")]
pub(crate) fn install_filter(filter: &mut [sock_filter]) -> io::Result<()> {
    let program = sock_fprog {
        len: u16::try_from(filter.len()).map_err(io::Error::other)?,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the program, which has the length that is given.
    check(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    })
}

/// Marks every descriptor from `first` on to be closed when another program is run.
#[expect(
    unsafe_code,
    reason = "descriptors are named by number, whoever owns them"
)]
pub(crate) fn close_on_exec(first: u32) -> io::Result<()> {
    // SAFETY: nothing is closed before this process runs another program, and then nobody owns them.
    check(unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    })
}

/// Whether this process ends when it is told to. Whoever it becomes inherits that it does not.
#[expect(unsafe_code, reason = "no safe interface ignores a signal")]
pub(crate) fn set_termination(ends: bool) {
    let action = if ends { libc::SIG_DFL } else { libc::SIG_IGN };
    // SAFETY: neither of these is a function of ours.
    unsafe {
        libc::signal(libc::SIGTERM, action);
    }
}

/// Namespaces that are made together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewNamespaces {
    Network,
    UserAndNetwork,
}

/// Gives this process namespaces of its own.
#[expect(unsafe_code, reason = "no safe interface leaves a namespace")]
pub(crate) fn make_namespaces(which: NewNamespaces) -> io::Result<()> {
    let flags = match which {
        NewNamespaces::Network => libc::CLONE_NEWNET,
        NewNamespaces::UserAndNetwork => libc::CLONE_NEWUSER | libc::CLONE_NEWNET,
    };
    // SAFETY: neither of them changes which descriptors or memory this process has.
    check(unsafe { libc::syscall(libc::SYS_unshare, flags) })
}

/// Lets programs of this network namespace reach each other.
#[expect(unsafe_code, reason = "no safe interface has these requests")]
pub(crate) fn raise_loopback() -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (letter, name) in request.ifr_name.iter_mut().zip(b"lo") {
        *letter = name.cast_signed();
    }
    // SAFETY: both requests read and write one `ifreq`, which lives until the call returns, and the first has
    // filled in the flags when they are read.
    let raised = unsafe {
        let found = libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request);
        check(found.into())?;
        let up = libc::IFF_UP | libc::IFF_RUNNING;
        request.ifr_ifru.ifru_flags |= libc::c_short::try_from(up).unwrap_or_default();
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)
    };
    check(raised.into())
}

/// Takes over a descriptor that this process was started with, so that it does not pass it on.
#[expect(
    unsafe_code,
    reason = "whoever started this process names it by its number"
)]
pub(crate) fn take_descriptor(number: i32) -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd as _;
    // SAFETY: these calls only look at and mark the number.
    let marked = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    check(marked.into())?;
    // SAFETY: it is open, and nobody else here owns it: it is named once, on the command line.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(number) })
}

/// Joins a namespace by its descriptor.
pub(crate) fn join_descriptor(namespace: &std::os::fd::OwnedFd) -> io::Result<()> {
    use std::os::fd::AsFd as _;
    Ok(rustix::thread::move_into_link_name_space(
        namespace.as_fd(),
        None,
    )?)
}

/// Calls that reach another process. Given nothing that the kernel could write to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProcessCall {
    Trace,
    ReadMemory,
    Compare,
}

/// Succeeds if the kernel would let this process do it.
#[expect(unsafe_code, reason = "no safe interface has these calls")]
pub(crate) fn call_process(call: ProcessCall, pid: u32) -> io::Result<()> {
    const SEIZE: c_long = 0x4206;
    let pid = c_long::from(pid);
    let own = c_long::from(std::process::id());
    let nothing = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 1,
    };
    // SAFETY: no call is given memory to write to; a process that is traced in this way goes on.
    let (returned, past) = unsafe {
        match call {
            ProcessCall::Trace => (libc::syscall(libc::SYS_ptrace, SEIZE, pid, 0, 0), 0),
            ProcessCall::ReadMemory => {
                let at = &raw const nothing;
                let read = libc::syscall(libc::SYS_process_vm_readv, pid, at, 1, at, 1, 0);
                (read, libc::EFAULT)
            }
            ProcessCall::Compare => (libc::syscall(libc::SYS_kcmp, own, pid, 2, 0, 0), 0),
        }
    };
    passed(returned, &[past])
}

/// Calls that change the machine or see more of it. Given arguments with which they do nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KernelCall {
    UnshareUser,
    UnshareMounts,
    Clone3,
    Mount,
    OpenFileSystem,
    CopyMounts,
    PivotRoot,
    IoUring,
    #[cfg(target_arch = "x86_64")]
    X32,
    Bpf,
    PerfEvents,
    PageFaults,
    WatchFiles,
    OpenByNumber,
    ReadKeys,
    AddKey,
    LoadModule,
    SwapOff,
    Accounting,
    HostName,
    KernelLog,
}

/// Succeeds if the call was let through: it worked, or it failed for its arguments alone.
#[expect(unsafe_code, reason = "no safe interface has these calls")]
pub(crate) fn call_kernel(call: KernelCall) -> io::Result<()> {
    use libc::{EBUSY, EFAULT, EINVAL, ENODEV, ENOEXEC, c_char};
    const CLONE_TREE: c_long = 1;
    const SESSION_KEYS: c_long = -3;
    const REPORT_FILES: c_long = 0x200;
    const LOG_SIZE: c_long = 10;
    let (root, here): (*const c_char, *const c_char) = (c"/".as_ptr(), c".".as_ptr());
    let (memory, none) = (c"tmpfs".as_ptr(), c"no-such-file-system".as_ptr());
    let null = std::ptr::null::<u8>();
    // SAFETY: every pointer is a text that lives for ever, null, or an address that cannot be read; none is written
    // to. The namespaces that are made are this process's own.
    let (returned, past): (c_long, &[libc::c_int]) = unsafe {
        match call {
            KernelCall::UnshareUser => (libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUSER), &[]),
            KernelCall::UnshareMounts => (libc::syscall(libc::SYS_unshare, libc::CLONE_NEWNS), &[]),
            KernelCall::Clone3 => (libc::syscall(libc::SYS_clone3, null, 0), &[EINVAL]),
            KernelCall::Mount => (
                libc::syscall(libc::SYS_mount, none, root, none, 0, null),
                &[ENODEV],
            ),
            KernelCall::OpenFileSystem => (libc::syscall(libc::SYS_fsopen, memory, 0), &[]),
            KernelCall::CopyMounts => (
                libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, root, CLONE_TREE),
                &[],
            ),
            KernelCall::PivotRoot => (
                libc::syscall(libc::SYS_pivot_root, here, here),
                &[EINVAL, EBUSY],
            ),
            KernelCall::IoUring => (libc::syscall(libc::SYS_io_uring_setup, 1, null), &[EFAULT]),
            #[cfg(target_arch = "x86_64")]
            KernelCall::X32 => (libc::syscall(0x4000_0000 + libc::SYS_getpid), &[]),
            KernelCall::Bpf => (libc::syscall(libc::SYS_bpf, 0, null, 0), &[EINVAL, EFAULT]),
            KernelCall::PerfEvents => (
                libc::syscall(libc::SYS_perf_event_open, null, 0, -1, -1, 0),
                &[EFAULT],
            ),
            KernelCall::PageFaults => (libc::syscall(libc::SYS_userfaultfd, 1), &[]),
            KernelCall::WatchFiles => {
                (libc::syscall(libc::SYS_fanotify_init, REPORT_FILES, 0), &[])
            }
            KernelCall::OpenByNumber => (
                libc::syscall(libc::SYS_open_by_handle_at, libc::AT_FDCWD, null, 0),
                &[EFAULT],
            ),
            KernelCall::ReadKeys => (libc::syscall(libc::SYS_keyctl, 0, SESSION_KEYS, 0), &[]),
            KernelCall::AddKey => (
                libc::syscall(libc::SYS_add_key, null, null, null, 0, 0),
                &[EFAULT],
            ),
            KernelCall::LoadModule => (
                libc::syscall(libc::SYS_init_module, null, 0, null),
                &[EFAULT, ENOEXEC],
            ),
            KernelCall::SwapOff => (libc::syscall(libc::SYS_swapoff, null), &[EFAULT]),
            KernelCall::Accounting => (libc::syscall(libc::SYS_acct, 1), &[EFAULT]),
            KernelCall::HostName => (libc::syscall(libc::SYS_sethostname, null, 1000), &[EINVAL]),
            KernelCall::KernelLog => (libc::syscall(libc::SYS_syslog, LOG_SIZE, null, 0), &[]),
        }
    };
    passed(returned, past)
}

/// Joins a namespace, which is this process's own matter.
pub(crate) fn join_namespace(namespace: &std::fs::File) -> io::Result<()> {
    join_descriptor(&namespace.try_clone()?.into())
}

/// Opens a file for writing by a path that other threads may change meanwhile. It ends with a zero.
#[expect(unsafe_code, reason = "every safe interface copies the path first")]
pub(crate) fn open_shared(path: &[std::sync::atomic::AtomicU8]) -> io::Result<std::fs::File> {
    use std::os::fd::FromRawFd as _;
    // SAFETY: the bytes live until the call returns, and may be changed at any time; the last is always zero.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_openat,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::O_WRONLY | libc::O_CLOEXEC,
            0,
        )
    };
    let number = i32::try_from(opened).unwrap_or(-1);
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel opened it just now, so nobody else owns it.
    Ok(unsafe { std::fs::File::from_raw_fd(number) })
}

/// Types a byte into a terminal.
#[expect(unsafe_code, reason = "no safe interface has this request")]
pub(crate) fn type_byte(terminal: &std::fs::File) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let byte = b'x';
    // SAFETY: the kernel reads one byte, which lives until the call returns.
    let typed = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSTI, &raw const byte) };
    check(typed.into())
}

fn passed(returned: c_long, past: &[libc::c_int]) -> io::Result<()> {
    let error = io::Error::last_os_error();
    let is_past = error
        .raw_os_error()
        .is_some_and(|number| past.contains(&number));
    if returned >= 0 || is_past {
        Ok(())
    } else {
        Err(error)
    }
}

fn check(returned: c_long) -> io::Result<()> {
    if returned == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
