//! The helper that waits for the next box, with a volume like the last one's.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stead_box::{BoxSpec, ImageShape, Preparation, Spare};

/// Of the image; `None` for a box that has none, and whose volume takes no time to make.
type Shape = Option<ImageShape>;

/// The box that was just started has the machine first.
const AFTER: Duration = Duration::from_millis(10);

pub(super) struct Spares {
    init: PathBuf,
    directory: PathBuf,
    kept: Mutex<Kept>,
    made: AtomicU64,
}

enum Kept {
    None,
    /// One is being made.
    Coming,
    Waiting(Shape, Spare),
    /// The server ends: no more are made.
    Retired,
}

impl Spares {
    /// Below a directory that no other server uses.
    pub(super) fn new(init: PathBuf, directory: PathBuf) -> Arc<Self> {
        stead_box::remove_spares(&directory);
        Arc::new(Self { init, directory, kept: Mutex::new(Kept::None), made: AtomicU64::default() })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Replaced as a whole: a panic elsewhere leaves it whole.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that waits, if it is one for such a box.
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

    /// Has one waiting for the next box like this, soon. A box that is needed earlier is started without.
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
            // To let go of one is to wait for its end.
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

    /// Ends the one that waits, and makes no more.
    pub(super) fn retire(&self) {
        let last = std::mem::replace(&mut *self.kept(), Kept::Retired);
        drop(last);
    }
}
