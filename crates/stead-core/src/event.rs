//! The events of a session's journal.
//!
//! This is a storage format. A variant is never removed and its meaning never changes: a journal
//! written today must fold to the same state in ten years (`docs/reference/journal.md`,
//! `fixtures/`).

mod file_change;
mod file_operation;
mod setup;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::box_facts::BoxFacts;
use crate::capability::LimitKind;
use crate::config::ProviderName;
use crate::content::event as content;
use crate::digest::DigestOrigin;
use crate::exec::{ExecOutput, ExecSpec, Exit};
use crate::identity::Actor;
use crate::network::{Grant, OpenedContact, RefusedContact, Rule, TalliedTraffic};
use crate::parse::words;
use crate::pause::PauseMode;
use crate::resolved_commit::{PushedBranch, ResolvedCommit};
use crate::rewind::{Checkpoint, Touched};
use crate::session::HashAbsence;
use crate::setup_cache::SetupCacheReport;
use crate::spec::SessionSpec;
use crate::tool::ToolName;
use crate::{CallId, ExecId, Name, SessionId, SnapshotId, Timestamp};

pub use file_change::{Content, FileChange};
pub use file_operation::{Existing, FileOperation, Parents};
pub use setup::{SetupChunk, SetupReport, SetupStream};

/// An event with its position in the journal and its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    pub seq: u64,
    pub at: Timestamp,
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    SessionCreated {
        session: SessionId,
        spec: Box<SessionSpec>,
        actor: Actor,
    },
    /// The server is about to ask a provider for the workspace.
    ProvisionStarted {
        attempt: u64,
        provider: ProviderName,
    },
    /// Progress of what the provider fetches before it can create the workspace. Recorded at
    /// intervals.
    ProvisionProgress {
        attempt: u64,
        stage: String,
        percent: u64,
        detail: String,
    },
    WorkspaceCreated {
        attempt: u64,
        enforced_limits: Vec<LimitKind>,
        #[serde(default, skip_serializing_if = "BoxFacts::is_empty")]
        made: BoxFacts,
    },
    InitStepStarted {
        attempt: u64,
        step: u64,
        action: String,
    },
    InitStepFinished {
        attempt: u64,
        step: u64,
        duration_ms: u64,
        failure: Option<Failure>,
        files: FileEffect,
        #[serde(default, skip_serializing_if = "StepReport::is_empty")]
        report: StepReport,
    },
    /// Progress of a long init action. Recorded at intervals.
    InitStepProgress {
        attempt: u64,
        step: u64,
        stage: String,
        percent: u64,
        detail: String,
    },
    /// Output that a setup command wrote since the last such event. Recorded at intervals, and only
    /// while the command runs.
    SetupOutputReceived {
        attempt: u64,
        step: u64,
        chunks: Vec<SetupChunk>,
        /// Number of bytes that were left out before the chunks, because the command wrote fast.
        #[serde(default, skip_serializing_if = "is_zero")]
        omitted: u64,
    },
    /// The commit that the session's repository resolved to. Recorded once, so that every attempt
    /// uses the same commit.
    RepositoryResolved(ResolvedCommit),
    /// A push of the `git` tool has reached the remote.
    BranchPushed(PushedBranch),
    /// The server is about to use one of its credentials for this session. The event never contains
    /// the secret.
    CredentialUsed {
        host: String,
        kind: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        username: Option<String>,
        purpose: String,
        /// The project that the credential belongs to. Absent for the platform's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<Name>,
        /// The name of the stored secret, for kind `secret`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<Name>,
    },
    ProvisionFailed {
        attempt: u64,
        provider: ProviderName,
        failure: Failure,
    },
    /// The server stopped during the attempt. The same attempt starts again with the same provider.
    ProvisionInterrupted {
        attempt: u64,
        reason: String,
    },
    WarningRaised {
        code: String,
        message: String,
    },
    WorkspaceReady {
        attempt: u64,
        provider: ProviderName,
        /// The checkpoint of the files that the session begins with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        point: Option<Checkpoint>,
    },
    SessionActivated {
        degraded: bool,
    },
    SessionFailed {
        failure: Failure,
    },
    ToolCallStarted {
        call: CallId,
        tool: ToolName,
        arguments: Value,
        actor: Actor,
    },
    ToolCallFinished {
        call: CallId,
        duration_ms: u64,
        answer: Answer,
        files: FileEffect,
    },
    /// The server stopped before it recorded the outcome.
    ToolCallInterrupted {
        call: CallId,
        reason: String,
    },
    ToolCallRefused {
        tool: ToolName,
        code: String,
        message: String,
        actor: Actor,
    },
    /// A file change, a snapshot or a restore that does not come from a tool is about to start.
    FileOperationStarted {
        call: CallId,
        operation: FileOperation,
        actor: Actor,
    },
    FileOperationFinished {
        call: CallId,
        duration_ms: u64,
        failure: Option<Failure>,
        files: FileEffect,
    },
    /// The server stopped before it recorded the outcome.
    FileOperationInterrupted {
        call: CallId,
        reason: String,
    },
    /// A rewind to event `to` was refused.
    RewindRefused {
        to: u64,
        code: String,
        message: String,
        actor: Actor,
    },
    /// The hash of a snapshot that was taken without one, or the reason why it has none.
    SnapshotHashed {
        snapshot: SnapshotId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree_hash: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree_hash_absent: Option<HashAbsence>,
    },
    /// The server is about to start a command in the box.
    ExecStarted {
        exec: ExecId,
        spec: ExecSpec,
        actor: Actor,
    },
    ExecFinished {
        exec: ExecId,
        exit: Exit,
        output: ExecOutput,
        #[serde(default, skip_serializing_if = "FileEffect::is_empty")]
        files: FileEffect,
    },
    /// The command could not be started.
    ExecFailed {
        exec: ExecId,
        failure: Failure,
    },
    /// The box, the session or the server ended before the command's outcome was recorded.
    ExecInterrupted {
        exec: ExecId,
        reason: String,
    },
    /// The idle timeout was due, but processes were still running in the box.
    ActivitySeen {
        processes: u64,
    },
    /// The actor connected to a port of the box for the first time. Later connections of the same
    /// actor to the same port have no event.
    PortOpened {
        port: u16,
        actor: Actor,
    },
    /// Another session now uses this workspace as well.
    WorkspaceShared {
        with: SessionId,
    },
    /// The session now has a digest under this key.
    DigestSet {
        section_key: Name,
        summary: String,
        /// Hash of the blob that holds the digest's text.
        body: String,
        origin: DigestOrigin,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        actor: Actor,
    },
    DigestCleared {
        section_key: Name,
        actor: Actor,
    },
    DigestRefused {
        section_key: Name,
        code: String,
        message: String,
        actor: Actor,
    },
    /// A client changed the session's end or its metadata.
    SessionUpdated {
        /// The new end. Absent if the end stays the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
        /// The whole metadata after the change. Absent if the metadata stays the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map<String, Value>>,
        actor: Actor,
    },
    NetworkOpened(OpenedContact),
    NetworkRefused(RefusedContact),
    NetworkTallied(TalliedTraffic),
    /// An administrator took network access away. It stays away until the session ends.
    NetworkNarrowed {
        deny: Vec<Rule>,
        actor: Actor,
    },
    /// An administrator granted network access for a time.
    NetworkGranted {
        grants: Vec<Grant>,
        actor: Actor,
    },
    /// From this event on the session refuses calls, and its box is about to stop.
    PauseRequested {
        mode: PauseMode,
        actor: Actor,
    },
    SessionPaused {
        mode: PauseMode,
    },
    /// The box could not be stopped or frozen. The session is active again.
    PauseFailed {
        failure: Failure,
    },
    ResumeRequested {
        actor: Actor,
    },
    SessionResumed,
    /// The box could not be started again. The session is still paused.
    ResumeFailed {
        failure: Failure,
    },
    CloseRequested {
        reason: CloseReason,
        actor: Actor,
    },
    /// The server is about to ask the provider to remove the workspace.
    RemovalStarted {
        provider: ProviderName,
    },
    WorkspaceRemoved,
    RemovalFailed {
        reason: String,
    },
    /// After a restart the server found the workspace alive and uses it again.
    WorkspaceAdopted,
    /// After a restart the workspace could neither be found nor rebuilt.
    WorkspaceLost {
        reason: String,
    },
    SessionClosed,
    /// A client asked to stage a version of content.
    WorkspaceSyncRequested(Box<content::SyncRequested>),
    WorkspaceSyncUnchanged(content::SyncUnchanged),
    /// The version has been read, is valid, and is now staged.
    WorkspaceSnapshotReady(content::SnapshotReady),
    /// Nothing was staged. The active and the previously staged snapshot stay unchanged.
    WorkspaceSyncFailed(content::SyncFailed),
    WorkspaceApplyRequested(content::ApplyRequested),
    /// The staged snapshot is the active one from this event on.
    WorkspaceApplied(Box<content::Applied>),
    WorkspaceApplyFailed(Box<content::ApplyFailed>),
    RunStarted(Box<content::RunStarted>),
    /// A step boundary: this event fixes the request that the model receives.
    StepStarted(Box<content::StepStarted>),
    RunCompleted(Box<content::RunEnded>),
    RunFailed(Box<content::RunEnded>),
    RunCancelled(Box<content::RunEnded>),
    /// A bound call was allowed.
    BoundCallStarted(Box<content::BoundCallStarted>),
    BoundCallFinished(Box<content::BoundCallFinished>),
    BoundCallInterrupted(content::BoundCallInterrupted),
    BoundCallRefused(Box<content::BoundCallRefused>),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Event {
    /// The name of the variant. It is the journal's type column and the `event:` field of the
    /// stream.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::SessionCreated { .. } => "SessionCreated",
            Self::ProvisionStarted { .. } => "ProvisionStarted",
            Self::WorkspaceCreated { .. } => "WorkspaceCreated",
            Self::InitStepStarted { .. } => "InitStepStarted",
            Self::InitStepFinished { .. } => "InitStepFinished",
            Self::InitStepProgress { .. } => "InitStepProgress",
            Self::ProvisionProgress { .. } => "ProvisionProgress",
            Self::SetupOutputReceived { .. } => "SetupOutputReceived",
            Self::RepositoryResolved(_) => "RepositoryResolved",
            Self::BranchPushed(_) => "BranchPushed",
            Self::CredentialUsed { .. } => "CredentialUsed",
            Self::ProvisionFailed { .. } => "ProvisionFailed",
            Self::ProvisionInterrupted { .. } => "ProvisionInterrupted",
            Self::WarningRaised { .. } => "WarningRaised",
            Self::WorkspaceReady { .. } => "WorkspaceReady",
            Self::SessionActivated { .. } => "SessionActivated",
            Self::SessionFailed { .. } => "SessionFailed",
            Self::ToolCallStarted { .. } => "ToolCallStarted",
            Self::ToolCallFinished { .. } => "ToolCallFinished",
            Self::ToolCallInterrupted { .. } => "ToolCallInterrupted",
            Self::ToolCallRefused { .. } => "ToolCallRefused",
            Self::FileOperationStarted { .. } => "FileOperationStarted",
            Self::FileOperationFinished { .. } => "FileOperationFinished",
            Self::FileOperationInterrupted { .. } => "FileOperationInterrupted",
            Self::RewindRefused { .. } => "RewindRefused",
            Self::ExecStarted { .. } => "ExecStarted",
            Self::ExecFinished { .. } => "ExecFinished",
            Self::ExecFailed { .. } => "ExecFailed",
            Self::ExecInterrupted { .. } => "ExecInterrupted",
            Self::SnapshotHashed { .. } => "SnapshotHashed",
            Self::ActivitySeen { .. } => "ActivitySeen",
            Self::PortOpened { .. } => "PortOpened",
            Self::WorkspaceShared { .. } => "WorkspaceShared",
            Self::DigestSet { .. } => "DigestSet",
            Self::DigestCleared { .. } => "DigestCleared",
            Self::DigestRefused { .. } => "DigestRefused",
            Self::SessionUpdated { .. } => "SessionUpdated",
            Self::NetworkOpened(_) => "NetworkOpened",
            Self::NetworkRefused(_) => "NetworkRefused",
            Self::NetworkTallied(_) => "NetworkTallied",
            Self::NetworkNarrowed { .. } => "NetworkNarrowed",
            Self::NetworkGranted { .. } => "NetworkGranted",
            Self::PauseRequested { .. } => "PauseRequested",
            Self::SessionPaused { .. } => "SessionPaused",
            Self::PauseFailed { .. } => "PauseFailed",
            Self::ResumeRequested { .. } => "ResumeRequested",
            Self::SessionResumed => "SessionResumed",
            Self::ResumeFailed { .. } => "ResumeFailed",
            Self::CloseRequested { .. } => "CloseRequested",
            Self::RemovalStarted { .. } => "RemovalStarted",
            Self::WorkspaceRemoved => "WorkspaceRemoved",
            Self::RemovalFailed { .. } => "RemovalFailed",
            Self::WorkspaceAdopted => "WorkspaceAdopted",
            Self::WorkspaceLost { .. } => "WorkspaceLost",
            Self::SessionClosed => "SessionClosed",
            Self::WorkspaceSyncRequested(_) => "WorkspaceSyncRequested",
            Self::WorkspaceSyncUnchanged(_) => "WorkspaceSyncUnchanged",
            Self::WorkspaceSnapshotReady(_) => "WorkspaceSnapshotReady",
            Self::WorkspaceSyncFailed(_) => "WorkspaceSyncFailed",
            Self::WorkspaceApplyRequested(_) => "WorkspaceApplyRequested",
            Self::WorkspaceApplied(_) => "WorkspaceApplied",
            Self::WorkspaceApplyFailed(_) => "WorkspaceApplyFailed",
            Self::RunStarted(_) => "RunStarted",
            Self::StepStarted(_) => "StepStarted",
            Self::RunCompleted(_) => "RunCompleted",
            Self::RunFailed(_) => "RunFailed",
            Self::RunCancelled(_) => "RunCancelled",
            Self::BoundCallStarted(_) => "BoundCallStarted",
            Self::BoundCallFinished(_) => "BoundCallFinished",
            Self::BoundCallInterrupted(_) => "BoundCallInterrupted",
            Self::BoundCallRefused(_) => "BoundCallRefused",
        }
    }
}

