//! The store of secrets over HTTP and the command line.

use std::fs;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

use super::*;

#[test]
fn n5_value_cannot_be_read_back_by_any_route_or_token() {
    let mut server = server();
    let client = server.client().clone();
    let shown = set(&client);
    assert_eq!(
        (&shown["version"], &shown["usable"], &shown["header"]),
        (&json!(1), &json!(true), &json!("authorization"))
    );
    assert_eq!(
        (&shown["as"], &shown["hosts"], &shown["project"]),
        (&json!("Bearer {}"), &json!(["api.example"]), &Value::Null)
    );
    let mut texts = vec![shown.to_string()];
    for path in ["/secrets", "/secrets/api", "/audit", "/platform", "/whoami", "/usage"] {
        texts.push(client.send("GET", path, &[], None).text);
    }
    assert!(texts[1].contains("api.example") && texts[2].contains("api.example"), "{texts:?}");
    assert!(texts.iter().all(|text| !text.contains(CANARY)));
    // A wrong body is refused without repeating the value.
    for wrong in [
        json!({"hosts": [], "value": CANARY}),
        json!({"hosts": ["a.example"], "value": format!("{CANARY}\n")}),
        json!({"hosts": ["a.example"], "value": [CANARY]}),
        json!({"hosts": ["a.example"], "valeu": CANARY, "value": CANARY}),
    ] {
        let refused = client.put("/secrets/other", wrong);
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(!refused.text.contains(CANARY), "{}", refused.text);
    }
    let missing = client.get("/secrets/other");
    assert_eq!((missing.status, missing.json()["parameters"]["resource"].clone()), (404, json!("secret")));
    assert_eq!(fs::metadata(server.home().join("secret.key")).map(|file| file.len()).unwrap(), 65);
    server.terminate();
    assert_nowhere(&server);
    // Control: the search finds a text that is there.
    assert!(!holders(server.home(), "api.example").is_empty());
}

#[test]
fn n5_the_command_line_takes_values_from_standard_input_and_files_only() {
    let server = server();
    let home = server.home();
    let (code, out, err) = stead(home, &["secret", "set", "api", "--host", "api.example"], &format!("{CANARY}\n"));
    assert_eq!(code, Some(0), "{out} {err}");
    assert!(err.contains("--agent-type") && !out.contains(CANARY) && !err.contains(CANARY), "{out} {err}");
    let file = home.join("value.txt");
    fs::write(&file, CANARY).unwrap();
    let named =
        ["secret", "set", "api", "--host", "b.example:8443", "--agent-type", "coder", "--header", "x-key", "--file"];
    let (code, out, err) = stead(home, &[&named[..], &[file.to_str().unwrap()]].concat(), "");
    fs::remove_file(file).unwrap();
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let (_, listed, _) = stead(home, &["--json", "secret", "ls"], "");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let one = &listed["items"][0];
    assert_eq!((&one["version"], &one["hosts"], &one["as"]), (&json!(2), &json!(["b.example:8443"]), &json!("{}")));
    assert_eq!((&one["agent_types"], &one["header"]), (&json!(["coder"]), &json!("x-key")));
    // A value is refused as an argument, and an empty one altogether.
    assert_eq!(stead(home, &["secret", "set", "api", "--host", "a.example", "--value", CANARY], "").0, Some(2));
    let (code, _, err) = stead(home, &["secret", "set", "api", "--host", "a.example"], "");
    assert_eq!(code, Some(1), "{err}");
    assert_eq!(stead(home, &["secret", "rm", "api"], "").0, Some(0));
    assert_eq!(stead(home, &["secret", "rm", "api"], "").0, Some(1));
    assert_nowhere(&server);
}

#[test]
fn n5_lost_key_disables_secrets_and_nothing_else() {
    let mut server = server();
    server.agent_type("coder", json!({"enabled": true, "provider": "memory"}));
    set(&server.client().clone());
    server.terminate();
    let key = server.home().join("secret.key");
    let kept = fs::read(&key).unwrap();
    fs::remove_file(&key).unwrap();
    server.restart(None);
    let client = server.client().clone();
    assert_eq!(client.get("/secrets/api").expect(200)["usable"], false);
    let again = json!({"hosts": ["b.example"], "value": CANARY});
    let refused = client.put("/secrets/api", again);
    assert_eq!((refused.status, refused.json()["code"].clone()), (503, json!("secrets_unavailable")));
    assert!(server.log().contains("secret.key"), "{}", server.log());
    assert!(!key.exists(), "a new key would hide the loss");
    // Everything else works, and a session that needs the secret is refused.
    let session = server.session(json!({"agent_type": "coder"}));
    assert_eq!(session["status"], "active");
    let needs = json!({"agent_type": "coder", "task": {"env": {"KEY": {"secret": "api"}}}});
    assert_eq!(client.post("/sessions", needs.clone()).json()["code"], "secrets_unavailable");
    let (code, verified, _) = stead(server.home(), &["--json", "verify"], "");
    let verified: Value = serde_json::from_str(&verified).unwrap();
    assert_eq!(code, Some(0), "{verified}");
    assert!(verified["secrets"]["no_key"].as_str().unwrap().contains("secret.key"), "{verified}");
    // With the key back, everything is as before.
    server.terminate();
    fs::write(&key, kept).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    server.restart(None);
    assert_eq!(server.client().get("/secrets/api").expect(200)["usable"], true);
    assert_eq!(server.client().post("/sessions", needs).status, 201);
}

fn tamper(home: &Path, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(home.join("stead.db"));
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
}

