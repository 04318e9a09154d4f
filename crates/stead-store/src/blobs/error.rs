use std::io;
use std::path::PathBuf;

use stead_core::ContentHash;

#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The file exists, but its bytes do not match its name.
    #[error("the blob {hash} is damaged: its file now has the digest {found}")]
    Damaged { hash: ContentHash, found: ContentHash },
    #[error("cannot {doing} {path}")]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The stream to be stored failed, not the store.
    #[error("cannot read the content of a new blob")]
    Source {
        #[source]
        source: io::Error,
    },
}
