//! Large, sparse, unreadable or ambiguous files, and full disks.

mod agent_errors;
mod ambiguous_tars;
mod disk_use;
mod full_disk;
mod sparse_files;
mod sync_calls;
mod tree_copies;
