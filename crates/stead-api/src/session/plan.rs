//! What a session would be, without making one.

use serde::{Deserialize, Serialize};
use stead_core::config::ProviderName;
use stead_core::plan::Action;
use stead_core::registry::Side;
use stead_core::tool::ToolName;
use stead_core::{Name, env::Env};
use utoipa::ToSchema;

use super::Notice;
use super::policy::Policy;
use super::workspace::Limits;
use crate::schema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionPlan {
    #[schema(value_type = schema::Name)]
    pub agent_type: Name,
    /// `null`: the agent type has workspaces switched off.
    #[schema(required = true)]
    pub workspace: Option<WorkspacePlan>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspacePlan {
    /// In the order they would be asked.
    #[schema(value_type = Vec<schema::ProviderName>)]
    pub providers: Vec<ProviderName>,
    /// The provider that would make it now; `null` if none can.
    #[schema(value_type = Option<schema::ProviderName>, required = true)]
    pub provider: Option<ProviderName>,
    /// Providers that were asked for and would not be used: they cannot make this workspace, or are unhealthy now.
    pub passed_over: Vec<PassedOver>,
    pub policy: Policy,
    pub capabilities: PlannedCapabilities,
    pub plan: InitPlan,
    /// The limits, and which of them the provider would enforce.
    pub limits: Limits,
    /// The enabled tools that the provider has.
    #[schema(value_type = Vec<schema::ToolName>)]
    pub tools: Vec<ToolName>,
    /// The host paths it would use. A path that is refused makes the whole plan a 422.
    pub mounts: Vec<PlannedMount>,
    /// Warnings that the session would have.
    pub warnings: Vec<Notice>,
    pub fingerprint: String,
}

/// How a host path comes into a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlannedMode {
    Copy,
    Overlay,
    Ro,
    Rw,
    Bundle,
}

/// A host path that is allowed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedMount {
    pub host_path: String,
    pub mount_path: String,
    pub mode: PlannedMode,
    /// Always `allowed`: a refused mount refuses the plan.
    pub judgement: String,
}

/// Who was asked for and cannot, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PassedOver {
    #[schema(value_type = schema::ProviderName)]
    pub provider: ProviderName,
    pub reason: String,
}

/// The check that was passed: any one of `needs` suffices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedCapabilities {
    pub ok: bool,
    #[schema(value_type = Vec<String>)]
    pub needs: Vec<Side>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InitPlan {
    #[schema(value_type = Vec<Object>)]
    pub actions: Vec<Action>,
    #[schema(value_type = schema::Env)]
    pub env: Env,
}
