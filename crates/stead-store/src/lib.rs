//! The durable store: the journal of each session, registry documents, audit, idempotency, settings
//! and blobs.
//!
//! Invariant: `Ok` from a write means that the write and everything in the same request (events,
//! projection, audit) are durable together. An `Err` other than [`StoreError::OutcomeUnknown`]
//! means that none of it is. The store contains no business rules, and events are opaque JSON text
//! with a type name.
//!
//! Every write also adds to the ledger (`ledger.rs`), which `stead verify` checks.
//!
//! Start with [`Store`] (every operation), [`Commit`] (the journal's only write) and [`chain`] (the
//! hash chain, usable without a database). `database/sql.rs` runs a statement on either
//! database, and `database/writer.rs` is SQLite's group commit.

pub mod blobs;
mod database;
mod directory;
mod error;
mod failpoints;
mod journal;
mod ledger;
mod secret_key;
mod store;
mod tables;

pub use blobs::{BlobError, BlobState, Blobs, OpenBlob, StoredBlob, Upload};
pub use database::backend::Accesses;
pub use database::fence::Standing;
pub use database::ownership::Ownership;
pub use database::{Database, InvalidDatabase};
pub use error::{BoxedSource, OpenError, StoreError};
pub use journal::chain;
pub use journal::chain::{BreakReason, ChainBreak, ChainCheck, Hash, InvalidHash, StoredEvent};
pub use journal::commit::{Commit, CommitError, Committed, Head, IdempotencyClaim, NewEvent};
pub use journal::reservations::Admission;
pub use journal::search::{SearchTerm, SessionTerms};
pub use journal::session::{SessionQuery, SessionRow};
pub use journal::usage_days::{UsageQuery, UsageRow};
pub use journal::verify::ChainVerdict;
pub use ledger::{
    AcceptedCut, Anchor, Continuity, Cut, InvalidPublicKey, LedgerBreak, LedgerReport, PublicKey, Seal, Sealer,
    SealerError, Table,
};
pub use secret_key::{SecretKeyError, SecretKeys};
pub use store::{Evidence, Store};
pub use tables::audit::{AuditEntry, AuditOrder, AuditQuery, AuditRow};
pub use tables::content::{ContentPush, PushError, version_id};
pub use tables::document::{Document, DocumentKind, DocumentWrite, WriteError, WriteMode};
pub use tables::idempotency::{IdempotencyKey, IdempotencyRow};
pub use tables::project_storage::{StorageError, StorageKind, StoredItem};
