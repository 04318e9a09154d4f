//! The plan of a session: the result of resolving a request without creating the session.

use serde::{Deserialize, Serialize};
use stead_core::config::ProviderName;
use stead_core::plan::Action;
use stead_core::registry::Side;
use stead_core::setup_cache::SetupCacheOutcome;
use stead_core::tool::ToolName;
use stead_core::{Name, env::Env};
use utoipa::ToSchema;

use super::Notice;
use super::network::NetworkPlan;
use super::policy::Policy;
use super::workspace::Limits;
use crate::schema;

/// Preview of a session that a request would create.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionPlan {
    /// Agent type of the session.
    #[schema(value_type = schema::Name)]
    pub agent_type: Name,
    /// Plan of the workspace; `null` if the agent type disables workspaces.
    #[schema(required = true)]
    pub workspace: Option<WorkspacePlan>,
}

/// Preview of a workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspacePlan {
    /// Candidate providers, in the order in which the server tries them.
    #[schema(value_type = Vec<schema::ProviderName>)]
    pub providers: Vec<ProviderName>,
    /// Provider that would make the workspace now; `null` if none can.
    #[schema(value_type = Option<schema::ProviderName>, required = true)]
    pub provider: Option<ProviderName>,
    /// Requested providers that the server would skip: they do not support this workspace, or are
    /// unhealthy now.
    pub passed_over: Vec<PassedOver>,
    /// Resolved workspace policy.
    pub policy: Policy,
    /// Result of the capability check.
    pub capabilities: PlannedCapabilities,
    /// Actions that initialize the workspace.
    pub plan: InitPlan,
    /// Limits of the box and of the tools, and which resource limits the provider would enforce.
    pub limits: Limits,
    /// Network policy; `null` if the box would have no network.
    #[schema(required = true)]
    pub network: Option<NetworkPlan>,
    /// Enabled tools that the provider supports.
    #[schema(value_type = Vec<schema::ToolName>)]
    pub tools: Vec<ToolName>,
    /// Host paths that the workspace would use. A forbidden path makes the whole request fail with
    /// status 422.
    pub mounts: Vec<PlannedMount>,
    /// Kept setup result that the session would begin with; `null` if it would not look for one.
    #[schema(required = true)]
    pub setup_cache: Option<PlannedSetup>,
    /// Warnings that the session would have.
    pub warnings: Vec<Notice>,
    /// Hash of every setting that shapes the workspace. Equal settings give equal hashes.
    pub fingerprint: String,
}

/// Method of bringing a host path into the workspace: `copy`, `overlay` (writes stay in the
/// session), `ro`, `rw` or `bundle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlannedMode {
    Copy,
    Overlay,
    Ro,
    Rw,
    Bundle,
}

/// A host path that the server's configuration allows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedMount {
    /// Path on the host.
    pub host_path: String,
    /// Path in the workspace.
    pub mount_path: String,
    /// Method of bringing the path into the workspace.
    pub mode: PlannedMode,
    /// Always `allowed`, because a forbidden mount fails the whole plan.
    pub judgement: String,
}

/// A requested provider that the server would skip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PassedOver {
    /// Name of the provider.
    #[schema(value_type = schema::ProviderName)]
    pub provider: ProviderName,
    /// Reason for skipping it.
    pub reason: String,
}

/// Result of the check that the agent type can use the planned workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedCapabilities {
    /// Always true, because a failed check fails the whole plan.
    pub ok: bool,
    /// Sides that could provide the files: `host`, `guest`. The agent type needs at least one of
    /// them.
    #[schema(value_type = Vec<String>)]
    pub needs: Vec<Side>,
}

/// The init plan of a workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InitPlan {
    /// Init actions, in the order in which the server runs them.
    #[schema(value_type = Vec<Object>)]
    pub actions: Vec<Action>,
    /// Environment variables for the box.
    #[schema(value_type = schema::Env)]
    pub env: Env,
}

/// Expected use of a kept setup result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedSetup {
    /// `hit` if a kept result fits, as long as the image, and the commit or the named files, are
    /// those of the result. Otherwise `miss`: the setup commands would run.
    #[schema(value_type = String)]
    pub outcome: SetupCacheOutcome,
    /// Id of the result; `null` for a miss.
    #[schema(required = true)]
    pub result: Option<String>,
    /// Commit of the session that made the result; `null` without a repository.
    #[schema(required = true)]
    pub commit: Option<String>,
}
