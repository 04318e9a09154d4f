//! Images: formatted once for each size, then copied. A copy of an empty file system is a few hundred kilobytes and no process.

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

/// An image without a limit would be one without a size.
const DEFAULT_IMAGE_BYTES: u64 = 10 << 30;
/// Below this a journal would take a good part of the volume.
const JOURNAL_FROM_BYTES: u64 = 64 << 20;

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
    fs::rename(new, &path).or_refuse(Primitive::Volume, || "cannot name the volume's image".to_owned())
}

fn template(directory: &Path, bytes: u64, inodes: Option<u64>) -> Result<PathBuf, Refused> {
    let inodes_text = inodes.map_or_else(|| "usual".to_owned(), |inodes| inodes.to_string());
    let path = directory.join(format!("ext4-{bytes}-{inodes_text}.img"));
    if !path.exists() {
        let refused = || "cannot keep an image to copy".to_owned();
        DirBuilder::new().recursive(true).mode(0o700).create(directory).or_refuse(Primitive::Volume, refused)?;
        // Several threads may be at it at once, each under a name of its own.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let new = directory.join(format!(".{}-{}.new", std::process::id(), MADE.fetch_add(1, Relaxed)));
        format(&new, bytes, inodes)?;
        // Two may have made one: they are equal.
        fs::rename(new, &path).or_refuse(Primitive::Volume, refused)?;
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
    mkfs.args(if bytes < JOURNAL_FROM_BYTES { ["-O", "^resize_inode,^has_journal"] } else { ["-O", "^resize_inode"] });
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
    // Debian keeps it where an ordinary PATH does not look.
    let search = std::env::var("PATH").unwrap_or_default();
    mkfs.env_clear().env("PATH", format!("{search}:/usr/sbin:/sbin"));
    let output = mkfs.output().or_refuse(Primitive::Volume, || "cannot run mkfs.ext4".to_owned())?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Refused { primitive: Primitive::Volume, doing: "mkfs.ext4 failed".to_owned(), reason })
}
