//! Filling a workspace from outside.
//!
//! Mounts and bundles are read and judged on the host, into a directory of the server's own that no box can see, and then sent into the
//! box as one tar.

use std::fs::File;

use stead_box::protocol::FileAsk;
use stead_core::config::HostMount;
use stead_core::event::StepReport;
use stead_fs::archive::{self, ArchiveError};
use stead_fs::{DiskFs, WorkspacePath};

use super::home::BoxHome;
use crate::error::ProviderError;
use crate::fill;
use crate::layers::TreeSource;

pub(super) fn mounts(
    home: &dyn BoxHome,
    mounts: Vec<HostMount>,
    roots: &[String],
) -> Result<StepReport, ProviderError> {
    filled(home, |files| fill::mounts(files, mounts, roots, 0))
}

pub(super) fn bundle(home: &dyn BoxHome, bundle: File, digest: Option<String>) -> Result<StepReport, ProviderError> {
    filled(home, |files| fill::bundle(files, bundle, digest, 0))
}

/// Puts a whole tree at the root.
pub(super) fn tree(home: &dyn BoxHome, source: TreeSource) -> Result<StepReport, ProviderError> {
    let scratch = home.scratch().directory().map_err(spool)?;
    (source.write)(scratch.path())?;
    send(home, &DiskFs::open(scratch.path()).map_err(spool)?)?;
    Ok(StepReport::default())
}

fn filled(
    home: &dyn BoxHome,
    fill: impl FnOnce(&mut DiskFs) -> Result<StepReport, ProviderError>,
) -> Result<StepReport, ProviderError> {
    let scratch = home.scratch().directory().map_err(spool)?;
    let mut files = DiskFs::open(scratch.path()).map_err(spool)?;
    let report = fill(&mut files)?;
    send(home, &files)?;
    Ok(report)
}

fn send(home: &dyn BoxHome, files: &DiskFs) -> Result<(), ProviderError> {
    let mut tar = home.scratch().file().map_err(spool)?;
    archive::export_tar(files, &WorkspacePath::root(), &mut tar).map_err(|source| ProviderError::Bundle { source })?;
    home.connect()?.files(FileAsk::Unpack { path: String::new() }, Some(&tar))?;
    Ok(())
}

fn spool(source: std::io::Error) -> ProviderError {
    ProviderError::Bundle { source: ArchiveError::Io(source) }
}
