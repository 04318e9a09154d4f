//! `stead snapshot SESSION`

use std::time::Duration;

use stead_api::List;
use stead_api::request::Text;
use stead_api::session::snapshot::{Snapshot as Kept, SnapshotRequest};

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::{cell, timestamp};

/// Takes a snapshot of a session's files, or lists the snapshots.
#[derive(Debug, clap::Args)]
pub(crate) struct Snapshot {
    /// The session's id
    session: String,
    /// Name of the snapshot
    #[arg(long, conflicts_with = "list")]
    name: Option<String>,
    /// Idempotency key: repeating the request returns the same snapshot
    #[arg(long, value_name = "KEY", conflicts_with = "list")]
    idempotency_key: Option<String>,
    /// List the session's snapshots instead, oldest first
    #[arg(long)]
    list: bool,
}

impl Snapshot {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let path = format!("/sessions/{}/snapshots", segment(&self.session));
        let (client, out) = (context.client()?, &context.out);
        if self.list {
            let listed: List<Kept> = client.get(&path)?;
            return out.either(&listed, || {
                let mut table = Table::new(&["id", "name", "at event", "made"]);
                for kept in &listed.items {
                    let (id, name, made) = (cell(&kept.id), cell(&kept.name), timestamp(&kept.created_at));
                    table.row(&[&id, &name, &kept.seq.to_string(), &made]);
                }
                out.table(&table)
            });
        }
        let key = self.idempotency_key.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        let body = SnapshotRequest { name: self.name.clone().map(Text) };
        let kept: Kept = client.create(&path, &body, &key, Duration::ZERO)?;
        out.either(&kept, || {
            out.line(&cell(&kept.id))?;
            out.note(&format!("`stead restore {} {}` puts the files back", self.session, kept.id));
            Ok(())
        })
    }
}
