//! Reads zips.
//!
//! A zip can be read from its end or from its start, and two readers can see two archives. This
//! reader uses the central directory. It must describe the whole file without a gap before or after
//! it, and no two entries may share a byte.

use std::io::{Read, Seek, SeekFrom};

use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use super::meter::Meter;
use super::name::{entry_path, shown};
use super::{ArchiveEntry, ArchiveError, Body, Visit};
use crate::filesystem::entry::Permission;

const END_OF_DIRECTORY: usize = 22;
const FORMAT: u32 = 0o170_000;

pub(super) fn read<R: Read + Seek>(archive: &mut R, meter: &Meter, visit: &mut Visit<'_>) -> Result<(), ArchiveError> {
    let mut zip = ZipArchive::new(&mut *archive).map_err(damaged)?;
    if zip.offset() != 0 {
        return Err(ArchiveError::Trailing);
    }
    if zip.has_duplicate_names() {
        return Err(ArchiveError::Damaged { reason: "two entries have the same name".to_owned() });
    }
    if zip.has_overlapping_entries().map_err(damaged)? {
        return Err(ArchiveError::Damaged { reason: "entries overlap".to_owned() });
    }
    let comment = zip.comment().len();
    for index in 0..zip.len() {
        meter.entry()?;
        read_entry(&mut zip, index, visit)?;
    }
    check_ends(zip.into_inner(), comment)
}

fn read_entry<R: Read + Seek>(
    zip: &mut ZipArchive<R>,
    index: usize,
    visit: &mut Visit<'_>,
) -> Result<(), ArchiveError> {
    let raw = zip.by_index_raw(index).map_err(damaged)?;
    let name = raw.name_raw().to_vec();
    let mode = raw.unix_mode().unwrap_or(0);
    let known = matches!(raw.compression(), CompressionMethod::Stored | CompressionMethod::Deflated);
    if raw.encrypted() {
        return Err(ArchiveError::Encrypted { name: shown(&name) });
    }
    drop(raw);
    if !known {
        return Err(ArchiveError::Damaged { reason: format!("{:?} is packed in an unknown way", shown(&name)) });
    }
    let directory = name.ends_with(b"/");
    let Some(path) = entry_path(&name)? else {
        return if directory { Ok(()) } else { Err(ArchiveError::Name { name: shown(&name) }) };
    };
    let mut file = zip.by_index(index).map_err(damaged)?;
    if directory && file.size() != 0 {
        return Err(ArchiveError::Damaged { reason: format!("{path} is a directory but has content") });
    }
    match (mode & FORMAT, directory) {
        (0 | 0o040_000, true) => visit(ArchiveEntry { path, body: Body::Directory }),
        (0 | 0o100_000, false) => {
            let permission = if mode & 0o100 == 0 { Permission::Plain } else { Permission::Executable };
            visit(ArchiveEntry { path, body: Body::File { reader: &mut file, permission } })
        }
        (0o120_000, false) => {
            let mut target = Vec::new();
            file.by_ref().take(4_097).read_to_end(&mut target)?;
            visit(ArchiveEntry { path, body: Body::Symlink { target } })
        }
        _ => Err(ArchiveError::Special { name: shown(&name) }),
    }
}

/// Checks that the archive spans the whole file.
fn check_ends<R: Read + Seek>(archive: &mut R, comment: usize) -> Result<(), ArchiveError> {
    let mut start = [0; 4];
    archive.seek(SeekFrom::Start(0))?;
    archive.read_exact(&mut start)?;
    if !matches!(&start, b"PK\x03\x04" | b"PK\x05\x06" | b"PK\x06\x06") {
        return Err(ArchiveError::Trailing);
    }
    let mut end = [0; END_OF_DIRECTORY];
    let back = i64::try_from(END_OF_DIRECTORY + comment).map_err(|_| ArchiveError::Trailing)?;
    archive.seek(SeekFrom::End(-back))?;
    archive.read_exact(&mut end)?;
    let length = usize::from(u16::from_le_bytes([end[20], end[21]]));
    if end.starts_with(b"PK\x05\x06") && length == comment { Ok(()) } else { Err(ArchiveError::Trailing) }
}

fn damaged(error: ZipError) -> ArchiveError {
    match error {
        ZipError::Io(error) => error.into(),
        other => ArchiveError::Damaged { reason: other.to_string() },
    }
}
