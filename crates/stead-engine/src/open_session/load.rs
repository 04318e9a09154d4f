//! Opens a session from its journal.

use std::sync::Arc;

use stead_core::{Recorded, Resource, SessionId, State, fold};

use super::Cell;
use crate::engine::Engine;
use crate::error::OpError;

/// Number of events per read.
const PAGE: u32 = 512;

/// Creates the cell of a session that is not open. The engine keeps it if the session is live.
pub(super) async fn load_cell(engine: &Engine, id: SessionId) -> Result<Arc<Cell>, OpError> {
    if let Some(row) = engine.store().head(id).await?.filter(|row| !row.live)
        && let Some(state) = engine.state_cache().get(id, row.seq)
    {
        return Ok(Cell::new(State::clone(&state)));
    }
    loop {
        let state = load(engine, id).await?;
        let (seq, live) = (state.seq, state.session.as_ref().is_some_and(|session| session.live()));
        if !live {
            engine.state_cache().keep(id, Arc::new(state.clone()));
            return Ok(Cell::new(state));
        }
        let times = state.session.as_ref().map(|session| engine.clock().of_earlier_run(session));
        let fresh = Cell::new(state);
        *fresh.times() = times;
        let cell = engine.keep_cell(id, fresh.clone());
        // If the session ended during the load, its own cell is gone. Our stale cell must not stay.
        let ended_meanwhile = engine.store().head(id).await?.is_some_and(|row| !row.live && row.seq > seq);
        if !ended_meanwhile || !Arc::ptr_eq(&cell, &fresh) {
            return Ok(cell);
        }
        engine.drop_cell(id);
    }
}

/// Reads and folds a journal.
pub(crate) async fn load(engine: &Engine, id: SessionId) -> Result<State, OpError> {
    let mut state = State::default();
    each_event(engine, id, |recorded| {
        fold(&mut state, &recorded);
        Ok(())
    })
    .await?;
    if state.session.is_none() {
        return Err(OpError::NotFound { what: Resource::Session, id: id.to_string() });
    }
    Ok(state)
}

/// Passes the events of a journal to `handle` in order, with one page in memory at a time.
pub(crate) async fn each_event(
    engine: &Engine,
    id: SessionId,
    mut handle: impl FnMut(Recorded) -> Result<(), OpError>,
) -> Result<(), OpError> {
    let mut after = 0;
    loop {
        let page = engine.store().events(id, after, PAGE).await?;
        let full = page.len() == PAGE as usize;
        for stored in page {
            let seq = stored.seq;
            let event = serde_json::from_str(&stored.payload).map_err(|source| OpError::Corrupt {
                session: id,
                seq,
                source,
            })?;
            handle(Recorded { seq, at: stored.at, event })?;
            after = seq;
        }
        if !full {
            return Ok(());
        }
    }
}
