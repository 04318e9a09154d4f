//! Files in and out of the workspace by other means than the tools, in a child of init.
//!
//! Bytes do not travel in frames: the server lends a file of its own, by descriptor, and the child reads or writes that. It is never a
//! directory, so nothing can be reached from it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, setrlimit};
use stead_fs::archive::{self, ArchiveError, ArchiveFormat, ArchiveLimits};
use stead_fs::patch::{self, Patch};
use stead_fs::{
    Content, DiskFs, DiskSnapshot, Durability, Filesystem, FsError, Kind, PathRules, Recursion, Snapshot, Walk,
    WorkspacePath, WriteMode, copy_sparse,
};

use super::Compared;
use super::job::failed;
use super::put_all::put_all;
use crate::protocol::{Answer, FileAsk, FileStat, IfMissing, IfThere, PatchText};

/// Why it was not done: a stable code and a sentence.
pub(super) struct Undone {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl From<FsError> for Undone {
    fn from(error: FsError) -> Self {
        Self { code: error.code(), message: error.sentence() }
    }
}

impl From<ArchiveError> for Undone {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Fs(error) => error.into(),
            ArchiveError::Io(error) => error.into(),
            refused => Self { code: refused.code(), message: refused.to_string() },
        }
    }
}

impl From<io::Error> for Undone {
    fn from(error: io::Error) -> Self {
        let code = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "no_space",
            io::ErrorKind::PermissionDenied => "permission_denied",
            io::ErrorKind::ReadOnlyFilesystem => "read_only",
            _ => "io",
        };
        Self { code, message: error.to_string() }
    }
}

type Answered = Result<(Answer, Vec<u8>), Undone>;

pub(super) fn perform(
    files: &mut DiskFs,
    ask: &FileAsk,
    lent: Option<&OwnedFd>,
    compared: Option<&Compared>,
) -> (Answer, Vec<u8>) {
    match attempt(files, ask, lent, compared) {
        Ok(answered) => answered,
        Err(Undone { code, message }) => (failed(code, message), Vec::new()),
    }
}

fn attempt(files: &mut DiskFs, ask: &FileAsk, lent: Option<&OwnedFd>, compared: Option<&Compared>) -> Answered {
    let lent = || match lent.map(OwnedFd::try_clone) {
        Some(file) => Ok(File::from(file?)),
        None => Err(io::Error::other("no file came with the request")),
    };
    let done = (Answer::Done, Vec::new());
    match ask {
        FileAsk::List { path } => list(files, &existing(path)?),
        FileAsk::Open { path, most_bytes } => open(files, &existing(path)?, lent()?, *most_bytes),
        FileAsk::Export { path, most_bytes } => {
            limit_writes(*most_bytes)?;
            let mut out = io::BufWriter::with_capacity(256 << 10, lent()?);
            archive::export_tar(files, &existing(path)?, &mut out)?;
            out.flush()?;
            Ok(done)
        }
        FileAsk::Put { path, if_match, existing: there, parents } => {
            let path = existing(path)?;
            check_match(files, &path, if_match.as_deref())?;
            put(files, &path, lent()?, *there, *parents)
        }
        FileAsk::Unpack { path } => {
            let mut archive = lent()?;
            let mut start = Vec::new();
            archive.rewind()?;
            (&mut archive).take(512).read_to_end(&mut start)?;
            let unknown = || Undone { code: "archive_unsupported", message: "no archive of a known kind".to_owned() };
            let format = ArchiveFormat::of_content(&start).ok_or_else(unknown)?;
            let below = existing(path)?;
            files.mkdir(&below, 0)?;
            in_bulk(files, |files| {
                archive::unpack(&mut archive, format, None, &ArchiveLimits::default(), files, &below, 0)?;
                Ok(done)
            })
        }
        FileAsk::MakeDirectory { path } => {
            let path = existing(path)?;
            let existed = files.stat(&path).is_ok();
            files.mkdir(&path, 0)?;
            Ok((Answer::Placed { existed }, Vec::new()))
        }
        FileAsk::Delete { path, if_match } => {
            let path = existing(path)?;
            check_match(files, &path, if_match.as_deref())?;
            files.delete(&path, Recursion::Recursive)?;
            Ok(done)
        }
        FileAsk::Restore => {
            let kept = Scratch::unpacked(lent()?)?;
            in_bulk(files, |files| {
                files.restore(&Snapshot::Disk(DiskSnapshot::open(&kept.0)?))?;
                Ok(done)
            })
        }
        FileAsk::Diff => {
            let base = Scratch::unpacked(lent()?)?;
            patch_of(patch::between(&DiskFs::open(&base.0)?, files)?)
        }
        FileAsk::Compare => compare(files, compared),
        FileAsk::PutAll { files: contents } => Ok((put_all(files, contents, lent()?)?, Vec::new())),
        FileAsk::Stamp => stamp_of(files),
        FileAsk::StampWritten => stamp_of(&upper(compared)?),
        FileAsk::Touched { most } => touched(compared, *most),
    }
}

