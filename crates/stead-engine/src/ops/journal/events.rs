//! Reads a session's journal.

use stead_core::{Resource, SessionId};
use stead_store::StoredEvent;

use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::boxed;

/// Maximum number of bytes of events per page. A page always has at least one event.
const PAGE_BYTES: usize = 4 << 20;
/// Number of rows per query.
const ROWS: u32 = 32;

/// A page of events. `more` is true if further events follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    pub events: Vec<StoredEvent>,
    pub more: bool,
}

/// Returns the events after a sequence number, in order. A page has at most `limit` events and a
/// limited number of bytes.
#[boxed]
pub async fn events(engine: &Engine, id: SessionId, after: u64, limit: u32) -> Result<EventPage, OpError> {
    let head = engine.store().head(id).await?;
    let head = head.ok_or_else(|| OpError::NotFound { what: Resource::Session, id: id.to_string() })?;
    let (mut events, mut last, mut bytes) = (Vec::new(), after, 0);
    let wanted = |events: &Vec<StoredEvent>| limit.saturating_sub(u32::try_from(events.len()).unwrap_or(u32::MAX));
    while wanted(&events) > 0 && bytes < PAGE_BYTES {
        let rows = engine.store().events(id, last, wanted(&events).min(ROWS)).await?;
        let Some(end) = rows.last() else { break };
        last = end.seq;
        for row in rows {
            bytes += row.payload.len();
            if bytes > PAGE_BYTES && !events.is_empty() {
                return Ok(EventPage { events, more: true });
            }
            events.push(row);
        }
    }
    Ok(EventPage { more: last < head.seq, events })
}
