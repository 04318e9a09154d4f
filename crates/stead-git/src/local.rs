//! Repositories on this machine, read without running git in them.
//!
//! Other users may write the config, hooks and object store of such a repository, and git obeys all
//! three. A hook of a push runs as the server's user, and `objects/info/alternates` or `commondir`
//! makes git read another repository. So the server parses the references itself ([`refs`]), links
//! or copies the objects into a private bare repository ([`snapshot`]), and lets git read only that
//! one. Every file is opened beneath an allowed root and never through a symlink. A push to such a
//! repository is refused.

mod refs;
mod snapshot;

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use stead_core::remote::RepositoryRefused;

use crate::error::{GitError, disk, harmless};

pub(crate) use snapshot::Snapshot;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// A repository on this machine, opened by descriptor inside an allowed root.
#[derive(Debug)]
pub(crate) struct LocalRepository {
    /// The directory with `HEAD`, `refs` and `objects`.
    git_dir: Directory,
    roots: Vec<PathBuf>,
    /// The path that the session named, for messages.
    named: String,
}

/// An open directory and its path without symlinks.
#[derive(Debug)]
struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

impl LocalRepository {
    /// Opens a repository with or without a work tree. Blocks.
    pub(crate) fn open(path: &str, roots: &[String]) -> Result<Self, GitError> {
        let named = harmless(path, 200);
        let roots: Vec<PathBuf> = roots.iter().filter_map(|root| std::fs::canonicalize(root).ok()).collect();
        let top = match Directory::inside(Path::new(path), &roots) {
            Ok(Some(top)) => top,
            Ok(None) => return Err(GitError::Refused(RepositoryRefused::Local { path: path.to_owned() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(GitError::NotFound { reason: format!("{named} does not exist") });
            }
            Err(error) => return Err(disk(Path::new(path))(error)),
        };
        let unusable = |reason: &str| GitError::LocalRepository { path: named.clone(), reason: reason.to_owned() };
        let git_dir = match top.file(".git") {
            Ok(_) => {
                return Err(unusable(
                    "its .git is a file, as in a linked worktree or a submodule; give the path of the main repository",
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => top,
            Err(_) => top.directory(".git").map_err(|_| unusable("its .git is not a plain directory"))?,
        };
        if git_dir.file("HEAD").is_err() || git_dir.directory("objects").is_err() {
            return Err(GitError::NotFound { reason: format!("{named} does not appear to be a git repository") });
        }
        for (entry, reason) in [
            ("commondir", "it is a linked worktree (commondir); give the path of the main repository"),
            ("reftable", "it stores its references as reftable, which cannot be read without running git in it"),
        ] {
            if git_dir.has(entry) {
                return Err(unusable(reason));
            }
        }
        Ok(Self { git_dir, roots, named })
    }

    /// Opens a Git LFS object where git-lfs stores it.
    pub(crate) fn lfs_object(&self, below: &Path) -> io::Result<File> {
        self.git_dir.file(Path::new("lfs/objects").join(below))
    }

    fn unusable(&self, reason: String) -> GitError {
        GitError::LocalRepository { path: self.named.clone(), reason }
    }
}

impl Directory {
    /// Opens a directory inside one of the roots, whatever symlinks its path has. `None` if it is
    /// outside all of them.
    fn inside(path: &Path, roots: &[PathBuf]) -> io::Result<Option<Self>> {
        let real = std::fs::canonicalize(path)?;
        let Some((root, below)) = roots.iter().find_map(|root| Some((root, real.strip_prefix(root).ok()?))) else {
            return Ok(None);
        };
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, root, how, Mode::empty())?;
        // The canonical path has no symlinks. If one appears now, opening fails.
        let fd = beneath(&root, below, OFlags::DIRECTORY)?;
        Ok(Some(Self { fd, path: real }))
    }

    fn directory(&self, below: impl AsRef<Path>) -> io::Result<Self> {
        let fd = beneath(&self.fd, below.as_ref(), OFlags::DIRECTORY)?;
        Ok(Self { fd, path: self.path.join(below) })
    }

    /// Opens a regular file; never a device, a pipe or a symlink.
    fn file(&self, below: impl AsRef<Path>) -> io::Result<File> {
        let file = File::from(beneath(&self.fd, below.as_ref(), OFlags::NONBLOCK)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.fd, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// The text of a file of at most `most` bytes; `None` if the file does not exist.
    fn text(&self, below: &str, most: u64) -> io::Result<Option<String>> {
        let file = match self.file(below) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The names of its entries, each with a flag for directories.
    fn entries(&self) -> io::Result<Vec<(String, bool)>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(self.fd.as_fd())? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name != "." && name != ".." {
                let directory = match entry.file_type() {
                    rustix::fs::FileType::Unknown => self.directory(name).is_ok(),
                    kind => kind == rustix::fs::FileType::Directory,
                };
                names.push((name.to_owned(), directory));
            }
        }
        Ok(names)
    }
}

fn beneath(directory: &OwnedFd, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let how = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | flags;
    Ok(openat2(directory, below, how, Mode::empty(), BENEATH)?)
}
