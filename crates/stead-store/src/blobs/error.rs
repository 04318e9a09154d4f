use std::io;
use std::path::PathBuf;

use super::Digest;

#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The file exists, but its bytes do not match its name.
    #[error("the blob {digest} is damaged: its file now has the digest {found}")]
    Damaged { digest: Digest, found: Digest },
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
