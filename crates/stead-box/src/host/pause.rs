//! Stops, freezes and thaws a box. Its files stay.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::remove::{PATIENCE, end, wait_for_device};
use crate::cgroup;
use crate::error::{At, BoxError};
use crate::record::OwnerRecord;

/// Version 2 of control groups: `1` stops every process of the group and of the groups below.
const FREEZE: &str = "cgroup.freeze";
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Time in which the kernel releases the volume of a box that no other box has mounted.
const RELEASE: Duration = Duration::from_secs(2);

/// Kills every process of a box, frozen or not, and waits until the kernel has released its volume.
/// Its files stay. Stopping a box that does not run succeeds.
///
/// The box of a clone may have the same volume mounted and keep it. The box is stopped
/// nevertheless.
pub fn stop(directory: &Path, volume_directory: &Path) -> Result<(), BoxError> {
    end(directory)?;
    match wait_for_device(volume_directory, Instant::now() + RELEASE) {
        Ok(()) | Err(BoxError::Undead { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns true if boxes of this user can be frozen on this host.
pub fn can_freeze() -> bool {
    cgroup::has_unified()
}

/// Freezes every process of a box. Returns when all of them have stopped. Idempotent.
pub fn freeze(directory: &Path) -> Result<(), BoxError> {
    set(directory, Frozen::Yes)
}

/// Lets the processes of a frozen box run again. No-op for a box that is not frozen.
pub fn thaw(directory: &Path) -> Result<(), BoxError> {
    set(directory, Frozen::No)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Frozen {
    Yes,
    No,
}

fn set(directory: &Path, frozen: Frozen) -> Result<(), BoxError> {
    let gone = || BoxError::Gone { reason: "there is no record of it" };
    let record = OwnerRecord::read(directory).at("read the record in", directory)?.ok_or_else(gone)?;
    let Some(group) = record.cgroups.iter().find(|group| group.join(FREEZE).exists()) else {
        return Err(BoxError::Gone { reason: "it has no control group that can be frozen" });
    };
    let (value, wanted) = match frozen {
        Frozen::Yes => ("1", "frozen 1"),
        Frozen::No => ("0", "frozen 0"),
    };
    fs::write(group.join(FREEZE), value).at("freeze", group)?;
    let deadline = Instant::now() + PATIENCE;
    while !reports(group, wanted).at("read the state of", group)? {
        if Instant::now() > deadline {
            // Leave nothing half frozen.
            let _ = fs::write(group.join(FREEZE), "0");
            let what = format!("the freezing of {}", group.display());
            return Err(BoxError::Undead { what, seconds: PATIENCE.as_secs() });
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

fn reports(group: &Path, wanted: &str) -> io::Result<bool> {
    let events: PathBuf = group.join("cgroup.events");
    Ok(fs::read_to_string(events)?.lines().any(|line| line == wanted))
}
