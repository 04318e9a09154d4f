//! `/pool`

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json as Answer;
use axum::extract::State;
use stead_core::Timestamp;
use stead_engine::ops;

use crate::app::App;
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;
use crate::wire::IntoWire as _;
use stead_api::list::List;
use stead_api::provider::PoolEntry;

/// List the warm pools by agent type, with their hits and misses.
#[utoipa::path(get, path = "/pool", tag = "providers", operation_id = "list_pool",
    responses((status = 200, body = List<PoolEntry>)))]
pub(crate) async fn list(State(app): State<App>, _: Query<Nothing>) -> Result<Answer<List<PoolEntry>>, Problem> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    let entries = ops::pool(&app.engine).into_iter().map(|report| (report, now).into_wire());
    Ok(Answer(List::whole(entries.collect())))
}
