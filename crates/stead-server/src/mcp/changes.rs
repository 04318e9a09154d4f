//! Tells clients when the session's tools and prompts became others, which an apply does and nothing else.

use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use stead_core::content::SnapshotRef;
use stead_engine::ops;
use tokio::sync::watch;

use super::chosen::Chosen;

/// Waits for another snapshot to be the session's active one.
struct Watch<'a> {
    chosen: &'a Chosen,
    /// Told of everything that is recorded from before `seen` was looked at: nothing falls between.
    counter: Option<watch::Receiver<u64>>,
    seen: Option<SnapshotRef>,
}

impl<'a> Watch<'a> {
    async fn new(chosen: &'a Chosen) -> Self {
        // Read if it was not: only what is in memory can be watched.
        active(chosen).await;
        let counter = chosen.app.engine.watch(chosen.session);
        Self { chosen, counter, seen: active(chosen).await }
    }

    /// Returns when there is another; `false` when there never will be.
    async fn changed(&mut self) -> bool {
        let Some(counter) = &mut self.counter else { return false };
        while counter.changed().await.is_ok() {
            let now = active(self.chosen).await;
            if now != self.seen {
                self.seen = now;
                return true;
            }
        }
        false
    }
}

async fn active(chosen: &Chosen) -> Option<SnapshotRef> {
    let state = ops::session(&chosen.app.engine, chosen.session).await.ok()?;
    state.session?.content.active.as_ref().map(|snapshot| snapshot.reference())
}

/// For a client of an older revision: on its standalone stream, until it is gone.
pub(super) async fn tell(chosen: Chosen, peer: Peer<RoleServer>) {
    let mut watch = Watch::new(&chosen).await;
    loop {
        tokio::select! {
            changed = watch.changed() => {
                let told = changed && peer.notify_tool_list_changed().await.is_ok();
                if !told || peer.notify_prompt_list_changed().await.is_err() {
                    return;
                }
            }
            () = gone(&peer) => return,
        }
    }
}

/// For a client that subscribed.
pub(super) async fn follow(chosen: &Chosen, context: &SubscriptionContext) {
    let mut watch = Watch::new(chosen).await;
    loop {
        tokio::select! {
            changed = watch.changed() => {
                // Each is told only to who asked for it; who hears of neither is gone.
                let tools = changed && context.sink().notify_tool_list_changed().await.is_ok();
                let prompts = changed && context.sink().notify_prompt_list_changed().await.is_ok();
                if !tools && !prompts {
                    return;
                }
            }
            () = context.cancelled() => return,
        }
    }
}

async fn gone(peer: &Peer<RoleServer>) {
    while !peer.is_transport_closed() {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    }
}
