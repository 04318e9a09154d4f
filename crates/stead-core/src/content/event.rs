//! Journal events of content, runs, steps and bound calls. Part of the format of [`crate::event`].

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::binding::Operation;
use super::fault::Stage;
use super::options::Options;
use super::snapshot::{Snapshot, SnapshotRef};
use crate::config::Bounded;
use crate::event::Answer;
use crate::identity::Actor;
use crate::parse::{FieldPath, Fields, Read, words};
use crate::record::{Rules, record};
use crate::schema;
use crate::{CallId, Name, RunId};

words!(
    /// The time at which a session adopts a staged snapshot.
    ApplyMode, "apply mode", {
        /// At the start of the next run.
        NextRun = "next_run",
        /// At the next step of the active run, or at the run's end if that comes first. At once
        /// without a run.
        NextStepBoundary = "next_step_boundary",
        /// At once without an active run, otherwise at its end.
        ImmediateIfIdle = "immediate_if_idle",
    }
);

words!(
    /// The point at which a snapshot was adopted.
    ApplyPoint, "apply point", {
        SessionStart = "session_start",
        /// At once, because no run was active.
        Idle = "idle",
        RunStart = "run_start",
        StepBoundary = "step_boundary",
        RunEnd = "run_end",
    }
);

record! {
    /// Content to stage, by name or by root hash.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    SyncTarget as "SyncTarget" {
        /// Name of the content.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] workspace: Name,
        /// Version of the content. Absent for the newest.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] version: u64,
        /// Hash of the content's tree, instead of a name.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] root_hash: Bounded<1, 128>,
    }
}

impl Rules for SyncTarget {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if self.workspace.is_none() && self.root_hash.is_none() {
            fields.fail("workspace", "is required");
        }
    }

    fn restrict(schema: &mut Value) {
        schema["if"] = json!({"properties": {"root_hash": schema::absent()}});
        schema["then"] = json!({"required": ["workspace"], "properties": {"workspace": {"type": "string"}}});
    }
}

impl SyncTarget {
    pub fn named(&self) -> String {
        let name = self.workspace.as_ref().map(ToString::to_string);
        name.or_else(|| self.root_hash.clone()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncRequested {
    pub workspace_binding: SyncTarget,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_pack: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_catalog: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_version: Option<u64>,
    pub actor: Actor,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncUnchanged {
    pub workspace: Name,
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotReady {
    pub snapshot: Box<Snapshot>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncFailed {
    pub workspace: String,
    pub stage: Stage,
    pub detail: String,
    /// The actor whose request was refused at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyRequested {
    pub mode: ApplyMode,
    pub actor: Actor,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    pub mode: ApplyMode,
    pub point: ApplyPoint,
    pub snapshot: SnapshotRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<SnapshotRef>,
}

/// The staged snapshot did not fit the run at an apply point. It stays staged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyFailed {
    pub mode: ApplyMode,
    pub point: ApplyPoint,
    pub snapshot: SnapshotRef,
    pub detail: String,
}

/// Messages in the blob store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesRef {
    #[serde(rename = "ref")]
    pub digest: String,
    pub messages: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    pub run: RunId,
    pub provider: String,
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_pack: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_catalog: Option<String>,
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<MessagesRef>,
    /// The version that this run keeps, even if the session adopts another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Box<Snapshot>>,
    pub actor: Actor,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepStarted {
    pub run: RunId,
    pub step: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesRef>,
    #[serde(default, skip_serializing_if = "StepOverrides::is_empty")]
    pub overrides: StepOverrides,
    /// The snapshot that the step uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotRef>,
    /// Hash over every reference and option that determines the model request.
    pub inputs_hash: String,
}

record! {
    /// Values of one step that override those of its run.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults StepOverrides as "StepOverrides" {
        /// Prompt pack for this step.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] prompt_pack: Bounded<1, 128>,
        /// Tool catalog for this step.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] tool_catalog: Bounded<1, 128>,
        /// Options of the step's model request.
        flatten #[serde(default, skip_serializing_if = "Options::is_empty")] options: Options,
    }
}

impl Rules for StepOverrides {}

impl StepOverrides {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnded {
    pub run: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    pub actor: Actor,
}

/// A bound call was allowed. A call of a built-in tool also records its own `ToolCallStarted` next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundCallStarted {
    pub call: CallId,
    /// `None` for a call by an agent outside any run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The catalog that such an agent asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<String>,
    pub name: String,
    /// The arguments from the model. Absent if the next event contains the same arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// The model's own id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    pub operation: Operation,
    pub actor: Actor,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoundCallFinished {
    pub call: CallId,
    pub duration_ms: u64,
    pub answer: Answer,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundCallInterrupted {
    pub call: CallId,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundCallRefused {
    /// `None` for a call by an agent outside any run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The catalog that such an agent asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<String>,
    pub name: String,
    /// Absent if they were very large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    pub code: String,
    pub message: String,
    pub actor: Actor,
}

/// An event that a client may post to a session. `type` tells the two records apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventRequest {
    Sync(SyncRequest),
    Apply(ApplyRequest),
}

record! {
    /// Asks the session to read and stage a version of content.
    [Debug, Clone, PartialEq, Eq]
    SyncRequest as "WorkspaceSyncRequest" {
        /// Content to stage.
        required workspace_binding: SyncTarget,
        /// Prompt pack for runs that name none.
        optional prompt_pack: Bounded<1, 128>,
        /// Tool catalog for runs that name none.
        optional tool_catalog: Bounded<1, 128>,
        /// Version that the client already has. Nothing is staged if it is the wanted one.
        optional known_version: u64,
    }
}

impl Rules for SyncRequest {
    fn restrict(schema: &mut Value) {
        schema::tag(schema, "Type of the event.", SYNC);
    }
}

record! {
    /// Asks the session to adopt the staged content.
    [Debug, Clone, PartialEq, Eq]
    ApplyRequest as "WorkspaceApplyRequest" {
        /// Time at which the session adopts the staged content.
        default(ApplyMode::NextRun) mode: ApplyMode,
    }
}

impl Rules for ApplyRequest {
    fn restrict(schema: &mut Value) {
        schema::tag(schema, "Type of the event.", APPLY);
    }
}

const SYNC: &str = "WorkspaceSyncRequested";
const APPLY: &str = "WorkspaceApplyRequested";

impl EventRequest {
    /// Returns the JSON Schema.
    pub fn json_schema() -> Value {
        let union = schema::tagged("type", &[(SYNC, "WorkspaceSyncRequest"), (APPLY, "WorkspaceApplyRequest")]);
        schema::described("An event that a client may add to the journal.", union)
    }
}

impl Read for EventRequest {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let kind = fields.required::<String>("type")?;
        let request = match kind.as_str() {
            SYNC => SyncRequest::take(&mut fields).map(Self::Sync),
            APPLY => ApplyRequest::take(&mut fields).map(Self::Apply),
            _ => {
                fields.fail("type", format!("expected {SYNC} or {APPLY}"));
                return None;
            }
        };
        fields.done();
        request
    }
}
