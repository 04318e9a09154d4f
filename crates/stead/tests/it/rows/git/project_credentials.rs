//! Credentials of a project: its sessions use them, and no session of another project gets what
//! they fetched.

use serde_json::{Value, json};
use stead_testkit::{Client, GitServer, TestServer, until};

use super::{agent, lfs};
use crate::rows::server;

/// A credential with this user name, whose password is the file of the same name in the home.
struct Entry {
    project: Option<&'static str>,
    username: &'static str,
}

const OF_WEB: Entry = Entry { project: Some("web"), username: "web-bot" };
const OF_DATA: Entry = Entry { project: Some("data"), username: "data-bot" };
const OF_PLATFORM: Entry = Entry { project: None, username: "platform-bot" };

/// Writes the credentials for this git server, and starts the server again with them.
fn configure(server: &mut TestServer, git: &GitServer, entries: &[Entry]) {
    let mut text = "[git]\nfresh_seconds = 3600\n".to_owned();
    for Entry { project, username } in entries {
        let secret = server.home().join(username);
        std::fs::write(&secret, secret_of(username)).unwrap();
        let project = project.map(|project| format!("project = '{project}'\n")).unwrap_or_default();
        text += &format!(
            "[[git_credentials]]\nhost = '{}'\n{project}username = '{username}'\ntoken_file = '{}'\nover_http = true\n",
            git.host(),
            secret.display()
        );
    }
    std::fs::write(server.home().join("stead.toml"), text).unwrap();
    server.restart(None);
}

fn secret_of(username: &str) -> String {
    format!("secret-of-{username}")
}

/// Makes the git server accept this credential and no other.
fn accept(git: &GitServer, entry: &Entry) {
    git.require(entry.username, &secret_of(entry.username));
}

/// A server with the projects `web` and `data`, agent types without boxes, and these credentials.
fn start(git: &GitServer, entries: &[Entry]) -> TestServer {
    let mut server = server();
    configure(&mut server, git, entries);
    super::allow(&server, git);
    for project in ["web", "data"] {
        server.client().put(&format!("/projects/{project}"), json!({})).expect(200);
    }
    let workspace = json!({"enabled": true, "provider": "memory", "require_workspace": true});
    server.agent_type("plain", workspace.clone());
    let mut all = workspace;
    all["git"] = json!({"submodules": true, "lfs": true});
    server.agent_type("all", all);
    server
}

/// A client with the token of a developer of the project.
fn member(server: &TestServer, project: &str) -> Client {
    let token = json!({"name": format!("dev-{project}"), "role": "developer", "project": project});
    let made = server.client().post("/api/v1/tokens", token).expect(201);
    server.client().with_token(made["token"].as_str().unwrap())
}

fn begin(client: &Client, agent_type: &str, url: &str, reference: &str) -> Value {
    let context = json!({"repository_url": url, "branch": reference});
    let body = json!({"agent_type": agent_type, "task": {"context": context}});
    settled(client, &client.post("/sessions?wait=30", body).expect(201))
}

fn settled(client: &Client, session: &Value) -> Value {
    let path = format!("/sessions/{}", session["id"].as_str().unwrap());
    until("the end of provisioning", || {
        let now = client.get(&path).expect(200);
        (now["status"] != "provisioning").then_some(now)
    })
}

#[track_caller]
fn assert_served(session: &Value) {
    assert_eq!((&session["status"], &session["degraded"]), (&json!("active"), &json!(false)), "{session}");
}

/// The failure that a session has if the host asks for a credential and there is none.
#[track_caller]
fn locked_out(session: &Value) -> (String, String) {
    let (code, message) = super::failed(session);
    assert_eq!(code, "git_unauthorised", "{message}");
    (code, message)
}

