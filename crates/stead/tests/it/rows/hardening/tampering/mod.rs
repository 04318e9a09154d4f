//! `stead verify` detects foreign changes to the database and the blobs.

mod history;
mod mutation;
mod postgres;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};
use stead_testkit::TestServer;

use crate::rows::server;
use mutation::{Mutation, Random};

/// A home with every kind of record, whose server was stopped cleanly.
fn written_home() -> TestServer {
    let mut server = server();
    write_records(&mut server);
    server
}

fn write_records(server: &mut TestServer) {
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    // A stop writes a seal, so there are at least two seals from here on.
    assert!(server.terminate().unwrap().success());
    server.restart(None);
    let client = server.client();
    server.agent_type("b", json!({"enabled": true, "provider": "memory", "tools": ["read"]}));
    client.send("DELETE", "/agent-types/b", &[], None);
    let pushed = json!({"files": {"agent.md": "be kind", "more/prompt.md": "be brief"}});
    client.post("/content/bot/versions?allow_invalid=1", pushed).expect(201);
    for number in 0..3 {
        let session = server.session(json!({"agent_type": "a"}));
        let id = session["id"].as_str().unwrap();
        for file in 0..3 {
            server.tool(&session, "write", json!({"path": format!("{file}.txt"), "content": "x"}));
        }
        let bytes = vec![number; 70_000];
        assert_eq!(client.bytes("PUT", &format!("/sessions/{id}/files/b.bin"), &[], &bytes).status, 201);
        client.post(&format!("/sessions/{id}/rewind"), json!({"to": 9999}));
        if number > 0 {
            assert_eq!(client.delete(&format!("/sessions/{id}")).status, 204);
        }
    }
    assert!(server.terminate().unwrap().success());
    server.broken_on_purpose();
}

/// Copies the parts of a home that are verified.
fn copy(home: &Path) -> tempfile::TempDir {
    let copied = copy_files(home);
    std::fs::copy(home.join("stead.db"), copied.path().join("stead.db")).unwrap();
    copied
}

/// Copies the same parts without the database.
fn copy_files(home: &Path) -> tempfile::TempDir {
    let copied = tempfile::tempdir().unwrap();
    for name in ["ledger.key", "ledger.head"] {
        std::fs::copy(home.join(name), copied.path().join(name)).unwrap();
    }
    for blob in blobs(home) {
        let to = copied.path().join(blob.strip_prefix(home).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(blob, to).unwrap();
    }
    copied
}

fn blobs(home: &Path) -> Vec<PathBuf> {
    let entries = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries(home.join("blobs/sha256")).flat_map(entries).collect();
    found.sort();
    found
}

/// Runs SQL with foreign keys and check constraints disabled.
fn tamper(home: &Path, sql: &str) -> Result<(), sqlx::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(home.join("stead.db")).foreign_keys(false);
        let mut connection = SqliteConnection::connect_with(&options.pragma("ignore_check_constraints", "ON")).await?;
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await?;
        connection.close().await
    })
}

/// Runs `stead verify` and returns its exit code, its report and its standard error.
fn verify(home: &Path, args: &[&str]) -> (Option<i32>, Value, String) {
    verify_with(home, &[], args)
}

fn verify_with(home: &Path, env: &[(&str, &str)], args: &[&str]) -> (Option<i32>, Value, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
    command.args(["verify", "--json"]).args(args).env("STEAD_HOME", home).envs(env.iter().copied());
    let output = command.output().unwrap();
    let printed = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), printed, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[track_caller]
fn assert_intact(home: &Path) -> Value {
    let (code, output, error) = verify(home, &[]);
    assert_eq!(code, Some(0), "{output} {error}");
    assert_eq!((&output["ledger"]["broken"], &output["ledger"]["unsigned"]), (&json!([]), &json!(0)), "{output}");
    output
}

