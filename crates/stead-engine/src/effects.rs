//! Performs effects on boxes, files, repositories, checkpoints and execs.

pub(crate) mod bundle;
pub(crate) mod checkpoints;
pub(crate) mod exec_watch;
pub(crate) mod file_changes;
pub(crate) mod git_tool;
pub(crate) mod guard;
pub(crate) mod inspection;
pub(crate) mod network;
pub(crate) mod pause;
pub(crate) mod perform;
pub(crate) mod repository;
pub(crate) mod secret_env;
pub(crate) mod secret_vault;
pub(crate) mod setup_cache;
pub(crate) mod setup_output;
pub(crate) mod snapshot_hashes;
pub(crate) mod workspace_users;
