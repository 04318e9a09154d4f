//! Finds the files of a commit that are Git LFS pointers.
//!
//! As for git-lfs, these are files with the attribute `filter=lfs` whose text is a pointer. Both
//! are read from the commit alone. The result is cached next to the objects for the next session of
//! the commit.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use serde::{Deserialize, Serialize};

use super::objects::Objects;
use super::pointer::{MOST_BYTES, Pointer, Reading, read};
use crate::checkout::list_memory;
use crate::command::Git;
use crate::error::{GitError, disk, harmless};
use crate::mirror::{Mirrors, Resolved};

/// A file whose content is stored by Git LFS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LfsFile {
    path: Vec<u8>,
    pub(super) executable: bool,
    pub(super) pointer: Pointer,
}

impl LfsFile {
    pub(super) fn new(path: &[u8], pointer: Pointer) -> Self {
        Self { path: path.to_vec(), executable: false, pointer }
    }

    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    pub(crate) fn to_path(&self) -> PathBuf {
        PathBuf::from(std::ffi::OsString::from_vec(self.path.clone()))
    }

    /// The path, safe to print.
    pub fn shown(&self) -> String {
        shown(&self.path)
    }

    pub(super) fn missing(&self, reason: &str) -> GitError {
        GitError::LfsMissing { path: self.shown(), reason: reason.to_owned() }
    }
}

fn shown(path: &[u8]) -> String {
    harmless(&String::from_utf8_lossy(path), 200)
}

/// The Git LFS files of one commit, and the store of their contents.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) objects: Objects,
    pub(crate) files: Vec<LfsFile>,
}

impl Files {
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.pointer.size))
    }

    pub(crate) fn sizes(&self) -> HashMap<&[u8], u64> {
        self.files.iter().map(|file| (file.path(), file.pointer.size)).collect()
    }

    /// Each content once, with its first path.
    pub(crate) fn distinct(&self) -> Vec<&LfsFile> {
        let mut seen = std::collections::HashSet::new();
        self.files.iter().filter(|file| seen.insert(&file.pointer)).collect()
    }
}