#[test]
fn changes_that_keep_every_journal_chain_intact_are_named() {
    let server = written_home();
    let home = server.home();
    // Control: an untouched copy is intact.
    assert_intact(copy(home).path());
    let closed = "(SELECT id FROM sessions WHERE live = 0 LIMIT 1)";
    let cases = [
        // A truncated journal with an adjusted head.
        (
            "events",
            format!(
                "DELETE FROM events WHERE session = {closed} AND seq > 5; UPDATE sessions SET seq = 5, head_hash = \
                 (SELECT hash FROM events WHERE session = sessions.id AND seq = 5) WHERE id = {closed}"
            ),
        ),
        (
            "sessions",
            format!("DELETE FROM events WHERE session = {closed}; DELETE FROM sessions WHERE id = {closed}"),
        ),
        ("sessions", format!("UPDATE sessions SET final_hash = 'blake3:00' WHERE id = {closed}")),
        ("sessions", format!("UPDATE sessions SET status = 'active', live = 1 WHERE id = {closed}")),
        ("audit", "DELETE FROM audit WHERE id = 2".to_owned()),
        ("audit", "UPDATE audit SET actor = 'admin:somebody' WHERE id = 1".to_owned()),
        ("documents", "UPDATE documents SET body = replace(body, 'memory', 'native') WHERE id = 'a'".to_owned()),
        ("documents", "UPDATE documents SET deleted = 0, body = '{}' WHERE id = 'b'".to_owned()),
        ("settings", "UPDATE settings SET value = 'x' WHERE key = 'instance'".to_owned()),
        ("seals", "DELETE FROM seals WHERE number = (SELECT MAX(number) FROM seals)".to_owned()),
        // Everything since the first seal.
        ("seals", "DELETE FROM ledger WHERE seq > (SELECT last FROM seals WHERE number = 1); DELETE FROM seals WHERE number > 1".to_owned()),
        ("seals", "DELETE FROM ledger; DELETE FROM seals".to_owned()),
    ];
    for (table, sql) in cases {
        let copied = copy(home);
        tamper(copied.path(), &sql).unwrap();
        let (code, output, _) = verify(copied.path(), &[]);
        assert_eq!(code, Some(1), "{sql}: {output}");
        let named = output["ledger"]["broken"].as_array().unwrap();
        assert!(named.iter().any(|one| one["table"] == table && one["id"] != ""), "{sql}: {output}");
    }
}

#[test]
fn rows_at_the_edges_and_a_changed_schema_are_found() {
    let server = written_home();
    // Control: an untouched copy is intact.
    assert_intact(copy(server.home()).path());
    let missed: Vec<String> = mutation::edges()
        .into_iter()
        .filter(|sql| {
            let copied = copy(server.home());
            tamper(copied.path(), sql).unwrap();
            verify(copied.path(), &[]).0 != Some(1)
        })
        .collect();
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}

#[test]
fn a_forged_seal_and_a_head_that_was_kept_elsewhere_are_checked() {
    let server = written_home();
    let output = assert_intact(server.home());
    let head = output["ledger"]["head"]["hash"].as_str().unwrap();
    assert_eq!(verify(server.home(), &["--head", head]).0, Some(0));
    let other = format!("blake3:{}", "0".repeat(64));
    assert_eq!(verify(server.home(), &["--head", &other]).0, Some(1));
    // Without the home's key the seals are not trusted, until `--key` names it.
    let copied = copy(server.home());
    std::fs::remove_file(copied.path().join("ledger.key")).unwrap();
    let (code, output, _) = verify(copied.path(), &[]);
    assert_eq!((code, &output["ledger"]["broken"][0]["table"]), (Some(1), &json!("seals")), "{output}");
    let key = output["ledger"]["head"]["key"].as_str().unwrap();
    assert_eq!(verify(copied.path(), &["--key", key]).0, Some(0));
    // With `--key`, the home's own key is not trusted: an attacker may have replaced it and signed
    // again.
    assert_eq!(verify(server.home(), &["--key", key]).0, Some(0));
    let other = format!("ed25519:{}", "0".repeat(64));
    let (code, output, _) = verify(server.home(), &["--key", &other]);
    assert_eq!((code, &output["ledger"]["broken"][0]["table"]), (Some(1), &json!("seals")), "{output}");
}

