//! Containers of this server that belong to no workspace.
//!
//! A workspace's directory is made before its container and removed after it. So a container with
//! this server's label and without a directory is an orphan. No other server has the label: a
//! copied home gets an instance of its own.

use std::sync::Arc;
use std::time::Duration;

use super::container;
use super::start::Podman;
use crate::contract::error::ProviderError;

/// Time between two attempts to reach a Podman that does not answer.
const AGAIN: Duration = Duration::from_secs(30);

impl Podman {
    /// Removes orphaned containers of earlier servers of this home, once, in the background. Podman
    /// may be unreachable for now, and the server's start must not wait for it.
    pub(super) fn remove_orphans_once(self: &Arc<Self>) {
        if self.orphans_sought.set(()).is_err() {
            return;
        }
        let podman = Arc::clone(self);
        tokio::spawn(async move {
            while let Err(error) = podman.remove_orphans().await {
                tracing::debug!(error = &error as &dyn std::error::Error, "cannot look for orphaned containers yet");
                tokio::time::sleep(AGAIN).await;
            }
        });
    }

    async fn remove_orphans(&self) -> Result<(), ProviderError> {
        for (workspace, own) in container::of_instance(&self.client, &self.config.instance).await? {
            // A container that belongs to a workspace has a directory, because a start makes the
            // directory first.
            if !self.records.directory(workspace).exists() {
                tracing::warn!(%workspace, "removing a container that belongs to no workspace");
                container::remove(&self.client, &own).await?;
            }
        }
        Ok(())
    }
}
