//! Git LFS, on request: files whose content is kept outside the repository, on an LFS server of the
//! same host.
//!
//! A commit contains pointers instead: untrusted texts with a hash and a size. The server reads
//! them from the mirror, asks the repository's LFS server for the content, downloads it and
//! verifies the hash. It runs no filter, but places the content in the fresh checkout as a file. A
//! script of ours in the checkout's git config converts files back to pointers inside the box.
//!
//! Objects are kept by hash next to the mirror and removed with it. A checkout has hard links to
//! them.

mod batch;
mod client;
mod download;
mod files;
mod http;
mod objects;
mod pointer;
mod push;
mod smudge;

pub use download::LfsObject;
pub(crate) use files::Files;
pub use files::LfsFile;
pub(crate) use objects::SECONDS;
pub use push::Upload;
pub(crate) use smudge::{settings, write_filter};

/// The script that converts between pointers and files in a box.
pub const FILTER: &str = include_str!("lfs/filter.sh");
/// Path of the script in a repository.
pub const FILTER_PATH: &str = ".git/stead-lfs";
