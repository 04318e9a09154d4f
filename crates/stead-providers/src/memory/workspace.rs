//! One memory workspace: a persistent tree, and at most one change that waits for the journal.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use serde_json::json;
use stead_core::capability::LimitKind;
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::event::{Answer, Failure, StepReport, ToolFailure};
use stead_core::plan::Action;
use stead_core::quantity::ByteSize;
use stead_core::request::TaskContext;
use stead_core::rewind::{AbsenceReason, Checkpoint, CheckpointCost};
use stead_core::session::HashAbsence;
use stead_core::tool::ToolName;
use stead_core::{SessionId, SnapshotId, Timestamp, WorkspaceId};
use stead_eval::FileRefusal;
use stead_fs::archive::{self, ArchiveError};
use stead_fs::patch::{self, Patch};
use stead_fs::tools::{self, Call, FileTool};
use stead_fs::{Change, Filesystem, FsError, Limits, Listing, MemoryFs, PathRules, Stop, WorkspacePath};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::tree::{Kept, Tree};
use super::{compare, fill, operate};
use crate::contract::error::{OperateError, ProviderError};
use crate::contract::execs::Execs;
use crate::contract::ports::Ports;
use crate::contract::setup_cache::SetupResults;
use crate::contract::workspace::{
    ActionOrder, BoxGit, Done, FileOrder, Keep, OpenFile, Performed, PointOrder, Staged, ToolDone, ToolOrder, Workspace,
};
use crate::evaluate::{self, WorkingCopy};
use crate::overlay::layer_store::{LayerKey, LayerSlot};

/// Path of the file with the context of the agent's task.
const TASK_CONTEXT_PATH: &str = ".stead/task.json";
const MAKE_ROOM: &str = "Remove files with rm first.";

/// Maximum size of a tree whatever the disk limit says, because the tree is in the server's memory.
const LARGEST_TREE: u64 = 1 << 30;

pub(super) struct MemoryWorkspace {
    tree: Arc<Mutex<Tree>>,
    keeper: Keeper,
    enforced: Vec<LimitKind>,
}

type Current = OwnedMutexGuard<Tree>;

impl MemoryWorkspace {
    pub(super) fn new(order: &CreateOrder, tree: Tree, kept: Kept) -> Self {
        let asked = order.limits.disk.as_ref().map(ByteSize::bytes);
        let limit = asked.unwrap_or(LARGEST_TREE).min(LARGEST_TREE);
        let keeper = Keeper { owner: order.workspace, kept, limit };
        let enforced = asked.map(|_| LimitKind::Disk).into_iter().collect();
        Self { tree: Arc::new(Mutex::new(tree)), keeper, enforced }
    }

    async fn current(&self) -> Current {
        self.tree.clone().lock_owned().await
    }

    async fn files(&self) -> MemoryFs {
        self.tree.lock().await.files.clone()
    }

    fn stage(&self, current: Current, files: MemoryFs, changes: Vec<Change>) -> Done {
        stage(current, files, changes, &self.keeper)
    }

    /// Evaluates on a copy while other calls go on, then repeats the writes on the current files.
    async fn evaluate(&self, order: ToolOrder) -> ToolDone {
        let mut copy = WorkingCopy::new(self.files().await, &order, |_, _| Ok(()));
        let work = off_thread(move || (evaluate::evaluate(&order, &mut copy), order)).await;
        let Some((evaluated, order)) = work else {
            return failed("interrupted", "The evaluation was interrupted.".to_owned(), None);
        };
        let evaluation = match evaluated {
            Ok(evaluation) if evaluation.succeeded() && !evaluation.result.writes.is_empty() => evaluation,
            other => return evaluate::unchanged(other, &order.limits),
        };
        let current = self.current().await;
        let mut files = current.files.clone();
        let written = evaluate::write_again(&mut files, &evaluation.result.writes, &order).and_then(|changes| {
            let full = |full: FsError| FileRefusal {
                hint: Some(MAKE_ROOM.to_owned()),
                ..FileRefusal::new(full.code().as_str(), full.to_string())
            };
            self.keeper.check(&current.files, &files).map_err(full)?;
            Ok(changes)
        });
        match written {
            Ok(changes) => {
                let done = self.stage(current, files, changes);
                ToolDone { answer: evaluate::answer(Ok(evaluation), &order.limits), done }
            }
            Err(refusal) => evaluate::unchanged(Ok(evaluation.refuse(refusal)), &order.limits),
        }
    }
}

