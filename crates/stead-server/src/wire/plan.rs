//! What a session would be, without making one.

use serde::Serialize;
use stead_core::capability::needed_sides;
use stead_core::config::ProviderName;
use stead_core::plan::Action;
use stead_core::registry::Side;
use stead_core::spec::WorkspaceSpec;
use stead_core::tool::ToolName;
use stead_core::{Name, env::Env};
use stead_engine::ops;
use stead_providers::{AllowedMode, AllowedMount};
use utoipa::ToSchema;

use crate::schema;
use crate::wire::policy::Policy;
use crate::wire::session::Notice;
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
    /// The provider that would make it now; `null` if none can.
    #[schema(value_type = Option<schema::ProviderName>, required = true)]
    provider: Option<ProviderName>,
    /// Providers that were asked for and would not be used: they cannot make this workspace, or are unhealthy now.
    passed_over: Vec<PassedOver>,
    policy: Policy,
    capabilities: Capabilities,
    plan: InitPlan,
    /// The limits, and which of them the provider would enforce.
    limits: Limits,
    /// The enabled tools that the provider has.
    #[schema(value_type = Vec<schema::ToolName>)]
    tools: Vec<ToolName>,
    /// The host paths it would use. A path that is refused makes the whole plan a 422.
    mounts: Vec<PlannedMount>,
    /// Warnings that the session would have.
    warnings: Vec<Notice>,
    fingerprint: String,
}

/// A host path that is allowed.
#[derive(Serialize, ToSchema)]
struct PlannedMount {
    host_path: String,
    mount_path: String,
    /// `copy`, `overlay`, `ro`, `rw` or `bundle`.
    mode: &'static str,
    /// Always `allowed`: a refused mount refuses the plan.
    judgement: &'static str,
}

impl From<AllowedMount> for PlannedMount {
    fn from(mount: AllowedMount) -> Self {
        let mode = match mount.mode {
            AllowedMode::Copy => "copy",
            AllowedMode::Mount(mode) => mode.as_str(),
            AllowedMode::Bundle => "bundle",
        };
        Self { host_path: mount.host_path, mount_path: mount.mount_path, mode, judgement: "allowed" }
    }
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

impl From<ops::SessionPlan> for SessionPlan {
    fn from(plan: ops::SessionPlan) -> Self {
        let ops::SessionPlan { spec, outlook } = plan;
        let workspace = spec.workspace.zip(outlook);
        Self {
            agent_type: spec.agent_type,
            workspace: workspace.map(|(spec, outlook)| WorkspacePlan::of(spec, outlook)),
        }
    }
}

impl WorkspacePlan {
    fn of(spec: WorkspaceSpec, outlook: ops::Outlook) -> Self {
        let passed_over = outlook.passed_over.into_iter();
        Self {
            providers: spec.providers,
            provider: outlook.provider,
            passed_over: passed_over.map(|one| PassedOver { provider: one.provider, reason: one.reason }).collect(),
            capabilities: Capabilities { ok: true, needs: needed_sides(spec.policy.policy.kind()).to_vec() },
            policy: spec.policy.into(),
            plan: InitPlan { actions: spec.plan.actions, env: spec.plan.env },
            limits: Limits::new(&spec.limits, &outlook.enforced),
            tools: outlook.tools,
            mounts: outlook.mounts.into_iter().map(PlannedMount::from).collect(),
            warnings: outlook.warnings.into_iter().map(Notice::from).collect(),
            fingerprint: spec.fingerprint,
        }
    }
}
