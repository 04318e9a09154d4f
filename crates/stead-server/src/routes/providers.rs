//! `/providers`

use axum::Json as Answer;
use axum::extract::State;
use stead_engine::ops;

use crate::app::App;
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;
use crate::wire::IntoWire as _;
use stead_api::list::List;
use stead_api::provider::Provider;

/// List the providers of this server with their health and capabilities.
#[utoipa::path(get, path = "/providers", tag = "providers", operation_id = "list_providers",
    responses((status = 200, body = List<Provider>)))]
pub(crate) async fn list(State(app): State<App>, _: Query<Nothing>) -> Result<Answer<List<Provider>>, Problem> {
    let reports = ops::providers(&app.engine).await;
    Ok(Answer(List::whole(reports.into_wire())))
}
