//! A native box, as the workspace over it needs it.

use std::fs::{self, File};
use std::io;
use std::sync::Arc;

use stead_box::{BoxError, Connection, RunningBox};
use stead_core::capability::LimitKind;
use stead_core::config::ProviderName;
use stead_core::{SnapshotId, WorkspaceId};

use super::limits;
use super::place::Place;
use crate::boxed::{BoxHome, Scratch};

pub(super) struct NativeHome {
    pub(super) id: WorkspaceId,
    pub(super) running: RunningBox,
    pub(super) place: Arc<Place>,
    pub(super) started_anew: bool,
}

impl BoxHome for NativeHome {
    fn provider(&self) -> ProviderName {
        ProviderName::Native
    }

    fn enforced_limits(&self) -> Vec<LimitKind> {
        limits(self.running.held())
    }

    fn connect(&self) -> Result<Connection, BoxError> {
        self.running.connect()
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
        file.sync_all().and_then(|()| fs::rename(&new, &path)).map_err(BoxError::Lost)
    }

    fn kept(&self, name: &str) -> io::Result<File> {
        self.place.snapshot(self.id, name).and_then(File::open)
    }

    fn find_snapshot(&self, snapshot: SnapshotId) -> io::Result<Option<File>> {
        self.place.find_snapshot(snapshot)
    }
}
