//! A session, and its state as the journal folds it.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use stead_core::content::state::SyncFailure;
use stead_core::content::{ApplyMode, ContentState};
use stead_core::event::{CloseReason, Failure};
use stead_core::request::Task;
use stead_core::session::Warning;
use stead_core::{Name, Rejection, SessionId, State, Status, Timestamp};
use stead_engine::OpError;
use utoipa::ToSchema;

use crate::schema;
use crate::wire::content::ContentSnapshot;
use crate::wire::provisioning::Provisioning;
use crate::wire::workspace::Workspace;

#[derive(Serialize, ToSchema)]
pub(crate) struct Session {
    #[schema(value_type = schema::SessionId)]
    pub(crate) id: SessionId,
    #[schema(value_type = schema::Name)]
    agent_type: Name,
    #[schema(value_type = Option<schema::Name>, required = true)]
    project: Option<Name>,
    #[schema(value_type = SessionStatus)]
    pub(crate) status: Status,
    /// It runs without the workspace it should have; the warnings say why.
    degraded: bool,
    warnings: Vec<Notice>,
    #[schema(required = true)]
    workspace: Option<Workspace>,
    /// Where the time went until the workspace was ready, or no provider was left; `null` without a workspace to make.
    #[schema(required = true)]
    provisioning: Option<Provisioning>,
    content: Content,
    #[schema(value_type = schema::Task)]
    task: Task,
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    #[schema(required = true)]
    failure: Option<Notice>,
    #[schema(value_type = Option<String>, required = true)]
    close_reason: Option<CloseReason>,
    /// The last event's number.
    #[schema(minimum = 1)]
    seq: u64,
    #[schema(value_type = schema::Timestamp)]
    created_at: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    expires_at: Timestamp,
    /// Good for this session's tools, files and events only; given once, when it is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) token: Option<String>,
}

#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "it only names the values of stead_core::Status in the document")]
pub(crate) enum SessionStatus {
    Provisioning,
    Active,
    Closing,
    Closed,
    Failed,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Notice {
    code: String,
    message: String,
}

impl From<Failure> for Notice {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code, message: failure.message }
    }
}

impl From<Warning> for Notice {
    fn from(warning: Warning) -> Self {
        Self { code: warning.code, message: warning.message }
    }
}

/// Which content a session works with, and which is staged.
#[derive(Serialize, ToSchema)]
struct Content {
    #[schema(required = true)]
    active: Option<ContentSnapshot>,
    #[schema(required = true)]
    pending: Option<ContentSnapshot>,
    /// When the staged one is to be adopted.
    #[schema(value_type = Option<String>, required = true)]
    armed: Option<ApplyMode>,
    /// Why the last sync staged nothing.
    #[schema(value_type = Option<Object>, required = true)]
    sync_failure: Option<SyncFailure>,
}

impl Content {
    fn of(content: &ContentState) -> Self {
        Self {
            active: content.active.as_deref().map(ContentSnapshot::from),
            pending: content.pending.as_deref().map(ContentSnapshot::from),
            armed: content.armed,
            sync_failure: content.sync_failure.clone(),
        }
    }
}

impl Session {
    /// A session that was opened has its first event; one without is as good as none.
    pub(crate) fn of(state: State) -> Result<Self, OpError> {
        let State { seq, session } = state;
        let session = session.ok_or(Rejection::OutOfTurn { what: "it does not exist" })?;
        let workspace = Workspace::of(&session);
        let provisioning = session.workspace.as_ref().map(|workspace| Provisioning::of(&workspace.timeline));
        let spec = &session.spec;
        Ok(Self {
            id: session.id,
            agent_type: spec.agent_type.clone(),
            project: spec.project.clone(),
            status: session.status,
            degraded: session.degraded,
            warnings: session.warnings.iter().cloned().map(Notice::from).collect(),
            workspace,
            provisioning,
            content: Content::of(&session.content),
            task: spec.task.clone(),
            metadata: spec.metadata.clone(),
            failure: session.failure.clone().map(Notice::from),
            close_reason: session.close_reason,
            seq,
            created_at: session.created_at,
            expires_at: session.expires_at,
            token: None,
        })
    }
}

/// `state_hash` is `blake3:` and the hash of the RFC 8785 bytes of `{"seq": seq, "session": state}`.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionFold {
    #[schema(minimum = 1)]
    seq: u64,
    #[schema(value_type = Option<schema::SessionState>, required = true)]
    state: Option<Arc<stead_core::Session>>,
    state_hash: String,
}

impl From<State> for SessionFold {
    fn from(state: State) -> Self {
        let state_hash = state.hash();
        Self { seq: state.seq, state: state.session, state_hash }
    }
}

#[derive(Serialize, ToSchema)]
pub(crate) struct SessionToken {
    pub(crate) token: String,
}
