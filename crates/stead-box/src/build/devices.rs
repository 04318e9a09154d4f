//! `/dev`: harmless devices, bind-mounted from the host because a user namespace cannot make device
//! nodes.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, makedev, statat};

use super::detached_mount;
use super::root::{Piece, What};
use crate::error::{Primitive, Refused};
use crate::sys::mount_attr;

/// Name and device number. The builder checks the number, so that it never mounts another device
/// under this name.
const NODES: &[(&str, u32, u32)] =
    &[("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];
/// Symbolic links. `ptmx` refers to the box's own devpts.
const LINKS: &[(&str, &str)] = &[
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

pub(super) fn pieces() -> Result<Vec<Piece>, Refused> {
    let mut pieces = Vec::new();
    for (name, major, minor) in NODES {
        let host = PathBuf::from("/dev").join(name);
        let is_it = statat(CWD, &host, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|found| {
            FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice
                && found.st_rdev == makedev(*major, *minor)
        });
        if !is_it {
            let reason = format!("it is not the character device {major}:{minor}");
            return Err(Refused {
                primitive: Primitive::Mount,
                doing: format!("cannot use {}", host.display()),
                reason,
            });
        }
        // The only kind of mount without `nodev`. `noexec` and `nosuid` are harmless here.
        let mount = detached_mount::copy(CWD, &host, mount_attr::NOSUID | mount_attr::NOEXEC)?;
        pieces.push(Piece { path: Path::new("dev").join(name), what: What::File(mount) });
    }
    pieces.extend(
        LINKS
            .iter()
            .map(|(name, target)| Piece { path: Path::new("dev").join(name), what: What::Link((*target).into()) }),
    );
    Ok(pieces)
}
