//! What a session would be, without making one.

use serde::Serialize;
use stead_core::capability::needed_sides;
use stead_core::config::ProviderName;
use stead_core::plan::Action;
use stead_core::registry::Side;
use stead_core::spec::{SessionSpec, WorkspaceSpec};
use stead_core::tool::ToolName;
use stead_core::{Name, env::Env};
use utoipa::ToSchema;

use crate::schema;
use crate::wire::policy::Policy;
use crate::wire::workspace::Limits;

#[derive(Serialize, ToSchema)]
pub(crate) struct SessionPlan {
    #[schema(value_type = schema::Name)]
    agent_type: Name,
    /// `null`: the agent type has workspaces switched off.
    #[schema(required = true)]
    workspace: Option<WorkspacePlan>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct WorkspacePlan {
    /// In the order they would be asked.
    #[schema(value_type = Vec<schema::ProviderName>)]
    providers: Vec<ProviderName>,
    passed_over: Vec<PassedOver>,
    policy: Policy,
    capabilities: Capabilities,
    plan: InitPlan,
    limits: Limits,
    #[schema(value_type = Vec<schema::ToolName>)]
    tools: Vec<ToolName>,
    fingerprint: String,
}

/// Who was asked for and cannot, and why.
#[derive(Serialize, ToSchema)]
struct PassedOver {
    #[schema(value_type = schema::ProviderName)]
    provider: ProviderName,
    reason: String,
}

/// The check that was passed: any one of `needs` suffices.
#[derive(Serialize, ToSchema)]
struct Capabilities {
    ok: bool,
    #[schema(value_type = Vec<String>)]
    needs: Vec<Side>,
}

#[derive(Serialize, ToSchema)]
struct InitPlan {
    #[schema(value_type = Vec<Object>)]
    actions: Vec<Action>,
    #[schema(value_type = schema::Env)]
    env: Env,
}

impl From<SessionSpec> for SessionPlan {
    fn from(spec: SessionSpec) -> Self {
        Self { agent_type: spec.agent_type, workspace: spec.workspace.map(WorkspacePlan::from) }
    }
}

impl From<WorkspaceSpec> for WorkspacePlan {
    fn from(spec: WorkspaceSpec) -> Self {
        let passed_over = spec.passed_over.into_iter();
        Self {
            providers: spec.providers,
            passed_over: passed_over.map(|one| PassedOver { provider: one.provider, reason: one.reason }).collect(),
            capabilities: Capabilities { ok: true, needs: needed_sides(spec.policy.policy.kind()).to_vec() },
            policy: spec.policy.into(),
            plan: InitPlan { actions: spec.plan.actions, env: spec.plan.env },
            limits: Limits::new(&spec.limits, &[]),
            tools: spec.tools.iter().collect(),
            fingerprint: spec.fingerprint,
        }
    }
}
