//! A1–A8: the content store, sync and apply, runs and steps. The six scenarios that
//! cover a whole flow are named `scenario_…`.

use serde_json::{Value, json};
use stead_testkit::{Reply, ServerOptions, TestServer, until};

use crate::rows::{server, server_with};

/// A small content tree with one pack, one catalog and one descriptor. `style` is the text of its
/// only template.
pub(super) fn bot(style: &str) -> Value {
    json!({"files": {
        "agent.workspace.json": json!({
            "schema_version": 1, "prompt_packs": {"default": "p/odd-place.json"}, "tool_catalogs": {"default": "c.json"},
            "defaults": {"prompt_pack": "default", "tool_catalog": "default"},
        }).to_string(),
        "p/odd-place.json": json!({"templates": ["prompts/system.md"]}).to_string(),
        "prompts/system.md": style,
        "c.json": json!({"tools": ["d/ls.json", {"name": "launch", "parameters": {"type": "object"}}]}).to_string(),
        "d/ls.json": json!({
            "name": "ls", "description": "List.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": false},
        }).to_string(),
    }})
}

#[track_caller]
pub(super) fn push(server: &TestServer, name: &str, files: Value) -> Value {
    server.client().post(&format!("/content/{name}/versions"), files).expect(201)
}

/// A session of an agent type without a workspace, with the content `bot`.
#[track_caller]
pub(super) fn session(server: &TestServer) -> Value {
    server.client().post("/agent-types", json!({"id": "talker"}));
    server.session(json!({"agent_type": "talker", "content": {"workspace": "bot"}}))
}

pub(super) fn at(session: &Value, below: &str) -> String {
    format!("/sessions/{}{below}", session["id"].as_str().unwrap())
}

#[track_caller]
pub(super) fn show(server: &TestServer, session: &Value) -> Value {
    server.client().get(&at(session, "")).expect(200)
}

pub(super) fn tell(server: &TestServer, session: &Value, event: Value) -> Reply {
    server.client().post(&at(session, "/events"), event)
}

#[track_caller]
pub(super) fn sync(server: &TestServer, session: &Value) {
    let event = json!({"type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": "bot"}});
    tell(server, session, event).expect(202);
}

#[track_caller]
pub(super) fn apply(server: &TestServer, session: &Value, mode: &str) {
    tell(server, session, json!({"type": "WorkspaceApplyRequested", "mode": mode})).expect(202);
}

#[track_caller]
pub(super) fn run(server: &TestServer, session: &Value) -> String {
    let body = json!({"provider": "any", "model": "m1", "input": "hello"});
    server.client().post(&at(session, "/runs"), body).expect(201)["id"].as_str().unwrap().to_owned()
}

#[track_caller]
pub(super) fn step(server: &TestServer, session: &Value, run: &str) -> Value {
    server.client().post(&at(session, &format!("/runs/{run}/steps")), json!({})).expect(201)
}

#[track_caller]
fn end(server: &TestServer, session: &Value, run: &str) {
    server.client().post(&at(session, &format!("/runs/{run}/complete")), json!({})).expect(200);
}

