//! Proves that a session's state matches its journal.
//!
//! The journal is folded from its first event, without a provider or a clock. The result must equal
//! the live state byte for byte, or the hash recorded when the session ended. The files rebuilt
//! from the recorded changes must have the recorded tree hashes, and the hash chain must be intact.

use stead_core::{SessionId, State};
use stead_providers::rebuild;
use stead_store::ChainVerdict;

use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::history::history;
use crate::open_session::{OpenSession, load};
use crate::ops::boxed;

/// Maximum number of reads until the journal and the live state have the same position.
const LOOKS: u32 = 20;

/// The first difference between replay and record.
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
    /// `None` if both are byte-identical.
    pub difference: Option<Difference>,
}

#[boxed]
pub async fn replay(engine: &Engine, id: SessionId) -> Result<ReplayReport, OpError> {
    match compare(engine, id).await {
        Err(OpError::Corrupt { seq, source, .. }) => {
            let difference = Some(Difference { seq, what: format!("the event cannot be read: {source}") });
            Ok(ReplayReport { session: id, seq, state_hash: String::new(), difference })
        }
        compared => compared,
    }
}

async fn compare(engine: &Engine, id: SessionId) -> Result<ReplayReport, OpError> {
    let (replayed, live) = fold_beside(engine, id).await?;
    let difference = match chain_difference(engine, id).await? {
        Some(difference) => Some(difference),
        None if replayed.canonical() != live.canonical() => {
            Some(Difference { seq: replayed.seq, what: "the replayed state differs from the live one".to_owned() })
        }
        None => match ended_difference(engine, &replayed).await? {
            Some(difference) => Some(difference),
            None => files_difference(engine, &live).await?,
        },
    };
    Ok(ReplayReport { session: id, seq: replayed.seq, state_hash: replayed.hash(), difference })
}

/// Returns the fold of the whole journal and the live state at the same position. A working session
/// continues meanwhile, so this may take several reads. A live state that stays behind its journal
/// is returned unchanged.
async fn fold_beside(engine: &Engine, id: SessionId) -> Result<(State, State), OpError> {
    let mut looks = 0;
    loop {
        looks += 1;
        let replayed = load(engine, id).await?;
        let live = OpenSession::open(engine, id).await?.state().await;
        if live.seq == replayed.seq || looks == LOOKS {
            return Ok((replayed, live));
        }
    }
}

/// Compares with the hash of the live state that was recorded when the session ended.
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

/// Rebuilds the files from all journals of the workspace and checks every tree hash.
async fn files_difference(engine: &Engine, live: &State) -> Result<Option<Difference>, OpError> {
    let Some(session) = live.session.as_ref().filter(|session| session.workspace.is_some()) else { return Ok(None) };
    let history = history(engine, session.id).await?;
    Ok(rebuild(&history).err().map(|error| Difference { seq: error.seq(), what: error.to_string() }))
}
