//! Read a session's journal.

use stead_core::SessionId;
use stead_store::StoredEvent;

use crate::engine::Engine;
use crate::error::OpError;

/// The events after a sequence number, in order.
pub async fn events(engine: &Engine, id: SessionId, after: u64, limit: u32) -> Result<Vec<StoredEvent>, OpError> {
    let events = engine.store().events(id, after, limit).await?;
    if events.is_empty() && engine.store().head(id).await?.is_none() {
        return Err(OpError::NotFound { what: "session", id: id.to_string() });
    }
    Ok(events)
}
