//! Disk usage, in bytes on the disk, and the history of what sessions reserved.

use serde::{Deserialize, Serialize};
use stead_core::config::ProviderName;
use stead_core::usage::UsageSums;
use stead_core::{Day, SessionId};
use utoipa::ToSchema;

use crate::schema;

/// Disk usage of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Sum of everything below. Shared layers count once.
    pub total_bytes: u64,
    /// Usage of each live session's workspace.
    pub workspaces: Vec<WorkspaceUsage>,
    /// Layers that several workspaces can share: checkouts, bundles and images.
    pub layers: LayerUsage,
    /// Kept setup results. Those that a workspace uses are held.
    pub setup_results: LayerUsage,
    /// Bare mirrors of repositories.
    pub mirrors: Vec<MirrorUsage>,
    /// Stored blobs.
    pub blobs: BlobUsage,
}

/// Disk usage of one workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceUsage {
    /// Session that uses the workspace.
    #[schema(value_type = schema::SessionId)]
    pub session: SessionId,
    /// Id of the workspace.
    pub workspace: String,
    /// Provider of the workspace.
    #[schema(value_type = schema::ProviderName)]
    pub provider: ProviderName,
    /// Bytes that only this workspace uses; `null` if the provider cannot measure them.
    #[schema(required = true)]
    pub own_bytes: Option<u64>,
    /// Bytes of the layers that other workspaces may use too; `null` if unknown.
    #[schema(required = true)]
    pub shared_bytes: Option<u64>,
    /// Number of those layers; `null` if unknown.
    #[schema(required = true)]
    pub shared_layers: Option<u64>,
}

/// Disk usage of the shared layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LayerUsage {
    /// Number of layers.
    pub count: u64,
    /// Size of all layers.
    pub bytes: u64,
    /// Number of layers that a workspace or an image name refers to. The server keeps the others
    /// for a while.
    pub held_count: u64,
    /// Size of the layers that a workspace or an image name refers to.
    pub held_bytes: u64,
}

/// Disk usage of the bare mirror of one repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MirrorUsage {
    /// URL of the repository.
    pub url: String,
    /// Size of the mirror.
    pub bytes: u64,
    /// True if a live session uses the repository. The server keeps the other mirrors for a while.
    pub held: bool,
}

/// Disk usage of the stored blobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BlobUsage {
    /// Number of blobs.
    pub count: u64,
    /// Size of all blobs.
    pub bytes: u64,
}

/// Amounts that the sessions of one group reserved on one day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageDay {
    /// Day in UTC.
    #[schema(value_type = schema::Day)]
    pub day: Day,
    /// Project of the sessions; `null` for sessions without one.
    #[schema(required = true)]
    pub project: Option<String>,
    /// Name of the project, the user or the agent type; `null` for sessions without one. Sessions
    /// that an administrator creates have no user.
    #[schema(required = true)]
    pub name: Option<String>,
    /// Number of sessions that were created on this day.
    pub sessions_created: u64,
    /// Number of tool calls that began on this day. Refused calls do not count.
    pub tool_calls: u64,
    /// Time that sessions lived, in seconds.
    pub session_seconds: f64,
    /// Time that sessions held a box, in seconds. A session that is paused by `stop` holds none.
    pub box_seconds: f64,
    /// Sum of the CPU limits of boxes times seconds, in cores times seconds.
    pub cpu_seconds: f64,
    /// Sum of the memory limits of boxes times seconds, rounded down.
    pub memory_byte_seconds: u64,
    /// Sum of the disk limits of workspaces times seconds, rounded down. A paused session keeps its
    /// files.
    pub disk_byte_seconds: u64,
}

impl UsageDay {
    pub fn new(day: Day, project: Option<String>, name: Option<String>, sums: &UsageSums) -> Self {
        let whole = |sum: u128| u64::try_from(sum / 1000).unwrap_or(u64::MAX);
        Self {
            day,
            project,
            name,
            sessions_created: sums.sessions_created,
            tool_calls: sums.tool_calls,
            session_seconds: sums.session_millis as f64 / 1e3,
            box_seconds: sums.box_millis as f64 / 1e3,
            cpu_seconds: sums.cpu as f64 / 1e6,
            memory_byte_seconds: whole(sums.memory),
            disk_byte_seconds: whole(sums.disk),
        }
    }
}
