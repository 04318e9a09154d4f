//! Conversions of operator data: audit records, images, providers, warm pools, disk usage.

use serde_json::Value;
use stead_api::audit::AuditRecord;
use stead_api::image::Image;
use stead_api::provider::{PoolEntry, Provider, SetupResult};
use stead_api::usage::{BlobUsage, LayerUsage, MirrorUsage, Usage, WorkspaceUsage};
use stead_core::Timestamp;
use stead_engine::PoolReport;
use stead_engine::ops::{self, ProviderReport};
use stead_providers::{Health, ImageRecord, SetupAbout, SetupEntry};
use stead_store::AuditRow;

use super::IntoWire;

impl IntoWire for AuditRow {
    type Wire = AuditRecord;

    fn into_wire(self) -> AuditRecord {
        let Self { id, project, entry } = self;
        // The engine writes JSON. A row that is not valid JSON is returned as a string.
        let detail = serde_json::from_str(&entry.body).unwrap_or(Value::String(entry.body));
        let (at, kind, actor, token, session) = (entry.at, entry.kind, entry.actor, entry.token, entry.session);
        AuditRecord { id, at, kind, actor, token, session, project, detail }
    }
}

impl IntoWire for ImageRecord {
    type Wire = Image;

    fn into_wire(self) -> Image {
        let Self { name, project, digest, bytes, files, left_out, imported_at, .. } = self;
        Image { name, project, digest: digest.to_string(), bytes, files, left_out, imported_at }
    }
}

impl IntoWire for ProviderReport {
    type Wire = Provider;

    fn into_wire(self) -> Provider {
        let detail = match self.health {
            Health::Healthy => None,
            Health::Unhealthy { reason } => Some(reason),
        };
        Provider { name: self.name, healthy: detail.is_none(), detail, capabilities: self.capabilities }
    }
}

impl IntoWire for (PoolReport, Timestamp) {
    type Wire = PoolEntry;

    fn into_wire(self) -> PoolEntry {
        let (report, now) = self;
        let PoolReport { agent_type, provider, key, target, ready, hits, misses, fills, discarded, oldest } = report;
        let age = |since: Timestamp| u64::try_from((now.millis() - since.millis()) / 1_000).unwrap_or(0);
        let oldest_seconds = oldest.map(age);
        PoolEntry { agent_type, provider, key, target, ready, hits, misses, fills, discarded, oldest_seconds }
    }
}

impl IntoWire for ops::SessionUsage {
    type Wire = WorkspaceUsage;

    fn into_wire(self) -> WorkspaceUsage {
        let Self { session, workspace, provider, disk } = self;
        WorkspaceUsage {
            session,
            workspace: workspace.to_string(),
            provider,
            own_bytes: disk.map(|disk| disk.own_bytes),
            shared_bytes: disk.map(|disk| disk.shared_bytes),
            shared_layers: disk.map(|disk| disk.shared_layers),
        }
    }
}

fn layers(usage: stead_providers::Usage) -> LayerUsage {
    let stead_providers::Usage { layers: count, bytes, held_layers: held_count, held_bytes } = usage;
    LayerUsage { count, bytes, held_count, held_bytes }
}

impl IntoWire for ops::KeptSetup {
    type Wire = SetupResult;

    fn into_wire(self) -> SetupResult {
        let Self { provider, entry: SetupEntry { id, about, used_at, bytes, users, .. } } = self;
        let SetupAbout { project, agent_type, commit, commands, created_at } = about;
        SetupResult { id, provider, project, agent_type, commit, commands, bytes, users, created_at, used_at }
    }
}

impl IntoWire for ops::Usage {
    type Wire = Usage;

    fn into_wire(self) -> Usage {
        let own: u64 = self.workspaces.iter().filter_map(|workspace| workspace.disk).map(|disk| disk.own_bytes).sum();
        let mirrored: u64 = self.mirrors.iter().map(|mirror| mirror.bytes).sum();
        let mirrors = self.mirrors.into_iter();
        Usage {
            total_bytes: own + self.layers.bytes + self.setups.bytes + mirrored + self.blob_bytes,
            workspaces: self.workspaces.into_wire(),
            layers: layers(self.layers),
            setup_results: layers(self.setups),
            mirrors: mirrors.map(|one| MirrorUsage { url: one.url, bytes: one.bytes, held: one.held }).collect(),
            blobs: BlobUsage { count: self.blobs, bytes: self.blob_bytes },
        }
    }
}
