//! A whole journal as lines of JSON, to be folded and proved anywhere.

use std::fs::File;
use std::io::{BufWriter, Seek as _, Write as _};

use serde_json::json;
use stead_core::{Event, Recorded, SessionId, State, apply};

use crate::engine::Engine;
use crate::error::OpError;

const PAGE: u32 = 512;

/// The journal in a file that is already unlinked, from its start: a line per event, and a last line with the state they fold to.
pub async fn export_journal(engine: &Engine, id: SessionId) -> Result<File, OpError> {
    let spool = tempfile::tempfile().map_err(|source| OpError::Spool { source })?;
    let mut out = BufWriter::new(spool);
    let mut state = State::default();
    let line = |out: &mut BufWriter<File>, value: serde_json::Value| {
        writeln!(out, "{value}").map_err(|source| OpError::Spool { source })
    };
    line(&mut out, json!({"format": "stead-journal-v1", "session": id}))?;
    loop {
        let page = engine.store().events(id, state.seq, PAGE).await?;
        let full = page.len() == PAGE as usize;
        for stored in page {
            let corrupt = |source| OpError::Corrupt { session: id, seq: stored.seq, source };
            let event: Event = serde_json::from_str(&stored.payload).map_err(corrupt)?;
            line(
                &mut out,
                json!({
                    "seq": stored.seq, "at": stored.at.millis(), "kind": stored.kind, "payload": stored.payload,
                    "prev_hash": stored.prev_hash.to_string(), "hash": stored.hash.to_string(),
                }),
            )?;
            apply(&mut state, &Recorded { seq: stored.seq, at: stored.at, event });
        }
        if !full {
            break;
        }
    }
    if state.session.is_none() {
        return Err(OpError::NotFound { what: "session", id: id.to_string() });
    }
    line(&mut out, json!({"seq": state.seq, "state_hash": state.hash()}))?;
    let failed = |source: std::io::Error| OpError::Spool { source };
    let mut spool = out.into_inner().map_err(|error| failed(error.into_error()))?;
    spool.rewind().map_err(failed)?;
    Ok(spool)
}

/// The state as it was when an event had just happened.
pub async fn state_at(engine: &Engine, id: SessionId, seq: u64) -> Result<State, OpError> {
    let mut state = State::default();
    crate::open_session::each_event(engine, id, |recorded| {
        if recorded.seq <= seq {
            apply(&mut state, &recorded);
        }
        Ok(())
    })
    .await?;
    match state.seq == seq {
        true => Ok(state),
        false => Err(OpError::NotFound { what: "event", id: format!("{seq} of {id}") }),
    }
}
