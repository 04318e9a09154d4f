//! Containers that Podman may still create after their request was abandoned.
//!
//! Podman completes a request even if the client has disconnected. If a box is removed while
//! Podman's answer is outstanding (its server was killed, or timed out), the server keeps a note of
//! the container's name. It looks for that name until Podman can no longer create the container.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::client::Client;
use super::container::{self, Found};

/// Time for which an abandoned request may still be running.
const GRACE: Duration = Duration::from_secs(15);
const EVERY: Duration = Duration::from_millis(500);

pub(super) struct AbandonedContainers {
    notes: PathBuf,
    instance: String,
    client: Arc<Client>,
    watching: AtomicBool,
}

impl AbandonedContainers {
    pub(super) fn new(notes: PathBuf, instance: String, client: Arc<Client>) -> Self {
        Self { notes, instance, client, watching: AtomicBool::new(false) }
    }

    /// Notes that a container of this name is an orphan from now on.
    pub(super) fn note(&self, container: &str) -> io::Result<()> {
        fs::create_dir_all(&self.notes)?;
        File::create(self.notes.join(container))?.sync_all()
    }

    /// Deletes the note because the name is used again. Making the next container finds the current
    /// one.
    pub(super) fn forget(&self, container: &str) -> io::Result<()> {
        match fs::remove_file(self.notes.join(container)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn is_noted(&self, container: &str) -> bool {
        self.notes.join(container).exists()
    }

    fn noted(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.notes).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Removes such containers in the background until none can appear. For notes of an earlier
    /// server the grace period starts again.
    pub(super) fn watch(self: &Arc<Self>) {
        if self.noted().is_empty() || self.watching.swap(true, Ordering::AcqRel) {
            return;
        }
        let containers = Arc::clone(self);
        tokio::spawn(async move {
            let mut since: HashMap<String, Instant> = HashMap::new();
            loop {
                let noted = containers.noted();
                if noted.is_empty() {
                    containers.watching.store(false, Ordering::Release);
                    // A note may have been added just before the flag was cleared.
                    return containers.watch();
                }
                since.retain(|name, _| noted.contains(name));
                for name in noted {
                    let first = *since.entry(name.clone()).or_insert_with(Instant::now);
                    containers.look_for(&name, first.elapsed() > GRACE).await;
                }
                tokio::time::sleep(EVERY).await;
            }
        });
    }

    async fn look_for(&self, name: &str, for_the_last_time: bool) {
        let found = container::find(&self.client, &self.instance, name).await;
        if !self.is_noted(name) {
            // The name is used again: the container may be wanted.
            return;
        }
        let settled = match found {
            Ok(Found::Ours(own)) => container::remove(&self.client, &own).await.is_ok(),
            Ok(Found::Nobody) if for_the_last_time => container::remove_half(&self.client, name).await.is_ok(),
            Ok(Found::Nobody) => false,
            Ok(Found::Another) => for_the_last_time,
            // Podman is unreachable: it may complete the request when it is back.
            Err(_) => false,
        };
        if settled {
            // Ignore failures: the next round looks for the container again.
            let _ = self.forget(name);
        }
    }
}
