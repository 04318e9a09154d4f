//! Sparse files in tars: the map of the stored parts, and a reader that fills in the holes.
//!
//! It reads two forms, both written by GNU tar. In PAX sparse 1.0 the map precedes the content, and
//! in the old GNU form it is in the header. It refuses PAX sparse 0.0 and 0.1: they keep the map in
//! records whose meaning depends on their order, and readers disagree about them.

use std::io::Read;

use tar::{GnuExtSparseHeader, GnuSparseHeader, Header};

use super::ArchiveError;

const BLOCK: usize = 512;
/// Maximum number of segments of one file. The map is held in memory.
const MAX_SEGMENTS: usize = 1 << 18;
/// Number of digits of the largest `u64`.
const MAX_DIGITS: usize = 20;

/// A part of a file that the archive stores. The gaps between segments are holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub offset: u64,
    pub length: u64,
}

/// The map of a sparse file: segments in ascending order that do not overlap. The last one ends at
/// `size`; it is empty if the file ends with a hole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparseMap {
    /// Size of the file with its holes.
    pub size: u64,
    pub segments: Vec<Segment>,
}

impl SparseMap {
    fn new(size: u64, segments: Vec<Segment>) -> Result<Self, ArchiveError> {
        let mut end = 0;
        for segment in &segments {
            if segment.offset < end {
                return Err(damaged("the segments of a sparse file overlap or are out of order"));
            }
            end = segment.offset.checked_add(segment.length).ok_or_else(|| damaged("a sparse segment has no end"))?;
        }
        // GNU tar ends a file where its map ends, whatever size the header says. It marks a final
        // hole with an empty segment.
        if end != size {
            return Err(damaged("the map of a sparse file does not end where the file ends"));
        }
        Ok(Self { size, segments })
    }

    /// Number of bytes of the file that the archive stores.
    pub fn stored(&self) -> u64 {
        self.segments.iter().map(|segment| segment.length).sum()
    }

    /// Reads the map of PAX sparse 1.0: decimal numbers, one per line, padded to a whole block.
    /// Leaves the reader at the file's content.
    pub(super) fn read_pax(size: u64, content: &mut dyn Read) -> Result<Self, ArchiveError> {
        let mut lines = Lines { content, block: [0; BLOCK], at: BLOCK };
        let count = usize::try_from(lines.number()?).ok().filter(|count| *count <= MAX_SEGMENTS);
        let count = count.ok_or_else(|| damaged(format!("a sparse file has more than {MAX_SEGMENTS} segments")))?;
        let mut segments = Vec::new();
        for _ in 0..count {
            segments.push(Segment { offset: lines.number()?, length: lines.number()? });
        }
        Self::new(size, segments)
    }

    /// Reads the map of the old GNU form: four segments in the header, the others in the blocks
    /// after it.
    pub(super) fn read_gnu(header: &Header, blocks: &mut dyn Read) -> Result<Self, ArchiveError> {
        let gnu = header.as_gnu().ok_or_else(|| damaged("a sparse file needs a GNU header"))?;
        let size = gnu.real_size()?;
        let mut segments = Vec::new();
        let mut take = |found: &[GnuSparseHeader]| -> Result<(), ArchiveError> {
            for found in found.iter().filter(|found| !found.is_empty()) {
                if segments.len() == MAX_SEGMENTS {
                    return Err(damaged(format!("a sparse file has more than {MAX_SEGMENTS} segments")));
                }
                segments.push(Segment { offset: found.offset()?, length: found.length()? });
            }
            Ok(())
        };
        take(&gnu.sparse)?;
        let mut more = gnu.is_extended();
        while more {
            let mut block = GnuExtSparseHeader::new();
            blocks.read_exact(block.as_mut_bytes())?;
            take(&block.sparse)?;
            more = block.is_extended();
        }
        Self::new(size, segments)
    }
}

