//! Kept setup results: volumes that a workspace handed over after its setup commands.
//!
//! A result is the directory `volumes/<id>` with the volume of the workspace that made it and a
//! label. The label is written last, so a result without one is incomplete. Lineages name a result
//! like any other volume, and it stays as long as one does.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use stead_box::Ids;
use stead_core::Timestamp;
use stead_core::setup_cache::SetupKey;

use super::directories::{Directories, host};
use super::lineage::{self, Lineage};
use crate::contract::error::ProviderError;
use crate::contract::setup_cache::{SETUP_PREFIX, SetupAbout, SetupEntry};
use crate::overlay::layer_store::Retention;

const LABEL: &str = "setup.json";

/// A complete result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptSetup {
    pub(super) id: String,
    pub(super) key: SetupKey,
    pub(super) about: SetupAbout,
    /// The generation that the setup commands wrote.
    pub(super) generation: u32,
    pub(super) ids: Ids,
    pub(super) bytes: u64,
}

/// The complete results by key. The lock is held while a volume changes hands, so that a sweep
/// never sees a volume that nothing names yet. Taken after the lock of a workspace and before that
/// of the lineages.
#[derive(Default)]
pub(crate) struct SetupStore(Mutex<BTreeMap<SetupKey, KeptSetup>>);

pub(super) type Kept<'a> = MutexGuard<'a, BTreeMap<SetupKey, KeptSetup>>;

impl SetupStore {
    /// Reads the labels of all results. Incomplete results are removed by the next sweep.
    pub(super) fn read(directories: &Directories) -> Self {
        let mut kept = BTreeMap::new();
        for name in names(directories) {
            let label = fs::read(directories.volume(&name).join(LABEL));
            let read = label.ok().and_then(|bytes| serde_json::from_slice::<KeptSetup>(&bytes).ok());
            if let Some(setup) = read.filter(|setup| setup.id == name) {
                kept.insert(setup.key.clone(), setup);
            }
        }
        Self(Mutex::new(kept))
    }

    pub(super) fn lock(&self) -> Kept<'_> {
        // The map changes by single inserts and removes, so a panic cannot leave it inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn try_lock(&self) -> Option<Kept<'_>> {
        match self.0.try_lock() {
            Ok(kept) => Some(kept),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

fn names(directories: &Directories) -> Vec<String> {
    let entries = fs::read_dir(directories.volumes()).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(SETUP_PREFIX))
        .collect()
}

impl KeptSetup {
    /// Completes a result whose files are on the disk.
    pub(super) fn write_label(&self, directory: &Path) -> io::Result<()> {
        let new = directory.join("setup.json.new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(new, directory.join(LABEL))?;
        lineage::sync(directory)?;
        directory.parent().map_or(Ok(()), lineage::sync)
    }
}

/// Marks a result as used now. Only a hint for the collector, so failures are ignored.
pub(super) fn touch(directory: &Path) {
    if let Ok(label) = File::options().append(true).open(directory.join(LABEL)) {
        let _ = label.set_modified(SystemTime::now());
    }
}

fn used_at(directory: &Path) -> SystemTime {
    fs::metadata(directory.join(LABEL)).and_then(|label| label.modified()).unwrap_or(UNIX_EPOCH)
}

fn users(lineages: &BTreeMap<stead_core::WorkspaceId, Lineage>, id: &str) -> u64 {
    lineages.values().filter(|lineage| lineage.volumes().contains(id)).count() as u64
}

impl super::workspaces::Workspaces {
    /// Lists the kept results, the most recently used first.
    pub(crate) fn kept_setups(&self) -> Vec<SetupEntry> {
        let kept = self.setups.lock();
        let lineages = self.lineages();
        let mut entries: Vec<SetupEntry> = kept
            .values()
            .map(|setup| {
                let used = used_at(&self.directories.volume(&setup.id)).duration_since(UNIX_EPOCH);
                let millis = i64::try_from(used.unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
                SetupEntry {
                    id: setup.id.clone(),
                    key: setup.key.clone(),
                    about: setup.about.clone(),
                    used_at: Timestamp::from_millis(millis),
                    bytes: setup.bytes,
                    users: users(&lineages, &setup.id),
                }
            })
            .collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.used_at));
        entries
    }

    /// Removes a kept result, so that no later session begins with it. Its files stay while a
    /// workspace uses them. Returns false if there is no such result.
    pub(crate) fn remove_setup(&self, id: &str) -> Result<bool, ProviderError> {
        let mut kept = self.setups.lock();
        let Some(key) = kept.values().find(|setup| setup.id == id).map(|setup| setup.key.clone()) else {
            return Ok(false);
        };
        self.forget_setup(&mut kept, &key)?;
        self.sweep_setups(&kept)?;
        Ok(true)
    }

    /// Takes the label off. After a crash the result is incomplete and goes.
    fn forget_setup(&self, kept: &mut Kept<'_>, key: &SetupKey) -> Result<(), ProviderError> {
        let Some(setup) = kept.get(key) else { return Ok(()) };
        let directory = self.directories.volume(&setup.id);
        match fs::remove_file(directory.join(LABEL)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(host("forget", &directory, error)),
            _ => kept.remove(key),
        };
        Ok(())
    }

    /// Removes the files of forgotten and incomplete results that no workspace uses.
    pub(super) fn sweep_setups(&self, kept: &Kept<'_>) -> Result<(), ProviderError> {
        for name in names(&self.directories) {
            let is_kept = kept.values().any(|setup| setup.id == name);
            if !is_kept && users(&self.lineages(), &name) == 0 {
                stead_box::remove(&self.directories.volume(&name))?;
            }
        }
        Ok(())
    }

    /// Forgets unused results that exceed the retention, the least recently used first.
    pub(super) fn collect_setups(&self, kept: &mut Kept<'_>, retention: Retention) -> Result<(), ProviderError> {
        let now = SystemTime::now();
        let mut unused: Vec<(SystemTime, SetupKey, u64)> = Vec::new();
        for setup in kept.values() {
            if users(&self.lineages(), &setup.id) == 0 {
                unused.push((used_at(&self.directories.volume(&setup.id)), setup.key.clone(), setup.bytes));
            }
        }
        unused.sort();
        let mut bytes: u64 = unused.iter().map(|(_, _, bytes)| bytes).sum();
        for (used, key, size) in unused {
            let idle: Duration = now.duration_since(used).unwrap_or_default();
            if idle >= retention.unused || bytes > retention.bytes {
                bytes -= size;
                self.forget_setup(kept, &key)?;
            }
        }
        Ok(())
    }
}
