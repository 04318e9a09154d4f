//! Tells clients when the session's list of tools became another, and only then.

use rmcp::service::{Peer, RoleServer, SubscriptionContext};

use super::catalog;
use super::chosen::Chosen;

/// Waits for changes of one session's lists.
struct Watch<'a> {
    chosen: &'a Chosen,
    seen: String,
}

impl<'a> Watch<'a> {
    async fn new(chosen: &'a Chosen) -> Self {
        Self { chosen, seen: fingerprint(chosen).await }
    }

    /// Returns when the list is another than before; `false` when it never will be.
    async fn changed(&mut self) -> bool {
        let Some(mut counter) = self.chosen.app.engine.watch(self.chosen.session) else { return false };
        while counter.changed().await.is_ok() {
            let now = fingerprint(self.chosen).await;
            if now != self.seen {
                self.seen = now;
                return true;
            }
        }
        false
    }
}

async fn fingerprint(chosen: &Chosen) -> String {
    let tools = catalog::tools(chosen).await.unwrap_or_default();
    serde_json::to_string(&tools).unwrap_or_default()
}

/// For a client of an older revision: on its standalone stream, until it is gone.
pub(super) async fn tell(chosen: Chosen, peer: Peer<RoleServer>) {
    let mut watch = Watch::new(&chosen).await;
    loop {
        tokio::select! {
            changed = watch.changed() => if !changed || peer.notify_tool_list_changed().await.is_err() { return },
            () = gone(&peer) => return,
        }
    }
}

/// For a client that subscribed.
pub(super) async fn follow(chosen: &Chosen, context: &SubscriptionContext) {
    let mut watch = Watch::new(chosen).await;
    loop {
        tokio::select! {
            changed = watch.changed() => if !changed || context.sink().notify_tool_list_changed().await.is_err() { return },
            () = context.cancelled() => return,
        }
    }
}

async fn gone(peer: &Peer<RoleServer>) {
    while !peer.is_transport_closed() {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    }
}
