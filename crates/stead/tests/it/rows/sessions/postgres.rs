//! The same server on PostgreSQL: the life of a session, a crash, and the verification.

use std::process::Command;

use serde_json::json;
use stead_testkit::{ServerOptions, postgres};

use crate::rows::server_with;

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_life_on_postgresql() {
    let (database, name) = postgres::create_database().await;
    let stead_store::Database::Postgres(url) = database else { panic!("not PostgreSQL") };
    tokio::task::spawn_blocking(move || live(&url)).await.unwrap();
    postgres::drop_database(&name).await;
}

fn live(url: &str) {
    let mut server = server_with(ServerOptions::default().env("STEAD_DATABASE_URL", url));
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let key = [("idempotency-key", "k")];
    let body = json!({"agent_type": "a"}).to_string();
    let session = server.client().send("POST", "/sessions?wait=10", &key, Some(body.clone())).expect(201);
    server.tool(&session, "write", json!({"path": "a.txt", "content": "kept"}));
    server.restart(None);
    assert_eq!(server.tool(&session, "read", json!({"path": "a.txt"}))["result"]["content"], "kept");
    let again = server.client().send("POST", "/sessions", &key, Some(body)).json();
    assert_eq!(again["id"], session["id"]);
    let id = session["id"].as_str().unwrap();
    let audit = server.client().get(&format!("/audit?session={id}&type=policy_resolved")).expect(200);
    assert_eq!(audit["items"].as_array().unwrap().len(), 1);
    assert_eq!(server.client().delete(&format!("/sessions/{id}")).status, 204);
    let verify = Command::new(env!("CARGO_BIN_EXE_stead"))
        .args(["verify", "--json"])
        .env("STEAD_HOME", server.home())
        .env("STEAD_DATABASE_URL", url)
        .output()
        .unwrap();
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stderr));
    // A second server on the same database is refused, whatever its home.
    let second = Command::new(env!("CARGO_BIN_EXE_stead"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("STEAD_HOME", server.home().join("second"))
        .env("STEAD_DATABASE_URL", url)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(1) && printed.contains("another Stead server"), "{printed}");
    // The home has no database of its own.
    assert!(!server.home().join("stead.db").exists());
}
