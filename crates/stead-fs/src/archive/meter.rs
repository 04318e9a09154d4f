//! Applies the limits to the output of an archive.

use std::cell::Cell;
use std::io::Read;

use super::{ArchiveError, ArchiveLimits, LinkTargets};

pub(super) struct Meter {
    limits: ArchiveLimits,
    /// Maximum number of output bytes: the smaller of the two limits.
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

    pub(super) fn link_targets(&self) -> LinkTargets {
        self.limits.link_targets
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

    /// Reads an entry to its end and returns its size.
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
