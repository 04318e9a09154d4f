//! Images that Podman pulls from a real registry on loopback: slow, present or missing.

use serde_json::{Value, json};
use stead_testkit::podman::{self, BUSYBOX, Service};
use stead_testkit::registry::Registry;
use stead_testkit::{ServerOptions, TestServer, until};

use super::native::build_init;
use crate::rows::{events, server_with, settled};

/// A registry with one slow image, and a Podman service that trusts it.
struct Fetched {
    registry: Registry,
    service: Service,
    name: String,
}

impl Fetched {
    fn new() -> Self {
        let (registry, podman) = (Registry::start(), podman::shared());
        // A name unique to this test, because all tests share one image store.
        let name = format!("team/big-{}", registry.reference("").split([':', '/']).nth(1).unwrap());
        let made_here = format!("localhost/stead-test/{name}:1");
        let files = tempfile::tempdir().unwrap();
        let tar = files.path().join("image.tar");
        let mut command = std::process::Command::new("sh");
        // Random data does not compress, so the transfer takes time.
        command.arg("-c").arg("tar -C \"$1\" -xf \"$2\" && head -c 6M /dev/urandom > \"$1/noise\" && tar -C \"$1\" -cf \"$3\" bin tmp noise");
        let root = files.path().join("root");
        std::fs::create_dir(&root).unwrap();
        command.arg("sh").arg(&root).arg(podman.image_tar("busybox")).arg(&tar);
        assert!(command.status().unwrap().success());
        let made = podman.run(&["import", "--quiet", tar.to_str().unwrap(), &made_here]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        registry.offer(podman, &made_here, &name);
        podman.run(&["rmi", &made_here]);
        let socket = podman.directory().join(format!("{}.sock", name.replace('/', "-")));
        let service = podman.service_with_registries(&registry.trusted(), &format!("unix://{}", socket.display()));
        Self { registry, service, name }
    }

    fn image(&self) -> String {
        self.registry.reference(&self.name)
    }

    fn server(&self) -> TestServer {
        let server = server_of(self.service.url(), "missing");
        agent_type(&server, &self.image());
        server
    }

    /// Returns true if Podman has the image.
    fn is_there(&self) -> bool {
        podman::shared().run(&["image", "exists", &self.image()]).status.success()
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        podman::shared().run(&["rmi", "--force", &self.image()]);
    }
}

pub(super) fn server_of(url: &str, pull: &str) -> TestServer {
    build_init();
    let options = ServerOptions::default().env("PODMAN_BASE_URL", url).env("STEAD_PODMAN_IMAGE", BUSYBOX);
    server_with(options.env("STEAD_PODMAN_PULL", pull))
}

pub(super) fn agent_type(server: &TestServer, image: &str) {
    server.agent_type(
        "p",
        json!({"enabled": true, "provider": "podman", "workspace_policy": "empty", "require_workspace": true, "base_image": image}),
    );
}

/// Starts a session and returns its id without waiting.
fn begun(server: &TestServer) -> String {
    let session = server.client().post("/sessions", json!({"agent_type": "p"})).expect(201);
    session["id"].as_str().unwrap().to_owned()
}

fn show(server: &TestServer, id: &str) -> Value {
    server.client().get(&format!("/sessions/{id}")).expect(200)
}

#[test]
fn x7_a_missing_image_is_fetched_once_and_its_progress_reported() {
    let fetched = Fetched::new();
    fetched.registry.slow(true);
    let server = fetched.server();
    let (id, other) = (begun(&server), begun(&server));
    // More than two different percentages show that the progress moves.
    let percents = until("progress", || {
        let answer = events(&server, &id, "ProvisionProgress");
        let mut percents: Vec<u64> = answer.iter().map(|event| event["percent"].as_u64().unwrap()).collect();
        percents.dedup();
        (percents.len() > 2).then_some(percents)
    });
    assert!(percents.iter().all(|percent| *percent < 100), "{percents:?}");
    let step = show(&server, &id)["provisioning"]["steps"][0].clone();
    assert_eq!((&step["name"], &step["progress"]["stage"]), (&json!("create_box"), &json!("Fetching image")), "{step}");
    assert!(step["progress"]["detail"].as_str().unwrap().contains(" MB of "), "{step}");
    until("the other's progress", || events(&server, &other, "ProvisionProgress").get(1).cloned());
    assert_eq!(fetched.registry.sending(), 1, "both wait for the same");
    fetched.registry.slow(false);
    let (session, other) = (settled(&server, &id), settled(&server, &other));
    for session in [&session, &other] {
        assert_eq!(session["status"], "active", "{session}");
        assert_eq!(session["workspace"]["image"]["reference"], fetched.image());
        assert_eq!(server.tool(session, "bash", json!({"command": "ls /noise"}))["result"]["stdout"], "/noise\n");
    }
    let sent = fetched.registry.sent();
    assert_eq!(session["workspace"]["image"]["digest"], other["workspace"]["image"]["digest"]);
    let third = settled(&server, &begun(&server));
    assert_eq!((&third["status"], fetched.registry.sent()), (&json!("active"), sent), "what is there is not fetched");
    assert_eq!(events(&server, third["id"].as_str().unwrap(), "ProvisionProgress"), Vec::<Value>::new());
}

#[test]
fn x7_what_cannot_be_fetched_says_why() {
    let fetched = Fetched::new();
    let server = fetched.server();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = |image: &str, code: &str, words: &str| {
        let mut config = server.client().get("/agent-types/p/workspace-config").expect(200);
        config["base_image"] = json!(image);
        server.client().put("/agent-types/p/workspace-config", config).expect(200);
        let session = server.session(json!({"agent_type": "p"}));
        let failure = &session["workspace"]["failures"][0];
        assert_eq!((&session["status"], &failure["code"]), (&json!("failed"), &json!(code)), "{session}");
        let message = failure["message"].as_str().unwrap();
        assert!(message.contains(words) && message.contains(image), "{message}");
    };
    refused(&fetched.registry.reference("team/nothing"), "image_missing", "manifest unknown");
    refused(&format!("{nobody}/team/a:1"), "image_pull_failed", "connection refused");
    let asked = fetched.registry.requests();
    refused("team/unqualified", "image_missing", "names no registry");
    assert_eq!(fetched.registry.requests(), asked);
    fetched.registry.corrupt();
    refused(&fetched.image(), "image_pull_failed", "");
    assert!(!fetched.is_there());
}

#[test]
fn x7_nothing_is_fetched_unless_configured_and_no_registry_is_trusted_by_default() {
    let fetched = Fetched::new();
    let server = server_of(fetched.service.url(), "never");
    agent_type(&server, &fetched.image());
    let session = server.session(json!({"agent_type": "p"}));
    assert_eq!(session["workspace"]["failures"][0]["code"], "image_missing", "{session}");
    assert_eq!(fetched.registry.requests(), 0);
    // A Podman service that does not trust the registry insists on TLS.
    let server = server_of(&podman::shared().url(), "missing");
    agent_type(&server, &fetched.image());
    let session = server.session(json!({"agent_type": "p"}));
    let failure = &session["workspace"]["failures"][0];
    assert_eq!(failure["code"], "image_pull_failed", "{session}");
    assert!(failure["message"].as_str().unwrap().to_lowercase().contains("https"), "{failure}");
    assert_eq!(fetched.registry.sent(), 0);
}

#[test]
fn x7_a_pull_ends_when_nobody_waits_for_it_any_more() {
    let fetched = Fetched::new();
    fetched.registry.slow(true);
    let server = fetched.server();
    let (one, other) = (begun(&server), begun(&server));
    until("bytes", || (fetched.registry.sent() > 0).then_some(()));
    until("both", || events(&server, &other, "ProvisionProgress").first().cloned());
    server.client().delete(&format!("/sessions/{one}")).expect(204);
    assert_eq!(show(&server, &one)["status"], "closed");
    assert_eq!(fetched.registry.sending(), 1, "the other still waits");
    server.client().delete(&format!("/sessions/{other}")).expect(204);
    until("the end of the pull", || (fetched.registry.sending() == 0).then_some(()));
    assert!(!fetched.is_there());
    // The image can be pulled afterwards.
    fetched.registry.slow(false);
    assert_eq!(settled(&server, &begun(&server))["status"], "active");
}

#[test]
fn x7_an_interrupted_run_ends_its_pull_and_its_session() {
    let fetched = Fetched::new();
    fetched.registry.slow(true);
    let server = fetched.server();
    let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_stead"));
    run.env_clear().env("STEAD_HOME", server.home()).env("PATH", std::env::var_os("PATH").unwrap());
    let mut run = run.args(["run", "--agent-type", "p", "--", "true"]).spawn().unwrap();
    until("bytes", || (fetched.registry.sent() > 0).then_some(()));
    let pid = rustix::process::Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = until("its end", || run.try_wait().unwrap());
    assert_eq!(ended.code(), Some(130));
    until("the end of the pull", || (fetched.registry.sending() == 0).then_some(()));
    let sessions = server.client().get("/sessions").expect(200);
    assert_eq!(sessions["items"][0]["status"], "closed", "{sessions}");
}

#[test]
fn s9_a_server_killed_in_mid_pull_leaves_nothing_and_fetches_again() {
    let fetched = Fetched::new();
    fetched.registry.slow(true);
    let mut server = fetched.server();
    let id = begun(&server);
    until("bytes", || (fetched.registry.sent() > 0).then_some(()));
    server.kill();
    until("the end of the pull", || (fetched.registry.sending() == 0).then_some(()));
    assert!(!fetched.is_there());
    server.restart(None);
    until("bytes again", || (fetched.registry.sending() == 1).then_some(()));
    // A server that is stopped does not wait for the pull either.
    assert!(server.terminate().is_some());
    until("the end of the pull", || (fetched.registry.sending() == 0).then_some(()));
    fetched.registry.slow(false);
    server.restart(None);
    let session = settled(&server, &id);
    assert_eq!(session["status"], "active", "{session}");
    assert_eq!(events(&server, &id, "ProvisionInterrupted").len(), 2);
}
