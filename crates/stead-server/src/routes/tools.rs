//! `/tools` and `/sessions/{id}/tools/{tool}`

use axum::Json as Answer;
use axum::extract::State;
use stead_engine::ops;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::body::Arguments;
use crate::extract::path::{SessionPath, ToolPath};
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;
use crate::wire::IntoWire as _;
use stead_api::list::List;
use stead_api::schema;
use stead_api::tool::{Definition, Tool, ToolAnswer};

/// List all tools with their parameters.
#[utoipa::path(get, path = "/tools", tag = "tools", operation_id = "list_tools",
    responses((status = 200, body = List<Tool>)))]
pub(crate) async fn list(_: Query<Nothing>) -> Result<Answer<List<Tool>>, Problem> {
    Ok(Answer(List::whole(Definition::all().map(Tool::from).collect())))
}

/// Call a tool of an active session.
///
/// A tool that ran and failed gives status 200 with `ok: false`.
#[utoipa::path(post, path = "/sessions/{id}/tools/{tool}", tag = "tools", operation_id = "call_tool",
    params(("id" = schema::SessionId, Path), ("tool" = schema::ToolName, Path, description = "A tool's name or one of its aliases.")),
    request_body = schema::ToolArguments,
    responses((status = 200, body = ToolAnswer), (status = 409)))]
pub(crate) async fn call(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    ToolPath(tool): ToolPath,
    _: Query<Nothing>,
    Arguments(arguments): Arguments,
) -> Result<Answer<ToolAnswer>, Problem> {
    Ok(Answer(ops::call_tool(&app.engine, &actor, id, tool, arguments).await?.into_wire()))
}
