//! Walks a directory tree without recursion.
//!
//! Pending entries hold a name and their parent, not a path or a descriptor. So a tree may be as
//! deep and as wide as the disk allows. The last few directories stay open, because opening a child
//! from its parent is cheapest.

use std::cell::RefCell;
use std::collections::{BinaryHeap, VecDeque};
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, OFlags, RawDir, statat};
use rustix::io::Errno;

use super::beneath::open_at;
use super::open::{kind, kind_of, stat};
use super::{DiskFs, errno};
use crate::error::FsError;
use crate::filesystem::entry::{Entry, Kind, Listing};
use crate::filesystem::resolve::LastLink;
use crate::filesystem::walk_order;
use crate::filesystem::{Walk, Walked};
use crate::path::WorkspacePath;

/// Maximum number of directories that a walk keeps open.
const OPEN: usize = 32;
/// Size of the buffer for names from the kernel, in bytes.
const BUFFER: usize = 32 * 1024;
/// Maximum length of a path that is cached in its directory.
const REMEMBERED: usize = 4_096;
const READ_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

/// A directory of the walk.
struct Level {
    parent: Option<Rc<Level>>,
    name: Vec<u8>,
    /// Its path as the caller names it, unless it is long: a chain of long paths would fill the
    /// memory.
    path: Option<WorkspacePath>,
    fd: RefCell<Option<OwnedFd>>,
}

struct Pending {
    parent: Rc<Level>,
    name: Vec<u8>,
    kind: Kind,
}

/// Callback for every name of an open directory, wanted or not, in the directory's own order.
type Sees<'a> = dyn FnMut(BorrowedFd<'_>, &[u8]) -> Result<(), Errno> + 'a;

/// `asked` is the caller's path of the directory, `real` is its resolved path. Results use the
/// caller's path.
struct Walker<'a, 's> {
    fs: &'a DiskFs,
    wants: &'a dyn Fn(&[u8], Kind) -> bool,
    sees: Option<&'a mut Sees<'s>>,
    asked: &'a WorkspacePath,
    real: WorkspacePath,
    pending: Vec<Pending>,
    open: VecDeque<Rc<Level>>,
}

impl DiskFs {
    pub(super) fn walk_below(
        &self,
        path: &WorkspacePath,
        wants: &dyn Fn(&[u8], Kind) -> bool,
        visit: &mut dyn FnMut(&Walked) -> ControlFlow<(), Walk>,
    ) -> Result<(), FsError> {
        self.walk_seeing(path, wants, None, visit)
    }

    pub(super) fn walk_seeing(
        &self,
        path: &WorkspacePath,
        wants: &dyn Fn(&[u8], Kind) -> bool,
        sees: Option<&mut Sees<'_>>,
        visit: &mut dyn FnMut(&Walked) -> ControlFlow<(), Walk>,
    ) -> Result<(), FsError> {
        let found = self.find(path, LastLink::Followed)?;
        if found.kind() != Kind::Directory {
            return Err(FsError::NotDirectory { path: path.clone() });
        }
        let fd = self.root.open(&found.path, READ_DIRECTORY).map_err(|errno| errno::error("list", path, errno))?;
        let (real, pending, open) = (found.path, Vec::new(), VecDeque::new());
        let mut walker = Walker { fs: self, wants, sees, asked: path, real, pending, open };
        let top = Rc::new(Level { parent: None, name: Vec::new(), path: Some(path.clone()), fd: RefCell::new(None) });
        walker.read(top, fd).map_err(|errno| errno::error("list", path, errno))?;
        walker.run(visit)
    }

    /// Lists the first entries of a directory by name, and holds only those in memory.
    pub(super) fn list_directory(&self, path: &WorkspacePath, limit: usize) -> Result<Listing, FsError> {
        let failed = |errno| errno::error("list", path, errno);
        let found = self.find(path, LastLink::Followed)?;
        if found.kind() != Kind::Directory {
            return Err(FsError::NotDirectory { path: path.clone() });
        }
        let fd = self.root.open(&found.path, READ_DIRECTORY).map_err(failed)?;
        let mut first = BinaryHeap::new();
        let mut total = 0;
        for_each_name(fd.as_fd(), |name, _| {
            total += 1;
            first.push(name.to_vec());
            if first.len() > limit {
                first.pop();
            }
        })
        .map_err(failed)?;
        let mut entries = Vec::with_capacity(first.len());
        for name in first.into_sorted_vec() {
            match statat(&fd, OsStr::from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(raw) => entries.push(Entry { path: path.joined(&name), stat: stat(&raw) }),
                // Removed since its name was read.
                Err(Errno::NOENT) => total -= 1,
                Err(other) => return Err(failed(other)),
            }
        }
        Ok(Listing { entries, total })
    }
}

