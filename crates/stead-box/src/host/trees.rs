//! The files of a box that a container runtime builds: put in place, and taken off again.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::mount::{UnmountFlags, unmount};

use super::launch::ask;
use crate::build::{ON_THE_HOST, Report, TreeOrder};
use crate::cgroup::Held;
use crate::error::{At, BoxError};

/// Has `stead-init` put a box's files together and where they belong. Needs root. Says what holds of the volume.
pub fn lay_tree(init: &Path, order: &TreeOrder) -> Result<Held, BoxError> {
    let mut child = Command::new(init)
        .arg("tree")
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| BoxError::NoInit { program: init.to_owned(), source })?;
    let said = ask(&mut child, order).at("describe", &order.spec.directory);
    let _ = child.kill();
    let status = child.wait().at("wait for", init)?;
    match said? {
        Ok(Report::Ready(held)) => Ok(held),
        Ok(Report::Refused(refused)) => Err(refused.into()),
        Err(said) => Err(BoxError::InitFailed { status: status.to_string(), said }),
    }
}

/// Takes a box's files off the host again, whatever is mounted there; what was written stays in the volume.
pub fn take_off_tree(directory: &Path) -> Result<(), BoxError> {
    let target = directory.join(ON_THE_HOST);
    loop {
        match unmount(&target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT | rustix::io::Errno::PERM) => return Ok(()),
            done => done.at("unmount", &target)?,
        }
    }
}