/// Numbers of a PAX sparse map, read block by block so that nothing of the content is consumed.
struct Lines<'a> {
    content: &'a mut dyn Read,
    block: [u8; BLOCK],
    at: usize,
}

impl Lines<'_> {
    fn number(&mut self) -> Result<u64, ArchiveError> {
        let mut digits = String::new();
        loop {
            if self.at == BLOCK {
                self.content.read_exact(&mut self.block)?;
                self.at = 0;
            }
            let byte = self.block[self.at];
            self.at += 1;
            match byte {
                b'0'..=b'9' if digits.len() < MAX_DIGITS => digits.push(char::from(byte)),
                b'\n' => break,
                _ => return Err(damaged("the map of a sparse file is not a list of numbers")),
            }
        }
        digits.parse().map_err(|_| damaged("the map of a sparse file is not a list of numbers"))
    }
}

/// The position of a reader in a sparse file.
#[derive(Debug)]
pub(super) struct Expansion {
    map: SparseMap,
    next: usize,
    at: u64,
}

pub(super) enum Part {
    /// This many zeros.
    Hole(u64),
    /// This many stored bytes.
    Data(u64),
    End,
}

impl Expansion {
    pub(super) fn new(map: SparseMap) -> Self {
        Self { map, next: 0, at: 0 }
    }

    /// Returns the next part: the rest of the current segment or hole.
    pub(super) fn part(&mut self) -> Part {
        while let Some(segment) = self.map.segments.get(self.next) {
            let end = segment.offset + segment.length;
            if self.at < segment.offset {
                return Part::Hole(segment.offset - self.at);
            }
            if self.at < end {
                return Part::Data(end - self.at);
            }
            self.next += 1;
        }
        if self.at < self.map.size { Part::Hole(self.map.size - self.at) } else { Part::End }
    }

    pub(super) fn advance(&mut self, bytes: u64) {
        self.at += bytes;
    }
}

/// Fills the buffer with up to `length` zeros.
pub(super) fn zeros(buffer: &mut [u8], length: u64) -> usize {
    let count = usize::try_from(length).unwrap_or(usize::MAX).min(buffer.len());
    buffer[..count].fill(0);
    count
}

fn damaged(reason: impl Into<String>) -> ArchiveError {
    ArchiveError::Damaged { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn map(text: &str, size: u64) -> Result<SparseMap, ArchiveError> {
        let mut block = text.as_bytes().to_vec();
        block.resize(block.len().next_multiple_of(BLOCK), 0);
        SparseMap::read_pax(size, &mut io::Cursor::new(block))
    }

    #[test]
    fn a_map_is_read_or_refused() {
        let read = map("2\n0\n5\n4096\n3\n", 4099).unwrap();
        assert_eq!(read.segments, [Segment { offset: 0, length: 5 }, Segment { offset: 4096, length: 3 }]);
        assert_eq!(read.stored(), 8);
        assert_eq!(map("1\n4096\n0\n", 4096).unwrap().segments.len(), 1);
        for (text, size) in [
            ("2\n10\n5\n12\n3\n", 15),
            ("2\n4096\n3\n0\n5\n", 4099),
            ("2\n0\n5\n4096\n3\n", 5000),
            ("1\n4090\n10\n", 4096),
            ("1\n18446744073709551615\n2\n", u64::MAX),
            ("1\n-1\n2\n", 10),
            ("1\n\n2\n", 10),
            ("x\n", 10),
            ("99999999\n", 10),
            ("3\n0\n1\n", 10),
        ] {
            assert!(map(text, size).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_map_that_spans_blocks_leaves_the_content_alone() {
        let numbers: String = (0..100).map(|number| format!("{}\n1\n", number * 4096)).collect();
        let mut bytes = format!("100\n{numbers}").into_bytes();
        assert!(bytes.len() > BLOCK);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes.extend_from_slice(b"content");
        let mut reader = io::Cursor::new(bytes);
        assert_eq!(SparseMap::read_pax(99 * 4096 + 1, &mut reader).unwrap().stored(), 100);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "content");
    }
}
