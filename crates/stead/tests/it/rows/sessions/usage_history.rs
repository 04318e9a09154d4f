//! T3: what sessions used is counted once, also over pauses and kills of the server.

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use crate::rows::server;

/// The sums over all rows of the project, in case the test runs over midnight.
fn history(server: &TestServer) -> [f64; 5] {
    let found = server.client().get("/usage/history?by=agent_type&project=web").expect(200);
    let fields = ["sessions_created", "session_seconds", "box_seconds", "cpu_seconds", "memory_byte_seconds"];
    let rows: &Vec<Value> = found["items"].as_array().unwrap();
    fields.map(|field| rows.iter().map(|row| row[field].as_f64().unwrap()).sum())
}

#[test]
fn t3_usage_survives_a_pause_and_kills() {
    let mut server = server();
    let limits = json!({"cpu": "2", "memory": "1G", "disk": "1G"});
    server.agent_type("a", json!({"enabled": true, "provider": "memory", "resource_limits": limits}));
    server.client().put("/projects/web", json!({})).expect(200);
    let session = server.session(json!({"agent_type": "a", "project": "web"}));
    let path = format!("/sessions/{}", session["id"].as_str().unwrap());
    server.client().post(&format!("{path}/pause"), json!({})).expect(200);
    let paused = history(&server);
    assert!(paused[0] == 1.0 && paused[2] > 0.0, "{paused:?}");
    // A paused session lives, and its box does not: only the first number grows, over a kill too.
    server.restart(None);
    let later = until("the paused session counts", || Some(history(&server)).filter(|now| now[1] > paused[1]));
    assert_eq!(later[2..], paused[2..], "a paused session gave its box back");
    server.client().post(&format!("{path}/resume"), json!({})).expect(200);
    until("the resumed session counts", || (history(&server)[2] > paused[2]).then_some(()));
    assert_eq!(server.client().delete(&path).status, 204);
    until("the session is closed", || (server.client().get(&path).expect(200)["status"] == "closed").then_some(()));
    let [created, lived, held, cpu, memory] = history(&server);
    assert!(created == 1.0 && lived > held && held > paused[2], "{lived} {held}");
    assert!((cpu - 2.0 * held).abs() < 1e-6, "{cpu} {held}");
    assert!((memory - held * f64::from(1 << 30)).abs() < 2.0, "{memory} {held}");
    server.restart(None);
    assert_eq!(history(&server), [created, lived, held, cpu, memory], "an ended session does not change any more");
}
