//! A part of an archive, read like a whole file.

use std::io::{self, Read, Seek, SeekFrom};

use super::ReadSeek;

pub(super) struct Section<'a> {
    inner: &'a mut dyn ReadSeek,
    start: u64,
    length: u64,
    at: u64,
}

impl<'a> Section<'a> {
    pub(super) fn new(inner: &'a mut dyn ReadSeek, start: u64, length: u64) -> Self {
        Self { inner, start, length, at: 0 }
    }
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let most = left.min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        self.inner.seek(SeekFrom::Start(self.start + self.at))?;
        let count = self.inner.read(&mut buffer[..most])?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Section<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
