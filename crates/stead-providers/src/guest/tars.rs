//! Trees as tars, for a box whose tree cannot be made of layers.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use stead_box::BoxError;
use stead_box::protocol::{Answer, FileAsk, ProtocolError};
use stead_core::SnapshotId;
use stead_core::event::StepReport;
use stead_fs::archive::{self, ArchiveError};
use stead_fs::patch::{Options, Patch};
use stead_fs::{DiskFs, WorkspacePath};

use super::guest_box::{Fill, GuestBox};
use crate::contract::error::ProviderError;
use crate::overlay::layer_store::{Layer, LayerDraft, LayerKey, LayerSlot};

/// The name of the tree that a diff compares with.
const BASE: &str = "base";
/// Maximum number of bytes that a box may write into a file of the server.
const MOST_BYTES: u64 = 64 << 30;

/// A box whose trees the server keeps as tars.
pub(crate) trait TarStore: GuestBox {
    /// Keeps what the box writes into the given file under this name, completely or not at all.
    fn keep(&self, name: &str, write: &mut dyn FnMut(&File) -> Result<(), BoxError>) -> Result<(), BoxError>;

    /// Opens the tar that this box kept under the name.
    fn kept(&self, name: &str) -> io::Result<File>;

    /// Finds a snapshot of any box of this provider.
    fn find_snapshot(&self, snapshot: SnapshotId) -> io::Result<Option<File>>;
}

/// Creates a directory for a tree that is then sent into the box.
pub(crate) fn draft(guest_box: &dyn GuestBox, key: LayerKey) -> Result<LayerSlot, ProviderError> {
    let directory = guest_box.scratch().directory().map_err(spool)?;
    Ok(LayerSlot::Empty(LayerDraft::scratch(key, directory)))
}

pub(crate) fn lay(guest_box: &dyn GuestBox, layer: &Layer) -> Result<(), ProviderError> {
    send(guest_box, &DiskFs::open(&layer.tree).map_err(spool)?)
}

pub(crate) fn fill(guest_box: &dyn GuestBox, fill: Fill<'_>) -> Result<StepReport, ProviderError> {
    let scratch = guest_box.scratch().directory().map_err(spool)?;
    let mut files = DiskFs::open(scratch.path()).map_err(spool)?;
    let report = fill(&mut files)?;
    send(guest_box, &files)?;
    Ok(report)
}

/// Sends a tree into the box. Only adds files.
pub(crate) fn send(guest_box: &dyn GuestBox, files: &DiskFs) -> Result<(), ProviderError> {
    let mut tar = guest_box.scratch().file().map_err(spool)?;
    archive::export_tar(files, &WorkspacePath::root(), &mut tar).map_err(|source| ProviderError::Bundle { source })?;
    guest_box.connect()?.files(FileAsk::Unpack { path: String::new() }, Some(&tar))?;
    Ok(())
}

/// Keeps the tree as the base of [`compare`].
pub(crate) fn begin(guest_box: &dyn TarStore) -> Result<(), BoxError> {
    keep(guest_box, BASE)
}

/// Keeps the whole workspace under a name.
pub(crate) fn keep(guest_box: &dyn TarStore, name: &str) -> Result<(), BoxError> {
    let ask = || FileAsk::Export { path: String::new(), most_bytes: MOST_BYTES };
    guest_box.keep(name, &mut |file| guest_box.connect()?.files(ask(), Some(file)).map(drop))
}

pub(crate) fn restore(guest_box: &dyn TarStore, snapshot: SnapshotId) -> Result<bool, BoxError> {
    match guest_box.find_snapshot(snapshot).map_err(BoxError::Lost)? {
        Some(file) => guest_box.connect()?.files(FileAsk::Restore, Some(&file)).map(|_| true),
        None => Ok(false),
    }
}

pub(crate) fn compare(guest_box: &dyn TarStore, options: Options) -> Result<Patch, BoxError> {
    let base = guest_box.kept(BASE).map_err(BoxError::Lost)?;
    patch_of(guest_box.connect()?.files(FileAsk::Diff { options: in_frame(options) }, Some(&base))?)
}

/// Limits a patch that is sent in one frame of 8 MiB, together with the lists of paths.
pub(crate) fn in_frame(options: Options) -> Options {
    Options { most_bytes: options.most_bytes.min(5 << 20), ..options }
}

/// Reads a patch that a box has written.
pub(crate) fn read_patch(mut file: &File, most_bytes: u64) -> Result<Patch, BoxError> {
    file.rewind().map_err(BoxError::Lost)?;
    let mut body = Vec::new();
    file.take(most_bytes).read_to_end(&mut body).map_err(BoxError::Lost)?;
    Ok(serde_json::from_slice(&body).map_err(|_| ProtocolError::Unexpected { what: "to a comparison" })?)
}

/// Reads the patch from a box's answer.
pub(crate) fn patch_of((answer, body): (Answer, Vec<u8>)) -> Result<Patch, BoxError> {
    let nonsense = || ProtocolError::Unexpected { what: "to a comparison" };
    let Answer::Patch = answer else { return Err(nonsense().into()) };
    Ok(serde_json::from_slice(&body).map_err(|_| nonsense())?)
}

fn spool(source: std::io::Error) -> ProviderError {
    ProviderError::Bundle { source: ArchiveError::Io(source) }
}
