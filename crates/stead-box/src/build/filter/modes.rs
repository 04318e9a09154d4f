//! Checks of mode arguments: set-user-id, set-group-id and sticky bits.
//!
//! A file that a box creates in a host directory belongs to the owner of that directory. A set-id
//! bit on it would lend the owner's rights to every host user who runs it. `nosuid` on the mount
//! disables the bits in the box, but the kernel still stores them. So a box with a writable host
//! directory may not set such a bit in any call.
//!
//! Other boxes may. The bits have no effect there, because `no_new_privs` and `nosuid` apply
//! everywhere. But programs set them and treat a refusal as fatal (an X server on `/tmp/.X11-unix`,
//! `git init --shared`, `cp -a`). A filter cannot distinguish directories, so the choice is made
//! per box.

use libc::{c_long, sock_filter};

use super::program::{ALLOW, REFUSE, UNKNOWN, argument, give, jump_any, load, no_device};

/// Mode bits that a box may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::build) enum ModeBits {
    Any,
    /// Read, write and execute only.
    Permissions,
}

/// Set-user-id, set-group-id, sticky.
pub(super) const SPECIAL: u32 = 0o7000;
/// Flags with which `open` uses its mode argument. Without them the register may contain anything.
const CREATES: u32 = (libc::O_CREAT | 0o20_000_000) as u32;

/// Returns the calls that set a mode, each with its check. They precede all other checks, so each
/// check must end in a return.
pub(super) fn checks(bits: ModeBits) -> Vec<(c_long, Vec<sock_filter>)> {
    if bits == ModeBits::Any {
        return Vec::new();
    }
    let mut checks = vec![
        (libc::SYS_fchmod, plain(1)),
        (libc::SYS_fchmodat, plain(2)),
        (libc::SYS_fchmodat2, plain(2)),
        (libc::SYS_mkdirat, plain(2)),
        (libc::SYS_openat, plain_if_created(2, 3)),
        (libc::SYS_mknodat, node(2)),
        // The mode is in memory, which a filter cannot read and another thread may change. Programs
        // fall back to `openat`.
        (libc::SYS_openat2, vec![give(UNKNOWN)]),
    ];
    #[cfg(target_arch = "x86_64")]
    checks.extend([
        (libc::SYS_chmod, plain(1)),
        (libc::SYS_mkdir, plain(1)),
        (libc::SYS_creat, plain(1)),
        (libc::SYS_open, plain_if_created(1, 2)),
        (libc::SYS_mknod, node(1)),
    ]);
    checks
}

fn plain(mode: u32) -> Vec<sock_filter> {
    vec![load(argument(mode)), jump_any(SPECIAL, 0, 1), give(REFUSE), give(ALLOW)]
}

fn plain_if_created(flags: u32, mode: u32) -> Vec<sock_filter> {
    let mut code = vec![load(argument(flags)), jump_any(CREATES, 1, 0), give(ALLOW)];
    code.extend(plain(mode));
    code
}

fn node(mode: u32) -> Vec<sock_filter> {
    let mut code = vec![load(argument(mode)), jump_any(SPECIAL, 0, 1), give(REFUSE)];
    code.extend(no_device(mode));
    code
}
