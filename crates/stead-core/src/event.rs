//! Everything that can have happened in a session: the journal's vocabulary.
//!
//! This is a format. A variant is never removed and never comes to mean something else: journals written today must fold to the
//! same state in ten years (`docs/spec/journal.md`, `fixtures/`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::Actor;
use crate::box_facts::BoxFacts;
use crate::capability::LimitKind;
use crate::config::ProviderName;
use crate::content::event as content;
use crate::digest::DigestOrigin;
use crate::exec::{ExecOutput, ExecSpec, Exit};
use crate::parse::words;
use crate::rewind::{Point, Touched};
use crate::settled::{PushedBranch, ResolvedCommit};
use crate::spec::SessionSpec;
use crate::tool::ToolName;
use crate::{CallId, ExecId, Name, SessionId, Timestamp};

pub use crate::file_operation::{Existing, FileOperation, Parents};

/// An event in its place.
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
    /// A provider is about to be asked for the workspace.
    ProvisionStarted {
        attempt: u64,
        provider: ProviderName,
    },
    /// How far the provider is with what it has to fetch before it can make the workspace, told now and then.
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
    /// How far a long step is, told now and then.
    InitStepProgress {
        attempt: u64,
        step: u64,
        stage: String,
        percent: u64,
        detail: String,
    },
    /// What the session's repository stands at, learnt before anything of it is fetched: every attempt begins with this commit.
    RepositoryResolved(ResolvedCommit),
    /// A push of the `git` tool has reached the remote.
    BranchPushed(PushedBranch),
    /// A credential of the server's is about to be used for this session; no part of it is here.
    CredentialUsed {
        host: String,
        kind: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        username: Option<String>,
        purpose: String,
    },
    ProvisionFailed {
        attempt: u64,
        provider: ProviderName,
        failure: Failure,
    },
    /// The server stopped in the middle; the attempt begins again.
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
        /// Of the files the session begins with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        point: Option<Point>,
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
    /// The server stopped before the outcome was known.
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
    /// Files are about to be changed, kept or put back by other means than a tool.
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
    /// The server stopped before the outcome was known.
    FileOperationInterrupted {
        call: CallId,
        reason: String,
    },
    /// A command is about to be started in the box.
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
    /// The box, the session or the server ended before the outcome was known.
    ExecInterrupted {
        exec: ExecId,
        reason: String,
    },
    /// The session was about to end for idleness, and processes were found at work.
    ActivitySeen {
        processes: u64,
    },
    /// Another session now works in this workspace too.
    WorkspaceShared {
        with: SessionId,
    },
    /// The session has a digest under this key now.
    DigestSet {
        section_key: Name,
        summary: String,
        /// The blob that holds it.
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
    CloseRequested {
        reason: CloseReason,
        actor: Actor,
    },
    /// The provider is about to be asked to remove the workspace.
    RemovalStarted {
        provider: ProviderName,
    },
    WorkspaceRemoved,
    RemovalFailed {
        reason: String,
    },
    /// After a restart the workspace was found alive and taken up again.
    WorkspaceAdopted,
    /// After a restart the workspace could not be found or rebuilt.
    WorkspaceLost {
        reason: String,
    },
    SessionClosed,
    /// Somebody asked for a version of content to be staged.
    WorkspaceSyncRequested(Box<content::SyncRequested>),
    WorkspaceSyncUnchanged(content::SyncUnchanged),
    /// The version is read, valid and staged.
    WorkspaceSnapshotReady(content::SnapshotReady),
    /// Nothing was staged; what is active and what was staged stay.
    WorkspaceSyncFailed(content::SyncFailed),
    WorkspaceApplyRequested(content::ApplyRequested),
    /// The staged snapshot is the active one from here on.
    WorkspaceApplied(Box<content::Applied>),
    WorkspaceApplyFailed(Box<content::ApplyFailed>),
    RunStarted(Box<content::RunStarted>),
    /// A step boundary: what the model is sent is settled here.
    StepStarted(Box<content::StepStarted>),
    RunCompleted(Box<content::RunEnded>),
    RunFailed(Box<content::RunEnded>),
    RunCancelled(Box<content::RunEnded>),
    /// A run's tool call passed the gate.
    BoundCallStarted(Box<content::BoundCallStarted>),
    BoundCallFinished(Box<content::BoundCallFinished>),
    BoundCallInterrupted(content::BoundCallInterrupted),
    BoundCallRefused(Box<content::BoundCallRefused>),
}

