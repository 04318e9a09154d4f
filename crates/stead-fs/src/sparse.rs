//! Holes in files. The kernel finds them, and copies, exports and size counts skip them.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::ops::Range;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::filesystem::ReadSeek;

/// Ranges of data in one file. A file with more is refused: the list is held in memory.
const MOST_EXTENTS: usize = 1 << 18;
const CHUNK: usize = 256 << 10;

impl ReadSeek for File {
    fn data_after(&mut self, from: u64) -> io::Result<Option<Range<u64>>> {
        let start = match rustix::fs::seek(&*self, SeekFrom::Data(from)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            // A file system that knows no holes: all of it is data.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::SPIPE) => return Ok(Some(from..u64::MAX)),
            Err(error) => return Err(error.into()),
        };
        Ok(Some(start..rustix::fs::seek(&*self, SeekFrom::Hole(start))?))
    }
}

/// The ranges of a file that hold data, in order, within its first `size` bytes.
pub(crate) fn extents(reader: &mut dyn ReadSeek, size: u64) -> io::Result<Vec<Range<u64>>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut at = 0;
    while at < size {
        let Some(data) = reader.data_after(at)? else { break };
        let data = data.start..data.end.min(size);
        // A file that is written meanwhile may show a hole where its data was.
        if data.is_empty() || data.start < at {
            break;
        }
        at = data.end;
        found.push(data);
        if found.len() > MOST_EXTENTS {
            return Err(io::Error::other(format!("a file has more than {MOST_EXTENTS} separate ranges of data")));
        }
    }
    Ok(found)
}

/// Copies a file of `size` bytes into a new one. Holes stay holes and take no space.
pub fn copy_sparse(reader: &mut dyn ReadSeek, size: u64, to: &mut File) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    for extent in extents(reader, size)? {
        reader.seek(io::SeekFrom::Start(extent.start))?;
        to.seek(io::SeekFrom::Start(extent.start))?;
        let mut left = extent.end - extent.start;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            let count = reader.read(&mut buffer[..most])?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            to.write_all(&buffer[..count])?;
            left -= count as u64;
        }
    }
    to.set_len(size)
}
