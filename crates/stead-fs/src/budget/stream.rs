//! The output of a command in an answer: the start and the end of each stream.

use super::{escaped_len, escaped_size};

/// Maximum number of bytes of the line that counts the omitted bytes.
const NOTICE_BYTES: usize = 96;

/// The kept output of a command: the start and the end of one stream.
#[derive(Debug, Clone, Copy)]
pub struct Stream<'a> {
    pub head: &'a [u8],
    pub tail: &'a [u8],
    /// Number of bytes that the command wrote.
    pub total: u64,
}

/// The room for a text. A text has to obey both limits.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Maximum number of bytes of the text. The line that counts the omitted bytes is not counted.
    pub text: usize,
    /// Maximum number of bytes inside a JSON string. The line is counted.
    pub json: usize,
}

impl Room {
    /// Room for a text of any size.
    pub const ENDLESS: Self = Self { text: usize::MAX, json: usize::MAX };

    /// Room for one of two parts of a text with an omission between them.
    const fn half(self) -> Self {
        Self { text: self.text / 2, json: self.json.saturating_sub(NOTICE_BYTES) / 2 }
    }

    fn fits(self, text: &str) -> bool {
        text.len() <= self.text && escaped_len(text) <= self.json
    }

    /// Returns true if cutting this much off to end with a line leaves most of the part.
    const fn spares(self, distance: usize) -> bool {
        distance <= self.text / 4 && distance <= self.json / 4
    }
}

/// Returns both streams of a command as text, and for each whether a part is omitted. Together they
/// take at most `json` bytes inside JSON strings. A stream gets half of them, and what the other
/// one does not need.
pub fn both(streams: [Stream<'_>; 2], text: usize, json: usize) -> [(String, bool); 2] {
    let whole = streams.map(|stream| stream.text(Room { text, json }));
    let [stdout, stderr] = [0, 1].map(|stream| escaped_len(&whole[stream].0));
    if stdout.saturating_add(stderr) <= json {
        return whole;
    }
    let half = json / 2;
    let stdout_room = half.max(json.saturating_sub(stderr));
    let stderr_room = half.max(json.saturating_sub(stdout));
    let [stdout, stderr] = streams;
    [stdout.text(Room { text, json: stdout_room }), stderr.text(Room { text, json: stderr_room })]
}

impl Stream<'_> {
    /// Returns the stream as text, and true if a part is omitted. Bytes that are not UTF-8 become
    /// `U+FFFD`.
    pub fn text(&self, room: Room) -> (String, bool) {
        let kept = (self.head.len() + self.tail.len()) as u64;
        if kept >= self.total {
            // Decode as one piece: a character may span head and tail.
            let all = [self.head, self.tail].concat();
            let text = String::from_utf8_lossy(&all);
            if room.fits(&text) {
                return (text.into_owned(), false);
            }
            let (head, tail) = all.split_at(all.len() / 2);
            return (Stream { head, tail, total: self.total }.cut(room.half()), true);
        }
        (self.cut(room.half()), true)
    }

    /// Returns the part of each end that has room, in whole lines where the lines are short.
    fn cut(&self, half: Room) -> String {
        let start = decodable(self.head, half);
        let head = String::from_utf8_lossy(&self.head[..start]);
        let (head, head_bytes) = match head.rfind('\n') {
            // Valid text before the line end has as many bytes as the stream.
            Some(at) if half.spares(head.len() - at - 1) && !head.contains('\u{fffd}') => (&head[..=at], at + 1),
            _ => (&*head, start),
        };
        let mut tail = last_decodable(self.tail, half);
        if let Some(at) = memchr::memchr(b'\n', tail).filter(|at| half.spares(*at) && at + 1 < tail.len()) {
            tail = &tail[at + 1..];
        }
        let omitted = self.total.saturating_sub((head_bytes + tail.len()) as u64);
        let newline = if head.ends_with('\n') { "" } else { "\n" };
        let tail = String::from_utf8_lossy(tail);
        format!("{head}{newline}[… {omitted} of {} bytes omitted …]\n{tail}", self.total)
    }
}

/// Number of bytes of `U+FFFD`.
const REPLACEMENT_BYTES: usize = '\u{fffd}'.len_utf8();

