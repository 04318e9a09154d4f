//! A file on its way to a name.
//!
//! Where the disk can (`O_TMPFILE`), it has no name while it is written, and the kernel takes it back if the writer dies.
//! Replacing an existing file needs a name for the moment between two system calls; a disk that knows no nameless files
//! needs one all the time. Such names are `.stead-PID-N.tmp`, and [`DiskFs::sweep`] removes those of dead writers.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::DiskFs;
use super::beneath::proc_path;
use crate::entry::Kind;
use crate::error::FsError;
use crate::filesystem::{Filesystem, Recursion, Walk};
use crate::path::WorkspacePath;

const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The name a file has until it has its own, removed unless it was given up.
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
            // What a disk or a kernel says that knows no such files.
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
    pub(super) fn place_new(&mut self, file: &File, directory: &OwnedFd, to: &OsStr) -> Result<(), Errno> {
        let Some(from) = self.name.as_deref() else { return name_it(file, directory, to) };
        match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.name = None;
                Ok(())
            }
            // A filesystem without that flag: a second name for the file, and the first one goes with the guard.
            Err(Errno::INVAL | Errno::NOSYS) => linkat(directory, from, directory, to, AtFlags::empty()),
            Err(other) => Err(other),
        }
    }

    /// Gives the file a name, taking it from whatever file has it.
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

fn next_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(".stead-{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The process that made a temporary name, if it is one.
fn writer_of(name: &[u8]) -> Option<u32> {
    let name = std::str::from_utf8(name).ok()?;
    let (pid, number) = name.strip_prefix(".stead-")?.strip_suffix(".tmp")?.split_once('-')?;
    number.parse::<u64>().ok()?;
    pid.parse().ok()
}

impl DiskFs {
    /// Removes what writers that died left behind, and says how many files that were. It walks the whole tree, so it is for the
    /// owner of a workspace after a crash and not part of opening one. A number that belongs to a living process is left alone.
    pub fn sweep(&mut self) -> Result<u64, FsError> {
        let mut leftovers = Vec::new();
        self.walk(&WorkspacePath::root(), &mut |walked| {
            let writer = walked.path.name().filter(|_| walked.kind == Kind::File).and_then(writer_of);
            if writer.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
                leftovers.push(walked.path.clone());
            }
            ControlFlow::Continue(Walk::IfReadable)
        })?;
        let mut removed = 0;
        for path in leftovers {
            match self.delete(&path, Recursion::EmptyOnly) {
                Ok(count) => removed += count,
                Err(FsError::NotFound { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(removed)
    }
}
