//! Whether Podman can be spoken to, and with which runtimes.

use std::sync::Arc;

use stead_providers::{Health, Images, LayerStore, PodmanConfig, PodmanProvider, Provider as _};

use super::{Finding, Need, machine};
use crate::config::PodmanSettings;
use crate::context::Context;

const WHAT: &str = "podman";
const ADVICE: &str =
    "install Podman and start its service (systemctl enable --now podman.socket), or set PODMAN_BASE_URL";

pub(super) fn look(context: &Context, need: Need) -> Vec<Finding> {
    let version = machine::version("podman", "--version").unwrap_or_else(|| "not installed".to_owned());
    let runtimes: Vec<&str> =
        ["crun", "runc", "runsc"].into_iter().filter(|name| machine::is_installed(name)).collect();
    let runtimes =
        if runtimes.is_empty() { "none of crun, runc, runsc is in PATH".to_owned() } else { runtimes.join(", ") };
    vec![service(context, need), Finding::known("program", version), Finding::known("runtimes", runtimes)]
}

/// Asked as the provider asks it, but below a directory that is thrown away.
fn service(context: &Context, need: Need) -> Finding {
    let settings = match context.config.podman() {
        Ok(settings) => settings,
        Err(failure) => return Finding::from_failure(WHAT, failure),
    };
    match health(settings) {
        Ok(Health::Healthy) => Finding::good(WHAT, "the service answers"),
        Ok(Health::Unhealthy { reason }) => Finding::missing(need, WHAT, reason, ADVICE),
        Err(error) => Finding::missing(need, WHAT, format!("it cannot be asked: {error}"), "set TMPDIR"),
    }
}

fn health(settings: PodmanSettings) -> Result<Health, Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let layers = Arc::new(LayerStore::open(place.path().join("layers"))?);
    let images = Images::open(place.path().join("images"), layers)?;
    let config = PodmanConfig {
        home: place.path().join("podman"),
        uids: place.path().join("uids"),
        instance: "doctor".to_owned(),
        init: std::env::current_exe()?.with_file_name("stead-init"),
        target: settings.target,
        runtime: settings.runtime,
        base_image: settings.image,
        pull: settings.pull,
        trees: settings.trees,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(PodmanProvider::new(config, Arc::new(images)).health()))
}
