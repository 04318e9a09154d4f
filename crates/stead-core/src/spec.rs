//! Resolves a request into a complete session spec.
//!
//! [`specify`] combines the four policy layers, the capabilities and the defaults. The first event
//! of the journal records its result, so a later change of an agent type does not affect a running
//! session.

pub mod plan;
pub mod policy;
mod policy_layers;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::capability::{self, LimitKind, ProviderCapabilities};
use crate::config::{
    OnSetupFailure, Preset, ProviderName, RepoSourceType, ResourceLimits, ToolLimits, WorkspaceConfig,
};
use crate::content::{Authority, ContentConfig};
use crate::digest::KeptDigest;
use crate::event::StepReport;
use crate::git_push::GitPush;
use crate::network::{NetworkSpec, Presets, Reach};
use crate::plan::{Action, InitPlan, PlanInputs};
use crate::policy::{MountMode, PolicyKind, ResolvedPolicy};
use crate::registry::{AgentType, ContentBinding, Platform, Project};
use crate::rejection::Rejection;
use crate::remote::GitGate;
use crate::repository::{GitRef, RepositoryUrl};
use crate::request::{SessionRequest, Task};
use crate::rewind::Rewind;
use crate::session::warning::{Warning, WarningCode};
use crate::tool::ToolSet;
use crate::{Name, SessionId, WorkspaceId};

/// The complete, resolved definition of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSpec {
    pub agent_type: Name,
    /// The project that owns the agent type. `None` for one of the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type_project: Option<Name>,
    pub project: Option<Name>,
    pub task: Task,
    pub content: Option<ContentBinding>,
    /// The session's permissions on content, and the tools behind its tool names.
    #[serde(default, skip_serializing_if = "Authority::is_empty")]
    pub authority: Authority,
    pub metadata: Map<String, Value>,
    pub ttl_seconds: u64,
    pub idle_seconds: u64,
    /// The digests that a clone begins with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub digests: BTreeMap<Name, KeptDigest>,
    /// `None` if the agent type has its workspace switched off.
    pub workspace: Option<WorkspaceSpec>,
}

impl SessionSpec {
    /// Returns the session that this one is a clone of.
    pub fn cloned_from(&self) -> Option<SessionId> {
        let workspace = self.workspace.as_ref()?;
        let copied = workspace.plan.actions.iter().find_map(|action| match action {
            Action::RestoreSnapshot { session, .. } => Some(*session),
            _ => None,
        });
        workspace.shared_with.or(copied)
    }

    /// Returns the spec for an agent: without the values of environment variables. A command in the
    /// box sees them, but an agent without such tools must not.
    pub fn for_agent(&self) -> Self {
        let mut spec = self.clone();
        spec.task.env = spec.task.env.without_values();
        if let Some(workspace) = &mut spec.workspace {
            workspace.plan.env = workspace.plan.env.without_values();
        }
        spec
    }
}

/// The complete, resolved definition of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceSpec {
    pub id: WorkspaceId,
    /// The session whose workspace this session uses. No workspace is created, and it is removed
    /// when its last session ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_with: Option<SessionId>,
    /// For a clone: the result of its source's init plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought: Option<Box<StepReport>>,
    /// The providers to try, in order of preference.
    pub providers: Vec<ProviderName>,
    /// The requested providers that cannot create this workspace, each with the reason.
    pub passed_over: Vec<PassedOver>,
    /// Warnings that the session begins with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Warning>,
    pub policy: ResolvedPolicy,
    pub plan: InitPlan,
    /// The repository of the session, checked out at the start or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<RepositorySpec>,
    pub limits: ResourceLimits,
    pub tools: ToolSet,
    pub tool_limits: ToolLimits,
    pub base_image: Option<String>,
    /// Directories that may contain a base image that is a directory of the host, as allowed when
    /// the session was created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_roots: Vec<String>,
    /// For a clone: the image digest of its source. The clone's box uses the same image bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
    pub require_workspace: bool,
    pub on_setup_failure: OnSetupFailure,
    /// The checkpoint policy.
    #[serde(default = "Rewind::none", skip_serializing_if = "Rewind::is_none")]
    pub rewind: Rewind,
    /// The network policy. `None` for a box without a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,
    /// Ports of the box that may be opened. `None` for every port, but not for the session's own
    /// token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<u16>>,
    /// Hash over the providers, policy, plan, repository, limits, tools, tool limits, base image
    /// and network.
    pub fingerprint: String,
    /// The inputs of the session's fingerprint besides this one.
    #[serde(default, skip_serializing_if = "FingerprintForm::is_without_image")]
    pub fingerprint_form: FingerprintForm,
}

