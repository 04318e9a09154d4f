//! Space that a volume reserves for its next generation.
//!
//! A new generation needs an inode and a block for its directory. A volume that the agent has
//! filled has neither, and the box could never start again. So every image contains a few files
//! outside of the overlay's upper directory, each with one inode and a few blocks. Only the builder
//! can remove them. A start that finds no space removes some of them, and a later start that finds
//! space recreates them.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, fallocate, fstat, fstatvfs, mkdirat, openat, statat, syncfs, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

const DIRECTORY: &str = "reserve";
/// Number of files in a complete reserve. A small volume has few inodes and gets fewer files.
const FEWEST_PIECES: u32 = 16;
const MOST_PIECES: u32 = 64;
const VOLUME_PER_PIECE: u64 = 256 << 10;
/// Number of files that one start may remove. One inode becomes the generation's directory, and
/// each overlay uses a few while it is mounted. The agent can use the rest to remove files of a
/// layer, which needs an entry in the upper directory.
const SHARE: u32 = 8;
/// Number of inodes and blocks that mounting the overlays needs. Their work directories are
/// recreated while those of the last start may still be in use.
const TO_MOUNT: u64 = 6;
/// Number of inodes of the reserve: its directory and its files.
pub(super) const INODES: u64 = MOST_PIECES as u64 + 1;
const BLOCK: u64 = 4096;
/// The builder fills the reserve if the volume has space for this many complete reserves.
const PLENTY: u64 = 2;
/// The reserve takes at most one part in this many of the volume.
const PART_OF_VOLUME: u64 = 64;
const LARGEST_PIECE: u64 = 16 << 10;

/// State of a volume's reserve after the last start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reserve {
    /// The volume has no size limit of its own, so there is nothing to reserve.
    #[default]
    Unneeded,
    Complete,
    /// Enough for at least one more generation.
    Partial,
    /// A new generation might not start.
    Spent,
}

/// Recreates the missing files if the volume has enough space. Returns the state of the reserve.
///
/// On a nearly full volume they stay missing: the agent may need the space that a start freed to
/// remove files.
pub(super) fn fill(volume: &OwnedFd, volume_bytes: u64) -> Reserve {
    let (pieces, bytes) = (pieces(volume_bytes), piece_bytes(volume_bytes));
    let enough = PLENTY * u64::from(pieces);
    let Ok(directory) = open(volume) else { return Reserve::Spent };
    let plenty =
        fstatvfs(volume).is_ok_and(|free| free.f_bavail * free.f_frsize >= enough * bytes && free.f_favail >= enough);
    let is_there = |number: &u32| match plenty {
        true => make(&directory, *number, bytes).is_ok(),
        false => statat(&directory, name(*number), AtFlags::SYMLINK_NOFOLLOW).is_ok(),
    };
    match (0..pieces).take_while(is_there).count() as u32 {
        made if made == pieces => Reserve::Complete,
        made if made >= SHARE => Reserve::Partial,
        _ => Reserve::Spent,
    }
}

/// Calls `make`, and repeats it with a smaller reserve while the volume has no space.
pub(super) fn with_room<T>(volume: &OwnedFd, mut make: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match make() {
            Err(Errno::NOSPC) if give_up_share(volume)? > 0 => {}
            made => return made,
        }
    }
}

/// Removes some files of the reserve if there is too little space to mount the overlays.
pub(super) fn leave_room(volume: &OwnedFd) -> Result<(), Errno> {
    let free = fstatvfs(volume)?;
    if free.f_favail >= TO_MOUNT && free.f_bavail >= TO_MOUNT {
        return Ok(());
    }
    give_up_share(volume).map(drop)
}

fn open(volume: &OwnedFd) -> Result<OwnedFd, Errno> {
    match mkdirat(volume, DIRECTORY, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(other) => return Err(other),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(volume, DIRECTORY, flags, Mode::empty())
}

fn pieces(volume_bytes: u64) -> u32 {
    let wanted = u32::try_from(volume_bytes / VOLUME_PER_PIECE).unwrap_or(MOST_PIECES);
    wanted.clamp(FEWEST_PIECES, MOST_PIECES)
}

fn piece_bytes(volume_bytes: u64) -> u64 {
    let share = volume_bytes / PART_OF_VOLUME / u64::from(pieces(volume_bytes));
    (share / BLOCK * BLOCK).clamp(BLOCK, LARGEST_PIECE)
}

fn make(directory: &OwnedFd, number: u32, bytes: u64) -> Result<(), Errno> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let piece = openat(directory, name(number), flags, Mode::RUSR | Mode::WUSR)?;
    let allocated = fstat(&piece)?.st_blocks.cast_unsigned() * 512;
    if allocated >= bytes {
        return Ok(());
    }
    fallocate(piece.as_fd(), FallocateFlags::empty(), 0, bytes).inspect_err(|_| {
        // A partial file would count as a complete one.
        let _ = unlinkat(directory, name(number), AtFlags::empty());
    })
}

/// Removes up to [`SHARE`] files of the reserve and returns their number.
fn give_up_share(volume: &OwnedFd) -> Result<usize, Errno> {
    let directory = open(volume)?;
    let removed = |number: &u32| unlinkat(&directory, name(*number), AtFlags::empty()).is_ok();
    let count = (0..MOST_PIECES).rev().filter(removed).take(SHARE as usize).count();
    // Freed blocks become available only after the next commit of the journal.
    syncfs(&directory)?;
    Ok(count)
}

fn name(number: u32) -> String {
    format!("r{number}")
}