#[test]
fn g5_a_projects_credential_serves_its_own_sessions_only() {
    let git = GitServer::start();
    let commit = git.repository("app", &[("a", "private\n")]).remote("main");
    let mut server = start(&git, &[OF_WEB]);
    accept(&git, &OF_WEB);
    let url = git.url("app");
    let refused_of = |server: &TestServer| {
        let data = member(server, "data");
        // An administrator's session without a project is not one of `web` either.
        let sessions = [begin(&data, "plain", &url, "main"), begin(server.client(), "plain", &url, "main")];
        let [main, of_admin] = sessions.map(|session| locked_out(&session));
        assert!(main.1.contains("no credential is configured"), "{main:?}");
        assert_eq!(main, of_admin);
        (main, locked_out(&begin(&data, "plain", &url, &commit)))
    };
    let before = refused_of(&server);
    let web = member(&server, "web");
    for reference in ["main", &commit] {
        assert_served(&begin(&web, "plain", &url, reference));
    }
    assert_eq!(git.packs(), 1, "the second session of web comes from its mirror");
    assert_eq!(refused_of(&server), before, "the mirror and the layer of web change nothing for others");

    // The same after a restart, with a session that continues and with a clone.
    server.restart(Some("repository.fetch=sleep(60000)"));
    let web = member(&server, "web");
    let context = json!({"repository_url": url, "branch": "main"});
    let body = json!({"agent_type": "plain", "task": {"context": context}});
    let interrupted = web.post("/sessions", body).expect(201);
    until("the commit is recorded", || {
        let id = interrupted["id"].as_str().unwrap();
        crate::rows::events(&server, id, "RepositoryResolved").pop()
    });
    server.restart(None);
    let web = member(&server, "web");
    let continued = settled(&web, &interrupted);
    assert_served(&continued);
    let path = format!("/sessions/{}/clone", continued["id"].as_str().unwrap());
    let clones = web.post(&path, json!({"isolation": "full"})).expect(201);
    assert_served(&settled(&web, &clones["items"][0]));
    assert_eq!(refused_of(&server), before);
    assert_eq!(git.packs(), 1);

    let usage = server.client().get("/usage").expect(200);
    let mirrors = usage["mirrors"].as_array().unwrap();
    // The other mirror is the empty one of the requests without a credential.
    let fetched = mirrors.iter().max_by_key(|mirror| mirror["bytes"].as_u64()).unwrap();
    assert!(mirrors.len() == 2 && fetched["held"] == true, "live sessions hold the mirror of web: {usage}");
    let audit = server.client().get("/audit?type=credential_used&limit=100").expect(200);
    for record in audit["items"].as_array().unwrap() {
        assert_eq!((&record["project"], &record["detail"]["project"]), (&json!("web"), &json!("web")), "{record}");
    }
    assert!(audit["items"].as_array().unwrap().len() >= 3, "{audit}");
    // The records are those of web. Another project reads none of them.
    let owner = json!({"name": "owner-data", "role": "owner", "project": "data"});
    let owner = server.client().post("/api/v1/tokens", owner).expect(201);
    let owner = server.client().with_token(owner["token"].as_str().unwrap());
    assert_eq!(owner.get("/audit?type=credential_used").expect(200)["items"], json!([]));
}

#[test]
fn g5_projects_with_different_credentials_have_different_mirrors() {
    let git = GitServer::start();
    let commit = git.repository("app", &[("a", "of web\n")]).remote("main");
    let server = start(&git, &[OF_WEB, OF_DATA]);
    let (web, data) = (member(&server, "web"), member(&server, "data"));
    let url = git.url("app");
    accept(&git, &OF_WEB);
    assert_served(&begin(&web, "plain", &url, &commit));
    locked_out(&begin(&data, "plain", &url, &commit));
    accept(&git, &OF_DATA);
    assert_served(&begin(&data, "plain", &url, &commit));
    assert_eq!(git.packs(), 2, "each project fetches with its own credential");
    locked_out(&begin(&web, "plain", &url, &commit));

    // A host may show another repository to another account. The account of data has one without
    // the next commit of web, which the mirror of web has.
    accept(&git, &OF_WEB);
    let next = git.repository("next", &[("a", "only of web\n")]).remote("main");
    let swap = |from: &str, to: &str| std::fs::rename(git.path(from), git.path(to)).unwrap();
    swap("app", "of-data");
    swap("next", "app");
    assert_served(&begin(&web, "plain", &url, &next));
    swap("app", "next");
    swap("of-data", "app");
    accept(&git, &OF_DATA);
    let (code, message) = super::failed(&begin(&data, "plain", &url, &next));
    assert_eq!(code, "git_ref_missing", "{message}");
    assert_served(&begin(&data, "plain", &url, "main"));
}

