//! Every older schema, with rows in each of its tables, becomes the current one.

use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use stead_core::admission::{Amounts, Scope};
use stead_core::usage::UsageGroup;
use stead_core::{ContentHash, SessionId, TokenId};
use stead_store::{
    AuditQuery, Database, DocumentKind, Evidence, Hash, IdempotencyKey, SearchTerm, SessionQuery, Store, UsageQuery,
    chain,
};

use crate::fixture::{Fixture, append, at};
use crate::tamper::assert_intact;

/// The newest schema. A new migration needs rows of the version before it in [`rows`].
const NEWEST: usize = 10;
const LIVE: SessionId = SessionId::from_bits(1);
const ENDED: SessionId = SessionId::from_bits(2);
const TOKEN: TokenId = TokenId::from_bits(3);
const USED_AT: i64 = 1_763_200_000_000;
const BLOB: &[u8] = b"hello";

fn folder(fixture: &Fixture) -> &'static str {
    match fixture.database {
        Database::Sqlite(_) => "sqlite",
        Database::Postgres(_) => "postgres",
    }
}

/// Makes an empty database with the first `version` migrations.
async fn older(fixture: &Fixture, version: usize) {
    let all = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(folder(fixture));
    let mut files: Vec<_> = std::fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), NEWEST, "a new migration needs rows in this test");
    let some = tempfile::tempdir().unwrap();
    for file in &files[..version] {
        std::fs::copy(file, some.path().join(file.file_name().unwrap())).unwrap();
    }
    let migrator = Migrator::new(some.path()).await.unwrap();
    match &fixture.database {
        Database::Sqlite(path) => {
            for file in [path.clone(), path.with_extension("db-wal"), path.with_extension("db-shm")] {
                if file.exists() {
                    std::fs::remove_file(file).unwrap();
                }
            }
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut connection =
                SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.unwrap();
            migrator.run_direct(None, &mut connection, false).await.unwrap();
            connection.close().await.unwrap();
        }
        Database::Postgres(url) => {
            fixture.tamper("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
            let mut connection = PgConnection::connect(url).await.unwrap();
            migrator.run_direct(None, &mut connection, false).await.unwrap();
            connection.close().await.unwrap();
        }
    }
}

/// Statements that add rows to every table of a version.
fn rows(fixture: &Fixture, version: usize, blob: &ContentHash) -> String {
    let bytes = |hash: Hash| match fixture.database {
        Database::Sqlite(_) => format!("x'{}'", hash.to_hex()),
        Database::Postgres(_) => format!("'\\x{}'", hash.to_hex()),
    };
    let mut sql = String::new();
    for (session, live, project) in [(LIVE, 1, "'web'"), (ENDED, 0, "NULL")] {
        let prev = chain::genesis(session);
        let hash = chain::link(&prev, 1, at(0), "Something", "{}");
        let (prev, hash, at) = (bytes(prev), bytes(hash), at(0).millis());
        sql += &format!(
            "INSERT INTO sessions (id, seq, head_hash, status, live, agent_type, project, due_at, final_hash, \
             created_at, updated_at) VALUES ('{session}', 1, {hash}, 'x', {live}, 'coder', {project}, NULL, NULL, {at}, {at}); \
             INSERT INTO events (session, seq, at, kind, payload, prev_hash, hash) \
             VALUES ('{session}', 1, {at}, 'Something', '{{}}', {prev}, {hash}); \
             INSERT INTO audit (at, kind, actor, session, body) VALUES ({at}, 'tool_call', 'admin', '{session}', '{{}}'); "
        );
    }
    let nothing = bytes(Hash::of(b""));
    sql += &format!(
        "INSERT INTO audit (at, kind, actor, session, body) VALUES (1, 'admin_change', 'admin', NULL, '{{}}'); \
         INSERT INTO idempotency (scope, key, body_hash, target, at) VALUES ('admin', 'k', {nothing}, '{LIVE}', 1); \
         INSERT INTO documents (kind, id, revision, deleted, body, created_at, updated_at) \
         VALUES ('agent_type', 'a', 3, 0, '{{\"bundle\": \"{blob}\"}}', 1, 1), ('agent_type', 'b', 2, 1, '', 1, 1); \
         INSERT INTO settings (key, value) VALUES ('server', 'v'); "
    );
    let reservation = "INSERT INTO reservations (session, project, owner, agent_type, boxes, cpu_millis, memory_bytes, \
                       disk_bytes, on_host) VALUES";
    let usage = "INSERT INTO usage_days (day, project, owner, agent_type, sessions_created, session_ms, box_ms, cpu_high, \
                 cpu_low, memory_high, memory_low, disk_high, disk_low) VALUES";
    let added = [
        (
            2,
            format!(
                "INSERT INTO blob_references (holder, digest, bytes) VALUES ('document:agent_type/a', '{}', 5); ",
                blob.to_hex()
            ),
        ),
        (3, "UPDATE owner SET holder = 'home'; ".to_owned()),
        (4, format!("UPDATE sessions SET holds_workspace = 0 WHERE id = '{ENDED}'; ")),
        (5, format!("{reservation} ('{LIVE}', 'web', 'ann', 'coder', 1, 500, 600, 1000, 1); ")),
        (
            5,
            "INSERT INTO counters (scope, sessions, boxes, cpu_millis, memory_bytes, disk_bytes) \
             VALUES ('project/web', 1, 1, 500, 600, 1000); "
                .to_owned(),
        ),
        (6, format!("INSERT INTO session_terms (term, session) VALUES ('o:\"ann\"', '{LIVE}'); ")),
        (6, format!("UPDATE audit SET project = 'web' WHERE session = '{LIVE}'; ")),
        (7, format!("INSERT INTO token_uses (token, at) VALUES ('{TOKEN}', {USED_AT}); ")),
        (7, format!("INSERT INTO blob_uploads (project, digest) VALUES ('web', '{blob}'); ")),
        (8, format!("UPDATE audit SET token = '{TOKEN}' WHERE session = '{LIVE}'; ")),
        (
            9,
            format!(
                "UPDATE reservations SET since = {USED_AT}; {usage} (20407, 'web', 'ann', 'coder', 3, 4, 5, 0, 6, 0, 7, 0, 8); "
            ),
        ),
    ];
    let existing = added.into_iter().filter(|(since, _)| *since <= version);
    sql + &existing.map(|(_, sql)| sql).collect::<String>()
}

