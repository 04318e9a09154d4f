//! Files: one [`Filesystem`] contract, two backends, and everything that builds on the contract
//! alone.
//!
//! [`MemoryFs`] is a persistent tree. Clone, snapshot and restore are free, and every mutation is a
//! [`Change`] that can be recorded and replayed. [`DiskFs`] is a directory. The kernel resolves
//! every name beneath one directory descriptor. [`tools`] are the agent's `ls read write edit glob
//! grep rm` over either. [`mount`] copies host directories in, and [`archive`] unpacks bundles and
//! writes tars. [`patch`] computes the changes between two trees, and [`mirror()`] makes one tree
//! equal to another.
//!
//! Invariant of the crate: no path, pattern, archive or mount can name a file outside its
//! filesystem, and an operation that fails changes nothing.
//!
//! This crate has no sessions, no clock and no async code. Callers pass the time.
//!
//! ```
//! use stead_fs::{Filesystem, MemoryFs, WorkspacePath, WriteMode};
//!
//! let mut fs = MemoryFs::new();
//! let path: WorkspacePath = "notes/test.txt".parse()?;
//! fs.write(&path, "Hello, world!", WriteMode::Create, 0)?;
//! assert_eq!(fs.read_bytes(&path)?, "Hello, world!".as_bytes());
//!
//! let before = fs.clone(); // shares every node
//! fs.write(&path, "Bye.", WriteMode::Overwrite, 1)?;
//! assert_eq!(fs.stat(&path)?.version, Some(2));
//! assert_ne!(fs.tree_hash()?, before.tree_hash()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod archive;
pub mod budget;

mod disk;
mod encoding;
mod error;
mod error_code;
mod filesystem;
mod hash_reader;
mod limits;
mod memory;
mod mirror;
pub mod mount;
pub mod patch;
mod path;
mod search;
mod sparse;
mod stage;
pub mod tools;
mod tree_hash;

pub use disk::{DiskFs, DiskSnapshot, DiskWriter, Durability};
pub use encoding::{Encoding, incomplete_tail};
pub use error::FsError;
pub use error_code::ErrorCode;
pub use filesystem::change::Change;
pub use filesystem::entry::{Entry, Kind, Listing, Permission, Stat, Written};
pub use filesystem::stop::Stop;
pub use filesystem::{
    Content, FileWriter, Filesystem, Ignoring, Part, Parts, ReadSeek, Recursion, Snapshot, Walk, Walked, WriteMode,
};
pub use hash_reader::hash_reader;
pub use limits::Limits;
pub use memory::MemoryFs;
pub use mirror::{lay, mirror};
pub use path::{PathError, PathRules, WorkspacePath};
pub use search::{Case, GlobFound, GlobQuery, GrepFile, GrepFound, GrepMatch, GrepMode, GrepQuery, Hidden, LineSpan};
pub use sparse::copy_sparse;
pub use stead_core::ContentHash;
