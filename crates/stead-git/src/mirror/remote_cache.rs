//! The answers of a remote, kept per credential and for a limited time.
//!
//! A mirror holds commits that some credential could fetch once. It serves a session only if the
//! remote accepts the credential that the session would use now.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::remote::credential::Identity;
use crate::remote::refs::{Target, Wanted};

/// Answers are kept for this long at most, so that rotated secrets do not add up.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// The answers of a mirror's remote, with their time and credential.
#[derive(Default)]
pub(crate) struct RemoteCache {
    targets: HashMap<(Identity, Wanted), (Instant, Target)>,
    admitted: HashMap<Identity, Instant>,
}

impl RemoteCache {
    /// Returns the remote's last answer about a reference to this credential, if it is recent
    /// enough.
    pub(crate) fn get(&self, who: Identity, wanted: &Wanted, ask: &Ask) -> Option<Target> {
        let (at, target) = self.targets.get(&(who, wanted.clone()))?;
        ask.accepts(who, *at).then(|| target.clone())
    }

    pub(crate) fn insert(&mut self, who: Identity, wanted: Wanted, target: Target) {
        self.targets.insert((who, wanted), (Instant::now(), target));
        self.admit(who);
    }

    /// Returns true if the remote accepted this credential recently enough.
    pub(crate) fn is_admitted(&self, who: Identity, ask: &Ask) -> bool {
        self.admitted.get(&who).is_some_and(|at| ask.accepts(who, *at))
    }

    /// Drops the known branches.
    pub(crate) fn forget(&mut self) {
        self.targets.clear();
    }

    pub(crate) fn admit(&mut self, who: Identity) {
        // Without this, entries of rotated secrets would stay forever.
        self.admitted.retain(|_, at| at.elapsed() < FORGOTTEN_AFTER);
        self.targets.retain(|_, (at, _)| at.elapsed() < FORGOTTEN_AFTER);
        self.admitted.insert(who, Instant::now());
    }
}

/// One question to a remote, with the rule for reusing earlier answers.
pub(crate) struct Ask {
    started: Instant,
    fresh: Duration,
}

impl Ask {
    pub(crate) fn now(fresh: Duration) -> Self {
        Self { started: Instant::now(), fresh }
    }

    /// Accepts an answer that arrived while this question waited. Accepts an older one only for
    /// repositories without a credential, because a credential may have been revoked since.
    fn accepts(&self, who: Identity, at: Instant) -> bool {
        at >= self.started || (who.is_anonymous() && at.elapsed() < self.fresh)
    }
}
