//! The resolved workspace policy and the layers it was resolved from.

use serde::{Deserialize, Serialize};
use stead_core::policy::{Layer, PolicyKind, ResolvedPolicy, WorkspacePolicy};
use utoipa::ToSchema;

use crate::schema;

/// A resolved workspace policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// Kind of the policy: `git`, `mount`, `empty` or `bundle`.
    #[schema(value_type = String)]
    pub policy: PolicyKind,
    /// Layer that set the policy: `task`, `role` (the agent type), `project`, `platform`, or
    /// `default` if no layer did.
    #[schema(value_type = String)]
    pub source: Layer,
    /// Policy of each layer.
    pub chain: PolicyChain,
    /// The full policy. Absent if the layer gave only its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::WorkspacePolicy, required = false)]
    pub detail: Option<WorkspacePolicy>,
}

/// Policy of each layer, from the highest priority to the lowest; `null` if the layer sets none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyChain {
    /// Policy of the task.
    #[schema(value_type = Option<schema::WorkspacePolicy>, required = true)]
    pub task: Option<WorkspacePolicy>,
    /// Policy of the role, which is the agent type.
    #[schema(value_type = Option<schema::WorkspacePolicy>, required = true)]
    pub role: Option<WorkspacePolicy>,
    /// Policy of the project.
    #[schema(value_type = Option<schema::WorkspacePolicy>, required = true)]
    pub project: Option<WorkspacePolicy>,
    /// Policy of the platform.
    #[schema(value_type = Option<schema::WorkspacePolicy>, required = true)]
    pub platform: Option<WorkspacePolicy>,
}

impl From<ResolvedPolicy> for Policy {
    fn from(resolved: ResolvedPolicy) -> Self {
        let ResolvedPolicy { policy, source, chain } = resolved;
        let chain =
            PolicyChain { task: chain.task, role: chain.role, project: chain.project, platform: chain.platform };
        let kind = policy.kind();
        let detail = Some(policy).filter(|policy| !matches!(policy, WorkspacePolicy::Kind(_)));
        Self { policy: kind, source, chain, detail }
    }
}
