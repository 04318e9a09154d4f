//! Network policy of sessions: plans, explanations, prompts, and changes while a session runs.

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::{events, server};

/// Declares a platform and an agent type `w` with a network in a native box.
fn declare(server: &TestServer) {
    let platform = json!({"network": {
        "setup": {"allow": ["index.example"]},
        "agent": {"allow": ["*.example.com", "other.example"]},
        "deny": ["paste.example.com"],
    }});
    server.client().put("/platform", platform).expect(200);
    let network =
        json!({"setup": {"allow": ["index.example"]}, "agent": {"allow": ["api.example.com", "paste.example.com"]}});
    server.agent_type(
        "w",
        json!({"enabled": true, "provider": "native", "workspace_policy": "empty", "network": network}),
    );
}

fn hosts(list: &Value) -> Vec<String> {
    let host = |entry: &Value| format!("{}:{}", entry["host"].as_str().unwrap(), entry["port"]);
    list.as_array().unwrap().iter().map(host).collect()
}

fn started(server: &TestServer) -> (String, Value) {
    let session = server.session(json!({"agent_type": "w"}));
    assert_eq!(session["degraded"], false, "{session}");
    (session["id"].as_str().unwrap().to_owned(), session)
}

#[test]
fn n3_the_plan_and_the_session_show_what_is_reachable() {
    let server = server();
    declare(&server);
    let plan = server.client().post("/sessions:plan", json!({"agent_type": "w"})).expect(200);
    let network = &plan["workspace"]["network"];
    assert_eq!(hosts(&network["setup"]), ["index.example:80", "index.example:443"]);
    assert_eq!(hosts(&network["agent"]), ["api.example.com:80", "api.example.com:443"]);
    assert_eq!(network["layers"].as_array().unwrap().len(), 2, "{network}");
    assert_eq!(network["findings"][0]["kind"], "no_effect", "{network}");
    let (id, session) = started(&server);
    assert_eq!(session["workspace"]["network"]["reach"], "captured", "{session}");
    assert_eq!(session["workspace"]["network"]["agent"], network["agent"]);
    let prompt = server.client().get(&format!("/sessions/{id}/prompt")).expect(200).to_string();
    assert!(prompt.contains("api.example.com") && !prompt.contains("Network: none"), "{prompt}");
    // A session keeps its policy when the agent type and the platform change.
    server.client().put("/platform", json!({})).expect(200);
    let after = server.client().get(&format!("/sessions/{id}")).expect(200);
    assert_eq!(after["workspace"]["network"], session["workspace"]["network"]);
    assert_eq!(after["workspace"]["fingerprint"], session["workspace"]["fingerprint"]);
    let audited = server.client().get(&format!("/audit?session={id}&type=policy_resolved")).expect(200);
    assert_eq!(audited["items"][0]["detail"]["network"]["agent"], json!(["api.example.com"]), "{audited}");
}

#[test]
fn narrowing_and_grants_are_recorded_and_survive_a_restart() {
    let mut server = server();
    declare(&server);
    let (id, _) = started(&server);
    let change = |server: &TestServer, verb: &str, body: Value| {
        server.client().post(&format!("/sessions/{id}/network:{verb}"), body)
    };
    // A grant cannot exceed the platform, has an end, and adds no secret.
    for (body, status, code) in [
        (json!({"allow": ["elsewhere.example"], "ttl_seconds": 60}), 422, "network_refused"),
        (json!({"allow": ["paste.example.com"], "ttl_seconds": 60}), 422, "network_refused"),
        (json!({"allow": [{"host": "other.example", "secret": "key"}], "ttl_seconds": 60}), 422, "network_refused"),
        (json!({"allow": ["other.example"], "phase": "setup", "ttl_seconds": 60}), 422, "network_refused"),
        (json!({"allow": []}), 400, "invalid_request"),
        (json!({"allow": ["other.example"]}), 400, "invalid_request"),
        (json!({"allow": ["other.example"], "ttl_seconds": 604_801}), 400, "invalid_request"),
    ] {
        change(&server, "grant", body).problem(status, code);
    }
    let granted = change(&server, "grant", json!({"allow": ["other.example"], "ttl_seconds": 3600})).expect(200);
    assert_eq!(granted["workspace"]["network"]["grants"][0]["host"], "other.example", "{granted}");
    change(&server, "narrow", json!({"deny": [{"host": "a", "methods": ["GET"]}]})).problem(422, "network_refused");
    let narrowed = change(&server, "narrow", json!({"deny": ["*.example.com"]})).expect(200);
    assert_eq!(narrowed["workspace"]["network"]["agent"], json!([]), "{narrowed}");
    assert_eq!(narrowed["workspace"]["network"]["denied"], json!(["*.example.com"]));
    for (event, kind) in [("NetworkGranted", "network_granted"), ("NetworkNarrowed", "network_narrowed")] {
        assert_eq!(events(&server, &id, event).len(), 1, "{event}");
        let audited = server.client().get(&format!("/audit?session={id}&type={kind}")).expect(200);
        assert_eq!(audited["items"].as_array().unwrap().len(), 1, "{audited}");
    }
    let replay = server.client().get(&format!("/sessions/{id}/replay")).expect(200);
    assert_eq!(replay["identical"], true, "{replay}");
    server.restart(None);
    let after = server.client().get(&format!("/sessions/{id}")).expect(200);
    assert_eq!(after["workspace"]["network"]["denied"], json!(["*.example.com"]));
    // A clone has the policy of its source and cannot undo a narrowing.
    let clones = server.client().post(&format!("/sessions/{id}/clone"), json!({"isolation": "full"})).expect(201);
    let clone = clones["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{clones}")).to_owned();
    let clone = server.client().get(&format!("/sessions/{clone}?wait=60")).expect(200);
    assert_eq!(clone["workspace"]["network"]["agent"], json!([]), "{clone}");
}

#[test]
fn only_an_administrator_changes_the_network_of_a_session() {
    let server = server();
    declare(&server);
    let (id, session) = started(&server);
    let own = session["token"].as_str().map(str::to_owned);
    let own = own.unwrap_or_else(|| {
        let token = server.client().post(&format!("/sessions/{id}/token"), json!({})).expect(200);
        token["token"].as_str().unwrap().to_owned()
    });
    for (verb, body) in
        [("grant", json!({"allow": ["other.example"], "ttl_seconds": 60})), ("narrow", json!({"deny": ["a.example"]}))]
    {
        let path = format!("/sessions/{id}/network:{verb}");
        server.client().with_token(&own).post(&path, body).problem(403, "forbidden");
    }
    // A session whose box has no network cannot get one.
    server.agent_type("quiet", json!({"enabled": true, "provider": "memory"}));
    let quiet = server.session(json!({"agent_type": "quiet"}));
    let path = format!("/sessions/{}/network:grant", quiet["id"].as_str().unwrap());
    let body = json!({"allow": ["other.example"], "ttl_seconds": 60});
    server.client().post(&path, body).problem(422, "network_not_available");
}
