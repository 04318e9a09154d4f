//! What makes a native box this provider's: its program, its root, its shape before it is known whose it is.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use stead_core::command::CreateOrder;
use stead_fs::mount::AllowedRoots;

use crate::contract::error::ProviderError;
use crate::overlay::Lineage;
use crate::overlay::images::{HeldImage, Images};

/// Raised whenever a box that waits would be made another way.
const SHAPE: u32 = 1;

/// What a server tells its native provider.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// Everything is kept below it; only the server's user may read it.
    pub home: PathBuf,
    /// Which server this is: letters, digits, `_` and `-`. Boxes of another are never touched.
    pub instance: String,
    /// Instances of homes that this one is a copy of: their files are adopted, their boxes are not.
    pub former_instances: Vec<String>,
    /// The `stead-init` program.
    pub init: PathBuf,
}

impl NativeConfig {
    /// Whether boxes can be made, as far as that can be told without making one.
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

/// What shapes a box before it is known whose it is.
pub(super) fn shape(images: &Images, order: &CreateOrder) -> Result<String, ProviderError> {
    let image = match &order.base_image {
        Some(reference) => images.look(reference)?.map(|image| image.digest.to_string()),
        None => None,
    };
    let root = match image {
        Some(digest) => digest,
        None => host_root(order)?.map_or_else(|| "host".to_owned(), |root| root.display().to_string()),
    };
    let disk = order.limits.disk.as_ref().map(ToString::to_string).unwrap_or_default();
    Ok(format!("native/{SHAPE}/{root}/disk={disk}"))
}

/// The image that the order names, held for the workspace; `None` if its root is a directory of the host's, or the host's own.
pub(super) fn image(images: &Images, order: &CreateOrder) -> Result<Option<HeldImage>, ProviderError> {
    let held = match &order.base_image {
        Some(reference) => images.hold(reference, order.image_digest.as_deref(), &order.workspace.to_string())?,
        None => None,
    };
    if let (None, Some(reference), Some(digest)) = (&held, &order.base_image, &order.image_digest) {
        let reason = format!("the source of this clone had {digest}, which is gone");
        return Err(ProviderError::NoImage { image: reference.clone(), reason });
    }
    if held.is_none() {
        host_root(order)?;
    }
    Ok(held)
}

/// What the image says, and over it what the session says.
pub(super) fn env(order: &CreateOrder, lineage: &Lineage) -> BTreeMap<String, String> {
    let mut env = lineage.image.as_ref().map(|image| image.env.clone()).unwrap_or_default();
    env.extend(order.env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
    env
}

/// An unpacked root of the host's, by its real path; `None` if the order names none. It must lie inside the roots that were
/// allowed when the session was made.
pub(super) fn host_root(order: &CreateOrder) -> Result<Option<PathBuf>, ProviderError> {
    let Some(named) = &order.base_image else { return Ok(None) };
    if !named.starts_with('/') {
        let reason = "no image of that name was imported, and it is no absolute path of an unpacked root".to_owned();
        return Err(ProviderError::NoImage { image: named.clone(), reason });
    }
    let refused = |error| ProviderError::BaseImage { reason: format!("base_image {named:?} is refused: {error}") };
    let roots = AllowedRoots::open(&order.image_roots).map_err(refused)?;
    Ok(Some(roots.directory(named).map_err(refused)?.path().to_owned()))
}

/// The image as the session names it, where it is a directory of the host.
pub(super) fn named_directory(order: &CreateOrder) -> Option<String> {
    order.base_image.clone().filter(|image| image.starts_with('/'))
}
