//! The ledger: an append-only list of every change to a record, with signed heads.
//!
//! Every write adds a row per changed record in its own transaction: the record and the hash of its
//! new content (`entry.rs`). A seal signs the rows since the previous seal (`seal.rs`,
//! `sealer.rs`). `check.rs` compares rows, seals and records without a server. A database that is
//! older than the ledger gets a row for each existing record (`begin.rs`).
//! `docs/reference/journal.md` is the normative description.

mod audit_projects;
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
