//! Limits of projects: quotas, storage, and turns at creation. Limits of one session: concurrent
//! operations, bytes of uploads, size of the journal.

pub(crate) mod creations;
pub(crate) mod journal_size;
pub(crate) mod lanes;
pub(crate) mod quotas;
pub(crate) mod storage;
pub(crate) mod uploads;
