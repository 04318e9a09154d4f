//! Reservations of live sessions, and the sums per scope that admission compares with quotas. The
//! disk of a project also has what it keeps outside of sessions (`tables/project_storage.rs`).
//!
//! A commit changes both tables in its own transaction, only when a session begins or ends to live
//! or to hold a workspace. An admission therefore reads a few rows, whatever the number of live
//! sessions.
//!
//! Invariant: the sums equal the rows of both tables, and there is a row for every live session.
//! [`settle`] restores it when a server takes the database over. The tables are derived data, so
//! the ledger does not cover them.

use std::collections::{BTreeMap, HashMap};

use stead_core::admission::{self, Allowed, Amounts, Limit, Quantity, QuotaExceeded, Resources, Scope};
use stead_core::{Event, SessionId, Timestamp};

use crate::database::sql::{Conn, Statement, values};
use crate::error::StoreError;
use crate::journal::commit::{Commit, CommitError};

/// The limits that a new session must fit into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Number of equal sessions that must fit, counting this one. The request that creates several
    /// sessions creates all or none.
    pub places: u32,
    /// At most one per kind of scope.
    pub limits: Vec<Limit>,
}

/// Number of scopes that one statement reads: the platform, the host, a project, a user and an
/// agent type.
const SCOPES: usize = 5;

/// The largest sum of any quantity. The database's integers hold twice as much.
const CEILING: u64 = 1 << 62;

/// The limits that no sum may exceed.
pub(crate) const CEILINGS: Allowed = Allowed {
    sessions: None,
    boxes: None,
    cpu_millis: Some(CEILING),
    memory_bytes: Some(CEILING),
    disk_bytes: Some(CEILING),
};

/// The row of a live session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reservation {
    pub(super) project: Option<String>,
    pub(super) owner: Option<String>,
    pub(super) agent_type: String,
    pub(super) amounts: Amounts,
    on_host: bool,
    /// The time from which the reservation is not yet in `usage_days`.
    pub(super) since: Timestamp,
}

impl Reservation {
    /// Returns what the session reserves after the commit. `None` if it does not live. `before` has
    /// the owner, which never changes.
    pub(super) fn after(commit: &Commit, before: Option<&Self>) -> Option<Self> {
        let head = &commit.head;
        let held = head.resources;
        head.live.then(|| Self {
            project: head.project.clone(),
            owner: before.map_or_else(|| commit.owner.clone(), |before| before.owner.clone()),
            agent_type: head.agent_type.clone(),
            amounts: amounts(head.holds_workspace, held),
            on_host: held.on_host,
            since: commit.at,
        })
    }

    /// Returns the part of this reservation that another one does not have yet.
    pub(super) fn beyond(mut self, before: &Self) -> Self {
        let (own, held) = (&mut self.amounts, &before.amounts);
        own.sessions = own.sessions.saturating_sub(held.sessions);
        own.boxes = own.boxes.saturating_sub(held.boxes);
        own.cpu_millis = own.cpu_millis.saturating_sub(held.cpu_millis);
        own.memory_bytes = own.memory_bytes.saturating_sub(held.memory_bytes);
        own.disk_bytes = own.disk_bytes.saturating_sub(held.disk_bytes);
        self
    }

    /// The scopes that count the session.
    fn scopes(&self) -> Vec<Scope> {
        let mut scopes = vec![Scope::Platform];
        if self.on_host {
            scopes.push(Scope::Host);
        }
        let Some(project) = &self.project else { return scopes };
        scopes.push(Scope::Project { project: project.clone() });
        if let Some(user) = &self.owner {
            scopes.push(Scope::User { project: project.clone(), user: user.clone() });
        }
        scopes.push(Scope::AgentType { project: project.clone(), agent_type: self.agent_type.clone() });
        scopes
    }

    fn insert(&self, session: &str) -> Statement {
        let Amounts { boxes, cpu_millis, memory_bytes, disk_bytes, .. } = self.amounts;
        Statement {
            sql: "INSERT INTO reservations \
                  (session, project, owner, agent_type, boxes, cpu_millis, memory_bytes, disk_bytes, on_host, since) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            values: values![
                session,
                self.project.clone(),
                self.owner.clone(),
                self.agent_type.clone(),
                boxes,
                cpu_millis,
                memory_bytes,
                disk_bytes,
                self.on_host,
                self.since
            ],
        }
    }
}

