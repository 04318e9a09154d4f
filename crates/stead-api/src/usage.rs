//! What everything takes on the disk, in bytes of it.

use serde::{Deserialize, Serialize};
use stead_core::SessionId;
use stead_core::config::ProviderName;
use utoipa::ToSchema;

use crate::schema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Everything below, what is shared counted once.
    pub total_bytes: u64,
    /// Of live sessions.
    pub workspaces: Vec<WorkspaceUsage>,
    /// Trees that workspaces share: checkouts and bundles.
    pub layers: LayerUsage,
    pub mirrors: Vec<MirrorUsage>,
    pub blobs: BlobUsage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceUsage {
    #[schema(value_type = schema::SessionId)]
    pub session: SessionId,
    pub workspace: String,
    #[schema(value_type = schema::ProviderName)]
    pub provider: ProviderName,
    /// For itself alone; `null` where its provider cannot tell.
    #[schema(required = true)]
    pub own_bytes: Option<u64>,
    /// Of layers that other workspaces may stand on too.
    #[schema(required = true)]
    pub shared_bytes: Option<u64>,
    #[schema(required = true)]
    pub shared_layers: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LayerUsage {
    pub count: u64,
    pub bytes: u64,
    /// Of these, what a workspace stands on: the others are kept for a while.
    pub held_count: u64,
    pub held_bytes: u64,
}

/// A repository's bare mirror.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MirrorUsage {
    pub url: String,
    pub bytes: u64,
    /// Whether a live session is of it: the others are kept for a while.
    pub held: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BlobUsage {
    pub count: u64,
    pub bytes: u64,
}
