//! Holes in files. The kernel finds them, and copies, exports and size counts skip them.

pub(crate) mod hash_file;

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::ops::Range;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::filesystem::{Part, Parts, ReadSeek};

/// Maximum number of data ranges in one file, because the list is held in memory.
const MOST_EXTENTS: usize = 1 << 18;
const CHUNK: usize = 256 << 10;

impl ReadSeek for File {
    fn data_after(&mut self, from: u64) -> io::Result<Option<Range<u64>>> {
        let start = match rustix::fs::seek(&*self, SeekFrom::Data(from)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            // The file system does not support holes: everything is data.
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
        // The file is being written: data may have become a hole.
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

/// The parts of a file of `size` bytes. If the file becomes shorter meanwhile, the parts end there.
pub(crate) struct FileParts<'a> {
    reader: &'a mut dyn ReadSeek,
    size: u64,
    at: u64,
    /// End of the current range of data.
    data_end: u64,
}

impl<'a> FileParts<'a> {
    pub(crate) fn new(reader: &'a mut dyn ReadSeek, size: u64) -> Self {
        Self { reader, size, at: 0, data_end: 0 }
    }
}

impl Parts for FileParts<'_> {
    fn next_part(&mut self, buffer: &mut [u8]) -> io::Result<Part> {
        if self.at >= self.size {
            return Ok(Part::End);
        }
        if self.at >= self.data_end {
            let data = data_after(self.reader, self.at, self.size)?;
            self.data_end = data.end;
            self.reader.seek(io::SeekFrom::Start(data.start))?;
            if data.start > self.at {
                let hole = data.start - self.at;
                self.at = data.start;
                return Ok(Part::Hole(hole));
            }
        }
        let most = usize::try_from(self.data_end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let count = read_again(self.reader, &mut buffer[..most])?;
        self.at += count as u64;
        Ok(if count == 0 { Part::End } else { Part::Data(count) })
    }
}

/// The next range of data at or after `from`; an empty range at `size` if there is none.
fn data_after(reader: &mut dyn ReadSeek, from: u64, size: u64) -> io::Result<Range<u64>> {
    let found = reader.data_after(from)?.map(|data| data.start.max(from)..data.end.min(size));
    // The file is being written: data may have become a hole.
    Ok(found.filter(|data| !data.is_empty()).unwrap_or(size..size))
}

fn read_again(reader: &mut dyn ReadSeek, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Copies a file of `size` bytes into a new one. Holes stay holes and take no space.
pub fn copy_sparse(reader: &mut dyn ReadSeek, size: u64, to: &mut File) -> io::Result<()> {
    let (mut parts, mut buffer, mut at) = (FileParts::new(reader, size), vec![0; CHUNK], 0);
    loop {
        match parts.next_part(&mut buffer)? {
            Part::Data(count) => {
                to.write_all(&buffer[..count])?;
                at += count as u64;
            }
            Part::Hole(zeros) => {
                at += zeros;
                to.seek(io::SeekFrom::Start(at))?;
            }
            Part::End if at < size => return Err(io::ErrorKind::UnexpectedEof.into()),
            Part::End => return to.set_len(size),
        }
    }
}

/// Returns true if two files of `size` bytes have the same content. Skips holes that both have.
pub(crate) fn same_content(a: &mut dyn ReadSeek, b: &mut dyn ReadSeek, size: u64) -> io::Result<bool> {
    let (mut ours, mut theirs, mut at) = (vec![0; CHUNK], vec![0; CHUNK], 0);
    loop {
        let (first, second) = (data_after(a, at, size)?, data_after(b, at, size)?);
        let data = if second.start < first.start { second } else { first };
        if data.is_empty() {
            return Ok(true);
        }
        at = data.start;
        a.seek(io::SeekFrom::Start(at))?;
        b.seek(io::SeekFrom::Start(at))?;
        while at < data.end {
            let most = usize::try_from(data.end - at).unwrap_or(CHUNK).min(CHUNK);
            let read = a.read_exact(&mut ours[..most]).and_then(|()| b.read_exact(&mut theirs[..most]));
            match read {
                // One of the files became shorter.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                read => read?,
            }
            if ours[..most] != theirs[..most] {
                return Ok(false);
            }
            at += most as u64;
        }
    }
}
