//! Collects layers without holders, and measures disk usage.

use std::fs;
use std::time::{Duration, SystemTime};

use super::key::LayerKey;
use super::label;
use super::store::{LayerStore, host};
use crate::contract::error::ProviderError;

/// Limits for layers without holders. They are cached because a checkout is likely to be used
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Maximum time without use.
    pub unused: Duration,
    /// Maximum total bytes of layers without holders; the least recently used are removed first.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { unused: Duration::from_secs(7 * 24 * 3600), bytes: 20 << 30 }
    }
}

impl Retention {
    /// Keeps no layer without a holder.
    pub const NOTHING: Self = Self { unused: Duration::ZERO, bytes: 0 };
}

/// Disk usage of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Usage {
    pub layers: u64,
    pub bytes: u64,
    /// The part that has holders.
    pub held_layers: u64,
    pub held_bytes: u64,
}

impl LayerStore {
    /// Removes the layers that [`Self::unneeded`] lists; returns how many.
    pub fn collect(&self, retention: Retention) -> Result<usize, ProviderError> {
        let mut collected = 0;
        for (key, _) in self.unneeded(retention)? {
            collected += usize::from(self.remove_unheld(&key)?);
        }
        Ok(collected)
    }

    /// Lists the layers without holders that exceed the retention, with their sizes in bytes.
    pub fn unneeded(&self, retention: Retention) -> Result<Vec<(LayerKey, u64)>, ProviderError> {
        let now = SystemTime::now();
        let mut unheld = Vec::new();
        for key in self.list()? {
            if self.lock().holders.count(&key) > 0 {
                continue;
            }
            let used = fs::metadata(self.path(&key).join(label::LABEL)).and_then(|label| label.modified());
            // A layer without a label is incomplete: it goes first.
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

    /// Removes one layer if it has no holder. No-op if it does not exist.
    pub(crate) fn remove_if_unheld(&self, key: &LayerKey) -> Result<(), ProviderError> {
        if self.path(key).exists() {
            self.remove_unheld(key)?;
        }
        Ok(())
    }

    /// Removes every layer of a kind that has no holder.
    pub(crate) fn remove_unheld_of(&self, kind: &str) -> Result<(), ProviderError> {
        let keys = self.keys().map_err(|error| host("list", &self.directory, error))?;
        keys.iter().filter(|key| key.kind() == kind).try_for_each(|key| self.remove_unheld(key).map(drop))
    }

    /// Renames the layer under the lock, so that it can get no new holder, and then removes it.
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

    /// Size of a layer on disk in bytes, measured when it was made.
    pub fn bytes_of(&self, key: &LayerKey) -> u64 {
        if let Some(bytes) = self.lock().bytes.get(key) {
            return *bytes;
        }
        let bytes = label::read_label(&self.path(key)).map_or(0, |label| label.bytes);
        self.lock().bytes.insert(key.clone(), bytes);
        bytes
    }

    /// All holders.
    pub fn holders(&self) -> Vec<String> {
        self.lock().holders.names()
    }

    fn list(&self) -> Result<Vec<LayerKey>, ProviderError> {
        self.keys().map_err(|error| host("list", &self.directory, error))
    }
}
