//! Prove that a session is what its journal says.
//!
//! The journal is folded from its first event, with nothing else at hand: no provider, no clock. The result must have the very bytes of
//! the live state, or the hash recorded when the session ended; the files rebuilt from the recorded changes must have the recorded tree hashes; the hash chain must hold.

use stead_core::{SessionId, State, apply};
use stead_providers::rebuild;
use stead_store::ChainVerdict;

use crate::engine::Engine;
use crate::error::OpError;
use crate::history::history;
use crate::open_session::{OpenSession, each_event};

/// The first place where replay and record disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub seq: u64,
    pub what: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayReport {
    pub session: SessionId,
    pub seq: u64,
    pub state_hash: String,
    /// `None`: byte-identical.
    pub difference: Option<Difference>,
}

pub async fn replay(engine: &Engine, id: SessionId) -> Result<ReplayReport, OpError> {
    let live = OpenSession::open(engine, id).await?.state().await;
    let mut state = State::default();
    each_event(engine, id, |recorded| {
        // The live session may grow while we read: what came after the state we compare with is another replay's business.
        if recorded.seq <= live.seq {
            apply(&mut state, &recorded);
        }
        Ok(())
    })
    .await?;
    let difference = match chain_difference(engine, id).await? {
        Some(difference) => Some(difference),
        None if state.canonical() != live.canonical() => {
            Some(Difference { seq: state.seq, what: "the replayed state differs from the live one".to_owned() })
        }
        None => match ended_difference(engine, &state).await? {
            Some(difference) => Some(difference),
            None => files_difference(engine, &live).await?,
        },
    };
    Ok(ReplayReport { session: id, seq: state.seq, state_hash: state.hash(), difference })
}

/// Compares with the hash that was taken from the running state when the session ended.
async fn ended_difference(engine: &Engine, replayed: &State) -> Result<Option<Difference>, OpError> {
    let Some(session) = &replayed.session else { return Ok(None) };
    let recorded = engine.store().head(session.id).await?.and_then(|row| row.final_hash);
    let differs = recorded.filter(|recorded| *recorded != replayed.hash());
    Ok(differs.map(|recorded| Difference { seq: replayed.seq, what: format!("the session ended as {recorded}") }))
}

async fn chain_difference(engine: &Engine, id: SessionId) -> Result<Option<Difference>, OpError> {
    match engine.store().verify(id).await? {
        ChainVerdict::Intact { .. } => Ok(None),
        ChainVerdict::Absent => Ok(Some(Difference { seq: 0, what: "there is no journal".to_owned() })),
        ChainVerdict::Broken { seq, reason } => {
            Ok(Some(Difference { seq, what: format!("the hash chain is broken: {reason}") }))
        }
    }
}

/// Rebuilds the files from what all journals of the workspace recorded, checking every tree hash on the way.
async fn files_difference(engine: &Engine, live: &State) -> Result<Option<Difference>, OpError> {
    let Some(session) = live.session.as_ref().filter(|session| session.workspace.is_some()) else { return Ok(None) };
    let history = history(engine, session.id).await?;
    Ok(rebuild(&history).err().map(|error| Difference { seq: error.seq(), what: error.to_string() }))
}
