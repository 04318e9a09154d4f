//! One workspace in a box, through its socket. Short requests share a connection; each file request
//! has its own.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use stead_box::BoxError;
use stead_box::protocol::{Answer as BoxAnswer, FileAsk, FileStat, IfMissing, IfThere, NewContent, ToolCall};
use stead_core::box_facts::BoxFacts;
use stead_core::capability::LimitKind;
use stead_core::event::{Answer, Existing, Failure, Parents, StepReport, ToolFailure};
use stead_core::plan::Action;
use stead_core::rewind::{AbsenceReason, Checkpoint, CheckpointCost, Touched};
use stead_core::session::HashAbsence;
use stead_core::setup_cache::{SetupInputs, SetupKey};
use stead_core::tool::ToolName;
use stead_core::{CallId, SessionId, SnapshotId, Timestamp};
use stead_fs::archive::{self, ArchiveError, ArchiveFormat, ArchiveLimits};
use stead_fs::patch::{self, Patch};
use stead_fs::tools::FileTool;
use stead_fs::{Content, ContentHash, Entry, FsError, Limits, Listing, Stop, WorkspacePath};

use super::execs::GuestExecs;
use super::guest_box::{GuestBox, MountOrder, SetupLayers, mounts_fill};
use super::mux_client::{Alone, CHECKPOINT_WAITS, MuxClient, SNAPSHOT_WAITS};
use super::ports::GuestPorts;
use super::reply::{broken, failed, fs_error, operate_error};
use super::shell::Shells;
use super::{arguments, command, evaluate, git, off_thread};
use crate::contract::error::{OperateError, ProviderError};
use crate::contract::execs::Execs;
use crate::contract::network::LentNetworks;
use crate::contract::ports::Ports;
use crate::contract::setup_cache::{KeepSetupOrder, SetupKept, SetupPosition, SetupResults};
use crate::contract::workspace::{
    ActionOrder, BoxGit, Done, FileOrder, GitOrder, GitRan, OpenFile, Performed, Placement, PointOrder, ToolDone,
    ToolOrder, Workspace,
};
use crate::fill;
use crate::overlay::layer_store::{LayerKey, LayerReport, LayerSlot};

/// Path of the file with the context of the agent's task.
const TASK_CONTEXT_PATH: &str = ".stead/task.json";
/// Maximum number of bytes that a box may write into a file of the server: an archive or one file
/// of the workspace.
pub(super) const MOST_BYTES: u64 = 64 << 30;
/// Timeout of a file tool.
const TOOL_TIMEOUT_MS: u64 = 60_000;

pub(crate) struct GuestWorkspace {
    inner: Arc<Inner>,
    client: Arc<MuxClient>,
    execs: GuestExecs,
    ports: GuestPorts,
    shells: Shells,
}

pub(super) struct Inner {
    guest_box: Arc<dyn GuestBox>,
}

impl GuestWorkspace {
    pub(crate) fn new(guest_box: impl GuestBox) -> Self {
        let guest_box: Arc<dyn GuestBox> = Arc::new(guest_box);
        let client = Arc::new(MuxClient::new(guest_box.clone()));
        let execs = GuestExecs::new(guest_box.clone(), client.clone());
        let ports = GuestPorts::new(guest_box.clone(), client.clone());
        Self { inner: Arc::new(Inner { guest_box }), client, execs, ports, shells: Shells::default() }
    }

