//! The contract of a workspace.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use stead_core::box_facts::BoxFacts;
use stead_core::capability::LimitKind;
use stead_core::command::FileAccess;
use stead_core::config::CallLimits;
use stead_core::env::Env;
use stead_core::event::{Answer, Existing, Failure, Parents, SetupStream, StepReport};
use stead_core::plan::Action;
use stead_core::rewind::{Checkpoint, CheckpointCost, Touched};
use stead_core::session::HashAbsence;
use stead_core::tool::ToolName;
use stead_core::{CallId, SessionId, SnapshotId, Timestamp};
use stead_eval::Evaluator;
use stead_fs::archive::ArchiveError;
use stead_fs::budget::{FIXED_BYTES, Stream, both};
use stead_fs::patch::{self, Patch};
use stead_fs::{Content, ContentHash, FsError, Listing, Stat, Stop};

use crate::contract::error::{OperateError, ProviderError};
use crate::contract::execs::Execs;
use crate::contract::network::LentNetworks;
use crate::contract::ports::Ports;
use crate::contract::setup_cache::SetupResults;
use crate::overlay::layer_store::{Layer, LayerKey, LayerSlot};

/// A complete order for a tool call.
#[derive(Debug, Clone)]
pub struct ToolOrder {
    pub call: CallId,
    pub session: SessionId,
    pub tool: ToolName,
    pub arguments: Value,
    pub limits: CallLimits,
    /// Only `eval` checks it; the decision to call any other tool has been made.
    pub files: FileAccess,
    pub now: Timestamp,
    /// Used by `eval`.
    pub evaluator: Evaluator,
}

/// A change that is decided but not yet visible. [`Staged::publish`] makes it visible; dropping it
/// discards the change.
///
/// A workspace that keeps its files in the journal changes only after the journal has the record:
/// the engine publishes once the record is durable. Until then no other change can begin.
#[must_use = "a staged change that is dropped never happens"]
pub struct Staged(Box<dyn FnOnce() + Send>);

impl Staged {
    pub fn new(publish: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(publish))
    }

    /// For an effect that has already happened: nothing to publish.
    pub fn done() -> Self {
        Self::new(|| {})
    }

    /// Runs `more` after this change is published.
    pub fn and(self, more: impl FnOnce() + Send + 'static) -> Self {
        Self::new(move || {
            self.publish();
            more();
        })
    }

    pub fn publish(self) {
        (self.0)();
    }
}

/// The changes that an operation made, for a workspace that keeps its files in the journal; empty
/// for others.
pub struct Done {
    pub changes: Vec<stead_fs::Change>,
    pub tree_hash: Option<String>,
    /// The hash of the tree that the operation kept as a snapshot, for files outside the journal.
    pub snapshot_hash: Option<Result<String, HashAbsence>>,
    /// Number of this operation among all operations on the tree; `None` if it changed nothing.
    pub revision: Option<u64>,
    /// The effect on the path: created or replaced.
    pub placement: Option<Placement>,
    /// Names of touched files, for a provider that keeps files outside the journal and looked for
    /// changes.
    pub touched: Option<Touched>,
    /// The checkpoint taken afterwards, if one was asked for.
    pub point: Option<Checkpoint>,
    /// Keeps the tree in the state that publishing gives it.
    pub(crate) keep: Option<Keep>,
    pub staged: Staged,
}

pub(crate) type Keep = Box<dyn FnOnce(SnapshotId) + Send>;

/// An order for a checkpoint after a call, with the limits on its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointOrder {
    pub snapshot: SnapshotId,
    pub points: CheckpointCost,
}

/// The effect of a write on its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    Created,
    Replaced,
}

impl Done {
    /// For an operation without effect on files, or on files that the journal does not keep.
    pub fn nothing() -> Self {
        Self {
            changes: Vec::new(),
            tree_hash: None,
            snapshot_hash: None,
            revision: None,
            placement: None,
            touched: None,
            point: None,
            keep: None,
            staged: Staged::done(),
        }
    }
}

/// A complete order for one init action.
#[derive(Debug)]
pub struct ActionOrder {
    pub action: Action,
    pub env: Env,
    /// The bytes of the bundle, for an `unpack_bundle`.
    pub bundle: Option<File>,
    /// The layer to put at the workspace's root, for a `clone_repository`. Comes from
    /// [`Workspace::prepare_layer`].
    pub layer: Option<Layer>,
    /// Receives the output of a setup command while it runs.
    pub output: OutputSink,
    pub now: Timestamp,
}

