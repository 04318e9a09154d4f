//! Mounts and unmounts the files of a box that a container runtime builds.

use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};

use super::builder::{Builder, Work};
use crate::build::{ContainerMountOrder, HOST_MOUNTS, Report};
use crate::cgroup::Held;
use crate::error::{At, BoxError};

/// Runs `stead-init tree` to assemble and mount a box's files. Needs root. Returns the limits of
/// the volume that hold.
pub fn mount_container_files(init: &Path, order: &ContainerMountOrder) -> Result<Held, BoxError> {
    let mut builder = Builder::spawn(init, Work::Tree)?;
    let report = builder.request(order).at("describe", &order.spec.directory);
    let status = builder.end().at("wait for the helper of", &order.spec.directory)?;
    match report? {
        Ok(Report::Ready(held)) => Ok(held),
        Ok(Report::Refused(refused)) => Err(refused.into()),
        Err(output) => Err(BoxError::InitFailed { status: status.to_string(), output }),
    }
}

/// Unmounts a box's files from the host. Written files stay in the volume.
pub fn unmount_container_files(directory: &Path) -> Result<(), BoxError> {
    let target = directory.join(HOST_MOUNTS);
    loop {
        match unmount(&target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT | rustix::io::Errno::PERM) => return Ok(()),
            done => done.at("unmount", &target)?,
        }
    }
}
