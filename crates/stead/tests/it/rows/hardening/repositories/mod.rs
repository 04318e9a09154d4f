//! Hostile repositories and git hosts, and private mirrors.

mod git_hosts;
mod local_repositories;
mod policy_layers;
mod private_mirrors;
mod pull_requests;
