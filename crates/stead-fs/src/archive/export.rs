//! A filesystem as a tar: every file, directory and link, in the order of their paths, in constant memory.

use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;

use tar::{Builder, EntryType, Header};

use super::ArchiveError;
use crate::entry::{Kind, Permission};
use crate::error::FsError;
use crate::filesystem::{Content, Filesystem, Walk, Walked};
use crate::path::WorkspacePath;

/// Bytes of a link's target that a header has room for.
const LINK_NAME: usize = 100;

/// Writes what is below `from`, with paths relative to it. Owners are nobody's and modes are 0644 or 0755, so that equal trees of
/// equal times are equal tars. Special files are left out.
pub fn export_tar(fs: &dyn Filesystem, from: &WorkspacePath, out: &mut dyn Write) -> Result<(), ArchiveError> {
    let mut builder = Builder::new(out);
    let mut failed = None;
    fs.walk(from, &mut |walked| match append(fs, &mut builder, from, walked) {
        Ok(()) => ControlFlow::Continue(Walk::Continue),
        Err(ArchiveError::Fs(error)) if error.is_vanished() => ControlFlow::Continue(Walk::Continue),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    builder.into_inner().map_err(ArchiveError::Io)?;
    Ok(())
}

fn append(
    fs: &dyn Filesystem,
    builder: &mut Builder<&mut dyn Write>,
    from: &WorkspacePath,
    walked: &Walked,
) -> Result<(), ArchiveError> {
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
            header.set_mode(0o755);
            builder.append_data(&mut header, name, io::empty())
        }
        Kind::Symlink => {
            let target = fs.read_link(&walked.path)?;
            header.set_entry_type(EntryType::Symlink);
            header.set_mode(0o777);
            append_link(builder, &mut header, name, &target)
        }
        Kind::File => {
            let (reader, size): (Box<dyn Read>, u64) = match fs.open_walked(&walked.path)? {
                Content::Bytes(bytes) => {
                    let size = bytes.len() as u64;
                    (Box::new(io::Cursor::new(bytes)), size)
                }
                Content::Stream { reader, size } => (Box::new(reader), size),
            };
            header.set_entry_type(EntryType::Regular);
            header.set_mode(if stat.permission == Permission::Executable { 0o755 } else { 0o644 });
            header.set_size(size);
            builder.append_data(&mut header, name, Exactly { reader, left: size })
        }
    };
    written.map_err(|error| match error.kind() {
        // Its header is written, so the archive cannot be continued.
        io::ErrorKind::UnexpectedEof => FsError::Changed { path: walked.path.clone() }.into(),
        _ => ArchiveError::Io(error),
    })
}

/// A link with its target as it is written: `Builder::append_link` would tidy `a//b` up, and the tree would be another one.
fn append_link(
    builder: &mut Builder<&mut dyn Write>,
    header: &mut Header,
    name: &Path,
    target: &[u8],
) -> io::Result<()> {
    if header.set_link_name_literal(target).is_err() {
        // Too long for its field: an entry of its own comes first and holds it, as GNU tar does it.
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

/// As many bytes as the header promised: a file that grows is cut, one that shrinks is an error and not a shifted archive.
struct Exactly {
    reader: Box<dyn Read>,
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
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file became shorter while it was exported"));
        }
        self.left -= count as u64;
        Ok(count)
    }
}
