//! Escape and exhaustion tests: attacks by a session token, a box, a repository or an archive on
//! the host, on another session or on the record.
//!
//! Each test has a control: the same action without the protection, or an action that the
//! protection allows. It shows that the test can still fail. Tests touch only files, cgroups,
//! mounts, namespaces and processes that they created.

mod disk_use;
mod fair_share;
mod full_disk;
mod memory_limit;
mod orphan_containers;
mod refused_starts;
mod repository_layers;
mod setup_output;
mod starts;
mod stream_share;
mod sync_calls;
use super::Files;

mod agent_errors;
mod allowances;
mod apply;
mod backup;
mod clock_steps;
mod copied_home;
mod git_hosts;
mod home_gone;
mod host_paths;
mod limits;
mod local_repositories;
mod ordinary_user;
mod ownership;
mod panics;
mod power;
mod private_mirrors;
mod pull_requests;
mod record;
mod shared_directories;
mod sockets;
mod special_bits;
mod tars;
mod tree_copies;
