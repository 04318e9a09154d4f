//! The limits at work: what has come out of an archive so far.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use super::{ArchiveError, ArchiveLimits};

/// Bytes of names and extended headers that may precede one entry. The tar reader holds them in memory.
const HEADER_BYTES: u64 = 1 << 20;

pub(super) struct Meter {
    limits: ArchiveLimits,
    /// The most bytes that may come out, of the two limits the tighter one.
    most: u64,
    bytes: Cell<u64>,
    entries: Cell<usize>,
}

impl Meter {
    pub(super) fn new(limits: &ArchiveLimits, packed: u64) -> Self {
        let by_ratio = packed.saturating_mul(limits.ratio).max(ArchiveLimits::RATIO_FREE);
        let most = limits.total_bytes.min(by_ratio);
        Self { limits: limits.clone(), most, bytes: Cell::new(0), entries: Cell::new(0) }
    }

    pub(super) fn left(&self) -> u64 {
        self.most.saturating_sub(self.bytes.get())
    }

    pub(super) fn add(&self, bytes: u64) -> Result<(), ArchiveError> {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.bytes.get() <= self.most {
            Ok(())
        } else if self.most < self.limits.total_bytes {
            Err(ArchiveError::Ratio { limit: self.limits.ratio })
        } else {
            Err(ArchiveError::TooLarge { limit: self.limits.total_bytes })
        }
    }

    pub(super) fn entry(&self) -> Result<(), ArchiveError> {
        self.entries.set(self.entries.get() + 1);
        if self.entries.get() > self.limits.entries {
            return Err(ArchiveError::TooMany { limit: self.limits.entries });
        }
        Ok(())
    }

    /// Reads an entry to its end for its size alone.
    pub(super) fn drain(&self, reader: &mut dyn Read) -> Result<u64, ArchiveError> {
        let mut buffer = vec![0; 64 * 1024];
        let mut size = 0;
        loop {
            let count = reader.read(&mut buffer)? as u64;
            if count == 0 {
                return Ok(size);
            }
            self.add(count)?;
            size += count;
        }
    }
}

/// A stream under a tar reader that says no when headers go on and on, and remembers whether it has ended.
pub(super) struct Gated<R> {
    inner: R,
    gate: Rc<Gate>,
}

#[derive(Default)]
pub(super) struct Gate {
    allowed: Cell<Option<u64>>,
    ended: Cell<bool>,
}

impl Gate {
    /// From here on, headers: so many bytes and no more.
    pub(super) fn headers(&self) {
        self.allowed.set(Some(HEADER_BYTES));
    }

    /// From here on, content: the meter watches that.
    pub(super) fn content(&self) {
        self.allowed.set(None);
    }

    pub(super) fn ended(&self) -> bool {
        self.ended.get()
    }
}

impl<R: Read> Gated<R> {
    pub(super) fn new(inner: R) -> (Self, Rc<Gate>) {
        let gate = Rc::new(Gate::default());
        (Self { inner, gate: Rc::clone(&gate) }, gate)
    }

    pub(super) fn into_inner(self) -> R {
        self.inner
    }
}

impl<R: Read> Read for Gated<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            self.gate.ended.set(true);
        }
        if let Some(allowed) = self.gate.allowed.get() {
            let Some(left) = allowed.checked_sub(count as u64) else {
                let reason = format!("an entry's headers have more than {HEADER_BYTES} bytes");
                return Err(io::Error::other(ArchiveError::Damaged { reason }));
            };
            self.gate.allowed.set(Some(left));
        }
        Ok(count)
    }
}
