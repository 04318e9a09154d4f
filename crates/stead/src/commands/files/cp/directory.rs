//! Copies whole directories as tars. Files from a workspace are untrusted: they are unpacked below
//! the target only, and all or nothing.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::Path;

use stead_api::file::Placed;
use stead_fs::archive::{self, ArchiveFormat, ArchiveLimits, LinkTargets};
use stead_fs::{DiskFs, WorkspacePath};

use super::location;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::progress::Progress;

pub(super) fn send(out: &Output, client: &Client, local: &Path, session: &str, path: &str) -> Result<Placed, Failure> {
    let unreadable =
        |error: &dyn std::error::Error| Failure::new(format!("cannot read {}", local.display())).because(error);
    let tree = DiskFs::open(local).map_err(|error| unreadable(&error))?;
    let mut spool = spool()?;
    let packing = Progress::working(out, &format!("packing {}", local.display()));
    let packed = archive::export_tar(&tree, &WorkspacePath::root(), &mut spool);
    packing.end();
    packed.map_err(|error| unreadable(&error))?;
    spool.rewind().map_err(|error| unreadable(&error))?;
    let length = spool.metadata().ok().map(|metadata| metadata.len());
    let mut content = Progress::bytes(out, &format!("sending {}", local.display()), length).of(spool);
    Ok(client.upload("PUT", &format!("{}?format=tar", location::files(session, path)), &mut content)?)
}

pub(super) fn fetch(out: &Output, client: &Client, session: &str, path: &str, local: &Path) -> Result<(), Failure> {
    let unwritable =
        |error: &dyn std::error::Error| Failure::new(format!("cannot write {}", local.display())).because(error);
    let download = client.download(&format!("{}?format=tar", location::files(session, path)))?;
    let mut spool = spool()?;
    let receiving = Progress::bytes(out, &format!("receiving {path}"), download.length);
    io::copy(&mut receiving.of(download.reader), &mut spool).map_err(|error| unwritable(&error))?;
    std::fs::create_dir_all(local).map_err(|error| unwritable(&error))?;
    let mut tree = DiskFs::open(local).map_err(|error| unwritable(&error))?;
    let limits = ArchiveLimits { link_targets: LinkTargets::AlwaysInside, ..ArchiveLimits::default() };
    let root = WorkspacePath::root();
    let unpacked = archive::unpack(&mut spool, ArchiveFormat::Tar, None, &limits, &mut tree, &root, 0);
    unpacked.map(|_| ()).map_err(|error| unwritable(&error).hint("copy into a new directory; nothing was written"))
}

fn spool() -> Result<File, Failure> {
    tempfile::tempfile().map_err(|error| Failure::new("cannot make a temporary file").because(&error))
}
