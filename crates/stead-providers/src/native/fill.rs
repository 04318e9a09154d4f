//! Filling a workspace from outside.
//!
//! Mounts and bundles are read and judged on the host, into a directory of the server's own that no box can see, and then sent into the
//! box as one tar.

use std::fs::File;

use stead_box::RunningBox;
use stead_box::protocol::FileAsk;
use stead_core::config::HostMount;
use stead_core::event::StepReport;
use stead_fs::archive::{self, ArchiveError};
use stead_fs::{DiskFs, WorkspacePath};

use super::place::Place;
use crate::error::ProviderError;
use crate::fill;

pub(super) fn mounts(
    place: &Place,
    running: &RunningBox,
    mounts: Vec<HostMount>,
    roots: &[String],
) -> Result<StepReport, ProviderError> {
    filled(place, running, |files| fill::mounts(files, mounts, roots, 0))
}

pub(super) fn bundle(
    place: &Place,
    running: &RunningBox,
    bundle: File,
    digest: Option<String>,
) -> Result<StepReport, ProviderError> {
    filled(place, running, |files| fill::bundle(files, bundle, digest, 0))
}

fn filled(
    place: &Place,
    running: &RunningBox,
    fill: impl FnOnce(&mut DiskFs) -> Result<StepReport, ProviderError>,
) -> Result<StepReport, ProviderError> {
    let scratch = place.scratch_directory().map_err(spool)?;
    let mut files = DiskFs::open(scratch.path()).map_err(spool)?;
    let report = fill(&mut files)?;
    send(place, running, &files)?;
    Ok(report)
}

fn send(place: &Place, running: &RunningBox, files: &DiskFs) -> Result<(), ProviderError> {
    let mut tar = place.scratch_file().map_err(spool)?;
    archive::export_tar(files, &WorkspacePath::root(), &mut tar).map_err(|source| ProviderError::Bundle { source })?;
    running.connect()?.files(FileAsk::Unpack { path: String::new() }, Some(&tar))?;
    Ok(())
}

fn spool(source: std::io::Error) -> ProviderError {
    ProviderError::Bundle { source: ArchiveError::Io(source) }
}
