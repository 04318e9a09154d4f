//! Every route with every kind of token that must not reach the project `alpha`. The API document
//! gives the routes, so that a new one is tried too.

use serde_json::{Value, json};

use super::{ask, close, get, import, member, project, token};
use crate::client::Answer;
use crate::harness::TestServer;

/// A text that is in everything of the project `alpha`.
const CANARY: &str = "canary4711";

/// Values for the path parameters of a route.
struct Names {
    session: String,
    agent_type: String,
    project: String,
    token: String,
    content: String,
    image: String,
    secret: String,
    blob: String,
    exec: String,
    run: String,
    snapshot: String,
}

impl Names {
    /// The path with its parameters filled in.
    fn fill(&self, path: &str) -> String {
        let id = match path.split('/').nth(3).unwrap_or_default() {
            _ if path.starts_with("/mcp") => &self.session,
            "sessions" => &self.session,
            "agent-types" => &self.agent_type,
            "tokens" => &self.token,
            _ => &self.project,
        };
        let name = match path.split('/').nth(3).unwrap_or_default() {
            "images" => &self.image,
            "secrets" => &self.secret,
            _ => &self.content,
        };
        let pairs = [
            ("{id}", id.as_str()),
            ("{name}", name),
            ("{digest}", &self.blob),
            ("{exec}", &self.exec),
            ("{run}", &self.run),
            ("{snap}", &self.snapshot),
            ("{step}", "1"),
            ("{v}", "1"),
            ("{path}", "prompts/a/system.md"),
            ("{port}", "8080"),
            ("{tool}", "ls"),
            ("{schema}", "agent.workspace.schema.json"),
        ];
        let filled = pairs.iter().fold(path.to_owned(), |path, (from, to)| path.replace(from, to));
        // This route needs a parameter.
        let query = if filled.ends_with("/replay/against") { "?agent_type=t" } else { "" };
        format!("{filled}{query}")
    }

    fn all(&self) -> [&str; 11] {
        [
            &self.session,
            &self.agent_type,
            &self.project,
            &self.token,
            &self.content,
            &self.image,
            &self.secret,
            &self.blob,
            &self.exec,
            &self.run,
            &self.snapshot,
        ]
    }

    fn nothing() -> Self {
        let zeros = "0".repeat(26);
        Self {
            session: format!("ses_{zeros}"),
            agent_type: "missing-type".to_owned(),
            project: "missing-project".to_owned(),
            token: format!("tok_{zeros}"),
            content: "missing-content".to_owned(),
            image: "missing-image".to_owned(),
            secret: "missing-secret".to_owned(),
            blob: format!("sha256:{}", "0".repeat(64)),
            exec: format!("exec_{zeros}"),
            run: format!("run_{zeros}"),
            snapshot: format!("snap_{zeros}"),
        }
    }
}

