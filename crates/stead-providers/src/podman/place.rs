//! What the server keeps of its Podman boxes: one directory each, with the record of what belongs to it.
//!
//! The invariant: the record is written before the container is made and goes after it, so whatever was interrupted, the directories name
//! everything that is ours. A container of this instance without a directory here belongs to no
//! workspace, and [`super::orphan_containers`] removes it.

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
use crate::boxed::Scratch;
use crate::error::ProviderError;
use crate::layered::{LayerRef, Lineage};

const RECORD: &str = "podman.json";

/// What one box consists of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) instance: String,
    pub(super) container: String,
    pub(super) image: Image,
    /// Who runs it, as Podman said; `None` as long as Podman's answer is owed.
    pub(super) runtime: Option<String>,
    pub(super) first_uid: Option<u32>,
    /// The first process, as the host numbers it.
    pub(super) pid: Option<i32>,
    pub(super) held: Held,
    /// What the box's calls begin with, where its first process calls the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dial: Option<String>,
    /// It was kept ready, and is a session's now.
    #[serde(default)]
    pub(super) warm: bool,
    /// Its files are layers; otherwise they were copied into its volume.
    #[serde(default)]
    pub(super) layered: bool,
    /// The first process, where it is one of this kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mark: Option<ProcessMark>,
    /// The tree it has; `None` while that is about to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) over: Option<Over>,
}

/// Which tree a container has.
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
    /// Of a container that is about to be asked for.
    pub(super) fn new(instance: String, container: String, image: Image, first_uid: Option<u32>) -> Self {
        let (runtime, pid, held, dial, mark, over) = (None, None, Held::default(), None, None, None);
        let (warm, layered) = (false, false);
        Self { instance, container, image, runtime, first_uid, pid, held, dial, warm, layered, mark, over }
    }
}

pub(super) struct Place {
    home: PathBuf,
    instance: String,
    ranges: UidRanges,
    scratch: Scratch,
    /// Of boxes whose first process calls the server.
    switchboards: Mutex<HashMap<WorkspaceId, Arc<Switchboard>>>,
}

impl Place {
    /// `uids` is shared with the other providers of this host: no two boxes have the same ids.
    pub(super) fn new(home: PathBuf, instance: String, uids: PathBuf) -> Self {
        let scratch = Scratch::new(home.join("spool"));
        scratch.sweep();
        Self { home, instance, ranges: UidRanges::new(uids), scratch, switchboards: Mutex::default() }
    }

    /// A new connection to the box's first process, greeted.
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

    /// Lets a box that calls find the server again.
    pub(super) fn reopen(&self, id: WorkspaceId, secret: &str) -> Result<(), BoxError> {
        self.keep(id, Switchboard::open(&self.directory(id), secret.to_owned())?);
        Ok(())
    }

    fn switchboards(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Arc<Switchboard>>> {
        // Only whole entries are inserted and removed: a panic elsewhere cannot leave it half changed.
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

    /// Makes the box's directory. It is not there: removing comes before making.
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

    /// The same ids inside as outside: the box's kernel is another, and what is outside it is nobody in a namespace of its own.
    pub(super) fn own_uids(&self) -> Option<u32> {
        stead_box::runs_as_root().then_some(0)
    }

    /// Where the box's files are: a volume of the limits' size where only root can make one, a plain directory elsewhere.
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

    /// Whether what the process has as its workspace is the volume, and not a directory of the host's.
    pub(super) fn volume_holds(&self, directory: &Path, pid: i32) -> bool {
        let device = |path: PathBuf| fs::metadata(path).map(|found| (found.dev(), found.ino()));
        let (inside, outside) = (
            device(PathBuf::from(format!("/proc/{pid}/root{}", stead_box::WORKSPACE))),
            device(directory.join("volume/upper")),
        );
        let (Ok(inside), Ok(outside), Ok(host)) = (inside, outside, device(directory.to_owned())) else { return false };
        inside == outside && inside.0 != host.0
    }

    /// The same of a box whose processes this kernel does not know: it was given what is mounted here.
    pub(super) fn volume_is_apart(&self, directory: &Path) -> bool {
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
        matches!((device(&directory.join("volume/upper")), device(directory)), (Ok(inside), Ok(host)) if inside != host)
    }

    /// Replaces the record, on the disk: without it the files of the box are not found again after a power
    /// loss.
    pub(super) fn write(&self, id: WorkspaceId, record: &Record) -> Result<(), ProviderError> {
        let directory = self.directory(id);
        let new = directory.join("podman.json.new");
        let text = serde_json::to_vec(record).unwrap_or_default();
        let written = fs::write(&new, text)
            .and_then(|()| sync(&new))
            .and_then(|()| fs::rename(&new, directory.join(RECORD)))
            .and_then(|()| sync(&directory));
        written.map_err(|error| host("write the record in", &directory, error))
    }

    pub(super) fn read(&self, id: WorkspaceId) -> Option<Record> {
        let bytes = fs::read(self.directory(id).join(RECORD)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Proven by the record, never guessed from a name.
    pub(super) fn is_of_another(&self, id: WorkspaceId) -> bool {
        self.read(id).is_some_and(|record| record.instance != self.instance)
    }

    /// Takes over the files of boxes that were copied from a home of these instances. Leaves their
    /// containers alone and returns a description of each.
    pub(super) fn disown(&self, former: &[String]) -> Vec<String> {
        let mut unclaimed = Vec::new();
        for entry in fs::read_dir(self.boxes()).into_iter().flatten().flatten() {
            let id: Option<WorkspaceId> = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let copied =
                id.and_then(|id| Some((id, self.read(id).filter(|record| former.contains(&record.instance))?)));
            let Some((id, record)) = copied else { continue };
            unclaimed.push(format!("container {} of instance {}", record.container, record.instance));
            let fresh = Record::new(self.instance.clone(), self.container(id), record.image, record.first_uid);
            let own = Record { warm: record.warm, layered: record.layered, held: record.held, ..fresh };
            // A socket that was copied leads nowhere.
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

    /// Nobody calls for the box any more.
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

    /// Podman's ids of the image with this digest, as boxes of this server's have it.
    pub(super) fn ids_of(&self, digest: &str) -> Result<Vec<String>, ProviderError> {
        let records = self.list()?.into_iter().filter_map(|id| self.read(id));
        Ok(records.filter(|record| record.image.digest == digest).map(|record| record.image.id).collect())
    }

    /// Where a workspace's snapshot is kept: with the box, and so gone with it.
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
            // What a diff compares with is there, too.
            found.extend(stem.and_then(|stem| stem.parse::<SnapshotId>().ok()));
        }
        Ok(found)
    }

    /// A snapshot of any box of this server's.
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

/// Waits until the disk has a file, or the entries of a directory.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

pub(super) fn host(doing: &'static str, path: &Path, source: io::Error) -> ProviderError {
    BoxError::Host { doing, path: path.to_owned(), source }.into()
}