type Receive = dyn Fn(SetupStream, &[u8]) + Send + Sync;

/// Receives the output of a setup command while it runs. Must not block.
#[derive(Clone, Default)]
pub struct OutputSink(Option<Arc<Receive>>);

impl OutputSink {
    pub fn new(receive: impl Fn(SetupStream, &[u8]) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(receive)))
    }

    pub(crate) fn pass(&self, stream: SetupStream, bytes: &[u8]) {
        if let Some(receive) = &self.0 {
            receive(stream, bytes);
        }
    }
}

impl std::fmt::Debug for OutputSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OutputSink")
    }
}

/// The result of an init action.
pub struct Performed {
    pub done: Done,
    pub report: StepReport,
}

/// A complete order for a file change that is not a tool call.
#[derive(Debug)]
pub enum FileOrder {
    Put {
        path: String,
        content: File,
        bytes: u64,
        if_match: Option<String>,
        existing: Existing,
        parents: Parents,
    },
    /// Only adds files: an entry that already exists refuses the whole archive.
    Unpack {
        path: String,
        archive: File,
    },
    MakeDirectory {
        path: String,
    },
    Delete {
        path: String,
        if_match: Option<String>,
    },
    Snapshot {
        snapshot: SnapshotId,
    },
    Restore {
        snapshot: SnapshotId,
    },
    /// Keeps the current tree as `before`, then restores `snapshot`.
    Rewind {
        before: SnapshotId,
        snapshot: SnapshotId,
    },
}

/// A git command to run in the box, in the agent's repository.
#[derive(Debug, Clone)]
pub struct GitOrder {
    /// A name that is unique among the commands in the box.
    pub exec: String,
    pub args: Vec<String>,
    pub input: Vec<u8>,
    pub timeout_ms: u64,
    /// Limit for each output stream.
    pub output_bytes: u64,
}

/// The result of a git command.
#[derive(Debug, Clone)]
pub struct GitRan {
    pub exit_code: i32,
    pub timed_out: bool,
    pub stdout: Captured,
    pub stderr: Captured,
}

/// The kept output of one stream: its start and its end.
#[derive(Debug, Clone)]
pub struct Captured {
    pub bytes: Vec<u8>,
    /// Number of kept bytes from the start of the stream. The other ones are from its end.
    pub head: usize,
    /// Number of bytes that were written.
    pub total: u64,
}

impl Captured {
    pub fn stream(&self) -> Stream<'_> {
        let (head, tail) = self.bytes.split_at(self.head.min(self.bytes.len()));
        Stream { head, tail, total: self.total }
    }

    /// Returns standard output and standard error as text, and for each whether a part is omitted.
    /// Both take the bytes of the whole answer that are left after `taken` bytes of JSON.
    pub fn texts(stdout: &Self, stderr: &Self, limits: &CallLimits, taken: usize) -> [(String, bool); 2] {
        let number = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let json = number(limits.output_bytes).saturating_sub(FIXED_BYTES.saturating_add(taken));
        both([stdout.stream(), stderr.stream()], number(limits.stream_bytes()), json)
    }
}

/// A file opened for reading.
pub struct OpenFile {
    pub stat: Stat,
    /// Hash of the content.
    pub hash: ContentHash,
    pub content: Content,
}

/// The result of a tool call.
pub struct ToolDone {
    pub answer: Answer,
    pub done: Done,
}

/// Git inside a box.
#[async_trait]
pub trait BoxGit: Send + Sync {
    async fn run(&self, order: GitOrder) -> Result<GitRan, ProviderError>;

    /// Kills the git command of this name, so that [`BoxGit::run`] returns. No-op if none runs.
    async fn kill(&self, exec: &str);
}

/// A box and its files.
#[async_trait]
pub trait Workspace: Send + Sync {
    /// The limits in force, read back after they were set.
    fn enforced_limits(&self) -> Vec<LimitKind>;

    /// Facts about the box as it was made.
    fn made(&self) -> BoxFacts {
        BoxFacts::default()
    }