/// The reason for a failure: a stable code for machines and a message for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub code: String,
    pub message: String,
}

impl Failure {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub result: Option<Value>,
    pub error: Option<ToolFailure>,
    /// One sentence for the agent.
    pub message: String,
}

/// The error of a tool that ran and failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFailure {
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The effect of an operation on the files of a workspace. `changes` is filled if the files live in
/// the journal. `touched` names the paths that changed, as far as the server tracked them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileEffect {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileChange>,
    /// Hash of the whole tree after the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_hash: Option<String>,
    /// Hash of the tree that the operation kept as a snapshot, if the files do not live in the
    /// journal. Unlike `tree_hash`, it says nothing about the current tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_hash: Option<String>,
    /// The reason why a snapshot has no `snapshot_hash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_hash_absent: Option<HashAbsence>,
    /// Counter of changes to the tree, over all sessions that share it. Changes apply in this
    /// order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched: Option<Touched>,
    /// The checkpoint taken after the operation, or the reason why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<Checkpoint>,
}

/// The result of one init action.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepReport {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountReport>,
    /// Hash of the mounts' configuration and of the copied files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_fingerprint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkout: Option<CheckoutReport>,
    /// The result of a setup command. It is part of the session's timeline and not of its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Box<SetupReport>>,
    /// The result of looking for a kept setup result, or of keeping one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_cache: Option<Box<SetupCacheReport>>,
}

