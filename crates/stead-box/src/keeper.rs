//! `stead-init keep`: ends boxes whose home directory was removed.
//!
//! Boxes outlive the server on purpose, so that a restart finds them again. Removing a home also
//! removes the records, and no later server could find its boxes. The keeper is one process per
//! home, outside of all boxes. It keeps the records in memory. If the directory of a box is gone,
//! it removes the box's processes, and with them its mounts and devices, and its control groups. It
//! exits when the server is gone and no box is left.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use serde::Deserialize;

use crate::error::{At, BoxError};
use crate::host::end_recorded;
use crate::record::{OwnerRecord, ProcessMark};
use crate::spec::Ids;
use crate::sys::signals;

/// Interval between two checks of the keeper.
const EVERY: Duration = Duration::from_secs(1);
/// Number of consecutive checks with a missing directory before the keeper ends the box. A server
/// that removes a box ends it first, so another program must have removed the directory.
const MISSED: u32 = 2;
const LOCK: &str = "keeper.lock";

/// Starts a keeper for the home unless one runs. Call this after starting a box.
pub fn ensure_keeper(init: &Path, home: &Path) -> Result<(), BoxError> {
    match lock(home) {
        Ok(None) => return Ok(()),
        // The lock is free. The keeper takes it itself.
        Ok(Some(free)) => drop(free),
        Err(error) => return Err(error).at("lock a file in", home),
    }
    let spawned = Command::new(init)
        .arg0("stead-init")
        .args([OsStr::new("keep"), home.as_os_str()])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut keeper = spawned.map_err(|source| BoxError::NoInit { program: init.to_owned(), source })?;
    // The pipe stays open as long as this process lives. Its end tells the keeper that the server
    // is gone.
    if let Some(pipe) = keeper.stdin.take() {
        std::mem::forget(pipe);
    }
    std::thread::spawn(move || drop(keeper.wait()));
    Ok(())
}

/// Takes the home's lock; `None` if a keeper holds it.
fn lock(home: &Path) -> io::Result<Option<File>> {
    let file = File::options().write(true).create(true).truncate(false).open(home.join(LOCK))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        locked => Ok(locked.map(|()| Some(file))?),
    }
}

/// Runs the keeper. Returns its exit code.
pub fn keep() -> i32 {
    let Some(home) = std::env::args_os().nth(2).map(PathBuf::from) else { return 64 };
    if signals::close_from(3).is_err() {
        return 2;
    }
    let _ = rustix::process::setsid();
    let Ok(Some(lock)) = lock(&home) else { return 0 };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(home) = openat(CWD, &home, flags, Mode::empty()) else { return 2 };
    Keeper { home, boxes: BTreeMap::new() }.run(lock);
    0
}

/// A box, and the number of checks that missed its directory.
struct Kept {
    record: OwnerRecord,
    missed: u32,
}

struct Keeper {
    /// An open descriptor, so that the keeper still finds a home that was moved.
    home: OwnedFd,
    boxes: BTreeMap<String, Kept>,
}

impl Keeper {
    fn run(mut self, mut lock: File) {
        let mut server = Server::Runs;
        loop {
            self.look();
            if server == Server::Gone && self.boxes.is_empty() {
                // A server that starts a box now either finds the lock free, or has written the
                // record.
                let _ = flock(&lock, FlockOperation::Unlock);
                self.look();
                if self.boxes.is_empty() {
                    return;
                }
                match self::lock(&self.path("")) {
                    Ok(Some(again)) => lock = again,
                    _ => return,
                }
            }
            server = server.wait();
        }
    }

    fn path(&self, below: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{below}", self.home.as_raw_fd()))
    }

    /// Reads the records, forgets boxes that are gone, and ends those whose directory is gone.
    fn look(&mut self) {
        for entry in fs::read_dir(self.path("boxes")).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if let Some(record) = read(&name, &entry.path()) {
                self.boxes.insert(name, Kept { record, missed: 0 });
            }
        }
        let boxes = self.path("boxes");
        self.boxes.retain(|name, kept| {
            let there = boxes.join(name).exists();
            kept.missed = if there { 0 } else { kept.missed + 1 };
            if kept.missed >= MISSED {
                // On an error the record stays, and the next check tries again.
                let _ = end_recorded(&boxes.join(name), &kept.record);
            }
            kept.record.remains().is_some()
        });
    }
}

/// The part of a Podman box's record that the keeper needs.
#[derive(Deserialize)]
struct ContainerRecord {
    mark: Option<ProcessMark>,
}

/// Reads the record of a box, or of a container that runs on this host.
pub(crate) fn read(name: &str, directory: &Path) -> Option<OwnerRecord> {
    if let Some(record) = OwnerRecord::read(directory).ok().flatten() {
        return Some(record);
    }
    let ContainerRecord { mark } = serde_json::from_slice(&fs::read(directory.join("podman.json")).ok()?).ok()?;
    let record = OwnerRecord::new(name, "", Ids::Own);
    mark.map(|mark| OwnerRecord { init: Some(mark), ..record })
}

/// The state of the server that started the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Runs,
    Gone,
}

impl Server {
    /// Waits for the next check, or for the end of the server.
    fn wait(self) -> Self {
        if self == Self::Gone {
            std::thread::sleep(EVERY);
            return self;
        }
        let input = io::stdin();
        let timeout = Timespec { tv_sec: EVERY.as_secs().cast_signed(), tv_nsec: EVERY.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&timeout)) {
            Ok(1..) if !matches!(io::stdin().read(&mut [0]), Ok(1..)) => Self::Gone,
            _ => Self::Runs,
        }
    }
}
