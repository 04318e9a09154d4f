//! `/usage`, `/usage/history` and `/sessions/{id}/usage`

use axum::Json as Answer;
use axum::extract::State;
use stead_core::usage::UsageGroup;
use stead_core::{Day, Name, Timestamp};
use stead_engine::ops;
use stead_store::UsageRow;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Tenancy;
use crate::extract::path::SessionPath;
use crate::extract::query::{Nothing, Parameters, Query, ReadQuery};
use crate::problem::Problem;
use crate::routes::paging;
use crate::wire::IntoWire as _;
use stead_api::list::List;
use stead_api::schema;
use stead_api::usage::{Usage, UsageDay, WorkspaceUsage};

/// Number of days without `from`, counting the last one.
const DEFAULT_DAYS: i64 = 30;
/// Largest number of days of one request.
const MAX_DAYS: i64 = 366;

/// Show the disk usage of workspaces, layers, mirrors and blobs.
#[utoipa::path(get, path = "/usage", tag = "providers", operation_id = "usage", responses((status = 200, body = Usage)))]
pub(crate) async fn show(State(app): State<App>, _: Query<Nothing>) -> Result<Answer<Usage>, Problem> {
    Ok(Answer(ops::usage(&app.engine).await?.into_wire()))
}

/// Show the disk usage of a session's workspace; `null` if it has none.
#[utoipa::path(get, path = "/sessions/{id}/usage", tag = "sessions", operation_id = "session_usage",
    params(("id" = schema::SessionId, Path)), responses((status = 200, body = Option<WorkspaceUsage>)))]
pub(crate) async fn of_session(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
) -> Result<Answer<Option<WorkspaceUsage>>, Problem> {
    Ok(Answer(ops::session_usage(&app.engine, id).await?.into_wire()))
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; History holds them")]
pub(crate) struct HistoryParams {
    /// One row per day and `project` (the default), `user` of a project, or `agent_type` of a
    /// project.
    #[param(value_type = Option<schema::UsageGroup>)]
    by: Option<String>,
    /// Only sessions of this project.
    #[param(value_type = Option<schema::Name>)]
    project: Option<String>,
    /// First day: a date such as `2026-11-16`, or a time on that day. 30 days by default, and at
    /// most 366 per request.
    #[param(min_length = 10, max_length = 40)]
    from: Option<String>,
    /// End: only days that begin before this date or time. By default the current day is the last
    /// one.
    #[param(min_length = 10, max_length = 40)]
    to: Option<String>,
    /// Maximum number of rows; 50 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next_cursor` of the previous page.
    #[param(min_length = 12, max_length = 140)]
    cursor: Option<String>,
}

pub(crate) struct History {
    by: UsageGroup,
    project: Option<Name>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    limit: u32,
    cursor: Option<Position>,
}

impl ReadQuery for History {
    fn read(parameters: &mut Parameters) -> Self {
        let [from, to] = ["from", "to"].map(|name| parameters.parsed::<DateOrTime>(name).map(|given| given.0));
        Self {
            by: parameters.parsed("by").unwrap_or(UsageGroup::Project),
            project: parameters.parsed("project"),
            from,
            to,
            limit: paging::limit(parameters),
            cursor: parameters.parsed("cursor"),
        }
    }
}

impl History {
    /// Returns the first day and the one after the last.
    fn days(&self, now: Timestamp) -> Result<(Day, Day), Problem> {
        let end = self.to.map_or_else(
            || Day::of(now).plus(1),
            // A day that begins at this time is not included.
            |to| Day::of(Timestamp::from_millis(to.millis() - 1)).plus(1),
        );
        let first = self.from.map_or_else(|| end.plus(-DEFAULT_DAYS), Day::of);
        if first >= end {
            return Err(Problem::invalid("from", format!("must be before the end, which is {end}")));
        }
        if end.number() - first.number() > MAX_DAYS {
            return Err(Problem::invalid(
                "from",
                format!("the period may have at most {MAX_DAYS} days: also give `to`"),
            ));
        }
        Ok((first, end))
    }
}

/// A date, which stands for its beginning, or a time.
struct DateOrTime(Timestamp);

impl std::str::FromStr for DateOrTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let date = text.parse::<Day>().map(|day| Self(day.start()));
        date.or_else(|_| text.parse().map(Self)).map_err(|_: stead_core::time::InvalidTimestamp| {
            let shown: String = text.chars().take(80).collect();
            format!("{shown:?} is neither a date such as 2026-11-16 nor an RFC 3339 time such as 2026-11-16T09:30:00Z")
        })
    }
}

/// The place of a row in the list: day, project and name. An empty text stands for none.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Position(Day, String, String);

impl Position {
    fn of(row: &UsageRow) -> Self {
        Self(row.day, row.project.clone().unwrap_or_default(), row.name.clone().unwrap_or_default())
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.0, self.1, self.2)
    }
}

impl std::str::FromStr for Position {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "is not the next_cursor of a page";
        let mut parts = text.splitn(3, '/');
        let (Some(day), Some(project), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(wrong);
        };
        Ok(Self(day.parse().map_err(|_| wrong)?, project.to_owned(), name.to_owned()))
    }
}

/// List what sessions reserved per day (UTC), for billing.
///
/// The rows are sorted by day. A group without sessions on a day has no row. The numbers are limits
/// that were reserved, times the time that they were, and not measurements of what ran. Live
/// sessions count up to now. Sessions that were live when the server got this feature count from
/// then on.
#[utoipa::path(get, path = "/usage/history", tag = "projects", operation_id = "usage_history", params(HistoryParams),
    responses((status = 200, body = List<UsageDay>)))]
pub(crate) async fn history(
    State(app): State<App>,
    tenancy: Tenancy,
    Query(query): Query<History>,
) -> Result<Answer<List<UsageDay>>, Problem> {
    let (first, end) = query.days(app.engine.now())?;
    let project = tenancy.project(query.project)?;
    let mut found = ops::usage_history(&app.engine, query.by, project.as_ref(), first, end).await?;
    if let Some(cursor) = &query.cursor {
        found.retain(|row| Position::of(row) > *cursor);
    }
    let shown = |row: UsageRow| UsageDay::new(row.day, row.project, row.name, &row.sums);
    Ok(Answer(List::page(found, query.limit, |row| Position::of(row).to_string(), shown)))
}
