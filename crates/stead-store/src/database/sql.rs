//! SQL statements for both databases.
//!
//! Every statement of this crate uses the subset that both databases support (`$n`, `ON CONFLICT`,
//! `RETURNING`, TEXT, BIGINT, bytes). It runs through [`Conn`], which selects the driver. Times are
//! i64 milliseconds, booleans 0 or 1.

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, FromRow, Postgres, Sqlite};

use crate::error::StoreError;

/// A connection to either database, borrowed for one operation.
pub(crate) enum Conn<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PgConnection),
}

/// A bound parameter.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    OptionalText(Option<String>),
    Integer(i64),
    OptionalInteger(Option<i64>),
    Bytes(Vec<u8>),
}

/// A statement whose rows are not read.
pub(crate) struct Statement {
    pub(crate) sql: &'static str,
    pub(crate) values: Vec<Value>,
}

/// A `SELECT` that is put together from fixed texts and numbered parameters.
pub(crate) struct Select {
    sql: String,
    values: Vec<Value>,
}

impl Select {
    pub(crate) fn new(sql: &'static str) -> Self {
        Self { sql: sql.to_owned(), values: Vec::new() }
    }

    /// Appends a text without parameters.
    pub(crate) fn push(&mut self, text: &'static str) -> &mut Self {
        self.sql.push_str(text);
        self
    }

    /// Appends a text and a parameter after it.
    pub(crate) fn with(&mut self, text: &'static str, value: impl Into<Value>) -> &mut Self {
        self.values.push(value.into());
        self.sql.push_str(text);
        self.sql.push_str(&format!("${}", self.values.len()));
        self
    }

    pub(crate) fn into_parts(self) -> (String, Vec<Value>) {
        (self.sql, self.values)
    }
}

/// Number of statements that SQLite runs together. Each combined text is prepared once and cached.
const TOGETHER: usize = 8;

/// A row that both drivers can decode: a tuple, or a struct that derives `FromRow`. Its fields are
/// `String`, `i64`, `Vec<u8>` and options of them.
pub(crate) trait Record:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin + 'static
{
}

impl<T> Record for T where T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin + 'static {}

macro_rules! bind {
    ($query:expr, $values:expr) => {{
        let mut query = $query;
        for value in $values {
            query = match value {
                Value::Text(text) => query.bind(text),
                Value::OptionalText(text) => query.bind(text),
                Value::Integer(integer) => query.bind(integer),
                Value::OptionalInteger(integer) => query.bind(integer),
                Value::Bytes(bytes) => query.bind(bytes),
            };
        }
        query
    }};
}

