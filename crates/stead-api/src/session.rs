//! Sessions, and the state that a session's journal folds to.

pub mod network;
pub mod network_use;
pub mod plan;
pub mod policy;
pub mod port;
pub mod provisioning;
pub mod replay;
pub mod rewind;
pub mod snapshot;
pub mod update;
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
use crate::request::{Rules, Whole, request};
use crate::schema;
use provisioning::Provisioning;
use workspace::Workspace;

/// A session: one agent in one workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Id of the session.
    #[schema(value_type = schema::SessionId)]
    pub id: SessionId,
    /// Agent type from which the session was created.
    #[schema(value_type = schema::Name)]
    pub agent_type: Name,
    /// Project of the session; `null` if it has none.
    #[schema(value_type = Option<schema::Name>, required = true)]
    pub project: Option<Name>,
    /// Caller that created the session, such as `admin:admin` or `user:alice@web`.
    pub owner: String,
    /// Session that this one is a clone of. Absent if it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::SessionId, required = false)]
    pub cloned_from: Option<SessionId>,
    /// `provisioning`, `active`, `paused`, `closing`, `closed` or `failed`.
    #[schema(value_type = schema::SessionStatus)]
    pub status: Status,
    /// True if the session runs without the workspace that was requested. `warnings` gives the
    /// reason.
    pub degraded: bool,
    /// Problems that do not stop the session.
    pub warnings: Vec<Notice>,
    /// Workspace of the session; `null` if its agent type has none, or if the session is degraded.
    #[schema(required = true)]
    pub workspace: Option<Workspace>,
    /// Time spent on each provisioning step; `null` if the session needs no workspace.
    #[schema(required = true)]
    pub provisioning: Option<Provisioning>,
    /// Content that the session uses, and content that is staged.
    pub content: SessionContent,
    /// Task from the request that created the session.
    #[schema(value_type = schema::Task)]
    pub task: Task,
    /// Metadata of the session, which clients set. The server does not interpret it.
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// Reason why the session failed; `null` if it did not.
    #[schema(required = true)]
    pub failure: Option<Notice>,
    /// Reason for closing: `requested`, `expired` or `idle`; `null` if the session was not closed.
    #[schema(value_type = Option<String>, required = true)]
    pub close_reason: Option<CloseReason>,
    /// Sequence number of the latest event in the journal.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// Time of the creation.
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    /// Time at which the server closes the session.
    #[schema(value_type = schema::Timestamp)]
    pub expires_at: Timestamp,
    /// Bearer token that only allows access to this session: its tools, files, events, runs, execs
    /// and digests. Only present in the response to the request that creates the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub token: Option<String>,
}

/// A warning or a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Notice {
    /// Stable code for programs.
    pub code: String,
    /// Description for people.
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

/// Content of a session: the version in use and the staged version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionContent {
    /// Version that the session uses; `null` if none.
    #[schema(required = true)]
    pub active: Option<ContentSnapshot>,
    /// Version that is staged for adoption; `null` if none.
    #[schema(required = true)]
    pub pending: Option<ContentSnapshot>,
    /// When the session adopts the staged version: `next_run`, `next_step_boundary` or
    /// `immediate_if_idle`; `null` if adoption was not requested.
    #[schema(value_type = Option<String>, required = true)]
    pub armed: Option<ApplyMode>,
    /// Reason why the last sync staged nothing; `null` if it did not fail.
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
    /// Returns `None` for a journal without events.
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
            owner: session.owner.as_ref().map(ToString::to_string).unwrap_or_default(),
            cloned_from: spec.cloned_from(),
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

/// State of a session at one event, with its hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionFold {
    /// Sequence number of the last event that the state includes.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// The folded state.
    #[schema(value_type = Option<schema::SessionState>, required = true)]
    pub state: Option<Arc<stead_core::Session>>,
    /// `blake3:` and the BLAKE3 hash of the RFC 8785 form of `{"seq": seq, "session": state}`.
    pub state_hash: String,
}

impl From<State> for SessionFold {
    fn from(state: State) -> Self {
        let state_hash = state.hash();
        Self { seq: state.seq, state: state.session, state_hash }
    }
}

/// A token for one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionToken {
    /// Bearer token that only allows access to this session: its tools, files, events, runs, execs
    /// and digests.
    pub token: String,
    /// End of the token.
    #[schema(value_type = schema::Timestamp)]
    pub expires_at: Timestamp,
}

request! {
    /// A token of a session to issue.
    SessionTokenRequest {
        /// Life of the token in seconds. Absent for 30 days.
        optional expires_in: Whole<1, 31_622_400>,
    }
}

impl Rules for SessionTokenRequest {}
