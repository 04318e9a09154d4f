//! A child process commits and acknowledges; then it is killed, or its disk fills up. Every
//! acknowledged commit must be there.
//!
//! The child is this test binary, which runs only [`child`]. The environment sets its role.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stead_core::SessionId;
use stead_store::{CommitError, Database, NewEvent, Store, StoreError};

use crate::fixture::{Fixture, append, create};
use crate::tamper::assert_intact;

const SESSION: SessionId = SessionId::from_bits(42);
const ROLE: &str = "STEAD_STORE_CHILD";

fn command(program: Command, role: &str, database: &Database, fixture: &Fixture) -> Command {
    let mut command = program;
    let database = match database {
        Database::Sqlite(path) => format!("sqlite:{}", path.display()),
        Database::Postgres(url) => url.clone(),
    };
    command.args(["--exact", "crash::child", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env("STEAD_STORE_DATABASE", database).env("STEAD_STORE_BLOBS", fixture.blobs());
    command.stdout(Stdio::piped());
    command
}

/// Entry point of the child processes, not a test of its own.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let database: Database = std::env::var("STEAD_STORE_DATABASE").unwrap().parse().unwrap();
    let blobs = PathBuf::from(std::env::var_os("STEAD_STORE_BLOBS").unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Store::open(&database, &blobs).await.unwrap();
        match role.as_str() {
            "commit until killed" => commit_until_killed(store).await,
            "fill the disk" => fill_the_disk(store).await,
            other => panic!("no such role: {other}"),
        }
    });
}

async fn commit_until_killed(store: Store) {
    store.commit(create(SESSION, 1)).await.unwrap();
    let writers = (0..4).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            loop {
                let committed = store.commit(append(SESSION, None, 3)).await.unwrap();
                // A single write, so that lines of several threads do not mix.
                let line = format!("\nacked {}\n", committed.last_seq);
                std::io::stdout().write_all(line.as_bytes()).unwrap();
            }
        })
    });
    futures::future::join_all(writers).await;
}

pub(crate) async fn what_was_acknowledged_survives_a_kill(fixture: Fixture) {
    for round in 1..=3 {
        let session_exists = round > 1;
        if session_exists {
            let sql = "DELETE FROM events; DELETE FROM reservations; DELETE FROM sessions";
            fixture.tamper(sql.to_owned()).await;
        }
        let program = Command::new(std::env::current_exe().unwrap());
        let mut child = command(program, "commit until killed", &fixture.database, &fixture).spawn().unwrap();
        let mut acked = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            // The kill may have cut the last line; a truncated number is a smaller one, which must
            // also be there.
            if let Some(seq) = line.unwrap_or_default().strip_prefix("acked ").and_then(|seq| seq.parse::<u64>().ok()) {
                acked.push(seq);
            }
            if acked.len() == 40 * round {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(acked.len() >= 40 * round, "the child ended before it was killed");

        let store = fixture.open().await;
        let row = store.head(SESSION).await.unwrap().unwrap();
        assert!(acked.iter().all(|seq| *seq <= row.seq), "acknowledged and lost: {acked:?} after {}", row.seq);
        assert_intact(&store, SESSION, row.seq).await;
        store.close().await;
    }
}

/// Reaches the file size limit, lifts it, and continues with the same store.
async fn fill_the_disk(store: Store) {
    let mut commit = create(SESSION, 0);
    commit.events = [].into();
    store.commit(commit).await.unwrap();
    let mut acked = 0;
    let error = loop {
        let mut commit = append(SESSION, None, 1);
        commit.events = vec![NewEvent { kind: "Big".into(), payload: format!("\"{}\"", "x".repeat(20_000)) }].into();
        match store.commit(commit).await {
            Ok(committed) => acked = committed.last_seq,
            Err(error) => break error,
        }
        assert!(acked < 1000, "the limit was never met");
    };
    let typed = matches!(error, CommitError::Store(StoreError::Unavailable { .. } | StoreError::OutcomeUnknown { .. }));
    assert!(typed, "{error:?}");
    let limit = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let committed = store.commit(append(SESSION, None, 1)).await.unwrap();
    assert!(acked > 0 && committed.last_seq > acked);
    assert_intact(&store, SESSION, committed.last_seq).await;
    store.close().await;
    println!("\nrecovered");
}

#[test]
fn a_full_disk_is_an_error_and_the_store_recovers() {
    crate::fixture::without_fail_points(crate::fixture::Kind::Sqlite, async |fixture| {
        // An ignored SIGXFSZ is inherited, so a write beyond the limit fails instead of killing the
        // child.
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; ulimit -S -f 2000; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
        let child = command(shell, "fill the disk", &fixture.database, &fixture).output().unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(
            child.status.success() && said.contains("recovered"),
            "{said}\n{}",
            String::from_utf8_lossy(&child.stderr)
        );
    });
}
