//! The files of a workspace: tools, snapshots, clones, mounts and bundles.

mod bundles;
#[path = "../../../../../stead-fs/tests/it/change_sets.rs"]
mod change_sets;
mod clones;
mod diffs;
mod disk_usage;
mod entry_tools;
mod limits;
mod live_checkpoints;
mod mount_policy;
mod mounts;
mod raw_files;
mod rewind;
mod same_answers;
mod snapshot_races;
mod snapshots;
mod text_tools;
mod tools;
