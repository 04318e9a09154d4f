//! Rewind: checkpoints, and the events of a session that it can be rewound to.
//!
//! After every call that may have changed files, the provider can keep the tree as a checkpoint,
//! which is a snapshot that no user asked for. The agent type limits the cost of checkpoints
//! ([`Rewind`]). The event of the call records the checkpoint or why there is none
//! ([`Checkpoint`]). [`Checkpoints`] lists those of a session.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::SnapshotId;
use crate::parse::words;
use crate::record::{Rules, Whole, record};

words!(
    /// The most expensive kind of checkpoint that may be taken after a call. Each value includes
    /// the ones before it.
    CheckpointCost, "rewind.points", {
        Off = "off",
        /// Only if it costs nothing: trees that share equal content.
        Free = "free",
        /// Also if it costs an overlay layer, in a box without running processes.
        Layers = "layers",
        /// Also if the whole tree must be copied.
        Copies = "copies",
    }
);

record! {
    /// Checkpoint policy of a session.
    [Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize]
    defaults Rewind as "Rewind" {
        /// Most expensive kind of checkpoint that may be taken after a call.
        default(CheckpointCost::Free) points: CheckpointCost,
        /// Number of latest checkpoints to keep.
        default(100) keep: Whole<1, 1_000>,
    }
}

impl Rules for Rewind {}

impl Rewind {
    /// The value for journals that are older than checkpoints and do not have this field.
    pub(crate) fn none() -> Self {
        Self { points: CheckpointCost::Off, keep: 1 }
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Self::none()
    }
}

words!(
    /// The reason why there is no checkpoint of the files.
    AbsenceReason, "reason", {
        /// `rewind.points` does not ask for a checkpoint here.
        Untracked = "untracked",
        /// Processes were running in the box, so that only a copy could have kept the files.
        AtWork = "at_work",
        /// Only a copy of the whole tree could have kept the files.
        Copy = "copy",
        /// The workspace is a directory of the host, and `rewind.points` allows no copies of it.
        HostDirectory = "host_directory",
        /// The workspace is a directory of the host that is too large to be copied.
        TooLarge = "too_large",
        /// The server stopped before the outcome was known.
        Interrupted = "interrupted",
        Failed = "failed",
        /// The checkpoint existed and was replaced by later ones.
        Forgotten = "forgotten",
    }
);

impl AbsenceReason {
    /// A clause for people. It follows "the files were not kept at event N:".
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Untracked => "rewind.points of its agent type does not ask for it",
            Self::AtWork => "processes were running in the box, and rewind.points allows no copies",
            Self::Copy => "this provider copies whole trees, and rewind.points allows no copies",
            Self::HostDirectory => "the workspace is a directory of the host, and rewind.points allows no copies",
            Self::TooLarge => {
                "the directory has more than 50,000 entries or 256 MiB, without .git and the files that .gitignore matches"
            }
            Self::Interrupted => "the server stopped before the outcome was known",
            Self::Failed => "it failed",
            Self::Forgotten => "more than rewind.keep came after it",
        }
    }
}

/// The checkpoint after a call, as recorded in the event of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpoint {
    /// The tree equals this snapshot. It is an older snapshot if nothing has changed since.
    Kept(SnapshotId),
    #[serde(rename = "unkept")]
    Absent(AbsenceReason),
}

/// The paths that a call changed, for files that do not live in the journal. The contents are not
/// recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Touched {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrote: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// Number of further changed paths that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The checkpoint that holds from this event until the next entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointEntry {
    pub seq: u64,
    #[serde(flatten)]
    pub checkpoint: Checkpoint,
}

/// The entries of a session, oldest first. The session can be rewound to those with a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Checkpoints(Vec<CheckpointEntry>);

/// The reason why the files at an event are not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The event is older than the workspace.
    NoWorkspace,
    Absent(AbsenceReason),
}

/// The error if a session cannot be rewound to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoCheckpoint {
    pub to: u64,
    pub reason: Missing,
    /// The nearest events that the session can be rewound to.
    pub before: Option<u64>,
    pub after: Option<u64>,
}

