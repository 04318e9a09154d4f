//! What a provider tells of one of its boxes.

use stead_box::protocol::{Answer, ProtocolError};
use stead_box::{BoxError, Connection};
use stead_core::SnapshotId;
use stead_core::box_facts::BoxFacts;
use stead_core::capability::LimitKind;
use stead_core::config::{HostMount, ProviderName};
use stead_core::event::{Failure, StepReport};
use stead_core::policy::MountMode;
use stead_core::rewind::{Point, Touched};
use stead_fs::DiskFs;
use stead_fs::patch::Patch;

use super::scratch::Scratch;
use crate::contract::error::ProviderError;
use crate::contract::workspace::PointOrder;
use crate::overlay::layer_store::{Layer, LayerKey, LayerSlot};

/// Writes files into an empty tree, all of them or an error.
pub(crate) type Fill<'a> = Box<dyn FnOnce(&mut DiskFs) -> Result<StepReport, ProviderError> + 'a>;

/// A host directory that is to be the workspace.
pub(crate) struct MountOrder {
    pub(crate) host_path: String,
    pub(crate) mode: MountMode,
    pub(crate) allowed_host_roots: Vec<String>,
    /// Directories of root's that may be mounted `rw`.
    pub(crate) allowed_root_owned_mounts: Vec<String>,
}

/// What a look at a tree found.
#[derive(Default)]
pub(crate) struct Looked {
    pub(crate) touched: Option<Touched>,
    /// The snapshot that has the tree as it is.
    pub(crate) same: Option<SnapshotId>,
}

/// How one box is reached, and what the server keeps for it. Calls may block; none is made on an async thread.
///
/// A tree is made of layers ([`crate::overlay`]) or copied as a tar ([`super::TarStore`]).
pub(crate) trait BoxHome: Send + Sync + 'static {
    fn provider(&self) -> ProviderName;

    /// The limits that hold, read back after they were set.
    fn enforced_limits(&self) -> Vec<LimitKind>;

    /// What the box turned out to be.
    fn made(&self) -> BoxFacts;

    /// A new connection to the box's first process, greeted.
    fn connect(&self) -> Result<Connection, BoxError>;

    /// Whether it had to be started again when the server took it up.
    fn started_anew(&self) -> bool;

    /// Where the server puts what is on its way into or out of a box.
    fn scratch(&self) -> &Scratch;

    /// See [`Workspace::prepare_layer`](crate::Workspace::prepare_layer).
    fn prepare_layer(&self, key: LayerKey) -> Result<LayerSlot, ProviderError>;

    /// Puts a whole tree at the root.
    fn lay(&self, layer: &Layer) -> Result<(), ProviderError>;

    /// Adds files; one that would cover what is there refuses all of them.
    fn fill(&self, fill: Fill<'_>) -> Result<StepReport, ProviderError>;

    /// Puts a small text of the server's own at a path, where that takes no box; `false` if it has to go through the box.
    fn place(&self, path: &str, text: &str) -> Result<bool, ProviderError>;

    /// Host directories as workspaces; `None` if this box cannot have one.
    fn host_mounts(&self) -> Option<&dyn HostMounts>;

    /// What is there now is what [`BoxHome::compare`] compares with.
    fn begin(&self) -> Result<Vec<Failure>, ProviderError>;

    fn snapshot(&self, snapshot: SnapshotId) -> Result<(), ProviderError>;

    /// What was written since the tree was last kept, as far as this provider can tell.
    fn look(&self) -> Result<Looked, ProviderError>;

    /// Whether a snapshot now would end the box if it had nothing to do, and copy everything if it had.
    fn ends_for_a_snapshot(&self) -> bool;

    /// See [`Workspace::stamp`](crate::Workspace::stamp).
    fn stamp(&self) -> Result<Option<String>, BoxError>;

    /// Keeps the tree as it is now, within what may be spent.
    fn point(&self, order: PointOrder) -> Result<Point, ProviderError>;

    /// All snapshots of this box.
    fn snapshots(&self) -> Result<Vec<SnapshotId>, ProviderError>;

    /// Snapshots nobody goes back to any more.
    fn forget(&self, snapshots: &[SnapshotId]) -> Result<(), ProviderError>;

    /// Makes the tree what the snapshot kept; `false` if there is none.
    fn restore(&self, snapshot: SnapshotId) -> Result<bool, ProviderError>;

    fn compare(&self) -> Result<Patch, BoxError>;
}

/// Boxes that can have a host directory as their workspace.
pub(crate) trait HostMounts {
    fn mount(&self, order: MountOrder) -> Result<StepReport, ProviderError>;
}

/// Used by the actions that copy mounts in.
pub(crate) fn mounts_fill<'a>(mounts: Vec<HostMount>, roots: &'a [String]) -> Fill<'a> {
    Box::new(move |files| crate::fill::mounts(files, mounts, roots, 0))
}

/// What a box answered when it was asked for a stamp.
pub(crate) fn stamp_of((answer, _): (Answer, Vec<u8>)) -> Result<Option<String>, BoxError> {
    match answer {
        Answer::Stamp { stamp } => Ok(stamp),
        _ => Err(ProtocolError::Unexpected { what: "to a look for a stamp" }.into()),
    }
}