    async fn with<T: Send + 'static>(&self, work: impl FnOnce(&Inner) -> T + Send + 'static) -> Option<T> {
        let _used = self.client.use_box().await;
        self.with_alone(work).await
    }

    /// For callers that have exclusive use of the box, or that need no guard against its end.
    async fn with_alone<T: Send + 'static>(&self, work: impl FnOnce(&Inner) -> T + Send + 'static) -> Option<T> {
        let inner = self.inner.clone();
        off_thread(move || Ok(work(&inner))).await.ok()
    }

    async fn call_tool(&self, order: ToolOrder) -> ToolDone {
        let parsed = match order.tool {
            ToolName::Bash => arguments::bash(&order.arguments, &order.limits),
            ToolName::Python => arguments::python(&order.arguments, &order.limits),
            ToolName::Shell => {
                let ToolOrder { call, session, arguments, limits, .. } = order;
                return match arguments::shell(&arguments, &limits) {
                    Ok(wanted) => self.shells.run(&self.client, session, call, wanted, &limits).await,
                    Err(message) => failed("invalid_argument", message, None),
                };
            }
            ToolName::Eval => {
                let done = self.with(move |inner| evaluate::evaluate(inner, &order)).await;
                return done.unwrap_or_else(|| broken(&interrupted()));
            }
            tool if tool.as_str().parse::<FileTool>().is_ok() => {
                let done = self.with(|inner| inner.file_tool(order)).await;
                return done.unwrap_or_else(|| broken(&interrupted()));
            }
            tool => {
                let message =
                    format!("Tool '{tool}' is not offered by {} workspaces yet.", self.inner.guest_box.provider());
                return failed("tool_unavailable", message, None);
            }
        };
        match parsed {
            Ok(command) => command::run(&self.client, order.call.to_string(), command, &order.limits).await,
            Err(message) => failed("invalid_argument", message, None),
        }
    }
}

impl GuestWorkspace {
    /// Saves the output of ended commands if a snapshot would stop the otherwise idle box.
    async fn let_rest(&self, alone: &Alone<'_>) {
        if self.with_alone(|inner| inner.guest_box.ends_for_a_snapshot()).await == Some(true) {
            self.execs.cache_finished(alone).await;
            self.shells.suspend(alone).await;
        }
    }

    /// Takes or restores a snapshot, which may stop the box or replace its files. Requests for
    /// files that were made before are answered first, and later ones wait. After a timeout this
    /// goes on without exclusive use: a long export then fails if it loses its box.
    async fn operate_alone(&self, order: FileOrder) -> Option<Result<Operated, OperateError>> {
        if !matches!(order, FileOrder::Snapshot { .. }) {
            // A shell would keep directories and variables of files that are replaced.
            self.shells.end(&self.client).await;
        }
        let alone = self.client.alone(SNAPSHOT_WAITS).await;
        if let (FileOrder::Snapshot { .. }, Some(alone)) = (&order, &alone) {
            self.let_rest(alone).await;
        }
        let operated = self.with_alone(|inner| inner.operate(order)).await;
        self.client.reconnect().await;
        operated
    }

    async fn keep_point(&self, order: PointOrder) -> Result<(Option<Touched>, Checkpoint), ProviderError> {
        let Some(alone) = self.client.alone(CHECKPOINT_WAITS).await else {
            return Ok((None, Checkpoint::Absent(AbsenceReason::AtWork)));
        };
        let interrupted = || ProviderError::Interrupted;
        let looked = self.with_alone(|inner| inner.guest_box.look()).await.ok_or_else(interrupted)??;
        if let Some(snapshot) = looked.same {
            return Ok((None, Checkpoint::Kept(snapshot)));
        }
        if looked.touched.is_some() {
            // The checkpoint may stop the box, which would lose the output it keeps for later
            // readers, and the shells.
            self.execs.cache_finished(&alone).await;
            self.shells.suspend(&alone).await;
        }
        let point = self.with_alone(move |inner| inner.guest_box.point(order)).await;
        alone.hang_up().await;
        Ok((looked.touched, point.ok_or_else(interrupted)??))
    }
}

impl Inner {
    fn files(&self, ask: FileAsk, file: Option<&File>) -> Result<(BoxAnswer, Vec<u8>), BoxError> {
        self.guest_box.connect()?.files(ask, file)
    }

