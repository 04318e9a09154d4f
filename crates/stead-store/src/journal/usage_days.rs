//! The usage of sessions per day, for each project, user and agent type.
//!
//! A commit that changes a reservation adds the time since the last change, in the same
//! transaction. A live session has the rest in the column `since` of its reservation. Reading
//! therefore needs the sums and the live reservations, but no journal. Commits hold the row of the
//! platform in `counters` while they change a sum here, so two of them cannot deadlock.
//!
//! Tool calls are counted per session in `tool_calls`, with the event of the call. Sessions of a
//! project thus do not wait for each other. The commit that ends a session moves its counts here.
//!
//! The table is derived from the journals and the ledger does not cover it.

use std::collections::BTreeMap;

use stead_core::admission::Amounts;
use stead_core::time::Day;
use stead_core::usage::{UsageGroup, UsageSums, by_day};
use stead_core::{SessionId, Timestamp};

use crate::database::sql::{Conn, Statement, values};
use crate::error::StoreError;
use crate::journal::commit::NewEvent;
use crate::journal::reservations::Reservation;

/// A large sum has two columns, because bytes times milliseconds do not fit into one for long.
const LOW_BITS: u32 = 40;

/// The event kind that counts as a tool call.
const TOOL_CALL: &str = "ToolCallStarted";

/// The usage of the days from `first` up to `end`, which is not included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageQuery {
    pub by: UsageGroup,
    /// `None` for all projects.
    pub project: Option<String>,
    pub first: Day,
    pub end: Day,
    /// The time up to which live sessions count.
    pub now: Timestamp,
}

/// The usage of one group on one day. `name` is that of the project, the user or the agent type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    pub day: Day,
    pub project: Option<String>,
    pub name: Option<String>,
    pub sums: UsageSums,
}

/// The statements that count a change of a session's reservation.
pub(super) fn change(before: Option<&Reservation>, created: Option<&Reservation>, at: Timestamp) -> Vec<Statement> {
    let spent = before.into_iter().flat_map(|held| {
        let used = |(day, millis)| add(held, day, &UsageSums::of(&held.amounts, millis));
        by_day(held.since, at).into_iter().map(used)
    });
    let created = created.map(|new| {
        let one = UsageSums { sessions_created: 1, ..UsageSums::default() };
        add(new, Day::of(at), &one)
    });
    spent.chain(created).collect()
}

/// The statement that counts the tool calls of a commit. `None` if it has none.
pub(super) fn count_calls(session: SessionId, events: &[NewEvent], at: Timestamp) -> Option<Statement> {
    let calls = events.iter().filter(|event| event.kind == TOOL_CALL).count() as u64;
    (calls > 0).then(|| Statement {
        sql: "INSERT INTO tool_calls (session, day, calls) VALUES ($1, $2, $3) \
              ON CONFLICT (session, day) DO UPDATE SET calls = tool_calls.calls + excluded.calls",
        values: values![session, Day::of(at).number(), calls],
    })
}

/// The statements that move the tool calls of a session that ends.
pub(super) async fn move_calls(
    conn: &mut Conn<'_>,
    session: SessionId,
    held: &Reservation,
) -> Result<Vec<Statement>, StoreError> {
    let sql = "SELECT day, calls FROM tool_calls WHERE session = $1 ORDER BY day";
    let rows: Vec<(i64, i64)> = conn.all("read a session's tool calls", sql, values![session]).await?;
    let moved = rows.into_iter().flat_map(|(day, calls)| {
        let sums = UsageSums { tool_calls: u64::try_from(calls).unwrap_or(0), ..UsageSums::default() };
        let sql = "DELETE FROM tool_calls WHERE session = $1 AND day = $2";
        [add(held, Day::from_number(day), &sums), Statement { sql, values: values![session, day] }]
    });
    Ok(moved.collect())
}

