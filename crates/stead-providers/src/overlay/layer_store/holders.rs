//! The holders of layers: one small file per holder, synced before the caller uses the layer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::key::LayerKey;

#[derive(Debug)]
pub(super) struct Holders {
    directory: PathBuf,
    held: BTreeMap<String, BTreeSet<LayerKey>>,
}

impl Holders {
    pub(super) fn read(directory: &Path) -> io::Result<Self> {
        let mut held = BTreeMap::new();
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            entries => Some(entries?),
        };
        for entry in entries.into_iter().flatten() {
            let entry = entry?;
            let Some(holder) = entry.file_name().to_str().filter(|name| is_plain(name)).map(str::to_owned) else {
                continue;
            };
            let text = fs::read_to_string(entry.path())?;
            held.insert(holder, text.lines().filter_map(LayerKey::parse).collect());
        }
        Ok(Self { directory: directory.to_owned(), held })
    }

    pub(super) fn add(&mut self, holder: &str, key: &LayerKey) -> io::Result<()> {
        if !is_plain(holder) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a holder's name has letters, digits, '_' and '-'",
            ));
        }
        let mut keys = self.held.get(holder).cloned().unwrap_or_default();
        if keys.insert(key.clone()) {
            self.write(holder, &keys)?;
            self.held.insert(holder.to_owned(), keys);
        }
        Ok(())
    }

    fn write(&self, holder: &str, keys: &BTreeSet<LayerKey>) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        // This name is invalid for a holder, so a leftover file is ignored.
        let new = self.directory.join(format!("{holder}.new"));
        let mut file = File::create(&new)?;
        keys.iter().try_for_each(|key| writeln!(file, "{key}"))?;
        file.sync_all()?;
        fs::rename(new, self.directory.join(holder))?;
        File::open(&self.directory)?.sync_all()
    }

    /// Not synced: a holder that reappears after a crash only keeps a layer too long.
    pub(super) fn remove(&mut self, holder: &str) -> io::Result<()> {
        if !self.held.contains_key(holder) {
            return Ok(());
        }
        match fs::remove_file(self.directory.join(holder)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.held.remove(holder);
        Ok(())
    }

    pub(super) fn of(&self, holder: &str) -> Vec<LayerKey> {
        self.held.get(holder).into_iter().flatten().cloned().collect()
    }

    /// Number of holders of a layer.
    pub(super) fn count(&self, key: &LayerKey) -> usize {
        self.held.values().filter(|keys| keys.contains(key)).count()
    }

    pub(super) fn with(&self, key: &LayerKey) -> Vec<String> {
        self.held.iter().filter(|(_, keys)| keys.contains(key)).map(|(holder, _)| holder.clone()).collect()
    }

    pub(super) fn all(&self) -> BTreeSet<&LayerKey> {
        self.held.values().flatten().collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.held.keys().cloned().collect()
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