    fn put(&self, path: &str, content: &[u8]) -> Result<(), BoxError> {
        let mut file = self.guest_box.scratch().file().map_err(BoxError::Lost)?;
        std::io::Write::write_all(&mut file, content).map_err(BoxError::Lost)?;
        let path = path.to_owned();
        let ask = FileAsk::Put { path, if_match: None, existing: IfThere::Replace, parents: IfMissing::Make };
        self.files(ask, Some(&file)).map(drop)
    }

    /// Reads a file of at most `most_bytes` bytes and its hash.
    pub(super) fn read_small(&self, path: &str, most_bytes: u64) -> Result<(Vec<u8>, ContentHash), BoxError> {
        let mut copy = self.guest_box.scratch().file().map_err(BoxError::Lost)?;
        let ask = FileAsk::Open { path: path.to_owned(), most_bytes };
        let (BoxAnswer::Opened { hash, .. }, _) = self.files(ask, Some(&copy))? else { return Err(nonsense()) };
        let mut bytes = Vec::new();
        let read = copy.rewind().and_then(|()| copy.take(most_bytes).read_to_end(&mut bytes));
        read.map_err(BoxError::Lost)?;
        Ok((bytes, hash.parse().map_err(|_| nonsense())?))
    }

    /// Writes all files or none. The error names one of them.
    pub(super) fn put_all(&self, new: Vec<(NewContent, Bytes)>) -> Result<(), (String, OperateError)> {
        let Some((first, _)) = new.first() else { return Ok(()) };
        let first = first.path.clone();
        let failed = |error: BoxError| (first.clone(), operate_error(&first, error));
        let mut file = self.guest_box.scratch().file().map_err(|error| failed(BoxError::Lost(error)))?;
        let mut files = Vec::with_capacity(new.len());
        for (content, bytes) in new {
            std::io::Write::write_all(&mut file, &bytes).map_err(|error| failed(BoxError::Lost(error)))?;
            files.push(content);
        }
        let sent: Vec<String> = files.iter().map(|content| content.path.clone()).collect();
        match self.files(FileAsk::PutAll { files }, Some(&file)).map_err(failed)?.0 {
            BoxAnswer::Done => Ok(()),
            BoxAnswer::Unplaced { path, error } if sent.contains(&path) => {
                let error = operate_error(&path, BoxError::Guest(error));
                Err((path, error))
            }
            _ => Err(failed(nonsense())),
        }
    }

    fn perform(&self, order: ActionOrder) -> Result<StepReport, ProviderError> {
        if let Some(layer) = order.layer {
            self.guest_box.lay(&layer)?;
            return Ok(StepReport::default());
        }
        match order.action {
            Action::CreateWorkspace => {}
            Action::WriteTaskContext { context } => {
                let mut fields = json!(context);
                if let Some(fields) = fields.as_object_mut() {
                    fields.retain(|_, value| !value.is_null());
                }
                let text = format!("{fields:#}\n");
                if !self.guest_box.write_text(TASK_CONTEXT_PATH, &text)? {
                    self.put(TASK_CONTEXT_PATH, text.as_bytes())?;
                }
            }
            Action::RunSetupCommand { number, command, timeout_seconds } => {
                let (command, env, output) = (command.as_str(), &order.env, &order.output);
                let setup = command::SetupOrder { number, command, timeout_seconds, env, output };
                let report = command::set_up(&*self.guest_box, &setup)?;
                return Ok(StepReport { setup: Some(Box::new(report)), ..StepReport::default() });
            }
            Action::RestoreSnapshot { snapshot, .. } => {
                if !self.guest_box.restore(snapshot)? {
                    return Err(ProviderError::NoSnapshot { snapshot });
                }
            }
            Action::HydrateMounts { mounts, allowed_host_roots } => {
                return self.guest_box.fill(mounts_fill(mounts, &allowed_host_roots));
            }
            Action::UnpackBundle { digest, .. } => {
                return self.unpack_bundle(order.bundle.ok_or(ProviderError::BundleFormat)?, digest);
            }
            Action::MountDirectory { host_path, mode, allowed_host_roots, allowed_root_owned_mounts } => {
                let order = MountOrder { host_path, mode, allowed_host_roots, allowed_root_owned_mounts };
                let (provider, action) = (self.guest_box.provider(), "mount_directory");
                let mounts = self.guest_box.host_mounts().ok_or(ProviderError::Unsupported { provider, action })?;
                return mounts.mount(order);
            }
            unsupported => {
                let (provider, action) = (self.guest_box.provider(), unsupported.name());
                return Err(ProviderError::Unsupported { provider, action });
            }
        }
        Ok(StepReport::default())
    }

