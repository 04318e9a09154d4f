//! Commands, effects and outcomes: the inputs and outputs of a session's decisions.
//!
//! A [`Command`] is a request that [`crate::decide`] allows or refuses. An [`Outcome`] is a fact
//! about the outside world. It cannot be refused; [`crate::conclude`] derives the events that
//! follow. An [`Effect`] is a complete order: the engine carries it out without further choices.

use std::sync::Arc;

use serde_json::Value;

use crate::box_facts::BoxFacts;
use crate::capability::LimitKind;
use crate::config::{CallLimits, ProviderName, ResourceLimits};
use crate::content::conclude::ContentOutcome;
use crate::content::decide::{ContentCommand, ContentEffect};
use crate::content::{Snapshot, SyncTarget};
use crate::decide::{NewDigest, NewGrant, SessionUpdate};
use crate::env::Env;
use crate::event::{Answer, CloseReason, Failure, FileEffect, FileOperation, SetupChunk, StepReport};
use crate::exec::{ExecOrder, ExecOutput, Exit};
use crate::identity::Tenant;
use crate::network::{NetworkRule, Reach, TrustFiles};
use crate::pause::PauseMode;
use crate::plan::Action;
use crate::resolved_commit::{PushedBranch, ResolvedCommit};
use crate::rewind::Checkpoint;
use crate::session::HashAbsence;
use crate::session::warning::WarningCode;
use crate::spec::SessionSpec;
use crate::tool::ToolName;
use crate::{CallId, ExecId, Name, SessionId, SnapshotId, Timestamp, WorkspaceId};

#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Legal once, as the first command.
    Create {
        session: SessionId,
        spec: Box<SessionSpec>,
        content: Option<Box<InitialContent>>,
    },
    /// Legal while provisioning, if no attempt is in progress.
    Provision,
    /// Legal while provisioning, once the box exists and the previous init action has ended.
    RunStep,
    /// Legal while provisioning, once every init action has ended.
    Activate,
    /// Legal while active.
    CallTool {
        call: CallId,
        tool: ToolName,
        arguments: Value,
    },
    /// Legal while active, for an actor whose tools include the operation.
    OperateFiles {
        call: CallId,
        operation: FileOperation,
    },
    /// Legal while active, for the same actors, if `to` has a checkpoint. The current files are
    /// kept as snapshot `before`.
    Rewind {
        call: CallId,
        to: u64,
        before: SnapshotId,
    },
    /// Legal while active, if the tool `bash` is enabled.
    Exec {
        exec: ExecId,
        order: Box<ExecOrder>,
    },
    /// Legal while active. Records that processes are running in the box.
    NoteActivity {
        processes: u64,
    },
    /// Legal while active, for an actor that may use the port. The connection exists already.
    OpenPort {
        port: u16,
    },
    /// Legal while active. Another session is about to use this workspace.
    Share {
        with: SessionId,
    },
    /// Legal while active.
    SetDigest(NewDigest),
    /// Legal while active. Removes the session's own digest.
    ClearDigest {
        section_key: Name,
    },
    /// Always legal. Records that a requested digest does not exist.
    MissDigest {
        section_key: Name,
    },
    /// Legal until the session is closed. `now` is the time of the request.
    Update {
        update: SessionUpdate,
        now: Timestamp,
    },
    NarrowNetwork {
        deny: Vec<NetworkRule>,
    },
    GrantNetwork {
        grant: NewGrant,
        now: Timestamp,
    },
    /// Legal while active. Freezing also needs that no call is in progress. Idempotent.
    Pause {
        mode: PauseMode,
    },
    /// Legal after a request to pause, until the box is stopped or frozen.
    PauseBox,
    /// Legal while paused. Idempotent.
    Resume,
    /// Legal after a request to resume, until the box runs.
    ResumeBox,
    /// Legal until the session has ended. Idempotent.
    Close {
        reason: CloseReason,
    },
    /// Legal if the workspace must be removed: after a close, or before the next attempt.
    Remove,
    /// Commands for content, runs and steps; see [`ContentCommand`].
    Content(ContentCommand),
}

/// The content that a session begins with. It is read before the session exists.
#[derive(Debug, Clone, PartialEq)]
pub struct InitialContent {
    pub target: SyncTarget,
    pub snapshot: Box<Snapshot>,
    pub warnings: Vec<(WarningCode, String)>,
}

/// The decision about the use of a tool, with the reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolAccess {
    Allowed,
    /// The agent type does not enable the tool.
    NotEnabled,
    /// The tool catalog of the call has no tool that runs it.
    NotInCatalog,
}

/// The access of a call to files. `eval` reads and writes files only with the permission of `read`
/// and `write`. The decision to call any other tool includes its access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileAccess {
    pub read: ToolAccess,
    pub write: ToolAccess,
}

impl FileAccess {
    pub const ALL: Self = Self { read: ToolAccess::Allowed, write: ToolAccess::Allowed };