/// Makes many changes and waits for the disk once. After a power loss before the answer any part of
/// them may be there.
fn in_bulk(files: &DiskFs, change: impl FnOnce(&mut DiskFs) -> Answered) -> Answered {
    let mut unsynced = files.clone().with_durability(Durability::Kernel);
    let answered = change(&mut unsynced)?;
    files.sync_tree()?;
    Ok(answered)
}

fn compare(files: &DiskFs, compared: Option<&Compared>) -> Answered {
    let nothing = || Undone { code: "no_base", message: "there is nothing to compare with yet".to_owned() };
    let compared = compared.ok_or_else(nothing)?;
    let before = open_tree(&compared.before)?;
    let Some(written) = &compared.written else { return patch_of(patch::between(&before, files)?) };
    let written = written.iter().map(open_tree).collect::<io::Result<Vec<_>>>()?;
    let uppers: Vec<&dyn Filesystem> = written.iter().map(|upper| upper as &dyn Filesystem).collect();
    patch_of(patch::between_written(&before, files, &uppers)?)
}

/// The leaves of the upper: files, links, what hides something below, and directories with nothing in them.
fn touched(compared: Option<&Compared>, most: u64) -> Answered {
    let upper = upper(compared)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let (mut leaves, mut total): (Vec<(WorkspacePath, FileStat)>, u64) = (Vec::new(), 0);
    let mut bare = BTreeSet::new();
    let mut keep = |path: &WorkspacePath| {
        total += 1;
        if leaves.len() < most
            && let Ok(stat) = upper.stat_entry(path)
        {
            leaves.push((path.clone(), stat.into()));
        }
    };
    upper.walk(&WorkspacePath::root(), &mut |walked| {
        if let Some(parent) = walked.path.parent() {
            bare.remove(&parent);
        }
        match walked.kind {
            Kind::Directory => drop(bare.insert(walked.path.clone())),
            _ => keep(&walked.path),
        }
        ControlFlow::Continue(Walk::Continue)
    })?;
    bare.iter().for_each(&mut keep);
    Ok((Answer::Listing { total }, serde_json::to_vec(&leaves).map_err(io::Error::other)?))
}

fn stamp_of(files: &DiskFs) -> Answered {
    let stamp = files.stamp()?.map(|stamp| stamp.to_string());
    Ok((Answer::Stamp { stamp }, Vec::new()))
}

fn upper(compared: Option<&Compared>) -> Result<DiskFs, Undone> {
    let nothing = || Undone { code: "no_base", message: "the box was not told where it is written".to_owned() };
    Ok(open_tree(&compared.ok_or_else(nothing)?.upper)?)
}

fn open_tree(fd: &OwnedFd) -> io::Result<DiskFs> {
    DiskFs::open(Path::new(&format!("/proc/self/fd/{}", fd.as_raw_fd())))
}

