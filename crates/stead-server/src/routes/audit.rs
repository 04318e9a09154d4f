//! `/audit`

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use stead_core::{AuditKind, Name, SessionId, Timestamp, TokenId};
use stead_engine::ops;
use stead_store::{AuditOrder, AuditQuery, AuditRow};
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Tenancy;
use crate::extract::headers::AcceptsLines;
use crate::extract::query::{Parameters, Query, ReadQuery};
use crate::problem::Problem;
use crate::respond::download;
use crate::routes::paging;
use crate::wire::IntoWire;
use stead_api::audit::AuditRecord;
use stead_api::list::List;
use stead_api::schema;

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; Filter holds them")]
pub(crate) struct AuditParams {
    /// Only records about this session.
    #[param(value_type = Option<schema::SessionId>)]
    session: Option<String>,
    /// Only records of this type.
    #[param(rename = "type", value_type = Option<schema::AuditType>)]
    kind: Option<String>,
    /// Only records of this caller, such as `user:alice@web`.
    #[param(min_length = 1, max_length = 256)]
    actor: Option<String>,
    /// Only records of callers with this token.
    #[param(value_type = Option<schema::TokenId>)]
    token: Option<String>,
    /// Only records about this project.
    #[param(value_type = Option<schema::Name>)]
    project: Option<String>,
    /// Only records from this time on.
    #[param(value_type = Option<schema::Timestamp>)]
    from: Option<String>,
    /// Only records before this time.
    #[param(value_type = Option<schema::Timestamp>)]
    to: Option<String>,
    /// Only records with a larger id than this.
    #[param(minimum = 0, maximum = 9007199254740992_u64)]
    after: Option<u64>,
    /// `next_cursor` of the previous page. With `oldest` it means the same as `after` and takes
    /// precedence over it.
    #[param(minimum = 0, maximum = 9007199254740992_u64)]
    cursor: Option<u64>,
    /// Maximum number of records; 50 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `oldest` first (the default), or `newest` first. With `newest`, the next page has older
    /// records.
    #[param(pattern = "^(oldest|newest)$")]
    order: Option<String>,
}

pub(crate) struct Filter(AuditQuery);

impl ReadQuery for Filter {
    fn read(parameters: &mut Parameters) -> Self {
        let (session, kind) = (parameters.parsed::<SessionId>("session"), parameters.parsed::<AuditKind>("type"));
        let (kind, limit) = (kind.map(|kind| kind.to_string()), paging::limit(parameters));
        let order = parameters.parsed::<Order>("order").map_or(AuditOrder::OldestFirst, |order| order.0);
        let number = |id: Option<u64>| id.map(|id| i64::try_from(id).unwrap_or(i64::MAX));
        let (after, before) = match order {
            AuditOrder::OldestFirst => (number(paging::after(parameters)), None),
            AuditOrder::NewestFirst => {
                let ids = |name| parameters.number(name, 0..=1 << 53);
                let [after, cursor] = ["after", "cursor"].map(ids);
                (number(after), number(cursor))
            }
        };
        Self(AuditQuery {
            session,
            kind,
            actor: parameters.text("actor", 256),
            token: parameters.parsed::<TokenId>("token"),
            project: parameters.parsed::<Name>("project").map(String::from),
            from: parameters.parsed::<Timestamp>("from"),
            to: parameters.parsed::<Timestamp>("to"),
            after: after.unwrap_or(0),
            before,
            order,
            limit,
        })
    }
}

struct Order(AuditOrder);

impl std::str::FromStr for Order {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "oldest" => Ok(Self(AuditOrder::OldestFirst)),
            "newest" => Ok(Self(AuditOrder::NewestFirst)),
            _ => Err("must be oldest or newest"),
        }
    }
}

/// List audit records: what callers were allowed, refused, and changed.
///
/// With `Accept: application/x-ndjson` the response has every matching record, one per line.
/// `limit` then has no effect.
#[utoipa::path(get, path = "/audit", tag = "audit", operation_id = "list_audit", params(AuditParams),
    responses((status = 200, content((List<AuditRecord> = "application/json"), (schema::Bytes = "application/x-ndjson")))))]
pub(crate) async fn list(
    State(app): State<App>,
    tenancy: Tenancy,
    Query(Filter(mut query)): Query<Filter>,
    AcceptsLines(lines): AcceptsLines,
) -> Result<Response, Problem> {
    let project = query.project.map(|project| project.parse()).transpose();
    let project = project.map_err(|_| Problem::invalid("project", "is not a name"))?;
    query.project = tenancy.project(project)?.map(String::from);
    if lines {
        return Ok(export(&app, query));
    }
    let limit = query.limit;
    let found = ops::audit(&app.engine, AuditQuery { limit: limit + 1, ..query }).await?;
    let list = List::page(found, limit, |row: &AuditRow| row.id.to_string(), IntoWire::into_wire);
    Ok(Answer::<List<AuditRecord>>(list).into_response())
}

fn export(app: &App, query: AuditQuery) -> Response {
    let lines = ops::export_audit(&app.engine, query);
    let pieces = stream::try_unfold(lines, |mut lines| async {
        let rows = lines.next().await?;
        Ok(rows.map(|rows| (text_of(rows), lines)))
    });
    download::streamed(pieces, "application/x-ndjson")
}

fn text_of(rows: Vec<AuditRow>) -> Bytes {
    let mut text = String::new();
    for record in rows.into_iter().map(IntoWire::into_wire) {
        // A record always serialises, because all its keys are strings.
        text.push_str(&serde_json::to_string(&record).unwrap_or_default());
        text.push('\n');
    }
    text.into()
}
