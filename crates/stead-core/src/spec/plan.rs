//! The init plan: the actions that turn a new box into the workspace that the policy asks for.
//!
//! A plan is data: ordered actions and an environment, with no choices left. `sessions:plan` shows
//! it, and a session executes it action by action, with events for each. A plan for `empty` has no
//! `create_workspace` action, no clone action and no variable that names a repository. The runtime
//! ensures the workspace directory for every policy.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{HostMount, RepoSourceType, WorkspaceConfig};
use crate::env::Env;
use crate::git_push::GitPush;
use crate::policy::{MountMode, PolicyKind, ResolvedPolicy, WorkspacePolicy};
use crate::registry::{Platform, Project};
use crate::repository::{GitRef, RepositoryUrl};
use crate::request::{Task, TaskContext};
use crate::setup_cache::SetupCache;
use crate::{SessionId, SnapshotId};

/// The directory of every workspace.
pub const WORKSPACE_ROOT: &str = "/workspace";

/// One init action of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    CreateWorkspace,
    CloneRepository {
        url: RepositoryUrl,
        reference: Option<GitRef>,
        depth: Option<u64>,
        /// Also check out submodules and download LFS content, if the agent type asks for it.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        submodules: bool,
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        lfs: bool,
    },
    UnpackBundle {
        source: Value,
        digest: Option<String>,
        allowed_host_roots: Vec<String>,
    },
    MountDirectory {
        host_path: String,
        mode: MountMode,
        #[serde(default)]
        allowed_host_roots: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allowed_root_owned_mounts: Vec<String>,
    },
    /// Copies all mounts in, or none. The roots are those that were allowed when the plan was made.
    HydrateMounts {
        mounts: Vec<HostMount>,
        allowed_host_roots: Vec<String>,
    },
    /// Starts with the files of a snapshot of another session.
    RestoreSnapshot {
        session: SessionId,
        snapshot: SnapshotId,
    },
    WriteTaskContext {
        context: TaskContext,
    },
    /// Looks for a kept result of the setup commands, and uses it instead of running them.
    RestoreSetup {
        /// The files that decide whether a result can be used; empty for the commit.
        files: Vec<String>,
    },
    RunSetupCommand {
        number: u64,
        command: String,
        timeout_seconds: u64,
    },
    /// Keeps the result of the setup commands for later sessions.
    KeepSetup,
}

impl Action {
    /// The action's name in the plan.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CreateWorkspace => "create_workspace",
            Self::CloneRepository { .. } => "clone_repository",
            Self::UnpackBundle { .. } => "unpack_bundle",
            Self::MountDirectory { .. } => "mount_directory",
            Self::HydrateMounts { .. } => "hydrate_mounts",
            Self::RestoreSnapshot { .. } => "restore_snapshot",
            Self::WriteTaskContext { .. } => "write_task_context",
            Self::RestoreSetup { .. } => "restore_setup",
            Self::RunSetupCommand { .. } => "run_setup_command",
            Self::KeepSetup => "keep_setup",
        }
    }

    pub fn is_setup(&self) -> bool {
        matches!(self, Self::RunSetupCommand { .. })
    }

    /// Returns true for the setup commands and what keeps their result. They are skipped after a
    /// failed setup command and after a kept result was found.
    pub fn belongs_to_setup(&self) -> bool {
        matches!(self, Self::RunSetupCommand { .. } | Self::KeepSetup)
    }
}

/// The ordered actions, and the environment of the actions and the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitPlan {
    pub actions: Vec<Action>,
    pub env: Env,
}

/// The error for a policy that lacks a needed value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("workspace policy '{policy}' from the {layer} layer is incomplete: {missing}")]
pub struct Incomplete {
    pub policy: PolicyKind,
    pub layer: crate::policy::Layer,
    pub missing: &'static str,
}

/// The inputs of a plan.
pub struct PlanInputs<'a> {
    pub config: &'a WorkspaceConfig,
    pub policy: &'a ResolvedPolicy,
    pub task: &'a Task,
    pub project: Option<&'a Project>,
    pub platform: &'a Platform,
    pub role_env: &'a Env,
}