/// Stages a change. It holds the tree's lock until the change is published or dropped.
fn stage(mut current: Current, files: MemoryFs, changes: Vec<Change>, keeper: &Keeper) -> Done {
    let room = keeper.has_room(&current.files, &files);
    let mut next = current.with(files);
    let (tree_hash, revision) = (next.hash(), Some(next.revision));
    // The caller sets the snapshot id before it publishes, if the tree is to be kept.
    let wanted = Arc::new(OnceLock::new());
    let (kept, keeper) = (wanted.clone(), keeper.clone());
    let keep: Keep = Box::new(move |snapshot| {
        let _ = kept.set(snapshot);
    });
    let staged = Staged::new(move || {
        next.kept = wanted.get().copied();
        if let Some(snapshot) = next.kept {
            keeper.keep(snapshot, next.files.clone());
        }
        *current = next;
    });
    Done { changes, tree_hash, revision, keep: room.then_some(keep), staged, ..Done::nothing() }
}

/// The store for this workspace's snapshots.
#[derive(Clone)]
struct Keeper {
    owner: WorkspaceId,
    kept: Kept,
    /// Maximum number of bytes of the files.
    limit: u64,
}

impl Keeper {
    fn keep(&self, snapshot: SnapshotId, files: MemoryFs) {
        self.kept.keep(self.owner, snapshot, files);
    }

    /// Refuses a tree above the limit, unless it is no larger than before.
    fn check(&self, before: &MemoryFs, after: &MemoryFs) -> Result<(), FsError> {
        let used = after.used_bytes();
        let fits = used <= self.limit || used <= before.used_bytes();
        if fits { Ok(()) } else { Err(FsError::NoSpace { action: "grow", path: WorkspacePath::root() }) }
    }

    /// Returns true if one more tree can be kept. The files and all kept trees together may take
    /// twice the disk limit.
    fn has_room(&self, current: &MemoryFs, kept: &MemoryFs) -> bool {
        self.kept.has_room(self.owner, [current, kept], self.limit.saturating_mul(2))
    }

    fn no_room(&self) -> OperateError {
        let limit = self.limit;
        let reason = format!(
            "the files and their snapshots take more than twice the disk limit of {limit} bytes; nothing was changed; remove files"
        );
        OperateError::NoRoom { reason }
    }
}

/// Reads, hashes or compares whole files on a blocking thread. `None` if the work panicked or the
/// server is stopping.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

fn interrupted() -> FsError {
    let source = std::io::Error::other("the work was interrupted");
    FsError::Io { action: "read", path: WorkspacePath::root(), source }
}

#[async_trait]
impl Workspace for MemoryWorkspace {
    fn enforced_limits(&self) -> Vec<LimitKind> {
        self.enforced.clone()
    }

    fn prepare_layer(&self, key: LayerKey) -> Result<LayerSlot, ProviderError> {
        fill::draft(key)
    }

    async fn perform(&self, order: ActionOrder) -> Result<Performed, ProviderError> {
        let current = self.current().await;
        let now = order.now;
        let mut report = StepReport::default();
        let mut files = current.files.clone();
        let (action, layer) = (order.action, order.layer);
        if let Some(layer) = layer {
            let (files, report) = fill::layer(files, layer, now).await?;
            self.keeper.check(&current.files, &files).map_err(|source| ProviderError::Files { source })?;
            let changes = compare::changes(&current.files, &files).map_err(|source| ProviderError::Files { source })?;
            return Ok(Performed { done: self.stage(current, files, changes), report });
        }
        match action {
            Action::CreateWorkspace => return Ok(Performed { done: Done::nothing(), report }),
            Action::WriteTaskContext { context } => {
                let change = write_task_context(&context)?;
                files.apply(&change, now.millis()).map_err(|source| ProviderError::Files { source })?;
            }
            Action::RestoreSnapshot { snapshot, .. } => {
                files = self.keeper.kept.find(snapshot).ok_or(ProviderError::NoSnapshot { snapshot })?;
                // The files come from another session's journal, so this journal records no
                // changes.
                let done = self.stage(current, files, Vec::new());
                return Ok(Performed { done, report });
            }
            Action::HydrateMounts { mounts, allowed_host_roots } => {
                (files, report) = fill::mounts(files, mounts, allowed_host_roots, now).await?;
            }
            Action::UnpackBundle { digest, .. } => {
                let bundle = order.bundle.ok_or(ProviderError::BundleFormat)?;
                (files, report) = fill::bundle(files, bundle, digest, now).await?;
            }
            unsupported => {
                let (provider, action) = (ProviderName::Memory, unsupported.name());
                return Err(ProviderError::Unsupported { provider, action });
            }
        }
        self.keeper.check(&current.files, &files).map_err(|source| ProviderError::Files { source })?;
        let changes = compare::changes(&current.files, &files).map_err(|source| ProviderError::Files { source })?;
        Ok(Performed { done: self.stage(current, files, changes), report })
    }

