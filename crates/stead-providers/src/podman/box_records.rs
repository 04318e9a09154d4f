//! The server's records of its Podman boxes: one directory for each.
//!
//! Invariant: the record is written before the container is made and removed after it. So after any
//! interruption the directories name every container of this server. A container of this instance
//! without a directory belongs to no workspace, and [`super::orphan_containers`] removes it.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use stead_box::{BoxError, Connection, Held, Limits, ProcessMark, Switchboard, UidRanges};
use stead_core::{SnapshotId, WorkspaceId};

use super::image::Image;
use crate::contract::error::ProviderError;
use crate::guest::Scratch;
use crate::overlay::{LayerRef, Lineage};

const RECORD: &str = "podman.json";

/// The parts of one box.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) instance: String,
    pub(super) container: String,
    pub(super) image: Image,
    /// The runtime that Podman reported; `None` while its answer is outstanding.
    pub(super) runtime: Option<String>,
    pub(super) first_uid: Option<u32>,
    /// Host pid of the first process.
    pub(super) pid: Option<i32>,
    pub(super) held: Held,
    /// The secret that opens each connection, if the first process connects to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dial: Option<String>,
    /// The box was a warm box, now claimed by a session.
    #[serde(default)]
    pub(super) warm: bool,
    /// True if its files are layers, false if they are copied into its volume.
    #[serde(default, rename = "layered")]
    pub(super) overlay: bool,
    /// The first process, if it runs on this kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mark: Option<ProcessMark>,
    /// The tree of the box; `None` while it is being changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) over: Option<Over>,
}

/// The tree of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Over {
    layers: Vec<LayerRef>,
    generation: u32,
}

impl Over {
    pub(super) fn of(lineage: &Lineage) -> Self {
        Self { layers: lineage.layers.clone(), generation: lineage.generation }
    }
}

impl Record {
    /// The record of a container that does not exist yet.
    pub(super) fn new(instance: String, container: String, image: Image, first_uid: Option<u32>) -> Self {
        let (runtime, pid, held, dial, mark, over) = (None, None, Held::default(), None, None, None);
        let (warm, overlay) = (false, false);
        Self { instance, container, image, runtime, first_uid, pid, held, dial, warm, overlay, mark, over }
    }
}

pub(super) struct BoxRecords {
    home: PathBuf,
    instance: String,
    ranges: UidRanges,
    scratch: Scratch,
    /// Switchboards of boxes whose first process connects to the server.
    switchboards: Mutex<HashMap<WorkspaceId, Arc<Switchboard>>>,
}

impl BoxRecords {
    /// `uids` is shared with the other providers on this host: no two boxes get the same ids.
    pub(super) fn new(home: PathBuf, instance: String, uids: PathBuf) -> Self {
        let scratch = Scratch::new(home.join("spool"));
        scratch.sweep();
        Self { home, instance, ranges: UidRanges::new(uids), scratch, switchboards: Mutex::default() }
    }

    /// Opens a new connection to the box's first process, with the greeting done.
    pub(super) fn connect(&self, id: WorkspaceId) -> Result<Connection, BoxError> {
        let board = self.switchboards().get(&id).cloned();
        match board {
            Some(board) => board.connect(),
            None => stead_box::connect(&self.directory(id)),
        }
    }

    pub(super) fn keep(&self, id: WorkspaceId, board: Switchboard) {
        self.switchboards().insert(id, Arc::new(board));
    }

    /// Listens again for connections from a box.
    pub(super) fn reopen(&self, id: WorkspaceId, secret: &str) -> Result<(), BoxError> {
        self.keep(id, Switchboard::open(&self.directory(id), secret.to_owned())?);
        Ok(())
    }

