//! The one rule that decides which files are text, for `read`, `grep` and `edit`.
//!
//! Text is UTF-8 with or without a byte order mark, UTF-16 with one, and Latin-1, which is every
//! other content without a NUL. UTF-16 must have an ASCII character, such as a space or a line end:
//! binary content may begin with the two bytes of a mark. Everything else is binary. UTF-8 is never
//! copied.

use std::borrow::Cow;

/// Returns the number of last bytes that are the start of a UTF-8 character whose end is missing.
pub fn incomplete_tail(bytes: &[u8]) -> usize {
    // The start of a character has at most three bytes without its end.
    let starts = (1..=bytes.len().min(3)).filter(|length| bytes[bytes.len() - length] >= 0xc0);
    let incomplete = |length: &usize| {
        let ended = std::str::from_utf8(&bytes[bytes.len() - length..]);
        ended.is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    starts.into_iter().find(incomplete).unwrap_or(0)
}

const UTF8_MARK: &[u8] = b"\xEF\xBB\xBF";
const LE_MARK: &[u8] = b"\xFF\xFE";
const BE_MARK: &[u8] = b"\xFE\xFF";

/// An encoding of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
    /// ISO 8859-1: each byte is the character of its number.
    Latin1,
}

impl Encoding {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16Le => "utf-16le",
            Self::Utf16Be => "utf-16be",
            Self::Latin1 => "latin-1",
        }
    }

    /// The encoding of a whole content; `None` if it is binary.
    pub(crate) fn of(content: &[u8]) -> Option<Self> {
        let mut check = TextCheck::default();
        check.add(content);
        check.finish()
    }

    /// The encoding that a byte order mark names.
    pub(crate) fn of_mark(start: &[u8]) -> Option<Self> {
        match start {
            [0xFF, 0xFE, ..] => Some(Self::Utf16Le),
            [0xFE, 0xFF, ..] => Some(Self::Utf16Be),
            _ => start.starts_with(UTF8_MARK).then_some(Self::Utf8),
        }
    }

    const fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8 => UTF8_MARK,
            Self::Utf16Le => LE_MARK,
            Self::Utf16Be => BE_MARK,
            Self::Latin1 => b"",
        }
    }

    /// Removes the byte order mark from the start of a file.
    pub(crate) fn without_mark(self, start: &[u8]) -> &[u8] {
        start.strip_prefix(self.mark()).unwrap_or(start)
    }

    /// Converts text to UTF-8. A byte order mark is converted like any other character. Characters
    /// that the range cuts at its ends are left out; see [`Self::whole`].
    pub(crate) fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        match self {
            Self::Utf8 => String::from_utf8_lossy(bytes),
            Self::Latin1 => bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into(),
            Self::Utf16Le | Self::Utf16Be => {
                let units = bytes.chunks_exact(2).map(|pair| self.unit(pair));
                char::decode_utf16(units).filter_map(Result::ok).collect::<String>().into()
            }
        }
    }

    /// Converts edited text back, and puts a byte order mark before UTF-16. Returns the first
    /// character that the encoding does not have.
    pub(crate) fn encode(self, text: &str) -> Result<Vec<u8>, char> {
        let wide = |bytes: fn(u16) -> [u8; 2]| {
            let units = text.encode_utf16().flat_map(bytes);
            self.mark().iter().copied().chain(units).collect()
        };
        match self {
            Self::Utf8 => Ok(text.as_bytes().to_vec()),
            Self::Latin1 => text.chars().map(|one| u8::try_from(one).map_err(|_| one)).collect(),
            Self::Utf16Le => Ok(wide(u16::to_le_bytes)),
            Self::Utf16Be => Ok(wide(u16::to_be_bytes)),
        }
    }

    /// Converts text that is appended to a file in this encoding. Returns the first character that
    /// the encoding does not have.
    pub(crate) fn encode_rest(self, text: &str) -> Result<Vec<u8>, char> {
        let mut encoded = self.encode(text)?;
        let marked = encoded.len() - self.without_mark(&encoded).len();
        if self != Self::Utf8 {
            encoded.drain(..marked);
        }
        Ok(encoded)
    }

    /// The part of a range of a file that holds whole characters. `from` is the position of the
    /// range in the file. Returns how many bytes are left out at the start, and the part.
    pub(crate) fn whole(self, bytes: &[u8], from: u64) -> (usize, &[u8]) {
        let (start, end) = match self {
            Self::Latin1 => (0, bytes.len()),
            Self::Utf8 => {
                let start = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
                let end = match std::str::from_utf8(&bytes[start..]) {
                    Ok(_) => bytes.len(),
                    Err(error) => start + error.valid_up_to(),
                };
                (start, end)
            }
            Self::Utf16Le | Self::Utf16Be => {
                let mut start = usize::from(from % 2 == 1).min(bytes.len());
                let mut end = bytes.len() - (bytes.len() - start) % 2;
                let is = |at: usize, range: std::ops::Range<u16>| range.contains(&self.unit(&bytes[at..at + 2]));
                // The second half of a pair at the start, and the first half of one at the end.
                if start + 2 <= end && is(start, 0xDC00..0xE000) {
                    start += 2;
                }
                if start + 2 <= end && is(end - 2, 0xD800..0xDC00) {
                    end -= 2;
                }
                (start, end)
            }
        };
        (start, &bytes[start..end])
    }

    fn unit(self, pair: &[u8]) -> u16 {
        let pair = [pair[0], pair[1]];
        if self == Self::Utf16Be { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    }
}

