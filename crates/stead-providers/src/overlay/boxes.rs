//! Who runs boxes over the trees of workspaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use stead_box::{BoxError, Connection, Held, Limits};
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;

use super::lineage::Lineage;
use crate::contract::error::ProviderError;

/// What a box costs that has to be started again over other layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    /// So little that every change may be kept by it.
    Milliseconds,
    /// As much as somebody who asks for it is ready to wait.
    Noticeable,
}

/// Calls may block; none is made on an async thread.
pub(crate) trait Boxes: Send + Sync + 'static {
    fn provider(&self) -> ProviderName;

    fn restart(&self) -> Restart;

    /// Starts the box of a workspace over its layers. `kept` are the generations of its own volume that somebody stands on.
    fn start(&self, order: &CreateOrder, lineage: &Lineage, kept: Vec<u32>) -> Result<Arc<dyn Running>, ProviderError>;
}

/// A box over a tree that was alive when it was last looked at.
pub(crate) trait Running: Send + Sync {
    /// A new connection to its first process, greeted.
    fn connect(&self) -> Result<Connection, BoxError>;

    fn has_ended(&self) -> bool;

    /// The limits that hold, read back after they were set.
    fn held(&self) -> Held;

    /// Gives a box that was kept ready to somebody.
    fn bind(&self, env: BTreeMap<String, String>, limits: &Limits) -> Result<Arc<dyn Running>, ProviderError>;

    /// Leaves its tree if nothing would be lost by it; says whether it did. The next box of the workspace is started then.
    fn rest(&self) -> Result<bool, ProviderError>;

    /// Leaves its tree, which nobody has used.
    fn leave(&self) -> Result<(), ProviderError>;

    /// Ends everything that runs. The files stay.
    fn kill(&self) -> Result<(), ProviderError>;
}
