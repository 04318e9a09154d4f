//! Containers that Podman may still make although nobody waits for them any more.
//!
//! Podman finishes what it was asked for, whoever has hung up. So a box that goes while Podman's answer is owed (its server was killed, or
//! lost patience) leaves a note of the container's name, and the name is looked for until Podman can have nothing left to do.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::client::Client;
use super::container::{self, Found};

/// How long a request that nobody waits for may still be under way.
const GRACE: Duration = Duration::from_secs(15);
const EVERY: Duration = Duration::from_millis(500);

pub(super) struct LateContainers {
    notes: PathBuf,
    instance: String,
    client: Arc<Client>,
    watching: AtomicBool,
}

impl LateContainers {
    pub(super) fn new(notes: PathBuf, instance: String, client: Arc<Client>) -> Self {
        Self { notes, instance, client, watching: AtomicBool::new(false) }
    }

    /// From now on a container of this name is nobody's.
    pub(super) fn note(&self, container: &str) -> io::Result<()> {
        fs::create_dir_all(&self.notes)?;
        File::create(self.notes.join(container))?.sync_all()
    }

    /// The name is used again: who has it is found when the next container is made.
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

    /// Removes what comes late, in the background, until nothing can any more. Those of an earlier server are waited for anew.
    pub(super) fn watch(self: &Arc<Self>) {
        if self.noted().is_empty() || self.watching.swap(true, Ordering::AcqRel) {
            return;
        }
        let late = Arc::clone(self);
        tokio::spawn(async move {
            let mut since: HashMap<String, Instant> = HashMap::new();
            loop {
                let noted = late.noted();
                if noted.is_empty() {
                    late.watching.store(false, Ordering::Release);
                    // One that was noted just before it was said that nobody watches.
                    return late.watch();
                }
                since.retain(|name, _| noted.contains(name));
                for name in noted {
                    let first = *since.entry(name.clone()).or_insert_with(Instant::now);
                    late.look_for(&name, first.elapsed() > GRACE).await;
                }
                tokio::time::sleep(EVERY).await;
            }
        });
    }

    async fn look_for(&self, name: &str, for_the_last_time: bool) {
        let found = container::find(&self.client, &self.instance, name).await;
        if !self.is_noted(name) {
            // The name is used again: what was found may be wanted.
            return;
        }
        let settled = match found {
            Ok(Found::Ours(own)) => container::remove(&self.client, &own).await.is_ok(),
            Ok(Found::Nobody) if for_the_last_time => container::remove_half(&self.client, name).await.is_ok(),
            Ok(Found::Nobody) => false,
            Ok(Found::Another) => for_the_last_time,
            // Podman is away: it may go on with what it was asked for when it is back.
            Err(_) => false,
        };
        if settled {
            // What cannot be forgotten is looked for again.
            let _ = self.forget(name);
        }
    }
}
