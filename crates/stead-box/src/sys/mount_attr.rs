//! Sets flags and id mappings of whole mount trees.
#![expect(unsafe_code, reason = "mount_setattr is not in rustix")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

pub(crate) const RDONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub(crate) const NOSUID: u64 = libc::MOUNT_ATTR_NOSUID;
pub(crate) const NODEV: u64 = libc::MOUNT_ATTR_NODEV;
pub(crate) const NOEXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

/// Sets `flags` on the mount and on every mount below it.
pub(crate) fn set_flags(mount: BorrowedFd<'_>, flags: u64) -> io::Result<()> {
    set(mount, libc::mount_attr { attr_set: flags, attr_clr: 0, propagation: 0, userns_fd: 0 })
}

/// Makes every mount of the tree private: mount events do not propagate in either direction.
pub(crate) fn make_private(mount: BorrowedFd<'_>) -> io::Result<()> {
    set(mount, libc::mount_attr { attr_set: 0, attr_clr: 0, propagation: libc::MS_PRIVATE, userns_fd: 0 })
}

/// Maps the owners of a detached mount's files with the id mapping of `user_namespace`.
pub(crate) fn set_id_map(mount: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
    let userns_fd = u64::try_from(user_namespace.as_raw_fd()).map_err(io::Error::other)?;
    set(mount, libc::mount_attr { attr_set: libc::MOUNT_ATTR_IDMAP, attr_clr: 0, propagation: 0, userns_fd })
}

fn set(mount: BorrowedFd<'_>, attributes: libc::mount_attr) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the descriptor is open for the call, the path is an empty NUL-terminated string, and
    // `attributes` is a valid `mount_attr` of the length given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
