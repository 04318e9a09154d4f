//! The blocking part of the blob store: names, drafts, fsyncs.
//!
//! Drafts are in `tmp/` on the same file system, so that a rename is atomic. Every open store holds
//! a shared lock on `tmp/.lock`. Only a store that can lock it exclusively removes old drafts, so
//! that a draft in use is never removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use stead_core::ContentHash;
use stead_core::content_hash::{HashAlgorithm, Hasher};

use super::{BlobError, BlobState, CHUNK, StoredBlob, Upload};
use crate::directory;

/// Size of a probe: more than a full disk may still have in its last block.
const PROBE: usize = 64 * 1024;

static NEXT_DRAFT: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    /// Held while the age of a blob is reset, and while one is checked and removed. A blob that was
    /// just stored or referenced is therefore never removed as old.
    ages: Mutex<()>,
    /// Holds the file lock. `None` for a read-only store.
    _lock: Option<File>,
}

/// A blob that is being written. Dropping it deletes the file, unless it was kept.
#[derive(Debug)]
pub(super) struct Draft {
    path: PathBuf,
    file: File,
    hasher: Hasher,
    len: u64,
}

impl Files {
    pub(super) fn open(root: &Path) -> Result<Self, BlobError> {
        let drafts = root.join("tmp");
        let shelves = root.join(HashAlgorithm::Sha256.as_str());
        directory::create_all(&drafts).map_err(failed("make", &drafts))?;
        directory::create_all(&shelves).map_err(failed("make", &shelves))?;
        let path = drafts.join(".lock");
        let mut options = OpenOptions::new();
        let lock = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.map_err(failed("open", &path))?;
        if lock.try_lock().is_ok() {
            sweep(&drafts).map_err(failed("sweep", &drafts))?;
            lock.unlock().map_err(failed("unlock", &path))?;
        }
        lock.lock_shared().map_err(failed("lock", &path))?;
        Ok(Self { root: root.to_owned(), ages: Mutex::default(), _lock: Some(lock) })
    }

    pub(super) fn open_read_only(root: &Path) -> Self {
        Self { root: root.to_owned(), ages: Mutex::default(), _lock: None }
    }

