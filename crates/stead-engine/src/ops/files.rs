//! Operations on the files of a workspace: uploads, downloads, snapshots, rewinds.

pub(super) mod blame;
pub(super) mod blob;
pub(super) mod export_tar;
pub(super) mod operate_files;
pub(super) mod put_file;
pub(super) mod read_files;
pub(super) mod rewind;
pub(super) mod snapshot;
