//! Trees as tars: for a box whose tree cannot be made of layers.

use stead_box::BoxError;
use stead_box::protocol::{Answer, FileAsk, PatchText, ProtocolError};
use stead_core::SnapshotId;
use stead_core::event::StepReport;
use stead_fs::archive::{self, ArchiveError};
use stead_fs::patch::Patch;
use stead_fs::{DiskFs, WorkspacePath};

use super::home::{BoxHome, Fill};
use crate::error::ProviderError;
use crate::layers::{Note, TreeSource};

/// The name of what a diff compares with.
pub(super) const BASE: &str = "base";
/// What a box may write into a file of the server's.
const MOST_BYTES: u64 = 64 << 30;

pub(super) fn lay<H: BoxHome + ?Sized>(home: &H, source: TreeSource) -> Result<Note, ProviderError> {
    let scratch = home.scratch().directory().map_err(spool)?;
    let note = (source.write)(scratch.path())?;
    send(home, &DiskFs::open(scratch.path()).map_err(spool)?)?;
    Ok(note)
}

pub(super) fn fill<H: BoxHome + ?Sized>(home: &H, fill: Fill<'_>) -> Result<StepReport, ProviderError> {
    let scratch = home.scratch().directory().map_err(spool)?;
    let mut files = DiskFs::open(scratch.path()).map_err(spool)?;
    let report = fill(&mut files)?;
    send(home, &files)?;
    Ok(report)
}

/// Sends a tree into the box. Only adds.
pub(crate) fn send<H: BoxHome + ?Sized>(home: &H, files: &DiskFs) -> Result<(), ProviderError> {
    let mut tar = home.scratch().file().map_err(spool)?;
    archive::export_tar(files, &WorkspacePath::root(), &mut tar).map_err(|source| ProviderError::Bundle { source })?;
    home.connect()?.files(FileAsk::Unpack { path: String::new() }, Some(&tar))?;
    Ok(())
}

/// Keeps the whole workspace under a name.
pub(super) fn keep<H: BoxHome + ?Sized>(home: &H, name: &str) -> Result<(), BoxError> {
    let ask = || FileAsk::Export { path: String::new(), most_bytes: MOST_BYTES };
    home.keep(name, &mut |file| home.connect()?.files(ask(), Some(file)).map(drop))
}

pub(super) fn put_back<H: BoxHome + ?Sized>(home: &H, snapshot: SnapshotId) -> Result<bool, BoxError> {
    match home.find_snapshot(snapshot).map_err(BoxError::Lost)? {
        Some(file) => home.connect()?.files(FileAsk::Restore, Some(&file)).map(|_| true),
        None => Ok(false),
    }
}

pub(super) fn compare<H: BoxHome + ?Sized>(home: &H) -> Result<Patch, BoxError> {
    let base = home.kept(BASE).map_err(BoxError::Lost)?;
    patch_of(home.connect()?.files(FileAsk::Diff, Some(&base))?)
}

/// The patch a box answered with.
pub(crate) fn patch_of((answer, body): (Answer, Vec<u8>)) -> Result<Patch, BoxError> {
    let nonsense = || ProtocolError::Unexpected { what: "to a comparison" };
    let Answer::Patch = answer else { return Err(nonsense().into()) };
    let PatchText { text, changed, unshown, contents } = serde_json::from_slice(&body).map_err(|_| nonsense())?;
    Ok(Patch { text, changed, unshown, contents })
}

fn spool(source: std::io::Error) -> ProviderError {
    ProviderError::Bundle { source: ArchiveError::Io(source) }
}
