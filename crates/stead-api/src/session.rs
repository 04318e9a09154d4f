//! A session, and its state as the journal folds it.

pub mod plan;
pub mod policy;
pub mod provisioning;
pub mod replay;
pub mod rewind;
pub mod snapshot;
pub mod workspace;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stead_core::content::state::SyncFailure;
use stead_core::content::{ApplyMode, ContentState};
use stead_core::event::{CloseReason, Failure};
use stead_core::request::Task;
use stead_core::session::Warning;
use stead_core::{Name, SessionId, State, Status, Timestamp};
use utoipa::ToSchema;

use crate::content::ContentSnapshot;
use crate::schema;
use provisioning::Provisioning;
use workspace::Workspace;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    #[schema(value_type = schema::SessionId)]
    pub id: SessionId,
    #[schema(value_type = schema::Name)]
    pub agent_type: Name,
    #[schema(value_type = Option<schema::Name>, required = true)]
    pub project: Option<Name>,
    #[schema(value_type = schema::SessionStatus)]
    pub status: Status,
    /// It runs without the workspace it should have; the warnings say why.
    pub degraded: bool,
    pub warnings: Vec<Notice>,
    #[schema(required = true)]
    pub workspace: Option<Workspace>,
    /// Where the time went until the workspace was ready, or no provider was left; `null` without a workspace to make.
    #[schema(required = true)]
    pub provisioning: Option<Provisioning>,
    pub content: SessionContent,
    #[schema(value_type = schema::Task)]
    pub task: Task,
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    #[schema(required = true)]
    pub failure: Option<Notice>,
    #[schema(value_type = Option<String>, required = true)]
    pub close_reason: Option<CloseReason>,
    /// The last event's number.
    #[schema(minimum = 1)]
    pub seq: u64,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub expires_at: Timestamp,
    /// Good for this session's tools, files and events only; given once, when it is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub token: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Notice {
    pub code: String,
    pub message: String,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionContent {
    #[schema(required = true)]
    pub active: Option<ContentSnapshot>,
    #[schema(required = true)]
    pub pending: Option<ContentSnapshot>,
    /// When the staged one is to be adopted.
    #[schema(value_type = Option<String>, required = true)]
    pub armed: Option<ApplyMode>,
    /// Why the last sync staged nothing.
    #[schema(value_type = Option<Object>, required = true)]
    pub sync_failure: Option<SyncFailure>,
}

impl SessionContent {
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
    /// `None` for a journal without events.
    pub fn of(state: State) -> Option<Self> {
        let State { seq, session } = state;
        let session = session?;
        let workspace = Workspace::of(&session);
        let provisioning = session.workspace.as_ref().map(|workspace| Provisioning::of(&workspace.timeline));
        let spec = &session.spec;
        Some(Self {
            id: session.id,
            agent_type: spec.agent_type.clone(),
            project: spec.project.clone(),
            status: session.status,
            degraded: session.degraded,
            warnings: session.warnings.iter().cloned().map(Notice::from).collect(),
            workspace,
            provisioning,
            content: SessionContent::of(&session.content),
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionFold {
    #[schema(minimum = 1)]
    pub seq: u64,
    #[schema(value_type = Option<schema::SessionState>, required = true)]
    pub state: Option<Arc<stead_core::Session>>,
    pub state_hash: String,
}

impl From<State> for SessionFold {
    fn from(state: State) -> Self {
        let state_hash = state.hash();
        Self { seq: state.seq, state: state.session, state_hash }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionToken {
    pub token: String,
}
