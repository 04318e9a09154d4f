//! The contract of a workspace.

use async_trait::async_trait;
use serde_json::Value;
use stead_core::capability::LimitKind;
use stead_core::config::ToolLimits;
use stead_core::env::Env;
use stead_core::event::Answer;
use stead_core::plan::Action;
use stead_core::tool::ToolName;
use stead_core::{CallId, Timestamp};

use crate::error::ProviderError;

/// A tool call, complete.
#[derive(Debug, Clone)]
pub struct ToolOrder {
    pub call: CallId,
    pub tool: ToolName,
    pub arguments: Value,
    pub limits: ToolLimits,
    pub now: Timestamp,
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

    pub fn publish(self) {
        (self.0)();
    }
}

/// What performing something did to the files, for a workspace whose files live in the journal; empty for others.
pub struct Done {
    pub changes: Vec<stead_fs::Change>,
    pub tree_hash: Option<String>,
    pub staged: Staged,
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

    /// Performs one action of the init plan, completely or not at all.
    async fn perform(&self, action: &Action, env: &Env, now: Timestamp) -> Result<Done, ProviderError>;

    /// Runs a tool. A tool that fails is an answer with an error and no change, never an `Err` of this method.
    async fn call(&self, order: ToolOrder) -> ToolDone;
}
