//! Trees as tars, for a box whose tree cannot be made of layers.

use std::fs::File;
use std::io;

use stead_box::BoxError;
use stead_box::protocol::{Answer, FileAsk, PatchText, ProtocolError};
use stead_core::SnapshotId;
use stead_core::event::StepReport;
use stead_fs::archive::{self, ArchiveError};
use stead_fs::patch::Patch;
use stead_fs::{DiskFs, WorkspacePath};

use super::box_home::{BoxHome, Fill};
use crate::contract::error::ProviderError;
use crate::overlay::layer_store::{Layer, LayerDraft, LayerKey, LayerSlot};

/// The name of the tree that a diff compares with.
const BASE: &str = "base";
/// Maximum number of bytes that a box may write into a file of the server.
const MOST_BYTES: u64 = 64 << 30;

/// A box whose trees the server keeps as tars.
pub(crate) trait TarStore: BoxHome {
    /// Keeps what the box writes into the given file under this name, completely or not at all.
    fn keep(&self, name: &str, write: &mut dyn FnMut(&File) -> Result<(), BoxError>) -> Result<(), BoxError>;

    /// Opens the tar that this box kept under the name.
    fn kept(&self, name: &str) -> io::Result<File>;

    /// Finds a snapshot of any box of this provider.
    fn find_snapshot(&self, snapshot: SnapshotId) -> io::Result<Option<File>>;
}

/// Creates a directory for a tree that is then sent into the box.
pub(crate) fn draft(home: &dyn BoxHome, key: LayerKey) -> Result<LayerSlot, ProviderError> {
    let directory = home.scratch().directory().map_err(spool)?;
    Ok(LayerSlot::Empty(LayerDraft::scratch(key, directory)))
}

pub(crate) fn lay(home: &dyn BoxHome, layer: &Layer) -> Result<(), ProviderError> {
    send(home, &DiskFs::open(&layer.tree).map_err(spool)?)
}

pub(crate) fn fill(home: &dyn BoxHome, fill: Fill<'_>) -> Result<StepReport, ProviderError> {
    let scratch = home.scratch().directory().map_err(spool)?;
    let mut files = DiskFs::open(scratch.path()).map_err(spool)?;
    let report = fill(&mut files)?;
    send(home, &files)?;
    Ok(report)
}

/// Sends a tree into the box. Only adds files.
pub(crate) fn send(home: &dyn BoxHome, files: &DiskFs) -> Result<(), ProviderError> {
    let mut tar = home.scratch().file().map_err(spool)?;
    archive::export_tar(files, &WorkspacePath::root(), &mut tar).map_err(|source| ProviderError::Bundle { source })?;
    home.connect()?.files(FileAsk::Unpack { path: String::new() }, Some(&tar))?;
    Ok(())
}

/// Keeps the tree as the base of [`compare`].
pub(crate) fn begin(home: &dyn TarStore) -> Result<(), BoxError> {
    keep(home, BASE)
}

/// Keeps the whole workspace under a name.
pub(crate) fn keep(home: &dyn TarStore, name: &str) -> Result<(), BoxError> {
    let ask = || FileAsk::Export { path: String::new(), most_bytes: MOST_BYTES };
    home.keep(name, &mut |file| home.connect()?.files(ask(), Some(file)).map(drop))
}

pub(crate) fn restore(home: &dyn TarStore, snapshot: SnapshotId) -> Result<bool, BoxError> {
    match home.find_snapshot(snapshot).map_err(BoxError::Lost)? {
        Some(file) => home.connect()?.files(FileAsk::Restore, Some(&file)).map(|_| true),
        None => Ok(false),
    }
}

pub(crate) fn compare(home: &dyn TarStore) -> Result<Patch, BoxError> {
    let base = home.kept(BASE).map_err(BoxError::Lost)?;
    patch_of(home.connect()?.files(FileAsk::Diff, Some(&base))?)
}

/// Reads the patch from a box's answer.
pub(crate) fn patch_of((answer, body): (Answer, Vec<u8>)) -> Result<Patch, BoxError> {
    let nonsense = || ProtocolError::Unexpected { what: "to a comparison" };
    let Answer::Patch = answer else { return Err(nonsense().into()) };
    let PatchText { text, changed, unshown, contents } = serde_json::from_slice(&body).map_err(|_| nonsense())?;
    Ok(Patch { text, changed, unshown, contents })
}

fn spool(source: std::io::Error) -> ProviderError {
    ProviderError::Bundle { source: ArchiveError::Io(source) }
}
