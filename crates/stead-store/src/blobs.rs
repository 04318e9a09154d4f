//! Content-addressed blobs as files: `sha256/ab/<64 hex digits>` under one directory.
//!
//! Invariant: a file under its final name is whole and durable (written beside, fsynced, renamed, directory fsynced), and
//! bytes are given out by [`Blobs::get`] only if they still have the digest they are asked by. A blob never changes; putting the same
//! bytes again changes nothing, unless the file was damaged: then it is mended.

mod digest;
mod error;
mod files;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};

pub use digest::{Digest, InvalidDigest};
pub use error::BlobError;

pub(crate) use files::Files;

/// How much of a stream is held in memory.
const CHUNK: usize = 256 * 1024;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Blobs {
    files: Arc<Files>,
}

/// A blob opened for streaming. Its content is *not* checked against the digest: whoever cannot live with a damaged file uses
/// [`Blobs::get`], or hashes while reading.
#[derive(Debug)]
pub struct OpenBlob {
    pub file: tokio::fs::File,
    pub len: u64,
}

/// A blob as its file shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredBlob {
    pub digest: Digest,
    pub len: u64,
    /// When it was last put.
    pub modified: SystemTime,
}

/// Bytes that were stored for one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upload {
    pub digest: Digest,
    pub len: u64,
    /// When the blob was made; `None` if it was there already.
    pub(crate) made: Option<SystemTime>,
}

/// What became of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobState {
    Sound,
    /// The file does not hold the bytes its name promises.
    Damaged,
    Missing,
}

impl Blobs {
    /// Opens or makes the directory, and removes what interrupted writes left.
    pub async fn at(root: &Path) -> Result<Blobs, BlobError> {
        let root = root.to_owned();
        let files = blocking(move || Files::open(&root)).await?;
        Ok(Blobs { files: Arc::new(files) })
    }

    /// Opens what is there and changes nothing: for a disk that cannot be written. Puts fail.
    pub fn at_read_only(root: &Path) -> Blobs {
        Blobs { files: Arc::new(Files::open_read_only(root)) }
    }

    /// Every blob, in no order.
    pub async fn list(&self) -> Result<Vec<StoredBlob>, BlobError> {
        let files = Arc::clone(&self.files);
        blocking(move || files.list()).await
    }

    /// Reads the whole blob, in constant memory.
    pub async fn check(&self, digest: &Digest) -> Result<BlobState, BlobError> {
        let (files, digest) = (Arc::clone(&self.files), *digest);
        blocking(move || files.check(&digest)).await
    }

    /// Removes a blob unless it was put or named at `before` or later; says whether it went.
    pub(crate) async fn remove_older(&self, digest: &Digest, before: SystemTime) -> Result<bool, BlobError> {
        let digest = *digest;
        self.with_files(move |files| files.remove_if(&digest, |modified| modified < before)).await
    }

    /// Removes a blob if nothing put or named it after it was made at `made`; says whether it went.
    pub(crate) async fn remove_unchanged(&self, digest: &Digest, made: SystemTime) -> Result<bool, BlobError> {
        let digest = *digest;
        self.with_files(move |files| files.remove_if(&digest, |modified| modified == made)).await
    }

    /// Runs blocking work on the files.
    pub(crate) async fn with_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files) -> Result<T, BlobError> + Send + 'static,
    ) -> Result<T, BlobError> {
        let files = Arc::clone(&self.files);
        blocking(move || work(&files)).await
    }

    /// Whether a blob could be put now: a few bytes are written, synced and dropped.
    pub async fn probe(&self) -> Result<(), BlobError> {
        let files = Arc::clone(&self.files);
        blocking(move || files.probe()).await
    }

    /// On return the bytes are on disk under their digest.
    pub async fn put(&self, bytes: impl Into<Bytes>) -> Result<Digest, BlobError> {
        let (files, bytes) = (Arc::clone(&self.files), bytes.into());
        blocking(move || files.put(&bytes)).await
    }

    /// Like [`Blobs::put`] for content that may not fit in memory. A content that cannot be read to its end leaves nothing.
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

    /// The whole blob, checked against its digest; `None` if there is none.
    pub async fn get(&self, digest: &Digest) -> Result<Option<Bytes>, BlobError> {
        let (files, digest) = (Arc::clone(&self.files), *digest);
        blocking(move || files.get(&digest)).await
    }

    pub async fn contains(&self, digest: &Digest) -> Result<bool, BlobError> {
        let (files, digest) = (Arc::clone(&self.files), *digest);
        blocking(move || files.contains(&digest)).await
    }

    /// For streaming out; see [`OpenBlob`] for what is not promised.
    pub async fn open(&self, digest: &Digest) -> Result<Option<OpenBlob>, BlobError> {
        let (files, digest) = (Arc::clone(&self.files), *digest);
        let opened = blocking(move || files.open_file(&digest)).await?;
        Ok(opened.map(|(file, len)| OpenBlob { file: file.into(), len }))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|stopped| Err(BlobError::Source { source: io::Error::other(stopped) }))
}
