//! Files: one [`Filesystem`] contract, two backends, and everything that is built on the contract alone.
//!
//! [`MemoryFs`] is a persistent tree: clone, snapshot and restore cost nothing, and every mutation is a [`Change`] that can be
//! kept and replayed. [`DiskFs`] is a directory: every name is resolved by the kernel beneath one directory descriptor.
//! [`tools`] are the agent's `ls read write edit glob grep rm` over either. [`mount`] copies host directories in, [`archive`]
//! unpacks bundles and writes tars, [`patch`] says what changed between two trees, [`mirror()`] makes one tree equal to another.
//!
//! The invariant of the crate: nothing that comes in as a path, a pattern, an archive or a mount can name a file outside the
//! filesystem it was given to, and an operation that fails changes nothing.
//!
//! This crate knows no session, no clock and no async: callers pass the time.
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
mod change;
mod digest;
mod disk;
mod entry;
mod error;
mod filesystem;
mod limits;
mod memory;
mod mirror;
pub mod mount;
mod order;
pub mod patch;
mod path;
mod resolve;
mod search;
mod sparse;
mod stage;
mod stop;
mod time;
pub mod tools;
mod tree_hash;

pub use change::Change;
pub use digest::{Digest, InvalidDigest};
pub use disk::{DiskFs, DiskSnapshot, DiskWriter, Durability};
pub use entry::{Entry, Kind, Listing, Permission, Stat, Written};
pub use error::FsError;
pub use filesystem::{
    Content, FileWriter, Filesystem, Ignoring, Part, Parts, ReadSeek, Recursion, Snapshot, Walk, Walked, WriteMode,
};
pub use limits::Limits;
pub use memory::MemoryFs;
pub use mirror::{lay, mirror};
pub use path::{PathError, PathRules, WorkspacePath};
pub use search::{Case, GlobFound, GlobQuery, GrepFound, GrepMatch, GrepQuery, Hidden};
pub use sparse::copy_sparse;
pub use stop::Stop;