    fn setup_results(&self) -> Option<&dyn SetupResults> {
        None
    }

    async fn begin(&self) -> Result<Vec<Failure>, ProviderError> {
        let mut tree = self.tree.lock().await;
        tree.base = tree.files.clone();
        Ok(Vec::new())
    }

    async fn operate(&self, order: FileOrder, now: Timestamp) -> Result<Done, OperateError> {
        let current = self.current().await;
        // The snapshot that equals the files afterwards, and the one that keeps the files from
        // before.
        let (same, before) = match &order {
            FileOrder::Snapshot { snapshot } | FileOrder::Restore { snapshot } => (Some(*snapshot), None),
            FileOrder::Rewind { before, snapshot } => (Some(*snapshot), Some((*before, current.files.clone()))),
            _ => (None, None),
        };
        let keeper = self.keeper.clone();
        let keeps_more = matches!(order, FileOrder::Snapshot { .. } | FileOrder::Rewind { .. });
        if keeps_more && !keeper.has_room(&current.files, &current.files) {
            return Err(keeper.no_room());
        }
        let work = off_thread(move || {
            let operated = operate::operate(current.files.clone(), &keeper.kept, keeper.limit, order, now)?;
            keeper.check(&current.files, &operated.files)?;
            // Stage here, on the blocking thread, because it hashes the new tree.
            let done = stage(current, operated.files, operated.changes, &keeper);
            Ok::<_, OperateError>(Done { placement: operated.placement, ..done })
        });
        let mut done = work.await.ok_or(OperateError::Interrupted)??;
        if let (Some(snapshot), Some(keep)) = (same, done.keep.take()) {
            keep(snapshot);
        }
        if let Some((before, files)) = before {
            let keeper = self.keeper.clone();
            done.staged = done.staged.and(move || keeper.keep(before, files));
        }
        Ok(done)
    }

    async fn point(&self, order: PointOrder, done: &mut Done) -> Result<(), ProviderError> {
        if order.points < CheckpointCost::Free {
            return Ok(());
        }
        if let Some(keep) = done.keep.take() {
            keep(order.snapshot);
            done.point = Some(Checkpoint::Kept(order.snapshot));
        } else if done.revision.is_some() {
            done.point = Some(Checkpoint::Absent(AbsenceReason::Failed));
        } else {
            // The call changed nothing, so the tree may already be kept.
            let mut tree = self.tree.lock().await;
            if tree.kept.is_none() && !self.keeper.has_room(&tree.files, &tree.files) {
                done.point = Some(Checkpoint::Absent(AbsenceReason::Failed));
                return Ok(());
            }
            let kept = *tree.kept.get_or_insert(order.snapshot);
            if kept == order.snapshot {
                self.keeper.keep(kept, tree.files.clone());
                done.revision = Some(tree.revision);
            }
            done.point = Some(Checkpoint::Kept(kept));
        }
        Ok(())
    }

    async fn forget(&self, snapshots: Vec<SnapshotId>) -> Result<(), ProviderError> {
        self.keeper.kept.drop_all(self.keeper.owner, &snapshots);
        Ok(())
    }

    async fn hash_snapshot(&self, _snapshot: SnapshotId, _stop: Stop) -> Result<String, HashAbsence> {
        // Every snapshot in memory has its hash at once.
        Err(HashAbsence::Failed)
    }

    async fn retain(&self, wanted: BTreeSet<SnapshotId>) -> Result<(), ProviderError> {
        self.keeper.kept.retain(self.keeper.owner, &wanted);
        Ok(())
    }

    async fn open_within(&self, path: &str, most_bytes: u64) -> Result<OpenFile, FsError> {
        let (path, files) = (existing_path(path)?, self.files().await);
        let (content, stat) = (files.open_read(&path)?, files.stat(&path)?);
        if stat.size > most_bytes {
            return Err(FsError::TooLarge { path, size: stat.size, limit: most_bytes });
        }
        Ok(OpenFile { stat, hash: files.hash(&path)?, content })
    }

