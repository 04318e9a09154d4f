//! Finds changes that no ledger row could describe: rows without a record, and a schema that
//! differs from the migrations.
//!
//! A trigger could write records in the server's name, so it matters as much as a changed row.

use std::collections::BTreeSet;

use crate::database::open;
use crate::database::sql::{Conn, values};
use crate::error::StoreError;
use crate::ledger::check::{LedgerBreak, Table};

const MIGRATIONS: &str = "_sqlx_migrations";

pub(super) async fn strays(conn: &mut Conn<'_>) -> Result<Vec<LedgerBreak>, StoreError> {
    let mut found = events(conn).await?;
    match conn {
        Conn::Sqlite(_) => {
            found.extend(sqlite_schema(conn).await?);
            found.extend(audit_counter(conn).await?);
        }
        Conn::Postgres(_) => found.extend(postgres_schema(conn).await?),
    }
    Ok(found)
}

fn broken(table: Table, id: impl Into<String>, reason: impl Into<String>) -> LedgerBreak {
    LedgerBreak { table, id: id.into(), number: None, reason: reason.into() }
}

async fn events(conn: &mut Conn<'_>) -> Result<Vec<LedgerBreak>, StoreError> {
    // A journal is read by its session and from number 1, so these rows belong to none.
    let sql = "SELECT CAST(e.session AS TEXT) FROM (SELECT DISTINCT session FROM events) e \
               LEFT JOIN sessions s ON s.id = e.session WHERE s.id IS NULL LIMIT 100";
    let orphans: Vec<(String,)> = conn.all("look for events without a session", sql, values![]).await?;
    let mut found: Vec<_> = orphans
        .into_iter()
        .map(|(session,)| broken(Table::Events, session, "there are events of a session that does not exist"))
        .collect();
    let sql = "SELECT DISTINCT CAST(session AS TEXT) FROM events WHERE seq < 1 LIMIT 100";
    let below: Vec<(String,)> = conn.all("look for events before the first", sql, values![]).await?;
    let below = below.into_iter();
    found.extend(below.map(|(session,)| broken(Table::Events, session, "there are events before the first one")));
    Ok(found)
}

/// Type, name, table and definition of an object of the schema.
type Object = (String, String, String, String);

async fn objects(conn: &mut Conn<'_>) -> Result<BTreeSet<Object>, StoreError> {
    let sql = "SELECT type, name, tbl_name, COALESCE(sql, '') FROM sqlite_master";
    let rows: Vec<Object> = conn.all("read the schema", sql, values![]).await?;
    // A library creates the table of migrations, and ANALYZE creates statistics.
    let foreign = |(kind, name, table, _): &Object| {
        (table == MIGRATIONS && matches!(kind.as_str(), "table" | "index")) || name.starts_with("sqlite_stat")
    };
    Ok(rows.into_iter().filter(|object| !foreign(object)).collect())
}

async fn sqlite_schema(conn: &mut Conn<'_>) -> Result<Vec<LedgerBreak>, StoreError> {
    let sql = "SELECT MAX(version) FROM _sqlx_migrations";
    let version: Option<(i64,)> = conn.optional("read the schema's version", sql, values![]).await?;
    let Some((version,)) = version else { return Ok(Vec::new()) };
    let expected = open::schema_after(version).await;
    let mut expected =
        expected.map_err(|source| StoreError::Unavailable { doing: "make a schema to compare with", source })?;
    let (expected, actual) = (objects(&mut Conn::Sqlite(&mut expected)).await?, objects(conn).await?);
    let named = |(kind, name, table, _): &Object| format!("{kind} {name} of {table}");
    let added = actual.difference(&expected).map(|object| {
        broken(Table::Schema, named(object), "it is not as Stead makes it: something else added or changed it")
    });
    let gone =
        expected.difference(&actual).map(|object| broken(Table::Schema, named(object), "it is missing or changed"));
    Ok(added.chain(gone).collect())
}

/// Audit rows are never removed, so the counter of their ids equals the largest id.
async fn audit_counter(conn: &mut Conn<'_>) -> Result<Vec<LedgerBreak>, StoreError> {
    let sql = "SELECT CAST(name AS TEXT), CAST(seq AS TEXT) FROM sqlite_sequence WHERE name IS NOT 'audit' \
               OR seq IS NOT (SELECT COALESCE(MAX(id), 0) FROM audit) \
               UNION ALL SELECT 'audit', 'none' WHERE (SELECT COUNT(*) FROM audit) > 0 \
               AND (SELECT COUNT(*) FROM sqlite_sequence WHERE name = 'audit') <> 1";
    let wrong: Vec<(Option<String>, Option<String>)> = conn.all("read the counters of ids", sql, values![]).await?;
    let described = |(name, seq): (Option<String>, Option<String>)| {
        let (name, seq) = (name.unwrap_or_default(), seq.unwrap_or_default());
        broken(Table::Schema, "sqlite_sequence", format!("the counter '{name}' is at {seq}, not at the last id"))
    };
    Ok(wrong.into_iter().map(described).collect())
}

/// Other programs may have tables in the same schema, so only objects on Stead's own tables count.
async fn postgres_schema(conn: &mut Conn<'_>) -> Result<Vec<LedgerBreak>, StoreError> {
    let sql = "WITH own(name) AS (VALUES ('sessions'), ('events'), ('audit'), ('idempotency'), ('documents'), ('settings'), \
               ('blob_references'), ('owner'), ('ledger'), ('seals'), ('reservations'), ('counters'), \
               ('token_uses'), ('project_storage'), ('tool_calls'), ('session_terms'), ('usage_days')), \
               relation AS (SELECT c.oid, c.relname, c.relkind FROM pg_class c JOIN own ON own.name = c.relname \
               WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())) \
               SELECT 'trigger ' || t.tgname || ' of ' || r.relname FROM pg_trigger t JOIN relation r ON r.oid = t.tgrelid \
               WHERE NOT t.tgisinternal \
               UNION ALL SELECT 'rule ' || w.rulename || ' of ' || r.relname FROM pg_rewrite w JOIN relation r ON r.oid = w.ev_class \
               UNION ALL SELECT 'policy ' || p.polname || ' of ' || r.relname FROM pg_policy p JOIN relation r ON r.oid = p.polrelid \
               UNION ALL SELECT 'relation ' || relname FROM relation WHERE relkind <> 'r'";
    let added: Vec<(String,)> = conn.all("read the schema", sql, values![]).await?;
    let reason = "it is not as Stead makes it: something else added or changed it";
    Ok(added.into_iter().map(|(object,)| broken(Table::Schema, object, reason)).collect())
}
