//! A temporary file that is about to get its name.
//!
//! If the disk supports `O_TMPFILE`, the file has no name while it is written, and the kernel frees
//! it if the writer dies. Replacing an existing file needs a temporary name between two system
//! calls. Without `O_TMPFILE` the file needs one all the time. Such names are `.stead-PID-N.tmp`,
//! and [`DiskFs::sweep`] removes those of dead writers.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::DiskFs;
use super::beneath::proc_path;
use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::{Filesystem, Recursion, Walk};
use crate::path::WorkspacePath;

const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The temporary name of a file, if it has one. Dropping this removes the name.
pub(super) struct Temporary {
    directory: OwnedFd,
    name: Option<String>,
}

impl Temporary {
    pub(super) fn make(directory: &OwnedFd) -> Result<(File, Self), Errno> {
        let own = directory.try_clone().map_err(|_| Errno::MFILE)?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        match openat(directory, ".", flags | OFlags::TMPFILE, PRIVATE) {
            Ok(fd) => return Ok((File::from(fd), Self { directory: own, name: None })),
            // Errors of disks and kernels without `O_TMPFILE`.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS | Errno::NOENT) => {}
            Err(other) => return Err(other),
        }
        loop {
            let name = next_name();
            match openat(directory, name.as_str(), flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, PRIVATE) {
                Ok(fd) => return Ok((File::from(fd), Self { directory: own, name: Some(name) })),
                Err(Errno::EXIST) => {}
                Err(other) => return Err(other),
            }
        }
    }

    /// Gives the file a name that must be free.
    pub(super) fn link_new(&mut self, file: &File, directory: &OwnedFd, to: &OsStr) -> Result<(), Errno> {
        let Some(from) = self.name.as_deref() else { return name_it(file, directory, to) };
        match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.name = None;
                Ok(())
            }
            // The filesystem lacks that flag: add a second link. Dropping this value removes the
            // temporary name.
            Err(Errno::INVAL | Errno::NOSYS) => linkat(directory, from, directory, to, AtFlags::empty()),
            Err(other) => Err(other),
        }
    }

    /// Gives the file a name and replaces an existing file of that name.
    pub(super) fn replace(&mut self, file: &File, directory: &OwnedFd, to: &OsStr) -> Result<(), Errno> {
        if self.name.is_none() {
            match name_it(file, directory, to) {
                Err(Errno::EXIST) => self.name = Some(name_anything(file, directory)?),
                done => return done,
            }
        }
        if let Some(from) = self.name.as_deref() {
            renameat(directory, from, directory, to)?;
            self.name = None;
        }
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(&self.directory, name.as_str(), AtFlags::empty());
        }
    }
}

fn name_it(file: &File, directory: &OwnedFd, to: &OsStr) -> Result<(), Errno> {
    linkat(CWD, proc_path(file.as_fd()), directory, to, AtFlags::SYMLINK_FOLLOW)
}

fn name_anything(file: &File, directory: &OwnedFd) -> Result<String, Errno> {
    loop {
        let name = next_name();
        match name_it(file, directory, OsStr::new(&name)) {
            Ok(()) => return Ok(name),
            Err(Errno::EXIST) => {}
            Err(other) => return Err(other),
        }
    }
}

pub(super) fn next_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(".stead-{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The process id in a temporary name; `None` if the name has another form.
fn writer_of(name: &[u8]) -> Option<u32> {
    let name = std::str::from_utf8(name).ok()?;
    let (pid, number) = name.strip_prefix(".stead-")?.strip_suffix(".tmp")?.split_once('-')?;
    number.parse::<u64>().ok()?;
    pid.parse().ok()
}

/// Returns true if the name is a temporary one whose writer does not run any more.
pub(super) fn is_leftover(name: &[u8]) -> bool {
    writer_of(name).is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
}

impl DiskFs {
    /// Removes the temporary files and directories of dead writers and returns the number of
    /// entries. It walks the whole tree, so call it for a workspace after a crash, not on every
    /// open. Skips files whose process id is in use.
    pub fn sweep(&mut self) -> Result<u64, FsError> {
        let mut leftovers = Vec::new();
        self.walk(&WorkspacePath::root(), &mut |walked| {
            let leftover = walked.path.name().is_some_and(is_leftover);
            if leftover && matches!(walked.kind, Kind::File | Kind::Directory) {
                leftovers.push(walked.path.clone());
                return ControlFlow::Continue(Walk::Skip);
            }
            ControlFlow::Continue(Walk::IfReadable)
        })?;
        let mut removed = 0;
        for path in leftovers {
            match self.delete(&path, Recursion::Recursive) {
                Ok(count) => removed += count,
                Err(FsError::NotFound { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(removed)
    }
}
