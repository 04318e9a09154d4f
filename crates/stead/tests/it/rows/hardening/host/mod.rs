//! A session and a removed or copied home leave the rest of the host alone.

mod apply;
mod backup;
mod copied_home;
mod host_paths;
mod orphan_containers;
mod removed_home;
mod shared_directories;
mod special_bits;
