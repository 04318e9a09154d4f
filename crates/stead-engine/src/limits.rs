//! Limits of one session: concurrent operations, bytes of uploads, size of the journal.

pub(crate) mod journal_size;
pub(crate) mod lanes;
pub(crate) mod uploads;
