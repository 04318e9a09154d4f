//! Escape and exhaustion tests: what a session token, a box, a repository or an archive can do to the
//! host, to another session, or to the record.
//!
//! Each test has a control: the same action without the protection, or with the protection allowed to
//! pass, so that a test that can no longer fail is noticed. Tests aim only at files, cgroups, mounts,
//! namespaces and processes that they made themselves.

mod disk_use;
mod fair_share;
mod full_disk;
mod memory_limit;
mod refused_starts;
mod repository_layers;
mod setup_output;
mod starts;
mod sync_calls;
use super::Files;

mod agent_errors;
mod host_paths;
mod special_bits;
mod tars;
mod ownership;
mod panics;
mod record;
mod allowances;
mod limits;
mod ordinary_user;
mod sockets;
mod clock_steps;
mod copied_home;
mod home_gone;
mod power;
mod apply;
mod git_hosts;
mod local_repositories;
mod private_mirrors;
mod pull_requests;