fn amounts(holds_workspace: bool, held: Resources) -> Amounts {
    Amounts {
        sessions: 1,
        boxes: u64::from(holds_workspace),
        cpu_millis: held.cpu_millis,
        memory_bytes: held.memory_bytes,
        disk_bytes: held.disk_bytes,
    }
}

/// Takes the lock of all sums.
///
/// On PostgreSQL the lock is the row of the platform, held until the transaction ends. READ
/// COMMITTED gives the next statement a snapshot taken after the lock was granted.
pub(crate) async fn lock(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    if let Conn::Postgres(_) = conn {
        let sql = "SELECT scope FROM counters WHERE scope = 'platform' FOR UPDATE";
        let _: Option<(String,)> = conn.optional("wait for admission", sql, values![]).await?;
    }
    Ok(())
}

/// Takes the lock of all sums, then refuses a session that does not fit into the limits.
pub(super) async fn admit(
    conn: &mut Conn<'_>,
    asked: &Reservation,
    admission: Option<&Admission>,
) -> Result<(), CommitError> {
    lock(conn).await?;
    let ceiling = Limit { scope: Scope::Platform, allowed: CEILINGS };
    let limits = admission.map_or(&[][..], |admission| &admission.limits);
    let places = admission.map_or(1, |admission| admission.places);
    let counted = asked.scopes();
    let used = sums(conn, limits).await?;
    for Limit { scope, allowed } in std::iter::once(&ceiling).chain(limits) {
        // A limit of a scope that does not count the session does not concern it.
        if !counted.contains(scope) {
            continue;
        }
        let used = used.get(&scope.to_string()).copied().unwrap_or_default();
        admission::admit(scope, &used, &asked.amounts.times(places), allowed)?;
    }
    Ok(())
}

/// Reads the sums of the platform and of the limits' scopes in one statement. A scope without
/// sessions may have no row.
async fn sums(conn: &mut Conn<'_>, limits: &[Limit]) -> Result<HashMap<String, Amounts>, CommitError> {
    let mut keys = vec![Scope::Platform.to_string()];
    keys.extend(limits.iter().filter(|limit| limit.scope != Scope::Platform).map(|limit| limit.scope.to_string()));
    let mut found = HashMap::new();
    for keys in keys.chunks(SCOPES) {
        let key = |index: usize| keys.get(index).or(keys.first()).cloned().unwrap_or_default();
        let sql = "SELECT scope, sessions, boxes, cpu_millis, memory_bytes, disk_bytes FROM counters \
                   WHERE scope IN ($1, $2, $3, $4, $5)";
        let rows: Vec<SumRow> = conn.all("read sums", sql, values![key(0), key(1), key(2), key(3), key(4)]).await?;
        found.extend(rows.into_iter().map(SumRow::read));
    }
    Ok(found)
}

/// Reads the sum of one scope.
pub(crate) async fn sum(conn: &mut Conn<'_>, scope: &Scope) -> Result<Amounts, StoreError> {
    let sql = "SELECT scope, sessions, boxes, cpu_millis, memory_bytes, disk_bytes FROM counters WHERE scope = $1";
    let row: Option<SumRow> = conn.optional("read a sum", sql, values![scope.to_string()]).await?;
    Ok(row.map(|row| row.read().1).unwrap_or_default())
}

/// The statement that changes the disk of a scope. The caller holds the lock of all sums.
pub(crate) fn add_disk(scope: &Scope, bytes: i64) -> Statement {
    add(scope, &Change([0, 0, 0, 0, bytes]))
}

/// Reads the row of a session.
pub(super) async fn select(conn: &mut Conn<'_>, session: SessionId) -> Result<Option<Reservation>, StoreError> {
    let sql = "SELECT project, owner, agent_type, boxes, cpu_millis, memory_bytes, disk_bytes, on_host, since \
               FROM reservations WHERE session = $1";
    let row: Option<ReservationRow> = conn.optional("read a reservation", sql, values![session]).await?;
    Ok(row.map(ReservationRow::read))
}

