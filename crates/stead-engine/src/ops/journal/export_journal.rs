//! Exports a whole journal as lines of JSON, to be folded and verified elsewhere. It is read page
//! by page, as fast as the client reads.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::json;
use stead_core::{Event, Recorded, Resource, SessionId, State, fold};

use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::boxed;

const PAGE: u32 = 512;

/// The stream of a journal: one line per event, and a last line with the hash of the state.
pub struct JournalLines {
    engine: Engine,
    id: SessionId,
    state: State,
    first: Option<Bytes>,
    rest: Rest,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Pages,
    Nothing,
}

#[boxed]
pub async fn export_journal(engine: &Engine, id: SessionId) -> Result<JournalLines, OpError> {
    let (engine, state) = (engine.clone(), State::default());
    let mut lines = JournalLines { engine, id, state, first: None, rest: Rest::Pages };
    let page = lines.page().await?;
    if lines.state.session.is_none() {
        return Err(OpError::NotFound { what: Resource::Session, id: id.to_string() });
    }
    lines.first = Some(format!("{}\n{page}", json!({"format": "stead-journal-v1", "session": id})).into());
    Ok(lines)
}

impl JournalLines {
    /// Returns the next lines, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, OpError> {
        match (self.first.take(), self.rest) {
            (Some(first), _) => Ok(Some(first)),
            (None, Rest::Pages) => Ok(Some(self.page().await?.into())),
            (None, Rest::Nothing) => Ok(None),
        }
    }

    async fn page(&mut self) -> Result<String, OpError> {
        let page = self.engine.store().events(self.id, self.state.seq, PAGE).await?;
        if page.len() < PAGE as usize {
            self.rest = Rest::Nothing;
        }
        let mut lines = String::new();
        let mut line = |value: serde_json::Value| {
            // Writing to a `String` cannot fail.
            let _ = writeln!(lines, "{value}");
        };
        for stored in page {
            let corrupt = |source| OpError::Corrupt { session: self.id, seq: stored.seq, source };
            let event: Event = serde_json::from_str(&stored.payload).map_err(corrupt)?;
            line(json!({
                "seq": stored.seq, "at": stored.at.millis(), "kind": stored.kind, "payload": stored.payload,
                "prev_hash": stored.prev_hash.to_string(), "hash": stored.hash.to_string(),
            }));
            fold(&mut self.state, &Recorded { seq: stored.seq, at: stored.at, event });
        }
        if self.rest == Rest::Nothing {
            line(json!({"seq": self.state.seq, "state_hash": self.state.hash()}));
        }
        Ok(lines)
    }
}

/// Returns the state right after an event.
#[boxed]
pub async fn state_at(engine: &Engine, id: SessionId, seq: u64) -> Result<State, OpError> {
    let mut state = State::default();
    crate::open_session::each_event(engine, id, |recorded| {
        if recorded.seq <= seq {
            fold(&mut state, &recorded);
        }
        Ok(())
    })
    .await?;
    match state.seq == seq {
        true => Ok(state),
        false => Err(OpError::NoEvent { session: id, seq, last: state.seq }),
    }
}