/// The project `alpha` with one thing of every kind that this server has, and an agent type of the
/// platform with secrets.
async fn victim(server: &TestServer) -> Names {
    project(server, "alpha").await;
    let mcp = json!({"x": {"url": "https://mcp.example/", "headers": {"Authorization": CANARY}}});
    let secrets = json!({"id": "shared", "env": {"KEY": CANARY}, "content": {"mcp_servers": mcp}});
    let declared = server.post("/api/v1/agent-types", secrets).await;
    assert_eq!(declared.status, 201, "{declared:?}");
    let owner = member(server, "owner", "alpha").await;
    let create = async |method: &str, path: &str, body: Value| {
        let answer = ask(server, &owner, method, path, body).await;
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
        answer.json()
    };
    let agent_type = format!("type-{CANARY}");
    let declaration = json!({"id": agent_type, "workspace": {"enabled": true, "provider": "native"}});
    create("POST", "/api/v1/agent-types", declaration).await;
    let content = format!("content-{CANARY}");
    let files = json!({"files": {
        "agent.workspace.json": json!({"version": 1}).to_string(), "prompts/a/system.md": CANARY,
    }});
    create("POST", &format!("/api/v1/content/{content}/versions?allow_invalid=1"), files).await;
    let wanted = json!({"agent_type": agent_type, "metadata": {"k": CANARY}});
    let session = create("POST", "/api/v1/sessions?wait=60", wanted).await;
    assert_eq!(session["status"], "active", "{session}");
    let id = session["id"].as_str().unwrap().to_owned();
    let exec =
        create("POST", &format!("/api/v1/sessions/{id}/execs"), json!({"command": format!("echo {CANARY}")})).await;
    ended(server, &format!("/api/v1/sessions/{id}/execs/{}", exec["id"].as_str().unwrap())).await;
    let image = format!("image-{CANARY}");
    import(server, &owner, &format!("/api/v1/images/{image}"), CANARY).await;
    create("POST", &format!("/api/v1/sessions/{id}/tools/write"), json!({"path": "/a", "content": CANARY})).await;
    let snapshot = create("POST", &format!("/api/v1/sessions/{id}/snapshots"), json!({"name": CANARY})).await;
    let run = json!({"provider": "anthropic", "model": "m", "input": CANARY});
    let run = create("POST", &format!("/api/v1/sessions/{id}/runs"), run).await;
    // A stranger may choose the same name, so the name has no canary.
    let secret = "secret-of-alpha".to_owned();
    let stored = json!({"hosts": [format!("{CANARY}.example")], "value": format!("value-{CANARY}")});
    create("PUT", &format!("/api/v1/secrets/{secret}"), stored).await;
    let blob = server.ask("POST", "/api/v1/blobs").token(Some(&owner)).bytes(CANARY.into()).send().await.json();
    let made = create("POST", "/api/v1/tokens", json!({"name": format!("token-{CANARY}"), "role": "viewer"})).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Names {
        session: id,
        agent_type,
        project: "alpha".to_owned(),
        token: text(&made["id"]),
        content,
        image,
        secret,
        blob: text(&blob["digest"]),
        exec: text(&exec["id"]),
        run: text(&run["id"]),
        snapshot: text(&snapshot["id"]),
    }
}

/// Waits for the end of an exec, after which its record does not change.
async fn ended(server: &TestServer, exec: &str) {
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let shown = server.get(exec).await.json();
        if shown["status"] != "running" {
            return;
        }
        assert!(tokio::time::Instant::now() < until, "the exec does not end: {shown}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// The tokens that must not reach `alpha`, by name. `theirs` is the session of `alpha`.
async fn strangers(server: &TestServer, theirs: &str) -> Vec<(&'static str, Option<String>)> {
    project(server, "beta").await;
    server.declare("t").await;
    let text = |made: &Value| made["token"].as_str().unwrap().to_owned();
    let revoked = token(server, json!({"name": "r", "project": "alpha", "role": "owner"})).await;
    let expired = token(server, json!({"name": "e", "project": "alpha", "role": "owner", "expires_in": 1})).await;
    let inside = format!("/api/v1/sessions/{theirs}/token");
    let inside = ask(server, &text(&revoked), "POST", &inside, json!({})).await.json();
    assert_eq!(get(server, &text(&inside), &format!("/api/v1/sessions/{theirs}")).await.status, 200);
    let deleted = server.ask("DELETE", &format!("/api/v1/tokens/{}", revoked["id"].as_str().unwrap())).send().await;
    assert_eq!(deleted.status, 204);
    let session = server.post("/api/v1/sessions?wait=10", json!({"agent_type": "t", "project": "beta"})).await.json();
    // The server cuts a request during which its token expires, so no request begins before that.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while get(server, &text(&expired), "/api/v1/whoami").await.status != 401 {
        assert!(tokio::time::Instant::now() < until, "the token does not expire");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    vec![
        ("owner of beta", Some(member(server, "owner", "beta").await)),
        ("developer of beta", Some(member(server, "developer", "beta").await)),
        ("viewer of beta", Some(member(server, "viewer", "beta").await)),
        ("metrics", Some(text(&token(server, json!({"name": "m", "role": "metrics"})).await))),
        ("revoked", Some(text(&revoked))),
        ("expired", Some(text(&expired))),
        ("session token of a revoked one", Some(text(&inside))),
        ("session of beta", Some(text(&session))),
        ("none", None),
    ]
}

/// Method, path and body of every request of the API document.
fn requests() -> Vec<(String, String, Option<Value>)> {
    let document = stead_server::openapi();
    let mcp = |method: &str, path: &str| (method.to_owned(), format!("{path}?session={{id}}"), Some(json!({})));
    let mut found = vec![mcp("POST", "/mcp"), mcp("GET", "/mcp"), mcp("DELETE", "/mcp"), mcp("GET", "/mcp/line")];
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let json = &operation["requestBody"]["content"]["application/json"];
            let example = Some(json["example"].clone()).filter(|example| !example.is_null());
            found.push((method.to_uppercase(), path.clone(), example));
        }
    }
    found
}

