//! Keeps a tree: as a layer of the written files, or as a copy of everything.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use stead_box::BoxError;
use stead_box::protocol::{Answer, FileAsk, FileStat, GuestError, GuestErrorKind, ProtocolError};
use stead_core::SnapshotId;
use stead_core::rewind::Touched;
use stead_core::session::HashAbsence;
use stead_fs::patch::{Options, Patch};
use stead_fs::{Kind, Stop, WorkspacePath};

use super::lineage::{Durability, Lineage};
use super::overlay_box::{MOST_LAYERS, Margin, OverlayBox, into_box_error};
use super::workspaces::{BoxState, Workspaces};
use crate::contract::error::ProviderError;
use crate::guest::Looked;

/// Maximum number of changed paths that are listed.
const MOST_TOUCHED: u64 = 4096;

/// The hash of a larger tree is computed after the snapshot, because it takes longer.
const HASHED_ENTRIES: u64 = 5_000;
const HASHED_BYTES: u64 = 32 << 20;

/// Delay before asking a box again whether it is idle.
const REST_AGAIN: Duration = Duration::from_millis(10);

/// The time to wait for a box to become idle. A command's result can arrive before the last of its
/// processes has ended, and on a busy machine that takes a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    None,
    /// 200 ms: for checkpoints, which follow every call.
    Short,
    /// 1 s: for snapshots that a user asked for. A box that is not idle is copied file by file, and
    /// the copy counts against the disk limit.
    Long,
}

impl Patience {
    fn tries(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Short => 20,
            Self::Long => 100,
        }
    }
}

impl OverlayBox {
    pub(super) fn keep_as(
        &self,
        state: &mut BoxState,
        snapshot: SnapshotId,
        margin: Margin,
        patience: Patience,
    ) -> Result<(), ProviderError> {
        let kept = match self.freeze(state, Durability::Later, margin, patience)? {
            Some(layers) => layers,
            None => vec![self.copy(state)?],
        };
        let long = self.lineage()?.layers.len() >= MOST_LAYERS;
        let shortened = long && self.rest_with_reserve(state, margin, Patience::None)?;
        self.workspaces.change(self.id(), Durability::Now, |lineage| {
            lineage.snapshots.insert(snapshot.to_string(), kept.clone());
            if shortened {
                lineage.layers = kept;
                lineage.generation += 1;
            }
        })?;
        if shortened || !state.written {
            state.layers_changed(Some(snapshot));
        }
        Ok(())
    }

    /// The hash of a tree that was just frozen, if it is small. The box starts over the frozen
    /// layers for that. The lock of the state keeps every other user out, so the box has written
    /// nothing afterwards. `None` for a tree that was copied, because the files of its box or of
    /// its host directory may have changed since.
    pub(super) fn frozen_hash(&self, state: &mut BoxState) -> Option<String> {
        if state.written || self.lineage().ok()?.bound.is_some() {
            return None;
        }
        let ask = FileAsk::TreeHash { most_entries: HASHED_ENTRIES, most_bytes: HASHED_BYTES };
        let answered = self.connect_in(state).ok()?.files(ask, None);
        state.written = false;
        match answered {
            Ok((Answer::TreeHash { hash }, _)) => hash,
            _ => None,
        }
    }

    /// The changes from the start of the session to a snapshot, read from the layers without a box.
    pub(super) fn kept_patch(&self, snapshot: SnapshotId, options: Options) -> Result<Patch, BoxError> {
        let unavailable = |message: &str| BoxError::Guest(GuestError::new(GuestErrorKind::NoBase, message));
        let lineage = self.lineage().map_err(into_box_error)?;
        if let Some(message) = &lineage.uncompared {
            return Err(unavailable(message));
        }
        let layers = lineage.snapshots.get(&snapshot.to_string()).cloned();
        let layers = layers.ok_or_else(|| unavailable("the files at this event are no longer kept"))?;
        let read = Lineage { layers: layers.clone(), bound: None, ..lineage };
        let Workspaces { directories, layers: store, copies, .. } = &*self.workspaces;
        let mut spec = directories.spec(&self.order, &read, store, Vec::new()).map_err(into_box_error)?;
        // The volume of this workspace is read like any other.
        spec.volume_directory = PathBuf::new();
        let patch = copies.of(self.id()).unless_removed(|removal| {
            stead_box::diff_layers(self.boxes.init(), spec, options, &|| removal.is_requested())
        })?;
        // A snapshot that was forgotten meanwhile may have lost files while they were read.
        let kept = self.lineage().map_err(into_box_error)?.snapshots.get(&snapshot.to_string()) == Some(&layers);
        if kept { Ok(patch) } else { Err(unavailable("the files at this event are no longer kept")) }
    }