pub(crate) async fn every_older_schema_migrates_with_its_rows(fixture: Fixture) {
    for version in 1..NEWEST {
        older(&fixture, version).await;
        let blob = ContentHash::of(BLOB);
        fixture.tamper(rows(&fixture, version, &blob)).await;
        let store = fixture.open().await;
        assert_eq!(store.blobs().put(BLOB).await.unwrap(), blob);
        let ownership = store.own("home").await.unwrap().unwrap();
        check(&store, version, &blob).await;
        let report = store.verify_ledger(&Evidence::default()).await.unwrap();
        assert!(report.broken.is_empty() && report.records > 0, "version {version}: {report:?}");
        // The session goes on.
        let mut end = append(LIVE, Some(1), 1);
        (end.head.live, end.head.project) = (false, Some("web".to_owned()));
        store.commit(end).await.unwrap();
        assert_intact(&store, LIVE, 2).await;
        store.release(ownership).await.unwrap();
        store.close().await;
    }
}

async fn check(store: &Store, version: usize, blob: &ContentHash) {
    for session in [LIVE, ENDED] {
        assert_intact(store, session, 1).await;
    }
    let held = |session| async move { store.head(session).await.unwrap().unwrap().holds_workspace };
    assert_eq!((held(LIVE).await, held(ENDED).await), (true, version < 4));
    let audit = store.audit(AuditQuery { limit: 10, ..AuditQuery::default() }).await.unwrap();
    let found: Vec<_> = audit.iter().map(|row| (row.project.as_deref(), row.entry.token)).collect();
    let token = (version >= 8).then_some(TOKEN);
    assert_eq!(found, [(Some("web"), token), (None, None), (None, None)], "version {version}");
    let key = IdempotencyKey { scope: "admin".to_owned(), key: "k".to_owned() };
    assert_eq!(store.idempotent(&key).await.unwrap().unwrap().target, LIVE.to_string());
    assert_eq!(store.document(DocumentKind::AgentType, "a").await.unwrap().unwrap().revision, 3);
    assert!(store.document(DocumentKind::AgentType, "b").await.unwrap().is_none());
    assert!(store.has_setting("server").await.unwrap());
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    assert_eq!(store.unreferenced_blobs(later).await.unwrap(), [], "the document holds its blob");

    // A session without a reservation gets one from its journal, which names no limits here.
    let (kept, uploaded) = (version >= 5, version >= 7);
    let held = Amounts { sessions: 1, boxes: 1, ..Amounts::default() };
    let held = if kept { Amounts { cpu_millis: 500, memory_bytes: 600, disk_bytes: 1000, ..held } } else { held };
    let scope = Scope::Project { project: "web".to_owned() }.to_string();
    let sums = store.reserved(&scope, &format!("{scope}\u{1}")).await.unwrap();
    let disk_bytes = held.disk_bytes + if uploaded { BLOB.len() as u64 } else { 0 };
    assert_eq!(sums[&scope], Amounts { disk_bytes, ..held }, "version {version}");
    assert_eq!(store.uploaded(&"web".parse().unwrap(), blob).await.unwrap(), uploaded);
    let uses = store.token_uses().await.unwrap();
    assert_eq!(
        uses.iter().map(|(token, at)| (*token, at.millis())).collect::<Vec<_>>(),
        if uploaded { vec![(TOKEN, USED_AT)] } else { vec![] }
    );
    let by_owner =
        SessionQuery { limit: 10, terms: vec![SearchTerm::Owner("ann".to_owned())], ..SessionQuery::default() };
    assert_eq!(store.sessions(by_owner).await.unwrap().len(), usize::from(version >= 6), "version {version}");
    let day = "2025-11-15".parse().unwrap();
    let query = UsageQuery { by: UsageGroup::User, project: None, first: day, end: day.plus(1), now: at(0) };
    let used = store.usage_history(&query).await.unwrap();
    let created: Vec<_> = used.iter().map(|row| (row.sums.sessions_created, row.sums.tool_calls)).collect();
    assert_eq!(created, if version >= 9 { vec![(3, 0)] } else { vec![] }, "version {version}");
}