/// The inputs of a session's fingerprint. A session keeps the form that it was created with, so
/// that an old journal folds to the same fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FingerprintForm {
    /// Mounts, bundle and commit. Sessions of earlier versions have this form.
    #[default]
    WithoutImage,
    /// Also the digest of the image that the box was created from.
    WithImage,
}

impl FingerprintForm {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_without_image(&self) -> bool {
        *self == Self::WithoutImage
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    pub provider: ProviderName,
    pub reason: String,
}

/// A repository, the requested revision, and the addresses that the platform allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositorySpec {
    pub url: RepositoryUrl,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<GitRef>,
    /// The pull request to check out if there is no `reference`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<u64>,
    /// The branch that the pull request goes to, fetched for comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<GitRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
    #[serde(default)]
    pub gate: GitGate,
    #[serde(default, skip_serializing_if = "GitPush::is_usual")]
    pub push: GitPush,
}

/// The defaults and providers of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    pub default_provider: ProviderName,
    pub default_limits: ResourceLimits,
    /// The configured providers with their capabilities.
    pub providers: BTreeMap<ProviderName, ProviderCapabilities>,
    /// The network presets of the server's configuration.
    pub network_presets: Presets,
}

impl ServerFacts {
    fn not_configured(&self, provider: ProviderName) -> Rejection {
        let configured: Vec<&str> = self.providers.keys().map(|name| name.as_str()).collect();
        Rejection::ProviderNotConfigured { provider, configured: configured.join(", ") }
    }
}

/// The stored declarations that a request refers to.
pub struct Declared<'a> {
    pub agent_type: &'a AgentType,
    pub project: Option<&'a Project>,
    pub platform: &'a Platform,
}

/// Resolves a request, or refuses it before any side effect.
pub fn specify(
    request: SessionRequest,
    workspace_id: WorkspaceId,
    declared: &Declared<'_>,
    server: &ServerFacts,
) -> Result<SessionSpec, Rejection> {
    let config = &declared.agent_type.workspace;
    policy_layers::refuse_network_without_box(&request.task, declared)?;
    policy_layers::refuse_setup_as_root(declared)?;
    let workspace = match config.enabled {
        false => None,
        true => Some(specify_workspace(&request.task, workspace_id, declared, server)?),
    };
    let empty = workspace.as_ref().is_some_and(|workspace| workspace.policy.policy.kind() == PolicyKind::Empty);
    Ok(SessionSpec {
        agent_type: request.agent_type,
        agent_type_project: declared.agent_type.project.clone(),
        project: request.project,
        // An agent can read its own session. With an empty policy the record must not reveal the
        // repository either.
        task: if empty { request.task.without_repository() } else { request.task },
        authority: Authority::of(declared.agent_type.content.as_ref(), request.content.as_ref()),
        content: request.content.or_else(|| declared.agent_type.content.as_ref().and_then(ContentConfig::binding)),
        metadata: request.metadata,
        ttl_seconds: config.ttl_seconds,
        idle_seconds: config.idle_seconds,
        digests: BTreeMap::new(),
        workspace,
    })
}