/// Returns the repository of a session, if any. `fixed` ignores the task, `none` has no repository,
/// and `task_context` uses the task's, else the project's. The task's branch overrides the
/// config's, which overrides the project's default.
pub fn repository(
    config: &WorkspaceConfig,
    task: &TaskContext,
    project: Option<&Project>,
) -> Option<(RepositoryUrl, Option<GitRef>)> {
    let source = &config.repo_source;
    match source.kind {
        RepoSourceType::None => None,
        RepoSourceType::Fixed => source.url.clone().map(|url| (url, source.branch.clone())),
        RepoSourceType::TaskContext => {
            let of_project = project.and_then(|project| project.repository_url.as_ref());
            let url = task.repository_url.as_ref().or(of_project)?;
            // A project's default branch does not apply to another repository.
            let of_same = project.filter(|_| of_project == Some(url));
            let default = source.branch.as_ref().or(of_same.and_then(|project| project.default_branch.as_ref()));
            Some((url.clone(), task_branch(task, default)))
        }
    }
}

/// Returns the branch of a task. A pull request without a branch is more specific than a default:
/// its commits are found by its number.
fn task_branch(task: &TaskContext, default: Option<&GitRef>) -> Option<GitRef> {
    let default = default.filter(|_| task.pull_request_number.is_none());
    task.branch.as_ref().or(default).cloned()
}

/// Makes the plan. A pure function: the same inputs give the same plan.
pub fn plan(inputs: &PlanInputs<'_>) -> Result<InitPlan, Incomplete> {
    let mut actions = Vec::new();
    let kind = inputs.policy.policy.kind();
    let mut cloned = None;
    match (&inputs.policy.policy, kind) {
        (_, PolicyKind::Empty) => {}
        (_, PolicyKind::Git) => {
            actions.push(Action::CreateWorkspace);
            cloned = clone_action(inputs);
            actions.extend(cloned.clone().filter(|_| inputs.config.checkout_on_start));
        }
        (WorkspacePolicy::Mount { host_path, mode }, _) => {
            actions.push(Action::CreateWorkspace);
            let (host_path, mode) = (host_path.clone(), *mode);
            let allowed_host_roots = inputs.platform.allowed_host_roots.clone();
            let allowed_root_owned_mounts = match mode {
                MountMode::ReadWrite => inputs.platform.allowed_root_owned_mounts.clone(),
                MountMode::Overlay | MountMode::ReadOnly => Vec::new(),
            };
            actions.push(Action::MountDirectory { host_path, mode, allowed_host_roots, allowed_root_owned_mounts });
        }
        (WorkspacePolicy::Bundle { source, digest }, _) => {
            let policy = Value::from(WorkspacePolicy::Bundle { source: source.clone(), digest: None });
            let source = policy.get("source").cloned().unwrap_or(Value::Null);
            actions.push(Action::CreateWorkspace);
            let allowed_host_roots = inputs.platform.allowed_host_roots.clone();
            actions.push(Action::UnpackBundle { source, digest: digest.clone(), allowed_host_roots });
        }
        (_, PolicyKind::Mount) => return Err(incomplete(inputs, "give {\"type\": \"mount\", \"host_path\": …}")),
        (_, PolicyKind::Bundle) => return Err(incomplete(inputs, "give {\"type\": \"bundle\", \"source\": …}")),
    }
    if !inputs.config.mounts.is_empty() {
        let (mounts, allowed_host_roots) = (inputs.config.mounts.clone(), inputs.platform.allowed_host_roots.clone());
        actions.push(Action::HydrateMounts { mounts, allowed_host_roots });
    }
    let context = task_context(inputs, kind, cloned.as_ref());
    let setup = inputs.config.setup_commands.iter().zip(1..).map(|(command, number)| Action::RunSetupCommand {
        number,
        command: command.clone(),
        timeout_seconds: inputs.config.setup_timeout_seconds,
    });
    match cached_files(inputs) {
        // A kept result must not contain the task of the session that made it.
        Some(files) => {
            actions.push(Action::RestoreSetup { files });
            actions.extend(setup);
            actions.push(Action::KeepSetup);
            actions.extend(context);
        }
        None => actions.extend(context.into_iter().chain(setup)),
    }
    Ok(InitPlan { env: environment(inputs, cloned.as_ref()), actions })
}

