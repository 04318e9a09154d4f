//! Notifies clients when the session's tools and prompts change. Only adopting another content
//! snapshot changes them.

use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use stead_core::content::SnapshotRef;
use stead_engine::ops;
use tokio::sync::watch;

use super::chosen::Chosen;

/// Waits until another content snapshot becomes active.
struct Watch<'a> {
    chosen: &'a Chosen,
    /// Counts recorded events. It is created before `seen` is read, so that no change is lost in
    /// between.
    counter: Option<watch::Receiver<u64>>,
    seen: Option<SnapshotRef>,
}

impl<'a> Watch<'a> {
    async fn new(chosen: &'a Chosen) -> Self {
        // Loads the session if necessary, because only loaded sessions can be watched.
        active(chosen).await;
        let counter = chosen.app.engine.watch(chosen.session);
        Self { chosen, counter, seen: active(chosen).await }
    }

    /// Returns true after a change, and false if no change can follow.
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

/// Notifies a client of an older protocol version on its standalone stream, until it disconnects.
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

/// Notifies a client that subscribed, until it cancels.
pub(super) async fn follow(chosen: &Chosen, context: &SubscriptionContext) {
    let mut watch = Watch::new(chosen).await;
    loop {
        tokio::select! {
            changed = watch.changed() => {
                // The sink only sends notifications that the client subscribed to. If both fail,
                // the client is gone.
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