/// The statements that replace one reservation with another. Each changes one row. The sum of the
/// platform changes before the others.
pub(super) fn change(session: SessionId, before: Option<&Reservation>, after: Option<&Reservation>) -> Vec<Statement> {
    if before.is_none() && after.is_none() {
        return Vec::new();
    }
    let mut statements = Vec::new();
    if before.is_some() {
        let sql = "DELETE FROM reservations WHERE session = $1";
        statements.push(Statement { sql, values: values![session] });
    }
    statements.extend(after.map(|after| after.insert(&session.to_string())));
    let mut sums: BTreeMap<Scope, Change> = BTreeMap::new();
    for (reservation, sign) in [(before, -1), (after, 1)] {
        for scope in reservation.map(Reservation::scopes).unwrap_or_default() {
            sums.entry(scope).or_default().add(reservation, sign);
        }
    }
    let changed = sums.into_iter().filter(|(_, change)| *change != Change::default());
    statements.extend(changed.map(|(scope, change)| add(&scope, &change)));
    statements
}

fn add(scope: &Scope, change: &Change) -> Statement {
    let [sessions, boxes, cpu, memory, disk] = change.0;
    Statement {
        sql: "INSERT INTO counters (scope, sessions, boxes, cpu_millis, memory_bytes, disk_bytes) \
              VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (scope) DO UPDATE SET \
              sessions = counters.sessions + excluded.sessions, boxes = counters.boxes + excluded.boxes, \
              cpu_millis = counters.cpu_millis + excluded.cpu_millis, \
              memory_bytes = counters.memory_bytes + excluded.memory_bytes, \
              disk_bytes = counters.disk_bytes + excluded.disk_bytes",
        values: values![scope.to_string(), sessions, boxes, cpu, memory, disk],
    }
}

/// The change of a sum, in the order of the columns.
#[derive(Debug, Default, PartialEq, Eq)]
struct Change([i64; 5]);

impl Change {
    fn add(&mut self, reservation: Option<&Reservation>, sign: i64) {
        let Some(Amounts { sessions, boxes, cpu_millis, memory_bytes, disk_bytes }) =
            reservation.map(|reservation| reservation.amounts)
        else {
            return;
        };
        for (sum, amount) in self.0.iter_mut().zip([sessions, boxes, cpu_millis, memory_bytes, disk_bytes]) {
            *sum += sign * i64::try_from(amount).unwrap_or(i64::MAX / 2);
        }
    }
}

/// The sums of the scopes from `from` up to `until`, which is not included.
pub(crate) async fn between(
    conn: &mut Conn<'_>,
    from: &str,
    until: &str,
) -> Result<BTreeMap<String, Amounts>, StoreError> {
    let sql = "SELECT scope, sessions, boxes, cpu_millis, memory_bytes, disk_bytes FROM counters \
               WHERE scope >= $1 AND scope < $2 ORDER BY scope";
    let rows: Vec<SumRow> = conn.all("read sums", sql, values![from, until]).await?;
    Ok(rows.into_iter().map(SumRow::read).collect())
}

/// Removes reservations of sessions that do not live, adds missing ones from the journals, and
/// computes all sums again. Runs while no other write does.
pub(crate) async fn settle(conn: &mut Conn<'_>, now: Timestamp) -> Result<(), StoreError> {
    let sql = "DELETE FROM reservations WHERE NOT EXISTS \
               (SELECT 1 FROM sessions s WHERE s.id = reservations.session AND s.live = 1)";
    conn.execute("remove reservations of ended sessions", sql, values![]).await?;
    let mut after = String::new();
    loop {
        let sql = "SELECT s.id, s.agent_type, s.project, s.holds_workspace, e.payload FROM sessions s \
                   LEFT JOIN reservations r ON r.session = s.id \
                   LEFT JOIN events e ON e.session = s.id AND e.seq = 1 \
                   WHERE s.live = 1 AND r.session IS NULL AND s.id > $1 ORDER BY s.id LIMIT 500";
        let sought = conn.all("look for sessions without a reservation", sql, values![after]);
        let rows: Vec<LiveRow> = sought.await?;
        let Some(last) = rows.last() else { break };
        after = last.id.clone();
        let added = rows.into_iter().map(|row| {
            let (session, reservation) = row.read(now);
            reservation.insert(&session)
        });
        conn.together("add reservations", added.collect()).await?;
    }
    conn.execute("remove the sums", "DELETE FROM counters", values![]).await?;
    for sql in [
        sum_of!("'platform'", ""),
        sum_of!("'host'", "WHERE on_host = 1 HAVING COUNT(*) > 0"),
        sum_of!("'project/' || project", "WHERE project IS NOT NULL GROUP BY project"),
        sum_of!(
            "'user/' || project || '/' || owner",
            "WHERE project IS NOT NULL AND owner IS NOT NULL GROUP BY project, owner"
        ),
        sum_of!("'type/' || project || '/' || agent_type", "WHERE project IS NOT NULL GROUP BY project, agent_type"),
        // `WHERE TRUE` tells SQLite that ON CONFLICT is no join.
        "INSERT INTO counters (scope, sessions, boxes, cpu_millis, memory_bytes, disk_bytes) \
         SELECT 'project/' || project, 0, 0, 0, 0, CAST(SUM(bytes) AS BIGINT) FROM project_storage WHERE TRUE \
         GROUP BY project ON CONFLICT (scope) DO UPDATE SET disk_bytes = counters.disk_bytes + excluded.disk_bytes",
    ] {
        conn.execute("compute the sums", sql, values![]).await?;
    }
    Ok(())
}

