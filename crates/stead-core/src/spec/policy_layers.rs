//! Resolves the policy, the repository and the network of a session from its policy layers.

use super::Declared;
use crate::config::RepoSourceType;
use crate::network::{self, Declarations, Network, NetworkRefused, NetworkSpec, Phase, Presets};
use crate::plan::{Action, InitPlan, PlanInputs, cached_files};
use crate::policy::{Layer, MountMode, PolicyChain, PolicyKind, ResolvedPolicy, WorkspacePolicy};
use crate::rejection::Rejection;
use crate::repository::RepositoryUrl;
use crate::request::Task;
use crate::rewind::{CheckpointCost, Rewind};
use crate::session::warning::{Warning, WarningCode};
use crate::setup_cache::{SetupCache, SetupUser};

/// Resolves the policy of a session. The task overrides the role, the project and the platform, in
/// this order. The default is an empty workspace.
///
/// A layer that names a repository but no policy implies `git`. A fixed repository counts for the
/// role layer, the task's for the task layer, and the project's for the project layer.
pub(super) fn resolve_policy(task: &Task, declared: &Declared<'_>) -> ResolvedPolicy {
    let config = &declared.agent_type.workspace;
    let git = |speaks: bool| speaks.then_some(WorkspacePolicy::Kind(PolicyKind::Git));
    let source = config.repo_source.kind;
    let from_task = source == RepoSourceType::TaskContext && task.context.repository_url.is_some();
    let stands_in = source == RepoSourceType::TaskContext && !from_task;
    let of_project = |project: &crate::registry::Project| {
        project.workspace_policy.clone().or_else(|| git(stands_in && project.repository_url.is_some()))
    };
    let chain = PolicyChain {
        task: task.workspace_policy.clone().or_else(|| git(from_task)),
        role: config.workspace_policy.clone().or_else(|| git(source == RepoSourceType::Fixed)),
        project: declared.project.and_then(of_project),
        platform: declared.platform.workspace_policy.clone(),
    };
    chain.resolve(PolicyKind::Empty)
}

/// Returns the warning for a session that writes to a host directory itself and has no checkpoints,
/// because it does not allow copies. A session that asks for none gets no warning.
pub(super) fn checkpoint_notice(plan: &InitPlan, rewind: Rewind) -> Option<Warning> {
    let writes = |action: &Action| matches!(action, Action::MountDirectory { mode: MountMode::ReadWrite, .. });
    let asks = !matches!(rewind.points, CheckpointCost::Off | CheckpointCost::Copies);
    let lacks = asks && plan.actions.iter().any(writes);
    let message = "the agent changes the host directory itself, and there are no checkpoints, so a rewind brings \
                   nothing back; set rewind.points to 'copies', or mount with mode 'overlay'";
    lacks.then(|| Warning::new(WarningCode::CheckpointsUnavailable, message.to_owned()))
}

/// Returns the warning for a session whose setup cache cannot be used.
pub(super) fn setup_cache_notice(inputs: &PlanInputs<'_>) -> Option<Warning> {
    let config = inputs.config;
    let asked = config.setup_cache != SetupCache::Off && !config.setup_commands.is_empty();
    let message = "setup_cache is not used: a directory of the host can change without notice, so the setup commands \
                   run in every session";
    (asked && cached_files(inputs).is_none()).then(|| Warning::new(WarningCode::SetupCacheUnused, message.to_owned()))
}

/// Refuses setup commands as root.
pub(super) fn refuse_setup_as_root(declared: &Declared<'_>) -> Result<(), Rejection> {
    let config = &declared.agent_type.workspace;
    match config.setup_user {
        SetupUser::Root if config.enabled => Err(Rejection::SetupAsRoot),
        SetupUser::Root | SetupUser::Agent => Ok(()),
    }
}