    /// Makes the bundle a layer, once for each key, and puts it at the root.
    fn unpack_bundle(&self, mut bundle: File, digest: Option<String>) -> Result<StepReport, ProviderError> {
        let key = fill::bundle_key(&mut bundle, digest.as_deref())?;
        let layer = match self.guest_box.prepare_layer(key)? {
            LayerSlot::Ready(layer) => layer,
            LayerSlot::Empty(draft) => fill::bundle_layer(bundle, digest, draft)?,
        };
        self.guest_box.lay(&layer)?;
        match layer.report {
            LayerReport::Bundle { bundle } => Ok(StepReport { bundle: Some(bundle), ..StepReport::default() }),
            _ => Err(ProviderError::LayerReport { key: layer.key }),
        }
    }

    fn operate(&self, order: FileOrder) -> Result<Operated, OperateError> {
        match order {
            FileOrder::Put { path, content, bytes: _, if_match, existing, parents } => {
                let existing = match existing {
                    Existing::Refuse => IfThere::Refuse,
                    _ => IfThere::Replace,
                };
                let parents = match parents {
                    Parents::Require => IfMissing::Refuse,
                    _ => IfMissing::Make,
                };
                let ask = FileAsk::Put { path: path.clone(), if_match, existing, parents };
                self.files(ask, Some(&content)).map(placed).map_err(|error| operate_error(&path, error))
            }
            FileOrder::Unpack { path, mut archive } => {
                self.judge(&mut archive)?;
                let ask = FileAsk::Unpack { path: path.clone() };
                self.files(ask, Some(&archive)).map(placed).map_err(|error| operate_error(&path, error))
            }
            FileOrder::MakeDirectory { path } => {
                let ask = FileAsk::MakeDirectory { path: path.clone() };
                self.files(ask, None).map(placed).map_err(|error| operate_error(&path, error))
            }
            FileOrder::Delete { path, if_match } => {
                let ask = FileAsk::Delete { path: path.clone(), if_match };
                self.files(ask, None).map(placed).map_err(|error| operate_error(&path, error))
            }
            FileOrder::Snapshot { snapshot } => {
                let snapshot_hash = self.guest_box.snapshot_with_hash(snapshot).map_err(kept_error)?;
                Ok(Operated { placement: None, snapshot_hash: Some(snapshot_hash) })
            }
            FileOrder::Restore { snapshot } => restored(self.guest_box.restore(snapshot), snapshot),
            FileOrder::Rewind { before, snapshot } => {
                self.guest_box.keep_before_rewind(before).map_err(kept_error)?;
                restored(self.guest_box.rewind(snapshot), snapshot)
            }
        }
    }

    /// Checks an archive on the server, where each refusal has its own error, before the box
    /// unpacks it.
    fn judge(&self, archive: &mut File) -> Result<(), OperateError> {
        let mut start = Vec::new();
        let read = archive.rewind().and_then(|()| archive.take(512).read_to_end(&mut start));
        read.map_err(ArchiveError::from)?;
        let format = ArchiveFormat::of_content(&start).ok_or(OperateError::ArchiveFormat)?;
        Ok(archive::check(archive, format, &ArchiveLimits::default())?)
    }