/// The types of a session's events.
pub(super) fn kinds(server: &TestServer, session: &Value) -> Vec<String> {
    let path = at(session, "/events?limit=500");
    let page = server.client().send("GET", &path, &[("accept", "application/json")], None).expect(200);
    page["items"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

pub(super) fn version(session: &Value) -> (u64, u64) {
    let of = |which: &str| session["content"][which]["version"].as_u64().unwrap_or(0);
    (of("active"), of("pending"))
}

fn style(step: &Value) -> &str {
    step["request"]["messages"][0]["content"][0]["text"].as_str().unwrap()
}

#[test]
fn scenario_initial_sync_populates_active_config() {
    let server = server();
    push(&server, "bot", bot("Be brief."));
    let session = session(&server);
    assert_eq!(version(&session), (1, 0));
    let active = &session["content"]["active"];
    assert_eq!((&active["prompt_pack"], &active["tool_catalog"]), (&json!("default"), &json!("default")));
    assert_eq!(active["tool_catalogs"]["default"], json!(["launch", "ls"]));
    let run = run(&server, &session);
    let first = step(&server, &session, &run);
    assert_eq!((&first["step"], &first["snapshot"]["version"]), (&json!(1), &json!(1)));
    let messages: Vec<&str> = first["request"]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(messages, ["Be brief.", "hello"]);
    assert_eq!(first["request"]["tools"][0]["name"], "ls");
    assert_eq!(first["sizes"]["messages"], 2);
}

#[test]
fn scenario_an_external_update_changes_nothing_until_sync_and_apply() {
    let server = server();
    push(&server, "bot", bot("one"));
    let session = session(&server);
    let first = run(&server, &session);
    let before = step(&server, &session, &first);
    push(&server, "bot", bot("two"));
    assert_eq!(version(&show(&server, &session)), (1, 0));
    let after_push = step(&server, &session, &first);
    assert_eq!(after_push["inputs_hash"], before["inputs_hash"]);
    sync(&server, &session);
    assert_eq!(version(&show(&server, &session)), (1, 2));
    let after_sync = step(&server, &session, &first);
    assert_eq!((style(&after_sync), &after_sync["inputs_hash"]), ("one", &before["inputs_hash"]));
    // The default mode is the next run, so this run keeps its version.
    tell(&server, &session, json!({"type": "WorkspaceApplyRequested"})).expect(202);
    assert_eq!(style(&step(&server, &session, &first)), "one");
    end(&server, &session, &first);
    assert_eq!(version(&show(&server, &session)), (1, 2));
    let second = run(&server, &session);
    assert_eq!(version(&show(&server, &session)), (2, 0));
    assert_eq!(style(&step(&server, &session, &second)), "two");
}

#[test]
fn scenario_apply_at_the_next_step_boundary() {
    let server = server();
    push(&server, "bot", bot("one"));
    let session = session(&server);
    let run = run(&server, &session);
    assert_eq!(style(&step(&server, &session, &run)), "one");
    push(&server, "bot", bot("two"));
    sync(&server, &session);
    apply(&server, &session, "next_step_boundary");
    assert_eq!(version(&show(&server, &session)), (1, 2));
    let next = step(&server, &session, &run);
    assert_eq!((style(&next), &next["snapshot"]["version"]), ("two", &json!(2)));
    assert_eq!((&next["request"]["provider"], &next["request"]["model"]), (&json!("any"), &json!("m1")));
    let seen = kinds(&server, &session);
    let applied = seen.iter().rposition(|kind| kind == "WorkspaceApplied").unwrap();
    assert_eq!(seen[applied + 1], "StepStarted");
    // Without an active run, the apply takes effect at once.
    end(&server, &session, &run);
    push(&server, "bot", bot("three"));
    sync(&server, &session);
    apply(&server, &session, "next_step_boundary");
    assert_eq!(version(&show(&server, &session)), (3, 0));
}

#[test]
fn a6_immediate_if_idle_waits_for_the_end_of_the_run() {
    let server = server();
    push(&server, "bot", bot("one"));
    let session = session(&server);
    push(&server, "bot", bot("two"));
    sync(&server, &session);
    apply(&server, &session, "immediate_if_idle");
    assert_eq!(version(&show(&server, &session)), (2, 0));
    let run = run(&server, &session);
    push(&server, "bot", bot("three"));
    sync(&server, &session);
    apply(&server, &session, "immediate_if_idle");
    assert_eq!(style(&step(&server, &session, &run)), "two");
    let shown = show(&server, &session);
    assert_eq!((version(&shown), &shown["content"]["armed"]), ((2, 3), &json!("immediate_if_idle")));
    end(&server, &session, &run);
    assert_eq!(version(&show(&server, &session)), (3, 0));
    // Nothing is staged any more.
    tell(&server, &session, json!({"type": "WorkspaceApplyRequested"})).problem(409, "nothing_pending");
    tell(&server, &session, json!({"type": "WorkspaceApplyRequested", "mode": "now"})).problem(400, "invalid_request");
}

#[test]
fn scenario_an_invalid_snapshot_fails_and_the_active_one_stays() {
    let server = server();
    push(&server, "bot", bot("one"));
    let session = session(&server);
    let mut broken = bot("two");
    broken["files"]["c.json"] = json!("{\"tools\": [\n  \"d/none.json\"\n]}");
    let refused = server.client().post("/content/bot/versions", broken.clone());
    assert_eq!(refused.json()["errors"][0]["field"], "c.json:2:3", "{}", refused.text);
    refused.problem(422, "content_invalid");
    let kept = server.client().post("/content/bot/versions?allow_invalid=1", broken).expect(201);
    assert_eq!((&kept["version"], &kept["valid"]), (&json!(2), &json!(false)));
    push(&server, "bot", bot("three"));
    sync(&server, &session);
    let event = json!({"type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": "bot", "version": 2}});
    tell(&server, &session, event).expect(202);
    let shown = show(&server, &session);
    assert_eq!(version(&shown), (1, 3));
    assert_eq!(shown["content"]["sync_failure"]["stage"], "tool_catalog");
    assert!(kinds(&server, &session).contains(&"WorkspaceSyncFailed".to_owned()));
    let missing = json!({"workspace": "bot", "version": 99});
    tell(&server, &session, json!({"type": "WorkspaceSyncRequested", "workspace_binding": missing})).expect(202);
    assert_eq!(show(&server, &session)["content"]["sync_failure"]["stage"], "resolve");
    let unknown =
        json!({"type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": "bot"}, "prompt_pack": "none"});
    tell(&server, &session, unknown).expect(202);
    let shown = show(&server, &session);
    assert_eq!((version(&shown), &shown["content"]["sync_failure"]["stage"]), ((1, 3), &json!("prompt_pack")));
}

