//! Reads and exports the audit log.

use stead_store::{AuditOrder, AuditQuery, AuditRow};

use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::boxed;

const PAGE: u32 = 500;

#[boxed]
pub async fn audit(engine: &Engine, query: AuditQuery) -> Result<Vec<AuditRow>, OpError> {
    Ok(engine.store().audit(query).await?)
}

/// All records that match a query, read page by page as fast as the client reads.
pub struct AuditLines {
    engine: Engine,
    query: Option<AuditQuery>,
}

/// Exports every matching record. The limit of the query does not apply.
pub fn export_audit(engine: &Engine, query: AuditQuery) -> AuditLines {
    AuditLines { engine: engine.clone(), query: Some(AuditQuery { limit: PAGE, ..query }) }
}

impl AuditLines {
    /// Returns the next records, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<AuditRow>>, OpError> {
        let Some(query) = self.query.take() else { return Ok(None) };
        let rows = self.engine.store().audit(query.clone()).await?;
        if let Some(last) = rows.last().filter(|_| rows.len() == PAGE as usize) {
            self.query = Some(match query.order {
                AuditOrder::OldestFirst => AuditQuery { after: last.id, ..query },
                AuditOrder::NewestFirst => AuditQuery { before: Some(last.id), ..query },
            });
        }
        Ok((!rows.is_empty()).then_some(rows))
    }
}
