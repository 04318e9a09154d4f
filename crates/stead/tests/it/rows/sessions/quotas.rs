//! T3: quotas of projects hold under concurrency and crashes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use stead_testkit::{Client, Reply, ServerOptions, TestServer, until};

use crate::rows::{build_init, server, server_with};

const CLIENTS: usize = 64;

/// A number from the environment, for the long form in `cargo xtask nightly`.
fn size(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// A server with an agent type and a project.
fn project(server: &TestServer, quotas: Value) {
    let limits = json!({"cpu": "1", "memory": "1G", "disk": "1G"});
    server.agent_type("a", json!({"enabled": true, "provider": "memory", "resource_limits": limits}));
    server.client().put("/projects/web", json!({})).expect(200);
    server.client().put("/projects/web/quotas", quotas).expect(200);
}

fn create(server: &TestServer) -> Reply {
    server.client().post("/sessions", json!({"agent_type": "a", "project": "web"}))
}

fn usage(client: &Client, project: &str) -> Value {
    client.get(&format!("/projects/{project}/usage")).expect(200)
}

/// The numbers of live sessions and of sessions with a workspace, counted from the list.
fn live(client: &Client, project: &str) -> (usize, usize) {
    let (mut cursor, mut found, mut boxes) = (String::new(), 0, 0);
    loop {
        let page = client.get(&format!("/sessions?limit=500&project={project}{cursor}")).expect(200);
        for session in page["items"].as_array().unwrap() {
            let ended = ["closed", "failed"].contains(&session["status"].as_str().unwrap());
            found += usize::from(!ended);
            boxes += usize::from(!ended && session["degraded"] == false);
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (found, boxes),
        }
    }
}

/// The counters of a project equal its sessions, before and after a crash.
fn check(client: &Client, project: &str, quota: usize) -> usize {
    let (sessions, boxes) = live(client, project);
    let usage = usage(client, project);
    let counted = |quantity: &str| usage["project"][quantity]["used"].as_u64().unwrap();
    assert_eq!(counted("sessions"), sessions as u64, "{usage}");
    assert_eq!(counted("boxes"), boxes as u64, "{usage}");
    assert_eq!(counted("memory"), (boxes as u64) << 30, "{usage}");
    assert!(sessions <= quota, "{sessions} sessions in a project with a quota of {quota}");
    sessions
}

/// 64 clients fill the quotas of several projects. The server is killed on the way. No quota is
/// exceeded, every place is used, and the counters equal the sessions.
#[test]
fn t3_quotas_hold_for_64_clients_and_a_kill() {
    let (projects, sessions) = (size("STEAD_QUOTA_PROJECTS", 4), size("STEAD_QUOTA_SESSIONS", 120));
    let quota = sessions / projects;
    let mut server = server_with(ServerOptions::default().env("WORKSPACE_MAX_CONCURRENT", "1000000"));
    project(&server, json!({}));
    let names: Vec<String> = (0..projects).map(|number| format!("p{number}")).collect();
    for name in &names {
        server.client().put(&format!("/projects/{name}"), json!({})).expect(200);
        server.client().put(&format!("/projects/{name}/quotas"), json!({"sessions": quota})).expect(200);
    }
    let (asked, killed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let client = server.client().clone();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let (client, names, asked, killed) = (client.clone(), &names, &asked, &killed);
            scope.spawn(move || {
                while !killed.load(Ordering::Relaxed) {
                    let number = asked.fetch_add(1, Ordering::Relaxed);
                    let body = json!({"agent_type": "a", "project": names[number % names.len()]}).to_string();
                    // No answer means that the server was killed.
                    let Ok(reply) = client.try_send("POST", "/sessions", &[], Some(body)) else { return };
                    assert!([201, 429].contains(&reply.status), "{}", reply.text);
                }
            });
        }
        until("half of the requests", || (asked.load(Ordering::Relaxed) >= sessions / 2).then_some(()));
        server.kill();
        killed.store(true, Ordering::Relaxed);
    });
    server.start_again();
    for name in &names {
        check(server.client(), name, quota);
    }
    fill(server.client(), &names, quota);
    for name in &names {
        assert_eq!(check(server.client(), name, quota), quota);
    }
    server.restart(None);
    for name in &names {
        assert_eq!(check(server.client(), name, quota), quota);
    }
}

/// Creates sessions with 64 clients until every project refuses.
fn fill(client: &Client, names: &[String], quota: usize) {
    let full = Mutex::new(vec![0; names.len()]);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let full = &full;
            scope.spawn(move || {
                let project = number % names.len();
                loop {
                    let body = json!({"agent_type": "a", "project": names[project]});
                    let reply = client.post("/sessions", body);
                    if reply.status == 201 {
                        continue;
                    }
                    reply.problem(429, "quota_exceeded");
                    let expected = json!({
                        "scope": format!("project/{}", names[project]), "quantity": "sessions",
                        "used": quota, "requested": 1, "allowed": quota,
                    });
                    assert_eq!(reply.json()["parameters"], expected);
                    assert_eq!(reply.header("retry-after"), Some("5"));
                    full.lock().unwrap()[project] += 1;
                    return;
                }
            });
        }
    });
    assert!(full.into_inner().unwrap().iter().all(|refused| *refused > 0));
}