#[test]
fn g5_the_platforms_credential_serves_every_project_that_has_none() {
    let git = GitServer::start();
    git.repository("app", &[("a", "1\n")]);
    let server = start(&git, &[OF_PLATFORM, OF_WEB]);
    let (web, data) = (member(&server, "web"), member(&server, "data"));
    let url = git.url("app");
    accept(&git, &OF_PLATFORM);
    assert_served(&begin(&data, "plain", &url, "main"));
    assert_served(&begin(server.client(), "plain", &url, "main"));
    // The own one comes first, also if the host refuses it.
    let (_, message) = locked_out(&begin(&web, "plain", &url, "main"));
    assert!(message.contains("the configured credential was offered"), "{message}");
    accept(&git, &OF_WEB);
    assert_served(&begin(&web, "plain", &url, "main"));
    locked_out(&begin(&data, "plain", &url, "main"));
    let audit = server.client().get("/audit?type=credential_used&limit=100&project=data").expect(200);
    let record = &audit["items"][0];
    assert_eq!((&record["detail"]["username"], &record["detail"]["project"]), (&json!("platform-bot"), &Value::Null));
}

#[test]
fn g5_submodules_and_large_files_use_the_projects_credential() {
    let git = GitServer::start();
    let lib = git.repository("lib", &[("l", "private\n")]);
    let app = lfs::repository(&git, "app", &[("a.bin", b"private")]);
    app.git(&["submodule", "--quiet", "add", "../lib", "lib"]);
    let commit = app.commit(&[], "with a submodule");
    let server = start(&git, &[OF_WEB]);
    let (web, data) = (member(&server, "web"), member(&server, "data"));
    accept(&git, &OF_WEB);
    let cases = [("app", commit), ("lib", lib.remote("main"))];
    for (client, served) in [(&data, false), (&web, true), (&data, false)] {
        for (repository, commit) in &cases {
            let session = begin(client, "all", &git.url(repository), commit);
            if served { assert_served(&session) } else { drop(locked_out(&session)) }
        }
    }
}

#[test]
fn g5_a_push_uses_the_projects_credential_also_if_it_is_newer_than_the_session() {
    let git = GitServer::start();
    let repository = git.repository("app", &[("a", "1\n")]);
    let mut server = start(&git, &[OF_PLATFORM]);
    agent(&server, json!({}));
    accept(&git, &OF_PLATFORM);
    let session = begin(&member(&server, "web"), "g", &git.url("app"), "main");
    assert_served(&session);
    configure(&mut server, &git, &[OF_WEB]);
    accept(&git, &OF_WEB);
    let web = member(&server, "web");
    let call = |tool: &str, body: Value| {
        let id = session["id"].as_str().unwrap();
        let answer = web.post(&format!("/sessions/{id}/tools/{tool}"), body).expect(200);
        assert_eq!((&answer["ok"], &answer["result"]["exit_code"]), (&json!(true), &json!(0)), "{answer}");
    };
    call("git", json!({"command": "checkout", "args": ["-b", "agent/x"]}));
    call("bash", json!({"command": "echo 2 > a"}));
    call("git", json!({"command": "commit", "args": ["-a", "-m", "two"]}));
    call("git", json!({"command": "push", "args": []}));
    assert_ne!(repository.remote("agent/x"), repository.remote("main"));
    let audit = server.client().get("/audit?type=credential_used&limit=100").expect(200);
    let pushes: Vec<&Value> =
        audit["items"].as_array().unwrap().iter().filter(|record| record["detail"]["purpose"] == "push").collect();
    assert!(!pushes.is_empty() && pushes.iter().all(|record| record["detail"]["project"] == "web"), "{audit}");
}
