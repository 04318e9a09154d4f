//! What everything takes on the disk, in bytes of it.

use serde::Serialize;
use stead_core::SessionId;
use stead_core::config::ProviderName;
use stead_engine::ops;
use utoipa::ToSchema;

use crate::schema;

#[derive(Serialize, ToSchema)]
pub(crate) struct Usage {
    /// Everything below, what is shared counted once.
    total_bytes: u64,
    /// Of live sessions.
    workspaces: Vec<WorkspaceUsage>,
    /// Trees that workspaces share: checkouts and bundles.
    layers: Held,
    mirrors: Vec<Mirror>,
    blobs: Blobs,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct WorkspaceUsage {
    #[schema(value_type = schema::SessionId)]
    session: SessionId,
    workspace: String,
    #[schema(value_type = schema::ProviderName)]
    provider: ProviderName,
    /// For itself alone; `null` where its provider cannot tell.
    #[schema(required = true)]
    own_bytes: Option<u64>,
    /// Of layers that other workspaces may stand on too.
    #[schema(required = true)]
    shared_bytes: Option<u64>,
    #[schema(required = true)]
    shared_layers: Option<u64>,
}

#[derive(Serialize, ToSchema)]
struct Held {
    count: u64,
    bytes: u64,
    /// Of these, what a workspace stands on: the others are kept for a while.
    held_count: u64,
    held_bytes: u64,
}

/// A repository's bare mirror.
#[derive(Serialize, ToSchema)]
struct Mirror {
    url: String,
    bytes: u64,
    /// Whether a live session is of it: the others are kept for a while.
    held: bool,
}

#[derive(Serialize, ToSchema)]
struct Blobs {
    count: u64,
    bytes: u64,
}

impl From<ops::SessionUsage> for WorkspaceUsage {
    fn from(usage: ops::SessionUsage) -> Self {
        let ops::SessionUsage { session, workspace, provider, disk } = usage;
        Self {
            session,
            workspace: workspace.to_string(),
            provider,
            own_bytes: disk.map(|disk| disk.own_bytes),
            shared_bytes: disk.map(|disk| disk.shared_bytes),
            shared_layers: disk.map(|disk| disk.shared_layers),
        }
    }
}

impl From<ops::Usage> for Usage {
    fn from(usage: ops::Usage) -> Self {
        let own: u64 = usage.workspaces.iter().filter_map(|workspace| workspace.disk).map(|disk| disk.own_bytes).sum();
        let mirrored: u64 = usage.mirrors.iter().map(|mirror| mirror.bytes).sum();
        let mirrors = usage.mirrors.into_iter();
        Self {
            total_bytes: own + usage.layers.bytes + mirrored + usage.blob_bytes,
            workspaces: usage.workspaces.into_iter().map(WorkspaceUsage::from).collect(),
            layers: Held {
                count: usage.layers.layers,
                bytes: usage.layers.bytes,
                held_count: usage.layers.held_layers,
                held_bytes: usage.layers.held_bytes,
            },
            mirrors: mirrors.map(|mirror| Mirror { url: mirror.url, bytes: mirror.bytes, held: mirror.held }).collect(),
            blobs: Blobs { count: usage.blobs, bytes: usage.blob_bytes },
        }
    }
}
