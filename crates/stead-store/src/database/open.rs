//! Opens a database: file modes, connection settings, and schema migration.
//!
//! Durability is configured only here: WAL with `synchronous=FULL` on SQLite,
//! `synchronous_commit=on` on PostgreSQL. Both are set explicitly, because defaults may differ.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, SqlitePool};

use crate::database::Database;
use crate::database::backend::{Backend, Connections};
use crate::database::fence::Fence;
use crate::database::writer::Writer;
use crate::directory;
use crate::error::{BoxedSource, OpenError};

static SQLITE_SCHEMA: Migrator = sqlx::migrate!("migrations/sqlite");
static POSTGRES_SCHEMA: Migrator = sqlx::migrate!("migrations/postgres");

/// Timeout for a database that another process holds, and for a free connection.
const PATIENCE: Duration = Duration::from_secs(10);
const SQLITE_READERS: u32 = 4;
const POSTGRES_CONNECTIONS: u32 = 16;

pub(crate) async fn backend(database: &Database) -> Result<Backend, OpenError> {
    match database {
        Database::Sqlite(path) => sqlite(database, path).await,
        Database::Postgres(url) => postgres(database, url).await,
    }
}

/// Opens a database for reading only. A SQLite file on a read-only disk must be complete, because
/// its WAL could not be applied.
pub(crate) async fn read_only(database: &Database) -> Result<Backend, OpenError> {
    let Database::Sqlite(path) = database else { return backend(database).await };
    let mut log = path.clone().into_os_string();
    log.push("-wal");
    let log = std::path::PathBuf::from(log);
    if log.metadata().is_ok_and(|log| log.len() > 0) {
        return Err(OpenError::PendingLog { path: path.clone() });
    }
    let options =
        SqliteConnectOptions::new().filename(path).read_only(true).immutable(true).disable_statement_logging();
    let connection = options.connect().await.map_err(|error| cannot_connect(database, error))?;
    let readers = SqlitePoolOptions::new().max_connections(SQLITE_READERS).connect_lazy_with(options.clone());
    Ok(sqlite_backend(path, readers, connection, options))
}

async fn sqlite(database: &Database, path: &Path) -> Result<Backend, OpenError> {
    let file = path.to_owned();
    // Held until the schema exists: two processes that start at once must not both create it.
    let prepared = tokio::task::spawn_blocking(move || prepare_file(&file)).await;
    let starting = prepared.unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
    let starting = starting.map_err(|source| OpenError::Files { path: path.to_owned(), source })?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(PATIENCE)
        .disable_statement_logging();
    let mut connection = options.connect().await.map_err(|error| cannot_connect(database, error))?;
    migrate(database, &SQLITE_SCHEMA, &mut connection).await?;
    drop(starting);
    let readers = SqlitePoolOptions::new()
        .max_connections(SQLITE_READERS)
        .acquire_timeout(PATIENCE)
        // A file connection does not break, and the check would cost a trip to the connection's
        // thread per read.
        .test_before_acquire(false)
        // Writes through a reader fail, so that no bug can bypass the writer's queue.
        .connect_lazy_with(options.clone().pragma("query_only", "ON"));
    Ok(sqlite_backend(path, readers, connection, options))
}

fn sqlite_backend(
    path: &Path,
    readers: SqlitePool,
    connection: SqliteConnection,
    options: SqliteConnectOptions,
) -> Backend {
    let fence = Arc::new(Fence::new());
    let writer = Writer::start(connection, options, Arc::clone(&fence));
    Backend::new(Connections::Sqlite { path: path.to_owned(), readers, writer }, fence)
}

/// Creates the file with a private mode (`-wal` and `-shm` inherit it) and returns a lock on its
/// directory.
///
/// An existing database is never opened here. Closing the descriptor would drop, for the whole
/// process, the POSIX locks that SQLite holds on it.
fn prepare_file(path: &Path) -> io::Result<File> {
    let parent = directory::parent(path);
    directory::create_all(parent)?;
    let lock = File::open(parent)?;
    lock.lock()?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => directory::sync(parent)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if path.metadata()?.permissions().mode() & 0o077 != 0 {
                fs::set_permissions(path, Permissions::from_mode(0o600))?;
            }
        }
        Err(error) => return Err(error),
    }
    Ok(lock)
}

async fn postgres(database: &Database, url: &str) -> Result<Backend, OpenError> {
    let options = PgConnectOptions::from_str(url).map_err(|error| cannot_connect(database, error))?;
    let options = options.application_name("stead").disable_statement_logging();
    let mut connection = options.connect().await.map_err(|error| cannot_connect(database, error))?;
    migrate(database, &POSTGRES_SCHEMA, &mut connection).await?;
    // Closing is optional: the server also notices a dropped connection.
    connection.close().await.unwrap_or(());
    let pool = PgPoolOptions::new()
        .max_connections(POSTGRES_CONNECTIONS)
        .acquire_timeout(PATIENCE)
        .after_connect(|connection, _| {
            Box::pin(async move {
                // The locking relies on READ COMMITTED: after a lock, the next statement sees its
                // holder's changes.
                sqlx::query("SET synchronous_commit = on").execute(&mut *connection).await?;
                sqlx::query("SET default_transaction_isolation = 'read committed'").execute(&mut *connection).await?;
                Ok(())
            })
        })
        .connect_lazy_with(options);
    Ok(Backend::new(Connections::Postgres(pool), Arc::new(Fence::new())))
}

async fn migrate<C: Migrate>(database: &Database, schema: &Migrator, connection: &mut C) -> Result<(), OpenError> {
    let known = schema.iter().map(|migration| migration.version).max().unwrap_or(0);
    // `run_direct` is `run` without a generic bound that async code cannot meet.
    schema.run_direct(None, connection, false).await.map_err(|error| match error {
        MigrateError::VersionMissing(found) if found > known => {
            OpenError::NewerSchema { database: database.to_string(), found, known }
        }
        source => OpenError::Migrate { database: database.to_string(), source: source.into() },
    })
}

/// An empty SQLite database in memory with the schema of a version.
pub(crate) async fn schema_after(version: i64) -> Result<SqliteConnection, BoxedSource> {
    let options = SqliteConnectOptions::new().in_memory(true).disable_statement_logging();
    let mut connection = options.connect().await?;
    SQLITE_SCHEMA.run_direct(Some(version), &mut connection, false).await?;
    Ok(connection)
}

fn cannot_connect(database: &Database, error: sqlx::Error) -> OpenError {
    OpenError::Connect { database: database.to_string(), source: error.into() }
}
