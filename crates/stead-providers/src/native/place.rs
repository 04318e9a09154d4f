//! Where the boxes of one server are, and how each comes to be and to go.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use stead_box::{BoxError, BoxSpec, Ids, Limits, OwnerRecord, RunningBox, UidRanges, Volume};
use stead_core::command::CreateOrder;
use stead_core::{SnapshotId, WorkspaceId};

use crate::boxed::Scratch;
use crate::error::ProviderError;

/// What a server tells its native provider.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// Everything is kept below it; only the server's user may read it.
    pub home: PathBuf,
    /// Which server this is: letters, digits, `_` and `-`. Boxes of another are never touched.
    pub instance: String,
    /// The `stead-init` program.
    pub init: PathBuf,
}

/// A box that runs, and whether it did before.
pub(super) enum Taken {
    Found(RunningBox),
    Started(RunningBox),
}

pub(super) struct Place {
    config: NativeConfig,
    ranges: UidRanges,
    scratch: Scratch,
    root: bool,
}

impl Place {
    pub(super) fn new(config: NativeConfig) -> Self {
        let ranges = UidRanges::new(config.home.join("uids"));
        let scratch = Scratch::new(config.home.join("spool"));
        Self { config, ranges, scratch, root: stead_box::runs_as_root() }
    }

    /// Whether boxes can be made, as far as that can be told without making one.
    pub(super) fn check(&self) -> Result<(), String> {
        let (init, home) = (&self.config.init, &self.config.home);
        if !init.is_file() {
            return Err(format!(
                "there is no stead-init at {}; build it with cargo build -p stead-box",
                init.display()
            ));
        }
        fs::create_dir_all(self.boxes()).map_err(|error| format!("cannot use {}: {error}", home.display()))
    }

    fn boxes(&self) -> PathBuf {
        self.config.home.join("boxes")
    }

    fn directory(&self, id: WorkspaceId) -> PathBuf {
        self.boxes().join(id.to_string())
    }

    fn spec(&self, order: &CreateOrder, ids: Ids) -> Result<BoxSpec, ProviderError> {
        let base = order.base_image.as_ref().map(PathBuf::from);
        if let Some(base) = base.as_ref().filter(|base| !base.is_absolute()) {
            let reason =
                format!("base_image {:?} is not the absolute path of an unpacked root", base.display().to_string());
            return Err(ProviderError::BaseImage { reason });
        }
        Ok(BoxSpec {
            id: order.workspace.to_string(),
            instance: self.config.instance.clone(),
            directory: self.directory(order.workspace),
            ids,
            base,
            layers: Vec::new(),
            volume: if self.root { Volume::Image } else { Volume::Directory },
            limits: Limits {
                cpu_millis: order.limits.cpu.as_ref().map(stead_core::quantity::Cpu::millis),
                memory_bytes: order.limits.memory.as_ref().map(stead_core::quantity::ByteSize::bytes),
                pids: order.limits.pids,
                disk_bytes: order.limits.disk.as_ref().map(stead_core::quantity::ByteSize::bytes),
                inodes: None,
            },
            env: order.env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        })
    }

    pub(super) fn create(&self, order: &CreateOrder) -> Result<RunningBox, ProviderError> {
        let (boxes, id) = (self.boxes(), order.workspace.to_string());
        fs::create_dir_all(&boxes).map_err(|error| host("make", &boxes, error))?;
        let ids = if self.root { Ids::Range { first: self.ranges.take(&id)? } } else { Ids::Own };
        let made = self.spec(order, ids).and_then(|spec| Ok(stead_box::launch(&self.config.init, &spec)?));
        if made.is_err() {
            self.ranges.give_back(&id)?;
        }
        made
    }

    /// The box that runs, or a new one over the files it left.
    pub(super) fn adopt(&self, order: &CreateOrder) -> Result<Taken, ProviderError> {
        let directory = self.directory(order.workspace);
        match RunningBox::find(&directory) {
            Err(BoxError::Gone { .. }) => {}
            found => return Ok(Taken::Found(found?)),
        }
        // The record may be lost with the host's last seconds; the range was taken before.
        let ids = match self.ranges.of(&order.workspace.to_string()) {
            Some(first) => Ids::Range { first },
            None if self.root => return Err(BoxError::Gone { reason: "its uid range is not known" }.into()),
            None => Ids::Own,
        };
        Ok(Taken::Started(stead_box::restart(&self.config.init, &self.spec(order, ids)?)?))
    }

    pub(super) fn remove(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let directory = self.directory(id);
        if self.is_of_another(&directory) {
            return Ok(());
        }
        stead_box::remove(&directory)?;
        Ok(self.ranges.give_back(&id.to_string())?)
    }

    /// Proven by the record, never guessed from a name.
    fn is_of_another(&self, directory: &Path) -> bool {
        matches!(OwnerRecord::read(directory), Ok(Some(record)) if record.instance != self.config.instance)
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
            found.extend(id.filter(|_| !self.is_of_another(&entry.path())));
        }
        Ok(found)
    }

    pub(super) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Where a workspace's snapshot is kept: with the box, and so gone with it.
    pub(super) fn snapshot(&self, id: WorkspaceId, name: &str) -> io::Result<PathBuf> {
        let directory = self.directory(id).join("snapshots");
        fs::create_dir_all(&directory)?;
        Ok(directory.join(format!("{name}.tar")))
    }

    /// A snapshot of any workspace of this server.
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

fn host(doing: &'static str, path: &Path, source: io::Error) -> ProviderError {
    BoxError::Host { doing, path: path.to_owned(), source }.into()
}
