//! The contract of a workspace.

use std::collections::BTreeSet;
use std::fs::File;

use async_trait::async_trait;
use serde_json::Value;
use stead_core::box_facts::BoxFacts;
use stead_core::capability::LimitKind;
use stead_core::config::ToolLimits;
use stead_core::env::Env;
use stead_core::event::{Answer, Existing, Failure, Parents, StepReport};
use stead_core::plan::Action;
use stead_core::rewind::{Point, Points, Touched};
use stead_core::tool::ToolName;
use stead_core::{CallId, SnapshotId, Timestamp};
use stead_eval::Evaluator;
use stead_fs::archive::ArchiveError;
use stead_fs::patch::Patch;
use stead_fs::{Content, Digest, FsError, Listing, Stat};

use crate::error::{OperateError, ProviderError};
use crate::execs::Execs;
use crate::layers::TreeSource;

/// A tool call, complete.
#[derive(Debug, Clone)]
pub struct ToolOrder {
    pub call: CallId,
    pub tool: ToolName,
    pub arguments: Value,
    pub limits: ToolLimits,
    pub now: Timestamp,
    /// For `eval`.
    pub evaluator: Evaluator,
}

/// A change that is decided but not yet visible. [`Staged::publish`] makes it so; dropping it leaves everything as it was.
///
/// A workspace whose files live in the journal changes only when the journal has it: the engine publishes after the record is
/// durable. Until then nobody else can begin a change.
#[must_use = "a staged change that is dropped never happens"]
pub struct Staged(Box<dyn FnOnce() + Send>);

impl Staged {
    pub fn new(publish: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(publish))
    }

    /// Nothing to publish: the effect has happened where it happens.
    pub fn done() -> Self {
        Self::new(|| {})
    }

    /// This, and then something more.
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

/// What performing something did to the files, for a workspace whose files live in the journal; empty for others.
pub struct Done {
    pub changes: Vec<stead_fs::Change>,
    pub tree_hash: Option<String>,
    /// The place of this among everything that happened to the tree; `None` if it changed nothing.
    pub revision: Option<u64>,
    /// What became of the path something was put at.
    pub placement: Option<Placement>,
    /// The names of what was touched, where the files are not the journal's and somebody looked.
    pub touched: Option<Touched>,
    /// Whether the tree is kept as it is afterwards, if that was asked.
    pub point: Option<Point>,
    /// Keeps the tree as it will be once it is published.
    pub(crate) keep: Option<Keep>,
    pub staged: Staged,
}

pub(crate) type Keep = Box<dyn FnOnce(SnapshotId) + Send>;

/// A tree to keep after a call, and what may be spent on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointOrder {
    pub snapshot: SnapshotId,
    pub points: Points,
}

/// Whether something was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    Created,
    Replaced,
}

impl Done {
    /// Nothing happened to the files, or they are not the journal's business.
    pub fn nothing() -> Self {
        Self {
            changes: Vec::new(),
            tree_hash: None,
            revision: None,
            placement: None,
            touched: None,
            point: None,
            keep: None,
            staged: Staged::done(),
        }
    }
}

/// One action of the init plan, complete.
#[derive(Debug)]
pub struct ActionOrder {
    pub action: Action,
    pub env: Env,
    /// The bytes of the bundle an `unpack_bundle` is about.
    pub bundle: Option<File>,
    /// The tree the action puts at the workspace's root, for a `clone_repository`.
    pub tree: Option<TreeSource>,
    pub now: Timestamp,
}

/// What an action came to.
pub struct Performed {
    pub done: Done,
    pub report: StepReport,
}

/// A change of files by other means than a tool, complete.
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
    /// Only adds: an entry that is there already refuses the whole archive.
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
    /// Keeps the tree as it is now, then puts another back.
    Rewind {
        before: SnapshotId,
        snapshot: SnapshotId,
    },
}

/// A git to run in the box, over the agent's repository.
#[derive(Debug, Clone)]
pub struct GitOrder {
    /// Unique among what runs in the box.
    pub exec: String,
    pub args: Vec<String>,
    pub input: Vec<u8>,
    pub timeout_ms: u64,
    /// Of each stream.
    pub output_bytes: u64,
}

/// What it came to.
#[derive(Debug, Clone)]
pub struct GitRan {
    pub exit_code: i32,
    pub timed_out: bool,
    pub truncated: bool,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// A file opened for reading.
pub struct OpenFile {
    pub stat: Stat,
    /// Of its bytes.
    pub hash: Digest,
    pub content: Content,
}

/// What a tool call came to.
pub struct ToolDone {
    pub answer: Answer,
    pub done: Done,
}

/// A box and its files.
#[async_trait]
pub trait Workspace: Send + Sync {
    /// The limits that hold here, read back after setting them.
    fn enforced_limits(&self) -> Vec<LimitKind>;

    /// What the box turned out to be.
    fn made(&self) -> BoxFacts {
        BoxFacts::default()
    }

    /// Performs one action of the init plan, completely or not at all.
    async fn perform(&self, order: ActionOrder) -> Result<Performed, ProviderError>;

    /// Says that provisioning is over: what is there now is what [`Workspace::diff`] compares with. Returns what the session
    /// has to do without.
    async fn begin(&self) -> Result<Vec<Failure>, ProviderError>;

    /// Changes files, keeps them or puts them back, completely or not at all.
    async fn operate(&self, order: FileOrder, now: Timestamp) -> Result<Done, OperateError>;

    /// Keeps the tree as it is after something was done, published or not, within what may be spent; says in [`Done::point`] what became of it.
    async fn point(&self, order: PointOrder, done: &mut Done) -> Result<(), ProviderError>;

    /// Lets go of snapshots nobody goes back to any more. What cannot go now goes with the workspace.
    async fn forget(&self, snapshots: Vec<SnapshotId>) -> Result<(), ProviderError>;

    /// The same with all but these, when nothing else is under way: after a start.
    async fn retain(&self, wanted: BTreeSet<SnapshotId>) -> Result<(), ProviderError>;

    /// Opens a file as it is now; later changes do not show in what is read.
    async fn open(&self, path: &str) -> Result<OpenFile, FsError>;

    /// What a path is, and for a directory what is in it.
    async fn list(&self, path: &str) -> Result<Listing, FsError>;

    /// Writes the tree below a path as tar.
    async fn export(&self, path: &str, out: File) -> Result<(), ArchiveError>;

    /// The hash of all files, where it is known without reading them.
    async fn tree_hash(&self) -> Option<String> {
        None
    }

    /// A text that is another one whenever any file of this workspace is, where that is known for less than reading them. Of two workspaces it says nothing.
    async fn stamp(&self) -> Option<String> {
        None
    }

    /// What changed since the session began.
    async fn diff(&self) -> Result<Patch, FsError>;

    /// Runs a tool. A tool that fails is an answer with an error and no change, never an `Err` of this method.
    async fn call(&self, order: ToolOrder) -> ToolDone;

    /// Runs git inside the box. `Gone` where there is no box to run it in.
    async fn git(&self, order: GitOrder) -> Result<GitRan, ProviderError>;

    /// Ends a git that [`Workspace::git`] runs, by the name its order gave it, so that the method returns. One that is not there is left alone.
    async fn kill_git(&self, _exec: &str) {}

    /// Ends a call that runs a command, with every process of it, so that [`Workspace::call`] returns. A call that is not there, is over or ends by itself
    /// soon (the file tools) is left alone.
    async fn cancel(&self, _call: CallId) {}

    /// Its execs; `None` where there is no box to run commands in.
    fn execs(&self) -> Option<&dyn Execs>;
}
