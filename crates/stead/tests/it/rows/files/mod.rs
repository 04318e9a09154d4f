//! The files of a workspace: tools, snapshots, clones, mounts and bundles.

mod bundles;
mod clones;
mod disk_usage;
mod mount_policy;
mod mounts;
mod raw_files;
mod rewind;
mod snapshots;
mod tools;
