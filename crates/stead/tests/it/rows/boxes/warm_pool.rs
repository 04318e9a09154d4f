//! S5, the warm pool: a ready box is used once and bound to the session that takes it, and none is
//! left behind.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_testkit::podman::{self, BUSYBOX, TOOLS};
use stead_testkit::{ServerOptions, TestServer};

use super::native::build_init;
use crate::rows::server_with;

fn with_pool(provider: &str, size: u64) -> TestServer {
    build_init();
    let mut options = ServerOptions::default();
    if provider == "podman" {
        options = options.env("PODMAN_BASE_URL", &podman::shared().url()).env("STEAD_PODMAN_IMAGE", TOOLS);
    }
    let server = server_with(options);
    server.agent_type(
        "w",
        json!({"enabled": true, "provider": provider, "workspace_policy": "empty", "require_workspace": true,
               "warm_pool": size, "resource_limits": {"cpu": "1", "memory": "128M", "disk": "48M", "pids": 64}}),
    );
    ready(&server, size);
    server
}

/// Waits until `count` boxes are ready.
fn ready(server: &TestServer, count: u64) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let entry = server.client().get("/pool").expect(200)["items"][0].clone();
        if entry["ready"] == count {
            return entry;
        }
        assert!(Instant::now() < deadline, "{entry}\n{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn configure(server: &TestServer, field: &str, value: Value) {
    let mut config = server.client().get("/agent-types/w/workspace-config").expect(200);
    config[field] = value;
    server.client().put("/agent-types/w/workspace-config", config).expect(200);
}

fn a_member_is_bound_at_the_claim_and_used_once(provider: &str) {
    let server = with_pool(provider, 1);
    let session = server.session(json!({"agent_type": "w", "task": {"env": {"WHOSE": "mine"}}}));
    let workspace = &session["workspace"];
    assert_eq!((&workspace["warm"], &workspace["provider"]), (&json!(true), &json!(provider)), "{session}");
    assert_eq!(workspace["limits"]["enforced"], json!(["cpu", "memory", "disk", "pids"]), "{session}");
    let call = |session: &Value, command: &str| {
        let answer = server.tool(session, "bash", json!({"command": command}));
        answer["result"].clone()
    };
    let seen =
        call(&session, "echo $WHOSE; ls -A /workspace; echo trace > /tmp/trace; echo trace > a; (setsid sleep 600 &)");
    assert_eq!(seen["stdout"], "mine\n", "{seen}");
    assert_eq!(call(&session, "python3 -c 'x = bytearray(300 << 20)'")["oom"], true);
    let entry = ready(&server, 1);
    assert_eq!((&entry["hits"], &entry["misses"], &entry["fills"]), (&json!(1), &json!(0), &json!(2)), "{entry}");
    let id = session["id"].as_str().unwrap();
    server.client().delete(&format!("/sessions/{id}")).expect(204);
    let next = server.session(json!({"agent_type": "w"}));
    assert_eq!(next["workspace"]["warm"], true, "{next}");
    let seen = call(&next, "echo [$WHOSE]; ls -A /workspace; cat /tmp/trace; pgrep -c sleep");
    assert_eq!(seen["stdout"], "[]\n0\n", "{seen}");
    let metrics = server.client().get("/metrics").text;
    assert!(metrics.contains("stead_pool_hits_total{agent_type=\"w\"} 2"), "{metrics}");
}

#[test]
fn s5_podman_members_are_bound_at_the_claim_and_used_once() {
    a_member_is_bound_at_the_claim_and_used_once("podman");
}

#[test]
fn s5_native_members_are_bound_at_the_claim_and_used_once() {
    a_member_is_bound_at_the_claim_and_used_once("native");
}

/// A pooled box starts empty. A session with files still gets them, and its writes are visible,
/// kept and restored.
#[test]
fn s5_a_native_member_takes_the_policy_of_its_session() {
    a_member_takes_the_policy_of_its_session("native");
}

#[test]
fn s5_a_podman_member_takes_the_policy_of_its_session() {
    a_member_takes_the_policy_of_its_session("podman");
}

