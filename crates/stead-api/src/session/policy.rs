//! A resolved policy: the word, who said it, what everyone said.

use serde::{Deserialize, Serialize};
use stead_core::policy::{Layer, PolicyKind, ResolvedPolicy, WorkspacePolicy};
use utoipa::ToSchema;

use crate::schema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    #[schema(value_type = String)]
    pub policy: PolicyKind,
    #[schema(value_type = String)]
    pub source: Layer,
    pub chain: PolicyChain,
    /// The policy as it was given, if it was more than a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::WorkspacePolicy, required = false)]
    pub detail: Option<WorkspacePolicy>,
}

/// What each layer said, strongest first; `null` for a layer that said nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyChain {
    #[schema(value_type = Option<schema::WorkspacePolicy>, required = true)]
    pub task: Option<WorkspacePolicy>,
    #[schema(value_type = Option<schema::WorkspacePolicy>, required = true)]
    pub role: Option<WorkspacePolicy>,
    #[schema(value_type = Option<schema::WorkspacePolicy>, required = true)]
    pub project: Option<WorkspacePolicy>,
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