    pub(super) fn list(&self) -> Result<Vec<StoredBlob>, BlobError> {
        let shelves = self.root.join(HashAlgorithm::Sha256.as_str());
        let mut found = Vec::new();
        let entries = match fs::read_dir(&shelves) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            entries => entries.map_err(failed("list", &shelves))?,
        };
        for shelf in entries {
            let shelf = shelf.map_err(failed("list", &shelves))?.path();
            for entry in fs::read_dir(&shelf).map_err(failed("list", &shelf))? {
                let entry = entry.map_err(failed("list", &shelf))?;
                let hash = entry.file_name().to_str().and_then(|hex| format!("sha256:{hex}").parse().ok());
                // A file that is not named like a blob does not belong to the store.
                let Some(hash) = hash else { continue };
                let facts = entry.metadata().map_err(failed("look at", &entry.path()))?;
                let modified = facts.modified().map_err(failed("look at", &entry.path()))?;
                found.push(StoredBlob { hash, len: facts.len(), modified });
            }
        }
        Ok(found)
    }

    pub(super) fn check(&self, hash: &ContentHash) -> Result<BlobState, BlobError> {
        match (self.contains(hash)?, self.is_sound(hash)?) {
            (false, _) => Ok(BlobState::Missing),
            (true, true) => Ok(BlobState::Sound),
            (true, false) => Ok(BlobState::Damaged),
        }
    }

    /// Removes a blob if `wanted` accepts its modification time. Returns true if it was removed.
    pub(super) fn remove_if(
        &self,
        hash: &ContentHash,
        wanted: impl FnOnce(SystemTime) -> bool,
    ) -> Result<bool, BlobError> {
        let path = self.path(hash);
        let _ages = self.ages();
        let modified = match fs::metadata(&path).and_then(|facts| facts.modified()) {
            Ok(modified) => modified,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed("look at", &path)(error)),
        };
        if !wanted(modified) {
            return Ok(false);
        }
        fs::remove_file(&path).map_err(failed("remove", &path)).map(|()| true)
    }

    /// Resets the age of a blob and returns its length. `None` if it does not exist.
    pub(crate) fn touch(&self, hash: &ContentHash) -> Result<Option<u64>, BlobError> {
        let path = self.path(hash);
        let _ages = self.ages();
        let file = match File::options().append(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open", &path)(error)),
        };
        let touched = file.set_modified(SystemTime::now()).and_then(|()| file.metadata());
        touched.map(|facts| Some(facts.len())).map_err(failed("touch", &path))
    }

    /// Returns the text of a blob that looks like a JSON object or list.
    pub(crate) fn json(&self, hash: &ContentHash) -> Result<Option<String>, BlobError> {
        let path = self.path(hash);
        let Some((mut file, _)) = self.open_file(hash)? else { return Ok(None) };
        let mut start = [0];
        let read = file.read(&mut start).map_err(failed("read", &path))?;
        if read == 0 || !matches!(start[0], b'{' | b'[') {
            return Ok(None);
        }
        let mut text = String::new();
        match file.read_to_string(&mut text) {
            Ok(_) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
            Err(error) => Err(failed("read", &path)(error)),
        }
    }

    fn ages(&self) -> MutexGuard<'_, ()> {
        self.ages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn probe(&self) -> Result<(), BlobError> {
        let mut draft = self.draft()?;
        draft.write(&[0; PROBE])?;
        draft.file.sync_all().map_err(failed("sync", &draft.path))
    }

    pub(super) fn put(&self, bytes: &[u8]) -> Result<ContentHash, BlobError> {
        let hash = ContentHash::of(bytes);
        let path = self.path(&hash);
        if self.is_sound(&hash)? && self.touch(&hash)?.is_some() {
            // Another writer may have renamed it without syncing the directory yet.
            return self.sync_shelf(&path).map(|()| hash);
        }
        let mut draft = self.draft()?;
        draft.write(bytes)?;
        self.keep(draft).map(|upload| upload.hash)
    }

    pub(super) fn draft(&self) -> Result<Draft, BlobError> {
        let number = NEXT_DRAFT.fetch_add(1, Ordering::Relaxed);
        loop {
            // Two machines on one network file system may use the same process id. The clock and
            // `create_new` keep the names unique.
            let nanos = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos());
            let path = self.root.join("tmp").join(format!("{}-{number}-{nanos}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok(Draft { path, file, hasher: Hasher::default(), len: 0 }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed("make", &path)(error)),
            }
        }
    }

    /// Moves a draft to its final name. An existing file is replaced: it has the same bytes, or it
    /// is damaged.
    pub(super) fn keep(&self, draft: Draft) -> Result<Upload, BlobError> {
        let hash = draft.hasher.clone().finish();
        let path = self.path(&hash);
        let shelf = directory::parent(&path);
        directory::create_all(shelf).map_err(failed("make", shelf))?;
        draft.file.sync_all().map_err(failed("sync", &draft.path))?;
        let made = {
            let _ages = self.ages();
            let existed = path.try_exists().map_err(failed("look for", &path))?;
            // The kernel's own timestamps are coarse, and two puts must not get the same time.
            let set = draft.file.set_modified(SystemTime::now()).and_then(|()| draft.file.metadata()?.modified());
            let made = set.map_err(failed("touch", &draft.path))?;
            fs::rename(&draft.path, &path).map_err(failed("rename a new blob to", &path))?;
            (!existed).then_some(made)
        };
        self.sync_shelf(&path)?;
        Ok(Upload { hash, len: draft.len, made })
    }

    /// Makes a blob's name and its directory durable. Another writer may have created the directory
    /// without syncing it yet.
    fn sync_shelf(&self, path: &Path) -> Result<(), BlobError> {
        let shelf = directory::parent(path);
        directory::sync(shelf).map_err(failed("sync", shelf))?;
        let shelves = directory::parent(shelf);
        directory::sync(shelves).map_err(failed("sync", shelves))
    }

    pub(super) fn get(&self, hash: &ContentHash) -> Result<Option<Bytes>, BlobError> {
        let path = self.path(hash);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &path)(error)),
        };
        let found = ContentHash::of(&bytes);
        if found != *hash {
            return Err(BlobError::Damaged { hash: *hash, found });
        }
        Ok(Some(bytes.into()))
    }

    pub(super) fn contains(&self, hash: &ContentHash) -> Result<bool, BlobError> {
        let path = self.path(hash);
        path.try_exists().map_err(failed("look for", &path))
    }

    pub(crate) fn open_file(&self, hash: &ContentHash) -> Result<Option<(File, u64)>, BlobError> {
        let path = self.path(hash);
        match File::open(&path) {
            Ok(file) => {
                let len = file.metadata().map_err(failed("read", &path))?.len();
                Ok(Some((file, len)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("open", &path)(error)),
        }
    }

    /// Returns true if the blob exists and is not damaged.
    fn is_sound(&self, hash: &ContentHash) -> Result<bool, BlobError> {
        let Some((mut file, _)) = self.open_file(hash)? else { return Ok(false) };
        let mut hasher = Hasher::default();
        let mut chunk = vec![0; CHUNK];
        loop {
            match file.read(&mut chunk).map_err(failed("read", &self.path(hash)))? {
                0 => return Ok(hasher.finish() == *hash),
                read => hasher.update(&chunk[..read]),
            }
        }
    }

    fn path(&self, hash: &ContentHash) -> PathBuf {
        let hex = hash.to_hex();
        self.root.join(hash.algorithm().as_str()).join(&hex[..2]).join(&hex)
    }
}

impl Draft {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.file.write_all(bytes).map_err(failed("write", &self.path))?;
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a rename this name no longer exists. A file that cannot be removed now is removed
        // at the next start.
        fs::remove_file(&self.path).unwrap_or(());
    }
}

fn sweep(drafts: &Path) -> io::Result<()> {
    for entry in fs::read_dir(drafts)? {
        let entry = entry?;
        if entry.file_name() != ".lock" && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BlobError {
    let path = path.to_owned();
    move |source| BlobError::File { doing, path, source }
}
