//! Blobs nobody refers to any more.
//!
//! What is referred to is found without knowing who refers: every place in the database, of every table and column, that spells a
//! blob's 64 hexadecimal digits (or holds its 32 bytes) keeps it, and so does a JSON blob that is kept itself. A table added
//! tomorrow is looked through tomorrow; the worst a coincidence can do is keep a blob too long.
//!
//! The invariant: the caller owns the store, so nothing refers to a blob while we look that did not before; and a blob younger than
//! the grace period is left alone, because whoever put it may not have referred to it yet.

use std::collections::HashMap;
use std::time::SystemTime;

use futures::TryStreamExt as _;
use sqlx::{AssertSqlSafe, Postgres, Sqlite};
use tokio::io::AsyncReadExt as _;

use crate::blobs::{Blobs, Digest, StoredBlob};
use crate::error::StoreError;
use crate::sql::{Conn, values};

const DIGITS: usize = 64;
const CHUNK: usize = 256 * 1024;

/// Blobs that are older than the moment and that nothing refers to, sorted.
pub(crate) async fn unreferenced(
    conn: &mut Conn<'_>,
    blobs: &Blobs,
    before: SystemTime,
) -> Result<Vec<StoredBlob>, StoreError> {
    let all = blobs.list().await.map_err(unreadable)?;
    let mut search =
        Search { unseen: all.iter().map(|blob| (blob.digest.to_hex(), *blob)).collect(), kept: Vec::new() };
    for column in columns(conn).await? {
        look_through(conn, column, &mut search).await?;
    }
    // Blobs too young to judge keep what they refer to as well.
    let young: Vec<String> =
        search.unseen.iter().filter(|(_, blob)| blob.modified >= before).map(|(hex, _)| hex.clone()).collect();
    young.iter().for_each(|hex| search.keep(hex));
    while let Some(kept) = search.kept.pop() {
        look_into(blobs, &kept, &mut search).await?;
    }
    let mut garbage: Vec<StoredBlob> = search.unseen.into_values().collect();
    garbage.sort_unstable_by_key(|blob| blob.digest);
    Ok(garbage)
}

struct Search {
    /// Blobs nothing was found to refer to, by their digits.
    unseen: HashMap<String, StoredBlob>,
    /// Blobs that are referred to and whose own references were not looked for yet.
    kept: Vec<Digest>,
}

impl Search {
    fn keep(&mut self, digits: &str) {
        self.kept.extend(self.unseen.remove(digits).map(|blob| blob.digest));
    }

    /// Keeps every blob whose digits are in the text. A longer run of digits may hold a digest anywhere.
    fn read(&mut self, text: &[u8]) {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        for run in text.split(|byte| !is_digit(byte)).filter(|run| run.len() >= DIGITS) {
            for digits in run.windows(DIGITS) {
                if let Ok(digits) = std::str::from_utf8(digits) {
                    self.keep(digits);
                }
            }
        }
    }
}

/// A query for everything in one column, as text.
struct Column(String);

async fn columns(conn: &mut Conn<'_>) -> Result<Vec<Column>, StoreError> {
    let sql = conn.either(
        "SELECT m.name, c.name, '' FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'",
        "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns \
         WHERE table_schema = current_schema()",
    );
    let found: Vec<(String, String, String)> = conn.all("list the columns", sql, values![]).await?;
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let query = |(table, column, kind): (String, String, String)| {
        let (table, column) = (quoted(&table), quoted(&column));
        let text = match (&*conn, kind.as_str()) {
            (Conn::Sqlite(_), _) => {
                format!("CASE typeof({column}) WHEN 'blob' THEN lower(hex({column})) ELSE CAST({column} AS TEXT) END")
            }
            (Conn::Postgres(_), "bytea") => format!("encode({column}, 'hex')"),
            (Conn::Postgres(_), _) => format!("{column}::text"),
        };
        Column(format!("SELECT * FROM (SELECT {text} AS held FROM {table}) AS found WHERE length(held) >= {DIGITS}"))
    };
    Ok(found.into_iter().map(query).collect())
}

/// One value in memory at a time.
async fn look_through(conn: &mut Conn<'_>, column: Column, search: &mut Search) -> Result<(), StoreError> {
    let failed = |error| StoreError::from_driver("look for references to blobs", error);
    let query = AssertSqlSafe(column.0);
    match conn {
        Conn::Sqlite(connection) => {
            let mut rows = sqlx::query_scalar::<Sqlite, String>(query).fetch(&mut **connection);
            while let Some(text) = rows.try_next().await.map_err(failed)? {
                search.read(text.as_bytes());
            }
        }
        Conn::Postgres(connection) => {
            let mut rows = sqlx::query_scalar::<Postgres, String>(query).fetch(&mut **connection);
            while let Some(text) = rows.try_next().await.map_err(failed)? {
                search.read(text.as_bytes());
            }
        }
    }
    Ok(())
}

/// A manifest is JSON; other bytes refer to nothing.
async fn look_into(blobs: &Blobs, digest: &Digest, search: &mut Search) -> Result<(), StoreError> {
    let failed = |source| StoreError::Unavailable { doing: "read a blob", source };
    let Some(mut opened) = blobs.open(digest).await.map_err(unreadable)? else { return Ok(()) };
    let mut text = Vec::with_capacity(CHUNK + DIGITS);
    let mut first = true;
    loop {
        // The end of the chunk before stays: a digest may lie across the border.
        text.drain(..text.len().saturating_sub(DIGITS));
        let read = (&mut opened.file).take(CHUNK as u64).read_to_end(&mut text).await;
        let read = read.map_err(|error| failed(error.into()))?;
        let json = matches!(text.trim_ascii_start().first(), Some(b'{' | b'['));
        if read == 0 || (first && !json) {
            return Ok(());
        }
        first = false;
        search.read(&text);
    }
}

fn unreadable(error: crate::BlobError) -> StoreError {
    StoreError::Unavailable { doing: "look at the blobs", source: error.into() }
}
