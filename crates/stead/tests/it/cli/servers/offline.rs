//! Commands that work without a server: `verify` and `doctor`.

use std::path::Path;

use sqlx::{Connection as _, Executor as _, SqliteConnection};

use crate::cli::kit::{self, run};

/// Changes the database with direct SQL.
fn tamper(home: &Path, statement: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite:{}", home.join("stead.db").display());
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        connection.execute(statement).await.unwrap();
        connection.close().await.unwrap();
    });
}

/// A home whose server has stopped, and the id of its session.
fn after_work() -> (tempfile::TempDir, String) {
    let home = tempfile::tempdir().unwrap();
    let mut command = kit::stead(home.path());
    command.args(["up", "--demo", "--listen", "127.0.0.1:0"]).env("WORKSPACE_DEFAULT_PROVIDER", "memory");
    kit::finish(&mut command).ok();
    let runs = run(home.path(), &["verify", "--json"]).json();
    assert_eq!((runs["sessions"].as_u64(), runs["broken"].as_array().map(Vec::len)), (Some(1), Some(0)), "{runs}");
    let journal = home.path().join("stead.db");
    assert!(journal.exists());
    (home, runs["events"].to_string())
}

#[test]
fn intact_journals_verify_with_and_without_a_server() {
    let server = kit::server();
    let id = kit::session(&server);
    for args in [&["verify"][..], &["verify", &id]] {
        let answer = run(server.home(), args).ok();
        assert!(answer.starts_with("✓ 1 of 1 journals intact, 6 events and 0 blobs checked\n"), "{answer}");
    }
    let (home, events) = after_work();
    let answer = run(home.path(), &["verify"]).ok();
    let (journals, ledger) = answer.split_once('\n').unwrap();
    assert_eq!(journals, format!("✓ 1 of 1 journals intact, {events} events and 0 blobs checked"));
    assert!(
        ledger.contains(" ledger records match, signed up to seal ") && ledger.contains(" by ed25519:"),
        "{ledger}"
    );
}

#[test]
fn a_changed_journal_is_found() {
    let (home, _) = after_work();
    tamper(
        home.path(),
        "UPDATE events SET payload = replace(payload, 'Hello', 'Jello') WHERE kind = 'ToolCallStarted'",
    );
    let ran = run(home.path(), &["verify"]);
    assert_eq!(ran.code, Some(1));
    insta::assert_snapshot!(ran.shown(home.path()));
    let broken = run(home.path(), &["verify", "--json"]);
    assert_eq!(broken.code, Some(1));
    let value: serde_json::Value = serde_json::from_str(&broken.out).unwrap();
    assert_eq!(value["broken"][0]["seq"], 7, "{value}");
    let doctor = run(home.path(), &["doctor"]);
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.out.contains("✗ journals: "), "{}", doctor.out);
}

#[test]
fn a_journal_cut_off_is_found() {
    let (home, _) = after_work();
    tamper(home.path(), "DELETE FROM events WHERE seq > 10");
    let ran = run(home.path(), &["verify"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("is broken at sequence number 11: "), "{}", ran.err);
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    let (home, _) = after_work();
    tamper(
        home.path(),
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         SELECT 9000, 'from the future', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1",
    );
    for args in [&["serve", "--listen", "127.0.0.1:0"][..], &["verify"]] {
        let ran = run(home.path(), args);
        assert_eq!(ran.code, Some(1));
        assert!(ran.err.contains("has schema version 9000"), "{}", ran.err);
    }
}

#[test]
fn verify_needs_a_database() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["verify"]);
    insta::assert_snapshot!(ran.shown(home.path()));
    assert!(!home.path().join("stead.db").exists(), "looking must not make one");
}

/// The exit code says if the default provider works.
#[test]
fn the_doctor_knows_whether_the_default_provider_works() {
    let scratch = tempfile::tempdir().unwrap();
    let alone = scratch.path().join("stead");
    std::fs::copy(kit::BINARY, &alone).unwrap();
    let doctor = |provider: &str| {
        let mut command = std::process::Command::new(&alone);
        command.env_clear().env("STEAD_HOME", scratch.path().join("home")).env("STEAD_LISTEN", "127.0.0.1:0");
        command.env("WORKSPACE_DEFAULT_PROVIDER", provider).args(["doctor", "--json"]);
        let ran = kit::finish(&mut command);
        (ran.code, serde_json::from_str::<serde_json::Value>(&ran.out).unwrap())
    };
    let verdict = |answer: &serde_json::Value, section: &str| {
        let sections = answer["sections"].as_array().unwrap();
        sections.iter().find(|known| known["section"] == section).unwrap()["verdict"].clone()
    };
    // Without stead-init there are no boxes: a failure if native is the default, a warning
    // otherwise.
    let (code, answer) = doctor("native");
    assert_eq!((code, &answer["default_provider_works"]), (Some(1), &false.into()), "{answer}");
    assert_eq!(verdict(&answer, "native boxes"), "failed");
    let (code, answer) = doctor("memory");
    assert_eq!((code, &answer["default_provider_works"]), (Some(0), &true.into()), "{answer}");
    assert_eq!(
        (verdict(&answer, "native boxes"), verdict(&answer, "evaluation")),
        ("warning".into(), "warning".into())
    );
    for check in answer["checks"].as_array().unwrap() {
        let helped = !matches!(check["verdict"].as_str(), Some("failed" | "warning")) || check["advice"].is_string();
        assert!(helped && check["section"].is_string(), "{check}");
    }
}

#[test]
fn the_doctor_finds_what_is_wrong() {
    let server = kit::server();
    let healthy = run(server.home(), &["doctor"]);
    assert_eq!(healthy.code, Some(0), "{}{}", healthy.out, healthy.err);
    assert!(!healthy.out.contains('✗'), "{}", healthy.out);
    for known in ["kernel", "user namespaces", "overlayfs", "Landlock", "cgroups", "runtimes"] {
        assert!(healthy.out.contains(&format!("· {known}: ")), "{known}: {}", healthy.out);
    }
    let (home, _) = after_work();
    std::fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let token = home.path().join("token");
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let ran = run(home.path(), &["doctor", "--url", "http://127.0.0.1:9"]);
    assert_eq!(ran.code, Some(1));
    // The rest depends on the machine.
    let verdicts: Vec<&str> = ran.out.lines().take_while(|line| !line.is_empty()).collect();
    insta::assert_snapshot!(kit::normal(&format!("{}\n{}", verdicts.join("\n"), ran.err), home.path()));
}
