//! The parts of a native box that this provider chooses: its program, its root, and the shape of
//! warm boxes.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use stead_core::command::CreateOrder;
use stead_core::config::ResourceLimits;
use stead_core::network::Reach;
use stead_fs::mount::AllowedRoots;

use crate::contract::error::ProviderError;
use crate::guest::{processor_env, trust};
use crate::overlay::Lineage;
use crate::overlay::images::{HeldImage, Images};

/// Version of the shape. Raise it when warm boxes are made differently.
const SHAPE: u32 = 1;

/// The configuration of the native provider.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// The directory for all data of the provider; only the server's user may read it.
    pub home: PathBuf,
    /// Identifies this server: letters, digits, `_` and `-`. The provider never touches boxes of
    /// other instances.
    pub instance: String,
    /// Instances of homes that this one is a copy of. The provider adopts their files, but not
    /// their boxes.
    pub former_instances: Vec<String>,
    /// Path of the `stead-init` program.
    pub init: PathBuf,
}

impl NativeConfig {
    /// Checks whether boxes can be made, as far as possible without making one.
    pub(super) fn check(&self) -> Result<(), String> {
        let (init, home) = (&self.init, &self.home);
        if !init.is_file() {
            return Err(format!(
                "there is no stead-init at {}; build it with cargo build -p stead-box",
                init.display()
            ));
        }
        fs::create_dir_all(home.join("boxes")).map_err(|error| format!("cannot use {}: {error}", home.display()))
    }
}

/// Returns the key of everything that is fixed in a box before a session claims it.
pub(super) fn shape(images: &Images, order: &CreateOrder) -> Result<String, ProviderError> {
    let image = match &order.base_image {
        Some(reference) => images.look(&order.image_tenant, reference)?.map(|image| image.digest.to_string()),
        None => None,
    };
    let root = match image {
        Some(digest) => digest,
        None => host_root(order)?.map_or_else(|| "host".to_owned(), |root| root.display().to_string()),
    };
    let disk = order.limits.disk.as_ref().map(ToString::to_string).unwrap_or_default();
    Ok(format!("native/{SHAPE}/{root}/disk={disk}{}", network_shape(order)))
}

/// The network's part of a shape. A box cannot get or lose its network later.
pub(crate) fn network_shape(order: &CreateOrder) -> &'static str {
    match order.network {
        Reach::None => "",
        Reach::Named => "/network=named",
        Reach::Captured => "/network=captured",
    }
}

/// Looks up the image that the order names and holds it for the workspace. `None` if the root is a
/// host directory or the host's own root.
pub(super) fn image(images: &Images, order: &CreateOrder) -> Result<Option<HeldImage>, ProviderError> {
    let held = match &order.base_image {
        Some(reference) => images.hold(reference, order)?,
        None => None,
    };
    if let (None, Some(reference), Some(digest)) = (&held, &order.base_image, &order.image_digest) {
        let reason = format!("the clone's source uses {digest}, which no longer exists");
        return Err(ProviderError::NoImage { image: reference.clone(), reason });
    }
    if held.is_none() {
        host_root(order)?;
    }
    Ok(held)
}

/// Returns the image's environment, overridden by the session's.
pub(super) fn env(order: &CreateOrder, lineage: &Lineage) -> BTreeMap<String, String> {
    let mut env = processor_env(&order.limits);
    env.extend(java_options(&order.limits).map(|options| ("JAVA_TOOL_OPTIONS".to_owned(), options)));
    env.extend(lineage.image.iter().flat_map(|image| image.env.clone()));
    trust::extend_env(&mut env, order);
    env.extend(order.env.texts().map(|(name, value)| (name.to_owned(), value.to_owned())));
    env
}

/// Returns options that tell a Java virtual machine the limits of the box; `None` without limits.
///
/// It reads limits only from a mounted control group, which a native box does not have, and
/// otherwise asks the kernel, which tells it the resources of the host. Its heap would then grow
/// beyond the limit, and the kernel would kill it. Each start prints a line about the variable.
fn java_options(limits: &ResourceLimits) -> Option<String> {
    let processors = stead_box::processors(limits.cpu.as_ref().map(|cpu| cpu.millis()));
    let processors = processors.map(|count| format!("-XX:ActiveProcessorCount={count}"));
    let memory = limits.memory.as_ref().map(|memory| format!("-XX:MaxRAM={}", memory.bytes()));
    // Very old versions do not know every option and would refuse to start.
    let lenient = "-XX:+IgnoreUnrecognizedVMOptions".to_owned();
    let told: Vec<String> = processors.into_iter().chain(memory).collect();
    (!told.is_empty()).then(|| [vec![lenient], told].concat().join(" "))
}

/// Returns the real path of an unpacked root on the host; `None` if the order names none. The path
/// must be inside the roots that were allowed when the session was made.
pub(super) fn host_root(order: &CreateOrder) -> Result<Option<PathBuf>, ProviderError> {
    let Some(named) = &order.base_image else { return Ok(None) };
    if !named.starts_with('/') {
        let reason = "no imported image has this name, and it is not the absolute path of a root directory".to_owned();
        return Err(ProviderError::NoImage { image: named.clone(), reason });
    }
    let refused = |error| ProviderError::BaseImage { reason: format!("base_image {named:?} is refused: {error}") };
    let roots = AllowedRoots::open(&order.image_roots).map_err(refused)?;
    Ok(Some(roots.directory(named).map_err(refused)?.path().to_owned()))
}

/// The image as the session names it, if it is a host directory.
pub(super) fn named_directory(order: &CreateOrder) -> Option<String> {
    order.base_image.clone().filter(|image| image.starts_with('/'))
}