/// Returns the files of the setup cache, which are none if the commit decides. `None` if there is
/// nothing to cache. A host directory changes without notice, so its sessions have no cache.
pub(crate) fn cached_files(inputs: &PlanInputs<'_>) -> Option<Vec<String>> {
    let is_mount = inputs.policy.policy.kind() == PolicyKind::Mount;
    match &inputs.config.setup_cache {
        _ if is_mount || inputs.config.setup_commands.is_empty() => None,
        SetupCache::Off => None,
        SetupCache::Commit => Some(Vec::new()),
        SetupCache::Files(files) => Some(files.clone()),
    }
}

/// Returns the action that writes the task context; `None` if the task has none.
fn task_context(inputs: &PlanInputs<'_>, kind: PolicyKind, cloned: Option<&Action>) -> Option<Action> {
    let repository = match cloned {
        Some(Action::CloneRepository { url, reference, .. }) => Some((url, reference.as_ref())),
        _ => None,
    };
    let context = &inputs.task.context;
    let write = || Action::WriteTaskContext { context: visible_context(context, kind, repository) };
    (*context != TaskContext::default()).then(write)
}

fn incomplete(inputs: &PlanInputs<'_>, missing: &'static str) -> Incomplete {
    Incomplete { policy: inputs.policy.policy.kind(), layer: inputs.policy.source, missing }
}

/// Returns the task context that the workspace shows. The repository is the workspace's own, even
/// if the task names another one. An empty workspace does not see the task's repository URL, but it
/// sees the pull request and the branches.
pub fn visible_context(
    context: &TaskContext,
    kind: PolicyKind,
    repository: Option<(&RepositoryUrl, Option<&GitRef>)>,
) -> TaskContext {
    if let Some((url, reference)) = repository {
        return TaskContext { repository_url: Some(url.clone()), branch: reference.cloned(), ..context.clone() };
    }
    let repository_url = context.repository_url.clone().filter(|_| kind != PolicyKind::Empty);
    TaskContext { repository_url, ..context.clone() }
}

/// Returns the clone action of a `git` policy. `None` without a repository: the workspace then
/// starts empty.
pub(crate) fn clone_action(inputs: &PlanInputs<'_>) -> Option<Action> {
    if inputs.policy.policy.kind() != PolicyKind::Git {
        return None;
    }
    let GitPush { submodules, lfs, .. } = inputs.config.git;
    let clone = |url, reference, depth| Action::CloneRepository { url, reference, depth, submodules, lfs };
    if let WorkspacePolicy::Git { url, reference, depth } = &inputs.policy.policy {
        return Some(clone(url.clone(), reference.clone(), *depth));
    }
    let (url, reference) = repository(inputs.config, &inputs.task.context, inputs.project)?;
    Some(clone(url, reference, None))
}

/// Combines the variables of the layers. The task overrides the role, the project and the platform,
/// in this order, and Stead's own variables override all of them.
fn environment(inputs: &PlanInputs<'_>, cloned: Option<&Action>) -> Env {
    let no_env = Env::default();
    let mut env = (inputs.platform.env.clone())
        .overlaid_with(inputs.project.map_or(&no_env, |project| &project.env))
        .overlaid_with(inputs.role_env)
        .overlaid_with(&inputs.task.env);
    if inputs.policy.policy.kind() == PolicyKind::Empty {
        env = env.without_repository();
    }
    env.set("STEAD_WORKSPACE", WORKSPACE_ROOT);
    if let Some(id) = &inputs.task.id {
        env.set("STEAD_TASK_ID", id.clone());
    }
    if let Some(Action::CloneRepository { url, reference, .. }) = cloned {
        env.set("STEAD_REPO_URL", url.as_str());
        if let Some(reference) = reference {
            env.set("STEAD_GIT_REF", reference.as_str());
        }
    }
    env
}
