//! A Podman box, as the workspace over it needs it.

use std::fs::{self, File};
use std::io;
use std::sync::Arc;

use stead_box::{BoxError, Connection};
use stead_core::box_facts::BoxFacts;
use stead_core::capability::LimitKind;
use stead_core::config::ProviderName;
use stead_core::{SnapshotId, WorkspaceId};

use super::place::{self, Place};
use crate::boxed::{BoxHome, Scratch};
use crate::error::ProviderError;

pub(super) struct PodmanHome {
    pub(super) id: WorkspaceId,
    pub(super) place: Arc<Place>,
    pub(super) enforced_limits: Vec<LimitKind>,
    pub(super) made: BoxFacts,
    pub(super) started_anew: bool,
}

impl BoxHome for PodmanHome {
    fn provider(&self) -> ProviderName {
        ProviderName::Podman
    }

    fn enforced_limits(&self) -> Vec<LimitKind> {
        self.enforced_limits.clone()
    }

    fn made(&self) -> BoxFacts {
        self.made.clone()
    }

    fn connect(&self) -> Result<Connection, BoxError> {
        self.place.connect(self.id)
    }

    fn started_anew(&self) -> bool {
        self.started_anew
    }

    fn scratch(&self) -> &Scratch {
        self.place.scratch()
    }

    fn keep(&self, name: &str, write: &mut dyn FnMut(&File) -> Result<(), BoxError>) -> Result<(), BoxError> {
        let path = self.place.snapshot(self.id, name).map_err(BoxError::Lost)?;
        let new = path.with_extension("tar.new");
        let file = File::create(&new).map_err(BoxError::Lost)?;
        write(&file)?;
        let named = file.sync_all().and_then(|()| fs::rename(&new, &path));
        // The directory of snapshots may be new itself.
        let parents = path.ancestors().skip(1).take(2);
        named.and_then(|()| parents.into_iter().try_for_each(place::sync)).map_err(BoxError::Lost)
    }

    fn kept(&self, name: &str) -> io::Result<File> {
        self.place.snapshot(self.id, name).and_then(File::open)
    }

    fn snapshots(&self) -> Result<Vec<SnapshotId>, ProviderError> {
        Ok(self.place.snapshots(self.id).map_err(BoxError::Lost)?)
    }

    fn forget(&self, snapshots: &[SnapshotId]) -> Result<(), ProviderError> {
        for snapshot in snapshots {
            let path = self.place.snapshot(self.id, &snapshot.to_string()).map_err(BoxError::Lost)?;
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(BoxError::Lost(error).into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn find_snapshot(&self, snapshot: SnapshotId) -> io::Result<Option<File>> {
        self.place.find_snapshot(snapshot)
    }
}
