//! Mounts and unmounts the files of a box that a container runtime builds.

use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};

use super::builder::{Builder, Work};
use crate::build::{ON_THE_HOST, Report, TreeOrder};
use crate::cgroup::Held;
use crate::error::{At, BoxError};

/// Runs `stead-init tree` to assemble and mount a box's files. Needs root. Returns the limits of
/// the volume that hold.
pub fn lay_tree(init: &Path, order: &TreeOrder) -> Result<Held, BoxError> {
    let mut builder = Builder::spawn(init, Work::Tree)?;
    let said = builder.ask(order).at("describe", &order.spec.directory);
    let status = builder.end().at("wait for the helper of", &order.spec.directory)?;
    match said? {
        Ok(Report::Ready(held)) => Ok(held),
        Ok(Report::Refused(refused)) => Err(refused.into()),
        Err(said) => Err(BoxError::InitFailed { status: status.to_string(), said }),
    }
}

/// Unmounts a box's files from the host. Written files stay in the volume.
pub fn take_off_tree(directory: &Path) -> Result<(), BoxError> {
    let target = directory.join(ON_THE_HOST);
    loop {
        match unmount(&target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT | rustix::io::Errno::PERM) => return Ok(()),
            done => done.at("unmount", &target)?,
        }
    }
}
