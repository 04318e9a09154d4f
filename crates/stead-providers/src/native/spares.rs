//! A spare: a helper process that waits for the next box, with a volume like that of the last one.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stead_box::{BoxSpec, ImageShape, Preparation, Spare};

/// The shape of the volume's disk image; `None` for a box without one, whose volume is made
/// instantly.
type Shape = Option<ImageShape>;

/// Delay before making a spare, so that the box that just started has the CPU first.
const AFTER: Duration = Duration::from_millis(10);

pub(super) struct Spares {
    init: PathBuf,
    directory: PathBuf,
    kept: Mutex<Kept>,
    made: AtomicU64,
}

enum Kept {
    None,
    /// A spare is being made.
    Coming,
    Waiting(Shape, Spare),
    /// The server is stopping: no more spares are made.
    Retired,
}

impl Spares {
    /// `directory` must belong to this server alone.
    pub(super) fn new(init: PathBuf, directory: PathBuf) -> Arc<Self> {
        stead_box::remove_spares(&directory);
        Arc::new(Self { init, directory, kept: Mutex::new(Kept::None), made: AtomicU64::default() })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // The value is replaced as a whole, so a panic cannot leave it inconsistent.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the waiting spare if it fits this box.
    pub(super) fn take(&self, spec: &BoxSpec) -> Option<Spare> {
        let mut kept = self.kept();
        if !matches!(&*kept, Kept::Waiting(shape, _) if *shape == spec.image_shape()) {
            return None;
        }
        match std::mem::replace(&mut *kept, Kept::None) {
            Kept::Waiting(_, spare) => Some(spare),
            Kept::None | Kept::Coming | Kept::Retired => None,
        }
    }

    /// Makes a spare for the next box like this one, in the background. A box that starts earlier
    /// goes without.
    pub(super) fn refill(self: &Arc<Self>, spec: &BoxSpec) {
        let shape = spec.image_shape();
        let mut kept = self.kept();
        let wanted = match &*kept {
            Kept::None => true,
            Kept::Waiting(waiting, _) => *waiting != shape,
            Kept::Coming | Kept::Retired => false,
        };
        if !wanted {
            return;
        }
        if DirBuilder::new().recursive(true).mode(0o700).create(&self.directory).is_err() {
            return;
        }
        let unfit = std::mem::replace(&mut *kept, Kept::Coming);
        let spares = self.clone();
        let make = move || {
            // Dropping a spare waits for its process to end, so do it on this thread.
            drop(unfit);
            std::thread::sleep(AFTER);
            spares.arrive(spares.make(shape.clone()).map_or(Kept::None, |spare| Kept::Waiting(shape, spare)));
        };
        if std::thread::Builder::new().name("spare".to_owned()).spawn(make).is_err() {
            *kept = Kept::None;
        }
    }

    fn make(&self, shape: Shape) -> Option<Spare> {
        let volume = shape.map(|shape| Preparation {
            directory: self.directory.join(self.made.fetch_add(1, Relaxed).to_string()),
            shape,
        });
        Spare::prepare(&self.init, volume.as_ref()).ok()
    }

    fn arrive(&self, made: Kept) {
        let mut kept = self.kept();
        if matches!(&*kept, Kept::Coming) {
            *kept = made;
        }
    }

    /// Ends the waiting spare and makes no more.
    pub(super) fn retire(&self) {
        let last = std::mem::replace(&mut *self.kept(), Kept::Retired);
        drop(last);
    }
}