/// A statement that computes the sums of one kind of scope. PostgreSQL sums BIGINTs as NUMERIC.
macro_rules! sum_of {
    ($scope:literal, $rest:literal) => {
        concat!(
            "INSERT INTO counters (scope, sessions, boxes, cpu_millis, memory_bytes, disk_bytes) SELECT ",
            $scope,
            ", COUNT(*), CAST(COALESCE(SUM(boxes), 0) AS BIGINT), CAST(COALESCE(SUM(cpu_millis), 0) AS BIGINT), ",
            "CAST(COALESCE(SUM(memory_bytes), 0) AS BIGINT), CAST(COALESCE(SUM(disk_bytes), 0) AS BIGINT) ",
            "FROM reservations ",
            $rest
        )
    };
}
use sum_of;

#[derive(sqlx::FromRow)]
struct SumRow {
    scope: String,
    sessions: i64,
    boxes: i64,
    cpu_millis: i64,
    memory_bytes: i64,
    disk_bytes: i64,
}

impl SumRow {
    fn read(self) -> (String, Amounts) {
        let amounts = Amounts {
            sessions: positive(self.sessions),
            boxes: positive(self.boxes),
            cpu_millis: positive(self.cpu_millis),
            memory_bytes: positive(self.memory_bytes),
            disk_bytes: positive(self.disk_bytes),
        };
        (self.scope, amounts)
    }
}

fn positive(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[derive(sqlx::FromRow)]
struct ReservationRow {
    project: Option<String>,
    owner: Option<String>,
    agent_type: String,
    boxes: i64,
    cpu_millis: i64,
    memory_bytes: i64,
    disk_bytes: i64,
    on_host: i64,
    since: i64,
}

impl ReservationRow {
    fn read(self) -> Reservation {
        Reservation {
            project: self.project,
            owner: self.owner,
            agent_type: self.agent_type,
            amounts: Amounts {
                sessions: 1,
                boxes: positive(self.boxes),
                cpu_millis: positive(self.cpu_millis),
                memory_bytes: positive(self.memory_bytes),
                disk_bytes: positive(self.disk_bytes),
            },
            on_host: self.on_host != 0,
            since: Timestamp::from_millis(self.since),
        }
    }
}

/// A live session without a reservation.
#[derive(sqlx::FromRow)]
struct LiveRow {
    id: String,
    agent_type: String,
    project: Option<String>,
    holds_workspace: i64,
    payload: Option<String>,
}

impl LiveRow {
    /// The limits and the owner come from the first event. A session whose first event cannot be
    /// read reserves no resources. Its use counts from now on.
    fn read(self, now: Timestamp) -> (String, Reservation) {
        let first = self.payload.as_deref().map(serde_json::from_str::<Event>);
        let (owner, resources) = match first {
            Some(Ok(Event::SessionCreated { spec, actor, .. })) => (
                admission::owner(&actor).map(str::to_owned),
                spec.workspace.as_ref().map(Resources::of).unwrap_or_default(),
            ),
            _ => (None, Resources::default()),
        };
        let holds_workspace = self.holds_workspace != 0;
        let held = if holds_workspace { resources } else { Resources::default() };
        let reservation = Reservation {
            project: self.project,
            owner,
            agent_type: self.agent_type,
            amounts: amounts(holds_workspace, held),
            on_host: held.on_host,
            since: now,
        };
        (self.id, reservation)
    }
}

impl From<QuotaExceeded> for CommitError {
    fn from(exceeded: QuotaExceeded) -> Self {
        match (&exceeded.scope, exceeded.quantity) {
            (Scope::Platform, Quantity::Boxes) => Self::Full { live: exceeded.used, max: exceeded.allowed },
            _ => Self::Quota(exceeded),
        }
    }
}