impl Event {
    /// The variant's name: the journal's type column and the `event:` field of the stream.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::SessionCreated { .. } => "SessionCreated",
            Self::ProvisionStarted { .. } => "ProvisionStarted",
            Self::WorkspaceCreated { .. } => "WorkspaceCreated",
            Self::InitStepStarted { .. } => "InitStepStarted",
            Self::InitStepFinished { .. } => "InitStepFinished",
            Self::InitStepProgress { .. } => "InitStepProgress",
            Self::ProvisionProgress { .. } => "ProvisionProgress",
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
            Self::ExecStarted { .. } => "ExecStarted",
            Self::ExecFinished { .. } => "ExecFinished",
            Self::ExecFailed { .. } => "ExecFailed",
            Self::ExecInterrupted { .. } => "ExecInterrupted",
            Self::ActivitySeen { .. } => "ActivitySeen",
            Self::WorkspaceShared { .. } => "WorkspaceShared",
            Self::DigestSet { .. } => "DigestSet",
            Self::DigestCleared { .. } => "DigestCleared",
            Self::DigestRefused { .. } => "DigestRefused",
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

/// Why something did not work, for machines and people.
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

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub result: Option<Value>,
    pub error: Option<ToolFailure>,
    /// One sentence for the agent.
    pub message: String,
}

/// A tool that ran and failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFailure {
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What something did to the files of a workspace: the changes where they live in the journal, the names of what was touched where somebody looked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileEffect {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileChange>,
    /// Of the whole tree afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_hash: Option<String>,
    /// Counts what happened to the tree, over all sessions that share it: the order to apply changes in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched: Option<Touched>,
    /// Whether the tree is kept as it is afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<Point>,
}

/// What an action of the init plan has to tell.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepReport {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountReport>,
    /// Over the mounts' configuration and what was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_fingerprint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkout: Option<CheckoutReport>,
    /// The result of a setup command. It is part of the session's timeline and not of its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Box<SetupReport>>,
}

/// The result of a setup command, with the tail of each output stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupReport {
    /// Counts from 1, in the order of `setup_commands`.
    pub number: u64,
    pub command: String,
    pub exit_code: i32,
    pub timed_out: bool,
    pub stdout: String,
    pub stderr: String,
    /// Number of bytes the command wrote, of which only the tails are kept.
    pub stdout_total: u64,
    pub stderr_total: u64,
}

impl StepReport {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a host mount brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountReport {
    pub host_path: String,
    pub mount_path: String,
    /// The first entries of its top level, sorted, directories with a final `/`.
    pub entries: Vec<String>,
    /// How many the top level really has.
    pub total_entries: u64,
    pub files: u64,
    pub bytes_copied: u64,
    pub skipped: u64,
}

/// What a bundle brought.
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

    /// The blobs that hold what was written.
    pub fn blobs(&self) -> impl Iterator<Item = &str> {
        self.changes.iter().filter_map(|change| match change {
            FileChange::Wrote { content: Content::Blob(digest), .. }
            | FileChange::Appended { content: Content::Blob(digest), .. }
            | FileChange::Linked { target: Content::Blob(digest), .. } => Some(digest.as_str()),
            _ => None,
        })
    }
}

/// What a clone brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckoutReport {
    pub commit: String,
    /// `None` if a tag or a commit was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Whether it took a transfer, or the mirror had it.
    #[serde(default)]
    pub fetched: bool,
    /// What is not there that somebody may look for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Failure>,
}

/// One change of a workspace whose files live in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum FileChange {
    Wrote { path: String, content: Content },
    Appended { path: String, content: Content },
    MadeDirectory { path: String },
    Linked { path: String, target: Content },
    MadeExecutable { path: String },
    MadePlain { path: String },
    Removed { path: String },
    Renamed { from: String, to: String },
}

/// The bytes of a written file: here if they are text and few, else in the blob store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    Text(String),
    Blob(String),
}

words!(
    /// Why a session ends.
    CloseReason, "close reason", {
        Requested = "requested",
        Expired = "expired",
        Idle = "idle",
    }
);
