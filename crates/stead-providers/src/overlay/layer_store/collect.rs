//! Collecting layers nobody holds, and telling what all of them take.

use std::fs;
use std::time::{Duration, SystemTime};

use super::key::LayerKey;
use super::label;
use super::store::{LayerStore, host};
use crate::contract::error::ProviderError;

/// What is kept although nobody holds it: a checkout is likely to be wanted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Longest time without use.
    pub unused: Duration,
    /// Most bytes that unheld layers take together; the least recently used go first.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { unused: Duration::from_secs(7 * 24 * 3600), bytes: 20 << 30 }
    }
}

impl Retention {
    /// Nothing stays that nobody holds.
    pub const NOTHING: Self = Self { unused: Duration::ZERO, bytes: 0 };
}

/// What the layers take on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Usage {
    pub layers: u64,
    pub bytes: u64,
    /// Of these, what somebody holds.
    pub held_layers: u64,
    pub held_bytes: u64,
}

impl LayerStore {
    /// Removes layers that nobody holds and that are not worth keeping; gives how many.
    pub fn collect(&self, retention: Retention) -> Result<usize, ProviderError> {
        let mut collected = 0;
        for (key, _) in self.unneeded(retention)? {
            collected += usize::from(self.remove_unheld(&key)?);
        }
        Ok(collected)
    }

    /// Layers that nobody holds and that are not worth keeping, with what each takes.
    pub fn unneeded(&self, retention: Retention) -> Result<Vec<(LayerKey, u64)>, ProviderError> {
        let now = SystemTime::now();
        let mut unheld = Vec::new();
        for key in self.list()? {
            if self.lock().holders.count(&key) > 0 {
                continue;
            }
            let used = fs::metadata(self.path(&key).join(label::LABEL)).and_then(|label| label.modified());
            // Without a label it is no layer: the first to go.
            unheld.push((used.unwrap_or(SystemTime::UNIX_EPOCH), self.bytes_of(&key), key));
        }
        unheld.sort();
        let mut kept_bytes: u64 = unheld.iter().map(|(_, bytes, _)| bytes).sum();
        let mut unneeded = Vec::new();
        for (used, bytes, key) in unheld {
            let old = now.duration_since(used).unwrap_or_default() >= retention.unused;
            if old || kept_bytes > retention.bytes {
                kept_bytes -= bytes;
                unneeded.push((key, bytes));
            }
        }
        Ok(unneeded)
    }

    /// Removes one layer if nobody holds it; one that is not there is fine.
    pub(crate) fn remove_if_unheld(&self, key: &LayerKey) -> Result<(), ProviderError> {
        if self.path(key).exists() {
            self.remove_unheld(key)?;
        }
        Ok(())
    }

    /// Removes every layer of a kind that nobody holds.
    pub(crate) fn remove_unheld_of(&self, kind: &str) -> Result<(), ProviderError> {
        let keys = self.keys().map_err(|error| host("list", &self.directory, error))?;
        keys.iter().filter(|key| key.kind() == kind).try_for_each(|key| self.remove_unheld(key).map(drop))
    }

    /// Takes its name away under the lock, so that nobody can begin to hold it, and then removes it.
    fn remove_unheld(&self, key: &LayerKey) -> Result<bool, ProviderError> {
        let aside = self.directory.join(".making").join(format!("gone-{key}"));
        {
            let mut state = self.lock();
            if state.holders.count(key) > 0 || state.making.contains(key) {
                return Ok(false);
            }
            let at = |error| host("collect", &self.path(key), error);
            fs::create_dir_all(self.directory.join(".making")).map_err(at)?;
            fs::rename(self.path(key), &aside).map_err(at)?;
            state.bytes.remove(key);
        }
        stead_box::remove(&aside)?;
        Ok(true)
    }

    pub fn usage(&self) -> Result<Usage, ProviderError> {
        let mut usage = Usage::default();
        for key in self.list()? {
            let bytes = self.bytes_of(&key);
            usage.layers += 1;
            usage.bytes += bytes;
            if self.lock().holders.all().contains(&key) {
                usage.held_layers += 1;
                usage.held_bytes += bytes;
            }
        }
        Ok(usage)
    }

    /// What a layer takes: measured when it was made.
    pub fn bytes_of(&self, key: &LayerKey) -> u64 {
        if let Some(bytes) = self.lock().bytes.get(key) {
            return *bytes;
        }
        let bytes = label::read_label(&self.path(key)).map_or(0, |label| label.bytes);
        self.lock().bytes.insert(key.clone(), bytes);
        bytes
    }

    /// Everybody who holds something.
    pub fn holders(&self) -> Vec<String> {
        self.lock().holders.names()
    }

    fn list(&self) -> Result<Vec<LayerKey>, ProviderError> {
        self.keys().map_err(|error| host("list", &self.directory, error))
    }
}
