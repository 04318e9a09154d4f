//! Derives the project of every audit row again. The column is not part of the hashed record.

use crate::database::sql::{Conn, values};
use crate::error::StoreError;
use crate::ledger::check::{LedgerBreak, Table};
use crate::tables::audit::named_project;

const PAGE: i64 = 500;

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    session: Option<String>,
    project: Option<String>,
    /// The project of the session's row, which the ledger covers.
    of_session: Option<String>,
    body: String,
}

pub(super) async fn strays(conn: &mut Conn<'_>) -> Result<Vec<LedgerBreak>, StoreError> {
    let mut found = Vec::new();
    if !has_column(conn, "project").await? {
        return Ok(found);
    }
    let mut next = Some(i64::MIN);
    while let Some(from) = next {
        let sql = "SELECT a.id, a.session, a.project, s.project AS of_session, a.body FROM audit a \
                   LEFT JOIN sessions s ON s.id = a.session WHERE a.id >= $1 ORDER BY a.id LIMIT $2";
        let page: Vec<Row> = conn.all("read the projects of the audit log", sql, values![from, PAGE]).await?;
        next = page.last().and_then(|last| last.id.checked_add(1));
        for row in page {
            let expected = if row.session.is_some() { row.of_session } else { named_project(&row.body) };
            if row.project != expected {
                let reason = "its project is not that of its session or of its body".to_owned();
                found.push(LedgerBreak { table: Table::Audit, id: row.id.to_string(), number: None, reason });
            }
        }
    }
    Ok(found)
}

/// Returns true if the table `audit` has the column. A read-only database may be older, and it is
/// not migrated.
pub(super) async fn has_column(conn: &mut Conn<'_>, column: &str) -> Result<bool, StoreError> {
    let sql = conn.either(
        "SELECT name FROM pragma_table_info('audit') WHERE name = $1",
        "SELECT column_name::text FROM information_schema.columns \
         WHERE table_schema = current_schema() AND table_name = 'audit' AND column_name = $1",
    );
    let found: Option<(String,)> = conn.optional("look for a column", sql, values![column]).await?;
    Ok(found.is_some())
}
