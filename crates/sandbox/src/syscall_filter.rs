//! The system calls that are left: a seccomp filter.
//!
//! What is not for programs that only work on files is refused: other ways to reach processes, keys and
//! mounts, ways around a filter or a supervisor (`io_uring`, foreign calling conventions), and families of
//! sockets that do not end in a network namespace.

use libc::{c_int, c_long, sock_filter};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// Numbers from here on are calls of another convention (x32) on the same architecture.
const FOREIGN_NUMBERS: u32 = 0x4000_0000;

/// Where the kernel puts what a filter sees.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

/// Calls that are refused whatever their arguments are.
const REFUSED: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Flags of `clone` that make a namespace.
const NAMESPACE_FLAGS: c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Types into somebody's terminal.
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541C;

/// Families whose sockets end in the sandbox or in its network namespace.
const LOCAL_FAMILIES: [c_int; 2] = [libc::AF_UNIX, libc::AF_NETLINK];
const NETWORK_FAMILIES: [c_int; 2] = [libc::AF_INET, libc::AF_INET6];

/// What differs between filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilterOptions {
    /// Whether there may be sockets to other machines.
    pub(crate) network: bool,
    /// Whether somebody is told of opens that can change something.
    pub(crate) notices: bool,
}

/// Bits of an open that can change something.
const WRITE_BITS: c_int = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
/// Calls that open files, and which argument has their flags.
const OPENS: &[(c_long, u32)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
    (libc::SYS_openat, 2),
];
/// Calls that always make something, or whose flags are behind a pointer.
const NOTICED: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_openat2,
];

/// The filter.
pub(crate) fn build(options: FilterOptions) -> Vec<sock_filter> {
    let mut filter = FilterBuilder::default();
    filter.load(ARCHITECTURE_AT);
    filter.skip_if_equal(ARCHITECTURE, 1);
    filter.give(libc::SECCOMP_RET_KILL_PROCESS);
    filter.load(NUMBER_AT);
    if cfg!(target_arch = "x86_64") {
        filter.skip_if_below(FOREIGN_NUMBERS, 1);
        filter.refuse(libc::ENOSYS);
    }
    for &number in REFUSED {
        filter.refuse_call(number, libc::EPERM);
    }
    // Its flags are behind a pointer; programs fall back to `clone`.
    filter.refuse_call(libc::SYS_clone3, libc::ENOSYS);
    filter.refuse_bits(libc::SYS_clone, 0, NAMESPACE_FLAGS.cast_unsigned());
    filter.refuse_values(libc::SYS_ioctl, 1, &[TIOCSTI, TIOCLINUX]);
    let more = NETWORK_FAMILIES.iter().filter(|_| options.network);
    let families: Vec<_> = LOCAL_FAMILIES.iter().chain(more).collect();
    filter.allow_values(libc::SYS_socket, 0, &families, libc::EAFNOSUPPORT);
    if options.notices {
        for &(call, flags) in OPENS {
            filter.notice_bits(call, flags, WRITE_BITS.cast_unsigned());
        }
        for &call in NOTICED {
            filter.only_for(call, 1);
            filter.give(libc::SECCOMP_RET_USER_NOTIF);
        }
    }
    filter.give(libc::SECCOMP_RET_ALLOW);
    filter.0
}

/// Instructions, one after the other. The number of the call is loaded between any two checks.
#[derive(Default)]
struct FilterBuilder(Vec<sock_filter>);

impl FilterBuilder {
    fn push(&mut self, code: u32, jt: u8, jf: u8, k: u32) {
        // All codes fit: they are defined as numbers of 16 bits.
        let code = u16::try_from(code).unwrap_or_default();
        self.0.push(sock_filter { code, jt, jf, k });
    }

    fn load(&mut self, at: u32) {
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
    }

    fn give(&mut self, action: u32) {
        self.push(libc::BPF_RET | libc::BPF_K, 0, 0, action);
    }

    fn refuse(&mut self, error: c_int) {
        self.give(libc::SECCOMP_RET_ERRNO | error.cast_unsigned());
    }

    fn skip_if_equal(&mut self, value: u32, skip: u8) {
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, skip, 0, value);
    }

    fn skip_if_below(&mut self, value: u32, skip: u8) {
        self.push(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, skip, value);
    }

    /// Goes on with the next instruction for this call, and past `skip` for any other.
    fn only_for(&mut self, call: c_long, skip: u8) {
        let number = u32::try_from(call).unwrap_or(u32::MAX);
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip, number);
    }

    /// Loads the lower half of an argument.
    fn load_argument(&mut self, index: u32) {
        // Both architectures put the lower half first.
        self.load(ARGUMENTS_AT + 8 * index);
    }

    fn refuse_call(&mut self, call: c_long, error: c_int) {
        self.only_for(call, 1);
        self.refuse(error);
    }

    fn refuse_bits(&mut self, call: c_long, argument: u32, bits: u32) {
        let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
        self.give_for_bits(call, argument, bits, refusal);
    }

    fn notice_bits(&mut self, call: c_long, argument: u32, bits: u32) {
        self.give_for_bits(call, argument, bits, libc::SECCOMP_RET_USER_NOTIF);
    }

    /// Ends with an action for this call, if its argument has one of the bits.
    fn give_for_bits(&mut self, call: c_long, argument: u32, bits: u32, action: u32) {
        self.only_for(call, 4);
        self.load_argument(argument);
        self.push(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, bits);
        self.give(action);
        self.load(NUMBER_AT);
    }

    fn refuse_values(&mut self, call: c_long, argument: u32, values: &[u32]) {
        for &value in values {
            self.only_for(call, 4);
            self.load_argument(argument);
            self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, value);
            self.refuse(libc::EPERM);
            self.load(NUMBER_AT);
        }
    }

    /// Refuses a call unless its argument is one of these.
    fn allow_values(&mut self, call: c_long, argument: u32, values: &[&c_int], error: c_int) {
        let count = u8::try_from(values.len()).unwrap_or_default();
        self.only_for(call, count + 3);
        self.load_argument(argument);
        for (index, value) in values.iter().enumerate() {
            // Past the checks that are left, and past the refusal.
            let left = count - u8::try_from(index).unwrap_or_default();
            self.skip_if_equal(value.cast_unsigned(), left);
        }
        self.refuse(error);
        self.load(NUMBER_AT);
    }
}
