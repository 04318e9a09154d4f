//! Reads a tar member by member like GNU tar, or refuses it.
//!
//! The `tar` crate's own reader takes the first of two equal records, splits records at newlines
//! and does not support PAX sparse files. So another reader could see other files. This reader
//! takes headers from the crate, but [`super::extensions`] and [`super::sparse`] decide what they
//! mean.

use std::io::{self, Read};

use tar::{EntryType, Header};

use super::ArchiveError;
use super::extensions::{Extensions, ambiguous, check_global};
use super::sparse::{Expansion, Part, SparseMap, zeros};
use crate::filesystem::Parts;

const BLOCK: u64 = 512;
/// Maximum size of one extended header, which is held in memory.
const EXTENSION_BYTES: u64 = 1 << 20;
/// Maximum number of extended headers before one member, which needs three at most.
const MAX_EXTENSIONS: usize = 16;
/// Maximum number of zero bytes after the end marker: tars are padded to whole records.
const PADDING: u64 = 1 << 20;

/// A reader of the members of a tar. Its [`Read`] implementation returns the content of the member
/// that [`Self::next_member`] returned last, with the holes of a sparse file as zeros.
pub struct TarReader<R> {
    stream: R,
    position: u64,
    /// Number of unread stored bytes of the current member.
    left: u64,
    /// Number of bytes between its end and the next header.
    padding: u64,
    expansion: Option<Expansion>,
}

/// One member: its name, kind and size, after all its headers were read.
#[derive(Debug)]
pub struct Member {
    pub name: Vec<u8>,
    /// Target of a symbolic or hard link, otherwise empty.
    pub link: Vec<u8>,
    /// A sparse file is [`EntryType::Regular`].
    pub kind: EntryType,
    pub mode: u32,
    /// Size of the content with its holes.
    pub size: u64,
    /// Offset of the stored content in the archive.
    pub stored_at: u64,
    pub sparse: Option<SparseMap>,
}

impl<R: Read> TarReader<R> {
    pub fn new(stream: R) -> Self {
        Self { stream, position: 0, left: 0, padding: 0, expansion: None }
    }

    /// Returns the next member, or `None` at the end marker. Skips the unread bytes of the previous
    /// member.
    pub fn next_member(&mut self) -> Result<Option<Member>, ArchiveError> {
        self.skip()?;
        let mut extensions = Extensions::default();
        for _ in 0..=MAX_EXTENSIONS {
            let Some(header) = self.header()? else {
                return if extensions.is_empty() {
                    Ok(None)
                } else {
                    Err(ambiguous("extended headers have no member"))
                };
            };
            let size = header.entry_size()?;
            match header.entry_type() {
                EntryType::GNULongName => extensions.add_long_name(&self.extension(size)?)?,
                EntryType::GNULongLink => extensions.add_long_link(&self.extension(size)?)?,
                EntryType::XHeader => extensions.add_records(&self.extension(size)?)?,
                EntryType::XGlobalHeader if extensions.is_empty() => check_global(&self.extension(size)?)?,
                EntryType::XGlobalHeader => {
                    return Err(ambiguous("a global header is between a member and its extended headers"));
                }
                _ => return self.member(&header, size, &extensions).map(Some),
            }
        }
        Err(ArchiveError::Damaged { reason: format!("a member has more than {MAX_EXTENSIONS} extended headers") })
    }

    /// Checks that only padding follows the end marker, and returns the stream.
    pub fn finish(mut self) -> Result<R, ArchiveError> {
        let mut buffer = [0; 4096];
        let mut total = 0;
        loop {
            let count = self.stream.read(&mut buffer)?;
            if count == 0 {
                return Ok(self.stream);
            }
            total += count as u64;
            if total > PADDING || buffer[..count].iter().any(|byte| *byte != 0) {
                return Err(ArchiveError::Trailing);
            }
        }
    }

