//! Containers over overlay trees.
//!
//! A container on this kernel gets its files while it waits. So an idle or warm container is given
//! other layers for the cost of a few mounts. A container with its own kernel takes the mounts
//! below its directory when it starts, and must restart for other layers.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use stead_box::build::{ContainerMountOrder, MountTarget};
use stead_box::{BoxError, Connection, Held, Limits};
use stead_core::WorkspaceId;
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;

use super::box_records::{Over, Record, host};
use super::start::{Podman, gone};
use crate::contract::error::ProviderError;
use crate::overlay::{Boxes, Lineage, Restart, Running};

/// Blocks on a request to Podman. Call it only on a thread for blocking work.
pub(super) fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(work)
}

pub(super) struct PodmanBoxes(pub(super) Arc<Podman>);

impl PodmanBoxes {
    /// The box of a workspace, if it is alive and runs over the lineage's layers.
    pub(super) fn find(&self, id: WorkspaceId, lineage: &Lineage) -> Result<Option<Arc<dyn Running>>, ProviderError> {
        let podman = &self.0;
        let Some(record) = podman.records.read(id)?.filter(|record| record.over == Some(Over::of(lineage))) else {
            return Ok(None);
        };
        if let Some(secret) = &record.dial {
            // Waiting for a connection from an ended container would time out.
            if !wait(podman.is_running(&record.container))? {
                return Ok(None);
            }
            podman.records.reopen(id, secret)?;
        }
        Ok(podman.records.connect(id).is_ok().then(|| self.running(id, record.held)))
    }

    /// Ends the box of a paused session. Its files stay.
    pub(super) fn stop(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let podman = &self.0;
        let record = podman.records.record(id)?;
        if record.overlay {
            return podman.workspaces.stop_with(id, |_, _| end(podman, id, record));
        }
        wait(podman.remove_container(&record.container))?;
        podman.records.close(id);
        podman.records.write(id, &Record { mark: None, ..record })?;
        let image = podman.records.directory(id).join("volume.img");
        match std::fs::File::open(&image).and_then(|image| image.sync_all()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(host("sync", &image, error)),
            _ => Ok(()),
        }
    }

    fn running(&self, id: WorkspaceId, held: Held) -> Arc<dyn Running> {
        Arc::new(PodmanBox { podman: self.0.clone(), id, held })
    }
}

impl Boxes for PodmanBoxes {
    fn provider(&self) -> ProviderName {
        ProviderName::Podman
    }

    fn restart(&self) -> Restart {
        Restart::Noticeable
    }

    fn init(&self) -> &Path {
        &self.0.config.init
    }

    fn start(&self, order: &CreateOrder, lineage: &Lineage, kept: Vec<u32>) -> Result<Arc<dyn Running>, ProviderError> {
        let (podman, id) = (&self.0, order.workspace);
        let spec = podman.workspaces.directories.spec(order, lineage, &podman.workspaces.layers, kept)?;
        let mut record = podman.records.record(id)?;
        // Record no tree until the new one is in place.
        let before = record.over.take();
        podman.records.write(id, &record)?;
        let waiting = record.mark.clone().filter(|_| before.is_some() && podman.records.connect(id).is_ok());
        let mut record = match waiting {
            Some(mark) => {
                let order = ContainerMountOrder { spec, to: MountTarget::WaitingBox(mark) };
                record.held.reserve = stead_box::mount_container_files(&podman.config.init, &order)?.reserve;
                record
            }
            None => wait(async {
                podman.remove_container(&record.container).await?;
                let record = Record { runtime: None, mark: None, ..record };
                podman.records.write(id, &record)?;
                podman.start(order, record, Some(spec)).await
            })?,
        };
        record.over = Some(Over::of(lineage));
        podman.records.write(id, &record)?;
        Ok(self.running(id, record.held))
    }
}

struct PodmanBox {
    podman: Arc<Podman>,
    id: WorkspaceId,
    held: Held,
}

impl PodmanBox {
    fn record(&self) -> Result<Record, ProviderError> {
        self.podman.records.record(self.id)
    }
}

impl Running for PodmanBox {
    fn connect(&self) -> Result<Connection, BoxError> {
        self.podman.records.connect(self.id)
    }

    fn has_ended(&self) -> bool {
        match self.record() {
            Ok(Record { mark: Some(mark), .. }) => !mark.is_alive(),
            Ok(record) => !wait(self.podman.is_running(&record.container)).unwrap_or(true),
            // An unreadable record says nothing about the container.
            Err(error) => matches!(error, ProviderError::Gone { .. }),
        }
    }

    fn held(&self) -> Held {
        self.held
    }

    fn bind(&self, env: BTreeMap<String, String>, limits: &Limits) -> Result<Arc<dyn Running>, ProviderError> {
        let mut record = self.record()?;
        let pid = record.pid.ok_or_else(gone)?;
        // An answer proves that the pid is still that of the recorded process.
        self.connect()?.bind(env)?;
        let Held { disk, reserve, .. } = record.held;
        record.held = Held { disk, reserve, ..stead_box::bind_limits(pid, limits) };
        record.warm = true;
        self.podman.records.write(self.id, &record)?;
        Ok(Arc::new(Self { podman: self.podman.clone(), id: self.id, held: record.held }))
    }

    fn rest(&self) -> Result<bool, ProviderError> {
        let stays = self.podman.is_of_this_kernel();
        let rested = match self.connect() {
            Ok(mut connection) if stays => connection.be_alone()?,
            Ok(mut connection) => connection.rest()?,
            // The box has already died.
            Err(_) => self.has_ended(),
        };
        if rested && !stays {
            self.kill()?;
        }
        Ok(rested)
    }

    fn leave(&self) -> Result<(), ProviderError> {
        if self.podman.is_of_this_kernel() { Ok(()) } else { self.kill() }
    }

    fn kill(&self) -> Result<(), ProviderError> {
        end(&self.podman, self.id, self.record()?)
    }
}

/// Removes a container over layers and the mounts of its files.
fn end(podman: &Podman, id: WorkspaceId, record: Record) -> Result<(), ProviderError> {
    wait(podman.remove_container(&record.container))?;
    podman.records.close(id);
    podman.records.write(id, &Record { mark: None, over: None, ..record })?;
    Ok(stead_box::unmount_container_files(&podman.records.directory(id))?)
}
