//! An empty store of either kind, with helpers for the tests.

use std::future::Future;
use std::path::PathBuf;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use stead_core::admission::Resources;
use stead_core::{SessionId, Timestamp};
use stead_store::{AuditEntry, Commit, Database, Head, NewEvent, Store};

use stead_testkit::postgres;

pub(crate) struct Fixture {
    pub(crate) database: Database,
    directory: tempfile::TempDir,
}

pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// Failpoints are global to the process, so a test that sets one runs alone.
static FAIL_POINTS: RwLock<()> = RwLock::new(());

pub(crate) fn with_fail_points<F: Future<Output = ()>>(kind: Kind, test: impl FnOnce(Fixture) -> F) {
    let _alone = FAIL_POINTS.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    let scenario = fail::FailScenario::setup();
    block_on(kind, test);
    scenario.teardown();
}

pub(crate) fn without_fail_points<F: Future<Output = ()>>(kind: Kind, test: impl FnOnce(Fixture) -> F) {
    let _shared = FAIL_POINTS.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    block_on(kind, test);
}

fn block_on<F: Future<Output = ()>>(kind: Kind, test: impl FnOnce(Fixture) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let directory = tempfile::tempdir().unwrap();
        match kind {
            Kind::Sqlite => {
                let database = Database::Sqlite(directory.path().join("db/stead.db"));
                test(Fixture { database, directory }).await;
            }
            Kind::Postgres => {
                let (database, name) = postgres::create_database().await;
                test(Fixture { database, directory }).await;
                postgres::drop_database(&name).await;
            }
        }
    });
}

impl Fixture {
    pub(crate) async fn open(&self) -> Store {
        Store::open(&self.database, &self.blobs()).await.unwrap()
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.directory.path().join("blobs")
    }

    /// Changes the database with direct SQL.
    pub(crate) async fn tamper(&self, sql: impl Into<String>) {
        let sql = AssertSqlSafe(sql.into());
        match &self.database {
            Database::Sqlite(path) => {
                let options = SqliteConnectOptions::new().filename(path).foreign_keys(false);
                let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
            Database::Postgres(url) => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Ids in order of creation, like the server's.
pub(crate) fn session_id() -> SessionId {
    SessionId::from_bits(u128::from(NEXT_ID.fetch_add(1, Ordering::Relaxed)))
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(1_763_200_000_000 + second * 1000)
}

pub(crate) fn head(status: &str, live: bool) -> Head {
    Head {
        status: status.to_owned(),
        live,
        holds_workspace: true,
        resources: Resources::default(),
        agent_type: "coder".to_owned(),
        project: None,
        due_at: None,
        final_hash: None,
    }
}

pub(crate) fn events(count: usize) -> Vec<NewEvent> {
    (0..count)
        .map(|n| NewEvent { kind: "Something".to_owned(), payload: format!("{{\"n\":{n},\"text\":\"é\\u0000\"}}") })
        .collect()
}

pub(crate) fn audit(kind: &str, session: Option<SessionId>) -> AuditEntry {
    AuditEntry {
        at: at(0),
        kind: kind.to_owned(),
        actor: "admin".to_owned(),
        token: None,
        session,
        body: "{}".to_owned(),
    }
}

/// Creates a session with `count` events.
pub(crate) fn create(session: SessionId, count: usize) -> Commit {
    Commit {
        session,
        expected_seq: None,
        create: true,
        at: at(0),
        events: events(count).into(),
        head: head("active", true),
        owner: None,
        audit: vec![],
        admission: None,
        idempotency: None,
        terms: None,
    }
}

/// Appends `count` events at the given head, or at the end.
pub(crate) fn append(session: SessionId, expected_seq: Option<u64>, count: usize) -> Commit {
    Commit { expected_seq, create: false, at: at(1), ..create(session, count) }
}
