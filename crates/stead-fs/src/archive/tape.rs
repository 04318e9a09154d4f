//! Reading tars, plain or compressed.

use std::io::{BufRead, BufReader, Read, Seek};

use tar::{Archive, EntryType};

use super::meter::{Gated, Meter};
use super::name::{entry_path, shown};
use super::{ArchiveEntry, ArchiveError, ArchiveFormat, Body, Visit};
use crate::entry::Permission;

/// Zeros after the end marker: tars are padded to whole records.
const PADDING: u64 = 1 << 20;

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
            // One stream is one archive: what follows was hidden from whoever looked at the first.
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
    let (gated, gate) = Gated::new(stream);
    let mut archive = Archive::new(gated);
    let mut entries = archive.entries()?;
    loop {
        gate.headers();
        let Some(entry) = entries.next() else { break };
        let mut entry = entry?;
        gate.content();
        read_entry(&mut entry, meter, visit)?;
        // Whatever a visitor left: the next header must not pay for it.
        meter.drain(&mut entry)?;
    }
    if gate.ended() {
        return Err(ArchiveError::Truncated);
    }
    gate.content();
    let mut gated = archive.into_inner();
    check_padding(&mut gated)?;
    Ok(gated.into_inner())
}

fn read_entry<R: Read>(
    entry: &mut tar::Entry<'_, R>,
    meter: &Meter,
    visit: &mut Visit<'_>,
) -> Result<(), ArchiveError> {
    meter.entry()?;
    let name = entry.path_bytes().into_owned();
    let kind = entry.header().entry_type();
    if kind == EntryType::XGlobalHeader {
        // A comment about the whole archive, as git writes one.
        return Ok(());
    }
    let path = entry_path(&name)?;
    let size = entry.size();
    let mode = entry.header().mode().unwrap_or(0o644);
    let link = entry.link_name_bytes().map(|target| target.into_owned()).unwrap_or_default();
    let Some(path) = path else {
        let root = kind == EntryType::Directory && size == 0;
        return if root { Ok(()) } else { Err(ArchiveError::Name { name: shown(&name) }) };
    };
    if kind != EntryType::Regular && kind != EntryType::Continuous && size != 0 {
        return Err(ArchiveError::Damaged { reason: format!("{path} is no file but has content") });
    }
    let body = match kind {
        EntryType::Regular | EntryType::Continuous if name.ends_with(b"/") => {
            return Err(ArchiveError::Name { name: shown(&name) });
        }
        EntryType::Regular | EntryType::Continuous => {
            let permission = if mode & 0o100 == 0 { Permission::Plain } else { Permission::Executable };
            Body::File { reader: entry, permission }
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

fn check_padding(rest: &mut impl Read) -> Result<(), ArchiveError> {
    let mut buffer = [0; 4096];
    let mut total = 0;
    loop {
        let count = rest.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        total += count as u64;
        if total > PADDING || buffer[..count].iter().any(|byte| *byte != 0) {
            return Err(ArchiveError::Trailing);
        }
    }
}
