//! The output budget of a call: how much of an answer is returned.
//!
//! The result of a file tool has at most [`Limits::output_bytes`] bytes of JSON. It is cut between
//! entries or lines, and its message gives the call that continues it. One entry larger than the
//! budget is returned alone, because a call must make progress. One line larger than the budget is
//! cut inside.
//!
//! One kind of answer is counted otherwise: a file that `read` returns whole as base64 is limited
//! by [`Limits::media_bytes`] instead. The output of a command obeys the same limit, with the
//! fields around it: see [`Stream`].

mod stream;

use serde::Serialize;
use serde_json::Value;

use crate::limits::Limits;

pub use stream::{Room, Stream, both};

/// Room for the fields with a bounded size: numbers, flags, hashes, and those around a result.
pub const FIXED_BYTES: usize = 512;

/// The number of bytes of JSON that an answer can still take.
#[derive(Debug, Clone)]
pub struct Budget {
    left: usize,
}

/// The part of a text that an answer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    Whole,
    /// These first bytes, which end with a line.
    Lines(usize),
    /// These first bytes, which end inside the first line.
    Inside(usize),
}

impl Budget {
    pub fn new(limits: &Limits) -> Self {
        Self { left: limits.output_bytes.saturating_sub(FIXED_BYTES) }
    }

    /// Takes the first entries that fit into the answer.
    pub fn entries(&mut self, entries: impl IntoIterator<Item = Value>) -> Vec<Value> {
        let mut taken = Vec::new();
        for entry in entries {
            // One more for the comma.
            let size = json_size(&entry) + 1;
            if size > self.left && !taken.is_empty() {
                break;
            }
            self.left = self.left.saturating_sub(size);
            taken.push(entry);
        }
        taken
    }

    /// Takes an equal part of the budget for one of several texts.
    pub fn part(&mut self, texts: usize) -> Self {
        let left = self.left / texts.max(1);
        self.left -= left;
        Self { left }
    }

    /// Puts the rest of a part back.
    pub fn put_back(&mut self, part: Self) {
        self.left += part.left;
    }

    /// Keeps this many bytes for the end of the answer. Returns false, and keeps none, if they are
    /// more than half of the answer.
    pub fn reserve(&mut self, bytes: usize) -> bool {
        let reserved = bytes <= self.left / 2;
        if reserved {
            self.left -= bytes;
        }
        reserved
    }

    /// Gives reserved bytes back.
    pub fn release(&mut self, bytes: usize) {
        self.left += bytes;
    }

    /// Takes this many bytes if they fit into the answer.
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.left;
        if fits {
            self.left -= bytes;
        }
        fits
    }

    /// Takes the first lines that fit into the answer, or the start of the first line.
    pub fn lines(&mut self, text: &str) -> Shown {
        let (mut size, mut lines) = (0, None);
        for (at, byte) in text.bytes().enumerate() {
            size += escaped_size(byte);
            if size > self.left {
                self.left = 0;
                return lines.map_or_else(|| Shown::Inside(progress(text, at)), Shown::Lines);
            }
            if byte == b'\n' {
                lines = Some(at + 1);
            }
        }
        self.left -= size;
        Shown::Whole
    }

    /// Returns the position of the last lines that fit into the answer, at least of the last one.
    /// Takes nothing.
    pub fn last_lines(&self, text: &str) -> usize {
        let (mut size, mut from) = (0, text.len());
        for line in text.split_inclusive('\n').rev() {
            size += escaped_len(line);
            if size > self.left && from < text.len() {
                break;
            }
            from -= line.len();
        }
        from
    }

    /// Takes a text of which any first part is of use. Returns true if it was cut.
    pub fn text(&mut self, text: &mut String) -> bool {
        let end = match self.lines(text) {
            Shown::Whole => return false,
            Shown::Lines(end) | Shown::Inside(end) => end,
        };
        text.truncate(end);
        true
    }
}

/// Returns the last end of a character up to `at`, but at least the end of the first one.
fn progress(text: &str, at: usize) -> usize {
    match text.floor_char_boundary(at) {
        0 => text.chars().next().map_or(0, char::len_utf8),
        end => end,
    }
}

/// Returns the number of bytes that a byte of a text takes in JSON.
const fn escaped_size(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..=0x1f => 6,
        _ => 1,
    }
}

/// Returns the number of bytes of a text inside a JSON string, without the quotes.
pub fn escaped_len(text: &str) -> usize {
    text.bytes().map(escaped_size).sum()
}

/// Returns the number of bytes of a value in JSON.
pub fn json_size(value: &impl Serialize) -> usize {
    struct Counter(usize);

    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    // The counter accepts every byte, and a value from a tool has only text as keys.
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn budget(left: usize) -> Budget {
        Budget { left }
    }

    #[test]
    fn entries_are_taken_whole_and_one_always() {
        let entries = || ["aa", "bb", "cc"].map(|text| json!(text));
        assert_eq!(budget(10).entries(entries()), ["aa", "bb"]);
        assert_eq!(budget(9).entries(entries()), ["aa"]);
        assert_eq!(budget(0).entries(entries()), ["aa"]);
        assert_eq!(budget(0).entries([]), [] as [Value; 0]);
    }

    #[test]
    fn a_text_is_cut_at_a_line_or_inside_its_first_line() {
        assert_eq!(budget(8).lines("ab\ncd\n"), Shown::Whole);
        assert_eq!(budget(7).lines("ab\ncd\n"), Shown::Lines(3));
        assert_eq!(budget(3).lines("ab\ncd\n"), Shown::Inside(2));
        assert_eq!(budget(3).lines("aééé"), Shown::Inside(3));
        assert_eq!(budget(0).lines("é"), Shown::Inside(2));
        assert_eq!(budget(0).lines(""), Shown::Whole);
    }

    #[test]
    fn the_last_lines_are_whole_and_one_always() {
        assert_eq!(budget(8).last_lines("ab\ncd\n"), 0);
        assert_eq!(budget(7).last_lines("ab\ncd\n"), 3);
        assert_eq!(budget(1).last_lines("ab\ncd"), 3);
        assert_eq!(budget(0).last_lines(""), 0);
    }

    proptest! {
        #[test]
        fn sizes_are_those_of_json(text in any::<String>(), left in 0usize..200) {
            let sizes = escaped_len(&text);
            prop_assert_eq!(sizes + 2, json_size(&text));
            let (Shown::Lines(end) | Shown::Inside(end)) = budget(left).lines(&text) else {
                prop_assert!(sizes <= left);
                return Ok(());
            };
            prop_assert!(end > 0);
            let size = json_size(&&text[..end]) - 2;
            prop_assert!(size <= left.max(6), "{} bytes of {}", size, left);
        }
    }
}