async fn send(server: &TestServer, token: Option<&str>, method: &str, path: &str, body: Option<&Value>) -> Answer {
    let request = server.ask(method, path).token(token).header("Accept", "application/json, text/event-stream, */*");
    match body {
        Some(body) => request.json(body.clone()).send().await,
        None if method == "POST" || method == "PUT" => request.bytes(b"x".to_vec()).send().await,
        None => request.send().await,
    }
}

/// Everything of `alpha` that an administrator can see.
async fn everything(server: &TestServer, names: &Names) -> Vec<Value> {
    let mut seen = Vec::new();
    let (session, project) = (&names.session, &names.project);
    for path in [
        format!("/api/v1/sessions/{session}/state"),
        format!("/api/v1/sessions/{session}/snapshots"),
        format!("/api/v1/sessions/{session}/files"),
        format!("/api/v1/projects/{project}"),
        format!("/api/v1/projects/{project}/usage"),
        format!("/api/v1/agent-types?project={project}"),
        format!("/api/v1/content?project={project}"),
        format!("/api/v1/content/{}?project={project}", names.content),
        format!("/api/v1/images?project={project}"),
        format!("/api/v1/secrets?project={project}"),
        format!("/api/v1/sessions/{session}/execs/{}", names.exec),
    ] {
        let answer = server.ask("GET", &path).header("Accept", "application/json").send().await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        seen.push(answer.json());
    }
    let tokens = server.get(&format!("/api/v1/tokens?project={project}")).await.json();
    seen.extend(tokens["items"].as_array().unwrap().iter().map(|token| token["id"].clone()));
    seen
}

