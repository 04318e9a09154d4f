//! Git LFS, for whoever asks for it: files whose content is kept beside the repository, by a server of the same host.
//!
//! What a commit has in their place are pointers, texts by a stranger: a hash and a size. The server reads them from the mirror, asks the
//! repository's own LFS server where the content is, gets it, and believes nothing but the hash. No filter runs for it: the content is put
//! into a fresh checkout as a file, and what in the box makes pointers of files again is a script of ours in the checkout's own settings.
//!
//! Objects are kept under their hash beside the mirror and go when it goes; a checkout has them as links to the same files.

mod batch;
mod bring;
mod files;
mod http;
mod objects;
mod pointer;
mod push;
mod smudge;
mod way;

pub use bring::LfsObject;
pub(crate) use files::Files;
pub use files::LfsFile;
pub(crate) use objects::SECONDS;
pub use push::Upload;
pub(crate) use smudge::{settings, write_filter};

/// What makes pointers of files, and files of pointers, in a box.
pub const FILTER: &str = include_str!("lfs/filter.sh");
/// Where it is in a repository.
pub const FILTER_PATH: &str = ".git/stead-lfs";