fn a_member_takes_the_policy_of_its_session(provider: &str) {
    let server = with_pool(provider, 1);
    for policy in [json!("empty"), json!({"type": "bundle", "source": {"blob": bundle(&server)}})] {
        configure(&server, "workspace_policy", policy.clone());
        ready(&server, 1);
        let session = server.session(json!({"agent_type": "w"}));
        assert_eq!(session["workspace"]["warm"], true, "{session}");
        let id = session["id"].as_str().unwrap();
        let call =
            |command: &str| server.tool(&session, "bash", json!({"command": command}))["result"]["stdout"].clone();
        let began = if policy == json!("empty") { "" } else { "brought\n" };
        assert_eq!(call("cat brought 2>/dev/null; echo one > new"), began);
        let diff = server.client().get(&format!("/sessions/{id}/diff")).expect(200);
        assert!(diff.to_string().contains("new") && !diff.to_string().contains("brought"), "{diff}");
        let kept = server.client().post(&format!("/sessions/{id}/snapshots"), json!({})).expect(201);
        call("rm new; echo two > other");
        let snapshot = kept["id"].as_str().unwrap();
        server.client().post(&format!("/sessions/{id}/snapshots/{snapshot}/restore"), json!({})).expect(200);
        assert_eq!(call("cat new; ls"), if began.is_empty() { "one\nnew\n" } else { "one\nbrought\nnew\n" });
        server.client().delete(&format!("/sessions/{id}")).expect(204);
    }
}

/// Uploads a tar with one file and returns its digest.
fn bundle(server: &TestServer) -> String {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(8);
    header.set_mode(0o644);
    tar.append_data(&mut header, "brought", &b"brought\n"[..]).unwrap();
    let reply = server.client().bytes("POST", "/blobs", &[], &tar.into_inner().unwrap()).reply();
    let stored: Value = serde_json::from_str(&reply.text).unwrap();
    stored["digest"].as_str().unwrap().to_owned()
}

#[test]
fn s5_many_at_once_get_one_member_each_and_the_rest_are_made() {
    let server = with_pool("podman", 3);
    let sessions: Vec<Value> = std::thread::scope(|scope| {
        let create = || scope.spawn(|| server.session(json!({"agent_type": "w"})));
        let started: Vec<_> = (0..6).map(|_| create()).collect();
        started.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let mut ids: Vec<&str> = sessions.iter().map(|session| session["workspace"]["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6);
    let warm = sessions.iter().filter(|session| session["workspace"]["warm"] == true).count() as u64;
    assert!(warm >= 3, "{warm}");
    let entry = ready(&server, 3);
    assert_eq!((&entry["hits"], &entry["misses"]), (&json!(warm), &json!(6 - warm)), "{entry}");
}

#[test]
fn s5_members_of_another_shape_are_discarded() {
    let server = with_pool("podman", 1);
    let before = ready(&server, 1);
    configure(&server, "base_image", json!(BUSYBOX));
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.client().get("/pool").expect(200)["items"][0]["key"] == before["key"] {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    let after = ready(&server, 1);
    assert_eq!(after["discarded"], 1, "{after}");
    let session = server.session(json!({"agent_type": "w"}));
    assert_eq!(
        (&session["workspace"]["warm"], &session["workspace"]["image"]["reference"]),
        (&json!(true), &json!(BUSYBOX))
    );
    configure(&server, "warm_pool", json!(0));
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.client().get("/pool").expect(200)["items"] != json!([]) {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn s5_a_killed_server_leaves_no_member_and_fills_anew() {
    let mut server = with_pool("podman", 2);
    let boxes = |server: &TestServer| {
        let listed = std::fs::read_dir(server.home().join("podman/boxes")).unwrap();
        listed.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    let before = boxes(&server);
    server.restart(None);
    ready(&server, 2);
    let after = boxes(&server);
    assert!(after.len() == 2 && after.iter().all(|name| !before.contains(name)), "{before:?} {after:?}");
}