    fn open(&self, path: &str, most_bytes: u64) -> Result<OpenFile, BoxError> {
        let mut copy = self.guest_box.scratch().file().map_err(BoxError::Lost)?;
        let ask = FileAsk::Open { path: path.to_owned(), most_bytes: most_bytes.min(MOST_BYTES) };
        let (BoxAnswer::Opened { stat, hash }, _) = self.files(ask, Some(&copy))? else { return Err(nonsense()) };
        let hash = hash.parse().map_err(|_| nonsense())?;
        // Use the size of the copy: the box's own statement is untrusted.
        let size = copy.metadata().map_err(BoxError::Lost)?.len();
        copy.rewind().map_err(BoxError::Lost)?;
        let content = Content::Stream { reader: Box::new(copy), size };
        Ok(OpenFile { stat: FileStat { size, ..stat }.into(), hash, content })
    }

    fn list(&self, path: &str) -> Result<Listing, BoxError> {
        let (BoxAnswer::Listing { total }, body) = self.files(FileAsk::List { path: path.to_owned() }, None)? else {
            return Err(nonsense());
        };
        let entries: Vec<(WorkspacePath, FileStat)> = serde_json::from_slice(&body).map_err(|_| nonsense())?;
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        let entries = entries.into_iter().map(|(path, stat)| Entry { path, stat: stat.into() }).collect();
        Ok(Listing { entries, total })
    }

    fn file_tool(&self, order: ToolOrder) -> ToolDone {
        let limits = Limits::from(&order.limits);
        let (tool, now_millis) = (order.tool.as_str().to_owned(), order.now.millis());
        let call = ToolCall { tool, arguments: order.arguments, limits, now_millis, timeout_ms: TOOL_TIMEOUT_MS };
        let reply = match self.guest_box.connect().and_then(|mut connection| connection.tool(call)) {
            Ok(reply) => reply,
            Err(error) => return broken(&error),
        };
        let failure = reply.code.map(|code| ToolFailure { code, message: reply.message.clone(), hint: reply.hint });
        let answer = Answer { result: reply.result, error: failure, message: reply.message };
        ToolDone { answer, done: Done::nothing() }
    }
}

fn restored(found: Result<bool, ProviderError>, snapshot: SnapshotId) -> Result<Operated, OperateError> {
    match found {
        Ok(true) => Ok(Operated::default()),
        Ok(false) => Err(OperateError::NoSnapshot { snapshot }),
        Err(error) => Err(kept_error(error)),
    }
}

/// Converts an error of a snapshot or restore.
fn kept_error(error: ProviderError) -> OperateError {
    match error {
        ProviderError::Box { source } => operate_error("", source),
        ProviderError::Unsupported { .. } => OperateError::Unsupported,
        ProviderError::HostDirectory => OperateError::HostDirectory,
        full @ (ProviderError::NoRoom { .. } | ProviderError::VolumeFull | ProviderError::TreeTooLarge { .. }) => {
            OperateError::NoRoom { reason: full.to_string() }
        }
        ProviderError::NoSnapshot { snapshot } => OperateError::NoSnapshot { snapshot },
        other => operate_error("", BoxError::Lost(std::io::Error::other(other.to_failure().message))),
    }
}

/// The result of an operation on the files of a box.
#[derive(Default)]
struct Operated {
    placement: Option<Placement>,
    snapshot_hash: Option<Result<String, HashAbsence>>,
}

fn placed((answer, _): (BoxAnswer, Vec<u8>)) -> Operated {
    let placement = match answer {
        BoxAnswer::Placed { existed: true } => Some(Placement::Replaced),
        BoxAnswer::Placed { existed: false } => Some(Placement::Created),
        _ => None,
    };
    Operated { placement, snapshot_hash: None }
}

/// The box violated the protocol.
fn nonsense() -> BoxError {
    stead_box::protocol::ProtocolError::Unexpected { what: "to a file request" }.into()
}

