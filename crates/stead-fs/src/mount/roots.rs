//! The host directories that mounts may come from, by their real paths.
//!
//! Each root is held as a descriptor. Whatever a host path says, files are opened beneath one of
//! them, without following links.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::{HostDirectory, HostMount, MountError};
use crate::disk::DiskFs;
use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::{Content, Filesystem};
use crate::path::WorkspacePath;

pub struct AllowedRoots {
    roots: Vec<AllowedRoot>,
}

struct AllowedRoot {
    /// The path as configured, and the real path.
    given: PathBuf,
    real: PathBuf,
    fs: DiskFs,
}

/// A path without links in an allowed root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) root: usize,
    pub(super) path: WorkspacePath,
}

impl AllowedRoots {
    /// Opens the roots. Without any, all mounts are refused.
    pub fn open<P: AsRef<Path>>(roots: &[P]) -> Result<Self, MountError> {
        let open = |given: &P| {
            let given = given.as_ref();
            let missing = |source| MountError::RootMissing { root: given.display().to_string(), source };
            let real = given.canonicalize().map_err(missing)?;
            let fs = DiskFs::open(&real).map_err(missing)?;
            Ok(AllowedRoot { given: given.to_owned(), real, fs })
        };
        Ok(Self { roots: roots.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// Opens a file for reading, if its path is inside a root and has no links.
    pub fn open_file(&self, host_path: &str) -> Result<Content, MountError> {
        let mount = HostMount::new(host_path);
        let (source, _) = self.find(&mount)?;
        let opened = self.fs(source.root).open_walked(&source.path);
        opened.map_err(|error| MountError::Copy { host_path: host_path.to_owned(), target: source.path, source: error })
    }

    /// Opens a directory, if its path is inside a root and has no links.
    pub fn directory(&self, host_path: &str) -> Result<HostDirectory, MountError> {
        let (source, _) = self.find(&HostMount::new(host_path))?;
        // Opened once, beneath the root's descriptor, so later changes of the path have no effect.
        let files = self.fs(source.root).subdirectory(&source.path).map_err(|error| match error {
            FsError::LinkLoop { .. } => MountError::Symlink { host_path: host_path.to_owned() },
            FsError::NotFound { .. } => MountError::Missing { host_path: host_path.to_owned() },
            error => {
                let (host_path, target) = (host_path.to_owned(), WorkspacePath::root());
                MountError::Copy { host_path, target, source: error }
            }
        })?;
        Ok(HostDirectory { host_path: host_path.to_owned(), path: self.host_path(&source), files })
    }

    pub(super) fn fs(&self, root: usize) -> &DiskFs {
        &self.roots[root].fs
    }

    pub(super) fn host_path(&self, source: &Source) -> PathBuf {
        self.roots[source.root].real.join(source.path.as_os_str())
    }

    /// Finds the source of a mount and its kind.
    pub(super) fn find(&self, mount: &HostMount) -> Result<(Source, Kind), MountError> {
        let host_path = Path::new(&mount.host_path);
        if mount.host_path.trim().is_empty() || mount.host_path.contains('\0') {
            return Err(MountError::EmptyHostPath);
        }
        if self.roots.is_empty() {
            return Err(MountError::NoRoots);
        }
        if host_path.components().any(|component| component == Component::ParentDir) {
            return Err(self.outside(mount));
        }
        let mut missing = false;
        for candidate in self.candidates(host_path) {
            let found = if mount.follow_symlinks { self.follow(&candidate) } else { self.beneath(&candidate) };
            match found {
                Ok(source) => return self.checked(mount, source),
                Err(Elsewhere::Missing) => missing = true,
                Err(Elsewhere::Link) => return Err(MountError::Symlink { host_path: mount.host_path.clone() }),
                Err(Elsewhere::Outside) => {}
            }
        }
        // Report a missing path only if it would be inside a root, so that the answer does not
        // reveal which files exist outside.
        if missing { Err(MountError::Missing { host_path: mount.host_path.clone() }) } else { Err(self.outside(mount)) }
    }

    fn checked(&self, mount: &HostMount, source: Source) -> Result<(Source, Kind), MountError> {
        let host_path = || mount.host_path.clone();
        match self.fs(source.root).stat_entry(&source.path) {
            Ok(stat) if stat.kind == Kind::Symlink => Err(MountError::Symlink { host_path: host_path() }),
            Ok(stat) if stat.kind == Kind::Special => Err(MountError::Special { host_path: host_path() }),
            Ok(stat) => Ok((source, stat.kind)),
            Err(FsError::NotFound { .. }) => Err(MountError::Missing { host_path: host_path() }),
            Err(source) => Err(MountError::Walk { host_path: host_path(), source }),
        }
    }

    fn candidates(&self, host_path: &Path) -> Vec<PathBuf> {
        if host_path.is_absolute() {
            return vec![host_path.to_owned()];
        }
        self.roots.iter().map(|root| root.real.join(host_path)).collect()
    }

    /// Locates a path without links below a root. Links above the root are under the
    /// administrator's control.
    fn beneath(&self, path: &Path) -> Result<Source, Elsewhere> {
        let inside = |(root, allowed): (usize, &AllowedRoot)| {
            let below = path.strip_prefix(&allowed.given).or_else(|_| path.strip_prefix(&allowed.real)).ok()?;
            Some(Source { root, path: relative(below)? })
        };
        let by_name = self.roots.iter().enumerate().find_map(inside);
        let source = match by_name {
            Some(source) => source,
            None => {
                let (parent, name) = path.parent().zip(path.file_name()).ok_or(Elsewhere::Outside)?;
                let parent = parent.canonicalize().map_err(|_| Elsewhere::Outside)?;
                self.locate(&parent.join(name)).ok_or(Elsewhere::Outside)?
            }
        };
        let fs = self.fs(source.root);
        match fs.stat_entry(&source.path) {
            // A path that resolves to itself has no links.
            Ok(stat) if stat.kind == Kind::Symlink => Err(Elsewhere::Link),
            Ok(_) if fs.resolve(&source.path).ok().as_ref() == Some(&source.path) => Ok(source),
            Ok(_) | Err(FsError::Escapes { .. } | FsError::LinkLoop { .. }) => Err(Elsewhere::Link),
            Err(_) => Err(Elsewhere::Missing),
        }
    }

    /// Locates the target of a path, following links, if it is in a root.
    pub(super) fn follow(&self, path: &Path) -> Result<Source, Elsewhere> {
        match path.canonicalize() {
            Ok(real) => self.locate(&real).ok_or(Elsewhere::Outside),
            Err(_) if self.roots.iter().any(|root| path.starts_with(&root.given) || path.starts_with(&root.real)) => {
                Err(Elsewhere::Missing)
            }
            Err(_) => Err(Elsewhere::Outside),
        }
    }

    fn locate(&self, real: &Path) -> Option<Source> {
        let inside = |(root, allowed): (usize, &AllowedRoot)| {
            let below = real.strip_prefix(&allowed.real).ok()?;
            Some(Source { root, path: relative(below)? })
        };
        self.roots.iter().enumerate().find_map(inside)
    }

    fn outside(&self, mount: &HostMount) -> MountError {
        let roots = self.roots.iter().map(|root| root.given.display().to_string()).collect();
        MountError::OutsideRoots { host_path: mount.host_path.clone(), roots }
    }
}

pub(super) enum Elsewhere {
    Missing,
    Outside,
    Link,
}

fn relative(path: &Path) -> Option<WorkspacePath> {
    let names = path.components().filter(|component| *component != Component::CurDir);
    WorkspacePath::from_segments(names.map(|component| component.as_os_str().as_bytes())).ok()
}
