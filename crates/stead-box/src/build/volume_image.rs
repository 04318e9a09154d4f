//! Volume images. The builder formats one per size and then copies it. Copying an empty file system
//! only copies a few hundred kilobytes and starts no process.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{SeekFrom, copy_file_range, seek};

use super::reserve;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::spec::Limits;

/// Size of an image for a box without a disk limit.
const DEFAULT_IMAGE_BYTES: u64 = 10 << 30;
/// Size of a volume's journal. Without a journal, a repair after a power loss can undo synced
/// changes.
const JOURNAL_BYTES: u64 = 4 << 20;
/// From this limit on, the journal is part of the limit. A smaller volume would lose much of its
/// space to the journal, so its image is larger than the limit by the journal.
const JOURNAL_WITHIN_FROM: u64 = 64 << 20;
/// Minimum size of an image. `mkfs.ext4` makes no journal in a smaller one.
const LEAST_IMAGE_BYTES: u64 = 9 << 20;
/// Space that the file system itself needs in the smallest image.
const LEAST_OVERHEAD_BYTES: u64 = 640 << 10;

/// Returns the capacity of a volume in bytes.
pub(super) fn bytes(limits: &Limits) -> u64 {
    limits.disk_bytes.unwrap_or(DEFAULT_IMAGE_BYTES)
}

/// Makes the volume's image if it does not exist.
pub(super) fn ensure(directory: &Path, name: &str, limits: &Limits, templates: Option<&Path>) -> Result<(), Refused> {
    let path = directory.join(name);
    if path.exists() {
        return Ok(());
    }
    // Made under a temporary name, so that a partial file system is never mounted.
    let new = directory.join(format!("{name}.new"));
    let bytes = bytes(limits);
    match templates {
        None => format(&new, bytes, limits.inodes)?,
        Some(templates) => {
            let template = template(templates, bytes, limits.inodes)?;
            copy(&template, &new).or_refuse(Primitive::Volume, || "cannot copy the volume's image".to_owned())?;
        }
    }
    name_synced(&new, &path).or_refuse(Primitive::Volume, || "cannot name the volume's image".to_owned())
}

/// Renames a finished image. The bytes are on the disk before the name, and the name before this
/// returns. The box syncs its files into this image, so a power loss must not undo the rename.
fn name_synced(new: &Path, path: &Path) -> io::Result<()> {
    File::open(new)?.sync_all()?;
    fs::rename(new, path)?;
    sync_parent(path)
}

pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

/// Returns the size of an image for a limit, and the percentage of it that only the builder may
/// use.
fn shape(limit: u64) -> (u64, u64) {
    if limit >= JOURNAL_WITHIN_FROM {
        return (limit, 0);
    }
    let image = (limit + JOURNAL_BYTES).max(LEAST_IMAGE_BYTES);
    let beyond = image.saturating_sub(limit + JOURNAL_BYTES + LEAST_OVERHEAD_BYTES);
    // A larger image exceeds the limit only by the journal.
    let percent = if image == LEAST_IMAGE_BYTES { beyond * 100 / image } else { 0 };
    (image, percent)
}

/// Adds the system directories to `PATH`, because Debian installs the ext4 tools there.
fn with_system_path(mut tool: Command) -> Command {
    let search = std::env::var("PATH").unwrap_or_default();
    tool.env_clear().env("PATH", format!("{search}:/usr/sbin:/sbin"));
    tool
}

fn template(directory: &Path, bytes: u64, inodes: Option<u64>) -> Result<PathBuf, Refused> {
    let inodes_text = inodes.map_or_else(|| "usual".to_owned(), |inodes| inodes.to_string());
    let path = directory.join(format!("ext4-{bytes}-{inodes_text}-v3.img"));
    if !path.exists() {
        let refused = || "cannot keep an image to copy".to_owned();
        DirBuilder::new().recursive(true).mode(0o700).create(directory).or_refuse(Primitive::Volume, refused)?;
        // Several threads may do this at once, so each uses its own name.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let new = directory.join(format!(".{}-{}.new", std::process::id(), MADE.fetch_add(1, Relaxed)));
        format(&new, bytes, inodes)?;
        // If two threads made a template, both are equal. It is synced because every later volume
        // is a copy of it.
        name_synced(&new, &path).or_refuse(Primitive::Volume, refused)?;
    }
    Ok(path)
}

/// Copies a sparse file and keeps its holes.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let from = File::open(from)?;
    let to = File::options().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut at = 0;
    while at < length {
        let data = match seek(&from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(&from, SeekFrom::Hole(data))?;
        let (mut source, mut target) = (data, data);
        while source < end {
            let left = usize::try_from(end - source).unwrap_or(usize::MAX);
            if copy_file_range(&from, Some(&mut source), &to, Some(&mut target), left)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        at = end;
    }
    Ok(())
}

fn format(path: &Path, bytes: u64, inodes: Option<u64>) -> Result<(), Refused> {
    let refused = || "cannot make the volume's image".to_owned();
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
    let (image_bytes, kept_back) = shape(bytes);
    file.and_then(|file| file.set_len(image_bytes)).or_refuse(Primitive::Volume, refused)?;
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]);
    mkfs.args(["-O", "^resize_inode", "-m", &kept_back.to_string()]);
    mkfs.args(["-J", &format!("size={}", JOURNAL_BYTES >> 20)]);
    if let Some(inodes) = inodes {
        // Adds inodes for the file system itself, the volume's directories and the reserve.
        mkfs.args(["-N", &(inodes + 18 + reserve::INODES).to_string()]);
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    mkfs.current_dir(parent).arg(path.file_name().unwrap_or_default());
    mkfs.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = with_system_path(mkfs).output().or_refuse(Primitive::Volume, || "cannot run mkfs.ext4".to_owned())?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Refused { primitive: Primitive::Volume, doing: "mkfs.ext4 failed".to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_volume_has_a_journal_and_no_more_room_than_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        for megabytes in [1, 2, 4, 5, 6, 16, 63, 64] {
            let (path, limit) = (folder.path().join(format!("{megabytes}.img")), megabytes << 20);
            format(&path, limit, None).unwrap();
            let mut dump = Command::new("dumpe2fs");
            dump.arg("-h").arg(&path);
            let output = with_system_path(dump).output().unwrap();
            let output = String::from_utf8(output.stdout).unwrap();
            let blocks = |name: &str| -> u64 {
                let line = output.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                line.trim().parse().unwrap()
            };
            assert!(output.contains("has_journal"), "{megabytes}: {output}");
            let room = (blocks("Free blocks:") - blocks("Reserved block count:")) * 4096;
            assert!(room <= limit + (128 << 10), "{megabytes} MiB have room for {room} bytes");
            assert!(room >= limit / 2, "{megabytes} MiB have room for {room} bytes");
        }
    }
}