#[test]
fn scenario_replay_parity_for_sync_and_apply() {
    let mut server = server();
    push(&server, "bot", bot("one"));
    let session = session(&server);
    let run = run(&server, &session);
    let first = step(&server, &session, &run);
    push(&server, "bot", bot("two"));
    sync(&server, &session);
    apply(&server, &session, "next_step_boundary");
    let second = step(&server, &session, &run);
    server.restart(None);
    let report = server.client().get(&at(&session, "/replay")).expect(200);
    assert_eq!(report["identical"], true, "{report}");
    // Earlier steps read back unchanged.
    let again = server.client().get(&at(&session, &format!("/runs/{run}/steps/1"))).expect(200);
    assert_eq!(again, first);
    let again = server.client().get(&at(&session, &format!("/runs/{run}/steps/2"))).expect(200);
    assert_eq!(again, second);
}

#[test]
fn scenario_legacy_tools_without_an_index() {
    let server = server();
    let tool = |name: &str| json!({"name": name, "parameters": {"type": "object"}}).to_string();
    let files = json!({"tools/b.json": tool("zeta"), "tools/a.json": tool("alpha"), "tools/deep/c.json": tool("no"), "README.md": "x"});
    let pushed = push(&server, "bot", json!({"files": files}));
    assert!(pushed["warnings"][0]["message"].as_str().unwrap().contains("tools/*.json"), "{pushed}");
    let session = session(&server);
    assert_eq!(session["content"]["active"]["tool_catalogs"]["default"], json!(["alpha", "zeta"]));
    assert_eq!(session["warnings"][0]["code"], "legacy_tools_scan");
    let run = run(&server, &session);
    let tools = step(&server, &session, &run)["request"]["tools"].clone();
    assert_eq!((&tools[0]["name"], &tools[1]["name"]), (&json!("alpha"), &json!("zeta")));
    // An index disables the scan.
    let mut files = bot("x");
    files["files"]["tools/a.json"] = json!(tool("alpha"));
    push(&server, "bot", files);
    sync(&server, &session);
    assert_eq!(show(&server, &session)["content"]["pending"]["tool_catalogs"]["default"], json!(["launch", "ls"]));
}

#[test]
fn a2_versions_are_immutable_and_the_head_is_guarded() {
    let mut server = server();
    let first = push(&server, "bot", bot("one"));
    let client = server.client();
    let stale = client.post("/content/bot/versions?expected_head=0", bot("two"));
    assert!(stale.problem(409, "conflict").contains("workspace head mismatch"));
    assert_eq!(client.get("/content/bot").expect(200)["versions"].as_array().unwrap().len(), 1);
    let second = client.post("/content/bot/versions?expected_head=1", bot("two")).expect(201);
    assert_eq!((&first["version"], &second["version"]), (&json!(1), &json!(2)));
    let file = |version: u64| {
        let path = format!("/content/bot/versions/{version}/files/prompts/system.md");
        String::from_utf8(client.bytes("GET", &path, &[], &[]).expect(200)).unwrap()
    };
    assert_eq!((file(1), file(2)), ("one".to_owned(), "two".to_owned()));
    let part = client.bytes("GET", "/content/bot/versions/2/files/prompts/system.md", &[("range", "bytes=1-1")], &[]);
    assert_eq!(part.expect(206), b"w");
    let diff = client.get("/content/bot/diff?from=1&to=2").expect(200);
    assert_eq!(
        (diff["changes"].as_array().unwrap().len(), &diff["changes"][0]["path"]),
        (1, &json!("prompts/system.md"))
    );
    assert_eq!(diff["changes"][0]["kind"], "changed");
    for (method, path) in
        [("PUT", "/content/bot/versions/1"), ("DELETE", "/content/bot/versions/1"), ("DELETE", "/content/bot")]
    {
        client.send(method, path, &[], None).problem(405, "method_not_allowed");
    }
    let tree = client.get("/content/bot/versions/1").expect(200);
    server.restart(None);
    assert_eq!(server.client().get("/content/bot/versions/1").expect(200), tree);
    assert_eq!(server.client().get("/content/bot/versions/3").status, 404);
    assert_eq!(server.client().get("/content").expect(200)["items"][0]["version"], 2);
    // An idempotency key creates one version only, and an unchanged tree has the same root hash.
    let keyed = |server: &TestServer, body: Value| {
        let headers = [("idempotency-key", "k")];
        server.client().send("POST", "/content/bot/versions", &headers, Some(body.to_string()))
    };
    let third = keyed(&server, bot("one")).expect(201);
    assert_eq!((&third["version"], &third["root_hash"]), (&json!(3), &first["root_hash"]));
    assert_eq!(keyed(&server, bot("one")).expect(201), third);
    keyed(&server, bot("other")).problem(422, "idempotency_mismatch");
}

