//! The workspace of a session.

use serde::{Deserialize, Serialize};
use stead_core::box_facts::{Allowances, Trees};
use stead_core::capability::LimitKind;
use stead_core::config::{ProviderName, ResourceLimits};
use stead_core::event::MountReport;
use stead_core::plan::{WORKSPACE_ROOT, visible_context};
use stead_core::request::TaskContext;
use stead_core::session::{FailedAttempt, Session, WorkspaceStatus};
use stead_core::tool::ToolName;
use utoipa::ToSchema;

use super::policy::Policy;
use crate::schema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Workspace {
    pub id: String,
    /// Who made it, or was asked last; `null` before anyone was.
    #[schema(value_type = Option<schema::ProviderName>, required = true)]
    pub provider: Option<ProviderName>,
    #[schema(value_type = String)]
    pub status: WorkspaceStatus,
    pub root: String,
    pub policy: Policy,
    pub limits: Limits,
    pub base: WorkspaceBase,
    pub metadata: WorkspaceMetadata,
    /// Of how it was provisioned: every field that shapes it, and what its mounts and bundle brought. Equal for equal.
    pub fingerprint: String,
    /// What each host mount brought.
    pub mounts: Vec<WorkspaceMount>,
    /// Over the mounts' configuration and the content they brought; `null` without mounts.
    #[schema(required = true)]
    pub mount_fingerprint: Option<String>,
    /// Of all files, as the journal last recorded it.
    #[schema(required = true)]
    pub tree_hash: Option<String>,
    /// How many there are.
    pub snapshots: u64,
    #[schema(value_type = Vec<schema::ToolName>)]
    pub tools: Vec<ToolName>,
    pub failures: Vec<ProviderFailure>,
    /// The image its box was made from; `null` where there is none.
    #[schema(required = true)]
    pub image: Option<BoxImage>,
    /// Which program runs its box, where the provider has a choice.
    #[schema(required = true)]
    pub runtime: Option<String>,
    /// How its files are kept, where that depends on the host: `shared` layers, or `copied` into it alone.
    #[schema(value_type = Option<String>, required = true)]
    pub trees: Option<Trees>,
    /// The user that the kernel charges for what it counts per user, such as inotify instances: the
    /// box's `own` user, or one that is `shared` with other boxes.
    #[schema(value_type = Option<String>, required = true)]
    pub allowances: Option<Allowances>,
    /// Its box was kept ready before the session asked for one.
    pub warm: bool,
}

/// An image by name, and what the name meant when the box was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BoxImage {
    pub reference: String,
    #[schema(required = true)]
    pub digest: Option<String>,
}

/// A host mount, with the first entries of its top level, sorted, and true counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceMount {
    pub host_path: String,
    pub mount_path: String,
    pub entries: Vec<String>,
    /// How many entries the top level has; those beyond `entries` are not shown.
    pub total_entries: u64,
    pub files: u64,
    pub bytes_copied: u64,
    /// Links and special files that were left out.
    pub skipped: u64,
}

impl From<&MountReport> for WorkspaceMount {
    fn from(report: &MountReport) -> Self {
        let MountReport { host_path, mount_path, entries, total_entries, files, bytes_copied, skipped } =
            report.clone();
        Self { host_path, mount_path, entries, total_entries, files, bytes_copied, skipped }
    }
}

/// What applies, and which of it the provider enforces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    #[schema(required = true)]
    pub cpu: Option<String>,
    #[schema(required = true)]
    pub memory: Option<String>,
    #[schema(required = true)]
    pub disk: Option<String>,
    #[schema(required = true, minimum = 1)]
    pub pids: Option<u64>,
    #[schema(value_type = Vec<String>)]
    pub enforced: Vec<LimitKind>,
}

impl Limits {
    pub fn new(limits: &ResourceLimits, enforced: &[LimitKind]) -> Self {
        Self {
            cpu: limits.cpu.as_ref().map(ToString::to_string),
            memory: limits.memory.as_ref().map(ToString::to_string),
            disk: limits.disk.as_ref().map(ToString::to_string),
            pids: limits.pids,
            enforced: enforced.to_vec(),
        }
    }
}

/// What the files started from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceBase {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub digest: Option<String>,
}

/// What the task said about its repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub repository_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pull_request_number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub base_branch: Option<String>,
}

impl WorkspaceMetadata {
    fn new(context: &TaskContext) -> Self {
        Self {
            repository_url: context.repository_url.as_ref().map(ToString::to_string),
            branch: context.branch.as_ref().map(ToString::to_string),
            pull_request_number: context.pull_request_number,
            base_branch: context.base_branch.as_ref().map(ToString::to_string),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProviderFailure {
    #[schema(value_type = schema::ProviderName)]
    pub provider: ProviderName,
    pub code: String,
    pub message: String,
}

impl From<&FailedAttempt> for ProviderFailure {
    fn from(attempt: &FailedAttempt) -> Self {
        let FailedAttempt { provider, failure } = attempt;
        Self { provider: *provider, code: failure.code.clone(), message: failure.message.clone() }
    }
}

impl Workspace {
    /// None for an agent type without workspaces, and none when no provider could make one: the warnings say why.
    pub fn of(session: &Session) -> Option<Self> {
        let (spec, workspace) = (session.workspace_spec()?, session.workspace.as_ref()?);
        if session.degraded {
            return None;
        }
        let (report, made) = (&workspace.report, &workspace.made);
        let repository = spec.repository.as_ref().map(|repository| (&repository.url, repository.reference.as_ref()));
        let context = visible_context(&session.spec.task.context, spec.policy.policy.kind(), repository);
        Some(Self {
            id: spec.id.to_string(),
            provider: workspace.provider,
            status: workspace.status,
            root: WORKSPACE_ROOT.to_owned(),
            limits: Limits::new(&spec.limits, &workspace.enforced_limits),
            base: WorkspaceBase {
                commit: report.checkout.as_ref().map(|checkout| checkout.commit.clone()),
                digest: report.bundle.as_ref().map(|bundle| bundle.digest.clone()),
            },
            metadata: WorkspaceMetadata::new(&context),
            policy: spec.policy.clone().into(),
            fingerprint: session.fingerprint()?,
            mounts: report.mounts.iter().map(WorkspaceMount::from).collect(),
            mount_fingerprint: report.mount_fingerprint.clone(),
            tree_hash: workspace.tree_hash.clone(),
            snapshots: session.snapshots.len() as u64,
            tools: spec.tools.iter().collect(),
            failures: workspace.failures.iter().map(ProviderFailure::from).collect(),
            image: made.image.clone().map(|reference| BoxImage { reference, digest: made.image_digest.clone() }),
            runtime: made.runtime.clone(),
            trees: made.trees,
            allowances: made.allowances,
            warm: made.warm,
        })
    }
}
