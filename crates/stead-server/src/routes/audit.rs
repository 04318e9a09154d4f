//! `/audit`

use axum::Json as Answer;
use axum::extract::State;
use stead_core::{AuditKind, SessionId};
use stead_engine::ops;
use stead_store::{AuditOrder, AuditQuery, AuditRow};
use utoipa::IntoParams;

use crate::app::App;
use crate::extract::query::{Parameters, Query, ReadQuery};
use crate::problem::Problem;
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
        Self(AuditQuery { session, kind, after: after.unwrap_or(0), before, order, limit })
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
#[utoipa::path(get, path = "/audit", tag = "audit", operation_id = "list_audit", params(AuditParams),
    responses((status = 200, body = List<AuditRecord>)))]
pub(crate) async fn list(
    State(app): State<App>,
    Query(Filter(query)): Query<Filter>,
) -> Result<Answer<List<AuditRecord>>, Problem> {
    let limit = query.limit;
    let found = ops::audit(&app.engine, AuditQuery { limit: limit + 1, ..query }).await?;
    Ok(Answer(List::page(found, limit, |row: &AuditRow| row.id.to_string(), IntoWire::into_wire)))
}