#[test]
fn a2_unsafe_names_links_and_odd_trees_are_refused() {
    let server = server();
    for name in ["../x", "/etc/passwd", "a b", "a/../b", "é", ".."] {
        let reply = server.client().post("/content/bot/versions", json!({"files": {name: "x"}}));
        reply.problem(400, "invalid_request");
    }
    let both = json!({"files": {"a": "x", "a/b": "y"}});
    server.client().post("/content/bot/versions?allow_invalid=1", both).problem(422, "content_invalid");
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    builder.append_link(&mut header, "context/link", "../agent.workspace.json").unwrap();
    let tar = builder.into_inner().unwrap();
    let reply = server.client().bytes("POST", "/content/bot/versions?allow_invalid=1", &[], &tar).reply();
    assert_eq!(reply.status, 422, "{}", reply.text);
    assert_eq!(server.client().get("/content/bot").status, 404);
    server.client().bytes("POST", "/content/bot/versions", &[], b"no archive").reply().problem(422, "archive_refused");
}

#[test]
fn a4_a_known_version_is_unchanged() {
    let server = server();
    push(&server, "bot", bot("one"));
    let session = session(&server);
    let known = |version: u64| json!({"type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": "bot"}, "known_version": version});
    tell(&server, &session, known(1)).expect(202);
    assert_eq!(kinds(&server, &session).last().unwrap(), "WorkspaceSyncUnchanged");
    assert_eq!(version(&show(&server, &session)), (1, 0));
    push(&server, "bot", bot("two"));
    tell(&server, &session, known(1)).expect(202);
    assert_eq!(version(&show(&server, &session)), (1, 2));
}

#[test]
fn a11_only_allowed_content_can_be_synced() {
    let server = server();
    push(&server, "bot", bot("one"));
    let other = push(&server, "other", bot("two"));
    let session = session(&server);
    let by = |target: Value| json!({"type": "WorkspaceSyncRequested", "workspace_binding": target});
    let agent = server.client().with_token(session["token"].as_str().unwrap());
    agent.post(&at(&session, "/events"), by(json!({"workspace": "other"}))).problem(403, "content_not_allowed");
    // Asking by root hash does not give access to other content either.
    agent.post(&at(&session, "/events"), by(json!({"root_hash": other["root_hash"]}))).expect(202);
    let shown = show(&server, &session);
    assert_eq!((version(&shown), &shown["content"]["sync_failure"]["stage"]), ((1, 0), &json!("resolve")));
    let own = push(&server, "bot", bot("three"));
    agent.post(&at(&session, "/events"), by(json!({"root_hash": own["root_hash"]}))).expect(202);
    assert_eq!(version(&show(&server, &session)), (1, 2));
    agent.get("/content/bot").problem(403, "forbidden");
    let refusals = server.client().get("/audit?type=refusal").expect(200);
    assert_eq!(refusals["items"][0]["detail"]["code"], "content_not_allowed", "{refusals}");
    // A session without content cannot sync any.
    let plain = server.session(json!({"agent_type": "talker"}));
    tell(&server, &plain, by(json!({"workspace": "bot"}))).problem(403, "content_not_allowed");
}

#[test]
fn a_crash_in_a_sync_is_continued() {
    let mut server = server_with(ServerOptions::default().failpoints("sync.read=sleep(4000)"));
    push(&server, "bot", bot("one"));
    let session = session(&server);
    push(&server, "bot", bot("two"));
    let event = json!({"type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": "bot"}}).to_string();
    std::thread::scope(|scope| {
        let client = server.client().clone();
        let path = at(&session, "/events");
        scope.spawn(move || client.try_send("POST", &path, &[], Some(event)));
        until("the sync is recorded", || {
            (kinds(&server, &session).last().unwrap() == "WorkspaceSyncRequested").then_some(())
        });
        let busy = json!({"type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": "bot"}});
        tell(&server, &session, busy).problem(409, "sync_under_way");
        apply(&server, &session, "immediate_if_idle");
        server.restart(None);
    });
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while version(&show(&server, &session)) != (2, 0) {
        assert!(std::time::Instant::now() < deadline, "{}", show(&server, &session));
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
