//! A few processes that have taken the first steps of a box already, so that nobody waits for these.
//!
//! They are made in the background, only where a box was started not long ago, and never while boxes are being started: then the processor is theirs. Whatever a server that was
//! killed left of them goes when the next one starts.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stead_box::{BoxError, BoxSpec, Cradle, CradleSpec, OwnerRecord, RunningBox};

/// How many wait.
const READY: usize = 4;
/// If nobody came for so long they go, and come back after the next start.
const IDLE: Duration = Duration::from_secs(60);

pub(super) struct Cradles {
    directory: PathBuf,
    init: PathBuf,
    instance: String,
    shelf: Mutex<Shelf>,
    changed: Condvar,
}

#[derive(Default)]
struct Shelf {
    ready: Vec<Cradle>,
    /// Boxes that are being started.
    starting: usize,
    last_start: Option<Instant>,
    /// Whether somebody makes them.
    attended: bool,
    retired: bool,
}

impl Cradles {
    /// Removes what an earlier server left in the directory.
    pub(super) fn open(directory: PathBuf, init: PathBuf, instance: String) -> Arc<Self> {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let ours = OwnerRecord::read(&entry.path()).is_ok_and(|record| {
                // Where nothing is recorded nothing was made.
                record.is_none_or(|record| record.instance == instance)
            });
            if ours {
                // What cannot be removed now is tried again at the next start.
                let _ = stead_box::remove(&entry.path());
            }
        }
        Arc::new(Self { directory, init, instance, shelf: Mutex::default(), changed: Condvar::new() })
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // Changed by single pushes, pops and counts: a panic elsewhere leaves it whole.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a box, in a cradle if there is one.
    pub(super) fn start(self: &Arc<Self>, spec: &BoxSpec) -> Result<RunningBox, BoxError> {
        let cradle = {
            let mut shelf = self.shelf();
            shelf.starting += 1;
            shelf.ready.pop()
        };
        let started = match cradle {
            Some(cradle) => stead_box::resume_in(cradle, &self.init, spec),
            None => stead_box::resume(&self.init, spec),
        };
        let mut shelf = self.shelf();
        shelf.starting -= 1;
        shelf.last_start = Some(Instant::now());
        // Without groups of its own there is nothing a cradle could save.
        if !shelf.attended && !shelf.retired && stead_box::runs_as_root() {
            shelf.attended = true;
            let cradles = self.clone();
            // If there is no thread to be had, boxes start without.
            let begun = std::thread::Builder::new().name("cradles".to_owned()).spawn(move || cradles.attend());
            shelf.attended = begun.is_ok();
        }
        drop(shelf);
        self.changed.notify_all();
        started
    }

    /// Makes them, until nobody has come for a while.
    fn attend(&self) {
        let mut shelf = self.shelf();
        loop {
            let idle = shelf.last_start.map_or(IDLE, |last| last.elapsed());
            if shelf.retired || idle >= IDLE {
                break;
            }
            if shelf.starting > 0 || shelf.ready.len() >= READY {
                let waited = self.changed.wait_timeout(shelf, IDLE - idle);
                shelf = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            drop(shelf);
            let made = self.make();
            shelf = self.shelf();
            match made {
                Ok(cradle) => shelf.ready.push(cradle),
                // The next start says what is wrong here, and begins this anew.
                Err(_) => break,
            }
        }
        shelf.attended = false;
        let ready = std::mem::take(&mut shelf.ready);
        drop(shelf);
        drop(ready);
        self.changed.notify_all();
    }

    fn make(&self) -> Result<Cradle, BoxError> {
        // Several providers of one process may share a name.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let id = format!("cradle-{}-{}", std::process::id(), MADE.fetch_add(1, Relaxed));
        let _ = fs::create_dir_all(&self.directory);
        let directory = self.directory.join(&id);
        Cradle::make(&self.init, &CradleSpec { id, instance: self.instance.clone(), directory })
    }

    /// Lets all of them go, and makes no more. Returns when none is left.
    pub(super) fn retire(&self) {
        let mut shelf = self.shelf();
        shelf.retired = true;
        self.changed.notify_all();
        while shelf.attended {
            shelf = self.changed.wait(shelf).unwrap_or_else(PoisonError::into_inner);
        }
        let ready = std::mem::take(&mut shelf.ready);
        drop(shelf);
        drop(ready);
    }
}
