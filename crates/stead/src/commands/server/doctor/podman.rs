//! Checks that Podman answers, and lists its runtimes.

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
    let mut found = asked(context, need);
    found.extend([Finding::known("program", version), Finding::known("runtimes", runtimes)]);
    found
}

/// Queries Podman like the provider does, with a temporary directory.
fn asked(context: &Context, need: Need) -> Vec<Finding> {
    let settings = match context.config.podman() {
        Ok(settings) => settings,
        Err(failure) => return vec![Finding::from_failure(WHAT, failure)],
    };
    let (health, trees) = match ask(settings) {
        Ok(answers) => answers,
        Err(error) => {
            return vec![Finding::missing(need, WHAT, format!("cannot query it: {error}"), "set TMPDIR")];
        }
    };
    let service = match health {
        Health::Healthy => Finding::good(WHAT, "the service answers"),
        Health::Unhealthy { reason } => Finding::missing(need, WHAT, reason, ADVICE),
    };
    let trees = match trees {
        Ok(()) => "layers, shared by all sessions".to_owned(),
        Err(reason) => format!("copied into each session: {reason}"),
    };
    vec![service, Finding::known("workspaces", trees)]
}

fn ask(settings: PodmanSettings) -> Result<(Health, Result<(), String>), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let layers = Arc::new(LayerStore::open(scratch.path().join("layers"))?);
    let images = Images::open(scratch.path().join("images"), layers)?;
    let config = PodmanConfig {
        home: scratch.path().join("podman"),
        uids: scratch.path().join("uids"),
        instance: "doctor".to_owned(),
        former_instances: Vec::new(),
        init: std::env::current_exe()?.with_file_name("stead-init"),
        target: settings.target,
        runtime: settings.runtime,
        base_image: settings.image,
        pull: settings.pull,
        trees: settings.trees,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let provider = PodmanProvider::new(config, Arc::new(images));
    Ok((runtime.block_on(provider.health()), provider.shares_layers()))
}
