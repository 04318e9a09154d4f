//! The usage history: who sees what, and its parameters.

use serde_json::{Value, json};

use super::{ask, get, member, project};
use crate::harness::TestServer;

/// Two projects with a session each, one of them closed.
async fn used() -> TestServer {
    let server = TestServer::start().await;
    for (place, closed) in [("web", true), ("data", false)] {
        project(&server, place).await;
        let limits = json!({"cpu": "2", "memory": "1G", "disk": "1G"});
        let workspace = json!({"enabled": true, "provider": "memory", "resource_limits": limits});
        let declared = json!({"id": format!("of-{place}"), "workspace": workspace});
        assert_eq!(server.post(&format!("/api/v1/agent-types?project={place}"), declared).await.status, 201);
        let developer = member(&server, "developer", place).await;
        let body = json!({"agent_type": format!("of-{place}")});
        let session = ask(&server, &developer, "POST", "/api/v1/sessions?wait=10", body).await.json();
        let path = format!("/api/v1/sessions/{}", session["id"].as_str().unwrap());
        assert_eq!(ask(&server, &developer, "POST", &format!("{path}/tools/ls"), json!({})).await.status, 200);
        if closed {
            assert_eq!(server.ask("DELETE", &path).send().await.status, 204);
        }
    }
    server
}

fn names(list: &Value) -> Vec<(&str, &str)> {
    fn text(value: &Value) -> &str {
        value.as_str().unwrap_or("")
    }
    list["items"].as_array().unwrap().iter().map(|row| (text(&row["project"]), text(&row["name"]))).collect()
}

#[tokio::test]
async fn t3_a_member_sees_the_usage_of_the_own_project_only() {
    let server = used().await;
    let all = server.get("/api/v1/usage/history").await.json();
    assert_eq!(names(&all), [("data", "data"), ("web", "web")], "{all}");
    for row in all["items"].as_array().unwrap() {
        assert_eq!((&row["sessions_created"], &row["tool_calls"]), (&json!(1), &json!(1)), "{all}");
        assert!(row["session_seconds"].as_f64() >= row["box_seconds"].as_f64(), "{all}");
    }
    let viewer = member(&server, "viewer", "web").await;
    let own = get(&server, &viewer, "/api/v1/usage/history?by=agent_type").await.json();
    assert_eq!(names(&own), [("web", "of-web")], "{own}");
    let own = get(&server, &viewer, "/api/v1/usage/history?by=user&project=web").await.json();
    assert_eq!(names(&own), [("web", "developer-web")], "{own}");
    assert_eq!(get(&server, &viewer, "/api/v1/usage/history?project=data").await.status, 404);
    // An administrator may choose a project.
    let chosen = server.get("/api/v1/usage/history?by=agent_type&project=data").await.json();
    assert_eq!(names(&chosen), [("data", "of-data")], "{chosen}");
    // The live session goes on counting.
    let before = chosen["items"][0]["session_seconds"].as_f64().unwrap();
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let now = server.get("/api/v1/usage/history?by=agent_type&project=data").await.json();
        let seconds: f64 =
            now["items"].as_array().unwrap().iter().filter_map(|row| row["session_seconds"].as_f64()).sum();
        if seconds > before {
            break;
        }
        assert!(tokio::time::Instant::now() < until, "{now}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_usage_history_has_pages_and_a_period() {
    let server = used().await;
    let first = server.get("/api/v1/usage/history?limit=1").await.json();
    assert_eq!(names(&first), [("data", "data")], "{first}");
    let cursor = first["next_cursor"].as_str().unwrap().replace('/', "%2F");
    let second = server.get(&format!("/api/v1/usage/history?limit=1&cursor={cursor}")).await.json();
    assert_eq!((names(&second), &second["next_cursor"]), (vec![("web", "web")], &Value::Null), "{second}");
    let past = server.get("/api/v1/usage/history?from=2020-01-01&to=2020-02-01T00:00:00Z").await.json();
    assert_eq!(past, json!({"items": [], "next_cursor": null}));
    let refusals = [
        ("by=colour", "unknown group \"colour\" (valid: project, user, agent_type)"),
        ("from=yesterday", "neither a date such as 2026-11-16 nor an RFC 3339 time"),
        ("to=2026-11-31", "neither a date"),
        ("from=2026-11-16&to=2026-11-16", "must be before the end, which is 2026-11-16"),
        ("from=2020-01-01&to=2026-01-01", "at most 366 days"),
        ("cursor=x", "is not the next_cursor of a page"),
        ("of=x", "unknown query parameter"),
    ];
    for (query, message) in refusals {
        let answer = server.get(&format!("/api/v1/usage/history?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {answer:?}");
        assert!(answer.body.replace("\\\"", "\"").contains(message), "{query}: {answer:?}");
    }
}