/// Decides whether a stream is text, chunk by chunk.
#[derive(Default)]
pub(crate) struct TextCheck {
    /// The first bytes, until there are enough for a byte order mark.
    start: Vec<u8>,
    wide: Option<WideCheck>,
    has_nul: bool,
    not_utf8: bool,
    /// The start of a character that continues in the next chunk.
    begun: Vec<u8>,
}

impl TextCheck {
    pub(crate) fn add(&mut self, mut chunk: &[u8]) {
        if self.start.len() < 2 {
            let count = chunk.len().min(2 - self.start.len());
            self.start.extend_from_slice(&chunk[..count]);
            chunk = &chunk[count..];
            if self.start.len() < 2 {
                return;
            }
            self.wide = match Encoding::of_mark(&self.start) {
                Some(encoding @ (Encoding::Utf16Le | Encoding::Utf16Be)) => Some(WideCheck::new(encoding)),
                _ => None,
            };
            if self.wide.is_none() {
                let start = std::mem::take(&mut self.start);
                self.check(&start);
                self.start = start;
            }
        }
        match &mut self.wide {
            Some(wide) => wide.add(chunk),
            None => self.check(chunk),
        }
    }

    fn check(&mut self, mut chunk: &[u8]) {
        if self.has_nul || memchr::memchr(0, chunk).is_some() {
            self.has_nul = true;
            return;
        }
        while !self.begun.is_empty() && !self.not_utf8 {
            let Some((first, rest)) = chunk.split_first() else { return };
            self.begun.push(*first);
            chunk = rest;
            match std::str::from_utf8(&self.begun) {
                Ok(_) => self.begun.clear(),
                Err(error) => self.not_utf8 = error.error_len().is_some(),
            }
        }
        if self.not_utf8 {
            return;
        }
        if let Err(error) = std::str::from_utf8(chunk) {
            self.not_utf8 = error.error_len().is_some();
            self.begun.extend_from_slice(&chunk[error.valid_up_to()..]);
        }
    }

    /// Returns true if what was added so far is not UTF-8, whatever follows.
    pub(crate) const fn is_not_utf8(&self) -> bool {
        self.not_utf8
    }

    /// Returns true if what was added so far is binary, whatever follows.
    pub(crate) fn is_binary(&self) -> bool {
        self.has_nul || self.wide.as_ref().is_some_and(|wide| wide.binary)
    }

    /// Returns true if what was added so far begins with a mark of UTF-16.
    pub(crate) const fn is_wide(&self) -> bool {
        self.wide.is_some()
    }

    /// The encoding of everything that was added; `None` if it is binary.
    pub(crate) fn finish(mut self) -> Option<Encoding> {
        if self.start.len() < 2 {
            let start = std::mem::take(&mut self.start);
            self.check(&start);
        }
        match self.wide {
            Some(wide) => wide.finish(),
            None if self.has_nul => None,
            None if self.not_utf8 || !self.begun.is_empty() => Some(Encoding::Latin1),
            None => Some(Encoding::Utf8),
        }
    }
}

/// Checks UTF-16: whole units, paired surrogates, no NUL, an ASCII character unless it is empty.
struct WideCheck {
    encoding: Encoding,
    half: Option<u8>,
    high: bool,
    binary: bool,
    empty: bool,
    has_ascii: bool,
}

impl WideCheck {
    const fn new(encoding: Encoding) -> Self {
        Self { encoding, half: None, high: false, binary: false, empty: true, has_ascii: false }
    }

    fn add(&mut self, chunk: &[u8]) {
        for byte in chunk {
            let Some(half) = self.half.take() else {
                self.half = Some(*byte);
                continue;
            };
            let unit = self.encoding.unit(&[half, *byte]);
            let low = (0xDC00..0xE000).contains(&unit);
            self.binary |= unit == 0 || low != self.high;
            self.high = (0xD800..0xDC00).contains(&unit);
            self.empty = false;
            self.has_ascii |= unit < 0x80;
        }
    }

    fn finish(self) -> Option<Encoding> {
        let whole = !self.binary && !self.high && self.half.is_none();
        (whole && (self.empty || self.has_ascii)).then_some(self.encoding)
    }
}

