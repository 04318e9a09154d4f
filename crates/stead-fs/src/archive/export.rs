//! Exports a filesystem as a tar: every file, directory and link in path order, in constant memory.

use std::io::{self, Read, Seek as _, Write};
use std::mem::ManuallyDrop;
use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use tar::{Builder, EntryType, Header};

use super::ArchiveError;
use crate::error::FsError;
use crate::filesystem::entry::{Kind, Permission};
use crate::filesystem::{Content, Filesystem, ReadSeek, Walk, Walked};
use crate::path::WorkspacePath;
use crate::search::WorkingTree;
use crate::sparse;

/// Size of a header's field for link targets, in bytes.
const LINK_NAME: usize = 100;
const BLOCK: usize = 512;

/// Writes the entries below `from`, with paths relative to it. Owner ids are 0, and a mode depends
/// only on the kind and the executable bit, so that equal trees with equal times give equal tars.
/// Special files are left out. Files with holes become sparse entries.
///
/// A tree that cannot be read completely is refused before the first byte is written, unless it
/// changes meanwhile.
pub fn export_tar(fs: &dyn Filesystem, from: &WorkspacePath, out: &mut dyn Write) -> Result<(), ArchiveError> {
    export(fs, from, Modes::Usual, &mut |_| Choice::Taken, out)
}

/// Like [`export_tar`] for the whole tree, with the exact mode bits.
pub fn export_exact(fs: &dyn Filesystem, out: &mut dyn Write) -> Result<(), ArchiveError> {
    export(fs, &WorkspacePath::root(), Modes::Exact, &mut |_| Choice::Taken, out)
}

/// Like [`export_exact`], without the repository and, in a git workspace, without the files that
/// git ignores. A larger tree is [`FsError::TooLarge`], and nothing is written.
pub fn export_working_tree(fs: &dyn Filesystem, room: ExportRoom, out: &mut dyn Write) -> Result<(), ArchiveError> {
    let root = WorkspacePath::root();
    let mut tree = WorkingTree::of(fs);
    let mut choose = |walked: &Walked| match tree.leaves_out(&walked.path, walked.kind) {
        true => Choice::LeftOut,
        false => Choice::Taken,
    };
    let mut found = ExportRoom { entries: 0, bytes: 0 };
    each(fs, &root, &mut choose, &mut |walked| {
        found.entries += 1;
        found.bytes = found.bytes.saturating_add(fs.stat_entry(&walked.path)?.size);
        if found.entries > room.entries || found.bytes > room.bytes {
            let path = WorkspacePath::root();
            return Err(FsError::TooLarge { path, size: found.bytes, limit: room.bytes }.into());
        }
        Ok(())
    })?;
    export(fs, &root, Modes::Exact, &mut choose, out)
}

/// The size of a tree that is exported at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportRoom {
    pub entries: u64,
    /// Total size of all files, with their holes.
    pub bytes: u64,
}

/// The mode bits in a tar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Modes {
    /// They depend only on the kind and the executable bit.
    Usual,
    Exact,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Taken,
    /// With everything below.
    LeftOut,
}

fn export(
    fs: &dyn Filesystem,
    from: &WorkspacePath,
    modes: Modes,
    choose: &mut dyn FnMut(&Walked) -> Choice,
    out: &mut dyn Write,
) -> Result<(), ArchiveError> {
    each(fs, from, choose, &mut |walked| readable(fs, walked))?;
    let mut tape = Tape { builder: ManuallyDrop::new(Builder::new(out)), sparse_files: 0, modes };
    each(fs, from, choose, &mut |walked| append(fs, &mut tape, from, walked))?;
    ManuallyDrop::into_inner(tape.builder).into_inner().map_err(ArchiveError::Io)?;
    Ok(())
}

