//! Images: formatted once for each size, then copied. A copy of an empty file system is a few hundred kilobytes and no process.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{SeekFrom, copy_file_range, seek};

use stead_fs::JOURNAL_FROM_BYTES;

use super::reserve;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::spec::Limits;

/// An image without a limit would be one without a size.
const DEFAULT_IMAGE_BYTES: u64 = 10 << 30;
/// Features of an image without a journal. Group descriptors with checksums also count the inodes that were never used, and
/// an fsync does not write them: after a power loss e2fsck would take synced files for unused inodes and remove them.
const WITHOUT_JOURNAL: &str = "^resize_inode,^has_journal,^uninit_bg,^metadata_csum";

/// The size of a volume's image.
pub(super) fn bytes(limits: &Limits) -> u64 {
    limits.disk_bytes.unwrap_or(DEFAULT_IMAGE_BYTES)
}

/// Makes the volume's image if there is none.
pub(super) fn ensure(directory: &Path, name: &str, limits: &Limits, templates: Option<&Path>) -> Result<(), Refused> {
    let path = directory.join(name);
    if path.exists() {
        return Ok(());
    }
    // Made under another name, so that a half-made file system is never mounted.
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

/// Gives a finished image its name. The bytes are on the disk before the name, and the name before
/// this returns. The box syncs its files into this image, so a power loss must not undo the rename.
fn name_synced(new: &Path, path: &Path) -> io::Result<()> {
    File::open(new)?.sync_all()?;
    fs::rename(new, path)?;
    sync_parent(path)
}

pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

/// Repairs an image that has no journal and was mounted when the host lost power.
///
/// The kernel mounts such an image unrepaired, with block maps that may not fit the synced files.
/// An image with a journal needs no repair: the kernel replays the journal when it mounts the
/// image. The caller holds the image's lock, and no device is bound to the image.
pub(super) fn repair(path: &Path) -> Result<(), Refused> {
    let state = MountState::read(path).or_refuse(Primitive::Volume, || "cannot read the volume's image".to_owned())?;
    if state != MountState::Unclean {
        return Ok(());
    }
    let mut check = Command::new("e2fsck");
    check.args(["-f", "-y"]).arg(path);
    check.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = with_system_path(check)
        .output()
        .or_refuse(Primitive::Volume, || "cannot run e2fsck, which the volume needs after a power loss".to_owned())?;
    // 1 says that errors were found and corrected.
    match output.status.code() {
        Some(0 | 1) => Ok(()),
        _ => {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Refused { primitive: Primitive::Volume, doing: "e2fsck failed".to_owned(), reason })
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MountState {
    /// It was unmounted, or it has a journal.
    Consistent,
    Unclean,
}

impl MountState {
    /// The superblock is at byte 1024. At 0x3A is the state, whose first bit says that the image was
    /// unmounted. At 0x5C are the compatible features, of which 4 says that it has a journal.
    fn read(path: &Path) -> io::Result<Self> {
        let field = |offset: u64| {
            let mut bytes = [0; 2];
            File::open(path)?.read_exact_at(&mut bytes, 1024 + offset)?;
            io::Result::Ok(u16::from_le_bytes(bytes))
        };
        let unmounted = field(0x3A)? & 1 != 0;
        let has_journal = field(0x5C)? & 4 != 0;
        Ok(if unmounted || has_journal { Self::Consistent } else { Self::Unclean })
    }
}

/// Debian keeps the tools of ext4 where an ordinary PATH does not look.
fn with_system_path(mut tool: Command) -> Command {
    let search = std::env::var("PATH").unwrap_or_default();
    tool.env_clear().env("PATH", format!("{search}:/usr/sbin:/sbin"));
    tool
}

fn template(directory: &Path, bytes: u64, inodes: Option<u64>) -> Result<PathBuf, Refused> {
    let inodes_text = inodes.map_or_else(|| "usual".to_owned(), |inodes| inodes.to_string());
    let path = directory.join(format!("ext4-{bytes}-{inodes_text}-v2.img"));
    if !path.exists() {
        let refused = || "cannot keep an image to copy".to_owned();
        DirBuilder::new().recursive(true).mode(0o700).create(directory).or_refuse(Primitive::Volume, refused)?;
        // Several threads may be at it at once, each under a name of its own.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let new = directory.join(format!(".{}-{}.new", std::process::id(), MADE.fetch_add(1, Relaxed)));
        format(&new, bytes, inodes)?;
        // Two may have made one: they are equal. Synced, because every later volume is a copy of it.
        name_synced(&new, &path).or_refuse(Primitive::Volume, refused)?;
    }
    Ok(path)
}

/// Copies a sparse file and leaves its holes holes.
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
    file.and_then(|file| file.set_len(bytes)).or_refuse(Primitive::Volume, refused)?;
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-m", "0", "-b", "4096", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]);
    mkfs.args(["-O", if bytes < JOURNAL_FROM_BYTES { WITHOUT_JOURNAL } else { "^resize_inode" }]);
    if bytes >= JOURNAL_FROM_BYTES {
        mkfs.args(["-J", "size=4"]);
    }
    if let Some(inodes) = inodes {
        // The file system, the volume's directories and its reserve have their own.
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
