//! Images of projects: which one a box gets, and that no box gets one of another project.

use serde_json::{Value, json};
use stead_testkit::{Client, TestServer, podman};

use super::images::{root_saying, with_images};

/// A client with the token of a developer of a new project.
fn member(server: &TestServer, project: &str) -> Client {
    server.client().put(&format!("/projects/{project}"), json!({})).expect(200);
    let token = json!({"name": format!("dev-{project}"), "role": "developer", "project": project});
    let made = server.client().post("/api/v1/tokens", token).expect(201);
    server.client().with_token(made["token"].as_str().unwrap())
}

#[track_caller]
fn import(client: &Client, name: &str, word: &str) -> Value {
    serde_json::from_slice(&client.bytes("PUT", &format!("/images/{name}"), &[], &root_saying(word)).expect(201))
        .unwrap()
}

/// Declares an agent type with this image.
fn declare(client: &Client, id: &str, provider: &str, image: &str) {
    let limits = json!({"cpu": "1", "memory": "256M", "disk": "64M", "pids": 128});
    let workspace = json!({"enabled": true, "provider": provider, "workspace_policy": "empty",
        "require_workspace": true, "base_image": image, "resource_limits": limits});
    client.post("/agent-types", json!({"id": id, "workspace": workspace})).expect(201);
}

fn begin(client: &Client, agent_type: &str) -> Value {
    let session = client.post("/sessions?wait=60", json!({"agent_type": agent_type})).expect(201);
    let path = format!("/sessions/{}", session["id"].as_str().unwrap());
    stead_testkit::until("the end of provisioning", || {
        let now = client.get(&path).expect(200);
        (now["status"] != "provisioning").then_some(now)
    })
}

/// The word in the image of the session's box.
#[track_caller]
fn word(client: &Client, session: &Value) -> String {
    assert_eq!(session["status"], "active", "{session}");
    let path = format!("/sessions/{}/tools/bash", session["id"].as_str().unwrap());
    let answer = client.post(&path, json!({"command": "cat /opt/old"})).expect(200);
    answer["result"]["stdout"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// The code and the message of a session that failed because of its image.
#[track_caller]
fn failure(session: &Value, image: &str) -> (String, String) {
    let (code, message) = crate::rows::git::failed(session);
    (code, message.replace(image, "IMAGE"))
}

#[test]
fn x7_a_box_has_the_image_of_its_project_else_the_platforms() {
    for provider in ["native", "podman"] {
        let mut server = with_images();
        let (web, data) = (member(&server, "web"), member(&server, "data"));
        import(server.client(), "tools", "platform");
        declare(server.client(), "t", provider, "tools");
        import(&web, "tools", "web");
        import(&web, "only", "only of web");
        declare(&web, "o", provider, "only");
        declare(&data, "o", provider, "only");
        declare(&data, "m", provider, "missing");
        let (of_web, of_data) = (begin(&web, "t"), begin(&data, "t"));
        assert_eq!((word(&web, &of_web), word(&data, &of_data)), ("web".to_owned(), "platform".to_owned()));
        let only = begin(&web, "o");
        assert_eq!(word(&web, &only), "only of web");
        // To data, the image of web is a missing one, also after a box of web has used it.
        let missing = failure(&begin(&data, "m"), "missing");
        assert_eq!(missing.0, "image_missing", "{missing:?}");
        assert_eq!(failure(&begin(&data, "o"), "only"), missing);

        // The boxes are the same after a restart, and a clone has the image of its source.
        server.restart(None);
        let web = server.client().with_token(&token_of(&server, "web"));
        assert_eq!(word(&web, &only), "only of web");
        let path = format!("/sessions/{}/clone?wait=60", of_web["id"].as_str().unwrap());
        let clones = web.post(&path, json!({"isolation": "full"})).expect(201);
        assert_eq!(word(&web, &clones["items"][0]), "web");
    }
}

/// A new token of a developer of a project that exists.
fn token_of(server: &TestServer, project: &str) -> String {
    let token = json!({"name": format!("again-{project}"), "role": "developer", "project": project});
    server.client().post("/api/v1/tokens", token).expect(201)["token"].as_str().unwrap().to_owned()
}

#[test]
fn x7_the_copy_of_an_image_in_podman_is_open_to_no_other_project() {
    let server = with_images();
    let (web, data) = (member(&server, "web"), member(&server, "data"));
    let imported = import(&web, "tools", &format!("secret of {}", std::process::id()));
    declare(&web, "t", "podman", "tools");
    assert!(word(&web, &begin(&web, "t")).starts_with("secret"));
    let digest = imported["digest"].as_str().unwrap().trim_start_matches("sha256:");
    let listed = podman::shared().run(&["images", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let (name, id) = listed.lines().find(|line| line.contains(digest)).unwrap().split_once(' ').unwrap();
    let id = id.trim_start_matches("sha256:");
    declare(&data, "missing", "podman", "localhost/missing:1");
    let missing = failure(&begin(&data, "missing"), "localhost/missing:1");
    for (agent_type, image) in [("by-name", name), ("by-id", id), ("by-start", &id[..12])] {
        declare(&data, agent_type, "podman", image);
        assert_eq!(failure(&begin(&data, agent_type), image), missing, "{image}");
    }
}

#[test]
fn images_of_an_older_version_are_the_platforms() {
    let mut server = with_images();
    import(server.client(), "tools", "old");
    // The record of the platform's image is what an older version wrote.
    let names: Vec<_> = std::fs::read_dir(server.home().join("images")).unwrap().map(|entry| entry.unwrap()).collect();
    let [name] = &names[..] else { panic!("{names:?}") };
    let hash = stead_fs::ContentHash::of(b"tools").to_hex();
    assert_eq!(name.file_name().to_str(), Some(format!("{hash}.json").as_str()));
    let record: Value = serde_json::from_slice(&std::fs::read(name.path()).unwrap()).unwrap();
    assert_eq!(record.get("project"), None, "{record}");
    server.restart(None);
    let web = member(&server, "web");
    assert_eq!(web.get("/images/tools").expect(200)["project"], Value::Null);
    web.delete("/images/tools").problem(403, "forbidden");
    server.client().delete("/images/tools").expect(204);
}
