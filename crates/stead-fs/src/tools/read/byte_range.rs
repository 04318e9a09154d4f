//! Reads a range of the bytes of a text from a stream, cut to whole characters.

use std::io::{self, Read};

use stead_core::ContentHash;
use stead_core::content_hash::Hasher;

use super::feed::Feed;
use super::page::each_chunk;
use crate::encoding::Encoding;

/// The smallest limit: the longest character has this many bytes.
pub(super) const LEAST_BYTES: usize = 4;

#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) from: u64,
    pub(super) limit: usize,
}

/// The whole characters in a range, as UTF-8, and where they are.
pub(super) struct RangePage {
    pub(super) content: String,
    /// Position of the content in the file, and its length there.
    pub(super) byte_offset: u64,
    pub(super) bytes: u64,
    pub(super) total_bytes: u64,
    /// Number of the line at the start, from 0, and of lines in the file.
    pub(super) line: usize,
    pub(super) total_lines: usize,
    /// `None` if the file is binary.
    pub(super) encoding: Option<Encoding>,
    pub(super) hash: ContentHash,
}

impl RangePage {
    /// A binary file, whose content is not shown.
    pub(super) fn binary(total_bytes: u64, hash: ContentHash) -> Self {
        let (content, encoding) = (String::new(), None);
        Self { content, byte_offset: 0, bytes: 0, total_bytes, line: 0, total_lines: 0, encoding, hash }
    }
}

pub(super) fn range_of(reader: impl Read, range: Range) -> io::Result<RangePage> {
    let mut hasher = Hasher::default();
    let mut feed = Feed::default();
    let mut lines = Lines::default();
    let (mut at, mut line, mut taken) = (0_u64, 0, Vec::new());
    each_chunk(reader, |chunk| {
        hasher.update(chunk);
        let before = usize::try_from(range.from.saturating_sub(at)).unwrap_or(usize::MAX).min(chunk.len());
        let (before, rest) = chunk.split_at(before);
        feed.add(before, &mut |text| lines.add(text));
        if taken.is_empty() {
            line = lines.ends;
        }
        feed.add(rest, &mut |text| lines.add(text));
        taken.extend_from_slice(&rest[..rest.len().min(range.limit - taken.len())]);
        at += chunk.len() as u64;
    })?;
    let encoding = feed.finish(&mut |text| lines.add(text)).encoding;
    let (skipped, whole) = encoding.map_or((0, &[][..]), |encoding| encoding.whole(&taken, range.from));
    let shown = match encoding {
        Some(encoding) if range.from == 0 => encoding.without_mark(whole),
        _ => whole,
    };
    Ok(RangePage {
        content: encoding.map(|encoding| encoding.decode(shown).into_owned()).unwrap_or_default(),
        byte_offset: range.from.min(at) + skipped as u64,
        bytes: whole.len() as u64,
        total_bytes: at,
        line,
        total_lines: lines.ends + usize::from(lines.open),
        encoding,
        hash: hasher.finish(),
    })
}

#[derive(Default)]
struct Lines {
    ends: usize,
    open: bool,
}

impl Lines {
    fn add(&mut self, text: &[u8]) {
        self.ends += memchr::memchr_iter(b'\n', text).count();
        if let Some(last) = text.last() {
            self.open = *last != b'\n';
        }
    }
}
