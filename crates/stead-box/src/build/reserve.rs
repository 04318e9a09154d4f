//! Space that a volume keeps back for the start of its next generation.
//!
//! A new generation needs an inode and a block for its directory. On a volume that the agent has
//! filled there is neither, and the box could never start again. So every image holds a few files
//! outside the overlay's upper directory, each one inode and a few blocks, that only the builder can
//! remove. A start that finds no room removes a share of them; a later start that finds room makes
//! them again.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, fallocate, fstat, fstatvfs, mkdirat, openat, statat, syncfs, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

const DIRECTORY: &str = "reserve";
/// Files of a complete reserve: fewer on a small volume, which has few inodes.
const FEWEST_PIECES: u32 = 16;
const MOST_PIECES: u32 = 64;
const VOLUME_PER_PIECE: u64 = 256 << 10;
/// Files that one start may use up. One inode becomes the generation's directory, and each overlay
/// takes a few while it is mounted. The agent can use the rest to remove files of a layer, which
/// takes an entry in the upper directory.
const SHARE: u32 = 8;
/// Inodes and blocks that mounting the overlays takes. Their work directories are made anew while those
/// of the last start may still be in use.
const TO_MOUNT: u64 = 6;
/// The directory and its files.
pub(super) const INODES: u64 = MOST_PIECES as u64 + 1;
const BLOCK: u64 = 4096;
/// Room for so many whole reserves is plenty.
const PLENTY: u64 = 2;
/// All pieces together take at most this part of the volume.
const PART_OF_VOLUME: u64 = 64;
const LARGEST_PIECE: u64 = 16 << 10;

/// The part of a volume's reserve that was left after the last start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reserve {
    /// The volume has no size of its own, so there is nothing to keep back.
    #[default]
    Unneeded,
    Complete,
    /// Enough for at least one more generation.
    Partial,
    /// A new generation might not start.
    Spent,
}

/// Makes the missing pieces if there is plenty of room, and returns how complete the reserve is.
///
/// On a volume that is nearly full they stay missing: the space that a start gave up is for the
/// agent, who may need it to remove files.
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

/// Calls `make`, and calls it again with less in reserve while the volume has no room for what it makes.
pub(super) fn with_room<T>(volume: &OwnedFd, mut make: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match make() {
            Err(Errno::NOSPC) if give_up_share(volume)? > 0 => {}
            made => return made,
        }
    }
}

/// Gives up a share if there is too little room to mount the overlays.
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
        // Half a piece would be counted as a whole one.
        let _ = unlinkat(directory, name(number), AtFlags::empty());
    })
}

/// Removes some of the last pieces and returns how many.
fn give_up_share(volume: &OwnedFd) -> Result<usize, Errno> {
    let directory = open(volume)?;
    let removed = |number: &u32| unlinkat(&directory, name(*number), AtFlags::empty()).is_ok();
    let count = (0..MOST_PIECES).rev().filter(removed).take(SHARE as usize).count();
    // Blocks that were freed are free for others only after the journal's next commit.
    syncfs(&directory)?;
    Ok(count)
}

fn name(number: u32) -> String {
    format!("r{number}")
}
