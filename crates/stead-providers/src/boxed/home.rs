//! What a provider tells of one of its boxes.

use std::fs::File;
use std::io;

use stead_box::{BoxError, Connection};
use stead_core::SnapshotId;
use stead_core::capability::LimitKind;
use stead_core::config::ProviderName;

use super::scratch::Scratch;

/// How one box is reached, and what the server keeps for it. Calls may block; none is made on an async thread.
pub(crate) trait BoxHome: Send + Sync + 'static {
    fn provider(&self) -> ProviderName;

    /// The limits that hold, read back after they were set.
    fn enforced_limits(&self) -> Vec<LimitKind>;

    /// A new connection to the box's first process, greeted.
    fn connect(&self) -> Result<Connection, BoxError>;

    /// Whether it had to be started again when the server took it up.
    fn started_anew(&self) -> bool;

    /// Where the server puts what is on its way into or out of a box.
    fn scratch(&self) -> &Scratch;

    /// Keeps what the box writes into the file it is given, under this name and only as a whole.
    fn keep(&self, name: &str, write: &mut dyn FnMut(&File) -> Result<(), BoxError>) -> Result<(), BoxError>;

    /// What was kept of this box under the name.
    fn kept(&self, name: &str) -> io::Result<File>;

    /// A snapshot of any box of this provider's.
    fn find_snapshot(&self, snapshot: SnapshotId) -> io::Result<Option<File>>;
}