/// The characters of bytes as text: the number of bytes of each, in the input, in the text and in
/// JSON. An invalid sequence becomes one character.
fn characters(bytes: &[u8]) -> impl Iterator<Item = (usize, usize, usize)> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(|character| {
            let bytes = character.len_utf8();
            let json =
                u8::try_from(character).map_or(bytes, |byte| if byte < 0x80 { escaped_size(byte) } else { bytes });
            (bytes, bytes, json)
        });
        let invalid = chunk.invalid().len();
        valid.chain((invalid > 0).then_some((invalid, REPLACEMENT_BYTES, REPLACEMENT_BYTES)))
    })
}

/// Returns the length of the longest prefix whose text has room and which does not end inside a
/// character.
fn decodable(head: &[u8], room: Room) -> usize {
    let (mut bytes, mut text, mut json) = (0, 0, 0);
    for (of_input, of_text, of_json) in characters(head) {
        (text, json) = (text + of_text, json + of_json);
        if text > room.text || json > room.json {
            break;
        }
        bytes += of_input;
    }
    // A character that the end cuts is part of the omission.
    bytes.min(head.len() - crate::encoding::incomplete_tail(head))
}

/// Returns the longest suffix whose text has room and which does not begin inside a character.
fn last_decodable(tail: &[u8], room: Room) -> &[u8] {
    let broken = tail.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    let tail = &tail[broken..];
    let (mut text, mut json) = characters(tail).fold((0, 0), |(text, json), (_, t, j)| (text + t, json + j));
    let mut from = 0;
    for (of_input, of_text, of_json) in characters(tail) {
        if text <= room.text && json <= room.json {
            break;
        }
        (from, text, json) = (from + of_input, text - of_text, json - of_json);
    }
    &tail[from..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::json_size;
    use proptest::prelude::*;

    fn room(text: usize) -> Room {
        Room { text, json: usize::MAX }
    }

    #[test]
    fn a_stream_says_what_is_omitted() {
        let whole = Stream { head: b"caf\xc3", tail: b"\xa9\n", total: 6 };
        assert_eq!(whole.text(room(100)), ("café\n".to_owned(), false));
        let cut = Stream { head: b"one\ntwo\nth", tail: b"ee\nfour\n", total: 100 };
        let text = "one\ntwo\n[… 87 of 100 bytes omitted …]\nfour\n".to_owned();
        assert_eq!(cut.text(room(20)), (text, true));
    }

    #[test]
    fn a_stream_gets_what_the_other_one_does_not_need() {
        let (large, small) = ([1; 10_000], b"done\n");
        let large = Stream { head: &large, tail: &[], total: 10_000 };
        let small = Stream { head: small, tail: &[], total: 5 };
        let sizes = |streams: [Stream<'_>; 2]| both(streams, 32_768, 12_000).map(|(text, _)| escaped_len(&text));
        let [stdout, stderr] = sizes([large, small]);
        assert!(stderr == 6 && stdout <= 11_994 && stdout > 11_800, "{stdout}");
        let [stdout, stderr] = sizes([large, large]);
        assert!(stdout <= 6_000 && stdout > 5_800 && stdout == stderr, "{stdout} {stderr}");
        assert_eq!(both([small, small], 32_768, 12_000), [("done\n".to_owned(), false), ("done\n".to_owned(), false)]);
    }

    proptest! {
        #[test]
        fn a_stream_fits_and_counts(
            bytes in proptest::collection::vec(any::<u8>(), 0..400), most in 0usize..100, json in 96usize..2_000
        ) {
            let half = bytes.len() / 2;
            let stream = Stream { head: &bytes[..half], tail: &bytes[half..], total: bytes.len() as u64 };
            let (text, cut) = stream.text(Room { text: most, json });
            prop_assert!(json_size(&text) - 2 <= json, "{} bytes of {}", json_size(&text), json);
            if cut {
                let (head, rest) = text.split_once("[… ").unwrap();
                let (line, tail) = rest.split_once("omitted …]\n").unwrap();
                let count = format!(" of {} bytes ", bytes.len());
                prop_assert!(line.ends_with(&count));
                prop_assert!(head.len() <= most / 2 + 1 && tail.len() <= most / 2);
            } else {
                prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
            }
        }
    }
}
