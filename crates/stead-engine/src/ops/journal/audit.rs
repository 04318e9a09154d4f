//! Reads the audit log.

use stead_store::{AuditQuery, AuditRow};

use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::boxed;

#[boxed]
pub async fn audit(engine: &Engine, query: AuditQuery) -> Result<Vec<AuditRow>, OpError> {
    Ok(engine.store().audit(query).await?)
}
