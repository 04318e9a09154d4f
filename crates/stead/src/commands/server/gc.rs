//! `stead gc`: removes unreferenced blobs, and layers and mirrors that no live session needs,
//! directly from the home without a server.

use std::time::{Duration, SystemTime};

use serde_json::json;
use stead_core::Event;
use stead_core::identity::Tenant;
use stead_git::{HeldRepository, MirrorUse, Mirrors};
use stead_providers::{LayerKey, LayerStore};
use stead_store::{Sealer, Store, StoredBlob};

use crate::context::Context;
use crate::embedded::continuity;
use crate::embedded::holder;
use crate::failure::Failure;
use crate::output::Mark;
use crate::render::{self, counted};

/// Removes stored blobs that no session, snapshot, agent type or other document refers to, and
/// checkouts and mirrors of repositories that no live session needs. The server must be stopped.
#[derive(Debug, clap::Args)]
pub(crate) struct Gc {
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Keep blobs written or used in the last HOURS hours, because a request may be about to use
    /// them
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    grace: u32,
}

struct Garbage {
    blobs: Vec<StoredBlob>,
    layers: Vec<(LayerKey, u64)>,
    mirrors: Vec<MirrorUse>,
}

impl Gc {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let database = context.config.database()?;
        let home = &context.config.home;
        if !home.blobs().exists() {
            return Err(Failure::new(format!("there are no blobs at {}", home.blobs().display()))
                .hint("set STEAD_HOME to where the server keeps them"));
        }
        // No server may run: with a short grace period it could be about to refer to a blob that is
        // removed.
        let _lock = home.lock()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new("cannot start the runtime").because(&error))?;
        let (blobs, repositories) = runtime.block_on(async {
            let store = Store::open(&database, &home.blobs()).await.map_err(|error| Failure::from_error(&error))?;
            let noted = Sealer::anchor_in(home.path()).map_err(|error| Failure::from_error(&error))?;
            // Blobs that only a newer database refers to are not garbage.
            continuity::check(&store, noted, None).await?;
            let collected = self.collect(&store, &holder(home)).await;
            store.close().await;
            collected
        })?;
        let layers = self.layers(context)?;
        let mirrors = self.mirrors(context, &repositories)?;
        self.report(context, &Garbage { blobs, layers, mirrors })
    }

    /// Returns the garbage and the repositories of live sessions.
    async fn collect(&self, store: &Store, holder: &str) -> Result<(Vec<StoredBlob>, Vec<HeldRepository>), Failure> {
        let ownership = store.own(holder).await.map_err(|error| Failure::from_error(&error))?;
        let ownership = ownership.ok_or_else(|| {
            Failure::new("a Stead server uses this database").hint("stop it first: it may be about to use a blob")
        })?;
        let before = SystemTime::now() - self.grace();
        let found = match self.dry_run {
            true => store.unreferenced_blobs(before).await,
            false => store.collect_blobs(before).await,
        };
        let garbage = found.map_err(|error| Failure::from_error(&error))?;
        store.release(ownership).await.map_err(|error| Failure::from_error(&error))?;
        Ok((garbage, repositories(store).await?))
    }

    fn layers(&self, context: &Context) -> Result<Vec<(LayerKey, u64)>, Failure> {
        let failed = |error| Failure::from_error(&error);
        let layers = LayerStore::open(context.config.home.path().join("layers")).map_err(failed)?;
        let retention = stead_providers::Retention { unused: self.grace(), bytes: u64::MAX };
        let unneeded = layers.unneeded(retention).map_err(failed)?;
        if !self.dry_run {
            layers.collect(retention).map_err(failed)?;
        }
        Ok(unneeded)
    }

    fn mirrors(&self, context: &Context, held: &[HeldRepository]) -> Result<Vec<MirrorUse>, Failure> {
        let failed = |error| Failure::from_error(&error);
        let mirrors = Mirrors::open(context.config.git()?).map_err(failed)?;
        let retention = stead_git::Retention { unused: self.grace(), bytes: u64::MAX, grace: Duration::ZERO };
        match self.dry_run {
            true => mirrors.unneeded(retention, held).map_err(failed),
            false => mirrors.collect(retention, held).map_err(failed),
        }
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(u64::from(self.grace) * 3600)
    }

    fn report(&self, context: &Context, garbage: &Garbage) -> Result<(), Failure> {
        let (out, Garbage { blobs, layers, mirrors }) = (&context.out, garbage);
        let bytes: u64 = blobs.iter().map(|blob| blob.len).sum();
        let answer = json!({
            "removed": !self.dry_run,
            "blobs": blobs.iter().map(|blob| json!({"digest": blob.hash, "bytes": blob.len})).collect::<Vec<_>>(),
            "bytes": bytes,
            "layers": layers.iter().map(|(key, bytes)| json!({"key": key.as_str(), "bytes": bytes})).collect::<Vec<_>>(),
            "mirrors": mirrors.iter().map(|mirror| json!({"url": mirror.url, "bytes": mirror.bytes})).collect::<Vec<_>>(),
        });
        out.either(&answer, || {
            for blob in blobs {
                out.line(&format!("{} {} bytes", blob.hash, blob.len))?;
            }
            for (key, bytes) in layers {
                out.line(&format!("layer {key} {}", render::bytes(*bytes)))?;
            }
            for mirror in mirrors {
                out.line(&format!("mirror of {} {}", mirror.url, render::bytes(mirror.bytes)))?;
            }
            let done = if self.dry_run { "would go" } else { "removed" };
            out.marked(Mark::Good, &format!("{} {done}, {bytes} bytes", counted(blobs.len(), "blob", "blobs")))?;
            let shared = layers.iter().map(|(_, bytes)| bytes).chain(mirrors.iter().map(|mirror| &mirror.bytes)).sum();
            let (layers, mirrors) =
                (counted(layers.len(), "layer", "layers"), counted(mirrors.len(), "mirror", "mirrors"));
            out.marked(Mark::Good, &format!("{layers} and {mirrors} {done}, {}", render::bytes(shared)))
        })
    }
}

/// The repositories of live sessions, from the first event of each.
async fn repositories(store: &Store) -> Result<Vec<HeldRepository>, Failure> {
    let failed = |error| Failure::from_error(&error);
    let mut repositories = Vec::new();
    for session in store.live_sessions().await.map_err(failed)? {
        let first = store.events(session.id, 0, 1).await.map_err(failed)?;
        let born = first.first().and_then(|stored| serde_json::from_str(&stored.payload).ok());
        if let Some(Event::SessionCreated { spec, .. }) = born {
            let tenant = Tenant::of(spec.project.as_ref());
            let repository = spec.workspace.and_then(|workspace| workspace.repository);
            repositories.extend(repository.map(|repository| HeldRepository { tenant, url: repository.url }));
        }
    }
    Ok(repositories)
}