#[test]
fn n5_sealed_row_moved_renamed_or_widened_does_not_open() {
    let mut server = server();
    set(&server.client().clone());
    server.terminate();
    let home = server.home().to_owned();
    let (code, verified, _) = stead(&home, &["--json", "verify"], "");
    assert_eq!(code, Some(0), "{verified}");
    let verified: Value = serde_json::from_str(&verified).unwrap();
    assert_eq!(verified["secrets"], json!({"stored": 1, "open": 1, "broken": [], "no_key": null}));
    for (changed, name) in [
        ("body = replace(body, 'api.example', 'evil.example')", "api"),
        ("body = replace(body, '\"name\":\"api\"', '\"name\":\"other\"'), id = 'other'", "other"),
        ("id = 'moved'", "moved"),
        ("body = replace(body, '\"version\":1', '\"version\":2')", "api"),
    ] {
        tamper(
            &home,
            &format!(
                "CREATE TABLE kept AS SELECT * FROM documents; UPDATE documents SET {changed} WHERE kind = 'secret'"
            ),
        );
        let (code, verified, _) = stead(&home, &["--json", "verify"], "");
        let verified: Value = serde_json::from_str(&verified).unwrap();
        assert_eq!((code, &verified["secrets"]["broken"]), (Some(1), &json!([name])), "{changed}: {verified}");
        server.restart(None);
        let shown = server.client().get("/secrets").expect(200);
        assert_eq!(
            (&shown["items"][0]["name"], &shown["items"][0]["usable"]),
            (&json!(name), &json!(false)),
            "{changed}"
        );
        server.terminate();
        tamper(
            &home,
            "DELETE FROM documents WHERE kind = 'secret'; INSERT INTO documents SELECT * FROM kept WHERE kind = 'secret'; DROP TABLE kept",
        );
    }
    assert_eq!(stead(&home, &["verify"], "").0, Some(0));
    server.broken_on_purpose();
}

#[test]
fn n5_a_new_key_opens_what_the_old_one_sealed_and_the_old_one_nothing() {
    let mut server = server();
    set(&server.client().clone());
    let key = server.home().join("secret.key");
    let old = fs::read(&key).unwrap();
    let (code, out, err) = stead(server.home(), &["--json", "secret", "rekey"], "");
    assert_eq!((code, out.contains("\"secrets\":1") || out.contains("\"secrets\": 1")), (Some(0), true), "{out} {err}");
    assert_ne!(fs::read(&key).unwrap(), old);
    let shown = server.client().get("/secrets/api").expect(200);
    assert_eq!((&shown["usable"], &shown["version"]), (&json!(true), &json!(1)));
    server.terminate();
    assert!(!server.home().join("secret.key.next").exists());
    assert_eq!(stead(server.home(), &["verify"], "").0, Some(0));
    let new = fs::read(&key).unwrap();
    fs::write(&key, old).unwrap();
    assert_eq!(stead(server.home(), &["verify"], "").0, Some(1), "the old key opens nothing");
    fs::write(&key, new).unwrap();
}

#[test]
fn n5_session_token_cannot_list_set_or_use_secrets_of_others() {
    let server = server();
    let client = server.client().clone();
    server.agent_type("coder", json!({"enabled": true, "provider": "memory"}));
    server.agent_type("other", json!({"enabled": true, "provider": "memory"}));
    let body = json!({"hosts": ["api.example"], "agent_types": ["coder"], "value": CANARY});
    client.put("/secrets/api", body).expect(201);
    client.put("/secrets/unbound", json!({"hosts": ["api.example"], "value": CANARY})).expect(201);
    let session = server.session(json!({"agent_type": "coder"}));
    let agent = client.with_token(session["token"].as_str().unwrap());
    for (method, path) in [
        ("GET", "/secrets"),
        ("GET", "/secrets/api"),
        ("PUT", "/secrets/api"),
        ("DELETE", "/secrets/api"),
        ("POST", "/secrets:rekey"),
    ] {
        let refused = agent.send(
            method,
            path,
            &[],
            (method == "PUT").then(|| json!({"hosts": ["evil.example"], "value": CANARY}).to_string()),
        );
        assert_eq!(refused.status, 403, "{method} {path}: {}", refused.text);
    }
    let with = |agent_type: &str, secret: &str| {
        client.post("/sessions:plan", json!({"agent_type": agent_type, "task": {"env": {"KEY": {"secret": secret}}}}))
    };
    assert_eq!(with("coder", "api").status, 200);
    for (agent_type, secret) in [("other", "api"), ("coder", "unbound"), ("coder", "missing")] {
        let refused = with(agent_type, secret);
        assert_eq!(
            (refused.status, refused.json()["code"].clone()),
            (422, json!("secret_not_usable")),
            "{}",
            refused.text
        );
    }
    // A project's own agent type of the same name does not get the platform's secret.
    client.put("/projects/web", json!({})).expect(200);
    let own = json!({"id": "coder", "workspace": {"enabled": true, "provider": "memory"}});
    client.post("/agent-types?project=web", own).expect(201);
    let of_project = json!({"agent_type": "coder", "project": "web", "task": {"env": {"KEY": {"secret": "api"}}}});
    assert_eq!(client.post("/sessions:plan", of_project.clone()).json()["code"], "secret_not_usable");
    let body = json!({"hosts": ["api.example"], "agent_types": ["coder"], "value": CANARY});
    client.put("/secrets/api?project=web", body).expect(201);
    assert_eq!(client.post("/sessions:plan", of_project).status, 200);
}
