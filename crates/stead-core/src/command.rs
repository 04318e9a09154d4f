//! Everything anyone may ask of a session, and everything that may come of it.
//!
//! A [`Command`] is a wish: [`crate::decide`] allows or refuses it. An [`Outcome`] is a fact about the world outside: it cannot be
//! refused, [`crate::conclude`] only says what follows. An [`Effect`] is a complete order: whoever carries it out makes no choices.

use serde_json::Value;

use crate::box_facts::BoxFacts;
use crate::capability::LimitKind;
use crate::config::{ProviderName, ResourceLimits, ToolLimits};
use crate::content::conclude::ContentOutcome;
use crate::content::decide::{ContentCommand, ContentEffect};
use crate::content::{Snapshot, SyncTarget};
use crate::decide::NewDigest;
use crate::env::Env;
use crate::event::{Answer, CloseReason, Failure, FileEffect, FileOperation, StepReport};
use crate::exec::{ExecOrder, ExecOutput, Exit};
use crate::plan::Action;
use crate::rewind::Point;
use crate::settled::{PushedBranch, ResolvedCommit};
use crate::spec::SessionSpec;
use crate::tool::ToolName;
use crate::{CallId, ExecId, Name, SessionId, SnapshotId, WorkspaceId};

#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Legal once, before anything else.
    Create { session: SessionId, spec: Box<SessionSpec>, content: Option<Box<InitialContent>> },
    /// Legal while provisioning, when no attempt is under way.
    Provision,
    /// Legal while provisioning, when the box is there and the step before has ended.
    RunStep,
    /// Legal while provisioning, when every step has ended.
    Activate,
    /// Legal while active.
    CallTool { call: CallId, tool: ToolName, arguments: Value },
    /// Legal while active, for an actor whose tools allow as much.
    OperateFiles { call: CallId, operation: FileOperation },
    /// Legal while active, for the same, to a moment whose files were kept. What is there now is kept as `before`.
    Rewind { call: CallId, to: u64, before: SnapshotId },
    /// Legal while active, if the tool `bash` is enabled.
    Exec { exec: ExecId, order: Box<ExecOrder> },
    /// Legal while active: processes were found at work.
    NoteActivity { processes: u64 },
    /// Legal while active: another session is about to work in this workspace.
    Share { with: SessionId },
    /// Legal while active.
    SetDigest(NewDigest),
    /// Legal while active: the session's own digest goes.
    ClearDigest { section_key: Name },
    /// Always legal: a digest was asked for that is not there.
    MissDigest { section_key: Name },
    /// Legal until the session has ended; asked again, it changes nothing.
    Close { reason: CloseReason },
    /// Legal when a workspace is to go: after a close, or before the next attempt.
    Remove,
    /// Content, runs and steps: see there.
    Content(ContentCommand),
}

/// The content a session begins with, read before there is a session.
#[derive(Debug, Clone, PartialEq)]
pub struct InitialContent {
    pub target: SyncTarget,
    pub snapshot: Box<Snapshot>,
    pub warnings: Vec<(String, String)>,
}

/// What a committed step hands out.
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
        limits: ToolLimits,
    },
    OperateFiles {
        call: CallId,
        operation: FileOperation,
    },
    Exec {
        exec: ExecId,
        order: Box<ExecOrder>,
        /// Of each stream, to be kept for the result.
        output_bytes: u64,
    },
    /// The workspace is told that provisioning is over: what is there now is what it began with.
    BeginWork,
    /// Nothing is made: the workspace of another session is used.
    ShareWorkspace {
        source: SessionId,
        workspace: WorkspaceId,
    },
    RemoveWorkspace {
        provider: ProviderName,
        workspace: WorkspaceId,
    },
    Content(ContentEffect),
}

/// Everything a provider needs to make a box.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateOrder {
    pub workspace: WorkspaceId,
    pub session: SessionId,
    pub limits: ResourceLimits,
    pub env: Env,
    pub base_image: Option<String>,
    /// The roots that a base image must lie in if it is a directory of the host.
    pub image_roots: Vec<String>,
    /// The image is the one with this digest, whatever its name means by now.
    pub image_digest: Option<String>,
}

/// What became of an effect, or was found after a restart.
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
    /// What became of a call could not be recorded, and never will be.
    Abandoned {
        call: CallId,
        reason: String,
    },
    /// What a provider has to fetch is this far.
    ProvisionProgressed {
        stage: String,
        percent: u64,
        detail: String,
    },
    /// A long step is this far.
    StepProgressed {
        stage: String,
        percent: u64,
        detail: String,
    },
    /// The commit that is wanted has its name.
    RepositoryResolved(ResolvedCommit),
    /// A branch has reached the remote.
    BranchPushed(PushedBranch),
    /// A credential is about to be used.
    CredentialUsed {
        host: String,
        kind: String,
        username: Option<String>,
        purpose: String,
    },
    Began {
        point: Option<Point>,
        /// The session starts without these things, each with the reason.
        warnings: Vec<Failure>,
    },
    Removed,
    RemovalFailed {
        reason: String,
    },
    /// The server began anew with this session open: whatever was under way has no outcome.
    Restarted,
    Adopted,
    Lost {
        reason: String,
    },
    Content(ContentOutcome),
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecOutcome {
    Finished { exit: Exit, output: ExecOutput, files: Box<FileEffect> },
    Failed(Failure),
    Interrupted { reason: String },
}

/// What a decision allows: the events to record and, once they are durable, the effect to carry out.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub events: Vec<crate::event::Event>,
    pub effect: Option<Effect>,
}
