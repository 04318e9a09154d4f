//! Errors of operations.

use stead_core::admission::QuotaExceeded;
use stead_core::content::SyncFault;
use stead_core::{Name, Rejection, Resource, SessionId};
use stead_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum OpError {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error("there is no {} '{id}'", what.noun())]
    NotFound { what: Resource, id: String },
    #[error("the session {session} has no event {seq}; its last is {last}")]
    NoEvent { session: SessionId, seq: u64, last: u64 },
    #[error("the {} '{id}' exists already", what.noun())]
    Exists { what: Resource, id: String },
    #[error("the {} '{id}' belongs to the platform, and only an administrator may change it", what.noun())]
    OfPlatform { what: Resource, id: String },
    #[error("{reason}")]
    Forbidden { reason: String },
    #[error("there is no role '{role}' (valid: {valid})")]
    UnknownRole { role: Name, valid: String },
    #[error("there are {max} tokens in this place already, and there may not be more")]
    TooManyTokens { max: usize },
    #[error("the system gives no random bytes")]
    Randomness {
        #[source]
        source: getrandom::Error,
    },
    #[error("the agent type '{id}' has live sessions")]
    InUse { id: String },
    #[error("the project '{id}' is being deleted")]
    ProjectDeleting { id: String },
    #[error("there was a project '{id}', whose sessions are still on record; choose another name")]
    ProjectDeleted { id: String },
    #[error("{max} sessions with a workspace are live and at most {max} may be (WORKSPACE_MAX_CONCURRENT)")]
    Full { max: u64 },
    #[error(transparent)]
    Quota(QuotaExceeded),
    #[error(
        "the memory limits of all boxes may sum up to {allowed} bytes (memory_overcommit {overcommit} times the host's \
         {host_bytes} bytes); {used} bytes are reserved and {requested} more are requested"
    )]
    HostMemory { used: u64, requested: u64, allowed: u64, host_bytes: u64, overcommit: f64 },
    #[error("{waiting} requests to create sessions wait, and this project may not add more")]
    CreationsFull { waiting: usize },
    #[error("the session could not be paused or resumed: {reason}")]
    PauseFailed { reason: String },
    #[error("{running} operations of this session run and {waiting} wait; there may not be more")]
    Busy { running: usize, waiting: usize },
    #[error("{most} connections to ports of this session are open, and there may not be more")]
    TooManyPortConnections { most: usize },
    #[error("the idempotency key '{key}' was used for a different request")]
    IdempotencyMismatch { key: String },
    #[error("the session is being changed by others too often; try again")]
    Contended,
    #[error(
        "the session's journal has reached its limit of {limit} bytes, so nothing that adds to it is done any more; \
         files can still be removed, restored and rewound; clone the session to go on with a new journal, or close it"
    )]
    JournalFull { limit: u64 },
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("the operation failed because of a bug in the server; its log has the details")]
    Panicked,
    #[error("the journal of session {session} cannot be read at sequence number {seq}")]
    Corrupt {
        session: stead_core::SessionId,
        seq: u64,
        #[source]
        source: serde_json::Error,
    },
    #[error("the stored {} '{id}' cannot be read", what.noun())]
    CorruptDocument {
        what: Resource,
        id: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("the content of a recorded change is not in the blob store: {digest}")]
    MissingBlob { digest: String },
    #[error(transparent)]
    Operate(#[from] stead_providers::OperateError),
    #[error(transparent)]
    Exec(#[from] stead_providers::ExecError),
    #[error(transparent)]
    Port(#[from] stead_providers::PortError),
    #[error("the workspace could not be exported")]
    Export {
        #[source]
        source: stead_fs::archive::ArchiveError,
    },
    #[error("the content is not valid: {}", stead_core::content::SyncFault::of_faults(stead_core::content::fault::Stage::Index, .faults).detail)]
    InvalidContent { faults: Vec<stead_core::content::Fault> },
    #[error("workspace head mismatch: expected version {expected}, the newest is {actual}")]
    HeadMismatch { expected: u64, actual: u64 },
    #[error("the content cannot be used ({}): {}", .0.stage, .0.detail)]
    Content(SyncFault),
    #[error("this session does not record which files a call wrote")]
    Untracked,
    #[error("the workspace could not be digested: {reason}")]
    Undigested { reason: String },
    #[error("a temporary file could not be made")]
    Spool {
        #[source]
        source: std::io::Error,
    },
    #[error("the kept setup results cannot be read or removed: {reason}")]
    SetupResults { reason: String },
    #[error(transparent)]
    Image(#[from] stead_providers::ImageError),
    #[error("this server keeps no images")]
    NoImages,
    #[error("this server keeps no secrets")]
    NoSecrets,
    #[error(transparent)]
    SecretKey(stead_store::SecretKeyError),
    #[error(transparent)]
    Inspection(#[from] stead_egress::AuthorityError),
    #[error("a blob could not be stored or read")]
    Blob(#[from] stead_store::BlobError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpError {
    /// Returns true if a change was refused because its project is deleted or is being deleted.
    pub(crate) fn is_deleted_project(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::ProjectDeleting { .. } | Self::ProjectDeleted { .. })
    }
}

impl From<SyncFault> for OpError {
    fn from(fault: SyncFault) -> Self {
        Self::Content(fault)
    }
}
