//! Detached mounts. They get their flags before they are attached.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use crate::error::{OrRefuse, Primitive, Refused};
use crate::sys::mount_attr;

/// Flags of read-only mounts.
pub(super) const SHOWN: u64 = mount_attr::RDONLY | mount_attr::NOSUID | mount_attr::NODEV;
/// Flags of writable mounts.
pub(super) const WRITTEN: u64 = mount_attr::NOSUID | mount_attr::NODEV;

/// Returns a detached copy of the mount tree at `path`. It does not follow a link in the last
/// component.
pub(super) fn copy(at: impl AsFd, path: impl AsRef<Path>, flags: u64) -> Result<OwnedFd, Refused> {
    let path = path.as_ref();
    let how = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let tree =
        open_tree(at, path, how).or_refuse(Primitive::Mount, || format!("cannot copy the mount {}", path.display()))?;
    let refused = || format!("cannot restrict the mount {}", path.display());
    mount_attr::set_flags(tree.as_fd(), flags).or_refuse(Primitive::Mount, refused)?;
    Ok(tree)
}

/// An option of a new file system.
pub(super) enum Opt<'a> {
    Flag(&'a str),
    Value(&'a str, &'a str),
}

/// Returns a new detached file system.
pub(super) fn new(kind: &str, options: &[Opt<'_>], flags: u64, primitive: Primitive) -> Result<OwnedFd, Refused> {
    let refused = || format!("cannot make a {kind} file system");
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).or_refuse(primitive, refused)?;
    set(&context, options).or_refuse(primitive, refused)?;
    fsconfig_create(&context).or_refuse(primitive, refused)?;
    let mount =
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).or_refuse(primitive, refused)?;
    mount_attr::set_flags(mount.as_fd(), flags).or_refuse(primitive, refused)?;
    Ok(mount)
}

fn set(context: &OwnedFd, options: &[Opt<'_>]) -> rustix::io::Result<()> {
    options.iter().try_for_each(|option| match option {
        Opt::Flag(name) => fsconfig_set_flag(context, *name),
        Opt::Value(name, value) => fsconfig_set_string(context, *name, *value),
    })
}

/// Attaches a detached mount at `path` below `at`.
pub(super) fn attach(mount: &OwnedFd, at: BorrowedFd<'_>, path: impl AsRef<Path>) -> Result<(), Refused> {
    let path = path.as_ref();
    // An empty path means `at` itself.
    let mut how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    if path.as_os_str().is_empty() {
        how |= MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    }
    move_mount(mount, "", at, path, how).or_refuse(Primitive::Mount, || format!("cannot mount at {}", path.display()))
}

pub(super) fn open_directory(at: impl AsFd, path: impl AsRef<Path>) -> Result<OwnedFd, Refused> {
    let path = path.as_ref();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, path, flags, Mode::empty()).or_refuse(Primitive::Mount, || format!("cannot open {}", path.display()))
}

/// Opens a host directory by its real path. Fails if a component of the path has become a symbolic
/// link since.
pub(super) fn open_linkless(path: &Path) -> Result<OwnedFd, Refused> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .or_refuse(Primitive::Mount, || format!("cannot open {} without following links", path.display()))
}