fn interrupted() -> BoxError {
    BoxError::Lost(std::io::Error::other("the work was interrupted"))
}

#[async_trait]
impl Workspace for GuestWorkspace {
    fn made(&self) -> BoxFacts {
        self.inner.guest_box.made()
    }

    fn enforced_limits(&self) -> Vec<LimitKind> {
        self.inner.guest_box.enforced_limits()
    }

    fn prepare_layer(&self, key: LayerKey) -> Result<LayerSlot, ProviderError> {
        self.inner.guest_box.prepare_layer(key)
    }

    async fn perform(&self, order: ActionOrder) -> Result<Performed, ProviderError> {
        let report = self.with(|inner| inner.perform(order)).await.ok_or(ProviderError::Interrupted)??;
        Ok(Performed { done: Done::nothing(), report })
    }

    fn setup_results(&self) -> Option<&dyn SetupResults> {
        self.inner.guest_box.setup_layers().map(|_| self as &dyn SetupResults)
    }

    async fn begin(&self) -> Result<Vec<Failure>, ProviderError> {
        self.with(|inner| inner.guest_box.begin()).await.unwrap_or(Err(ProviderError::Interrupted))
    }

    async fn operate(&self, order: FileOrder, _now: Timestamp) -> Result<Done, OperateError> {
        let operated = match order {
            FileOrder::Snapshot { .. } | FileOrder::Restore { .. } | FileOrder::Rewind { .. } => {
                self.operate_alone(order).await
            }
            order => self.with(|inner| inner.operate(order)).await,
        };
        let Operated { placement, snapshot_hash } = operated.ok_or(OperateError::Interrupted)??;
        Ok(Done { placement, snapshot_hash, ..Done::nothing() })
    }

    async fn point(&self, order: PointOrder, done: &mut Done) -> Result<(), ProviderError> {
        if order.points >= CheckpointCost::Layers {
            let (touched, point) = self.keep_point(order).await?;
            (done.touched, done.point) = (touched, Some(point));
        }
        Ok(())
    }

    async fn changed_unnoticed(&self) -> Result<bool, ProviderError> {
        let changed = self.with(|inner| inner.guest_box.changed_unnoticed()).await;
        changed.unwrap_or(Err(ProviderError::Interrupted))
    }

    async fn forget(&self, snapshots: Vec<SnapshotId>) -> Result<(), ProviderError> {
        // Deleting snapshots does not involve the box.
        let forgotten = self.with_alone(move |inner| inner.guest_box.forget(&snapshots)).await;
        forgotten.unwrap_or(Err(ProviderError::Interrupted))
    }

    async fn hash_snapshot(&self, snapshot: SnapshotId, stop: Stop) -> Result<String, HashAbsence> {
        let hashed = self.with_alone(move |inner| inner.guest_box.hash_of_snapshot(snapshot, &stop)).await;
        hashed.unwrap_or(Err(HashAbsence::Failed))
    }

    async fn retain(&self, wanted: BTreeSet<SnapshotId>) -> Result<(), ProviderError> {
        let kept = self.with_alone(|inner| inner.guest_box.snapshots()).await.ok_or(ProviderError::Interrupted)??;
        self.forget(kept.into_iter().filter(|snapshot| !wanted.contains(snapshot)).collect()).await
    }

    async fn open_within(&self, path: &str, most_bytes: u64) -> Result<OpenFile, FsError> {
        let name = path.to_owned();
        let opened = self.with(move |inner| inner.open(&name, most_bytes)).await;
        opened.unwrap_or_else(|| Err(interrupted())).map_err(|error| match fs_error(path, error) {
            FsError::TooLarge { path, size, limit } => FsError::TooLarge { path, size, limit: limit.min(most_bytes) },
            error => error,
        })
    }

