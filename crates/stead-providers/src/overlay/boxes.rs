//! The interface to a provider's boxes over workspace trees.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use stead_box::{BoxError, Connection, Held, Limits};
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;

use super::lineage::Lineage;
use crate::contract::error::ProviderError;

/// The cost of restarting a box over other layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    /// Cheap enough to take a checkpoint of every change.
    Milliseconds,
    /// Acceptable only for an operation that a user asked for.
    Noticeable,
}

/// Starts boxes. Calls may block and never run on an async thread.
pub(crate) trait Boxes: Send + Sync + 'static {
    fn provider(&self) -> ProviderName;

    fn restart(&self) -> Restart;

    /// Path of `stead-init` on the host.
    fn init(&self) -> &Path;

    /// Starts the box of a workspace over its layers. `kept` lists the generations of its own
    /// volume that are still in use.
    fn start(&self, order: &CreateOrder, lineage: &Lineage, kept: Vec<u32>) -> Result<Arc<dyn Running>, ProviderError>;
}

/// A box over a tree, alive when last checked.
pub(crate) trait Running: Send + Sync {
    /// Opens a new connection to its first process, with the greeting done.
    fn connect(&self) -> Result<Connection, BoxError>;

    fn has_ended(&self) -> bool;

    /// The limits in force, read back after they were set.
    fn held(&self) -> Held;

    /// Gives a warm box to a session.
    fn bind(&self, env: BTreeMap<String, String>, limits: &Limits) -> Result<Arc<dyn Running>, ProviderError>;

    /// Releases the tree if that loses nothing, and returns true if it did. A new box has to be
    /// started then.
    fn rest(&self) -> Result<bool, ProviderError>;

    /// Releases the tree, which has not been used.
    fn leave(&self) -> Result<(), ProviderError>;

    /// Kills all processes. The files stay.
    fn kill(&self) -> Result<(), ProviderError>;
}