fn specify_workspace(
    task: &Task,
    id: WorkspaceId,
    declared: &Declared<'_>,
    server: &ServerFacts,
) -> Result<WorkspaceSpec, Rejection> {
    let Declared { agent_type, project, platform } = declared;
    let config = &agent_type.workspace;
    let policy = policy_layers::resolve_policy(task, declared);
    capability::check_agent_type(policy.policy.kind(), &agent_type.capabilities)?;
    let network = policy_layers::resolve_network(task, declared, &server.network_presets)?;
    let (providers, passed_over) = choose_providers(policy.policy.kind(), network.as_ref(), declared, server)?;
    let inputs = PlanInputs { config, policy: &policy, task, project: *project, platform, role_env: &agent_type.env };
    let repository = repository(&inputs)?;
    let mut notices = policy_layers::repository_notices(&inputs, repository.as_ref().map(|repository| &repository.url));
    let plan = plan::plan(&inputs)?;
    notices.extend(policy_layers::setup_cache_notice(&inputs));
    let rewind = config.rewind.or(platform.defaults.rewind).unwrap_or_default();
    notices.extend(policy_layers::checkpoint_notice(&plan, rewind));
    notices.extend(network.as_ref().and_then(policy_layers::full_notice));
    // The first provider decides, because the fallback must not change what the agent may do.
    let provider = providers.first().copied().unwrap_or(server.default_provider);
    let limits = resource_limits(config, platform, &server.default_limits, provider);
    let mut spec = WorkspaceSpec {
        id,
        shared_with: None,
        brought: None,
        providers,
        passed_over,
        notices,
        policy,
        plan,
        repository,
        limits,
        tools: config.tools.clone().unwrap_or_else(ToolSet::all),
        tool_limits: config.limits.resolve(provider),
        base_image: config.base_image.clone(),
        image_roots: image_roots(config.base_image.as_deref(), platform)?,
        image_digest: None,
        require_workspace: config.require_workspace || platform.defaults.require_workspace,
        on_setup_failure: config.on_setup_failure,
        rewind,
        network,
        ports: config.ports.as_ref().map(|ports| ports.iter().filter_map(|port| u16::try_from(*port).ok()).collect()),
        fingerprint: String::new(),
        fingerprint_form: FingerprintForm::WithImage,
    };
    spec.fingerprint = fingerprint(&spec);
    Ok(spec)
}

/// Returns the resource limits of a box: those of the agent type, else the platform's, else the
/// server's. In the preset `wink` a default applies only if it is stricter than 1 CPU and 1 GiB.
pub fn resource_limits(
    config: &WorkspaceConfig,
    platform: &Platform,
    server: &ResourceLimits,
    provider: ProviderName,
) -> ResourceLimits {
    let defaults = platform.defaults.resource_limits.or(server);
    let sandboxed = provider != ProviderName::Memory && config.limits.preset == Some(Preset::Wink);
    config.resource_limits.or(&if sandboxed { defaults.within_wink() } else { defaults })
}

/// Returns the allowed roots for a base image that is a host directory. Empty if the image is a
/// name.
pub fn image_roots(base_image: Option<&str>, platform: &Platform) -> Result<Vec<String>, Rejection> {
    match base_image.filter(|image| image.starts_with('/')) {
        None => Ok(Vec::new()),
        Some(path) if platform.names_root_of(path) => Ok(platform.allowed_host_roots.clone()),
        Some(path) => Err(Rejection::HostImage { path: path.to_owned() }),
    }
}

/// Returns the repository of a `git` policy, or the refusal if the platform does not allow its
/// address.
fn repository(inputs: &PlanInputs<'_>) -> Result<Option<RepositorySpec>, Rejection> {
    let Some(Action::CloneRepository { url, reference, depth, .. }) = plan::clone_action(inputs) else {
        return Ok(None);
    };
    let gate = GitGate::of(inputs.platform);
    gate.judge(&url)?;
    // The task's pull request applies only if the repository comes from the task.
    let context = &inputs.task.context;
    let of_the_task = inputs.config.repo_source.kind == RepoSourceType::TaskContext
        && context.repository_url.as_ref().is_none_or(|named| *named == url);
    let context = Some(context).filter(|_| of_the_task);
    let pull_request = context.filter(|_| reference.is_none()).and_then(|context| context.pull_request_number);
    let base = context.and_then(|context| context.base_branch.clone());
    let push = inputs.config.git.clone();
    Ok(Some(RepositorySpec { url, reference, pull_request, base, depth, gate, push }))
}

