//! Notifies clients when the session's tools, prompts and resources change. Only adopting another
//! content snapshot changes tools and prompts.

use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, RoleServer, SubscriptionContext, SubscriptionSendError};
use stead_core::content::SnapshotRef;
use stead_engine::ops;
use tokio::sync::watch;

use super::chosen::Chosen;

/// A change that a client may want to know.
#[derive(Debug, Default, PartialEq, Eq)]
struct Change {
    lists: Lists,
    /// URIs of resources that changed.
    resources: Vec<String>,
}

/// The lists of tools and prompts.
#[derive(Debug, Default, PartialEq, Eq)]
enum Lists {
    #[default]
    Same,
    Changed,
}

/// Waits for changes.
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

    /// Returns the next change, or `None` if no change can follow.
    async fn next(&mut self) -> Option<Change> {
        let counter = self.counter.as_mut()?;
        while counter.changed().await.is_ok() {
            let now = active(self.chosen).await;
            let lists = if now == self.seen { Lists::Same } else { Lists::Changed };
            self.seen = now;
            let resources = self.chosen.subscriptions.changed(self.chosen).await;
            let change = Change { lists, resources };
            if change != Change::default() {
                return Some(change);
            }
        }
        None
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
            change = watch.next() => {
                let Some(Change { lists, resources }) = change else { return };
                if lists == Lists::Changed
                    && (peer.notify_tool_list_changed().await.is_err() || peer.notify_prompt_list_changed().await.is_err())
                {
                    return;
                }
                for uri in resources {
                    if peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.is_err() {
                        return;
                    }
                }
            }
            () = gone(&peer) => return,
        }
    }
}

/// Notifies a client that subscribed, until it cancels.
pub(super) async fn follow(chosen: &Chosen, context: &SubscriptionContext) {
    for uri in context.accepted().resource_subscriptions.iter().flatten() {
        // A resource that cannot be read has no changes to report.
        let _ = chosen.subscriptions.add(chosen, uri.clone()).await;
    }
    let mut watch = Watch::new(chosen).await;
    loop {
        tokio::select! {
            change = watch.next() => {
                let Some(Change { lists, resources }) = change else { return };
                let sink = context.sink();
                if lists == Lists::Changed
                    && (is_gone(&sink.notify_tool_list_changed().await)
                        || is_gone(&sink.notify_prompt_list_changed().await))
                {
                    return;
                }
                for uri in resources {
                    if is_gone(&sink.notify_resource_updated(uri).await) {
                        return;
                    }
                }
            }
            () = context.cancelled() => return,
        }
    }
}

/// Returns true if no notification can reach the client any more. The sink also refuses
/// notifications that the client did not subscribe to.
fn is_gone(sent: &Result<(), SubscriptionSendError>) -> bool {
    matches!(sent, Err(SubscriptionSendError::SubscriptionClosed | SubscriptionSendError::Service(_)))
}

async fn gone(peer: &Peer<RoleServer>) {
    while !peer.is_transport_closed() {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_that_nobody_subscribed_to_does_not_end_the_stream() {
        let refused = SubscriptionSendError::NotificationNotAccepted("notifications/tools/list_changed");
        assert!(!is_gone(&Err(refused)) && !is_gone(&Ok(())));
        assert!(is_gone(&Err(SubscriptionSendError::SubscriptionClosed)));
    }
}