    async fn list(&self, path: &str) -> Result<Listing, FsError> {
        self.files().await.list(&existing_path(path)?, usize::MAX)
    }

    async fn export(&self, path: &str, out: File) -> Result<(), ArchiveError> {
        let (path, files) = (existing_path(path).map_err(ArchiveError::from)?, self.files().await);
        let exported = off_thread(move || {
            let mut out = BufWriter::with_capacity(256 << 10, out);
            archive::export_tar(&files, &path, &mut out)?;
            Ok(out.flush()?)
        })
        .await;
        exported.unwrap_or_else(|| Err(interrupted().into()))
    }

    async fn tree_hash(&self) -> Option<String> {
        self.tree.lock().await.hash()
    }

    async fn diff(&self, options: patch::Options) -> Result<Patch, FsError> {
        let tree = self.tree.lock().await.clone();
        let compared = off_thread(move || patch::between(&tree.base, &tree.files, &options)).await;
        compared.unwrap_or_else(|| Err(interrupted()))
    }

    async fn diff_at(&self, snapshot: SnapshotId, options: patch::Options) -> Result<Patch, FsError> {
        let base = self.tree.lock().await.base.clone();
        let files = self.keeper.kept.find(snapshot).ok_or_else(interrupted)?;
        let compared = off_thread(move || patch::between(&base, &files, &options)).await;
        compared.unwrap_or_else(|| Err(interrupted()))
    }

    fn git(&self) -> Option<&dyn BoxGit> {
        None
    }

    async fn call(&self, order: ToolOrder) -> ToolDone {
        if order.tool == ToolName::Eval {
            return self.evaluate(order).await;
        }
        let Ok(tool) = order.tool.as_str().parse::<FileTool>() else { return no_box(order.tool) };
        let current = self.current().await;
        let mut files = current.files.clone();
        // A search through many files would block every other session on this thread.
        let called = off_thread(move || {
            let limits = Limits::from(&order.limits);
            let call = Call { tool, arguments: &order.arguments, limits: &limits, now_millis: order.now.millis() };
            let reply = tools::call(&mut files, call);
            (files, reply)
        });
        let Some((files, reply)) = called.await else {
            return failed("interrupted", "The call was interrupted.".to_owned(), None);
        };
        let (result, error) = match reply.outcome {
            Ok(result) => (Some(result), None),
            Err(error) => {
                (None, Some(ToolFailure { code: error.code.to_owned(), message: error.message, hint: error.hint }))
            }
        };
        let answer = Answer { result, error, message: reply.message };
        if reply.changes.is_empty() {
            return ToolDone { answer, done: Done::nothing() };
        }
        if let Err(full) = self.keeper.check(&current.files, &files) {
            return failed(full.code().as_str(), full.to_string(), Some(MAKE_ROOM.to_owned()));
        }
        ToolDone { answer, done: self.stage(current, files, reply.changes) }
    }

    async fn end_shell(&self, _session: SessionId) {}

    fn execs(&self) -> Option<&dyn Execs> {
        None
    }

    fn ports(&self) -> Option<&dyn Ports> {
        None
    }
}

/// Parses a path of the file API. The rules for new names apply to the tools only.
pub(super) fn existing_path(text: &str) -> Result<WorkspacePath, FsError> {
    Ok(WorkspacePath::parse(text, &PathRules::existing())?)
}

fn write_task_context(context: &TaskContext) -> Result<Change, ProviderError> {
    let path = existing_path(TASK_CONTEXT_PATH).map_err(|source| ProviderError::Files { source })?;
    let mut fields = json!(context);
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    Ok(Change::Wrote { path, content: format!("{fields:#}\n").into() })
}

fn failed(code: &str, message: String, hint: Option<String>) -> ToolDone {
    let error = ToolFailure { code: code.to_owned(), message: message.clone(), hint };
    ToolDone { answer: Answer { result: None, error: Some(error), message }, done: Done::nothing() }
}

/// The answer to a tool that needs processes, which a memory workspace does not have.
fn no_box(tool: ToolName) -> ToolDone {
    let message = format!("Tool '{tool}' needs a box, and a memory workspace has none.");
    let hint = match tool {
        ToolName::Python => {
            "The tool eval evaluates a little Python here; for a real one use an agent type whose provider runs processes."
        }
        _ => "Use an agent type whose provider runs processes, or the file tools here.",
    };
    let hint = hint.to_owned();
    failed("tool_unavailable", message, Some(hint))
}