    fn member(&mut self, header: &Header, in_header: u64, extensions: &Extensions) -> Result<Member, ArchiveError> {
        let (name, link) = (extensions.name(header)?, extensions.link(header)?);
        let stored = extensions.size(in_header)?;
        let kind = header.entry_type();
        let mode = header.mode().unwrap_or(0o644);
        let sparse = match (kind, extensions.sparse_size()?) {
            (EntryType::GNUSparse, None) => {
                let map = SparseMap::read_gnu(header, &mut Counted(&mut self.stream, &mut self.position))?;
                self.begin(stored)?;
                Some(map)
            }
            (EntryType::Regular, Some(size)) => {
                self.begin(stored)?;
                Some(SparseMap::read_pax(size, self)?)
            }
            (_, Some(_)) => return Err(ambiguous("a sparse member is not a regular file")),
            (_, None) => {
                self.begin(stored)?;
                None
            }
        };
        if sparse.as_ref().is_some_and(|map| map.stored() != self.left) {
            return Err(ArchiveError::Damaged { reason: "a sparse file and its map differ in size".to_owned() });
        }
        let size = sparse.as_ref().map_or(stored, |map| map.size);
        self.expansion = sparse.clone().map(Expansion::new);
        let kind = if sparse.is_some() { EntryType::Regular } else { kind };
        Ok(Member { name, link, kind, mode, size, stored_at: self.position, sparse })
    }

    /// Reads the next header and verifies its checksum; `None` for a block of zeros, which is the
    /// end marker.
    fn header(&mut self) -> Result<Option<Header>, ArchiveError> {
        let mut header = Header::new_old();
        self.stream.read_exact(header.as_mut_bytes())?;
        self.position += BLOCK;
        let bytes = header.as_bytes();
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        // The checksum field itself counts as spaces.
        if sum(&bytes[..148]) + sum(&bytes[156..]) + 8 * u32::from(b' ') != header.cksum()? {
            return Err(ArchiveError::Damaged { reason: "a header's checksum is wrong".to_owned() });
        }
        Ok(Some(header))
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        if size > EXTENSION_BYTES {
            let reason = format!("an entry's headers have more than {EXTENSION_BYTES} bytes");
            return Err(ArchiveError::Damaged { reason });
        }
        self.begin(size)?;
        let mut content = Vec::new();
        self.read_to_end(&mut content)?;
        self.skip()?;
        Ok(content)
    }

    fn begin(&mut self, stored: u64) -> Result<(), ArchiveError> {
        let whole = stored.checked_next_multiple_of(BLOCK);
        let whole = whole.ok_or_else(|| ArchiveError::Damaged { reason: "a member's size has no end".to_owned() })?;
        (self.left, self.padding, self.expansion) = (stored, whole - stored, None);
        Ok(())
    }

    fn skip(&mut self) -> Result<(), ArchiveError> {
        let rest = std::mem::take(&mut self.left).saturating_add(std::mem::take(&mut self.padding));
        self.expansion = None;
        let skipped = io::copy(&mut (&mut self.stream).take(rest), &mut io::sink())?;
        self.position += skipped;
        if skipped == rest { Ok(()) } else { Err(ArchiveError::Truncated) }
    }

    /// Reads stored bytes, at most `most`.
    fn stored(&mut self, buffer: &mut [u8], most: u64) -> io::Result<usize> {
        let most = usize::try_from(self.left.min(most)).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let count = self.stream.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        self.position += count as u64;
        Ok(count)
    }
}

impl<R: Read> Read for TarReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(expansion) = &mut self.expansion else { return self.stored(buffer, u64::MAX) };
        let count = match expansion.part() {
            Part::End => 0,
            Part::Hole(length) => zeros(buffer, length),
            Part::Data(length) => self.stored(buffer, length)?,
        };
        if let Some(expansion) = &mut self.expansion {
            expansion.advance(count as u64);
        }
        Ok(count)
    }
}

impl<R: Read> Parts for TarReader<R> {
    fn next_part(&mut self, buffer: &mut [u8]) -> io::Result<crate::filesystem::Part> {
        use crate::filesystem::Part as Next;
        if let Some(expansion) = &mut self.expansion
            && let Part::Hole(length) = expansion.part()
        {
            expansion.advance(length);
            return Ok(Next::Hole(length));
        }
        Ok(match self.read(buffer)? {
            0 => Next::End,
            count => Next::Data(count),
        })
    }
}

/// Counts the bytes of blocks that belong to a header.
struct Counted<'a, R>(&'a mut R, &'a mut u64);

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        *self.1 += count as u64;
        Ok(count)
    }
}
