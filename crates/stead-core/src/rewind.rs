//! Going back: what is kept on the way, and which moments of a session there are to go back to.
//!
//! After every call that may have changed files the tree can be kept as it is then, as a snapshot nobody asked for: a *point*. What may be spent on that is the
//! agent type's word ([`Rewind`]); what became of it is part of the event that tells of the call ([`Point`]); what can be gone back to is the [`Trail`].

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SnapshotId;
use crate::parse::{Fields, Place, Read, words};

words!(
    /// What may be spent on keeping files after each call; each word includes those before it.
    Points, "rewind.points", {
        Off = "off",
        /// Where it costs nothing: trees that share what is equal.
        Free = "free",
        /// Where it costs a layer, in a box nothing is at work in.
        Layers = "layers",
        /// Where the whole tree must be copied.
        Copies = "copies",
    }
);

/// What a session keeps on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewind {
    pub points: Points,
    /// How many of the latest; the one the session began with stays beside them.
    pub keep: u64,
}

impl Default for Rewind {
    fn default() -> Self {
        Self { points: Points::Free, keep: 100 }
    }
}

impl Rewind {
    /// Journals from before there were points do not name it.
    pub(crate) fn none() -> Self {
        Self { points: Points::Off, keep: 1 }
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Self::none()
    }
}

impl Read for Rewind {
    fn read(value: Value, at: &mut Place<'_>) -> Option<Self> {
        let base = Self::default();
        let mut fields = Fields::of(value, at)?;
        let rewind =
            Self { points: fields.or("points", base.points), keep: fields.number_or("keep", 1..=1_000, base.keep) };
        fields.done();
        Some(rewind)
    }
}

words!(
    /// Why the files are not kept as they were at some moment.
    Unkept, "reason", {
        /// Nobody looked: `rewind.points` says not to.
        Untracked = "untracked",
        /// Processes were at work in the box, and only a copy could have kept the files.
        AtWork = "at_work",
        /// Only a copy of the whole tree could have kept the files.
        Copy = "copy",
        /// A directory of the host's is not kept.
        HostDirectory = "host_directory",
        /// The server stopped before the outcome was known.
        Interrupted = "interrupted",
        Failed = "failed",
        /// It was kept, and later ones took its place.
        Forgotten = "forgotten",
    }
);

impl Unkept {
    /// For a person, after "the files were not kept then:".
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Untracked => "rewind.points of its agent type does not ask for it",
            Self::AtWork => "processes were at work in the box, and rewind.points allows no copies",
            Self::Copy => "this provider copies whole trees, and rewind.points allows no copies",
            Self::HostDirectory => "the workspace is a directory of the host's",
            Self::Interrupted => "the server stopped before the outcome was known",
            Self::Failed => "it failed",
            Self::Forgotten => "more than rewind.keep came after it",
        }
    }
}

/// What became of the tree's keeping, in the event that tells of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// The tree is as this snapshot has it; an older one's if nothing changed since.
    Kept(SnapshotId),
    Unkept(Unkept),
}

/// What a call did to files that do not live in the journal: names only, as far as somebody looked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Touched {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrote: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// How many more there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// From this event on, until the next moment, the files were like this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    pub seq: u64,
    #[serde(flatten)]
    pub point: Point,
}

/// The moments of a session, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Trail(Vec<Moment>);

/// Why the files of an event are not there to go back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The event is older than the workspace.
    NoWorkspace,
    Unkept(Unkept),
}

/// Why there is no going back to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPoint {
    pub to: u64,
    pub reason: Missing,
    /// The nearest events that can be gone back to.
    pub before: Option<u64>,
    pub after: Option<u64>,
}

impl std::fmt::Display for NoPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reason {
            Missing::NoWorkspace => write!(f, "the workspace was not ready yet at event {}", self.to)?,
            Missing::Unkept(reason) => {
                write!(f, "the files were not kept at event {}: {}", self.to, reason.sentence())?;
            }
        }
        match (self.before, self.after) {
            (Some(before), Some(after)) => write!(f, "; the nearest events with files are {before} and {after}"),
            (Some(seq), None) | (None, Some(seq)) => write!(f, "; the nearest event with files is {seq}"),
            (None, None) => Ok(()),
        }
    }
}

impl Trail {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Moment> {
        self.0.iter()
    }

    /// Every snapshot it names.
    pub fn snapshots(&self) -> BTreeSet<SnapshotId> {
        self.0.iter().filter_map(Moment::snapshot).collect()
    }