    /// Returns the layer of this key for the workspace to use, or an empty directory for the caller
    /// to write it into.
    ///
    /// Blocks while another caller writes the same layer. Call it on a thread for blocking work and
    /// write the layer on that thread: all other such threads may be waiting for this layer.
    fn prepare_layer(&self, key: LayerKey) -> Result<LayerSlot, ProviderError>;

    /// Performs one init action, completely or not at all.
    async fn perform(&self, order: ActionOrder) -> Result<Performed, ProviderError>;

    /// Kept setup results; `None` if this workspace can neither use nor keep any.
    fn setup_results(&self) -> Option<&dyn SetupResults>;

    /// Ends provisioning: [`Workspace::diff`] compares with the files of this moment. Returns the
    /// features that the session has to do without.
    async fn begin(&self) -> Result<Vec<Failure>, ProviderError>;

    /// Changes, snapshots or restores files, completely or not at all.
    async fn operate(&self, order: FileOrder, now: Timestamp) -> Result<Done, OperateError>;

    /// Takes a checkpoint of the tree after an operation, published or not, within the cost limits.
    /// Reports the result in [`Done::point`].
    async fn point(&self, order: PointOrder, done: &mut Done) -> Result<(), ProviderError>;

    /// Returns true if the files may have changed since the last checkpoint although no call ran.
    /// Only the user of a host directory changes files in that way.
    async fn changed_unnoticed(&self) -> Result<bool, ProviderError> {
        Ok(false)
    }

    /// Deletes snapshots that no session needs any more. Those that cannot be deleted now go with
    /// the workspace.
    async fn forget(&self, snapshots: Vec<SnapshotId>) -> Result<(), ProviderError>;

    /// Returns the hash of a snapshot that was taken with [`HashAbsence::Pending`]. Takes as long
    /// as reading all files, blocks no other operation, and ends soon after `stop`.
    async fn hash_snapshot(&self, snapshot: SnapshotId, stop: Stop) -> Result<String, HashAbsence>;

    /// Deletes all snapshots but these. Call it only while no other operation runs: after a server
    /// start.
    async fn retain(&self, wanted: BTreeSet<SnapshotId>) -> Result<(), ProviderError>;

    /// Opens a file in its current state; the content does not show later changes.
    async fn open(&self, path: &str) -> Result<OpenFile, FsError> {
        self.open_within(path, u64::MAX).await
    }

    /// Like [`Self::open`], but a file over `most_bytes` is [`FsError::TooLarge`] and costs no
    /// copy.
    async fn open_within(&self, path: &str, most_bytes: u64) -> Result<OpenFile, FsError>;

    /// Stats a path and lists the entries of a directory.
    async fn list(&self, path: &str) -> Result<Listing, FsError>;

    /// Writes the tree below a path as tar.
    async fn export(&self, path: &str, out: File) -> Result<(), ArchiveError>;

    /// The hash of all files, if it is known without reading them.
    async fn tree_hash(&self) -> Option<String> {
        None
    }

    /// Version tag that changes when any file changes, where it is cheaper than reading the files.
    /// Not comparable across workspaces.
    async fn stamp(&self) -> Option<String> {
        None
    }

    /// The changes since the session began.
    async fn diff(&self, options: patch::Options) -> Result<Patch, FsError>;

    /// Returns the changes from the start of the session to a snapshot. Calls go on meanwhile.
    async fn diff_at(&self, snapshot: SnapshotId, options: patch::Options) -> Result<Patch, FsError>;

    /// Runs a tool. A failed tool returns an answer with an error and no change, never an `Err`.
    async fn call(&self, order: ToolOrder) -> ToolDone;

    /// Git inside the box; `None` without a box.
    fn git(&self) -> Option<&dyn BoxGit>;

    /// Kills all processes of a call that runs a command, so that [`Workspace::call`] returns.
    /// No-op for a call that has ended, does not exist or ends by itself soon (the file tools).
    async fn cancel(&self, _call: CallId) {}

    /// Kills all processes of a session's persistent shell and discards its state, because the
    /// session leaves a workspace that others still use. No-op without a shell.
    async fn end_shell(&self, session: SessionId);

    /// The network of the workspace's boxes; `None` if the workspace was made without one.
    fn network(&self) -> Option<LentNetworks> {
        None
    }

    /// The workspace's execs; `None` without a box.
    fn execs(&self) -> Option<&dyn Execs>;

    /// The ports of the box; `None` without a box.
    fn ports(&self) -> Option<&dyn Ports>;
}