    /// The hash of a snapshot, read from its layers without a box and without the lock of the
    /// state: layers never change, so calls go on meanwhile.
    pub(super) fn kept_hash(&self, snapshot: SnapshotId, stop: &Stop) -> Result<String, HashAbsence> {
        let failed = |_| HashAbsence::Failed;
        let lineage = self.lineage().map_err(failed)?;
        let layers = lineage.snapshots.get(&snapshot.to_string()).cloned().ok_or(HashAbsence::Failed)?;
        let read = Lineage { layers: layers.clone(), began_with: None, bound: None, ..lineage };
        let Workspaces { directories, layers: store, copies, .. } = &*self.workspaces;
        let mut spec = directories.spec(&self.order, &read, store, Vec::new()).map_err(failed)?;
        // The volume of this workspace is read like any other.
        spec.volume_directory = PathBuf::new();
        let hash = copies.of(self.id()).unless_removed(|removal| {
            stead_box::hash_layers(self.boxes.init(), &spec, &|| stop.is_requested() || removal.is_requested())
        });
        // A snapshot that was forgotten meanwhile may have lost files while they were read.
        let kept = self.lineage().map_err(failed)?.snapshots.get(&snapshot.to_string()) == Some(&layers);
        match hash {
            Ok(hash) if kept => Ok(hash),
            Ok(_) => Err(HashAbsence::Failed),
            Err(error) => {
                tracing::warn!(workspace = %self.id(), %snapshot, %error, "cannot hash a snapshot");
                Err(HashAbsence::Failed)
            }
        }
    }

    /// Keeps the current layers as a snapshot. Nothing may be written above them.
    pub(super) fn keep_layers_as(&self, state: &mut BoxState, snapshot: SnapshotId) -> Result<(), ProviderError> {
        self.workspaces.change(self.id(), Durability::Now, |lineage| {
            lineage.snapshots.insert(snapshot.to_string(), lineage.layers.clone());
        })?;
        state.kept = Some(snapshot);
        Ok(())
    }

    /// Releases the tree from the box as soon as that loses nothing. Does not wait for a running
    /// exec.
    pub(super) fn rest_within(&self, state: &mut BoxState, patience: Patience) -> Result<bool, ProviderError> {
        for _ in 0..patience.tries() {
            if self.rest(state)? {
                return Ok(true);
            }
            if self.connect_in(state)?.list()?.iter().any(|exec| exec.running) {
                return Ok(false);
            }
            std::thread::sleep(REST_AGAIN);
        }
        self.rest(state)
    }

    /// Finds what the box wrote above the layers, and which of it is new since the last look.
    pub(super) fn look_at(&self, state: &mut BoxState) -> Result<Looked, ProviderError> {
        let lineage = self.lineage()?;
        if lineage.bound.is_some() {
            let writes = lineage.writes_host_directory();
            return if writes { self.look_at_host_directory(state) } else { Ok(Looked::default()) };
        }
        let (leaves, total) = if state.written { self.leaves(state)? } else { (Vec::new(), 0) };
        state.clean = total == 0;
        if state.clean {
            return Ok(Looked { touched: None, same: state.kept });
        }
        let now: BTreeMap<String, (Kind, i64)> =
            leaves.into_iter().map(|(path, stat)| (path.to_string(), (stat.kind, stat.updated_at_millis))).collect();
        let mut touched = Touched { more: total.saturating_sub(now.len() as u64), ..Touched::default() };
        for (path, (kind, at)) in &now {
            if state.seen.get(path) != Some(at) {
                let names = if *kind == Kind::Special { &mut touched.removed } else { &mut touched.wrote };
                names.push(path.clone());
            }
        }
        touched.removed.extend(state.seen.keys().filter(|path| !now.contains_key(*path)).cloned());
        state.seen = now.into_iter().map(|(path, (_, at))| (path, at)).collect();
        Ok(Looked { touched: Some(touched), same: None })
    }

    fn leaves(&self, state: &mut BoxState) -> Result<(Vec<(WorkspacePath, FileStat)>, u64), ProviderError> {
        let nonsense = || BoxError::from(ProtocolError::Unexpected { what: "to a request for written files" });
        let (answer, body) = self.connect_in(state)?.files(FileAsk::Touched { most: MOST_TOUCHED }, None)?;
        let Answer::Listing { total } = answer else { return Err(nonsense().into()) };
        Ok((serde_json::from_slice(&body).map_err(|_| nonsense())?, total))
    }
}