    /// The files as they were when an event had just happened.
    pub fn find(&self, to: u64) -> Result<SnapshotId, NoPoint> {
        let at = self.0.iter().rposition(|moment| moment.seq <= to);
        let reason = match at.and_then(|at| self.0.get(at)).map(|moment| moment.point) {
            Some(Point::Kept(snapshot)) => return Ok(snapshot),
            Some(Point::Unkept(reason)) => Missing::Unkept(reason),
            // Nothing was ever kept.
            None if self.0.is_empty() => Missing::Unkept(Unkept::Untracked),
            None => Missing::NoWorkspace,
        };
        let kept = |moment: &&Moment| moment.snapshot().is_some();
        // The last event of the stretch before: right before this moment began.
        let before = at.and_then(|at| {
            let last = self.0.get(..at)?.iter().rposition(|moment| moment.snapshot().is_some())?;
            self.0.get(last + 1).map(|next| next.seq - 1)
        });
        let after = self.0.iter().filter(|moment| moment.seq > to).find(kept).map(|moment| moment.seq);
        Err(NoPoint { to, reason, before, after })
    }

    pub(crate) fn note(&mut self, seq: u64, point: Point, keep: u64) {
        let last = self.0.last().map(|moment| moment.point);
        let same = match (last, point) {
            (Some(Point::Kept(last)), Point::Kept(snapshot)) => last == snapshot,
            (Some(Point::Unkept(_)), Point::Unkept(_)) => true,
            _ => false,
        };
        if same {
            return;
        }
        self.0.push(Moment { seq, point });
        self.thin(keep);
    }

    /// Forgets the oldest but the first, and what is then the same twice.
    fn thin(&mut self, keep: u64) {
        let kept = self.0.iter().filter(|moment| moment.snapshot().is_some()).count() as u64;
        if kept <= keep.saturating_add(1) {
            return;
        }
        let second = self.0.iter().enumerate().filter(|(_, moment)| moment.snapshot().is_some()).nth(1);
        let Some(position) = second.map(|(position, _)| position) else { return };
        if let Some(moment) = self.0.get_mut(position) {
            moment.point = Point::Unkept(Unkept::Forgotten);
        }
        self.0.dedup_by(|later, earlier| later.snapshot().is_none() && earlier.snapshot().is_none());
    }
}

impl Moment {
    pub fn snapshot(&self) -> Option<SnapshotId> {
        match self.point {
            Point::Kept(snapshot) => Some(snapshot),
            Point::Unkept(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(number: u128) -> SnapshotId {
        SnapshotId::from_bits(number)
    }

    fn kept(number: u128) -> Point {
        Point::Kept(snapshot(number))
    }

    fn unkept(reason: Unkept) -> Point {
        Point::Unkept(reason)
    }

    #[test]
    fn an_event_has_the_files_of_the_last_change_before_it() {
        let mut trail = Trail::default();
        trail.note(3, kept(1), 100);
        trail.note(9, kept(2), 100);
        assert_eq!(trail.find(8), Ok(snapshot(1)));
        assert_eq!((trail.find(9), trail.find(900)), (Ok(snapshot(2)), Ok(snapshot(2))));
        let before = trail.find(2).unwrap_err();
        assert_eq!((before.reason, before.before, before.after), (Missing::NoWorkspace, None, Some(3)));
    }

    #[test]
    fn what_was_not_kept_says_why_and_what_is_near() {
        let mut trail = Trail::default();
        trail.note(3, kept(1), 100);
        trail.note(9, unkept(Unkept::AtWork), 100);
        trail.note(11, unkept(Unkept::Untracked), 100);
        trail.note(15, kept(2), 100);
        let missing = trail.find(12).unwrap_err();
        assert_eq!(
            missing,
            NoPoint { to: 12, reason: Missing::Unkept(Unkept::AtWork), before: Some(8), after: Some(15) }
        );
        assert!(missing.to_string().ends_with("the nearest events with files are 8 and 15"), "{missing}");
        // Nothing changed since: no moment of its own.
        trail.note(20, kept(2), 100);
        assert_eq!(trail.iter().count(), 3);
    }

    #[test]
    fn the_first_and_the_latest_stay() {
        let mut trail = Trail::default();
        for number in 1..=50 {
            trail.note(number * 2, kept(u128::from(number)), 3);
        }
        let left: Vec<_> = trail.snapshots().into_iter().collect();
        assert_eq!(left, [1, 48, 49, 50].map(snapshot));
        assert_eq!(trail.find(50).unwrap_err().reason, Missing::Unkept(Unkept::Forgotten));
        assert_eq!((trail.find(2), trail.find(3)), (Ok(snapshot(1)), Ok(snapshot(1))));
        assert!(trail.iter().count() <= 6);
    }
}