fn patch_of(Patch { text, changed, unshown, contents }: Patch) -> Answered {
    let body = serde_json::to_vec(&PatchText { text, changed, unshown, contents }).map_err(io::Error::other)?;
    Ok((Answer::Patch, body))
}

/// The rules for new names are the tools', not the raw interface's.
pub(super) fn existing(path: &str) -> Result<WorkspacePath, Undone> {
    Ok(WorkspacePath::parse(path, &PathRules::existing()).map_err(FsError::from)?)
}

fn list(files: &DiskFs, path: &WorkspacePath) -> Answered {
    let listing = files.list(path, usize::MAX)?;
    let entries: Vec<(WorkspacePath, FileStat)> =
        listing.entries.into_iter().map(|entry| (entry.path, entry.stat.into())).collect();
    Ok((Answer::Listing { total: listing.total as u64 }, serde_json::to_vec(&entries).map_err(io::Error::other)?))
}

fn open(files: &DiskFs, path: &WorkspacePath, mut out: File, most_bytes: u64) -> Answered {
    limit_writes(most_bytes)?;
    let stat = files.stat(path)?;
    if stat.kind == Kind::File && stat.size > most_bytes {
        // Hashing a file of this size takes too long, even if all of it is one hole.
        return Err(Undone { code: "too_large", message: stat.size.to_string() });
    }
    let hash = files.hash(path)?.to_string();
    match files.open_read(path)? {
        Content::Bytes(bytes) => out.write_all(&bytes)?,
        Content::Stream { mut reader, size } => copy_sparse(&mut *reader, size, &mut out)?,
    }
    Ok((Answer::Opened { stat: stat.into(), hash }, Vec::new()))
}

fn put(files: &mut DiskFs, path: &WorkspacePath, mut content: File, there: IfThere, parents: IfMissing) -> Answered {
    let existed = match files.stat(path) {
        Ok(_) if there == IfThere::Refuse => {
            return Err(Undone { code: "present", message: files.hash(path)?.to_string() });
        }
        Ok(_) => true,
        Err(FsError::NotFound { .. }) => false,
        Err(error) => return Err(error.into()),
    };
    if parents == IfMissing::Refuse
        && let Some(parent) = path.parent()
    {
        files.list(&parent, 0)?;
    }
    content.rewind()?;
    let mut writer = files.open_write(path, WriteMode::Overwrite, 0)?;
    io::copy(&mut content, &mut writer)?;
    writer.finish()?;
    Ok((Answer::Placed { existed }, Vec::new()))
}

/// The message of `stale` is the hash the file has now, empty if it is gone.
fn check_match(files: &DiskFs, path: &WorkspacePath, if_match: Option<&str>) -> Result<(), Undone> {
    let Some(wanted) = if_match else { return Ok(()) };
    let current = match files.hash(path) {
        Ok(hash) => hash.to_string(),
        Err(FsError::NotFound { .. }) => String::new(),
        Err(error) => return Err(error.into()),
    };
    let matches = !current.is_empty() && (current == wanted || wanted == "*");
    if matches { Ok(()) } else { Err(Undone { code: "stale", message: current }) }
}

/// What the box writes into a file of the server's has an end, even where a file of the box's has none.
fn limit_writes(bytes: u64) -> io::Result<()> {
    crate::sys::signals::ignore_file_size_signal();
    Ok(setrlimit(Resource::Fsize, Rlimit { current: Some(bytes), maximum: Some(bytes) })?)
}

/// A directory on the workspace's volume, gone when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    /// Holds what the tar holds.
    fn unpacked(tar: File) -> Result<Self, Undone> {
        let scratch = Self(Path::new("/tmp").join(format!(".stead-{}", std::process::id())));
        std::fs::create_dir(&scratch.0)?;
        let mut files = DiskFs::open(&scratch.0)?;
        archive::unpack_tree(tar, &mut files)?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