fn add(held: &Reservation, day: Day, sums: &UsageSums) -> Statement {
    let [cpu, memory, disk] = [sums.cpu, sums.memory, sums.disk].map(split);
    Statement {
        sql: "INSERT INTO usage_days (day, project, owner, agent_type, sessions_created, session_ms, box_ms, \
              cpu_high, cpu_low, memory_high, memory_low, disk_high, disk_low, tool_calls) \
              VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) \
              ON CONFLICT (day, project, owner, agent_type) DO UPDATE SET \
              sessions_created = usage_days.sessions_created + excluded.sessions_created, \
              tool_calls = usage_days.tool_calls + excluded.tool_calls, \
              session_ms = usage_days.session_ms + excluded.session_ms, \
              box_ms = usage_days.box_ms + excluded.box_ms, \
              cpu_high = usage_days.cpu_high + excluded.cpu_high \
              + (usage_days.cpu_low + excluded.cpu_low) / 1099511627776, \
              cpu_low = (usage_days.cpu_low + excluded.cpu_low) % 1099511627776, \
              memory_high = usage_days.memory_high + excluded.memory_high \
              + (usage_days.memory_low + excluded.memory_low) / 1099511627776, \
              memory_low = (usage_days.memory_low + excluded.memory_low) % 1099511627776, \
              disk_high = usage_days.disk_high + excluded.disk_high \
              + (usage_days.disk_low + excluded.disk_low) / 1099511627776, \
              disk_low = (usage_days.disk_low + excluded.disk_low) % 1099511627776",
        values: values![
            day.number(),
            held.project.clone().unwrap_or_default(),
            held.owner.clone().unwrap_or_default(),
            held.agent_type.clone(),
            sums.sessions_created,
            sums.session_millis,
            sums.box_millis,
            cpu.0,
            cpu.1,
            memory.0,
            memory.1,
            disk.0,
            disk.1,
            sums.tool_calls
        ],
    }
}

/// The two columns of a sum.
fn split(sum: u128) -> (i64, i64) {
    let low = sum & ((1 << LOW_BITS) - 1);
    (i64::try_from(sum >> LOW_BITS).unwrap_or(i64::MAX), i64::try_from(low).unwrap_or(0))
}

fn joined(high: i64, low: i64) -> u128 {
    let positive = |part: i64| u128::try_from(part).unwrap_or(0);
    (positive(high) << LOW_BITS) + positive(low)
}

/// The stored sums of each day and group, the live reservations, and their tool calls. One
/// statement, so that all are of one moment. `at` is a time in the second and a day's number in the
/// others.
macro_rules! select {
    ($group:literal, $of_live:literal, $of_call:literal) => {
        concat!(
            "SELECT CAST(0 AS BIGINT) AS live, day AS at, project, ",
            $group,
            " AS name, CAST(SUM(sessions_created) AS BIGINT) AS created, CAST(SUM(session_ms) AS BIGINT) AS session, ",
            "CAST(SUM(box_ms) AS BIGINT) AS boxes, ",
            "CAST(SUM(cpu_high) AS BIGINT) AS cpu_high, CAST(SUM(cpu_low) AS BIGINT) AS cpu_low, ",
            "CAST(SUM(memory_high) AS BIGINT) AS memory_high, CAST(SUM(memory_low) AS BIGINT) AS memory_low, ",
            "CAST(SUM(disk_high) AS BIGINT) AS disk_high, CAST(SUM(disk_low) AS BIGINT) AS disk_low, ",
            "CAST(SUM(tool_calls) AS BIGINT) AS calls ",
            "FROM usage_days WHERE day >= $1 AND day < $2 AND ($3 = '' OR project = $3) GROUP BY day, project, ",
            $group,
            " UNION ALL SELECT CAST(1 AS BIGINT), since, COALESCE(project, ''), ",
            $of_live,
            ", CAST(0 AS BIGINT), CAST(1 AS BIGINT), boxes, CAST(0 AS BIGINT), cpu_millis, CAST(0 AS BIGINT), ",
            "memory_bytes, CAST(0 AS BIGINT), disk_bytes, CAST(0 AS BIGINT) ",
            "FROM reservations WHERE ($3 = '' OR project = $3) ",
            "UNION ALL SELECT CAST(0 AS BIGINT), t.day, COALESCE(r.project, ''), ",
            $of_call,
            ", CAST(0 AS BIGINT), CAST(0 AS BIGINT), CAST(0 AS BIGINT), CAST(0 AS BIGINT), CAST(0 AS BIGINT), ",
            "CAST(0 AS BIGINT), CAST(0 AS BIGINT), CAST(0 AS BIGINT), CAST(0 AS BIGINT), t.calls ",
            "FROM tool_calls t JOIN reservations r ON r.session = t.session ",
            "WHERE t.day >= $1 AND t.day < $2 AND ($3 = '' OR r.project = $3)"
        )
    };
}

