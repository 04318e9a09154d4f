//! Archives: unpacks bundles into a filesystem and exports a filesystem as a tar.
//!
//! Invariant: an archive is read twice under the same rules, first to check all of it and then to
//! unpack it. The check refuses archives above the limits. It refuses entries that escape, link
//! outside, repeat or contradict others, follow the end, or are not a file, directory or link. So a
//! refusal comes before anything is created. If the disk fills up while unpacking, nothing is left
//! behind either.

mod error;
mod export;
mod extensions;
mod format;
pub mod image;
mod limits;
mod manifest;
mod meter;
mod name;
mod sparse;
mod tape;
mod tar_reader;
mod unpack_tree;
mod zipped;

use std::io::{Read, Seek, SeekFrom};

pub use error::ArchiveError;
pub use export::{ExportRoom, export_exact, export_tar, export_working_tree};
pub use format::ArchiveFormat;
pub use limits::{ArchiveLimits, LinkTargets};
pub use sparse::{Segment, SparseMap};
pub use tar_reader::{Member, TarReader};
pub use unpack_tree::{unpack_exact, unpack_tree};

use stead_core::ContentHash;
use stead_core::content_hash::Hasher;

use crate::filesystem::entry::Permission;
use crate::filesystem::{Content, Filesystem};
use crate::path::WorkspacePath;
use crate::stage::{Stage, StageError};
use manifest::{Manifest, Seen};
use meter::Meter;

/// The content of an unpacked archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// Hash of the archive's own bytes.
    pub digest: ContentHash,
    pub files: usize,
    pub directories: usize,
    pub links: usize,
    /// Total size of all files.
    pub bytes: u64,
}

/// One entry of an archive. Its name has been checked; its content has not been read.
struct ArchiveEntry<'a> {
    path: WorkspacePath,
    body: Body<'a>,
}

enum Body<'a> {
    Directory,
    File {
        reader: &'a mut dyn Read,
        permission: Permission,
    },
    Symlink {
        target: Vec<u8>,
    },
    HardLink {
        target: WorkspacePath,
    },
    /// A device or a FIFO.
    Special,
}

/// Callback for each entry, in the archive's order.
type Visit<'a> = dyn FnMut(ArchiveEntry<'_>) -> Result<(), ArchiveError> + 'a;

/// Unpacks a whole archive below a directory of the filesystem, or nothing.
///
/// With `expected`, the archive's own bytes must have that digest.
pub fn unpack<R: Read + Seek>(
    archive: &mut R,
    format: ArchiveFormat,
    expected: Option<ContentHash>,
    limits: &ArchiveLimits,
    fs: &mut dyn Filesystem,
    below: &WorkspacePath,
    at_millis: i64,
) -> Result<Unpacked, ArchiveError> {
    let (digest, packed) = measure(archive)?;
    if let Some(expected) = expected
        && expected != digest
    {
        return Err(ArchiveError::Digest { expected, actual: digest });
    }
    let inspected = inspect(archive, format, Meter::new(limits, packed))?;
    inspected.check_links()?;
    let stage = Stage::new(fs, at_millis);
    let bytes = extract(archive, format, Meter::new(limits, packed), stage, below)?;
    let count = |kind| inspected.count(kind);
    Ok(Unpacked {
        digest,
        files: count(Seen::File),
        directories: count(Seen::Directory),
        links: count(Seen::Link),
        bytes,
    })
}

/// Checks a whole archive like [`unpack`], but creates nothing.
pub fn check<R: Read + Seek>(
    archive: &mut R,
    format: ArchiveFormat,
    limits: &ArchiveLimits,
) -> Result<(), ArchiveError> {
    let (_, packed) = measure(archive)?;
    inspect(archive, format, Meter::new(limits, packed))?.check_links()
}

fn measure<R: Read + Seek>(archive: &mut R) -> Result<(ContentHash, u64), ArchiveError> {
    archive.seek(SeekFrom::Start(0))?;
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut size = 0;
    loop {
        match archive.read(&mut buffer)? {
            0 => return Ok((hasher.finish(), size)),
            count => {
                hasher.update(&buffer[..count]);
                size += count as u64;
            }
        }
    }
}

fn each<R: Read + Seek>(
    archive: &mut R,
    format: ArchiveFormat,
    meter: &Meter,
    visit: &mut Visit<'_>,
) -> Result<(), ArchiveError> {
    archive.seek(SeekFrom::Start(0))?;
    match format {
        ArchiveFormat::Zip => zipped::read(archive, meter, visit),
        ArchiveFormat::Tar | ArchiveFormat::TarGz | ArchiveFormat::TarZst => tape::read(archive, format, meter, visit),
    }
}

/// The first pass: decompresses and checks everything, and keeps only the names.
fn inspect<R: Read + Seek>(archive: &mut R, format: ArchiveFormat, meter: Meter) -> Result<Manifest, ArchiveError> {
    let mut manifest = Manifest::new(meter.link_targets());
    each(archive, format, &meter, &mut |mut entry| {
        let size = match &mut entry.body {
            Body::File { reader, .. } => meter.drain(*reader)?,
            Body::HardLink { target } => {
                let size =
                    manifest.size_of(target).ok_or_else(|| ArchiveError::link(&entry.path, target.as_bytes()))?;
                meter.add(size)?;
                size
            }
            Body::Directory | Body::Symlink { .. } => 0,
            Body::Special => return Err(ArchiveError::Special { name: entry.path.to_string() }),
        };
        manifest.add(&entry, size)
    })?;
    Ok(manifest)
}

/// The second pass: repeats all checks, because the file may have changed since the first pass.
fn extract<R: Read + Seek>(
    archive: &mut R,
    format: ArchiveFormat,
    meter: Meter,
    mut stage: Stage<'_>,
    below: &WorkspacePath,
) -> Result<u64, ArchiveError> {
    let mut manifest = Manifest::new(meter.link_targets());
    let mut bytes = 0;
    each(archive, format, &meter, &mut |entry| {
        manifest.add(&entry, 0)?;
        let target = below.descend(&entry.path);
        match entry.body {
            Body::Directory => stage.directory(&target)?,
            Body::Symlink { target: to } => stage.link(&target, &to)?,
            Body::Special => return Err(ArchiveError::Special { name: entry.path.to_string() }),
            Body::File { reader, permission } => bytes += put(&mut stage, &meter, &target, reader, permission)?,
            Body::HardLink { target: to } => {
                let original = below.descend(&to);
                let permission = stage.fs().stat_entry(&original)?.permission;
                let mut reader: Box<dyn Read> = match stage.fs().open_walked(&original)? {
                    Content::Bytes(bytes) => Box::new(std::io::Cursor::new(bytes)),
                    Content::Stream { reader, .. } => Box::new(reader),
                };
                bytes += put(&mut stage, &meter, &target, &mut *reader, permission)?;
            }
        }
        Ok(())
    })?;
    manifest.check_links()?;
    stage.keep();
    Ok(bytes)
}

fn put(
    stage: &mut Stage<'_>,
    meter: &Meter,
    path: &WorkspacePath,
    reader: &mut dyn Read,
    permission: Permission,
) -> Result<u64, ArchiveError> {
    let (bytes, _) = stage.file(path, reader, meter.left(), permission).map_err(|error| match error {
        StageError::Fs(source) => ArchiveError::Fs(source),
        StageError::Source(source) => ArchiveError::from(source),
        StageError::TooLong { limit } => ArchiveError::TooLarge { limit },
    })?;
    meter.add(bytes)?;
    Ok(bytes)
}
