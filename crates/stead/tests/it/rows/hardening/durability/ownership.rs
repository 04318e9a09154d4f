//! One server per database. A server that loses its lock writes nothing until it holds it again,
//! and a replaced server never writes again. No acknowledged write is lost and every journal
//! replays.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sqlx::{Connection as _, Executor as _, PgConnection};
use stead_testkit::{Client, ServerOptions, TestServer, postgres, until};

use crate::rows::{server, server_with};

/// The advisory lock that the owner's connection holds.
const OWNER_LOCK: i64 = 0x73_74_65_61_64_02;
const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted \
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
     AND classid = 29556 AND objid = 1700881410 AND pid <> pg_backend_pid()";

/// A separate database that is dropped at the end.
struct Postgres {
    runtime: tokio::runtime::Runtime,
    url: String,
    name: String,
}

impl Postgres {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (database, name) = runtime.block_on(postgres::create_database());
        let stead_store::Database::Postgres(url) = database else { panic!("not PostgreSQL") };
        Self { runtime, url, name }
    }

    fn server(&self) -> TestServer {
        server_with(ServerOptions::default().env("STEAD_DATABASE_URL", &self.url))
    }

    fn connect(&self) -> PgConnection {
        self.runtime.block_on(PgConnection::connect(&self.url)).unwrap()
    }

    /// Ends the connection that holds the owner's lock. Returns true if there was one.
    fn end_lock_connection(&self) -> bool {
        let mut connection = self.connect();
        let ended = self.runtime.block_on(connection.fetch_all(TERMINATE)).unwrap();
        !ended.is_empty()
    }

    /// Starts a second server on the same database with its own home; it should be refused.
    fn second_server(&self) -> Output {
        let home = tempfile::tempdir().unwrap();
        serve_on(home.path(), &[("STEAD_DATABASE_URL", &self.url)])
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.runtime.block_on(postgres::drop_database(&self.name));
    }
}

fn serve_on(home: &Path, env: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["30", env!("CARGO_BIN_EXE_stead"), "serve", "--listen", "127.0.0.1:0"]).env("STEAD_HOME", home);
    command.env("WORKSPACE_DEFAULT_PROVIDER", "memory").envs(env.iter().copied()).output().unwrap()
}

#[track_caller]
fn assert_refused(output: &Output) {
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("another Stead server uses this database"), "{printed}");
}

fn id_of(session: &Value) -> String {
    session["id"].as_str().unwrap().to_owned()
}

fn write(client: &Client, session: &str, path: &str) -> Option<u16> {
    let body = json!({"path": path, "content": path}).to_string();
    let reply = client.try_send("POST", &format!("/sessions/{session}/tools/write"), &[], Some(body));
    reply.ok().map(|reply| reply.status)
}

/// Clients that write files until they are stopped, and the files whose writes were acknowledged.
struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<Vec<String>>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start(client: &Client, session: &str) -> Self {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let threads = (0..3).map(|thread| {
            let (client, session) = (client.clone(), session.to_owned());
            let (stop, acknowledged) = (stop.clone(), acknowledged.clone());
            std::thread::spawn(move || {
                for number in 0..20_000 {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let path = format!("{thread}-{number}.txt");
                    if write(&client, &session, &path) == Some(200) {
                        acknowledged.lock().unwrap().push(path);
                    } else {
                        std::thread::sleep(std::time::Duration::from_millis(20));
                    }
                }
            })
        });
        let threads = threads.collect();
        Self { stop, acknowledged, threads }
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        self.acknowledged.lock().unwrap().clone()
    }
}

#[track_caller]
fn assert_all_there(server: &TestServer, session: &Value, paths: &[String]) {
    for path in paths {
        assert_eq!(server.tool(session, "read", json!({"path": path}))["result"]["content"], **path);
    }
    let replay = server.client().get(&format!("/sessions/{}/replay", id_of(session))).expect(200);
    assert_eq!(replay["identical"], true, "{replay}");
}

