//! Escape and exhaustion tests: attacks by a session token, a box, a repository or an archive on
//! the host, on another session or on the record.
//!
//! Each test has a control: the same action without the protection, or an action that the
//! protection allows. It shows that the test can still fail. Tests touch only files, cgroups,
//! mounts, namespaces and processes that they created.

mod durability;
mod files;
mod host;
pub(in crate::rows) mod limits;
mod repositories;
mod sessions;
mod tampering;