impl Mirrors {
    /// Returns the pointers of a commit, from the cache if possible. The caller holds the lock of
    /// the objects.
    pub(super) async fn lfs_files(&self, resolved: &Resolved, objects: &Objects) -> Result<Vec<LfsFile>, GitError> {
        let note = objects.directory().join("files").join(format!("{}.json", resolved.commit));
        if let Some(known) = fs::read(&note).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            return Ok(known);
        }
        let found = self.look_for_lfs(resolved, objects).await?;
        let parent = objects.directory().join("files");
        let noted = fs::create_dir_all(&parent).and_then(|()| {
            let mut file = tempfile::NamedTempFile::new_in(objects.aside())?;
            file.write_all(&serde_json::to_vec(&found)?)?;
            file.persist(&note).map_err(|error| error.error)
        });
        noted.map_err(disk(&note))?;
        Ok(found)
    }

    async fn look_for_lfs(&self, resolved: &Resolved, objects: &Objects) -> Result<Vec<LfsFile>, GitError> {
        let limit = self.settings().timeout;
        let aside = objects.aside();
        // Use a separate index and an empty work tree, so that attributes come from the commit.
        let scratch = tempfile::tempdir_in(&aside).map_err(disk(&aside))?;
        let (index, tree) = (scratch.path().join("index"), scratch.path().join("tree"));
        fs::create_dir(&tree).map_err(disk(&tree))?;
        let git = || self.git().on(&resolved.mirror).env("GIT_INDEX_FILE", &index).work_tree(&tree);
        let listing = git().memory(list_memory(self.settings().most_files)).args(["read-tree", &resolved.commit]);
        let doing = "read the commit's files";
        listing.local(doing, limit).await.map_err(|error| error.too_many(self.settings().most_files))?;
        let asked = ["ls-files", "--stage", "-z", "--", ":(attr:filter=lfs)"];
        let listed = git().args(asked).local("list the Git LFS files", limit).await?;
        let mut files = Vec::new();
        let named: Vec<Named<'_>> = listed.split(|byte| *byte == 0).filter_map(Named::read).collect();
        let blobs = named.iter().map(|file| file.blob);
        let pointers = self.pointers(git, blobs).await?;
        for Named { executable, blob, path } in named {
            match pointers.get(blob) {
                Some(Reading::Pointer(pointer)) => {
                    files.push(LfsFile { path: path.to_vec(), executable, pointer: pointer.clone() });
                }
                Some(Reading::Extended) => {
                    let reason = format!("the pointer {} needs an extension, and there are none here", shown(path));
                    return Err(GitError::Lfs { reason });
                }
                _ => {}
            }
        }
        Ok(files)
    }

    /// Reads the blobs that are short enough to be a pointer.
    pub(super) async fn pointers<'g>(
        &self,
        git: impl Fn() -> Git<'g>,
        blobs: impl Iterator<Item = &str>,
    ) -> Result<BTreeMap<String, Reading>, GitError> {
        let (limit, doing) = (self.settings().timeout, "read the Git LFS pointers");
        let asked: String = blobs.flat_map(|blob| [blob, "\n"]).collect();
        if asked.is_empty() {
            return Ok(BTreeMap::new());
        }
        let sized = git().args(["cat-file", "--buffer", "--batch-check=%(objecttype) %(objectsize) %(objectname)"]);
        let sized = sized.input(asked).local(doing, limit).await?;
        let sized = String::from_utf8_lossy(&sized).into_owned();
        let short = sized.lines().filter_map(|line| {
            let (size, blob) = line.strip_prefix("blob ")?.split_once(' ')?;
            size.parse::<u64>().is_ok_and(|size| size < MOST_BYTES).then_some(blob)
        });
        let short: std::collections::BTreeSet<&str> = short.collect();
        let asked: String = short.iter().flat_map(|blob| [*blob, "\n"]).collect();
        let listing = git().args(["cat-file", "--buffer", "--batch=%(objectsize) %(objectname)"]).input(asked);
        Ok(split(&listing.local(doing, limit).await?))
    }
}

/// Parses git's output: a line with size and name, the bytes, a line end.
fn split(mut output: &[u8]) -> BTreeMap<String, Reading> {
    let mut found = BTreeMap::new();
    while let Some(end) = output.iter().position(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(&output[..end]).into_owned();
        output = &output[end + 1..];
        let Some((size, blob)) = line.split_once(' ') else { continue };
        let Some(bytes) = size.parse().ok().and_then(|size: usize| output.get(..size)) else { continue };
        found.insert(blob.to_owned(), read(bytes));
        output = output.get(bytes.len() + 1..).unwrap_or_default();
    }
    found
}

/// An index entry of a file.
struct Named<'a> {
    executable: bool,
    blob: &'a str,
    path: &'a [u8],
}

impl<'a> Named<'a> {
    /// Returns `None` for an entry that is not a file. A symlink whose target looks like a pointer
    /// stays a link.
    fn read(entry: &'a [u8]) -> Option<Self> {
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        let (fields, path) = (std::str::from_utf8(&entry[..tab]).ok()?, &entry[tab + 1..]);
        let mut fields = fields.split(' ');
        let executable = match fields.next()? {
            "100644" => false,
            "100755" => true,
            _ => return None,
        };
        Some(Self { executable, blob: fields.next()?, path })
    }
}

/// Opens a path below a directory for reading, without following links.
pub(super) fn beneath(root: &Path, path: &Path, flags: OFlags) -> std::io::Result<OwnedFd> {
    let reading = OFlags::RDONLY | OFlags::CLOEXEC;
    let root = openat(CWD, root, reading | OFlags::DIRECTORY, Mode::empty())?;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    Ok(openat2(root, path, reading | flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)?)
}
