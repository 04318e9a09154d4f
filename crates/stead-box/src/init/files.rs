//! File operations other than the tools, in a child of init.
//!
//! File content is not sent in frames. The server passes a file descriptor, and the child reads or
//! writes that file. It is never a directory, so it gives no access to other files.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, setrlimit};
use stead_fs::archive::{self, ArchiveError, ArchiveFormat, ArchiveLimits, ExportRoom};
use stead_fs::patch::{self, Patch};
use stead_fs::{
    Content, ContentHash, DiskFs, DiskSnapshot, Durability, Filesystem, FsError, Kind, PathRules, Recursion, Snapshot,
    Walk, WorkspacePath, WriteMode, copy_sparse,
};

use super::Compared;
use super::put_all::put_all;
use crate::protocol::{Answer, FileAsk, FileStat, GuestError, GuestErrorKind, IfMissing, IfThere};

type Answered = Result<(Answer, Vec<u8>), GuestError>;

pub(super) fn perform(
    files: &mut DiskFs,
    ask: &FileAsk,
    lent: Option<&OwnedFd>,
    compared: Option<&Compared>,
) -> (Answer, Vec<u8>) {
    match attempt(files, ask, lent, compared) {
        Ok(answered) => answered,
        Err(error) => (Answer::Failed(error), Vec::new()),
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
            let unknown = || GuestError::new(GuestErrorKind::ArchiveUnsupported, "no archive of a known kind");
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
        FileAsk::ExportWorkingTree { most_entries, most_bytes } => {
            limit_writes(ask.most_filled().unwrap_or(*most_bytes))?;
            let mut out = io::BufWriter::with_capacity(256 << 10, lent()?);
            let room = ExportRoom { entries: *most_entries, bytes: *most_bytes };
            archive::export_working_tree(files, room, &mut out)?;
            out.flush()?;
            Ok(done)
        }
        FileAsk::RestoreWorkingTree => {
            let kept = Scratch::unpacked_exactly(lent()?)?;
            in_bulk(files, |files| {
                files.restore_working_tree(&DiskFs::open(&kept.0)?)?;
                Ok(done)
            })
        }
        FileAsk::Diff { options } => {
            let base = Scratch::unpacked(lent()?)?;
            answer_patch(&patch::between(&DiskFs::open(&base.0)?, files, options)?)
        }
        FileAsk::CompareInto { options, most_filled } => {
            let patch = compare(files, compared, options)?;
            limit_writes(*most_filled)?;
            let mut out = io::BufWriter::with_capacity(256 << 10, lent()?);
            serde_json::to_writer(&mut out, &patch).map_err(io::Error::from)?;
            out.flush()?;
            Ok(done)
        }
        FileAsk::PutAll { files: contents } => Ok((put_all(files, contents, lent()?)?, Vec::new())),
        FileAsk::Stamp => stamp_of(files),
        FileAsk::StampWritten => stamp_of(&upper(compared)?),
        FileAsk::TreeHash { most_entries, most_bytes } => {
            let hash = files.small_tree_hash(*most_entries, *most_bytes)?.map(|hash| hash.to_string());
            Ok((Answer::TreeHash { hash }, Vec::new()))
        }
        FileAsk::Touched { most } => touched(compared, *most),
    }
}

/// Makes many changes and syncs once. After a power loss before the response, any part of them may
/// be on the disk.
fn in_bulk(files: &DiskFs, change: impl FnOnce(&mut DiskFs) -> Answered) -> Answered {
    let mut unsynced = files.clone().with_durability(Durability::Kernel);
    let answered = change(&mut unsynced)?;
    files.sync_tree()?;
    Ok(answered)
}

fn compare(files: &DiskFs, compared: Option<&Compared>, options: &patch::Options) -> Result<Patch, GuestError> {
    let nothing = || GuestError::new(GuestErrorKind::NoBase, "there is nothing to compare with yet");
    let compared = compared.ok_or_else(nothing)?;
    let before = open_tree(&compared.before)?;
    let Some(written) = &compared.written else { return Ok(patch::between(&before, files, options)?) };
    let written = written.iter().map(open_tree).collect::<io::Result<Vec<_>>>()?;
    let uppers: Vec<&dyn Filesystem> = written.iter().map(|upper| upper as &dyn Filesystem).collect();
    Ok(patch::between_written(&before, files, &uppers, options)?)
}

/// Lists the leaves of the upper directory: files, links, whiteouts, and empty directories.
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

fn upper(compared: Option<&Compared>) -> Result<DiskFs, GuestError> {
    let nothing = || GuestError::new(GuestErrorKind::NoBase, "the box does not know its writable layer");
    Ok(open_tree(&compared.ok_or_else(nothing)?.upper)?)
}

fn open_tree(fd: &OwnedFd) -> io::Result<DiskFs> {
    DiskFs::open(Path::new(&format!("/proc/self/fd/{}", fd.as_raw_fd())))
}

fn answer_patch(patch: &Patch) -> Answered {
    Ok((Answer::Patch, serde_json::to_vec(patch).map_err(io::Error::other)?))
}

/// Parses a path. The rules for new names only apply to the tools, not to the raw file API.
pub(super) fn existing(path: &str) -> Result<WorkspacePath, GuestError> {
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
        // Hashing a file of this size takes too long, even if it is all holes.
        return Err(GuestError::too_large(stat.size));
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
        Ok(_) if there == IfThere::Refuse => return Err(GuestError::present(files.hash(path)?)),
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

fn check_match(files: &DiskFs, path: &WorkspacePath, if_match: Option<&str>) -> Result<(), GuestError> {
    let Some(wanted) = if_match else { return Ok(()) };
    let current = hash_of(files, path)?;
    let matches = current.is_some_and(|current| wanted == "*" || current.to_string() == wanted);
    if matches { Ok(()) } else { Err(GuestError::stale(current)) }
}

/// Returns the hash of a file; `None` if it does not exist.
pub(super) fn hash_of(files: &DiskFs, path: &WorkspacePath) -> Result<Option<ContentHash>, GuestError> {
    match files.hash(path) {
        Ok(hash) => Ok(Some(hash)),
        Err(FsError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Limits the bytes that the box writes into a file of the server, because a file in the box may be
/// endless.
fn limit_writes(bytes: u64) -> io::Result<()> {
    crate::sys::signals::ignore_file_size_signal();
    Ok(setrlimit(Resource::Fsize, Rlimit { current: Some(bytes), maximum: Some(bytes) })?)
}

/// A temporary directory on the workspace's volume. Dropping it removes the directory.
struct Scratch(PathBuf);

impl Scratch {
    /// Unpacks a tar archive into a new directory.
    fn unpacked(tar: File) -> Result<Self, GuestError> {
        Self::filled(|files| archive::unpack_tree(tar, files))
    }

    /// Does the same with the mode bits of the archive.
    fn unpacked_exactly(tar: File) -> Result<Self, GuestError> {
        Self::filled(|files| archive::unpack_exact(tar, files))
    }

    fn filled(fill: impl FnOnce(&mut DiskFs) -> Result<(), ArchiveError>) -> Result<Self, GuestError> {
        let scratch = Self(Path::new("/tmp").join(format!(".stead-{}", std::process::id())));
        std::fs::create_dir(&scratch.0)?;
        fill(&mut DiskFs::open(&scratch.0)?)?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
