use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Answer;
use crate::harness::TestServer;

async fn create(server: &TestServer, key: &str, body: Value) -> Answer {
    server.ask("POST", "/api/v1/sessions?wait=10").json(body).header("Idempotency-Key", key).send().await
}

#[tokio::test]
async fn the_same_key_and_body_is_the_same_session() {
    let server = TestServer::start().await;
    server.declare("t").await;
    let first = create(&server, "k", json!({"agent_type": "t", "metadata": {"a": 1, "b": 2}})).await;
    let again = create(&server, "k", json!({"metadata": {"b": 2, "a": 1}, "agent_type": "t"})).await;
    assert_eq!((first.status, again.status), (201, 201), "{again:?}");
    assert_eq!((&first.json()["id"], &first.json()["token"]), (&again.json()["id"], &again.json()["token"]));
    let other = create(&server, "k", json!({"agent_type": "t"})).await;
    assert_eq!((other.status, other.code().as_str()), (422, "idempotency_mismatch"));
    assert_eq!(server.get("/api/v1/sessions").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn fifty_at_once_make_one_session() {
    let server = TestServer::start().await;
    server.declare("t").await;
    let answers = futures::future::join_all((0..50).map(|_| create(&server, "k", json!({"agent_type": "t"})))).await;
    let mut ids: Vec<Value> = Vec::new();
    for answer in answers {
        match answer.status {
            201 => ids.push(answer.json()["id"].clone()),
            _ => {
                assert_eq!((answer.status, answer.code().as_str()), (409, "idempotency_in_progress"));
                assert!(answer.header("retry-after").is_some());
            }
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    assert_eq!(server.get("/api/v1/sessions").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_key_is_taken_while_its_first_request_is_being_answered() {
    let server = TestServer::start().await;
    // The memory provider is fast, so the two requests may not overlap: retry until they do.
    server.declare("t").await;
    let mut met = false;
    for round in 0..20 {
        let key = format!("k{round}");
        let (first, second) = tokio::join!(create(&server, &key, json!({"agent_type": "t"})), async {
            tokio::time::sleep(Duration::from_micros(300)).await;
            create(&server, &key, json!({"agent_type": "t"})).await
        });
        let statuses = [first.status, second.status];
        assert!(statuses.contains(&201), "{statuses:?}");
        met |= statuses.contains(&409);
        if met {
            break;
        }
    }
    assert!(met, "no two requests ever met");
}

#[tokio::test]
async fn a_declaration_under_a_key_can_be_repeated() {
    let server = TestServer::start().await;
    let declare = async |key: &str, body: Value| {
        server.ask("POST", "/api/v1/agent-types").json(body).header("Idempotency-Key", key).send().await
    };
    let first = declare("k", json!({"id": "t", "name": "T"})).await;
    let again = declare("k", json!({"id": "t", "name": "T"})).await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.json(), again.json());
    assert_eq!(declare("k", json!({"id": "t", "name": "U"})).await.status, 422);
    assert_eq!(server.post("/api/v1/agent-types", json!({"id": "t", "name": "T"})).await.status, 409);
}
