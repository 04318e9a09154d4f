//! The owner of a session, and the filters of the list.

use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection as _, SqliteConnection};
use stead_testkit::TestServer;

use crate::rows::server;

fn found(server: &TestServer, query: &str) -> Vec<String> {
    let page = server.client().get(&format!("/sessions?{query}")).expect(200);
    let ids = page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned());
    ids.collect()
}

fn ids(sessions: &[&Value]) -> Vec<String> {
    sessions.iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_session_names_its_owner_and_is_found_by_it() {
    let mut server = server();
    server.agent_type("w", json!({"enabled": true}));
    server.agent_type("reviewer", json!({"enabled": true}));
    server.client().put("/projects/web", json!({})).expect(200);
    let metadata = json!({"ticket": "OPS-1", "team": "blue whales", "nested": {"level": 3}, "nul": "a\u{0}b"});
    let task = json!({"id": "nightly/42"});
    let one = server.session(json!({"agent_type": "w", "project": "web", "metadata": metadata, "task": task}));
    let two = server.session(json!({"agent_type": "reviewer", "metadata": {"ticket": "OPS-2", "team": "blue whales"}}));
    assert_eq!((&one["owner"], &two["owner"]), (&json!("admin:admin"), &json!("admin:admin")));
    let both = ids(&[&two, &one]);
    for (query, expected) in [
        ("owner=admin:admin", &both[..]),
        ("owner=user:alice@web", &[]),
        ("owner=admin", &[]),
        ("metadata.ticket=OPS-1", &both[1..]),
        ("metadata.team=blue%20whales", &both[..]),
        ("metadata.team=blue%20whales&metadata.ticket=OPS-2", &both[..1]),
        ("metadata.ticket=OPS-1&metadata.ticket2=x", &[]),
        ("metadata.nested.level=3", &both[1..]),
        ("metadata.nul=a%00b", &both[1..]),
        ("metadata.ticket=OPS", &[]),
        ("q=whales", &both[..]),
        ("q=WHA%20ops-2", &both[..1]),
        ("q=nightly", &both[1..]),
        ("q=review", &both[..1]),
        ("q=admin:adm", &both[..]),
        ("q=nothing", &[]),
        ("q=blue&project=web", &both[1..]),
        ("q=blue&status=closed", &[]),
        ("agent_type=reviewer&owner=admin:admin", &both[..1]),
    ] {
        assert_eq!(found(&server, query), expected, "{query}");
    }
    let prefix = &both[1][..both[1].len() - 1];
    assert_eq!(found(&server, &format!("q={prefix}")), both[1..]);
    for wrong in ["metadata=x", "metadata.=x", "owner=", "q=", "owner=a&owner=b", "search=x"] {
        server.client().get(&format!("/sessions?{wrong}")).problem(400, "invalid_request");
    }
    // The pages of a filtered list.
    let page = server.client().get("/sessions?owner=admin:admin&limit=1").expect(200);
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(found(&server, &format!("owner=admin:admin&limit=1&cursor={cursor}")), both[1..]);
    server.restart(None);
    assert_eq!(found(&server, "metadata.ticket=OPS-1"), both[1..], "after a restart");
    let shown = server.client().get(&format!("/sessions/{}", both[1])).expect(200);
    assert_eq!(shown["owner"], "admin:admin");
}

/// A database of an older version has no terms.
#[test]
fn sessions_of_an_older_version_are_found() {
    let mut server = server();
    server.agent_type("w", json!({"enabled": true}));
    let session = server.session(json!({"agent_type": "w", "metadata": {"ticket": "OPS-9"}}));
    server.terminate();
    let database = server.home().join("stead.db");
    let sql = "DELETE FROM session_terms; DELETE FROM settings WHERE key = 'session_terms_complete'; \
               DELETE FROM ledger WHERE kind = 'setting' AND subject = 'session_terms_complete';";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(&database);
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
    server.broken_on_purpose();
    server.start_again();
    assert_eq!(found(&server, "metadata.ticket=OPS-9"), ids(&[&session]));
}
