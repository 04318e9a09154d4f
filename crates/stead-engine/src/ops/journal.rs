//! Operations on journals: events, exports, replays, the audit log.

pub(super) mod audit;
pub(super) mod events;
pub(super) mod export_journal;
pub(super) mod replay;
pub(super) mod replay_against;
