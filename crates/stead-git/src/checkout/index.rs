//! Rewrites the stat data in a fresh checkout's index so that it holds wherever the checkout is
//! mounted.
//!
//! Boxes see a layer through an overlay, with other user ids and on another device. The stat data
//! in the index would differ, and every `git status` would read every file again. So all files get
//! one old time, which the index records too, and the repository compares only times and sizes
//! (`core.checkStat=minimal`). The time is well before any action of the agent, so no change can go
//! unnoticed within the same second.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, openat, utimensat};
use sha1::{Digest, Sha1};

use crate::checkout::missing_content::MissingContent;
use crate::lfs;

/// Length of an entry's fixed fields, before the path.
const HEAD: usize = 62;
/// The mode of a submodule's entry.
const SUBMODULE: [u8; 4] = 0o160_000_u32.to_be_bytes();

/// Sets the modification time of the files in the checkout and of all entries in the index to
/// `seconds` since the Unix epoch. Returns the entries that refer to content outside the commit.
///
/// `contents` gives the sizes of Git LFS files, which hold their content instead of the commit's
/// pointer. Those files keep their time, and their entries get [`lfs::SECONDS`].
pub(crate) fn settle(
    work_tree: &Path,
    index: &Path,
    seconds: i64,
    contents: &HashMap<&[u8], u64>,
) -> io::Result<MissingContent> {
    let mut bytes = fs::read(index)?;
    let stamp = u32::try_from(seconds).map_err(|_| malformed())?;
    let root = openat(CWD, work_tree, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut missing = MissingContent::default();
    entries(&mut bytes, |fixed, path| {
        let content = contents.get(path);
        let stamp = if content.is_some() { lfs::SECONDS } else { stamp };
        for field in fixed[..16].chunks_exact_mut(8) {
            field[..4].copy_from_slice(&stamp.to_be_bytes());
            field[4..].fill(0);
        }
        // Device and inode, then user and group.
        fixed[16..24].fill(0);
        fixed[28..36].fill(0);
        if let Some(size) = content {
            // Git keeps the lower 32 bits.
            fixed[36..40].copy_from_slice(&size.to_be_bytes()[4..]);
        }
        let is_submodule = fixed[24..28] == SUBMODULE;
        missing.look(path, is_submodule);
        if is_submodule || content.is_some() { Ok(()) } else { touch(&root, path, seconds) }
    })?;
    let body = bytes.len() - 20;
    let hash = Sha1::digest(&bytes[..body]);
    bytes[body..].copy_from_slice(&hash);
    let new = index.with_extension("new");
    fs::write(&new, bytes)?;
    fs::rename(new, index)?;
    Ok(missing)
}

/// Returns the object id of every file, and how many files have it. Skips submodules.
pub(crate) fn blobs(index: &Path) -> io::Result<BTreeMap<String, u64>> {
    let mut bytes = fs::read(index)?;
    let mut blobs: BTreeMap<[u8; 20], u64> = BTreeMap::new();
    entries(&mut bytes, |fixed, _| {
        if fixed[24..28] != SUBMODULE {
            let object = fixed[40..60].try_into().map_err(|_| malformed())?;
            *blobs.entry(object).or_default() += 1;
        }
        Ok(())
    })?;
    let hex = |object: [u8; 20]| object.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(blobs.into_iter().map(|(object, times)| (hex(object), times)).collect())
}

/// Calls `each` with the fixed fields and path of every entry.
fn entries(bytes: &mut [u8], mut each: impl FnMut(&mut [u8], &[u8]) -> io::Result<()>) -> io::Result<()> {
    let word =
        |bytes: &[u8], at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
    let known = bytes.starts_with(b"DIRC") && word(bytes, 4) == Some(2) && bytes.len() >= 32;
    let count = word(bytes, 8).filter(|_| known).ok_or_else(malformed)?;
    let mut at = 12;
    for _ in 0..count {
        let rest = bytes.get_mut(at..).filter(|rest| rest.len() > HEAD).ok_or_else(malformed)?;
        let (fixed, path) = rest.split_at_mut(HEAD);
        let length = path.iter().position(|byte| *byte == 0).ok_or_else(malformed)?;
        each(fixed, &path[..length])?;
        // Entries are padded with one to eight zeros to a multiple of eight.
        at += (HEAD + length + 8) & !7;
    }
    Ok(())
}

fn touch(root: &OwnedFd, path: &[u8], seconds: i64) -> io::Result<()> {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(root, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the git index is malformed or not of version 2")
}