/// Returns warnings about named repositories that are not used, and about a `git` policy without
/// one.
///
/// No warning contains a URL. The agent can read its session, and an empty workspace must not
/// reveal a repository.
pub(super) fn repository_notices(inputs: &PlanInputs<'_>, used: Option<&RepositoryUrl>) -> Vec<Warning> {
    let source = &inputs.config.repo_source;
    let of_task = inputs.task.context.repository_url.as_ref();
    let of_project = inputs.project.and_then(|project| project.repository_url.as_ref());
    let stands_in = source.kind == RepoSourceType::TaskContext && of_task.is_none();
    let named = [
        ("task", of_task.is_some() && of_task != used),
        ("project", stands_in && of_project.is_some() && used.is_none()),
        ("agent type", source.url.is_some() && used.is_none()),
    ];
    let why = why_unused(inputs);
    let unused = named.into_iter().filter(|(_, unused)| *unused).map(|(whose, _)| {
        Warning::new(
            WarningCode::RepositoryNotUsed,
            format!("the repository that the {whose} names is not used: {why}"),
        )
    });
    let missing = (inputs.policy.policy.kind() == PolicyKind::Git && used.is_none()).then(|| {
        let message = "the workspace policy is 'git', and neither the task, the agent type nor the project names a \
                       repository: the workspace starts empty";
        Warning::new(WarningCode::NoRepository, message.to_owned())
    });
    let context = &inputs.task.context;
    let names_part = context.branch.is_some() || context.pull_request_number.is_some() || context.base_branch.is_some();
    let partly = (missing.is_none() && names_part && used.is_none() && named.iter().all(|(_, unused)| !unused)).then(|| {
        let message = "the task names a branch or a pull request, and neither the task, the agent type nor the project \
                       names a repository";
        Warning::new(WarningCode::NoRepository, message.to_owned())
    });
    unused.chain(missing).chain(partly).collect()
}

fn why_unused(inputs: &PlanInputs<'_>) -> String {
    let (kind, layer) = (inputs.policy.policy.kind(), inputs.policy.source);
    match inputs.config.repo_source.kind {
        _ if kind != PolicyKind::Git && layer != Layer::Default => {
            format!("the {layer} layer sets the workspace policy '{kind}'")
        }
        RepoSourceType::None => "the agent type has repo_source 'none'".to_owned(),
        RepoSourceType::Fixed => "the agent type has a fixed repository".to_owned(),
        RepoSourceType::TaskContext => format!("the {layer} layer's workspace policy names another one"),
    }
}

fn network_layers<'a>(task: &'a Task, declared: &Declared<'a>, presets: &'a Presets) -> Declarations<'a> {
    Declarations {
        platform: declared.platform.network.as_ref(),
        project: declared.project.and_then(|project| project.network.as_ref()),
        agent_type: &declared.agent_type.workspace.network,
        task: task.network.as_ref(),
        presets,
    }
}

/// Resolves the network policy of a box.
pub(super) fn resolve_network(
    task: &Task,
    declared: &Declared<'_>,
    presets: &Presets,
) -> Result<Option<NetworkSpec>, NetworkRefused> {
    network::resolve(&network_layers(task, declared, presets))
}

/// Refuses a task that asks for network access if the session has no box. The other layers are
/// declared for many sessions, and say nothing about one without a box.
pub(super) fn refuse_network_without_box(task: &Task, declared: &Declared<'_>) -> Result<(), NetworkRefused> {
    let asked = task.network.as_ref().filter(|_| !declared.agent_type.workspace.enabled).and_then(Network::asks);
    match asked {
        Some(field) => Err(NetworkRefused::NoWorkspace { field: format!("task.network.{field}") }),
        None => Ok(()),
    }
}

/// Returns the warning of a session that can reach every host.
pub(super) fn full_notice(network: &NetworkSpec) -> Option<Warning> {
    let open: Vec<&str> =
        Phase::ALL.iter().filter(|phase| network.is_full(**phase)).map(|phase| phase.as_str()).collect();
    let message = format!("the box can reach every public host (phase: {})", open.join(", "));
    (!open.is_empty()).then(|| Warning::new(WarningCode::NetworkFull, message))
}