    fn switchboards(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Arc<Switchboard>>> {
        // Only whole entries are inserted and removed, so a panic cannot leave the map
        // inconsistent.
        self.switchboards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn check(&self) -> io::Result<()> {
        fs::create_dir_all(self.boxes())
    }

    pub(super) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    fn boxes(&self) -> PathBuf {
        self.home.join("boxes")
    }

    pub(super) fn directory(&self, id: WorkspaceId) -> PathBuf {
        self.boxes().join(id.to_string())
    }

    /// Makes the box's directory. It must not exist: removal comes before creation.
    pub(super) fn make(&self, id: WorkspaceId) -> Result<PathBuf, ProviderError> {
        let (boxes, directory) = (self.boxes(), self.directory(id));
        fs::create_dir_all(&boxes).map_err(|error| host("make", &boxes, error))?;
        DirBuilder::new().mode(0o700).create(&directory).map_err(|error| host("make", &directory, error))?;
        let synced = sync(&boxes).and_then(|()| sync(&self.home));
        synced.map_err(|error| host("sync", &boxes, error))?;
        Ok(directory)
    }

    pub(super) fn take_uids(&self, id: WorkspaceId) -> Result<Option<u32>, ProviderError> {
        if stead_box::runs_as_root() { Ok(Some(self.ranges.take(&id.to_string())?)) } else { Ok(None) }
    }

    /// Maps the ids one to one. The box has its own kernel, and in a user namespace its file server
    /// would see host files as owned by the overflow uid.
    pub(super) fn own_uids(&self) -> Option<u32> {
        stead_box::runs_as_root().then_some(0)
    }

    /// Makes the volume for the box's files: a volume with a size limit as root, a plain directory
    /// otherwise.
    pub(super) fn volume(&self, directory: &Path, limits: &Limits, first: Option<u32>) -> Result<(), ProviderError> {
        if let Some(first) = first {
            let templates = self.home.join("templates");
            return Ok(stead_box::mount_volume(directory, limits, first + stead_box::AGENT_ID, &templates)?);
        }
        for name in ["upper", "home", "tmp"] {
            let path = directory.join("volume").join(name);
            fs::create_dir_all(&path).map_err(|error| host("make", &path, error))?;
        }
        let volume = directory.join("volume");
        sync(&volume).map_err(|error| host("sync", &volume, error))
    }

    /// Returns true if the process has the volume as its workspace, and not a directory of the
    /// host's disk.
    pub(super) fn volume_holds(&self, directory: &Path, pid: i32) -> bool {
        let device = |path: PathBuf| fs::metadata(path).map(|found| (found.dev(), found.ino()));
        let (inside, outside) = (
            device(PathBuf::from(format!("/proc/{pid}/root{}", stead_box::WORKSPACE))),
            device(directory.join("volume/upper")),
        );
        let (Ok(inside), Ok(outside), Ok(host)) = (inside, outside, device(directory.to_owned())) else { return false };
        inside == outside && inside.0 != host.0
    }

    /// Like [`Self::volume_holds`], for a box whose processes this kernel cannot see: checks the
    /// mount that the box was given.
    pub(super) fn volume_is_apart(&self, directory: &Path) -> bool {
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
        matches!((device(&directory.join("volume/upper")), device(directory)), (Ok(inside), Ok(host)) if inside != host)
    }

    /// Replaces the record and syncs it: without it the files of the box are lost after a power
    /// failure.
    pub(super) fn write(&self, id: WorkspaceId, record: &Record) -> Result<(), ProviderError> {
        let directory = self.directory(id);
        let new = directory.join("podman.json.new");
        let written = serde_json::to_vec(record)
            .map_err(io::Error::from)
            .and_then(|text| fs::write(&new, text))
            .and_then(|()| sync(&new))
            .and_then(|()| fs::rename(&new, directory.join(RECORD)))
            .and_then(|()| sync(&directory));
        written.map_err(|error| host("write the record in", &directory, error))
    }

    /// The record of a box; `None` if there is none.
    pub(super) fn read(&self, id: WorkspaceId) -> Result<Option<Record>, ProviderError> {
        let directory = self.directory(id);
        let unreadable = |error| host("read the record in", &directory, error);
        match fs::read(directory.join(RECORD)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(error)),
        }
    }

    /// The record of a box; an error if it has none.
    pub(super) fn record(&self, id: WorkspaceId) -> Result<Record, ProviderError> {
        self.read(id)?.ok_or(ProviderError::Gone { workspace: id })
    }

    /// Decided by the record, never by the name. An unreadable record decides nothing.
    pub(super) fn is_of_another(&self, id: WorkspaceId) -> bool {
        matches!(self.read(id), Ok(Some(record)) if record.instance != self.instance)
    }

    /// Takes over the files of boxes that were copied from a home of these instances. Does not
    /// touch their containers and returns a description of each.
    pub(super) fn disown(&self, former: &[String]) -> Vec<String> {
        let mut unclaimed = Vec::new();
        for entry in fs::read_dir(self.boxes()).into_iter().flatten().flatten() {
            let id: Option<WorkspaceId> = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(id) = id else { continue };
            let record = match self.read(id) {
                Ok(record) => record.filter(|record| former.contains(&record.instance)),
                Err(error) => {
                    unclaimed.push(format!("workspace {id}: {}", error.to_failure().message));
                    continue;
                }
            };
            let Some(record) = record else { continue };
            unclaimed.push(format!("container {} of instance {}", record.container, record.instance));
            let fresh = Record::new(self.instance.clone(), self.container(id), record.image, record.first_uid);
            let own = Record { warm: record.warm, overlay: record.overlay, held: record.held, ..fresh };
            // A copied socket has no listener.
            let _ = fs::remove_file(entry.path().join("control.sock"));
            if let Err(error) = self.write(id, &own) {
                unclaimed.push(format!("workspace {id}: {}", error.to_failure().message));
            }
        }
        unclaimed
    }

    /// The name of a workspace's container.
    pub(super) fn container(&self, id: WorkspaceId) -> String {
        format!("stead-{}-{id}", self.instance)
    }

    /// Stops listening for connections from the box.
    pub(super) fn close(&self, id: WorkspaceId) {
        self.switchboards().remove(&id);
    }

    pub(super) fn list(&self) -> Result<Vec<WorkspaceId>, ProviderError> {
        let boxes = self.boxes();
        let entries = match fs::read_dir(&boxes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| host("list", &boxes, error))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| host("list", &boxes, error))?;
            let id: Option<WorkspaceId> = entry.file_name().to_str().and_then(|name| name.parse().ok());
            found.extend(id.filter(|id| !self.is_of_another(*id)));
        }
        Ok(found)
    }

    /// Podman's ids of the image with this digest, from the records of this server's boxes.
    pub(super) fn ids_of(&self, digest: &str) -> Result<Vec<String>, ProviderError> {
        let records = self.list()?.into_iter().filter_map(|id| self.read(id).transpose());
        let records = records.collect::<Result<Vec<_>, _>>()?.into_iter();
        Ok(records.filter(|record| record.image.digest == digest).map(|record| record.image.id).collect())
    }

    /// Path of a workspace's snapshot. It is in the box's directory and removed with it.
    pub(super) fn snapshot(&self, id: WorkspaceId, name: &str) -> io::Result<PathBuf> {
        let directory = self.directory(id).join("snapshots");
        fs::create_dir_all(&directory)?;
        Ok(directory.join(format!("{name}.tar")))
    }

    pub(super) fn snapshots(&self, id: WorkspaceId) -> io::Result<Vec<SnapshotId>> {
        let mut found = Vec::new();
        let entries = match fs::read_dir(self.directory(id).join("snapshots")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        for entry in entries {
            let name = entry?.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(".tar"));
            // The directory also contains the base of diffs, whose name is no snapshot id.
            found.extend(stem.and_then(|stem| stem.parse::<SnapshotId>().ok()));
        }
        Ok(found)
    }

    /// Finds a snapshot of any box of this server.
    pub(super) fn find_snapshot(&self, snapshot: SnapshotId) -> io::Result<Option<File>> {
        for entry in fs::read_dir(self.boxes())? {
            let path = entry?.path().join("snapshots").join(format!("{snapshot}.tar"));
            match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened.map(Some),
            }
        }
        Ok(None)
    }
}

/// Syncs a file, or the entries of a directory.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

pub(super) fn host(doing: &'static str, path: &Path, source: io::Error) -> ProviderError {
    BoxError::Host { doing, path: path.to_owned(), source }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_read_is_not_taken_for_a_box_without_one() {
        let home = tempfile::tempdir().unwrap();
        let records = BoxRecords::new(home.path().to_owned(), "a".to_owned(), home.path().join("uids"));
        let id = WorkspaceId::from_bits(1);
        records.make(id).unwrap();
        assert!(matches!(records.read(id), Ok(None)), "there is none yet");
        fs::write(records.directory(id).join(RECORD), "{}").unwrap();
        assert!(matches!(records.read(id), Err(ProviderError::Box { .. })));
        assert!(!records.is_of_another(id) && records.list().unwrap() == [id], "it is still listed");
    }
}