/// Calls `visit` for each chosen entry until it fails. Skips entries that vanish meanwhile.
fn each(
    fs: &dyn Filesystem,
    from: &WorkspacePath,
    choose: &mut dyn FnMut(&Walked) -> Choice,
    visit: &mut dyn FnMut(&Walked) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut failed = None;
    fs.walk(from, &mut |walked| match visit_chosen(walked, choose, visit) {
        Ok(Choice::LeftOut) => ControlFlow::Continue(Walk::Skip),
        Ok(Choice::Taken) => ControlFlow::Continue(Walk::Continue),
        Err(ArchiveError::Fs(error)) if error.is_vanished() => ControlFlow::Continue(Walk::Continue),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)
}

fn visit_chosen(
    walked: &Walked,
    choose: &mut dyn FnMut(&Walked) -> Choice,
    visit: &mut dyn FnMut(&Walked) -> Result<(), ArchiveError>,
) -> Result<Choice, ArchiveError> {
    let choice = choose(walked);
    if choice == Choice::Taken {
        visit(walked)?;
    }
    Ok(choice)
}

fn readable(fs: &dyn Filesystem, walked: &Walked) -> Result<(), ArchiveError> {
    if walked.kind == Kind::File {
        fs.open_walked(&walked.path)?;
    }
    Ok(())
}

struct Tape<'a> {
    /// Never dropped on a failure: dropping it writes the end marker, and a broken export would
    /// look complete.
    builder: ManuallyDrop<Builder<&'a mut dyn Write>>,
    /// Number of sparse files so far. Each needs a unique name for readers that do not know the
    /// format.
    sparse_files: u64,
    modes: Modes,
}

impl Modes {
    fn of(self, exact: u32, usual: u32) -> u32 {
        match self {
            Self::Usual => usual,
            Self::Exact => exact & 0o777,
        }
    }
}

fn append(fs: &dyn Filesystem, tape: &mut Tape<'_>, from: &WorkspacePath, walked: &Walked) -> Result<(), ArchiveError> {
    let Some(below) = walked.path.below(from) else { return Ok(()) };
    let name = Path::new(below.as_os_str());
    let stat = fs.stat_entry(&walked.path)?;
    let mut header = Header::new_gnu();
    header.set_mtime(u64::try_from(stat.updated_at_millis / 1_000).unwrap_or(0));
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    let written = match walked.kind {
        Kind::Special => return Ok(()),
        Kind::Directory => {
            header.set_entry_type(EntryType::Directory);
            header.set_mode(tape.modes.of(stat.mode, 0o755));
            tape.builder.append_data(&mut header, name, io::empty())
        }
        Kind::Symlink => {
            let target = fs.read_link(&walked.path)?;
            header.set_entry_type(EntryType::Symlink);
            header.set_mode(0o777);
            append_link(&mut tape.builder, &mut header, name, &target)
        }
        Kind::File => {
            header.set_entry_type(EntryType::Regular);
            let usual = if stat.permission == Permission::Executable { 0o755 } else { 0o644 };
            header.set_mode(tape.modes.of(stat.mode, usual));
            append_file(tape, &mut header, name, fs.open_walked(&walked.path)?)
        }
    };
    written.map_err(|error| match error.kind() {
        // The header is already written, so the archive cannot be continued.
        io::ErrorKind::UnexpectedEof => FsError::Changed { path: walked.path.clone() }.into(),
        _ => ArchiveError::Io(error),
    })
}

fn append_file(tape: &mut Tape<'_>, header: &mut Header, name: &Path, content: Content) -> io::Result<()> {
    let (mut reader, size) = match content {
        Content::Bytes(bytes) => {
            header.set_size(bytes.len() as u64);
            return tape.builder.append_data(header, name, &*bytes);
        }
        Content::Stream { reader, size } => (reader, size),
    };
    let extents = sparse::extents(&mut *reader, size)?;
    let dense = size == 0 || extents.as_slice() == std::slice::from_ref(&(0..size));
    if !dense {
        return append_sparse(tape, header, name, reader, size, &extents);
    }
    reader.rewind()?;
    header.set_size(size);
    tape.builder.append_data(header, name, Exactly { reader, left: size })
}

