//! Removes a box: its processes, its control groups, its directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::launch::kill;
use super::sweep;
use crate::cgroup;
use crate::error::{At, BoxError};
use crate::record::OwnerRecord;
use crate::sys::loop_device;

/// Maximum time for the kernel to release mounts and devices after the last process.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Removes everything that belongs to the box in this directory, or a volume without a box.
/// Removing a missing box succeeds, as does removing it twice or after a crash at any point. The
/// caller releases its uid range afterwards.
pub fn remove(directory: &Path) -> Result<(), BoxError> {
    end(directory)?;
    wait_for_device(directory, Instant::now() + PATIENCE)?;
    sweep::remove_tree(directory).at("remove", directory)
}

/// Removes every part of the box except the files in its directory.
pub(super) fn end(directory: &Path) -> Result<(), BoxError> {
    match OwnerRecord::read(directory).at("read the record in", directory)? {
        Some(record) => end_recorded(directory, &record),
        None => Ok(()),
    }
}

/// Does the same for a record whose file may be gone.
pub(crate) fn end_recorded(directory: &Path, record: &OwnerRecord) -> Result<(), BoxError> {
    let deadline = Instant::now() + PATIENCE;
    for group in &record.cgroups {
        let left = cgroup::remove(group, deadline).at("remove", group)?;
        if left > 0 {
            let what = format!("{left} processes in {}", group.display());
            return Err(BoxError::Undead { what, seconds: PATIENCE.as_secs() });
        }
    }
    // Without control groups this kills the box's processes. With them init is already dead, and
    // this only waits for it.
    kill(directory, record)
}

/// Waits until the kernel has released the image's device, which it does with the box's last mount.
/// Removing the image before that would keep its space in use.
pub(super) fn wait_for_device(directory: &Path, deadline: Instant) -> Result<(), BoxError> {
    let Some(device) = loop_device::hint(directory) else { return Ok(()) };
    let backing = PathBuf::from(format!("/sys/block/loop{device}/loop/backing_file"));
    let image = directory.join("volume.img");
    let image = fs::canonicalize(&image).unwrap_or(image);
    let mut pause = Duration::from_micros(200);
    loop {
        match fs::read_to_string(&backing) {
            Ok(file) if Path::new(file.trim_end()) == image => {}
            Ok(_) => return Ok(()), // bound to another file now
            Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENXIO) => {
                loop_device::retire(device);
                return Ok(());
            }
            Err(error) => return Err(error).at("read", &backing),
        }
        if Instant::now() > deadline {
            let what = format!("a mount of {}", image.display());
            return Err(BoxError::Undead { what, seconds: PATIENCE.as_secs() });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
