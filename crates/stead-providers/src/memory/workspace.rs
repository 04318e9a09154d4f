//! One memory workspace: a persistent tree, and at most one change on its way into the journal.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use stead_core::Timestamp;
use stead_core::capability::LimitKind;
use stead_core::config::{ProviderName, ToolLimits};
use stead_core::env::Env;
use stead_core::event::{Answer, ToolFailure};
use stead_core::plan::Action;
use stead_core::request::TaskContext;
use stead_core::tool::ToolName;
use stead_fs::tools::{self, Call, FileTool};
use stead_fs::{Change, Filesystem, FsError, MemoryFs, WorkspacePath};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::error::ProviderError;
use crate::workspace::{Done, Staged, ToolDone, ToolOrder, Workspace};

/// Where the agent finds what its task is about.
const TASK_CONTEXT_PATH: &str = ".stead/task.json";

pub(super) struct MemoryWorkspace {
    files: Arc<Mutex<MemoryFs>>,
}

impl MemoryWorkspace {
    pub(super) fn new(files: MemoryFs) -> Self {
        Self { files: Arc::new(Mutex::new(files)) }
    }
}

/// Ends a change: the lock is held until the tree is published or the change is dropped.
fn stage(mut current: OwnedMutexGuard<MemoryFs>, next: MemoryFs) -> Staged {
    Staged::new(move || *current = next)
}

fn tree_hash(files: &MemoryFs) -> Option<String> {
    files.tree_hash().ok().map(|hash| hash.to_string())
}

#[async_trait]
impl Workspace for MemoryWorkspace {
    fn enforced_limits(&self) -> Vec<LimitKind> {
        Vec::new()
    }

    async fn perform(&self, action: &Action, _env: &Env, now: Timestamp) -> Result<Done, ProviderError> {
        let current = self.files.clone().lock_owned().await;
        let changes = match action {
            Action::CreateWorkspace => Vec::new(),
            Action::WriteTaskContext { context } => vec![write_task_context(context)?],
            unsupported => {
                let (provider, action) = (ProviderName::Memory, unsupported.name());
                return Err(ProviderError::Unsupported { provider, action });
            }
        };
        let mut next = current.clone();
        for change in &changes {
            next.apply(change, now.millis()).map_err(|source| ProviderError::Files { source })?;
        }
        Ok(Done { changes, tree_hash: tree_hash(&next), staged: stage(current, next) })
    }

    async fn call(&self, order: ToolOrder) -> ToolDone {
        let Ok(tool) = order.tool.as_str().parse::<FileTool>() else { return no_box(order.tool) };
        let current = self.files.clone().lock_owned().await;
        let mut next = current.clone();
        let limits = file_limits(&order.limits);
        let call = Call { tool, arguments: &order.arguments, limits: &limits, now_millis: order.now.millis() };
        let reply = tools::call(&mut next, call);
        let (result, error) = match reply.outcome {
            Ok(result) => (Some(result), None),
            Err(error) => {
                (None, Some(ToolFailure { code: error.code.to_owned(), message: error.message, hint: error.hint }))
            }
        };
        let answer = Answer { result, error, message: reply.message };
        let done = Done { changes: reply.changes, tree_hash: tree_hash(&next), staged: stage(current, next) };
        ToolDone { answer, done }
    }
}

fn write_task_context(context: &TaskContext) -> Result<Change, ProviderError> {
    let path: WorkspacePath =
        TASK_CONTEXT_PATH.parse().map_err(|source| ProviderError::Files { source: FsError::from(source) })?;
    let mut fields = json!(context);
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    Ok(Change::Wrote { path, content: format!("{fields:#}\n").into() })
}

fn file_limits(limits: &ToolLimits) -> stead_fs::Limits {
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    stead_fs::Limits {
        write_chars: number(limits.write_chars),
        path_depth: number(limits.path_depth),
        segment_chars: number(limits.segment_chars),
        ..stead_fs::Limits::default()
    }
}

/// A tool that needs processes, where there are none.
fn no_box(tool: ToolName) -> ToolDone {
    let message = format!("Tool '{tool}' needs a box, and a memory workspace has none.");
    let hint = Some("Use an agent type whose provider runs processes, or the file tools here.".to_owned());
    let error = ToolFailure { code: "tool_unavailable".to_owned(), message: message.clone(), hint };
    let done = Done { changes: Vec::new(), tree_hash: None, staged: Staged::done() };
    ToolDone { answer: Answer { result: None, error: Some(error), message }, done }
}