    async fn list(&self, path: &str) -> Result<Listing, FsError> {
        let name = path.to_owned();
        let listed = self.with(move |inner| inner.list(&name)).await;
        listed.unwrap_or_else(|| Err(interrupted())).map_err(|error| fs_error(path, error))
    }

    async fn export(&self, path: &str, out: File) -> Result<(), ArchiveError> {
        let below = path.to_owned();
        let exported = self.with(move |inner| inner.guest_box.connect()?.export(&below, MOST_BYTES, &out)).await;
        exported.unwrap_or_else(|| Err(interrupted())).map_err(|error| fs_error(path, error))?;
        Ok(())
    }

    async fn stamp(&self) -> Option<String> {
        // Ignore a box that does not answer: reading the files reports it.
        self.with(|inner| inner.guest_box.stamp()).await?.ok()?
    }

    async fn diff(&self, options: patch::Options) -> Result<Patch, FsError> {
        let compared = self.with(move |inner| inner.guest_box.compare(options)).await;
        compared.unwrap_or_else(|| Err(interrupted())).map_err(|error| fs_error("", error))
    }

    async fn diff_at(&self, snapshot: SnapshotId, options: patch::Options) -> Result<Patch, FsError> {
        let compared = self.with(move |inner| inner.guest_box.compare_snapshot(snapshot, options)).await;
        compared.unwrap_or_else(|| Err(interrupted())).map_err(|error| fs_error("", error))
    }

    fn git(&self) -> Option<&dyn BoxGit> {
        Some(self)
    }

    async fn call(&self, order: ToolOrder) -> ToolDone {
        self.call_tool(order).await
    }

    fn network(&self) -> Option<LentNetworks> {
        self.inner.guest_box.network()
    }

    fn execs(&self) -> Option<&dyn Execs> {
        Some(&self.execs)
    }

    fn ports(&self) -> Option<&dyn Ports> {
        Some(&self.ports)
    }

    async fn cancel(&self, call: CallId) {
        // A missing command has ended, or its box has. Either way the call returns.
        let _ = self.with(move |inner| inner.guest_box.connect()?.kill(&call.to_string())).await;
    }

    async fn end_shell(&self, session: SessionId) {
        self.shells.end_one(&self.client, session).await;
    }
}

impl GuestWorkspace {
    async fn with_setup_layers<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn SetupLayers) -> Result<T, ProviderError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let done = self.with(move |inner| {
            let (provider, action) = (inner.guest_box.provider(), "restore_setup");
            work(inner.guest_box.setup_layers().ok_or(ProviderError::Unsupported { provider, action })?)
        });
        let done = done.await.unwrap_or(Err(ProviderError::Interrupted));
        // The box may have ended.
        self.client.reconnect().await;
        done
    }
}

#[async_trait]
impl SetupResults for GuestWorkspace {
    async fn inputs(&self, files: Vec<String>) -> Result<SetupInputs, ProviderError> {
        self.with_setup_layers(move |layers| layers.inputs(&files)).await
    }

    async fn restore(&self, key: SetupKey, place: SetupPosition) -> Result<Option<String>, ProviderError> {
        self.with_setup_layers(move |layers| layers.restore(&key, place)).await
    }

    async fn keep(&self, order: KeepSetupOrder) -> Result<SetupKept, ProviderError> {
        self.with_setup_layers(move |layers| layers.keep(order)).await
    }
}

#[async_trait]
impl BoxGit for GuestWorkspace {
    async fn run(&self, order: GitOrder) -> Result<GitRan, ProviderError> {
        let ran = self.with(|inner| git::run(&*inner.guest_box, order)).await;
        ran.unwrap_or(Err(ProviderError::Interrupted))
    }

    async fn kill(&self, exec: &str) {
        let exec = exec.to_owned();
        // A missing command has ended, or its box has. Either way no process of it runs.
        let _ = self.with(move |inner| inner.guest_box.connect()?.kill(&exec)).await;
    }
}