#[test]
fn a_home_that_is_older_than_the_ledger_opens_and_is_covered_from_then_on() {
    let mut server = written_home();
    tamper(
        server.home(),
        "DROP TABLE ledger; DROP TABLE seals; DROP TABLE owner; DELETE FROM _sqlx_migrations WHERE version = 3",
    )
    .unwrap();
    for name in ["ledger.key", "ledger.head"] {
        std::fs::remove_file(server.home().join(name)).unwrap();
    }
    // Before the first server start with a ledger, `verify` succeeds and reports no ledger records.
    let (code, output, error) = verify(server.home(), &[]);
    assert_eq!((code, &output["ledger"]["records"]), (Some(0), &json!(0)), "{output} {error}");
    server.restart(None);
    assert!(server.terminate().unwrap().success());
    let output = assert_intact(server.home());
    assert!(output["ledger"]["records"].as_u64() > Some(10), "{output}");
    tamper(server.home(), "UPDATE audit SET actor = 'admin:somebody' WHERE id = 1").unwrap();
    assert_eq!(verify(server.home(), &[]).0, Some(1));
}

#[test]
fn a_home_of_a_version_without_tokens_and_usage_verifies_before_and_after_the_upgrade() {
    let mut server = written_home();
    server.restart(None);
    let before = server.client().get("/audit?limit=500").expect(200);
    assert!(server.terminate().unwrap().success());
    tamper(
        server.home(),
        "DROP INDEX audit_token; ALTER TABLE audit DROP COLUMN token; DROP TABLE usage_days; \
         ALTER TABLE reservations DROP COLUMN since; DROP TABLE project_storage; DROP TABLE tool_calls; \
         CREATE TABLE blob_uploads (\n    project TEXT NOT NULL,\n    digest  TEXT NOT NULL,\n    \
         PRIMARY KEY (project, digest)\n); DELETE FROM _sqlx_migrations WHERE version IN (8, 9, 10)",
    )
    .unwrap();
    assert_intact(copy(server.home()).path());
    server.restart(None);
    assert_eq!(server.client().get("/audit?limit=500").expect(200), before);
    // The live session counts from the upgrade on. The closed ones do not count.
    let used = stead_testkit::until("the live session counts", || {
        let used = server.client().get("/usage/history").expect(200)["items"][0].clone();
        (used["session_seconds"].as_f64() > Some(0.0)).then_some(used)
    });
    assert_eq!(used["sessions_created"], 0, "{used}");
    assert!(used["session_seconds"].as_f64() < Some(600.0), "{used}");
    assert!(server.terminate().unwrap().success());
    assert_intact(server.home());
    // Control: the token of a record is part of its hash.
    tamper(server.home(), "UPDATE audit SET token = 'tok_00000000000000000000000001' WHERE id = 1").unwrap();
    assert_eq!(verify(server.home(), &[]).0, Some(1));
}

/// The default is 100 mutations; `cargo xtask nightly` sets 500.
#[test]
fn every_random_mutation_is_found() {
    let count: u64 = std::env::var("STEAD_MUTATIONS").map_or(100, |text| text.parse().unwrap());
    let seed = std::env::var("STEAD_MUTATION_SEED").map_or(1, |text| text.parse().unwrap());
    let server = written_home();
    let home = server.home();
    // Control: an untouched copy is intact, so an exit code of 1 is caused by the mutation.
    assert_intact(copy(home).path());
    let try_one = |number: u64| -> Option<String> {
        let mut random = Random::new(seed * 1_000_000 + number);
        let (copied, mutation) = loop {
            let (copied, mutation) = (copy(home), Mutation::draw(&mut random));
            if mutation.apply(copied.path(), &mut random) {
                break (copied, mutation);
            }
        };
        let (code, output, error) = verify(copied.path(), &[]);
        (code != Some(1)).then(|| format!("{number}: {mutation:?}: {code:?} {output} {error}"))
    };
    let missed: Vec<String> = std::thread::scope(|scope| {
        let threads = [0, 1, 2].map(|part| {
            let try_one = &try_one;
            scope.spawn(move || (0..count).filter(|number| number % 3 == part).filter_map(try_one).collect::<Vec<_>>())
        });
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(
        missed.is_empty(),
        "{} of {count} mutations (seed {seed}) were not found:\n{}",
        missed.len(),
        missed.join("\n")
    );
}