/// Appends a file with holes in the form that GNU tar 1.15.92 and later use (PAX format, sparse
/// version 1.0). The true name and size are in an extended header, and the list of ranges precedes
/// their bytes.
fn append_sparse(
    tape: &mut Tape<'_>,
    header: &Header,
    name: &Path,
    mut reader: Box<dyn ReadSeek>,
    size: u64,
    extents: &[Range<u64>],
) -> io::Result<()> {
    let real_size = size.to_string();
    tape.builder.append_pax_extensions([
        ("GNU.sparse.major", &b"1"[..]),
        ("GNU.sparse.minor", &b"0"[..]),
        ("GNU.sparse.name", name.as_os_str().as_bytes()),
        ("GNU.sparse.realsize", real_size.as_bytes()),
    ])?;
    let map = sparse_map(size, extents);
    let data: u64 = extents.iter().map(|extent| extent.end - extent.start).sum();
    // GNU tar derives the sparse format from the header format, and expects its old format in a GNU
    // header.
    let mut posix = Header::new_ustar();
    posix.set_entry_type(EntryType::Regular);
    posix.set_path(format!("GNUSparseFile.0/{}", tape.sparse_files))?;
    posix.set_mode(header.mode()?);
    posix.set_mtime(header.mtime()?);
    posix.set_uid(0);
    posix.set_gid(0);
    posix.set_size(map.len() as u64 + data);
    posix.set_cksum();
    tape.sparse_files += 1;
    let data = Ranges { reader: &mut *reader, ranges: extents.iter().cloned(), left: 0 };
    tape.builder.append(&posix, map.as_slice().chain(data))
}

/// The number of ranges and each range's offset and length, in decimal, padded to whole blocks. If
/// the file ends with a hole, an empty last range marks its end.
fn sparse_map(size: u64, extents: &[Range<u64>]) -> Vec<u8> {
    let end = extents.last().is_none_or(|last| last.end < size).then_some(size..size);
    let mut map = format!("{}\n", extents.len() + usize::from(end.is_some()));
    for range in extents.iter().chain(&end) {
        map.push_str(&format!("{}\n{}\n", range.start, range.end - range.start));
    }
    let mut map = map.into_bytes();
    map.resize(map.len().next_multiple_of(BLOCK), 0);
    map
}

/// Reads some ranges of a file one after the other. A file that has become shorter is an error.
struct Ranges<'a, I> {
    reader: &'a mut dyn ReadSeek,
    ranges: I,
    left: u64,
}

impl<I: Iterator<Item = Range<u64>>> Read for Ranges<'_, I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            let Some(next) = self.ranges.next() else { return Ok(0) };
            self.reader.seek(io::SeekFrom::Start(next.start))?;
            self.left = next.end - next.start;
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.reader.read(&mut buffer[..most])?;
        if count == 0 && most > 0 {
            return Err(shortened());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

fn shortened() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "a file became shorter while it was exported")
}

/// Appends a link with its exact target. `Builder::append_link` would normalise `a//b`, and the
/// tree would differ.
fn append_link(
    builder: &mut Builder<&mut dyn Write>,
    header: &mut Header,
    name: &Path,
    target: &[u8],
) -> io::Result<()> {
    if header.set_link_name_literal(target).is_err() {
        // Too long for its field: a preceding entry holds it, as in GNU tar.
        let mut long = Header::new_gnu();
        long.set_entry_type(EntryType::GNULongLink);
        long.set_path("././@LongLink")?;
        long.set_mode(0o644);
        long.set_uid(0);
        long.set_gid(0);
        long.set_mtime(0);
        long.set_size(target.len() as u64 + 1);
        long.set_cksum();
        builder.append(&long, target.chain(&[0][..]))?;
        header.set_link_name_literal(target.get(..LINK_NAME).unwrap_or(target))?;
    }
    builder.append_data(header, name, io::empty())
}

/// Reads exactly as many bytes as the header promised. A file that grows is cut. One that shrinks
/// is an error, so that the archive is never misaligned.
struct Exactly {
    reader: Box<dyn ReadSeek>,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let count = self.reader.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(shortened());
        }
        self.left -= count as u64;
        Ok(count)
    }
}