/// Returns the requested providers that can create the workspace, in the order to try them.
///
/// A provider that is not configured is an error, because it cannot appear later. A configured
/// provider that cannot create this workspace is skipped.
fn choose_providers(
    policy: PolicyKind,
    network: Option<&NetworkSpec>,
    declared: &Declared<'_>,
    server: &ServerFacts,
) -> Result<(Vec<ProviderName>, Vec<PassedOver>), Rejection> {
    let (config, defaults) = (&declared.agent_type.workspace, &declared.platform.defaults);
    let first = config.provider.or(defaults.provider).unwrap_or(server.default_provider);
    let second = config.fallback_provider.or(defaults.fallback_provider).filter(|fallback| *fallback != first);
    let (mut able, mut passed_over) = (Vec::new(), Vec::new());
    let mut refusal: Option<Rejection> = None;
    for provider in std::iter::once(first).chain(second) {
        let offered = server.providers.get(&provider).ok_or_else(|| server.not_configured(provider))?;
        let made = capability::check_provider(policy, &declared.agent_type.capabilities, provider, offered);
        let carried = network.map_or(Ok(()), |network| network.check_reach(provider, offered.network));
        match made.map_err(Rejection::from).and_then(|()| carried.map_err(Rejection::from)) {
            Ok(()) => able.push(provider),
            Err(incompatible) => {
                passed_over.push(PassedOver { provider, reason: incompatible.to_string() });
                refusal.get_or_insert(incompatible);
            }
        }
    }
    match refusal {
        Some(incompatible) if able.is_empty() => Err(incompatible),
        _ => Ok((able, passed_over)),
    }
}

impl WorkspaceSpec {
    /// The network that the box is made with.
    pub fn box_network(&self) -> Reach {
        if self.network.is_some() { Reach::Captured } else { Reach::None }
    }
}

/// Returns a hash over the fields listed here. The workspace id is not part of it, so equal
/// workspaces have equal fingerprints.
fn fingerprint(spec: &WorkspaceSpec) -> String {
    let mut shape = serde_json::json!({
        "providers": spec.providers, "policy": spec.policy.policy, "plan": spec.plan, "repository": spec.repository, "limits": spec.limits,
        "tools": spec.tools, "tool_limits": spec.tool_limits, "base_image": spec.base_image,
    });
    if let Some(network) = &spec.network {
        shape["network"] = serde_json::json!(network);
    }
    crate::canonical::hash(&shape)
}

/// The kinds of limits that the spec sets.
pub fn asked(limits: &ResourceLimits) -> Vec<LimitKind> {
    let asked = [
        (LimitKind::Cpu, limits.cpu.is_some()),
        (LimitKind::Memory, limits.memory.is_some()),
        (LimitKind::Disk, limits.disk.is_some()),
        (LimitKind::Pids, limits.pids.is_some()),
    ];
    asked.into_iter().filter(|(_, given)| *given).map(|(kind, _)| kind).collect()
}

impl WorkspaceSpec {
    /// Returns the provider's limits that hold for this workspace. A host directory that the box
    /// writes to is not part of its volume, so the disk limit does not hold there.
    pub fn holding(&self, mut enforced: Vec<LimitKind>) -> Vec<LimitKind> {
        if self.writes_to_the_host() {
            enforced.retain(|kind| *kind != LimitKind::Disk);
        }
        enforced
    }

    /// Returns the warning about requested limits that are not enforced.
    pub fn not_enforced(&self, provider: ProviderName, enforced: &[LimitKind]) -> Option<Warning> {
        let missing: Vec<_> = asked(&self.limits).into_iter().filter(|kind| !enforced.contains(kind)).collect();
        let names = missing.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ");
        let message = match missing.as_slice() {
            [] => return None,
            [LimitKind::Disk] if self.writes_to_the_host() => {
                "disk is not limited: the workspace is a directory of the host that the box writes to".to_owned()
            }
            _ => format!("provider '{provider}' does not enforce: {names}"),
        };
        Some(Warning::new(WarningCode::LimitNotEnforced, message))
    }

    fn writes_to_the_host(&self) -> bool {
        let writes = |action: &Action| matches!(action, Action::MountDirectory { mode: MountMode::ReadWrite, .. });
        self.plan.actions.iter().any(writes)
    }
}
