//! `stead gc`: removes blobs nothing refers to, straight from the home and without a server.

use std::time::{Duration, SystemTime};

use serde_json::json;
use stead_store::{Store, StoredBlob};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Mark;

/// Removes stored bytes that no session, snapshot, agent type or other document refers to. The server must be stopped.
#[derive(Debug, clap::Args)]
pub(crate) struct Gc {
    /// Say what would go, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Leave alone what was put in the last HOURS: somebody may be about to use it
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    grace: u32,
}

impl Gc {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let database = context.config.database()?;
        let home = &context.config.home;
        if !home.blobs().exists() {
            return Err(Failure::new(format!("there are no blobs at {}", home.blobs().display()))
                .hint("set STEAD_HOME to where the server keeps them"));
        }
        // Nobody refers to a blob between our look and its removal.
        let _lock = home.lock()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new("cannot start the runtime").because(&error))?;
        let garbage = runtime.block_on(async {
            let store = Store::open(&database, &home.blobs()).await.map_err(|error| Failure::from_error(&error))?;
            let collected = self.collect(&store).await;
            store.close().await;
            collected
        })?;
        self.report(context, &garbage)
    }

    async fn collect(&self, store: &Store) -> Result<Vec<StoredBlob>, Failure> {
        let ownership = store.own().await.map_err(|error| Failure::from_error(&error))?;
        let ownership = ownership.ok_or_else(|| {
            Failure::new("a Stead server works on this database").hint("stop it first: it may be about to use a blob")
        })?;
        let before = SystemTime::now() - Duration::from_secs(u64::from(self.grace) * 3600);
        let found = store.unreferenced_blobs(&ownership, before).await;
        let garbage = found.map_err(|error| Failure::from_error(&error))?;
        if !self.dry_run {
            for blob in &garbage {
                store.blobs().remove(&blob.digest).await.map_err(|error| Failure::from_error(&error))?;
            }
        }
        Ok(garbage)
    }

    fn report(&self, context: &Context, garbage: &[StoredBlob]) -> Result<(), Failure> {
        let out = &context.out;
        let bytes: u64 = garbage.iter().map(|blob| blob.len).sum();
        let list: Vec<_> = garbage.iter().map(|blob| json!({"digest": blob.digest, "bytes": blob.len})).collect();
        out.either(&json!({"removed": !self.dry_run, "blobs": list, "bytes": bytes}), || {
            for blob in garbage {
                out.line(&format!("{} {} bytes", blob.digest, blob.len))?;
            }
            let done = if self.dry_run { "would go" } else { "removed" };
            out.marked(Mark::Good, &format!("{} blobs {done}, {bytes} bytes", garbage.len()))
        })
    }
}
