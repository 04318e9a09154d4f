//! Reads the clocks and generates ids. No other module does.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use stead_core::clock_history::{BootTime, ClockHistory, Reading};
use stead_core::{Session, Timestamp};

/// Grace period in seconds after a start whose clock cannot be compared with the last run's. No
/// session of that run is closed for its age during it. A machine often starts with a wrong clock
/// and corrects it soon after.
const GRACE_SECONDS: u64 = 600;

/// The wall clock.
pub(crate) fn now() -> Timestamp {
    read().wall
}

/// New bits for an id: a UUIDv7, so that ids sort by creation time.
pub(crate) fn id_bits() -> u128 {
    uuid::Uuid::now_v7().as_u128()
}

fn read() -> Reading {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wall = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    let boot = clock_gettime(ClockId::Boottime);
    let boot = boot.tv_sec.saturating_mul(1000).saturating_add(boot.tv_nsec / 1_000_000);
    stepped(Reading { wall: Timestamp::from_millis(wall), boot: BootTime::from_millis(boot) })
}

fn boot_id() -> String {
    let real = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    test_clock().and_then(|test| test.boot_id).unwrap_or(real).trim().to_owned()
}

/// The changes that a test makes to the clocks of its server, read from the file that
/// `STEAD_TEST_CLOCK` names.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct TestClock {
    wall_ms: i64,
    boot_ms: i64,
    /// If set, the wall clock always shows this time.
    frozen_at_ms: Option<i64>,
    boot_id: Option<String>,
}

/// `None` without the `failpoints` feature, which no released server has.
fn test_clock() -> Option<TestClock> {
    #[cfg(feature = "failpoints")]
    {
        let file = std::env::var_os("STEAD_TEST_CLOCK")?;
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }
    #[cfg(not(feature = "failpoints"))]
    None
}

fn stepped(real: Reading) -> Reading {
    let Some(test) = test_clock() else { return real };
    let wall = test.frozen_at_ms.unwrap_or_else(|| real.wall.millis().saturating_add(test.wall_ms));
    let boot = real.boot.millis().saturating_add(test.boot_ms);
    Reading { wall: Timestamp::from_millis(wall), boot: BootTime::from_millis(boot) }
}

/// The server's view of both clocks.
pub(crate) struct Clock {
    history: Mutex<ClockHistory>,
    /// The file that keeps the history across restarts of the server.
    file: Option<PathBuf>,
    /// Sessions of an earlier run are not closed for their age before this time.
    grace_until: Option<BootTime>,
}

impl Clock {
    /// Continues the history in the file if it belongs to this boot.
    pub(crate) fn start(file: Option<PathBuf>) -> Self {
        let (boot_id, now) = (boot_id(), read());
        let known = file.as_deref().and_then(|file| read_history(file).ok());
        let (history, grace_until) = match known.filter(|known| known.is_of_boot(&boot_id)) {
            Some(history) => (history, None),
            None => (ClockHistory::begin(&boot_id, now), Some(now.boot.plus_seconds(GRACE_SECONDS))),
        };
        let clock = Self { history: Mutex::new(history), file, grace_until };
        clock.observe();
        clock.keep();
        clock
    }

    /// Reads the clocks and records a step of the wall clock.
    pub(crate) fn observe(&self) -> BootTime {
        let now = read();
        let step = self.history().observe(now);
        if let Some(step_ms) = step {
            let in_grace = self.grace_until.is_some_and(|until| now.boot < until);
            tracing::warn!(step_ms, "the wall clock was set; the age of sessions goes by the boot clock");
            if in_grace {
                // The clock was wrong at this start, so its times of earlier runs were wrong too.
                self.history().correct(now);
            }
            self.keep();
        }
        now.boot
    }

    /// The latest `due_at` that can be due now.
    pub(crate) fn latest_wall(&self, now: BootTime) -> Timestamp {
        self.history().latest_wall(now)
    }

    /// The times of a session from an earlier run of the server.
    pub(crate) fn of_earlier_run(&self, session: &Session) -> Times {
        let now = self.observe();
        match self.grace_until {
            None => {
                let active = self.history().boot_time(session.active_at, now);
                let began = session.lifetime_began();
                let began = (began, Some(self.history().boot_time(began, now)));
                Times { began, active: (session.active_at, active), not_before: None }
            }
            // The clocks do not show how long the server was down, so idle time starts again.
            until => {
                Times { began: (session.lifetime_began(), None), active: (session.active_at, now), not_before: until }
            }
        }
    }

    pub(crate) fn boot_time(&self, at: Timestamp, now: BootTime) -> BootTime {
        self.history().boot_time(at, now)
    }

    fn keep(&self) {
        let Some(file) = &self.file else { return };
        let text = serde_json::to_vec(&*self.history()).unwrap_or_default();
        // Needs no fsync: after a power loss the history belongs to an earlier boot and is not
        // used.
        let new = file.with_extension("new");
        if let Err(error) = fs::write(&new, text).and_then(|()| fs::rename(&new, file)) {
            tracing::warn!(%error, file = %file.display(), "cannot keep the history of the clock");
        }
    }

    fn history(&self) -> MutexGuard<'_, ClockHistory> {
        // Every change is complete, so a panic elsewhere cannot corrupt it.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_history(file: &Path) -> io::Result<ClockHistory> {
    Ok(serde_json::from_slice(&fs::read(file)?)?)
}

/// The boot-clock times at which the lifetime of a session began and it was last active.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The wall-clock time in the session's state, and the same time by the boot clock. The latter
    /// is `None` while the clock may still be corrected.
    began: (Timestamp, Option<BootTime>),
    /// The wall-clock time in the session's state, and the same time by the boot clock.
    active: (Timestamp, BootTime),
    /// The session is not closed for its age before this time.
    not_before: Option<BootTime>,
}

impl Times {
    /// Returns the times of a session that is being created.
    pub(crate) fn of_new(session: &Session) -> Self {
        let now = read().boot;
        Self { began: (session.lifetime_began(), Some(now)), active: (session.active_at, now), not_before: None }
    }

    /// Records that events of this time were folded into the session.
    ///
    /// If the wall clock is behind the session's last activity, the state cannot show a later one.
    /// Any event then counts as activity.
    pub(crate) fn note(&mut self, session: &Session, at: Timestamp) {
        if self.active.0 != session.active_at || at <= session.active_at {
            self.active = (session.active_at, read().boot);
        }
        if self.began.0 != session.lifetime_began() {
            self.began = (session.lifetime_began(), Some(read().boot));
        }
    }

    /// Returns the begin of the lifetime and the time of the last activity, once the session's age
    /// is known.
    pub(crate) fn judged(&mut self, session: &Session, clock: &Clock, now: BootTime) -> Option<(BootTime, BootTime)> {
        if self.not_before.is_some_and(|until| now < until) {
            return None;
        }
        let began = *self.began.1.get_or_insert_with(|| clock.boot_time(session.lifetime_began(), now));
        Some((began, self.active.1))
    }
}
