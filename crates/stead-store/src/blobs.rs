//! Content-addressed blobs as files: `sha256/ab/<64 hex digits>` under one directory.
//!
//! Invariant: a file under its final name is complete and durable (written beside, fsynced,
//! renamed, directory fsynced). [`Blobs::get`] returns bytes only if they still have the requested
//! hash. A blob never changes. Storing the same bytes again changes nothing, except that it repairs
//! a damaged file.

mod error;
mod files;
pub(crate) mod garbage;
pub(crate) mod references;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use stead_core::ContentHash;
use tokio::io::{AsyncRead, AsyncReadExt as _};

pub use error::BlobError;

pub(crate) use files::Files;

/// Size of the buffer for streams.
const CHUNK: usize = 256 * 1024;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Blobs {
    files: Arc<Files>,
}

/// A blob opened for streaming. Its content is *not* checked against the hash. Use [`Blobs::get`],
/// or hash while reading, if a damaged file must be detected.
#[derive(Debug)]
pub struct OpenBlob {
    pub file: tokio::fs::File,
    pub len: u64,
}

/// A blob with the properties of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredBlob {
    pub hash: ContentHash,
    pub len: u64,
    /// The time it was last stored or referenced.
    pub modified: SystemTime,
}

/// Bytes that were stored for one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upload {
    pub hash: ContentHash,
    pub len: u64,
    /// The time the blob was created. `None` if it already existed.
    pub(crate) made: Option<SystemTime>,
}

/// The result of checking a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobState {
    Sound,
    /// The bytes of the file do not match its name.
    Damaged,
    Missing,
}

impl Blobs {
    /// Opens or creates the directory, and removes the remains of interrupted writes.
    pub async fn at(root: &Path) -> Result<Blobs, BlobError> {
        let root = root.to_owned();
        let files = blocking(move || Files::open(&root)).await?;
        Ok(Blobs { files: Arc::new(files) })
    }

    /// Opens an existing directory without changing it, for a read-only disk. Writes fail.
    pub fn at_read_only(root: &Path) -> Blobs {
        Blobs { files: Arc::new(Files::open_read_only(root)) }
    }

    /// All blobs, in no particular order.
    pub async fn list(&self) -> Result<Vec<StoredBlob>, BlobError> {
        let files = Arc::clone(&self.files);
        blocking(move || files.list()).await
    }

    /// Checks the whole blob in constant memory.
    pub async fn check(&self, hash: &ContentHash) -> Result<BlobState, BlobError> {
        let (files, hash) = (Arc::clone(&self.files), *hash);
        blocking(move || files.check(&hash)).await
    }

    /// Removes a blob, unless it was stored or referenced at `before` or later. Returns true if it
    /// was removed.
    pub(crate) async fn remove_older(&self, hash: &ContentHash, before: SystemTime) -> Result<bool, BlobError> {
        let hash = *hash;
        self.with_files(move |files| files.remove_if(&hash, |modified| modified < before)).await
    }

    /// Removes a blob if nothing stored or referenced it after its creation at `made`. Returns true
    /// if it was removed.
    pub(crate) async fn remove_unchanged(&self, hash: &ContentHash, made: SystemTime) -> Result<bool, BlobError> {
        let hash = *hash;
        self.with_files(move |files| files.remove_if(&hash, |modified| modified == made)).await
    }

    /// Runs blocking work on the files.
    pub(crate) async fn with_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files) -> Result<T, BlobError> + Send + 'static,
    ) -> Result<T, BlobError> {
        let files = Arc::clone(&self.files);
        blocking(move || work(&files)).await
    }

    /// Checks that a blob could be stored now, by writing and syncing a few bytes.
    pub async fn probe(&self) -> Result<(), BlobError> {
        let files = Arc::clone(&self.files);
        blocking(move || files.probe()).await
    }

    /// Stores bytes under their hash. They are durable on return.
    pub async fn put(&self, bytes: impl Into<Bytes>) -> Result<ContentHash, BlobError> {
        let (files, bytes) = (Arc::clone(&self.files), bytes.into());
        blocking(move || files.put(&bytes)).await
    }

    /// Like [`Blobs::put`], for content that may not fit in memory. If reading the content fails,
    /// nothing remains.
    pub async fn put_stream(&self, mut content: impl AsyncRead + Unpin) -> Result<Upload, BlobError> {
        let files = Arc::clone(&self.files);
        let mut draft = blocking(move || files.draft()).await?;
        let mut chunk = Vec::with_capacity(CHUNK);
        loop {
            chunk.clear();
            let read = (&mut content).take(CHUNK as u64).read_to_end(&mut chunk).await;
            if read.map_err(|source| BlobError::Source { source })? == 0 {
                break;
            }
            (draft, chunk) = blocking(move || draft.write(&chunk).map(|()| (draft, chunk))).await?;
        }
        let files = Arc::clone(&self.files);
        blocking(move || files.keep(draft)).await
    }

    /// Returns the whole blob, checked against its hash. `None` if it does not exist.
    pub async fn get(&self, hash: &ContentHash) -> Result<Option<Bytes>, BlobError> {
        let (files, hash) = (Arc::clone(&self.files), *hash);
        blocking(move || files.get(&hash)).await
    }

    pub async fn contains(&self, hash: &ContentHash) -> Result<bool, BlobError> {
        let (files, hash) = (Arc::clone(&self.files), *hash);
        blocking(move || files.contains(&hash)).await
    }

    /// Opens a blob for streaming. See [`OpenBlob`] for the missing check.
    pub async fn open(&self, hash: &ContentHash) -> Result<Option<OpenBlob>, BlobError> {
        let (files, hash) = (Arc::clone(&self.files), *hash);
        let opened = blocking(move || files.open_file(&hash)).await?;
        Ok(opened.map(|(file, len)| OpenBlob { file: file.into(), len }))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|stopped| Err(BlobError::Source { source: io::Error::other(stopped) }))
}