/// Verifies the database with the keys of both homes.
#[track_caller]
fn assert_verifies(url: &str, homes: &[&Path]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
    command.arg("verify").env("STEAD_HOME", homes[0]).env("STEAD_DATABASE_URL", url);
    for home in homes {
        let key = stead_store::Sealer::open(home).unwrap().public_key();
        command.args(["--key", &key.to_string()]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_server_whose_lock_connection_ends_under_load_takes_the_lock_again_before_another_can() {
    let postgres = Postgres::new();
    let server = postgres.server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "a"}));
    let load = Load::start(server.client(), &id_of(&session));
    for round in 0..3 {
        until("the lock is held by the server", || postgres.end_lock_connection().then_some(()));
        // Control: the statement really ends the owner's connection, and another server tries to
        // take the free lock.
        assert_refused(&postgres.second_server());
        let before = load.count();
        until("writes are acknowledged again", || (load.count() > before + 3).then_some(()));
        assert!(round > 0 || server.log().contains("the lock on the database is held again"), "{}", server.log());
    }
    let acknowledged = load.end();
    assert_all_there(&server, &session, &acknowledged);
    assert_verifies(&postgres.url, &[server.home()]);
}

#[test]
fn a_server_in_doubt_refuses_writes_and_says_why_it_is_not_ready() {
    let postgres = Postgres::new();
    let server = postgres.server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "a"}));
    let id = id_of(&session);
    assert_eq!(write(server.client(), &id, "before.txt"), Some(200));
    let mut connection = postgres.connect();
    // The test takes the lock and leaves the owner's row alone, so the database is not taken over.
    until("the lock is ours", || {
        let runtime = &postgres.runtime;
        runtime.block_on(connection.execute(TERMINATE)).unwrap();
        let sql = format!("SELECT pg_try_advisory_lock({OWNER_LOCK})");
        let row = runtime.block_on(connection.fetch_one(sqlx::AssertSqlSafe(sql))).unwrap();
        sqlx::Row::get::<bool, _>(&row, 0).then_some(())
    });
    let refused = until("the server is not ready", || {
        let reply = server.client().try_send("GET", "/readyz", &[], None).ok()?;
        (reply.status == 503).then_some(reply.text)
    });
    assert!(refused.contains("does not own its database") && refused.contains("lock"), "{refused}");
    assert_eq!(write(server.client(), &id, "in-doubt.txt"), Some(503));
    postgres.runtime.block_on(connection.close()).unwrap();
    until("the server is ready again", || (write(server.client(), &id, "after.txt") == Some(200)).then_some(()));
    assert_all_there(&server, &session, &["before.txt".to_owned(), "after.txt".to_owned()]);
}