impl std::fmt::Display for NoCheckpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reason {
            Missing::NoWorkspace => write!(f, "the workspace was not ready yet at event {}", self.to)?,
            Missing::Absent(reason) => {
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

impl Checkpoints {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &CheckpointEntry> {
        self.0.iter()
    }

    /// All snapshots that are checkpoints.
    pub fn snapshots(&self) -> BTreeSet<SnapshotId> {
        self.0.iter().filter_map(CheckpointEntry::snapshot).collect()
    }

    /// Returns the checkpoint of the files as they were right after event `to`.
    pub fn find(&self, to: u64) -> Result<SnapshotId, NoCheckpoint> {
        let at = self.0.iter().rposition(|entry| entry.seq <= to);
        let reason = match at.and_then(|at| self.0.get(at)).map(|entry| entry.checkpoint) {
            Some(Checkpoint::Kept(snapshot)) => return Ok(snapshot),
            Some(Checkpoint::Absent(reason)) => Missing::Absent(reason),
            // No checkpoint was ever taken.
            None if self.0.is_empty() => Missing::Absent(AbsenceReason::Untracked),
            None => Missing::NoWorkspace,
        };
        let kept = |entry: &&CheckpointEntry| entry.snapshot().is_some();
        // The last event with the earlier files: the one right before the next entry.
        let before = at.and_then(|at| {
            let last = self.0.get(..at)?.iter().rposition(|entry| entry.snapshot().is_some())?;
            self.0.get(last + 1).map(|next| next.seq - 1)
        });
        let after = self.0.iter().filter(|entry| entry.seq > to).find(kept).map(|entry| entry.seq);
        Err(NoCheckpoint { to, reason, before, after })
    }

    pub(crate) fn note(&mut self, seq: u64, checkpoint: Checkpoint, keep: u64) {
        let last = self.0.last().map(|entry| entry.checkpoint);
        let same = match (last, checkpoint) {
            (Some(Checkpoint::Kept(last)), Checkpoint::Kept(snapshot)) => last == snapshot,
            (Some(Checkpoint::Absent(_)), Checkpoint::Absent(_)) => true,
            _ => false,
        };
        if same {
            return;
        }
        self.0.push(CheckpointEntry { seq, checkpoint });
        self.thin(keep);
    }

    /// Drops the oldest checkpoint except the first one, then merges neighbours without a
    /// checkpoint.
    fn thin(&mut self, keep: u64) {
        let kept = self.0.iter().filter(|entry| entry.snapshot().is_some()).count() as u64;
        if kept <= keep.saturating_add(1) {
            return;
        }
        let second = self.0.iter().enumerate().filter(|(_, entry)| entry.snapshot().is_some()).nth(1);
        let Some(position) = second.map(|(position, _)| position) else { return };
        if let Some(entry) = self.0.get_mut(position) {
            entry.checkpoint = Checkpoint::Absent(AbsenceReason::Forgotten);
        }
        self.0.dedup_by(|later, earlier| later.snapshot().is_none() && earlier.snapshot().is_none());
    }
}

impl CheckpointEntry {
    pub fn snapshot(&self) -> Option<SnapshotId> {
        match self.checkpoint {
            Checkpoint::Kept(snapshot) => Some(snapshot),
            Checkpoint::Absent(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(number: u128) -> SnapshotId {
        SnapshotId::from_bits(number)
    }

    fn kept(number: u128) -> Checkpoint {
        Checkpoint::Kept(snapshot(number))
    }

    fn absent(reason: AbsenceReason) -> Checkpoint {
        Checkpoint::Absent(reason)
    }

    #[test]
    fn an_entry_keeps_its_names_in_the_journal() {
        let entry = |seq, checkpoint| serde_json::to_value(CheckpointEntry { seq, checkpoint }).unwrap_or_default();
        assert_eq!(entry(3, kept(1)), serde_json::json!({"seq": 3, "kept": snapshot(1)}));
        assert_eq!(entry(9, absent(AbsenceReason::AtWork)), serde_json::json!({"seq": 9, "unkept": "at_work"}));
    }

    #[test]
    fn an_event_has_the_files_of_the_last_change_before_it() {
        let mut checkpoints = Checkpoints::default();
        checkpoints.note(3, kept(1), 100);
        checkpoints.note(9, kept(2), 100);
        assert_eq!(checkpoints.find(8), Ok(snapshot(1)));
        assert_eq!((checkpoints.find(9), checkpoints.find(900)), (Ok(snapshot(2)), Ok(snapshot(2))));
        let before = checkpoints.find(2).unwrap_err();
        assert_eq!((before.reason, before.before, before.after), (Missing::NoWorkspace, None, Some(3)));
    }

    #[test]
    fn what_was_not_kept_says_why_and_what_is_near() {
        let mut checkpoints = Checkpoints::default();
        checkpoints.note(3, kept(1), 100);
        checkpoints.note(9, absent(AbsenceReason::AtWork), 100);
        checkpoints.note(11, absent(AbsenceReason::Untracked), 100);
        checkpoints.note(15, kept(2), 100);
        let missing = checkpoints.find(12).unwrap_err();
        assert_eq!(
            missing,
            NoCheckpoint { to: 12, reason: Missing::Absent(AbsenceReason::AtWork), before: Some(8), after: Some(15) }
        );
        assert!(missing.to_string().ends_with("the nearest events with files are 8 and 15"), "{missing}");
        // Nothing changed since, so there is no new entry.
        checkpoints.note(20, kept(2), 100);
        assert_eq!(checkpoints.iter().count(), 3);
    }

    #[test]
    fn the_first_and_the_latest_stay() {
        let mut checkpoints = Checkpoints::default();
        for number in 1..=50 {
            checkpoints.note(number * 2, kept(u128::from(number)), 3);
        }
        let left: Vec<_> = checkpoints.snapshots().into_iter().collect();
        assert_eq!(left, [1, 48, 49, 50].map(snapshot));
        assert_eq!(checkpoints.find(50).unwrap_err().reason, Missing::Absent(AbsenceReason::Forgotten));
        assert_eq!((checkpoints.find(2), checkpoints.find(3)), (Ok(snapshot(1)), Ok(snapshot(1))));
        assert!(checkpoints.iter().count() <= 6);
    }
}
