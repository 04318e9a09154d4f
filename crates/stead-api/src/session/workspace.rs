//! The workspace of a session.

use serde::{Deserialize, Serialize};
use stead_core::box_facts::{Allowances, Trees};
use stead_core::capability::LimitKind;
use stead_core::config::{Preset, ProviderName};
use stead_core::content::gate::catalog_tools;
use stead_core::event::MountReport;
use stead_core::plan::{WORKSPACE_ROOT, visible_context};
use stead_core::request::TaskContext;
use stead_core::session::{FailedAttempt, Session, WorkspaceStatus};
use stead_core::spec::WorkspaceSpec;
use stead_core::tool::ToolName;
use utoipa::ToSchema;

use super::network::WorkspaceNetwork;
use super::policy::Policy;
use crate::schema;

/// The workspace of a session: its files and the box in which its commands run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Workspace {
    /// Id of the workspace.
    pub id: String,
    /// Provider that made the workspace, or that the server tried last; `null` before the first
    /// attempt.
    #[schema(value_type = Option<schema::ProviderName>, required = true)]
    pub provider: Option<ProviderName>,
    /// `pending`, `creating`, `preparing`, `ready`, `condemned`, `removing`, `removed` or `lost`.
    #[schema(value_type = String)]
    pub status: WorkspaceStatus,
    /// Absolute path of the workspace in the box.
    pub root: String,
    /// Resolved workspace policy.
    pub policy: Policy,
    /// Limits of the box and of the tools, and which resource limits the provider enforces.
    pub limits: Limits,
    /// Network of the box.
    pub network: WorkspaceNetwork,
    /// State of the files at the start.
    pub base: WorkspaceBase,
    /// Repository that the workspace was made from.
    pub metadata: WorkspaceMetadata,
    /// Hash of every setting that shapes the workspace, of its image, and of the content of its
    /// mounts and bundle. Equal inputs give equal hashes.
    pub fingerprint: String,
    /// Content of each host mount when the workspace was made.
    pub mounts: Vec<WorkspaceMount>,
    /// Hash of the mounts' configuration and content; `null` without mounts.
    #[schema(required = true)]
    pub mount_fingerprint: Option<String>,
    /// Latest recorded hash of all files; `null` if none is recorded.
    #[schema(required = true)]
    pub tree_hash: Option<String>,
    /// Number of snapshots.
    pub snapshots: u64,
    /// Tools that the session may use.
    #[schema(value_type = Vec<schema::ToolName>)]
    pub tools: Vec<ToolName>,
    /// Failed attempts to make the workspace, in order.
    pub failures: Vec<ProviderFailure>,
    /// Image of the box; `null` if the box has none.
    #[schema(required = true)]
    pub image: Option<BoxImage>,
    /// Program that runs the box, if the provider has a choice; `null` otherwise.
    #[schema(required = true)]
    pub runtime: Option<String>,
    /// Storage of the files on the host: as `shared` layers, or `copied` for this workspace alone;
    /// `null` if the provider has no choice.
    #[schema(value_type = Option<String>, required = true)]
    pub trees: Option<Trees>,
    /// User to whom the kernel charges per-user resources such as inotify instances: the box's
    /// `own` user, or one that is `shared` with other boxes. `null` without a box.
    #[schema(value_type = Option<String>, required = true)]
    pub allowances: Option<Allowances>,
    /// True if the box came from the warm pool.
    pub warm: bool,
}

/// The image of a box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BoxImage {
    /// Name of the image as the agent type gives it.
    pub reference: String,
    /// Digest that the name referred to when the box was made; `null` if unknown.
    #[schema(required = true)]
    pub digest: Option<String>,
}

/// Content that a host mount brought into the workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceMount {
    /// Path on the host.
    pub host_path: String,
    /// Path in the workspace.
    pub mount_path: String,
    /// First entries of the top level, sorted.
    pub entries: Vec<String>,
    /// Number of entries at the top level, including those that `entries` omits.
    pub total_entries: u64,
    /// Number of files.
    pub files: u64,
    /// Number of bytes that were copied.
    pub bytes_copied: u64,
    /// Number of links and special files that were skipped.
    pub skipped: u64,
}

impl From<&MountReport> for WorkspaceMount {
    fn from(report: &MountReport) -> Self {
        let MountReport { host_path, mount_path, entries, total_entries, files, bytes_copied, skipped } =
            report.clone();
        Self { host_path, mount_path, entries, total_entries, files, bytes_copied, skipped }
    }
}