impl Conn<'_> {
    /// Runs a statement and returns the number of changed rows.
    pub(crate) async fn execute(
        &mut self,
        doing: &'static str,
        sql: &'static str,
        values: Vec<Value>,
    ) -> Result<u64, StoreError> {
        match self {
            Self::Sqlite(connection) => bind!(sqlx::query::<Sqlite>(sql), values)
                .execute(&mut **connection)
                .await
                .map(|done| done.rows_affected()),
            Self::Postgres(connection) => bind!(sqlx::query::<Postgres>(sql), values)
                .execute(&mut **connection)
                .await
                .map(|done| done.rows_affected()),
        }
        .map_err(|error| StoreError::from_driver(doing, error))
    }

    /// Runs statements in order until one fails. Returns the total number of changed rows.
    ///
    /// SQLite gets them as one text, because a round trip to the connection's thread costs more
    /// than a statement.
    pub(crate) async fn together(
        &mut self,
        doing: &'static str,
        statements: Vec<Statement>,
    ) -> Result<u64, StoreError> {
        let mut changed = 0;
        let mut statements = statements.into_iter();
        match self {
            Self::Sqlite(connection) => loop {
                let (text, values) = joined(statements.by_ref().take(TOGETHER));
                if text.is_empty() {
                    return Ok(changed);
                }
                // The text consists of `'static` texts and numbers only.
                let query = sqlx::query::<Sqlite>(AssertSqlSafe(text));
                let done = bind!(query, values).execute(&mut **connection).await;
                changed += done.map_err(|error| StoreError::from_driver(doing, error))?.rows_affected();
            },
            Self::Postgres(_) => {
                for statement in statements {
                    changed += self.execute(doing, statement.sql, statement.values).await?;
                }
                Ok(changed)
            }
        }
    }

    pub(crate) async fn all<R: Record>(
        &mut self,
        doing: &'static str,
        sql: &'static str,
        values: Vec<Value>,
    ) -> Result<Vec<R>, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                bind!(sqlx::query_as::<Sqlite, R>(sql), values).fetch_all(&mut **connection).await
            }
            Self::Postgres(connection) => {
                bind!(sqlx::query_as::<Postgres, R>(sql), values).fetch_all(&mut **connection).await
            }
        }
        .map_err(|error| StoreError::from_driver(doing, error))
    }

    /// Reads the rows of a statement that was put together from `'static` texts and parameters.
    pub(crate) async fn all_selected<R: Record>(
        &mut self,
        doing: &'static str,
        select: Select,
    ) -> Result<Vec<R>, StoreError> {
        let (sql, values) = select.into_parts();
        match self {
            Self::Sqlite(connection) => {
                let query = sqlx::query_as::<Sqlite, R>(AssertSqlSafe(sql));
                bind!(query, values).fetch_all(&mut **connection).await
            }
            Self::Postgres(connection) => {
                let query = sqlx::query_as::<Postgres, R>(AssertSqlSafe(sql));
                bind!(query, values).fetch_all(&mut **connection).await
            }
        }
        .map_err(|error| StoreError::from_driver(doing, error))
    }

    pub(crate) async fn optional<R: Record>(
        &mut self,
        doing: &'static str,
        sql: &'static str,
        values: Vec<Value>,
    ) -> Result<Option<R>, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                bind!(sqlx::query_as::<Sqlite, R>(sql), values).fetch_optional(&mut **connection).await
            }
            Self::Postgres(connection) => {
                bind!(sqlx::query_as::<Postgres, R>(sql), values).fetch_optional(&mut **connection).await
            }
        }
        .map_err(|error| StoreError::from_driver(doing, error))
    }

    /// Chooses between the texts of a statement that differs, because SQLite has one writer and no
    /// row locks.
    pub(crate) fn either(&self, sqlite: &'static str, postgres: &'static str) -> &'static str {
        match self {
            Self::Sqlite(_) => sqlite,
            Self::Postgres(_) => postgres,
        }
    }
}

/// Joins statements into one text and renumbers their parameters.
fn joined(statements: impl Iterator<Item = Statement>) -> (String, Vec<Value>) {
    let (mut text, mut values) = (String::new(), Vec::new());
    for statement in statements {
        let mut parts = statement.sql.split('$');
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let number: usize = part[..digits].parse().unwrap_or_default();
            text.push_str(&format!("${}{}", number + values.len(), &part[digits..]));
        }
        text.push_str("; ");
        values.extend(statement.values);
    }
    (text, values)
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        Self::OptionalText(text)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<i64> for Value {
    fn from(integer: i64) -> Self {
        Self::Integer(integer)
    }
}

impl From<Option<i64>> for Value {
    fn from(integer: Option<i64>) -> Self {
        Self::OptionalInteger(integer)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Integer(i64::from(flag))
    }
}

/// A sequence number or a limit. A value that does not fit is larger than any row number.
impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(i64::from(number))
    }
}

impl From<stead_core::Timestamp> for Value {
    fn from(time: stead_core::Timestamp) -> Self {
        Self::Integer(time.millis())
    }
}

impl From<stead_core::SessionId> for Value {
    fn from(id: stead_core::SessionId) -> Self {
        Self::Text(id.to_string())
    }
}

impl From<crate::Hash> for Value {
    fn from(hash: crate::Hash) -> Self {
        Self::Bytes(hash.as_bytes().to_vec())
    }
}

/// `values![a, b]`: the parameters of a statement, in order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::database::sql::Value::from($value)),*] };
}
pub(crate) use values;
