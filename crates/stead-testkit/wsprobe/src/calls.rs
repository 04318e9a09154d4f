//! A03: system calls that must not reach the kernel from a box.

use libc::c_long;

use crate::Finding;
use crate::raw::{call, getpid_by_interrupt, in_child};

/// Each call has arguments that fail or have no effect if the call is allowed. An error other than
/// "not permitted" or "no such call" means that the kernel looked at the arguments, so the call is
/// open.
const MUST_REFUSE: &[(&str, c_long, [c_long; 5])] = &[
    ("unshare_user", libc::SYS_unshare, [libc::CLONE_NEWUSER as c_long, 0, 0, 0, 0]),
    ("unshare_nothing", libc::SYS_unshare, [0, 0, 0, 0, 0]),
    ("setns", libc::SYS_setns, [-1, 0, 0, 0, 0]),
    ("clone_user", libc::SYS_clone, [(libc::CLONE_NEWUSER | libc::CLONE_THREAD) as c_long, 0, 0, 0, 0]),
    ("clone3", libc::SYS_clone3, [0, 0, 0, 0, 0]),
    ("mount", libc::SYS_mount, [0, 0, 0, 0, 0]),
    ("umount2", libc::SYS_umount2, [0, 0, 0, 0, 0]),
    ("pivot_root", libc::SYS_pivot_root, [0, 0, 0, 0, 0]),
    ("chroot", libc::SYS_chroot, [0, 0, 0, 0, 0]),
    ("fsopen", libc::SYS_fsopen, [0, 0, 0, 0, 0]),
    ("open_tree", libc::SYS_open_tree, [-1, 0, 0, 0, 0]),
    ("move_mount", libc::SYS_move_mount, [-1, 0, -1, 0, -1]),
    ("mount_setattr", libc::SYS_mount_setattr, [-1, 0, 0, 0, 0]),
    ("fsconfig", libc::SYS_fsconfig, [-1, 0, 0, 0, 0]),
    ("fsmount", libc::SYS_fsmount, [-1, 0, 0, 0, 0]),
    ("fspick", libc::SYS_fspick, [-1, 0, 0, 0, 0]),
    ("ptrace", libc::SYS_ptrace, [libc::PTRACE_TRACEME as c_long, 0, 0, 0, 0]),
    ("process_vm_readv", libc::SYS_process_vm_readv, [1, 0, 0, 0, 0]),
    ("process_vm_writev", libc::SYS_process_vm_writev, [1, 0, 0, 0, 0]),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, [-1, 0, 0, 0, 0]),
    ("process_madvise", libc::SYS_process_madvise, [-1, 0, 0, 0, 0]),
    ("tioclinux", libc::SYS_ioctl, [-1, 0x541C, 0, 0, 0]),
    ("kcmp", libc::SYS_kcmp, [1, 1, 0, 0, 0]),
    ("add_key", libc::SYS_add_key, [0, 0, 0, 0, 0]),
    ("request_key", libc::SYS_request_key, [0, 0, 0, 0, 0]),
    ("keyctl", libc::SYS_keyctl, [0, -3, 0, 0, 0]),
    ("bpf", libc::SYS_bpf, [-1, 0, 0, 0, 0]),
    ("perf_event_open", libc::SYS_perf_event_open, [0, 0, -1, -1, 0]),
    ("userfaultfd", libc::SYS_userfaultfd, [0, 0, 0, 0, 0]),
    ("io_setup", libc::SYS_io_setup, [1, 0, 0, 0, 0]),
    ("io_uring_setup", libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]),
    ("io_uring_enter", libc::SYS_io_uring_enter, [-1, 0, 0, 0, 0]),
    ("io_uring_register", libc::SYS_io_uring_register, [-1, 0, 0, 0, 0]),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, [-1, 0, 0, 0, 0]),
    ("name_to_handle_at", libc::SYS_name_to_handle_at, [-1, 0, 0, 0, 0]),
    ("fanotify_init", libc::SYS_fanotify_init, [0, 0, 0, 0, 0]),
    ("fanotify_mark", libc::SYS_fanotify_mark, [-1, 0, 0, 0, 0]),
    ("quotactl_fd", libc::SYS_quotactl_fd, [-1, 0, 0, 0, 0]),
    ("quotactl", libc::SYS_quotactl, [-1, 0, 0, 0, 0]),
    ("swapon", libc::SYS_swapon, [0, 0, 0, 0, 0]),
    ("swapoff", libc::SYS_swapoff, [0, 0, 0, 0, 0]),
    ("acct", libc::SYS_acct, [1, 0, 0, 0, 0]),
    ("reboot", libc::SYS_reboot, [0, 0, 0, 0, 0]),
    ("sethostname", libc::SYS_sethostname, [0, -1, 0, 0, 0]),
    ("setdomainname", libc::SYS_setdomainname, [0, -1, 0, 0, 0]),
    ("adjtimex", libc::SYS_adjtimex, [-1, 0, 0, 0, 0]),
    ("clock_settime", libc::SYS_clock_settime, [-1, 0, 0, 0, 0]),
    ("syslog", libc::SYS_syslog, [10, 0, 0, 0, 0]),
    ("init_module", libc::SYS_init_module, [0, 0, 0, 0, 0]),
    ("finit_module", libc::SYS_finit_module, [-1, 0, 0, 0, 0]),
    ("delete_module", libc::SYS_delete_module, [0, 0, 0, 0, 0]),
    ("kexec_load", libc::SYS_kexec_load, [0, 17, 0, -1, 0]),
    ("prlimit_of_another", libc::SYS_prlimit64, [1, libc::RLIMIT_NOFILE as c_long, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    ("iopl", libc::SYS_iopl, [0, 0, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    ("ioperm", libc::SYS_ioperm, [0, 1, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    ("modify_ldt", libc::SYS_modify_ldt, [0, 0, 0, 0, 0]),
    // The x32 ABI: the same calls with one more bit in the number.
    #[cfg(target_arch = "x86_64")]
    ("x32_getpid", 0x4000_0000 + libc::SYS_getpid, [0, 0, 0, 0, 0]),
];

pub(crate) fn probe() -> Vec<Finding> {
    let mut findings: Vec<Finding> = MUST_REFUSE
        .iter()
        .map(|(name, number, arguments)| finding(name, in_child(|| call(*number, *arguments))))
        .collect();
    findings.push(finding("i386_getpid", in_child(getpid_by_interrupt)));
    findings
}

fn finding(name: &str, error: Option<i32>) -> Finding {
    let allowed = !matches!(error, None | Some(libc::EPERM | libc::ENOSYS));
    let detail = error.map_or("killed".to_owned(), |error| format!("errno {error}"));
    Finding::new(format!("A03.{name}"), format!("call {name}"), allowed, detail)
}
