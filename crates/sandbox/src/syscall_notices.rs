//! Notices of the kernel about system calls that wait for an answer (seccomp notification).
//!
//! This module has unsafe code, like [`system_calls`](crate::system_calls). Invariant: what the kernel is given
//! lives until the call returns, and has the size that the request's number says.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use libc::{c_long, c_ulong, sock_filter, sock_fprog};

/// Wakes the runner on the processor that the program waits on, which is quicker.
const SYNCHRONOUS_WAKE_UP: u64 = 1;
/// Memory is readable in whole pages, on every machine of at least this size.
const PAGE_BYTES: usize = 4096;

/// A system call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyscallNotice {
    pub(crate) id: u64,
    /// The thread, as the runner numbers it.
    pub(crate) thread: u32,
    pub(crate) number: c_long,
    pub(crate) arguments: [u64; 6],
}

/// Where notices come from, and where their answers go.
#[derive(Debug)]
pub(crate) struct NoticeSocket(OwnedFd);

/// Puts a filter on this thread and on all it will start, and gives what its notices are read from.
#[expect(unsafe_code, reason = "no safe interface takes a filter program")]
pub(crate) fn install_filter(filter: &mut [sock_filter]) -> io::Result<OwnedFd> {
    let program = sock_fprog {
        len: u16::try_from(filter.len()).map_err(io::Error::other)?,
        filter: filter.as_mut_ptr(),
    };
    // A call that was noticed goes on waiting when a signal comes, unless the signal ends the process: otherwise
    // programs whose runtime sends itself signals would ask again and again.
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the kernel copies the program, which has the length that is given.
    let made = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    let number = i32::try_from(made).unwrap_or(-1);
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made it just now, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

impl NoticeSocket {
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        let socket = Self(descriptor);
        let flags = SYNCHRONOUS_WAKE_UP;
        // Older kernels do not know it, and it only makes answers faster.
        drop(socket.request_set_flags(flags));
        socket
    }

    #[expect(unsafe_code, reason = "no safe interface has this request")]
    fn request_set_flags(&self, flags: u64) -> io::Result<()> {
        // SAFETY: the flags are passed as a number.
        let set = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                flags,
            )
        };
        check(set.into())
    }

    /// Waits for a notice. Nothing once no process is left that could send one.
    pub(crate) fn wait(&self) -> io::Result<Option<SyscallNotice>> {
        loop {
            let ready = self.poll()?;
            if ready & libc::POLLIN != 0 {
                match self.receive() {
                    // Whoever waited was killed or interrupted meanwhile.
                    Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    received => return received.map(Some),
                }
            } else if ready != 0 {
                // The kernel reports a hang-up once no process has the filter any more. Notices
                // that are still there are read before.
                return Ok(None);
            }
        }
    }

    #[expect(
        unsafe_code,
        reason = "the safe interface would be one more feature of a crate"
    )]
    fn poll(&self) -> io::Result<libc::c_short> {
        let mut watched = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one `pollfd`, which lives until the call returns.
        let found = unsafe { libc::poll(&raw mut watched, 1, -1) };
        match check(found.min(0).into()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
            Ok(()) => Ok(watched.revents),
        }
    }

    #[expect(unsafe_code, reason = "no safe interface has this request")]
    fn receive(&self) -> io::Result<SyscallNotice> {
        // SAFETY: a structure of numbers, for which zero is a value; the kernel wants it so.
        let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one `seccomp_notif`, which lives until the call returns.
        let received = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV,
                &raw mut notice,
            )
        };
        check(received.into())?;
        Ok(SyscallNotice {
            id: notice.id,
            thread: notice.pid,
            number: notice.data.nr.into(),
            arguments: notice.data.args,
        })
    }

    /// Whether the call still waits, so that its thread is the one that made it.
    #[expect(unsafe_code, reason = "no safe interface has this request")]
    pub(crate) fn still_waits(&self, id: u64) -> bool {
        // SAFETY: the kernel reads one number, which lives until the call returns.
        let valid = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
                &raw const id,
            )
        };
        valid == 0
    }

    /// Lets the kernel perform the call, with everything that it enforces.
    pub(crate) fn resume(&self, id: u64) -> io::Result<()> {
        let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or_default();
        self.respond(id, 0, flags)
    }

    /// Ends the call: it fails with this error, or succeeds with zero if there is none.
    pub(crate) fn finish(&self, id: u64, error: Option<rustix::io::Errno>) -> io::Result<()> {
        self.respond(id, error.map_or(0, |error| -error.raw_os_error()), 0)
    }

    #[expect(unsafe_code, reason = "no safe interface has this request")]
    fn respond(&self, id: u64, error: i32, flags: u32) -> io::Result<()> {
        let mut response = libc::seccomp_notif_resp {
            id,
            val: 0,
            error,
            flags,
        };
        // SAFETY: the kernel reads one `seccomp_notif_resp`, which lives until the call returns.
        let sent = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SEND,
                &raw mut response,
            )
        };
        check(sent.into())
    }

    /// Gives the program a copy of a descriptor, and ends the call with its number, both at once.
    #[expect(unsafe_code, reason = "no safe interface has this request")]
    pub(crate) fn inject(&self, id: u64, file: &OwnedFd, close_on_exec: bool) -> io::Result<()> {
        let flags = |flags: c_ulong| u32::try_from(flags).unwrap_or_default();
        let own = if close_on_exec { libc::O_CLOEXEC } else { 0 };
        let added = libc::seccomp_notif_addfd {
            id,
            // In two steps the call could be interrupted in between, and the program would keep a
            // descriptor that it does not know of.
            flags: flags(libc::SECCOMP_ADDFD_FLAG_SEND),
            srcfd: file.as_raw_fd().cast_unsigned(),
            newfd: 0,
            newfd_flags: own.cast_unsigned(),
        };
        // SAFETY: the kernel reads one `seccomp_notif_addfd`, which lives until the call returns.
        let number = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ADDFD,
                &raw const added,
            )
        };
        check(number.min(0).into())
    }
}

/// Reads memory of another process, as much as there is of `length` bytes.
#[expect(unsafe_code, reason = "no safe interface has this call")]
pub(crate) fn read_memory(thread: u32, address: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0_u8; length];
    let start = usize::try_from(address).map_err(io::Error::other)?;
    // Page by page: what lies behind the last one may not be there.
    let first = length.min(PAGE_BYTES - start % PAGE_BYTES);
    let mut remote = Vec::new();
    let (mut at, mut size) = (0, first);
    while size > 0 {
        remote.push(libc::iovec {
            iov_base: std::ptr::without_provenance_mut(start.wrapping_add(at)),
            iov_len: size,
        });
        at += size;
        size = (length - at).min(PAGE_BYTES);
    }
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: length,
    };
    let thread = i32::try_from(thread).map_err(io::Error::other)?;
    let count = c_ulong::try_from(remote.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel writes to `bytes` alone, which has the length that is given; the other addresses are those of
    // another process, and are checked by the kernel.
    let read =
        unsafe { libc::process_vm_readv(thread, &raw const local, 1, remote.as_ptr(), count, 0) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    bytes.truncate(read);
    Ok(bytes)
}

fn check(returned: c_long) -> io::Result<()> {
    if returned == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
