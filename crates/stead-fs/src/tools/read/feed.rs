//! Passes the text of a file on, chunk by chunk: without a byte order mark, and UTF-16 as UTF-8.
//! UTF-8 and Latin-1 pass unchanged, because only the end of the file decides between them.

use crate::encoding::{Encoding, TextCheck, WideDecoder};

/// Length of the longest byte order mark.
const MARK: usize = 3;

/// Properties of a whole file that a [`Feed`] found.
pub(super) struct Fed {
    /// `None` if the file is binary.
    pub(super) encoding: Option<Encoding>,
    /// Number of bytes of a UTF-8 byte order mark.
    pub(super) mark: u64,
}

#[derive(Default)]
pub(super) struct Feed {
    check: TextCheck,
    /// The first bytes, until there are enough for a byte order mark.
    start: Vec<u8>,
    begun: bool,
    /// Number of bytes of a UTF-8 byte order mark.
    mark: usize,
    wide: Option<WideDecoder>,
}

impl Feed {
    pub(super) fn add(&mut self, chunk: &[u8], to: &mut dyn FnMut(&[u8])) {
        self.check.add(chunk);
        if self.begun {
            return self.pass(chunk, to);
        }
        if self.start.is_empty() && chunk.len() >= MARK {
            return self.begin(chunk, to);
        }
        self.start.extend_from_slice(chunk);
        if self.start.len() >= MARK {
            let start = std::mem::take(&mut self.start);
            self.begin(&start, to);
        }
    }

    pub(super) fn finish(mut self, to: &mut dyn FnMut(&[u8])) -> Fed {
        if !self.begun {
            let start = std::mem::take(&mut self.start);
            self.begin(&start, to);
        }
        Fed { encoding: self.check.finish(), mark: self.mark as u64 }
    }

    fn begin(&mut self, start: &[u8], to: &mut dyn FnMut(&[u8])) {
        self.begun = true;
        match Encoding::of_mark(start) {
            Some(encoding @ (Encoding::Utf16Le | Encoding::Utf16Be)) => {
                self.wide = Some(WideDecoder::new(encoding));
                self.pass(start, to);
            }
            _ => {
                let text = Encoding::Utf8.without_mark(start);
                self.mark = start.len() - text.len();
                self.pass(text, to);
            }
        }
    }

    fn pass(&mut self, chunk: &[u8], to: &mut dyn FnMut(&[u8])) {
        match &mut self.wide {
            Some(wide) => to(wide.add(chunk).as_bytes()),
            None => to(chunk),
        }
    }
}