#[tokio::test]
async fn t2_no_token_reaches_another_project_by_any_route() {
    let server = TestServer::start_with_boxes().await;
    let (theirs, nothing) = (victim(&server).await, Names::nothing());
    let strangers = strangers(&server, &theirs.session).await;
    let before = everything(&server, &theirs).await;
    let open = ["/", "/healthz", "/readyz", "/openapi.json"];
    let mut compared = 0;
    for (method, path, body) in requests() {
        if open.contains(&path.as_str()) {
            continue;
        }
        for (who, token) in &strangers {
            let mut answers = Vec::new();
            for names in [&theirs, &nothing] {
                let answer = send(&server, token.as_deref(), &method, &names.fill(&path), body.as_ref()).await;
                let what = format!("{method} {path} as {who}: {answer:?}");
                assert!(answer.status < 500, "{what}");
                if matches!(*who, "revoked" | "expired" | "session token of a revoked one" | "none") {
                    assert_eq!(answer.status, 401, "{what}");
                }
                assert!(!answer.body.contains(CANARY) || answer.status == 404, "{what}");
                // Longer names first, because some contain the project's name.
                let mut known = names.all();
                known.sort_by_key(|name| std::cmp::Reverse(name.len()));
                let shown = known.iter().fold(answer.body.clone(), |body, name| body.replace(name, "NAME"));
                answers.push((answer.status, shown));
            }
            if path.contains('{') && !path.starts_with("/api/v1/schemas") {
                let [theirs, nothing] = &answers[..] else { unreachable!() };
                // The stranger may have created the missing thing in its own project, and deleted
                // it.
                let own_secret = path.starts_with("/api/v1/secrets/") && matches!(theirs.0, 201 | 204);
                let made = (method == "POST" && theirs.0 == 201) || (method != "GET" && own_secret);
                assert!(made || theirs.0 >= 400, "{method} {path} as {who}: {theirs:?}");
                assert_eq!(theirs.0, nothing.0, "{method} {path} as {who}: {theirs:?} {nothing:?}");
                assert!(made || theirs.1 == nothing.1, "{method} {path} as {who}: {theirs:?} {nothing:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 400, "{compared}");
    assert_eq!(everything(&server, &theirs).await, before, "something of alpha has changed");
    close(&server, &theirs.session).await;
}

/// Number of reads and writes of the database that a request needs. Background work of the server
/// can add to a measurement, so the smallest of several counts.
async fn accesses(server: &TestServer, token: Option<&str>, path: &str) -> (u64, u64) {
    let mut fewest = (u64::MAX, u64::MAX);
    for _ in 0..5 {
        let before = server.engine.database_accesses();
        let answer = send(server, token, "GET", path, None).await;
        assert!(answer.status >= 400, "{path}: {answer:?}");
        let after = server.engine.database_accesses();
        fewest = fewest.min((after.reads - before.reads, after.writes - before.writes));
    }
    fewest
}

#[tokio::test]
async fn t2_a_foreign_thing_costs_as_many_queries_as_a_missing_one() {
    let server = TestServer::start_with_boxes().await;
    let (theirs, nothing) = (victim(&server).await, Names::nothing());
    project(&server, "beta").await;
    let stranger = member(&server, "owner", "beta").await;
    let mut compared = 0;
    for (method, path, _) in requests() {
        // Schemas belong to no project.
        if method != "GET" || !path.contains('{') || path.starts_with("/api/v1/schemas") {
            continue;
        }
        let foreign = accesses(&server, Some(&stranger), &theirs.fill(&path)).await;
        let missing = accesses(&server, Some(&stranger), &nothing.fill(&path)).await;
        assert_eq!(foreign, missing, "reads and writes of {path}");
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
    close(&server, &theirs.session).await;
}

#[tokio::test]
async fn t2_the_owner_reaches_what_strangers_do_not() {
    // The control of the test above: the same things are there for a token of the project.
    let server = TestServer::start_with_boxes().await;
    let theirs = victim(&server).await;
    let owner = member(&server, "owner", "alpha").await;
    for path in [
        "/api/v1/sessions/{id}",
        "/api/v1/sessions/{id}/journal",
        "/api/v1/sessions/{id}/runs/{run}",
        "/api/v1/agent-types/{id}",
        "/api/v1/projects/{id}",
        "/api/v1/tokens/{id}",
        "/api/v1/content/{name}",
        "/api/v1/content/{name}/versions/{v}/files/{path}",
        "/api/v1/blobs/{digest}",
        "/api/v1/images/{name}",
        "/api/v1/secrets/{name}",
        "/api/v1/sessions/{id}/execs/{exec}",
        "/api/v1/sessions/{id}/execs/{exec}/output",
    ] {
        let answer = get(&server, &owner, &theirs.fill(path)).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    close(&server, &theirs.session).await;
}

#[tokio::test]
async fn t2_names_belong_to_a_project_and_its_own_come_first() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    project(&server, "data").await;
    let (web, data) = (member(&server, "developer", "web").await, member(&server, "developer", "data").await);
    let declare = async |token: &str, description: &str| {
        let body =
            json!({"id": "coder", "description": description, "workspace": {"enabled": true, "provider": "memory"}});
        ask(&server, token, "POST", "/api/v1/agent-types", body).await.status
    };
    let shown = async |token: &str| get(&server, token, "/api/v1/agent-types/coder").await;
    // Equal names in two projects do not meet, so a conflict tells nothing about others.
    assert_eq!(declare(&web, "of web").await, 201);
    assert_eq!(shown(&data).await.status, 404);
    assert_eq!(declare(&data, "of data").await, 201);
    assert_eq!(declare(&data, "again").await, 409);
    // The platform's is seen where there is no own one.
    project(&server, "new").await;
    let new = member(&server, "developer", "new").await;
    server.declare("coder").await;
    assert_eq!(shown(&web).await.json()["description"], "of web");
    assert_eq!(shown(&new).await.json()["project"], Value::Null);
    let refused = ask(&server, &new, "DELETE", "/api/v1/agent-types/coder", Value::Null).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"));
    let listed = get(&server, &web, "/api/v1/agent-types").await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    // A session takes the project's own, and an administrator chooses by `project`.
    let session = ask(&server, &web, "POST", "/api/v1/sessions", json!({"agent_type": "coder"})).await.json();
    assert_eq!(session["project"], "web");
    let of_admin = server.get("/api/v1/agent-types/coder?project=data").await.json();
    assert_eq!(of_admin["description"], "of data");
    let elsewhere = json!({"agent_type": "coder", "project": "data"});
    assert_eq!(ask(&server, &web, "POST", "/api/v1/sessions", elsewhere).await.status, 404);
}

#[tokio::test]
async fn t2_a_known_hash_opens_no_blob_of_another_project() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    project(&server, "data").await;
    server.declare("t").await;
    let (web, data) = (member(&server, "developer", "web").await, member(&server, "developer", "data").await);
    let blob = server.ask("POST", "/api/v1/blobs").token(Some(&web)).bytes(b"secret".to_vec()).send().await.json();
    let digest = blob["digest"].as_str().unwrap();
    let path = format!("/api/v1/blobs/{digest}");
    assert_eq!((get(&server, &web, &path).await.status, get(&server, &data, &path).await.status), (200, 404));
    // Naming the hash in a journal proves nothing either.
    let session = ask(&server, &data, "POST", "/api/v1/sessions?wait=10", json!({"agent_type": "t"})).await.json();
    let write = format!("/api/v1/sessions/{}/tools/write", session["id"].as_str().unwrap());
    assert_eq!(ask(&server, &data, "POST", &write, json!({"path": "/a", "content": digest})).await.status, 200);
    assert_eq!(get(&server, &data, &path).await.status, 404);
    let policy = json!({"type": "bundle", "source": {"blob": digest}});
    let bundle = json!({"agent_type": "t", "task": {"workspace_policy": policy}});
    let plan = async |token: &str| ask(&server, token, "POST", "/api/v1/sessions:plan", bundle.clone()).await;
    let refused = plan(&data).await;
    assert_eq!((refused.status, refused.code().as_str()), (422, "bundle_refused"), "{refused:?}");
    assert_eq!(plan(&web).await.status, 200);
    // Its own upload of the same bytes opens it.
    server.ask("POST", "/api/v1/blobs").token(Some(&data)).bytes(b"secret".to_vec()).send().await;
    assert_eq!(get(&server, &data, &path).await.status, 200);
}

#[tokio::test]
async fn a_project_cannot_make_the_server_run_a_program() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    let web = member(&server, "owner", "web").await;
    // A role of every project is no administrator either.
    let made = token(&server, json!({"name": "everywhere", "role": "developer"})).await;
    let everywhere = made["token"].as_str().unwrap();
    let content = json!({"mcp_servers": {"x": {"command": ["/bin/true"]}}});
    for body in [json!({"id": "a", "content": content}), json!({"id": "b", "workspace": {"warm_pool": 3}})] {
        for (token, path) in [
            (web.as_str(), "/api/v1/agent-types"),
            (everywhere, "/api/v1/agent-types"),
            (everywhere, "/api/v1/agent-types?project=web"),
        ] {
            let refused = ask(&server, token, "POST", path, body.clone()).await;
            assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"), "{path} {refused:?}");
        }
        assert_eq!(server.post("/api/v1/agent-types", body).await.status, 201);
    }
    ask(&server, &web, "POST", "/api/v1/agent-types", json!({"id": "c"})).await;
    let config = ask(&server, &web, "PUT", "/api/v1/agent-types/c/workspace-config", json!({"warm_pool": 3})).await;
    assert_eq!(config.status, 403, "{config:?}");
}
