//! What a provider tells of one of its boxes.

use std::fs::File;
use std::io;

use stead_box::protocol::{Answer, FileAsk, ProtocolError};
use stead_box::{BoxError, Connection};
use stead_core::SnapshotId;
use stead_core::box_facts::BoxFacts;
use stead_core::capability::LimitKind;
use stead_core::config::{HostMount, ProviderName};
use stead_core::event::{Failure, StepReport};
use stead_core::policy::MountMode;
use stead_core::rewind::{Point, Points, Touched, Unkept};
use stead_fs::DiskFs;
use stead_fs::patch::Patch;

use super::scratch::Scratch;
use super::tars;
use crate::error::ProviderError;
use crate::layers::{Note, TreeSource};
use crate::workspace::PointOrder;

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
/// What is kept of a tree is kept as tars, by [`BoxHome::keep`] and its like, unless the provider knows better and overrides [`BoxHome::lay`],
/// [`BoxHome::fill`], [`BoxHome::begin`], [`BoxHome::snapshot`], [`BoxHome::restore`] and [`BoxHome::compare`].
pub(crate) trait BoxHome: Send + Sync + 'static {
    fn provider(&self) -> ProviderName;

    /// The limits that hold, read back after they were set.
    fn enforced_limits(&self) -> Vec<LimitKind>;

    /// What the box turned out to be.
    fn made(&self) -> BoxFacts {
        BoxFacts::default()
    }

    /// A new connection to the box's first process, greeted.
    fn connect(&self) -> Result<Connection, BoxError>;

    /// Whether it had to be started again when the server took it up.
    fn started_anew(&self) -> bool;

    /// Where the server puts what is on its way into or out of a box.
    fn scratch(&self) -> &Scratch;

    /// Keeps what the box writes into the file it is given, under this name and only as a whole.
    fn keep(&self, _name: &str, _write: &mut dyn FnMut(&File) -> Result<(), BoxError>) -> Result<(), BoxError> {
        Err(BoxError::Lost(no_tars()))
    }

    /// What was kept of this box under the name.
    fn kept(&self, _name: &str) -> io::Result<File> {
        Err(no_tars())
    }

    /// A snapshot of any box of this provider's.
    fn find_snapshot(&self, _snapshot: SnapshotId) -> io::Result<Option<File>> {
        Err(no_tars())
    }

    /// Puts a whole tree at the root.
    fn lay(&self, source: TreeSource) -> Result<Note, ProviderError> {
        tars::lay(self, source)
    }

    /// Adds files; one that would cover what is there refuses all of them.
    fn fill(&self, fill: Fill<'_>) -> Result<StepReport, ProviderError> {
        tars::fill(self, fill)
    }

    /// Puts a small text of the server's own at a path, where that takes no box; `false` if it has to go through the box.
    fn place(&self, _path: &str, _text: &str) -> Result<bool, ProviderError> {
        Ok(false)
    }

    /// Makes a host directory the workspace.
    fn mount(&self, _order: MountOrder) -> Result<StepReport, ProviderError> {
        Err(ProviderError::Unsupported { provider: self.provider(), action: "mount_directory" })
    }

    /// What is there now is what [`BoxHome::compare`] compares with.
    fn begin(&self) -> Result<Vec<Failure>, ProviderError> {
        tars::keep(self, tars::BASE)?;
        Ok(Vec::new())
    }

    fn snapshot(&self, snapshot: SnapshotId) -> Result<(), ProviderError> {
        Ok(tars::keep(self, &snapshot.to_string())?)
    }

    /// What was written since the tree was last kept, as far as this provider can tell.
    fn look(&self) -> Result<Looked, ProviderError> {
        Ok(Looked::default())
    }

    /// Whether a snapshot now would end the box if it had nothing to do, and copy everything if it had.
    fn ends_for_a_snapshot(&self) -> bool {
        false
    }

    /// See [`Workspace::stamp`](crate::Workspace::stamp).
    fn stamp(&self) -> Result<Option<String>, BoxError> {
        stamp_of(self.connect()?.files(FileAsk::Stamp, None)?)
    }

    /// Keeps the tree as it is now, within what may be spent.
    fn point(&self, order: PointOrder) -> Result<Point, ProviderError> {
        if order.points < Points::Copies {
            return Ok(Point::Unkept(Unkept::Copy));
        }
        self.snapshot(order.snapshot)?;
        Ok(Point::Kept(order.snapshot))
    }

    /// All snapshots of this box.
    fn snapshots(&self) -> Result<Vec<SnapshotId>, ProviderError>;

    /// Snapshots nobody goes back to any more.
    fn forget(&self, snapshots: &[SnapshotId]) -> Result<(), ProviderError>;

    /// Makes the tree what the snapshot kept; `false` if there is none.
    fn restore(&self, snapshot: SnapshotId) -> Result<bool, ProviderError> {
        Ok(tars::put_back(self, snapshot)?)
    }

    fn compare(&self) -> Result<Patch, BoxError> {
        tars::compare(self)
    }
}

fn no_tars() -> io::Error {
    io::Error::other("this provider keeps no tars")
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