impl Walker<'_, '_> {
    fn run(&mut self, visit: &mut dyn FnMut(&Walked) -> ControlFlow<(), Walk>) -> Result<(), FsError> {
        while let Some(next) = self.pending.pop() {
            self.fs.stop.check()?;
            let path = match &next.parent.path {
                Some(parent) => parent.joined(&next.name),
                None => self.path_of(self.asked, &next.parent, &next.name),
            };
            let walked = Walked { path, kind: next.kind };
            let ControlFlow::Continue(wish) = visit(&walked) else { return Ok(()) };
            if walked.kind != Kind::Directory || wish == Walk::Skip {
                continue;
            }
            match self.enter(next, &walked.path) {
                Ok(()) => {}
                // Removed or replaced meanwhile: it is not part of the walk.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(Errno::ACCESS | Errno::PERM) if wish == Walk::IfReadable => {}
                Err(other) => return Err(errno::error("list", &walked.path, other)),
            }
        }
        Ok(())
    }

    fn enter(&mut self, next: Pending, path: &WorkspacePath) -> Result<(), Errno> {
        let opened = match &*next.parent.fd.borrow() {
            Some(parent) => open_at(parent.as_fd(), &next.name, READ_DIRECTORY),
            None => self.fs.root.open(&self.path_of(&self.real, &next.parent, &next.name), READ_DIRECTORY),
        };
        let path = (path.as_bytes().len() <= REMEMBERED).then(|| path.clone());
        let level = Level { parent: Some(next.parent), name: next.name, path, fd: RefCell::new(None) };
        self.read(Rc::new(level), opened?)
    }

    /// Pushes the entries of the directory so that they are popped in path order.
    fn read(&mut self, level: Rc<Level>, fd: OwnedFd) -> Result<(), Errno> {
        let start = self.pending.len();
        let (pending, wants, sees) = (&mut self.pending, self.wants, &mut self.sees);
        let (mut unknown, mut seen) = (false, Ok(()));
        for_each_name(fd.as_fd(), |name, file_type| {
            if let (Some(sees), Ok(())) = (sees.as_deref_mut(), seen) {
                seen = sees(fd.as_fd(), name);
            }
            unknown |= file_type == FileType::Unknown;
            let kind = kind_of(file_type);
            if file_type == FileType::Unknown || wants(name, kind) {
                pending.push(Pending { parent: Rc::clone(&level), name: name.to_vec(), kind });
            }
        })?;
        seen?;
        if unknown {
            for entry in &mut self.pending[start..] {
                let raw = statat(&fd, OsStr::from_bytes(&entry.name), AtFlags::SYMLINK_NOFOLLOW);
                entry.kind = raw.map_or(Kind::Special, |raw| kind(&raw));
            }
            let wanted: Vec<_> =
                self.pending.split_off(start).into_iter().filter(|entry| wants(&entry.name, entry.kind)).collect();
            self.pending.extend(wanted);
        }
        self.pending[start..].sort_unstable_by(|a, b| walk_order::by_path((&b.name, b.kind), (&a.name, a.kind)));
        if self.pending[start..].iter().any(|entry| entry.kind == Kind::Directory) {
            self.keep_open(level, fd);
        }
        Ok(())
    }

    fn keep_open(&mut self, level: Rc<Level>, fd: OwnedFd) {
        level.fd.replace(Some(fd));
        self.open.push_back(level);
        if self.open.len() > OPEN
            && let Some(oldest) = self.open.pop_front()
        {
            oldest.fd.replace(None);
        }
    }

    fn path_of(&self, start: &WorkspacePath, parent: &Rc<Level>, name: &[u8]) -> WorkspacePath {
        let mut names = vec![name];
        let mut level = Some(parent);
        while let Some(at) = level {
            if at.parent.is_some() {
                names.push(&at.name);
            }
            level = at.parent.as_ref();
        }
        names.push(start.as_bytes());
        let mut path = Vec::with_capacity(names.iter().map(|name| name.len() + 1).sum());
        for name in names.iter().rev().filter(|name| !name.is_empty()) {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        WorkspacePath::from_valid(path)
    }
}

impl Drop for Level {
    /// Drops the chain of parents in a loop: the tree may be deeper than the stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(level) = next {
            next = Rc::into_inner(level).and_then(|mut level| level.parent.take());
        }
    }
}

/// Calls `each` with every name of an open directory but `.` and `..`.
///
/// Reads from the descriptor's current position, so open it for this call.
pub(super) fn for_each_name(fd: BorrowedFd<'_>, mut each: impl FnMut(&[u8], FileType)) -> Result<(), Errno> {
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut directory = RawDir::new(fd, buffer.spare_capacity_mut());
    while let Some(entry) = directory.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            each(name, entry.file_type());
        }
    }
    Ok(())
}