    /// Removes the access that a catalog does not give.
    pub(crate) fn within_catalog(self, lacks: impl Fn(ToolName) -> bool) -> Self {
        let limit = |access, tool| match access {
            ToolAccess::Allowed if lacks(tool) => ToolAccess::NotInCatalog,
            access => access,
        };
        Self { read: limit(self.read, ToolName::Read), write: limit(self.write, ToolName::Write) }
    }
}

/// The work to carry out after the events of a decision are durable.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    CreateWorkspace {
        provider: ProviderName,
        order: Box<CreateOrder>,
    },
    PerformAction {
        workspace: WorkspaceId,
        action: Action,
        env: Env,
    },
    CallTool {
        call: CallId,
        tool: ToolName,
        arguments: Value,
        limits: CallLimits,
        files: FileAccess,
    },
    OperateFiles {
        call: CallId,
        operation: FileOperation,
    },
    Exec {
        exec: ExecId,
        order: Box<ExecOrder>,
        /// Number of bytes of each output stream to keep for the result.
        output_bytes: u64,
    },
    /// Tells the workspace that provisioning is over. Its current files are the session's initial
    /// files.
    BeginWork,
    /// Uses the workspace of another session instead of creating one.
    ShareWorkspace {
        source: SessionId,
        workspace: WorkspaceId,
    },
    PauseBox {
        provider: ProviderName,
        workspace: WorkspaceId,
        mode: PauseMode,
    },
    ResumeBox {
        provider: ProviderName,
        mode: PauseMode,
    },
    RemoveWorkspace {
        provider: ProviderName,
        workspace: WorkspaceId,
    },
    Content(ContentEffect),
}

/// Everything a provider needs to create a box.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateOrder {
    pub workspace: WorkspaceId,
    pub session: SessionId,
    pub limits: ResourceLimits,
    pub env: Env,
    pub base_image: Option<String>,
    /// Directories that may contain a base image that is a directory of the host.
    pub image_roots: Vec<String>,
    /// The digest of the image to use, even if its name refers to another image by now.
    pub image_digest: Option<String>,
    /// The tenant whose images `base_image` may name, besides the platform's.
    pub image_tenant: Tenant,
    /// The network that the box is made with.
    pub network: Reach,
    /// Files by which programs in the box accept the certificates of inspected hosts. `None` if no
    /// host is inspected.
    pub trust: Option<Arc<TrustFiles>>,
}

/// The outcome of an effect, or a finding after a restart.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Created {
        enforced_limits: Vec<LimitKind>,
        made: BoxFacts,
    },
    CreateFailed(Failure),
    StepFinished {
        duration_ms: u64,
        failure: Option<Failure>,
        files: FileEffect,
        report: StepReport,
    },
    CallFinished {
        call: CallId,
        duration_ms: u64,
        answer: Answer,
        files: FileEffect,
    },
    OperationFinished {
        call: CallId,
        duration_ms: u64,
        failure: Option<Failure>,
        files: FileEffect,
    },
    ExecEnded {
        exec: ExecId,
        outcome: ExecOutcome,
    },
    /// The hash of a snapshot that was taken without one.
    SnapshotHashed {
        snapshot: SnapshotId,
        hash: Result<String, HashAbsence>,
    },
    /// The outcome of a call could not be recorded and never will be.
    Abandoned {
        call: CallId,
        reason: String,
    },
    /// Progress of what the provider fetches.
    ProvisionProgressed {
        stage: String,
        percent: u64,
        detail: String,
    },
    /// Progress of a long init action.
    StepProgressed {
        stage: String,
        percent: u64,
        detail: String,
    },
    /// Output of a running setup command.
    SetupOutput {
        chunks: Vec<SetupChunk>,
        omitted: u64,
    },
    /// The name of the requested revision has been resolved to a commit.
    RepositoryResolved(ResolvedCommit),
    /// A push of a branch has reached the remote.
    BranchPushed(PushedBranch),
    /// The server is about to use a credential.
    CredentialUsed {
        host: String,
        kind: String,
        username: Option<String>,
        purpose: String,
        /// The project that owns it; `None` for the platform's.
        project: Option<Name>,
    },
    Began {
        checkpoint: Option<Checkpoint>,
        /// Parts that are missing at the start of the session, each with the reason.
        warnings: Vec<Failure>,
    },
    Removed,
    RemovalFailed {
        reason: String,
    },
    /// The server restarted while this session was open. Operations in progress have no outcome.
    Restarted,
    Adopted,
    Paused,
    PauseFailed(Failure),
    Resumed,
    ResumeFailed(Failure),
    Lost {
        reason: String,
    },
    Content(ContentOutcome),
}

/// The outcome of a command in the box.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecOutcome {
    Finished { exit: Exit, output: ExecOutput, files: Box<FileEffect> },
    Failed(Failure),
    Interrupted { reason: String },
}

/// A decision: the events to record and the effect to carry out once they are durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub events: Vec<crate::event::Event>,
    pub effect: Option<Effect>,
}
