//! Conversions of plans, replays, checkpoints and blame.

use stead_api::session::network::NetworkPlan;
use stead_api::session::plan::{
    InitPlan, PassedOver, PlannedCapabilities, PlannedMode, PlannedMount, PlannedSetup, SessionPlan, WorkspacePlan,
};
use stead_api::session::replay::{ChangedDecision, FirstDifference, Replay, ReplayAgainst};
use stead_api::session::rewind::{self as api, Blame, Checkpoints, FileDeed, Rewound, Wrote};
use stead_api::session::snapshot::Restored;
use stead_api::session::workspace::Limits;
use stead_api::session::{Notice, Session};
use stead_core::capability::needed_sides;
use stead_core::policy::MountMode;
use stead_core::rewind::{Checkpoint, Rewind};
use stead_core::setup_cache::SetupCacheOutcome;
use stead_core::spec::WorkspaceSpec;
use stead_core::{SnapshotId, State};
use stead_engine::ops::{self, Changed, CheckpointView, Deeds, Operated};
use stead_engine::{Deed, DeedKind};
use stead_providers::{AllowedMode, AllowedMount};

use super::IntoWire;
use crate::problem::{Code, Problem};

/// Converts the state of a session into its API type.
pub(crate) fn shown(state: State) -> Result<Session, Problem> {
    // The first event of a journal creates the session, so every state from the engine contains
    // one.
    Session::of(state).ok_or_else(|| Problem::new(Code::NotFound, "the session has no events"))
}

impl IntoWire for ops::SessionPlan {
    type Wire = SessionPlan;

    fn into_wire(self) -> SessionPlan {
        let Self { spec, outlook } = self;
        let workspace = spec.workspace.zip(outlook);
        SessionPlan {
            agent_type: spec.agent_type,
            workspace: workspace.map(|(spec, outlook)| workspace_plan(spec, outlook)),
        }
    }
}

fn workspace_plan(spec: WorkspaceSpec, outlook: ops::Outlook) -> WorkspacePlan {
    let passed_over = outlook.passed_over.into_iter();
    let limits = Limits::new(&spec, &outlook.enforced);
    WorkspacePlan {
        providers: spec.providers,
        provider: outlook.provider,
        passed_over: passed_over.map(|one| PassedOver { provider: one.provider, reason: one.reason }).collect(),
        capabilities: PlannedCapabilities { ok: true, needs: needed_sides(spec.policy.policy.kind()).to_vec() },
        policy: spec.policy.into(),
        plan: InitPlan { actions: spec.plan.actions, env: spec.plan.env },
        limits,
        network: spec.network.map(NetworkPlan::from),
        tools: outlook.tools,
        mounts: outlook.mounts.into_wire(),
        setup_cache: outlook.setup_cache.map(planned_setup),
        warnings: outlook.warnings.into_iter().map(Notice::from).collect(),
        fingerprint: spec.fingerprint,
    }
}

fn planned_setup(forecast: ops::SetupForecast) -> PlannedSetup {
    match forecast {
        ops::SetupForecast::Hit(entry) => {
            let (result, commit) = (Some(entry.id), entry.about.commit);
            PlannedSetup { outcome: SetupCacheOutcome::Hit, result, commit }
        }
        ops::SetupForecast::Miss => PlannedSetup { outcome: SetupCacheOutcome::Miss, result: None, commit: None },
    }
}

impl IntoWire for AllowedMount {
    type Wire = PlannedMount;

    fn into_wire(self) -> PlannedMount {
        let mode = match self.mode {
            AllowedMode::Copy => PlannedMode::Copy,
            AllowedMode::Mount(MountMode::Overlay) => PlannedMode::Overlay,
            AllowedMode::Mount(MountMode::ReadOnly) => PlannedMode::Ro,
            AllowedMode::Mount(MountMode::ReadWrite) => PlannedMode::Rw,
            AllowedMode::Bundle => PlannedMode::Bundle,
        };
        PlannedMount { host_path: self.host_path, mount_path: self.mount_path, mode, judgement: "allowed".to_owned() }
    }
}

impl IntoWire for ops::ReplayReport {
    type Wire = Replay;

    fn into_wire(self) -> Replay {
        Replay {
            session: self.session,
            seq: self.seq,
            state_hash: self.state_hash,
            identical: self.difference.is_none(),
            difference: self.difference.map(|first| FirstDifference { seq: first.seq, what: first.what }),
        }
    }
}

impl IntoWire for ops::AgainstReport {
    type Wire = ReplayAgainst;

    fn into_wire(self) -> ReplayAgainst {
        let one = |Changed { seq, what, recorded, now }: Changed| ChangedDecision {
            seq,
            what: what.to_owned(),
            recorded,
            now,
        };
        ReplayAgainst {
            session: self.session,
            seq: self.seq,
            compared: self.compared,
            identical: self.changed.is_empty(),
            first_divergence: self.changed.first().map(|changed| changed.seq),
            changed: self.changed.into_iter().map(one).collect(),
        }
    }
}

/// Converts the result of a rewind to the event `to`.
pub(crate) fn rewound(to: u64, operated: Operated) -> Rewound {
    Rewound { to, seq: operated.seq, undo: operated.seq - 1, tree_hash: operated.tree_hash }
}

/// Converts the result of restoring a snapshot.
pub(crate) fn restored(id: SnapshotId, operated: Operated) -> Restored {
    Restored { id, seq: operated.seq, tree_hash: operated.tree_hash }
}

impl IntoWire for Deed {
    type Wire = api::Deed;

    fn into_wire(self) -> api::Deed {
        let kind = match self.kind {
            DeedKind::Start => api::DeedKind::Start,
            DeedKind::Tool => api::DeedKind::Tool,
            DeedKind::Exec => api::DeedKind::Exec,
            DeedKind::Operation => api::DeedKind::Operation,
        };
        api::Deed { kind, name: self.name, id: self.id, actor: self.actor.to_string() }
    }
}

impl IntoWire for (Rewind, Vec<CheckpointView>) {
    type Wire = Checkpoints;

    fn into_wire(self) -> Checkpoints {
        let (kept, entries) = self;
        let checkpoint = |CheckpointView { entry, deed }: CheckpointView| {
            let reason = match entry.checkpoint {
                Checkpoint::Kept(_) => None,
                Checkpoint::Absent(reason) => Some(reason.as_str().to_owned()),
            };
            api::Checkpoint { seq: entry.seq, snapshot: entry.snapshot(), reason, by: deed.into_wire() }
        };
        Checkpoints { points: kept.points, keep: kept.keep, items: entries.into_iter().map(checkpoint).collect() }
    }
}

impl IntoWire for ops::Blame {
    type Wire = Blame;

    fn into_wire(self) -> Blame {
        let Self { path, last, uncertain } = self;
        let wrote = |ops::Wrote { session, seq, at, deed, what }: ops::Wrote| {
            let what = match what {
                Deeds::Wrote => FileDeed::Wrote,
                Deeds::Removed => FileDeed::Removed,
            };
            Wrote { session, seq, at, what, by: deed.into_wire() }
        };
        Blame { path, last: last.map(wrote), uncertain }
    }
}
