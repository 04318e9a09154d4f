//! Boxes: execs, evaluation, images, the warm pool and the providers.

mod background;
mod endurance;
mod evaluation;
mod evaluation_access;
mod exec_streams;
pub(super) mod execs;
mod images;
pub(super) mod native;
pub(super) mod podman;
mod podman_layers;
mod probe;
mod process_trees;
mod project_images;
mod pull;
mod pull_tls;
mod setup_cache;
mod shell;
mod warm_pool;