/// Converts a stream of UTF-16 to UTF-8, chunk by chunk, without its byte order mark.
pub(crate) struct WideDecoder {
    encoding: Encoding,
    rest: Vec<u8>,
    marked: bool,
}

impl WideDecoder {
    pub(crate) const fn new(encoding: Encoding) -> Self {
        Self { encoding, rest: Vec::new(), marked: true }
    }

    pub(crate) fn add(&mut self, chunk: &[u8]) -> String {
        self.rest.extend_from_slice(chunk);
        if self.marked && self.rest.len() >= 2 {
            self.rest.drain(..2);
            self.marked = false;
        }
        if self.marked {
            return String::new();
        }
        let (_, whole) = self.encoding.whole(&self.rest, 0);
        let (text, used) = (self.encoding.decode(whole).into_owned(), whole.len());
        self.rest.drain(..used);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(encoding: Encoding, text: &str) -> Vec<u8> {
        encoding.encode(text).unwrap()
    }

    #[test]
    fn only_the_start_of_a_character_is_an_incomplete_tail() {
        for (bytes, expected) in [
            (&b""[..], 0),
            (b"abc", 0),
            ("é".as_bytes(), 0),
            (b"a\xc3", 1),
            (b"a\xe2\x82", 2),
            (b"\xf0\x9f\x98", 3),
            (b"\xf0\x9f\x98\x80", 0),
            (b"\xff", 0),
            (b"\xc0", 0),
            (b"\x80\x80", 0),
            (b"\xe2\x82\xc3", 1),
        ] {
            assert_eq!(incomplete_tail(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn one_rule_says_what_is_text() {
        let le = wide(Encoding::Utf16Le, "é😀\n");
        let be = wide(Encoding::Utf16Be, "é😀\n");
        for (content, expected) in [
            (&b""[..], Some(Encoding::Utf8)),
            (b"a", Some(Encoding::Utf8)),
            ("é😀".as_bytes(), Some(Encoding::Utf8)),
            (b"\xEF\xBB\xBFa", Some(Encoding::Utf8)),
            (b"caf\xE9", Some(Encoding::Latin1)),
            (b"\xE9", Some(Encoding::Latin1)),
            (b"\xE9\xA9", Some(Encoding::Latin1)),
            (b"a\0", None),
            (b"\xE9\0", None),
            (&le, Some(Encoding::Utf16Le)),
            (&be, Some(Encoding::Utf16Be)),
            (b"\xFF\xFE", Some(Encoding::Utf16Le)),
            (b"\xFF\xFEa", None),
            (b"\xFF\xFE\x00\x01\x80\x81", None),
            (b"\xFF\xFE\0\0a\0\0\0", None),
            (b"\xFF\xFE\x00\xD8a\0", None),
            (b"\xFF\xFE\x00\xDC", None),
            (b"a\0b\0", None),
        ] {
            assert_eq!(Encoding::of(content), expected, "{content:?}");
            // The result does not depend on how the stream is cut.
            let mut check = TextCheck::default();
            content.iter().for_each(|byte| check.add(std::slice::from_ref(byte)));
            assert_eq!(check.finish(), expected, "{content:?} byte by byte");
        }
    }

    #[test]
    fn text_survives_both_conversions() {
        for encoding in [Encoding::Utf16Le, Encoding::Utf16Be] {
            let bytes = wide(encoding, "aé😀");
            assert_eq!(encoding.decode(encoding.without_mark(&bytes)), "aé😀");
            let mut decoder = WideDecoder::new(encoding);
            let decoded: String = bytes.iter().map(|byte| decoder.add(&[*byte])).collect();
            assert_eq!(decoded, "aé😀");
        }
        let all: Vec<u8> = (1..=255).collect();
        assert_eq!(Encoding::Latin1.encode(&Encoding::Latin1.decode(&all)).unwrap(), all);
        assert_eq!(Encoding::Latin1.encode("a→"), Err('→'));
    }

    #[test]
    fn a_range_ends_with_whole_characters() {
        let text = "a😀é".as_bytes();
        assert_eq!(Encoding::Utf8.whole(&text[2..], 2), (3, "é".as_bytes()));
        assert_eq!(Encoding::Utf8.whole(&text[..3], 0), (0, &b"a"[..]));
        let bytes = wide(Encoding::Utf16Le, "a😀b");
        assert_eq!(Encoding::Utf16Le.whole(&bytes[3..], 3), (1, &bytes[4..]));
        assert_eq!(Encoding::Utf16Le.whole(&bytes[6..], 6), (2, &bytes[8..]));
        assert_eq!(Encoding::Utf16Le.whole(&bytes[..6], 0), (0, &bytes[..4]));
        assert_eq!(Encoding::Utf16Le.whole(&bytes[..1], 0), (0, &bytes[..0]));
    }
}
