//! Tokens, roles and projects.

mod images;
mod isolation;
mod tokens;
mod usage;

use serde_json::{Value, json};

use crate::client::Answer;
use crate::harness::TestServer;

/// Creates a project.
async fn project(server: &TestServer, id: &str) {
    let answer = server.put(&format!("/api/v1/projects/{id}"), json!({})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Creates a token and returns the answer with its text.
async fn token(server: &TestServer, body: Value) -> Value {
    let answer = server.post("/api/v1/tokens", body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

/// Creates a token of a role in a project and returns its text.
async fn member(server: &TestServer, role: &str, project: &str) -> String {
    let made = token(server, json!({"name": format!("{role}-{project}"), "role": role, "project": project})).await;
    made["token"].as_str().unwrap().to_owned()
}

async fn ask(server: &TestServer, token: &str, method: &str, path: &str, body: Value) -> Answer {
    let request = server.ask(method, path).token(Some(token));
    let request = if body.is_null() { request } else { request.json(body) };
    request.send().await
}

async fn get(server: &TestServer, token: &str, path: &str) -> Answer {
    ask(server, token, "GET", path, Value::Null).await
}

/// Imports an image with one file of this text.
async fn import(server: &TestServer, token: &str, path: &str, text: &str) -> Value {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("file"), text).unwrap();
    let mut tar = Vec::new();
    let tree = stead_fs::DiskFs::open(files.path()).unwrap();
    stead_fs::archive::export_tar(&tree, &stead_fs::WorkspacePath::root(), &mut tar).unwrap();
    let answer = server.ask("PUT", path).token(Some(token)).bytes(tar).send().await;
    assert_eq!(answer.status, 201, "{path}: {answer:?}");
    answer.json()
}

/// Closes a session, so that its box ends with the test.
async fn close(server: &TestServer, session: &str) {
    let closed = server.ask("DELETE", &format!("/api/v1/sessions/{session}")).send().await;
    assert!(closed.status < 300, "{closed:?}");
}
