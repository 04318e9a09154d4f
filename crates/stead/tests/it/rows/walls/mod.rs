//! Escape and exhaustion tests: what a session token, a box, a repository or an archive can do to the
//! host, to another session, or to the record.
//!
//! Each test has a control: the same action without the protection, or with the protection allowed to
//! pass, so that a test that can no longer fail is noticed. Tests aim only at files, cgroups, mounts,
//! namespaces and processes that they made themselves.

mod apply;
mod git_hosts;
mod local_repositories;
mod private_mirrors;
mod pull_requests;
