//! `/pool`

use axum::Json as Answer;

use crate::problem::Problem;
use crate::query::{Nothing, Query};
use crate::wire::list::List;
use crate::wire::provider::PoolEntry;

/// Lists the boxes kept ready. No provider keeps any yet, so the list is empty.
#[utoipa::path(get, path = "/pool", tag = "providers", operation_id = "list_pool",
    responses((status = 200, body = List<PoolEntry>)))]
pub(crate) async fn list(_: Query<Nothing>) -> Result<Answer<List<PoolEntry>>, Problem> {
    Ok(Answer(List::whole(Vec::new())))
}
