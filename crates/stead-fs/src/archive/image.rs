//! Images: a whole root directory from a tar, or from an OCI archive with layers.
//!
//! An image differs from a bundle. Its links may lead anywhere, because processes in that root see
//! no other. Its devices are left out, because every box has its own. So this module follows no
//! link of the archive on disk. It merges the layers by name only ([`merge`]), resolves links
//! inside the root and applies whiteouts. Only the result is written, and no written path leads
//! through a link. Every blob of an OCI archive is checked against its digest before it is used
//! ([`oci`]).

mod merge;
mod oci;
mod section;
mod write;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use stead_core::ContentHash;

use super::meter::Meter;
use super::{ArchiveEntry, ArchiveError, ArchiveFormat, ArchiveLimits, Body, LinkTargets, tape};
use crate::disk::DiskFs;
use crate::hash_reader::hash_reader;
use merge::{Listed, Tree, What};
use section::Section;

/// Default size limits of an image.
pub const LIMITS: ArchiveLimits =
    ArchiveLimits { entries: 1_000_000, total_bytes: 32 << 30, ratio: 200, link_targets: LinkTargets::Inside };

/// An opened image, checked as far as its names and digests allow.
pub struct Image {
    /// For an OCI image the digest of its manifest, for other archives the digest of their bytes.
    pub digest: ContentHash,
    /// Environment that the image sets for every process.
    pub env: Vec<(String, String)>,
    layers: Vec<Layer>,
    /// The uncompressed archive.
    archive: File,
}

/// One tar of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Layer {
    start: u64,
    length: u64,
    format: ArchiveFormat,
}

/// The result of writing an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    pub files: u64,
    pub directories: u64,
    pub links: u64,
    pub bytes: u64,
    /// Number of devices and FIFOs in the image, which the tree omits.
    pub left_out: u64,
}

/// A seekable reader.
trait ReadSeek: Read + Seek {}
impl<T: Read + Seek + ?Sized> ReadSeek for T {}

impl Image {
    /// Opens an archive: a tar of a root directory or an OCI archive, plain or compressed with gzip
    /// or zstd.
    ///
    /// A compressed archive is first decompressed into `spool`, an empty unlinked file, and then
    /// read from there.
    pub fn open(mut archive: File, mut spool: File, limits: &ArchiveLimits) -> Result<Self, ArchiveError> {
        archive.seek(SeekFrom::Start(0))?;
        let given = hash_reader(&mut archive)?;
        let length = archive.seek(SeekFrom::End(0))?;
        let mut archive = match format(&mut archive)? {
            ArchiveFormat::Zip => return Err(damaged("an image is a tar or an OCI archive, not a zip")),
            ArchiveFormat::Tar => archive,
            packed => {
                unpack(archive, packed, &mut spool, &Meter::new(limits, length))?;
                spool
            }
        };
        let whole = archive.seek(SeekFrom::End(0))?;
        Ok(match oci::read(&mut archive, limits)? {
            Some(found) => Self { digest: found.digest, env: found.env, layers: found.layers, archive },
            None => {
                let layers = vec![Layer { start: 0, length: whole, format: ArchiveFormat::Tar }];
                Self { digest: given, env: Vec::new(), layers, archive }
            }
        })
    }

    /// Writes the image's root into an empty directory. After an error the files written so far
    /// stay, so write into a directory that can be discarded.
    pub fn write(&self, limits: &ArchiveLimits, into: &mut DiskFs) -> Result<Written, ArchiveError> {
        let mut archive = &self.archive;
        let packed = archive.seek(SeekFrom::End(0))?;
        let (mut tree, mut left_out) = (Tree::limited(limits.entries), 0);
        let meter = Meter::new(limits, packed);
        for (number, layer) in self.layers.iter().enumerate() {
            let (listed, specials) = self.list(number, layer, &meter)?;
            left_out += specials;
            tree.lay(listed)?;
        }
        let meter = Meter::new(limits, packed);
        let written = write::all(self, tree, &meter, into)?;
        Ok(Written { left_out, ..written })
    }

    /// Lists all names of a layer in order, and counts its devices. Decompresses and measures the
    /// whole layer.
    fn list(&self, number: usize, layer: &Layer, meter: &Meter) -> Result<(Vec<Listed>, u64), ArchiveError> {
        // Only OCI layers have whiteouts: in a tar of a root such a name is an ordinary name.
        let whiteouts = self.layers.len() > 1 || layer.start > 0;
        let (mut listed, mut specials, mut entry_number) = (Vec::new(), 0, 0);
        self.each(layer, meter, &mut |mut entry| {
            let what = match &mut entry.body {
                Body::Directory => What::Directory,
                Body::Symlink { target } => What::Link(std::mem::take(target)),
                Body::HardLink { target } => What::Same(target.clone()),
                Body::File { reader, .. } => {
                    meter.drain(*reader)?;
                    What::File(merge::Source { layer: number, entry: entry_number })
                }
                Body::Special => {
                    specials += 1;
                    entry_number += 1;
                    return Ok(());
                }
            };
            entry_number += 1;
            listed.push(Listed::of(entry.path, what, whiteouts)?);
            Ok(())
        })?;
        Ok((listed, specials))
    }

    fn each(
        &self,
        layer: &Layer,
        meter: &Meter,
        visit: &mut dyn FnMut(ArchiveEntry<'_>) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let mut archive = &self.archive;
        let mut section = Section::new(&mut archive, layer.start, layer.length);
        tape::read(&mut section, layer.format, meter, visit)
    }
}

/// Detects the format by the first bytes.
fn format<R: Read + Seek + ?Sized>(archive: &mut R) -> Result<ArchiveFormat, ArchiveError> {
    archive.seek(SeekFrom::Start(0))?;
    let mut start = Vec::new();
    (&mut *archive).take(512).read_to_end(&mut start)?;
    archive.seek(SeekFrom::Start(0))?;
    ArchiveFormat::of_content(&start).ok_or_else(|| damaged("it is neither a tar nor a tar packed with gzip or zstd"))
}

fn unpack(archive: File, format: ArchiveFormat, spool: &mut File, meter: &Meter) -> Result<(), ArchiveError> {
    let mut unpacked: Box<dyn Read> = match format {
        ArchiveFormat::TarZst => Box::new(zstd::stream::read::Decoder::new(archive)?),
        _ => Box::new(flate2::read::MultiGzDecoder::new(archive)),
    };
    let mut piece = vec![0; 256 << 10];
    loop {
        let count = unpacked.read(&mut piece)?;
        if count == 0 {
            return spool.flush().map_err(ArchiveError::Io);
        }
        meter.add(count as u64)?;
        spool.write_all(&piece[..count]).map_err(ArchiveError::Io)?;
    }
}

fn damaged(reason: impl Into<String>) -> ArchiveError {
    ArchiveError::Damaged { reason: reason.into() }
}
