//! Disk usage. All sizes are in bytes on the disk.

use serde::{Deserialize, Serialize};
use stead_core::SessionId;
use stead_core::config::ProviderName;
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
