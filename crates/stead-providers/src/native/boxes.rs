//! Boxes on this host's own kernel, over overlay trees.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stead_box::{BoxError, Connection, Held, Limits, RunningBox, Volume};
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;

use super::box_root::{env, host_root};
use super::spares::Spares;
use crate::contract::error::ProviderError;
use crate::guest::trust;
use crate::overlay::images::Images;
use crate::overlay::{Boxes, Lineage, Restart, Running, Workspaces};

pub(super) struct NativeBoxes {
    pub(super) init: PathBuf,
    pub(super) workspaces: Arc<Workspaces>,
    pub(super) images: Arc<Images>,
    pub(super) spares: Arc<Spares>,
}

impl Boxes for NativeBoxes {
    fn provider(&self) -> ProviderName {
        ProviderName::Native
    }

    fn restart(&self) -> Restart {
        Restart::Milliseconds
    }

    fn init(&self) -> &Path {
        &self.init
    }

    fn start(&self, order: &CreateOrder, lineage: &Lineage, kept: Vec<u32>) -> Result<Arc<dyn Running>, ProviderError> {
        let mut spec = self.workspaces.directories.spec(order, lineage, &self.workspaces.layers, kept)?;
        spec.base = match &lineage.image {
            // The box opens its root without following links, and the path to the server's
            // directories may contain one.
            Some(image) => {
                let root = self.images.root(image)?;
                let real = root.canonicalize();
                Some(real.map_err(|source| BoxError::Host { doing: "open", path: root, source })?)
            }
            None => host_root(order)?,
        };
        spec.env = env(order, lineage);
        spec.trust = trust::write(&spec.volume_directory, order)?;
        if spec.limits.disk_bytes.is_none() {
            // A disk image serves only to enforce a limit.
            spec.volume = Volume::Directory;
        }
        let running = stead_box::resume(&self.init, &spec, self.spares.take(&spec))?;
        self.spares.refill(&spec);
        if let Err(error) = stead_box::ensure_keeper(&self.init, &self.workspaces.directories.home) {
            running.kill()?;
            return Err(error.into());
        }
        Ok(Arc::new(NativeBox(running)))
    }
}

pub(super) struct NativeBox(pub(super) RunningBox);

impl Running for NativeBox {
    fn connect(&self) -> Result<Connection, BoxError> {
        self.0.connect()
    }

    fn has_ended(&self) -> bool {
        RunningBox::find(self.0.directory()).is_err()
    }

    fn held(&self) -> Held {
        self.0.held()
    }

    fn bind(&self, env: BTreeMap<String, String>, limits: &Limits) -> Result<Arc<dyn Running>, ProviderError> {
        Ok(Arc::new(Self(self.0.bind(env, limits)?)))
    }

    fn rest(&self) -> Result<bool, ProviderError> {
        let rested = match self.connect() {
            Ok(mut connection) => connection.rest()?,
            // The box has already died.
            Err(_) => self.has_ended(),
        };
        if rested {
            self.kill()?;
        }
        Ok(rested)
    }

    fn leave(&self) -> Result<(), ProviderError> {
        self.kill()
    }

    fn kill(&self) -> Result<(), ProviderError> {
        Ok(self.0.kill()?)
    }
}