#[test]
fn a_server_that_was_replaced_acknowledges_nothing_more_and_ends() {
    let postgres = Postgres::new();
    let mut first = postgres.server();
    first.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = first.session(json!({"agent_type": "a"}));
    let id = id_of(&session);
    let load = Load::start(first.client(), &id);
    until("the first server acknowledges writes", || (load.count() > 5).then_some(()));
    let pid = Pid::from_raw(i32::try_from(first.pid().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    // The stopped process keeps its idle connections; only the lock is gone.
    until("the lock of the stopped server is gone", || postgres.end_lock_connection().then_some(()));
    let second = postgres.server();
    let mut kept: Vec<String> = (0..5).map(|number| format!("second-{number}.txt")).collect();
    for path in &kept {
        assert_eq!(write(second.client(), &id, path), Some(200));
    }
    let before = load.count();
    kill_process(pid, Signal::CONT).unwrap();
    let status = first.wait_for_end();
    assert_eq!(status.code(), Some(1), "{}", first.log());
    assert!(first.log().contains("lost its database"), "{}", first.log());
    assert!(load.count() <= before + 3, "only answers that were on their way when it was stopped");
    kept.extend(load.end());
    assert_all_there(&second, &session, &kept);
    assert_verifies(&postgres.url, &[second.home(), first.home()]);
}

#[test]
fn a_removed_or_replaced_lock_file_lets_no_second_server_in() {
    let mut running = server();
    running.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = running.session(json!({"agent_type": "a"}));
    let lock = running.home().join("lock");
    std::fs::remove_file(&lock).unwrap();
    assert_refused(&serve_on(running.home(), &[]));
    std::fs::remove_file(&lock).unwrap();
    std::fs::write(&lock, "").unwrap();
    assert_refused(&serve_on(running.home(), &[]));
    running.tool(&session, "write", json!({"path": "a.txt", "content": "kept"}));
    // Control: after a server has ended, the next one can start.
    running.restart(None);
    assert_eq!(running.tool(&session, "read", json!({"path": "a.txt"}))["result"]["content"], "kept");
}

#[test]
fn a_replaced_database_file_ends_the_server_before_it_acknowledges_a_write() {
    let mut running = server();
    running.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let id = id_of(&running.session(json!({"agent_type": "a"})));
    assert_eq!(write(running.client(), &id, "before.txt"), Some(200));
    let path = running.home().join("stead.db");
    std::fs::copy(&path, running.home().join("copy.db")).unwrap();
    std::fs::rename(running.home().join("copy.db"), &path).unwrap();
    assert_ne!(write(running.client(), &id, "after.txt"), Some(200));
    assert_eq!(running.wait_for_end().code(), Some(1), "{}", running.log());
    assert!(running.log().contains("was replaced by another one"), "{}", running.log());
}

/// Appends a record behind the server's back, like a second server without the lock.
fn append_behind(home: &Path, session: &str) {
    use stead_core::tool::ToolName;
    use stead_core::{Actor, Event, Timestamp};
    use stead_store::{Commit, Database, Head, NewEvent, Store};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(&Database::Sqlite(home.join("stead.db")), &home.join("blobs")).await.unwrap();
        let row = store.head(session.parse().unwrap()).await.unwrap().unwrap();
        let event = Event::ToolCallRefused {
            tool: ToolName::Write,
            code: "elsewhere".to_owned(),
            message: "refused by another server".to_owned(),
            actor: Actor::System,
        };
        let payload = serde_json::to_string(&event).unwrap();
        let head = Head {
            status: row.status,
            live: row.live,
            holds_workspace: row.holds_workspace,
            resources: stead_core::admission::Resources::default(),
            agent_type: row.agent_type,
            project: row.project,
            due_at: row.due_at,
            final_hash: row.final_hash,
        };
        let commit = Commit {
            session: row.id,
            expected_seq: Some(row.seq),
            create: false,
            at: Timestamp::from_millis(row.updated_at.millis() + 1),
            events: [NewEvent { kind: event.kind().to_owned(), payload }].into(),
            head,
            audit: Vec::new(),
            owner: None,
            admission: None,
            terms: None,
            idempotency: None,
        };
        store.commit(commit).await.unwrap();
        store.close().await;
    });
}

#[test]
fn a_session_whose_journal_something_else_wrote_to_is_taken_up_from_its_journal() {
    let running = server();
    running.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = running.session(json!({"agent_type": "a"}));
    let id = id_of(&session);
    assert_eq!(write(running.client(), &id, "before.txt"), Some(200));
    append_behind(running.home(), &id);
    // No call runs on the stale state and its stale workspace.
    assert_ne!(write(running.client(), &id, "conflict.txt"), Some(200));
    until("the session is taken up again", || (write(running.client(), &id, "after.txt") == Some(200)).then_some(()));
    assert_all_there(&running, &session, &["before.txt".to_owned(), "after.txt".to_owned()]);
    assert!(running.log().contains("something else wrote to the journal"), "{}", running.log());
}
