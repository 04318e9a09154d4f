//! Address of Podman, and the settings of its boxes.

use std::path::PathBuf;

use stead_providers::{PodmanTarget, Pull, Trees};

use super::{Config, Setting};
use crate::failure::Failure;

/// The default image of containers; a setting overrides it.
const DEFAULT_IMAGE: &str = "docker.io/library/python:3.12-slim";

#[derive(Debug, Default)]
pub(super) struct PodmanKeys {
    pub(super) cache: Option<Setting>,
    pub(super) base_url: Option<Setting>,
    pub(super) identity: Option<Setting>,
    pub(super) connection: Option<Setting>,
    pub(super) runtime: Option<Setting>,
    pub(super) image: Option<Setting>,
    pub(super) pull: Option<Setting>,
    pub(super) trees: Option<Setting>,
}

#[derive(Debug)]
pub(crate) struct PodmanSettings {
    /// Parent of the sessions' directories.
    pub(crate) cache: PathBuf,
    pub(crate) target: PodmanTarget,
    pub(crate) runtime: Option<String>,
    pub(crate) image: String,
    pub(crate) pull: Pull,
    pub(crate) trees: Trees,
}

impl Config {
    pub(crate) fn podman(&self) -> Result<PodmanSettings, Failure> {
        let keys = &self.podman;
        let text = |setting: &Option<Setting>| setting.as_ref().map(|setting| setting.value.clone());
        let pull = one_of(keys.pull.as_ref(), [("never", Pull::Never), ("missing", Pull::Missing)])?;
        let trees = one_of(keys.trees.as_ref(), [("shared", Trees::Shared), ("copied", Trees::Copied)])?;
        let cache = text(&keys.cache).map_or_else(|| self.home.path().to_owned(), PathBuf::from);
        if !cache.is_absolute() {
            return Err(Failure::new(format!("the cache {} is not an absolute path", cache.display())));
        }
        let target = PodmanTarget {
            base_url: text(&keys.base_url),
            identity: text(&keys.identity).map(PathBuf::from),
            connection: text(&keys.connection),
        };
        let image = text(&keys.image).unwrap_or_else(|| DEFAULT_IMAGE.to_owned());
        Ok(PodmanSettings { cache: cache.join("podman"), target, runtime: text(&keys.runtime), image, pull, trees })
    }
}

/// Reads one of two words; the first is the default.
fn one_of<T: Copy>(setting: Option<&Setting>, [first, second]: [(&str, T); 2]) -> Result<T, Failure> {
    match setting {
        None => Ok(first.1),
        Some(setting) if setting.value == first.0 => Ok(first.1),
        Some(setting) if setting.value == second.0 => Ok(second.1),
        Some(Setting { value, source }) => {
            Err(Failure::new(format!("{source} is {value:?}")).hint(format!("it is {:?} or {:?}", first.0, second.0)))
        }
    }
}

/// The keys of Podman's settings, with what was given and the default.
pub(super) fn keys(keys: &PodmanKeys) -> impl Iterator<Item = (&'static str, Option<&Setting>, &'static str)> {
    [
        ("cache", &keys.cache, "the home"),
        ("podman_base_url", &keys.base_url, "Podman's usual socket"),
        ("podman_identity", &keys.identity, "–"),
        ("podman_connection", &keys.connection, "–"),
        ("podman_runtime", &keys.runtime, "Podman's own"),
        ("podman_image", &keys.image, DEFAULT_IMAGE),
        ("podman_pull", &keys.pull, "never"),
        ("podman_trees", &keys.trees, "shared"),
    ]
    .into_iter()
    .map(|(name, given, usual)| (name, given.as_ref(), usual))
}