/// Limits of a workspace: its resources, where `null` means no limit, and its tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// CPU limit in cores (`2`, `0.5`) or thousandths (`500m`).
    #[schema(required = true)]
    pub cpu: Option<String>,
    /// Memory limit in bytes, with an optional K, M, G or T.
    #[schema(required = true)]
    pub memory: Option<String>,
    /// Disk limit in bytes, with an optional K, M, G or T.
    #[schema(required = true)]
    pub disk: Option<String>,
    /// Maximum number of processes.
    #[schema(required = true, minimum = 1)]
    pub pids: Option<u64>,
    /// Limits that the provider enforces: `cpu`, `memory`, `disk`, `pids`.
    #[schema(value_type = Vec<String>)]
    pub enforced: Vec<LimitKind>,
    /// Set of tool limits. In `wink`, paths and commands are ASCII, and lengths count characters.
    /// In `open`, they are UTF-8, and lengths count bytes.
    #[schema(value_type = schema::Preset)]
    pub preset: Preset,
    /// Maximum length of one write.
    pub write_bytes: u64,
    /// Maximum number of segments of a new path.
    pub path_depth: u64,
    /// Maximum length of a segment of a new path.
    pub segment_bytes: u64,
    /// Maximum length of a command.
    pub command_bytes: u64,
    /// Maximum size of a tool's answer. Each output stream of a command has half of it.
    pub output_bytes: u64,
}

impl Limits {
    pub fn new(spec: &WorkspaceSpec, enforced: &[LimitKind]) -> Self {
        let (limits, tools) = (&spec.limits, spec.tool_limits.for_call(None));
        Self {
            preset: spec.tool_limits.preset(),
            write_bytes: spec.tool_limits.write(),
            path_depth: tools.path_depth,
            segment_bytes: tools.segment_bytes,
            command_bytes: tools.command_bytes,
            output_bytes: tools.output_bytes,
            cpu: limits.cpu.as_ref().map(ToString::to_string),
            memory: limits.memory.as_ref().map(ToString::to_string),
            disk: limits.disk.as_ref().map(ToString::to_string),
            pids: limits.pids,
            enforced: enforced.to_vec(),
        }
    }
}

/// State of the files when the workspace was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceBase {
    /// Commit of the checkout. Absent without a checkout.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub commit: Option<String>,
    /// Hash of the bundle. Absent without a bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub digest: Option<String>,
}

/// The repository as the task describes it. Absent fields were not given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceMetadata {
    /// URL of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub repository_url: Option<String>,
    /// Branch to work on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub branch: Option<String>,
    /// Number of the pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pull_request_number: Option<u64>,
    /// Branch that the pull request targets.
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

/// A failed attempt to make the workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProviderFailure {
    /// Provider of the attempt.
    #[schema(value_type = schema::ProviderName)]
    pub provider: ProviderName,
    /// Stable code for programs.
    pub code: String,
    /// Description for people.
    pub message: String,
}

impl From<&FailedAttempt> for ProviderFailure {
    fn from(attempt: &FailedAttempt) -> Self {
        let FailedAttempt { provider, failure } = attempt;
        Self { provider: *provider, code: failure.code.clone(), message: failure.message.clone() }
    }
}

impl Workspace {
    /// Returns `None` if the agent type has no workspaces, or if no provider could make one. The
    /// session's warnings give the reason.
    pub fn of(session: &Session) -> Option<Self> {
        let (spec, workspace) = (session.workspace_spec()?, session.workspace.as_ref()?);
        if session.degraded {
            return None;
        }
        let (report, made) = (&workspace.report, &workspace.made);
        let catalog = catalog_tools(session);
        let usable =
            |tool: ToolName| session.has_tool(tool) && catalog.as_ref().is_none_or(|tools| tools.contains(&tool));
        let repository = spec.repository.as_ref().map(|repository| (&repository.url, repository.reference.as_ref()));
        let context = visible_context(&session.spec.task.context, spec.policy.policy.kind(), repository);
        Some(Self {
            id: spec.id.to_string(),
            provider: workspace.provider,
            status: workspace.status,
            root: WORKSPACE_ROOT.to_owned(),
            limits: Limits::new(spec, &workspace.enforced_limits),
            network: WorkspaceNetwork::of(session),
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
            tools: spec.tools.iter().filter(|tool| usable(*tool)).collect(),
            failures: workspace.failures.iter().map(ProviderFailure::from).collect(),
            image: made.image.clone().map(|reference| BoxImage { reference, digest: made.image_digest.clone() }),
            runtime: made.runtime.clone(),
            trees: made.trees,
            allowances: made.allowances,
            warm: made.warm,
        })
    }
}
