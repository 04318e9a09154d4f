//! A private bare repository with the objects and references of one on this machine.
//!
//! It has a config written by the server, no hooks and no alternates. Object files are hard links
//! where the file system allows that, and copies elsewhere. A fetch from here checks the hash of
//! every object, so a file that its owner changes meanwhile only causes an error.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, linkat};

use super::{Directory, LocalRepository};
use crate::error::{GitError, disk};
use crate::remote::refs::is_commit;

/// Maximum depth of alternates, the same as in git.
const MOST_DEEP: usize = 5;
const MOST_STORES: usize = 64;
const MOST_ALTERNATES_BYTES: u64 = 64 << 10;
const MOST_SHALLOW_BYTES: u64 = 64 << 20;

/// A snapshot, removed on drop.
#[derive(Debug)]
pub(crate) struct Snapshot(tempfile::TempDir);

impl Snapshot {
    /// Prefix of the directory's name, by which a start finds the remains of a killed server.
    pub(crate) const PREFIX: &str = "local";

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl LocalRepository {
    /// Takes the snapshot below a directory that only the server writes. Blocks.
    pub(crate) fn snapshot(&self, below: &Path, most_bytes: u64) -> Result<Snapshot, GitError> {
        let made = tempfile::Builder::new().prefix(Snapshot::PREFIX).tempdir_in(below).map_err(disk(below))?;
        let path = made.path();
        // References before objects: an object is written before a reference to it.
        let refs = self.refs()?;
        let shallow = self.git_dir.text("shallow", MOST_SHALLOW_BYTES).map_err(disk(&self.git_dir.path))?;
        for directory in ["refs", "objects/pack", "objects/info"] {
            fs::create_dir_all(path.join(directory)).map_err(disk(path))?;
        }
        let config = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n".to_owned();
        let mut texts = vec![("config", config), ("HEAD", refs.head_text()), ("packed-refs", refs.packed())];
        if let Some(shallow) = shallow {
            let ends = shallow.lines().filter(|line| is_commit(line)).flat_map(|line| [line, "\n"]);
            texts.push(("shallow", ends.collect()));
        }
        for (name, text) in texts {
            fs::write(path.join(name), text).map_err(disk(path))?;
        }
        let objects = self.git_dir.directory("objects").map_err(disk(&self.git_dir.path))?;
        let mut taking =
            Taking { from: self, to: path.join("objects"), left: most_bytes, most_bytes, seen: HashSet::new() };
        taking.store(&objects, MOST_DEEP)?;
        Ok(Snapshot(made))
    }
}

/// Copies objects into a snapshot.
struct Taking<'a> {
    from: &'a LocalRepository,
    to: PathBuf,
    left: u64,
    most_bytes: u64,
    seen: HashSet<PathBuf>,
}

impl Taking<'_> {
    /// Takes one object store and its alternates.
    fn store(&mut self, objects: &Directory, deep: usize) -> Result<(), GitError> {
        if !self.seen.insert(objects.path.clone()) {
            return Ok(());
        }
        let failed = |error: io::Error| disk(&objects.path)(error);
        for (name, is_directory) in objects.entries().map_err(failed)? {
            if is_directory && is_hex(&name, 2) {
                self.files(objects, &name, |file| is_hex(file, 38))?;
            }
        }
        self.files(objects, "pack", is_pack_file)?;
        let Some(alternates) = objects.text("info/alternates", MOST_ALTERNATES_BYTES).map_err(failed)? else {
            return Ok(());
        };
        for line in alternates.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let shown = crate::error::harmless(line, 200);
            let outside = || {
                self.from.unusable(format!("it borrows objects from {shown}, which is outside of allowed_host_roots"))
            };
            let path = objects.path.join(line);
            let alternate = Directory::inside(&path, &self.from.roots);
            let alternate = alternate.map_err(|error| {
                self.from.unusable(format!("it borrows objects from {shown}, which cannot be opened: {error}"))
            })?;
            let alternate = alternate.ok_or_else(outside)?;
            let deeper = deep
                .checked_sub(1)
                .filter(|_| self.seen.len() < MOST_STORES)
                .ok_or_else(|| self.from.unusable("it borrows objects from too many other repositories".to_owned()))?;
            self.store(&alternate, deeper)?;
        }
        Ok(())
    }

    /// Takes the files of one folder of an object store. If a file is removed meanwhile, its
    /// objects are in a new pack.
    fn files(&mut self, objects: &Directory, folder: &str, wanted: impl Fn(&str) -> bool) -> Result<(), GitError> {
        let directory = match objects.directory(folder) {
            Ok(directory) => directory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(disk(&objects.path.join(folder))(error)),
        };
        let to = self.to.join(folder);
        fs::create_dir_all(&to).map_err(disk(&to))?;
        for (name, is_directory) in directory.entries().map_err(disk(&directory.path))? {
            if is_directory || !wanted(&name) {
                continue;
            }
            let file = match directory.file(&name) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    let path = directory.path.join(&name).display().to_string();
                    return Err(self.from.unusable(format!("{path} cannot be opened as a plain file: {error}")));
                }
            };
            let bytes = file.metadata().map_err(disk(&directory.path))?.len();
            let too_large = GitError::TooLarge { limit: self.most_bytes };
            self.left = self.left.checked_sub(bytes).ok_or(too_large)?;
            link_or_copy(file, &to.join(&name)).map_err(disk(&to))?;
        }
        Ok(())
    }
}

/// Hard-links the opened file, whatever its name refers to now, or copies it.
fn link_or_copy(mut file: File, to: &Path) -> io::Result<()> {
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    match linkat(CWD, opened, CWD, to, AtFlags::SYMLINK_FOLLOW) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        // Another file system, or this user may not link the file.
        Err(_) => {
            let mut copy = File::create_new(to)?;
            io::copy(&mut file, &mut copy).map(drop)
        }
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_pack_file(name: &str) -> bool {
    let parts = name.strip_prefix("pack-").and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(hash, ending)| is_hex(hash, 40) && ["pack", "idx", "rev"].contains(&ending))
}
