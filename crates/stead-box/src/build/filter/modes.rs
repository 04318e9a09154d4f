//! Mode arguments: set-user-id, set-group-id and sticky bits.
//!
//! A file that a box leaves in a host directory belongs to the owner of that directory, and a set-id bit on it would lend the
//! owner's rights to every user of the host who runs it. `nosuid` on the mount makes the bits useless in the box, but the kernel
//! still stores them. So a box with a writable host directory may not name such a bit in any call that sets a mode.
//!
//! Other boxes may: the bits mean nothing there, since `no_new_privs` and `nosuid` hold everywhere, but programs set them and
//! treat a refusal as fatal (an X server on `/tmp/.X11-unix`, `git init --shared`, `cp -a`). A filter cannot tell one directory
//! from another, so the choice is made per box.

use libc::{c_long, sock_filter};

use super::program::{ALLOW, REFUSE, UNKNOWN, argument, give, jump_any, load, no_device};

/// The mode bits that a box may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::build) enum ModeBits {
    Any,
    /// Read, write and execute only.
    Permissions,
}

/// Set-user-id, set-group-id, sticky.
pub(super) const SPECIAL: u32 = 0o7000;
/// Flags with which `open` uses its mode argument. Without them the register may hold anything.
const CREATES: u32 = (libc::O_CREAT | 0o20_000_000) as u32;

/// The calls that set a mode, each with its check. These precede all other checks, so each ends in an answer.
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
        // Its mode is in memory, where a filter sees nothing and another thread may write. Programs fall back to `openat`.
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
