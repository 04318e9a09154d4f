//! References to secrets in environment variables.

use super::*;

/// A reference at every place that has variables: platform, project, agent type and task, and the
/// calls `exec`, `bash` and `bash` in the background.
#[test]
fn n5_a_secret_is_in_no_environment_journal_log_or_export() {
    build_init();
    let mut server = server();
    let client = server.client().clone();
    set(&client);
    let secret = json!({"secret": "api"});
    client.put("/platform", json!({"env": {"OF_PLATFORM": secret}})).expect(200);
    client.put("/projects/web", json!({"env": {"OF_PROJECT": secret}})).expect(200);
    let declared = json!({
        "id": "coder", "env": {"OF_TYPE": secret, "PLAIN": "configuration"},
        "workspace": {"enabled": true, "provider": "native", "require_workspace": true, "setup_commands": ["env > setup.txt"]},
    });
    client.post("/agent-types", declared).expect(201);
    let wanted = json!({"agent_type": "coder", "project": "web", "task": {"env": {"OF_TASK": secret}}});
    let created = client.post("/sessions", wanted).expect(201);
    let id = created["id"].as_str().unwrap().to_owned();
    let session = settled(&server, &id);
    assert_eq!(session["status"], "active", "{session}");
    let run = |body: Value| client.post(&format!("/sessions/{id}/execs"), body).expect(201)["stdout"].to_string();
    let seen = run(json!({"command": "cat setup.txt; env", "env": {"OF_EXEC": secret}}));
    let bash = server.tool(
        &session,
        "bash",
        json!({"command": "env; cat", "env": {"OF_BASH": secret, "OTHER": CANARY}, "stdin": CANARY}),
    );
    assert!(bash["result"]["stdout"].as_str().unwrap().contains(CANARY), "a plain value reaches the command: {bash}");
    let background = json!({"command": "env", "env": {"OF_BACKGROUND": secret}, "background": true});
    assert_eq!(server.tool(&session, "bash", background)["ok"], true);
    let placeholder = |name: &str, text: &str| {
        let start = text.find(&format!("{name}=stead-ph-")).unwrap_or_else(|| panic!("no {name} in {text}"));
        text[start + name.len() + 1..][..49].to_owned()
    };
    let first = placeholder("OF_TASK", &seen);
    let bash = bash["result"]["stdout"].as_str().unwrap();
    for (name, text) in [
        ("OF_PLATFORM", seen.as_str()),
        ("OF_PROJECT", &seen),
        ("OF_TYPE", &seen),
        ("OF_EXEC", &seen),
        ("OF_BASH", bash),
    ] {
        assert_eq!(placeholder(name, text), first, "{name}");
    }
    assert_eq!(seen.matches("OF_TYPE=stead-ph-").count(), 2, "also in the setup command: {seen}");
    // The journal has the references, and neither values of variables nor standard input.
    // A line of the export has the event as a text.
    let journal = client.get(&format!("/sessions/{id}/journal")).text.replace("\\\"", "\"");
    assert!(journal.contains(r#""OF_TASK":{"secret":"api"}"#) && journal.contains(r#""OF_BASH":{"secret":"api"}"#));
    assert!(journal.contains(r#""PLAIN":"configuration""#), "a plain value is configuration");
    let started: Vec<&str> = journal.lines().filter(|line| line.contains("ToolCallStarted")).collect();
    assert!(!started.is_empty() && started.iter().all(|line| !line.contains(CANARY)), "{started:?}");
    // The placeholder survives a restart and is another one in another session.
    server.kill();
    server.restart(None);
    let again = client_of(&server).post(&format!("/sessions/{id}/execs"), json!({"command": "env"})).expect(201);
    assert_eq!(placeholder("OF_TASK", &again["stdout"].to_string()), first);
    let other = json!({"agent_type": "coder", "task": {"env": {"OF_TASK": secret}}});
    let other = client_of(&server).post("/sessions", other).expect(201);
    settled(&server, other["id"].as_str().unwrap());
    let path = format!("/sessions/{}/execs", other["id"].as_str().unwrap());
    let elsewhere = client_of(&server).post(&path, json!({"command": "env"})).expect(201);
    assert_ne!(placeholder("OF_TASK", &elsewhere["stdout"].to_string()), first);
}

fn client_of(server: &TestServer) -> Client {
    server.client().clone()
}

/// The same without any plain use of the canary: then it is nowhere in the home.
#[test]
fn n5_secret_is_in_no_file_of_the_home() {
    build_init();
    let mut server = server();
    let client = server.client().clone();
    set(&client);
    // The search reads the whole image of the volume.
    let workspace = json!({
        "enabled": true, "provider": "native", "require_workspace": true, "resource_limits": {"disk": "64M"},
    });
    server.agent_type("coder", workspace);
    let wanted = json!({"agent_type": "coder", "task": {"env": {"KEY": {"secret": "api"}}}});
    let id = client.post("/sessions", wanted).expect(201)["id"].as_str().unwrap().to_owned();
    let session = settled(&server, &id);
    server.tool(&session, "bash", json!({"command": "env > kept.txt; cat /proc/*/environ /proc/*/cmdline > all.bin; true", "env": {"A": {"secret": "api"}}}));
    let kept = server.tool(&session, "read", json!({"path": "kept.txt"}));
    assert!(kept.to_string().contains("stead-ph-"), "{kept}");
    client.post(&format!("/sessions/{id}/snapshots"), json!({})).expect(201);
    let exported = client.bytes("GET", &format!("/sessions/{id}/export?format=tar"), &[], b"").bytes;
    assert!(!exported.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()));
    // A reference to a secret that is not usable fails with its own code, and nothing runs.
    let missing = server.tool(&session, "bash", json!({"command": "touch ran", "env": {"A": {"secret": "missing"}}}));
    assert_eq!((&missing["ok"], &missing["error"]["code"]), (&json!(false), &json!("secret_not_usable")), "{missing}");
    let refused =
        client.post(&format!("/sessions/{id}/execs"), json!({"command": "true", "env": {"A": {"secret": "missing"}}}));
    assert_eq!((refused.status, refused.json()["code"].clone()), (422, json!("secret_not_usable")));
    let odd = server.tool(&session, "bash", json!({"command": "touch ran", "env": {"A": {"secret": "api", "x": 1}}}));
    assert_eq!(odd["ok"], false, "{odd}");
    let there = server.tool(&session, "bash", json!({"command": "ls"}));
    assert!(!there["result"]["stdout"].as_str().unwrap().contains("ran"), "{there}");
    server.terminate();
    assert_nowhere(&server);
}