#[test]
fn t3_every_quantity_is_limited_and_freed() {
    let server = server();
    for (quotas, quantity, code, status, allowed) in [
        (json!({"sessions": 1}), "sessions", "quota_exceeded", 429, 1_u64),
        (json!({"boxes": 1}), "boxes", "quota_exceeded", 429, 1),
        (json!({"cpu": "1500m"}), "cpu", "quota_exceeded", 429, 1500),
        (json!({"memory": "1G"}), "memory", "quota_exceeded", 429, 1 << 30),
        (json!({"disk": "1G"}), "disk", "disk_quota_exceeded", 507, 1 << 30),
        (json!({"per_agent_type": {"a": {"sessions": 1}}}), "sessions", "quota_exceeded", 429, 1),
    ] {
        if server.client().get("/agent-types/a").status == 404 {
            project(&server, json!({}));
        }
        server.client().put("/projects/web/quotas", quotas).expect(200);
        let first = create(&server).expect(201);
        let refused = create(&server);
        refused.problem(status, code);
        let parameters = &refused.json()["parameters"];
        assert_eq!((&parameters["quantity"], &parameters["allowed"]), (&json!(quantity), &json!(allowed)));
        // A session of another project, or of none, is not concerned.
        let other = server.client().post("/sessions", json!({"agent_type": "a"})).expect(201);
        for session in [first, other] {
            assert_eq!(server.client().delete(&format!("/sessions/{}", session["id"].as_str().unwrap())).status, 204);
        }
        let again = create(&server).expect(201);
        assert_eq!(server.client().delete(&format!("/sessions/{}", again["id"].as_str().unwrap())).status, 204);
    }
}

#[test]
fn t3_zero_allows_nothing_and_absent_sets_no_limit() {
    let server = server();
    project(&server, json!({"boxes": 0}));
    let refused = create(&server);
    refused.problem(429, "quota_exceeded");
    assert_eq!(refused.header("retry-after"), None, "a wait does not help");
    server.client().put("/projects/web/quotas", json!({})).expect(200);
    create(&server).expect(201);
    let usage = usage(server.client(), "web");
    assert_eq!(usage["project"]["memory"], json!({"used": 1 << 30, "allowed": null}));
    assert_eq!(usage["agent_types"][0]["name"], "a");
    server.client().put("/projects/web/quotas", json!({"sesions": 1})).problem(400, "invalid_request");
    server.client().put("/projects/none/quotas", json!({})).problem(404, "not_found");
    server.client().get("/projects/none/usage").problem(404, "not_found");
}

#[test]
fn t3_a_request_for_several_clones_gets_all_or_none() {
    let server = server();
    project(&server, json!({"sessions": 3}));
    let source = server.session(json!({"agent_type": "a", "project": "web"}));
    let path = format!("/sessions/{}/clone?wait=30", source["id"].as_str().unwrap());
    server.client().post(&path, json!({"isolation": "none", "count": 3})).problem(429, "quota_exceeded");
    assert_eq!(usage(server.client(), "web")["project"]["sessions"]["used"], 1);
    server.client().post(&path, json!({"isolation": "none", "count": 2})).expect(201);
    assert_eq!(usage(server.client(), "web")["project"]["sessions"], json!({"used": 3, "allowed": 3}));
}

#[test]
fn t3_creations_have_a_rate() {
    let server = server();
    project(&server, json!({"creates_per_minute": 2}));
    create(&server).expect(201);
    create(&server).expect(201);
    let refused = create(&server);
    refused.problem(429, "quota_exceeded");
    assert_eq!(refused.json()["parameters"]["quantity"], "creates_per_minute");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds), "one token per thirty seconds, not {seconds}");
    // Other projects have their own rate.
    server.client().put("/projects/other", json!({})).expect(200);
    server.client().post("/sessions", json!({"agent_type": "a", "project": "other"})).expect(201);
}

#[test]
fn t3_boxes_may_not_promise_more_memory_than_the_factor_allows() {
    build_init();
    // No host has enough memory for a box of 16M with this factor.
    let server = server_with(ServerOptions::default().env("STEAD_MEMORY_OVERCOMMIT", "0.000000001"));
    let limits = json!({"memory": "16M"});
    server.agent_type("box", json!({"enabled": true, "provider": "native", "resource_limits": limits}));
    server.agent_type("memory", json!({"enabled": true, "provider": "memory", "resource_limits": limits}));
    let refused = server.client().post("/sessions", json!({"agent_type": "box"}));
    refused.problem(429, "capacity");
    let parameters = &refused.json()["parameters"];
    assert_eq!((&parameters["scope"], &parameters["requested"]), (&json!("host"), &json!(16 << 20)));
    // Control: a workspace in the server's memory is no box.
    server.client().post("/sessions", json!({"agent_type": "memory"})).expect(201);
}
