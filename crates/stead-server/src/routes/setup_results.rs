//! `/setup-results`: kept results of setup commands.

use axum::Json as Answer;
use axum::extract::State;
use http::StatusCode;
use stead_engine::ops;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::path::SetupResultPath;
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;
use crate::wire::IntoWire as _;
use stead_api::list::List;
use stead_api::provider::SetupResult;

/// List the kept setup results, the most recently used first.
#[utoipa::path(get, path = "/setup-results", tag = "providers", operation_id = "list_setup_results",
    responses((status = 200, body = List<SetupResult>)))]
pub(crate) async fn list(State(app): State<App>, _: Query<Nothing>) -> Result<Answer<List<SetupResult>>, Problem> {
    Ok(Answer(List::whole(ops::setup_results(&app.engine).await?.into_wire())))
}

/// Remove a kept setup result.
///
/// No later session begins with it. Its files stay while a workspace uses them.
#[utoipa::path(delete, path = "/setup-results/{id}", tag = "providers", operation_id = "remove_setup_result",
    params(("id" = String, Path, description = "Id of the result.")),
    responses((status = 204, description = "It is gone."), (status = 404)))]
pub(crate) async fn remove(
    State(app): State<App>,
    Caller(actor): Caller,
    SetupResultPath(id): SetupResultPath,
    _: Query<Nothing>,
) -> Result<StatusCode, Problem> {
    ops::remove_setup_result(&app.engine, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