impl StepReport {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The result of one host mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountReport {
    pub host_path: String,
    pub mount_path: String,
    /// The first entries of its top level, sorted, directories with a final `/`.
    pub entries: Vec<String>,
    /// Total number of entries in the top level.
    pub total_entries: u64,
    pub files: u64,
    pub bytes_copied: u64,
    pub skipped: u64,
}

/// The result of unpacking a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleReport {
    pub digest: String,
    pub files: u64,
    pub bytes: u64,
}

impl FileEffect {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Hashes of the blobs that hold the written bytes.
    pub fn blobs(&self) -> impl Iterator<Item = &str> {
        self.changes.iter().filter_map(|change| match change {
            FileChange::Wrote { content: Content::Blob(digest), .. }
            | FileChange::Appended { content: Content::Blob(digest), .. }
            | FileChange::Linked { target: Content::Blob(digest), .. } => Some(digest.as_str()),
            _ => None,
        })
    }
}

/// The result of a git clone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckoutReport {
    pub commit: String,
    /// `None` if the request named a tag or a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// True if git fetched from the remote, false if the mirror already had the commit.
    #[serde(default)]
    pub fetched: bool,
    /// Parts of the repository that are missing in the checkout, such as LFS content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Failure>,
}

words!(
    /// The reason why a session ends.
    CloseReason, "close reason", {
        Requested = "requested",
        Expired = "expired",
        Idle = "idle",
    }
);
