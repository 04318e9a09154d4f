//! Where Podman is and what boxes it makes.

use std::path::PathBuf;

use stead_providers::{PodmanTarget, Pull};

use super::{Config, Setting};
use crate::failure::Failure;

/// The image of the tools this kind of box comes from; what an operator has instead is a setting.
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
}

#[derive(Debug)]
pub(crate) struct PodmanSettings {
    /// The sessions' directories are below it.
    pub(crate) home: PathBuf,
    pub(crate) target: PodmanTarget,
    pub(crate) runtime: Option<String>,
    pub(crate) image: String,
    pub(crate) pull: Pull,
}

impl Config {
    pub(crate) fn podman(&self) -> Result<PodmanSettings, Failure> {
        let keys = &self.podman;
        let text = |setting: &Option<Setting>| setting.as_ref().map(|setting| setting.value.clone());
        let pull = match keys.pull.as_ref().map(|setting| setting.value.as_str()) {
            None | Some("never") => Pull::Never,
            Some("missing") => Pull::Missing,
            Some(other) => {
                let source = keys.pull.as_ref().map(|setting| setting.source.to_string()).unwrap_or_default();
                return Err(Failure::new(format!("{source} is {other:?}")).hint("it is \"never\" or \"missing\""));
            }
        };
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
        Ok(PodmanSettings { home: cache.join("podman"), target, runtime: text(&keys.runtime), image, pull })
    }
}