#[derive(sqlx::FromRow)]
struct Row {
    live: i64,
    at: i64,
    project: String,
    name: String,
    created: i64,
    session: i64,
    boxes: i64,
    cpu_high: i64,
    cpu_low: i64,
    memory_high: i64,
    memory_low: i64,
    disk_high: i64,
    disk_low: i64,
    calls: i64,
}

/// Reads the history, sorted by day, project and name.
pub(crate) async fn select(conn: &mut Conn<'_>, query: &UsageQuery) -> Result<Vec<UsageRow>, StoreError> {
    let sql = match query.by {
        UsageGroup::Project => select!("project", "COALESCE(project, '')", "COALESCE(r.project, '')"),
        UsageGroup::User => select!("owner", "COALESCE(owner, '')", "COALESCE(r.owner, '')"),
        UsageGroup::AgentType => select!("agent_type", "agent_type", "r.agent_type"),
    };
    let project = query.project.clone().unwrap_or_default();
    let values = values![query.first.number(), query.end.number(), project];
    let rows: Vec<Row> = conn.all("read the usage history", sql, values).await?;
    let mut groups: BTreeMap<(Day, String, String), UsageSums> = BTreeMap::new();
    for row in rows {
        for (day, sums) in row.days(query) {
            let key = (day, row.project.clone(), row.name.clone());
            groups.entry(key).or_default().add(&sums);
        }
    }
    let named = |text: String| Some(text).filter(|text| !text.is_empty());
    let read = |((day, project, name), sums)| UsageRow { day, project: named(project), name: named(name), sums };
    Ok(groups.into_iter().map(read).collect())
}

impl Row {
    fn days(&self, query: &UsageQuery) -> Vec<(Day, UsageSums)> {
        let positive = |number: i64| u64::try_from(number).unwrap_or(0);
        if self.live == 0 {
            let sums = UsageSums {
                sessions_created: positive(self.created),
                tool_calls: positive(self.calls),
                session_millis: positive(self.session),
                box_millis: positive(self.boxes),
                cpu: joined(self.cpu_high, self.cpu_low),
                memory: joined(self.memory_high, self.memory_low),
                disk: joined(self.disk_high, self.disk_low),
            };
            return vec![(Day::from_number(self.at), sums)];
        }
        let amounts = Amounts {
            sessions: 1,
            boxes: positive(self.boxes),
            cpu_millis: positive(self.cpu_low),
            memory_bytes: positive(self.memory_low),
            disk_bytes: positive(self.disk_low),
        };
        let days = by_day(Timestamp::from_millis(self.at), query.now).into_iter();
        let asked = days.filter(|(day, _)| *day >= query.first && *day < query.end);
        asked.map(|(day, millis)| (day, UsageSums::of(&amounts, millis))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_survives_its_two_columns() {
        assert_eq!(1_i64 << LOW_BITS, 1_099_511_627_776, "the number in the statement");
        for sum in [0, 1, (1 << 40) - 1, 1 << 40, u128::from(u64::MAX) * 86_400_000] {
            let (high, low) = split(sum);
            assert_eq!(joined(high, low), sum);
            assert!(low < 1 << LOW_BITS);
        }
    }
}
