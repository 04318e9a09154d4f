//! The ledger: one append-only list of every change to a record, with signed heads.
//!
//! Every write adds a row per changed record in its own transaction: which record, and the hash of what it now holds
//! (`entry.rs`). A seal signs the rows since the seal before it (`seal.rs`, `sealer.rs`). `check.rs` compares rows, seals and
//! records without a server. A database that is older than the ledger gets a row for each record it already has (`begin.rs`).
//! `docs/spec/journal.md` is the normative description.

mod begin;
mod check;
mod entry;
mod seal;
mod sealer;
mod structure;

pub use check::{AcceptedCut, LedgerBreak, LedgerReport, Table};
pub use seal::{Continuity, Cut, Seal};
pub use sealer::{Anchor, InvalidPublicKey, PublicKey, Sealer, SealerError};

pub(crate) use begin::begin;
pub(crate) use check::check;
pub(crate) use entry::{DocumentRecord, Entry, SessionRecord, append, insert, insert_reference};
pub(crate) use seal::{WriteSeal, continuity};
