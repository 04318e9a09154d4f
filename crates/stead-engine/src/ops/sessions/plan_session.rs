//! Plans a session without creating it.

use stead_core::WorkspaceId;
use stead_core::capability::{LimitKind, ProviderCapabilities};
use stead_core::config::ProviderName;
use stead_core::identity::Tenant;
use stead_core::policy::Layer;
use stead_core::request::SessionRequest;
use stead_core::session::warning::{Warning, WarningCode};
use stead_core::setup_cache;
use stead_core::spec::{Declared, PassedOver, SessionSpec, WorkspaceSpec, asked, specify};
use stead_core::tool::ToolName;
use stead_providers::{AllowedMount, Health, SetupEntry, judge_host_paths};

use crate::clock;
use crate::effects::bundle;
use crate::effects::secret_env;
use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::boxed;
use crate::ops::registry::project::check_not_deleting;
use crate::ops::{agent_type, fitting_setup_result, platform, project};

/// A session as it would start now.
#[derive(Debug, Clone)]
pub struct SessionPlan {
    pub spec: SessionSpec,
    /// `None` if the agent type has its workspace switched off.
    pub outlook: Option<Outlook>,
}

/// The workspace that the providers of this server would create now.
#[derive(Debug, Clone)]
pub struct Outlook {
    /// The provider that would create it. `None` if none can.
    pub provider: Option<ProviderName>,
    /// Requested providers that would not be used, with the reason.
    pub passed_over: Vec<PassedOver>,
    /// The requested limits that would be enforced.
    pub enforced: Vec<LimitKind>,
    /// The enabled tools that the provider offers.
    pub tools: Vec<ToolName>,
    pub mounts: Vec<AllowedMount>,
    pub warnings: Vec<Warning>,
    /// `None` if the session would not look for a kept setup result.
    pub setup_cache: Option<SetupForecast>,
}

/// The kept setup result that a session would begin with.
#[derive(Debug, Clone)]
pub enum SetupForecast {
    /// It is used if the image, and the commit or the named files, are still those of the result.
    Hit(Box<SetupEntry>),
    Miss,
}

/// Resolves a request and checks the health of the providers. Changes nothing.
#[boxed]
pub async fn plan_session(engine: &Engine, request: SessionRequest) -> Result<SessionPlan, OpError> {
    let (spec, mounts, _) = resolve(engine, request).await?;
    let outlook = match &spec.workspace {
        Some(workspace) => {
            let mut outlook = outlook(engine, workspace, mounts).await;
            outlook.setup_cache = setup_forecast(engine, &spec, outlook.provider).await;
            Some(outlook)
        }
        None => None,
    };
    Ok(SessionPlan { spec, outlook })
}

/// Resolves a request with the current declarations, and checks its host paths. Returns the key of
/// the agent type too. Changes nothing.
pub(in crate::ops) async fn resolve(
    engine: &Engine,
    request: SessionRequest,
) -> Result<(SessionSpec, Vec<AllowedMount>, String), OpError> {
    let tenant = Tenant::of(request.project.as_ref());
    let agent_type = agent_type(engine, &tenant, &request.agent_type).await?;
    let project = match &request.project {
        Some(id) => {
            check_not_deleting(engine, id).await?;
            Some(project(engine, id).await?)
        }
        None => None,
    };
    let platform = platform(engine).await?;
    let declared = Declared { agent_type: &agent_type, project: project.as_ref(), platform: &platform };
    let workspace = WorkspaceId::from_bits(clock::id_bits());
    let spec = specify(request, workspace, &declared, &engine.facts())?;
    if let Some(workspace) = &spec.workspace {
        secret_env::check(engine, &spec, workspace.plan.env.secrets()).await?;
    }
    let actions = spec.workspace.as_ref().map(|workspace| workspace.plan.actions.clone()).unwrap_or_default();
    // Only an administrator declares what the platform and its agent types unpack.
    let layer = spec.workspace.as_ref().map(|workspace| workspace.policy.source);
    let declared_by = match layer {
        Some(Layer::Platform) => Tenant::Platform,
        Some(Layer::Role) => agent_type.tenant(),
        _ => tenant,
    };
    bundle::check_stored(engine, &declared_by, &actions).await?;
    let judged = tokio::task::spawn_blocking(move || judge_host_paths(&actions)).await;
    let mounts = judged.map_err(|_| OpError::ShuttingDown)??;
    Ok((spec, mounts, agent_type.key()))
}

async fn setup_forecast(engine: &Engine, spec: &SessionSpec, provider: Option<ProviderName>) -> Option<SetupForecast> {
    let provider = provider?;
    setup_cache::shape(spec, provider)?;
    let found = fitting_setup_result(engine, spec, provider).await;
    Some(found.map_or(SetupForecast::Miss, |entry| SetupForecast::Hit(Box::new(entry))))
}

async fn outlook(engine: &Engine, spec: &WorkspaceSpec, mounts: Vec<AllowedMount>) -> Outlook {
    let mut passed_over = spec.passed_over.clone();
    let mut chosen: Option<(ProviderName, ProviderCapabilities)> = None;
    for name in &spec.providers {
        let Ok(provider) = engine.providers().get(*name) else { continue };
        match provider.health().await {
            Health::Healthy => {
                chosen = Some((*name, provider.capabilities()));
                break;
            }
            Health::Unhealthy { reason } => passed_over.push(PassedOver { provider: *name, reason }),
        }
    }
    let (provider, offered) = chosen.unzip();
    let held = offered.as_ref().map(|offered| offered.enforced_limits.clone()).unwrap_or_default();
    let held = spec.holding(held);
    let enforced = asked(&spec.limits).into_iter().filter(|kind| held.contains(kind)).collect();
    let has = |tool: &ToolName| offered.as_ref().is_some_and(|offered| offered.tools.contains(tool));
    let mut warnings = spec.notices.clone();
    warnings.extend(provider.map_or_else(|| Some(unavailable(spec)), |name| spec.not_enforced(name, &held)));
    let (tools, setup_cache) = (spec.tools.iter().filter(has).collect(), None);
    Outlook { provider, passed_over, enforced, tools, mounts, warnings, setup_cache }
}

fn unavailable(spec: &WorkspaceSpec) -> Warning {
    let outcome = if spec.require_workspace { "would fail" } else { "would start degraded, without a workspace" };
    let message = format!("no provider can make the workspace now: the session {outcome}");
    Warning::new(WarningCode::WorkspaceUnavailable, message)
}
