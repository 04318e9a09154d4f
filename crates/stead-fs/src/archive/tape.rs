//! Bundles and image layers that are tars, plain or compressed.

use std::io::{BufRead, BufReader, Read, Seek};

use tar::EntryType;

use super::meter::Meter;
use super::name::{entry_path, shown};
use super::tar_reader::{Member, TarReader};
use super::{ArchiveEntry, ArchiveError, ArchiveFormat, Body, Visit};
use crate::filesystem::entry::Permission;

pub(super) fn read<R: Read + Seek>(
    archive: &mut R,
    format: ArchiveFormat,
    meter: &Meter,
    visit: &mut Visit<'_>,
) -> Result<(), ArchiveError> {
    let buffered = BufReader::with_capacity(64 * 1024, archive);
    match format {
        ArchiveFormat::TarGz => {
            let rest = read_tar(flate2::bufread::GzDecoder::new(buffered), meter, visit)?;
            // One stream is one archive: data after it would be hidden from tools that read only
            // the first stream.
            if rest.into_inner().fill_buf()?.is_empty() { Ok(()) } else { Err(ArchiveError::Trailing) }
        }
        ArchiveFormat::TarZst => {
            let decoder = zstd::stream::read::Decoder::with_buffer(buffered)?;
            read_tar(decoder, meter, visit).map(drop)
        }
        ArchiveFormat::Tar | ArchiveFormat::Zip => read_tar(buffered, meter, visit).map(drop),
    }
}

fn read_tar<R: Read>(stream: R, meter: &Meter, visit: &mut Visit<'_>) -> Result<R, ArchiveError> {
    let mut tar = TarReader::new(stream);
    while let Some(member) = tar.next_member()? {
        read_member(&mut tar, member, meter, visit)?;
        // Count content that the visitor did not read.
        meter.drain(&mut tar)?;
    }
    tar.finish()
}

fn read_member<R: Read>(
    tar: &mut TarReader<R>,
    member: Member,
    meter: &Meter,
    visit: &mut Visit<'_>,
) -> Result<(), ArchiveError> {
    meter.entry()?;
    let Member { name, link, kind, mode, size, .. } = member;
    let Some(path) = entry_path(&name)? else {
        let root = kind == EntryType::Directory && size == 0;
        return if root { Ok(()) } else { Err(ArchiveError::Name { name: shown(&name) }) };
    };
    if kind != EntryType::Regular && kind != EntryType::Continuous && size != 0 {
        return Err(ArchiveError::Damaged { reason: format!("{path} is not a file but has content") });
    }
    let body = match kind {
        EntryType::Regular | EntryType::Continuous if name.ends_with(b"/") => {
            return Err(ArchiveError::Name { name: shown(&name) });
        }
        EntryType::Regular | EntryType::Continuous => {
            let permission = if mode & 0o100 == 0 { Permission::Plain } else { Permission::Executable };
            Body::File { reader: tar, permission }
        }
        EntryType::Directory => Body::Directory,
        EntryType::Symlink => Body::Symlink { target: link },
        EntryType::Link => {
            let target = entry_path(&link)?.ok_or_else(|| ArchiveError::link(&path, &link))?;
            Body::HardLink { target }
        }
        EntryType::Char | EntryType::Block | EntryType::Fifo => Body::Special,
        _ => return Err(ArchiveError::Special { name: shown(&name) }),
    };
    visit(ArchiveEntry { path, body })
}
