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
//! hash chain, usable without a database). `sql.rs` runs a statement on either database, and
//! `writer.rs` is SQLite's group commit.

mod audit;
mod backend;
pub mod blobs;
pub mod chain;
mod commit;
mod content;
mod database;
mod directory;
mod document;
mod error;
mod failpoints;
mod fence;
mod garbage;
mod idempotency;
mod ledger;
mod open;
mod operation;
mod own;
mod references;
mod session;
mod setting;
mod sql;
mod store;
mod verify;
mod writer;

pub use audit::{AuditEntry, AuditOrder, AuditQuery, AuditRow};
pub use blobs::{BlobError, BlobState, Blobs, Digest, InvalidDigest, OpenBlob, StoredBlob, Upload};
pub use chain::{BreakReason, ChainBreak, ChainCheck, Hash, InvalidHash, StoredEvent};
pub use commit::{Admission, Commit, CommitError, Committed, Head, IdempotencyClaim, NewEvent};
pub use content::{ContentPush, PushError, version_id};
pub use database::{Database, InvalidDatabase};
pub use document::{Document, DocumentKind, DocumentWrite, WriteError, WriteMode};
pub use error::{BoxedSource, OpenError, StoreError};
pub use fence::Standing;
pub use idempotency::{IdempotencyKey, IdempotencyRow};
pub use ledger::{
    AcceptedCut, Anchor, Continuity, Cut, InvalidPublicKey, LedgerBreak, LedgerReport, PublicKey, Seal, Sealer,
    SealerError, Table,
};
pub use own::Ownership;
pub use session::{SessionQuery, SessionRow};
pub use store::{Evidence, Store};
pub use verify::ChainVerdict;
