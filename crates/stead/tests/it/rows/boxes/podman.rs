//! The Podman provider against a real Podman: the same tools in an isolated container, and no
//! leaks.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use stead_providers::{Images, LayerStore, PodmanConfig, PodmanProvider, PodmanTarget, Pull, Trees, conformance};
use stead_testkit::podman::{self, BUSYBOX, NOTHING, Service, TOOLS};
use stead_testkit::{ServerOptions, TestServer, until};

use super::native::build_init;
use crate::rows::git::ssh::Sshd;
use crate::rows::{put, server_with, settled};

/// Options of every server in these tests.
pub(in crate::rows) fn options() -> ServerOptions {
    build_init();
    ServerOptions::default().env("PODMAN_BASE_URL", &podman::shared().url()).env("STEAD_PODMAN_IMAGE", TOOLS)
}

pub(in crate::rows) fn with_podman() -> TestServer {
    server_with(options())
}

/// Declares an agent type `p` whose sessions run in containers.
pub(in crate::rows) fn agent_type(server: &TestServer, more: Value) {
    let mut workspace = json!({"enabled": true, "provider": "podman", "workspace_policy": "empty", "require_workspace": true,
               "resource_limits": {"cpu": "1", "memory": "256M", "disk": "64M", "pids": 128}});
    workspace.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.agent_type("p", workspace);
}

pub(in crate::rows) fn box_session(server: &TestServer, more: Value) -> Value {
    agent_type(server, more);
    let session = server.session(json!({"agent_type": "p"}));
    assert_eq!(
        (&session["status"], &session["workspace"]["provider"]),
        (&json!("active"), &json!("podman")),
        "{session}"
    );
    session
}

pub(in crate::rows) fn bash(server: &TestServer, session: &Value, command: &str) -> Value {
    let answer = server.tool(session, "bash", json!({"command": command}));
    assert_eq!(answer["ok"], true, "{answer}");
    answer["result"].clone()
}

/// Returns the containers of one session; other tests run containers at the same time.
pub(in crate::rows) fn containers_of(session: &Value) -> Vec<String> {
    let id = session["workspace"]["id"].as_str().unwrap();
    podman::shared().containers().into_iter().filter(|name| name.ends_with(id)).collect()
}

#[test]
fn podman_conforms() {
    conforms("runc", Trees::Shared, 9000);
}

#[test]
fn podman_conforms_under_gvisor() {
    conforms("runsc", Trees::Shared, 9500);
}

#[test]
fn podman_conforms_with_crun_or_says_why_not() {
    let unified = std::fs::read_to_string("/sys/fs/cgroup/unified/cgroup.controllers").unwrap_or_default();
    if unified.trim().is_empty() {
        return conforms("crun", Trees::Shared, 9900);
    }
    // On a host with controllers in both cgroup versions crun runs no container, and no other
    // runtime is used instead.
    let service = service("crun");
    let server = under(&service, "crun");
    agent_type(&server, json!({}));
    let session = server.session(json!({"agent_type": "p"}));
    let failure = &session["workspace"]["failures"][0];
    assert_eq!((&session["status"], &failure["code"]), (&json!("failed"), &json!("podman_refused")), "{session}");
    assert!(failure["message"].as_str().unwrap().contains("crun: cgroups in hybrid mode not supported"), "{failure}");
}

#[test]
fn podman_conforms_where_files_are_copied() {
    conforms("runc", Trees::Copied, 9700);
}

fn conforms(runtime: &str, trees: Trees, first: u128) {
    build_init();
    let service = service(runtime);
    let home = tempfile::tempdir().unwrap();
    let config = PodmanConfig {
        home: home.path().join("podman"),
        uids: home.path().join("uids"),
        instance: format!("t{}{runtime}{first}", std::process::id()),
        former_instances: Vec::new(),
        init: std::path::Path::new(env!("CARGO_BIN_EXE_stead")).with_file_name("stead-init"),
        target: PodmanTarget { base_url: Some(service.url().to_owned()), ..PodmanTarget::default() },
        runtime: Some(runtime.to_owned()),
        base_image: TOOLS.to_owned(),
        pull: Pull::Never,
        trees,
    };
    let layers = Arc::new(LayerStore::open(home.path().join("layers")).unwrap());
    let images = Arc::new(Images::open(home.path().join("images"), layers).unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(conformance::check(&PodmanProvider::new(config, images), first)).unwrap();
}

/// Starts a separate Podman service with this runtime, because the service selects the runtime.
pub(in crate::rows) fn service(runtime: &str) -> Service {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let socket = podman::shared().directory().join(format!("{runtime}-{number}.sock"));
    podman::shared().service(runtime, &format!("unix://{}", socket.display()))
}

pub(in crate::rows) fn under(service: &Service, runtime: &str) -> TestServer {
    let options = ServerOptions::default().env("PODMAN_BASE_URL", service.url()).env("STEAD_PODMAN_IMAGE", TOOLS);
    build_init();
    server_with(options.env("STEAD_PODMAN_RUNTIME", runtime))
}

#[test]
fn x7_gvisor_runs_the_same_boxes_and_they_outlive_the_server() {
    let service = service("runsc");
    let mut server = under(&service, "runsc");
    let session = box_session(&server, json!({}));
    assert_eq!(session["workspace"]["runtime"], "runsc", "{session}");
    // gVisor has its own kernel. The process limit is not enforced there, and the session has a
    // warning.
    assert_eq!(session["workspace"]["limits"]["enforced"], json!(["cpu", "memory", "disk"]), "{session}");
    assert!(session["warnings"].to_string().contains("limit_not_enforced"), "{session}");
    let result = bash(&server, &session, "id -u; uname -r; python3 -c 'print(6*7)'; (setsid sleep 600 &)");
    assert_eq!(result["stdout"], "1000\n4.4.0\n42\n", "{result}");
    let big = vec![7; 3 << 20];
    put(&server, &session, "big", &big);
    let id = session["id"].as_str().unwrap();
    let read = server.client().bytes("GET", &format!("/sessions/{id}/files/big"), &[], &[]).bytes;
    assert!(read == big, "{} bytes came back", read.len());
    server.tool(&session, "write", json!({"path": "d/a.txt", "content": "one two"}));
    server.tool(&session, "edit", json!({"path": "d/a.txt", "old_string": "two", "new_string": "three"}));
    let found = server.tool(&session, "grep", json!({"pattern": "thr.e"}));
    assert_eq!(found["result"]["matches"][0]["path"], "d/a.txt", "{found}");
    let full = bash(&server, &session, "head -c 100M /dev/zero > full; echo $?; rm -f full");
    assert_eq!(full["stdout"], "1\n", "{full}");
    let hiding = "(setsid sleep 300 &); (trap '' TERM; sleep 300) & sleep 300";
    let ended = server.tool(&session, "bash", json!({"command": hiding, "timeout": 2}));
    assert_eq!(ended["result"]["timed_out"], true, "{ended}");
    assert_eq!(bash(&server, &session, "pgrep -c -f 'sleep 300'")["stdout"], "0\n");
    server.restart(None);
    assert_eq!(bash(&server, &session, "cat d/a.txt")["stdout"], "one three");
    let name = containers_of(&session).remove(0);
    server.kill();
    podman::shared().run(&["rm", "--force", "--time", "0", &name]);
    server.restart(None);
    assert_eq!(bash(&server, &session, "cat d/a.txt")["stdout"], "one three");
    server.client().delete(&format!("/sessions/{id}")).expect(204);
    assert_eq!(containers_of(&session), Vec::<String>::new());
}

#[test]
fn x7_gvisor_that_may_not_call_the_server_is_refused_with_the_reason() {
    let service = service("runsc-shut");
    let server = under(&service, "runsc-shut");
    agent_type(&server, json!({}));
    let session = server.session(json!({"agent_type": "p"}));
    let failure = &session["workspace"]["failures"][0];
    assert_eq!((&session["status"], &failure["code"]), (&json!("failed"), &json!("runtime_unusable")), "{session}");
    assert!(failure["message"].as_str().unwrap().contains("--host-uds=open"), "{failure}");
}

#[test]
fn x7_podman_over_tcp() {
    // The port was free a moment ago; another process could still take it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let service = podman::shared().service("runc", &format!("tcp://127.0.0.1:{port}"));
    let server = under(&service, "runc");
    let session = box_session(&server, json!({}));
    assert_eq!(bash(&server, &session, "echo here")["stdout"], "here\n");
}

#[test]
fn x7_podman_over_ssh_with_a_key_and_only_to_a_known_host() {
    build_init();
    let sshd = Sshd::start();
    let url = sshd.url(&podman::shared().directory().join("podman.sock"));
    // A slow ssh: the timeout of a health check must not include the time to open the tunnel.
    let programs = tempfile::tempdir().unwrap();
    let script = programs.path().join("ssh");
    std::fs::write(&script, "#!/bin/sh\nsleep 3\nexec /usr/bin/ssh \"$@\"\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap());
    let options = ServerOptions::default().env("PODMAN_BASE_URL", &url).env("STEAD_PODMAN_IMAGE", TOOLS);
    let options = options.env("PATH", &path);
    let server = server_with(options.env("PODMAN_IDENTITY", sshd.path("client").to_str().unwrap()));
    agent_type(&server, json!({}));
    let session = server.session(json!({"agent_type": "p"}));
    let failure = &session["workspace"]["failures"][0];
    assert_eq!(failure["code"], "provider_unhealthy", "{session}");
    assert!(failure["message"].as_str().unwrap().contains("Host key verification failed"), "{failure}");
    std::fs::write(server.home().join("podman/known_hosts"), sshd.known_hosts()).unwrap();
    let session = server.session(json!({"agent_type": "p"}));
    assert_eq!(session["workspace"]["provider"], "podman", "{session}");
    assert_eq!(bash(&server, &session, "echo here")["stdout"], "here\n");
}

#[test]
fn x7_podman_by_the_name_of_a_connection() {
    build_init();
    let scratch = tempfile::tempdir().unwrap();
    let known = scratch.path().join("containers.conf");
    let text = format!("[engine.service_destinations.there]\nuri = \"{}\"\n", podman::shared().url());
    std::fs::write(&known, text).unwrap();
    let options = ServerOptions::default().env("CONTAINERS_CONF", known.to_str().unwrap());
    let options = options.env("STEAD_PODMAN_IMAGE", TOOLS);
    let server = server_with(options.clone().env("PODMAN_CONNECTION", "there"));
    let session = box_session(&server, json!({}));
    assert_eq!(bash(&server, &session, "echo here")["stdout"], "here\n");
    let server = server_with(options.env("PODMAN_CONNECTION", "nowhere"));
    let providers = server.client().get("/providers").expect(200);
    let podman = providers["items"].as_array().unwrap().iter().find(|one| one["name"] == "podman").unwrap().clone();
    assert!(podman["detail"].as_str().unwrap().contains("podman knows: [there]"), "{podman}");
}

#[test]
fn x7_one_container_per_session_removed_at_close() {
    let server = with_podman();
    let session = box_session(&server, json!({}));
    assert_eq!(containers_of(&session).len(), 1);
    let result = bash(&server, &session, "echo hello > a; cat a; id -u; python3 -c 'print(6*7)'");
    assert_eq!(result["stdout"], "hello\n1000\n42\n", "{result}");
    let written = server.tool(&session, "read", json!({"path": "a"}));
    assert_eq!(written["result"]["content"], "hello\n");
    let id = session["id"].as_str().unwrap();
    server.client().delete(&format!("/sessions/{id}")).expect(204);
    assert_eq!(containers_of(&session), Vec::<String>::new());
}

#[test]
fn x7_images_without_bash_or_without_anything_work() {
    let server = with_podman();
    let session = box_session(&server, json!({"base_image": BUSYBOX}));
    let result = bash(&server, &session, "echo from sh; ls /bin/bash");
    assert_eq!((&result["stdout"], &result["exit_code"]), (&json!("from sh\n"), &json!(1)), "{result}");
    let mut config = server.client().get("/agent-types/p/workspace-config").expect(200);
    config["base_image"] = json!(NOTHING);
    server.client().put("/agent-types/p/workspace-config", config).expect(200);
    let session = server.session(json!({"agent_type": "p"}));
    let answer = server.tool(&session, "bash", json!({"command": "true"}));
    assert_eq!(answer["result"]["exit_code"], 127, "{answer}");
    let answer = server.tool(&session, "shell", json!({"command": "true"}));
    assert_eq!(answer["error"]["code"], "cannot_execute", "{answer}");
    server.tool(&session, "write", json!({"path": "d/a.txt", "content": "one"}));
    let answer = server.tool(&session, "grep", json!({"pattern": "o.e"}));
    assert_eq!(answer["result"]["matches"][0]["path"], "d/a.txt", "{answer}");
}

#[test]
fn x4_limits_hold_and_cannot_be_lifted_from_inside() {
    let server = with_podman();
    let session =
        box_session(&server, json!({"resource_limits": {"cpu": "0.5", "memory": "96M", "disk": "32M", "pids": 40}}));
    assert_eq!(session["workspace"]["limits"]["enforced"], json!(["cpu", "memory", "disk", "pids"]), "{session}");
    let full = bash(&server, &session, "head -c 64M /dev/zero > big; echo $?; rm -f big");
    assert_eq!(full["stdout"], "1\n", "{full}");
    let fed = bash(&server, &session, "python3 -c 'x = bytearray(200 << 20)'");
    assert_eq!((&fed["oom"], &fed["exit_code"]), (&json!(true), &json!(137)), "{fed}");
    let crowd = bash(&server, &session, "for i in $(seq 100); do sleep 5 & done 2>&1 | head -1");
    assert!(crowd["stdout"].as_str().unwrap().contains("Resource temporarily unavailable"), "{crowd}");
    // The container may see cgroup files, but can neither write them nor mount more of them.
    let lift = "find /sys/fs/cgroup \\( -name 'memory.*limit*' -o -name 'pids.max' -o -name 'cpu.*quota*' -o -name memory.max \
                -o -name cgroup.procs \\) 2>/dev/null | while read f; do (echo 1 > $f) 2>/dev/null && echo wrote $f; done; \
                mount -t cgroup -o memory none /tmp 2>/dev/null && echo mounted; true";
    assert_eq!(bash(&server, &session, lift)["stdout"], "");
}

#[test]
fn x7_the_record_names_image_digest_and_runtime_and_a_missing_image_is_an_error() {
    let server = server_with(options().env("STEAD_PODMAN_RUNTIME", "runc"));
    let session = box_session(&server, json!({}));
    let workspace = &session["workspace"];
    assert_eq!((&workspace["image"]["reference"], &workspace["runtime"]), (&json!(TOOLS), &json!("runc")));
    assert!(workspace["image"]["digest"].as_str().unwrap().starts_with("sha256:"), "{workspace}");
    configure(&server, "base_image", json!("localhost/not/there:1"));
    let failed = server.session(json!({"agent_type": "p"}));
    assert_eq!(failed["status"], "failed", "{failed}");
    assert_eq!(failed["workspace"]["failures"][0]["code"], "image_missing", "{failed}");
}

fn configure(server: &TestServer, field: &str, value: Value) {
    let mut config = server.client().get("/agent-types/p/workspace-config").expect(200);
    config[field] = value;
    server.client().put("/agent-types/p/workspace-config", config).expect(200);
}

#[test]
fn x7_a_runtime_that_is_not_there_is_never_replaced() {
    let server = server_with(options().env("STEAD_PODMAN_RUNTIME", "nosuch"));
    agent_type(&server, json!({}));
    let session = server.session(json!({"agent_type": "p"}));
    assert_eq!(session["status"], "failed", "{session}");
    assert_eq!(session["workspace"]["failures"][0]["code"], "runtime_replaced", "{session}");
}

#[test]
fn s9_killed_servers_and_ended_containers_lose_no_file() {
    let mut server = with_podman();
    let session = box_session(&server, json!({}));
    bash(&server, &session, "echo kept > a; sync; (setsid sleep 600 &)");
    server.restart(None);
    let id = session["id"].as_str().unwrap();
    assert_eq!(server.client().get(&format!("/sessions/{id}")).expect(200)["status"], "active");
    assert_eq!(bash(&server, &session, "cat a; pgrep -c sleep")["stdout"], "kept\n1\n");
    // The container survives the end of conmon. If the container ends, it is started again with its
    // files.
    let name = containers_of(&session).remove(0);
    let conmon = podman::shared().run(&["inspect", "--format", "{{.State.ConmonPid}}", &name]);
    let conmon: i32 = String::from_utf8_lossy(&conmon.stdout).trim().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(conmon).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    assert_eq!(bash(&server, &session, "cat a; pgrep -c sleep")["stdout"], "kept\n1\n");
    server.kill();
    podman::shared().run(&["kill", &name]);
    podman::shared().run(&["rm", "--force", "--time", "0", &name]);
    server.restart(None);
    assert_eq!(bash(&server, &session, "cat a; pgrep -c sleep")["stdout"], "kept\n0\n");
    assert_eq!(containers_of(&session).len(), 1);
}

#[test]
fn s9_two_servers_on_one_podman_touch_only_their_own() {
    let (mut one, two) = (with_podman(), with_podman());
    let (mine, theirs) = (box_session(&one, json!({})), box_session(&two, json!({})));
    // A foreign container with our labels.
    let name = format!("foreign-{}", std::process::id());
    let label = containers_of(&mine).remove(0);
    let instance = label.trim_start_matches("stead-").split('-').next().unwrap().to_owned();
    let made = podman::shared().run(&[
        "create",
        "--network",
        "none",
        "--name",
        &name,
        "--label",
        &format!("stead.instance={instance}"),
        BUSYBOX,
        "true",
    ]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    one.restart(None);
    assert_eq!(bash(&two, &theirs, "echo here")["stdout"], "here\n");
    assert_eq!(bash(&one, &mine, "echo here")["stdout"], "here\n");
    assert!(podman::shared().containers().contains(&name));
    podman::shared().run(&["rm", "--force", &name]);
}

#[test]
fn s4_fallback_once_then_degraded_and_a_provider_that_works_again_is_used_again() {
    build_init();
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("podman.sock");
    let url = format!("unix://{}", socket.display());
    let broken = ServerOptions::default().env("PODMAN_BASE_URL", &url).env("STEAD_PODMAN_IMAGE", TOOLS);
    let server = server_with(broken.clone());
    agent_type(&server, json!({"fallback_provider": "native"}));
    let session = server.session(json!({"agent_type": "p"}));
    assert_eq!(
        (&session["status"], &session["workspace"]["provider"]),
        (&json!("active"), &json!("native")),
        "{session}"
    );
    let failure = &session["workspace"]["failures"][0];
    assert_eq!((&failure["provider"], &failure["code"]), (&json!("podman"), &json!("provider_unhealthy")));
    assert!(failure["message"].as_str().unwrap().contains(&url), "{failure}");
    // Podman is used again as soon as its socket exists.
    std::os::unix::fs::symlink(podman::shared().directory().join("podman.sock"), &socket).unwrap();
    let session = server.session(json!({"agent_type": "p"}));
    assert_eq!(session["workspace"]["provider"], "podman", "{session}");
    drop(server);
    // Both providers fail: this server has no stead-init next to it.
    std::fs::remove_file(&socket).unwrap();
    let alone = scratch.path().join("stead");
    std::fs::copy(env!("CARGO_BIN_EXE_stead"), &alone).unwrap();
    let server = TestServer::start_with(alone.to_str().unwrap(), broken);
    agent_type(&server, json!({"fallback_provider": "native", "require_workspace": false}));
    let session = server.session(json!({"agent_type": "p"}));
    assert_eq!((&session["status"], &session["degraded"]), (&json!("active"), &json!(true)), "{session}");
    let warning = session["warnings"][0]["message"].as_str().unwrap();
    assert!(warning.contains("podman: ") && warning.contains("native: "), "{warning}");
    configure(&server, "require_workspace", json!(true));
    assert_eq!(server.session(json!({"agent_type": "p"}))["status"], "failed");
    let metrics = server.client().get("/metrics").text;
    assert!(metrics.contains("stead_degraded_sessions_total 1"), "{metrics}");
}

/// Creates and closes sessions while servers and conmons are killed. `STEAD_CHURN` sets the number
/// of sessions; half as many servers and a fifth as many conmons are killed.
#[test]
fn s9_churn_leaves_nothing_and_every_session_is_truthful() {
    let sessions: usize = std::env::var("STEAD_CHURN").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let podman = podman::shared();
    let mut server = with_podman();
    agent_type(&server, json!({"base_image": BUSYBOX, "warm_pool": 1}));
    let mut live: Vec<String> = Vec::new();
    // A fixed seed, so that every run kills the same ones.
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    let mut roll = |below: usize| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        usize::try_from(dice % below as u64).unwrap()
    };
    for number in 0..sessions {
        let made = server.client().post("/sessions", json!({"agent_type": "p"})).expect(201);
        live.push(made["id"].as_str().unwrap().to_owned());
        if number % 5 == 4 {
            kill_a_conmon(podman, &server, roll(4));
        }
        if number % 2 == 1 {
            // A random moment: some containers are being created, others removed.
            std::thread::sleep(std::time::Duration::from_millis(roll(300) as u64));
            server.restart(None);
        }
        if live.len() > 4 {
            let id = live.remove(roll(live.len()));
            let reply = server.client().try_send("DELETE", &format!("/sessions/{id}"), &[], None);
            assert!(reply.is_ok_and(|reply| [204, 202].contains(&reply.status)), "{id}");
        }
    }
    let mut instance = None;
    for id in &live {
        let session = settled(&server, id);
        assert_eq!(session["status"], "active", "{session}\n{}\n{}", last_events(&server, id), server.log());
        assert_eq!(bash(&server, &session, "echo here")["stdout"], "here\n");
        // Read the instance from a box's record while one exists.
        instance.get_or_insert_with(|| podman_instance(server.home()));
        server.client().delete(&format!("/sessions/{id}")).expect(204);
    }
    let instance = instance.unwrap();
    // Podman may still create a container that a killed server had requested.
    until("no container can still appear", || {
        (std::fs::read_dir(server.home().join("podman/late")).map_or(0, Iterator::count) == 0).then_some(())
    });
    drop(server);
    let left: Vec<String> = podman.containers().into_iter().filter(|name| name.contains(&instance)).collect();
    assert_eq!(left, Vec::<String>::new());
}

/// Podman then fails the start, which must not fail the session.
#[test]
fn s9_a_conmon_that_dies_at_birth_fails_no_session() {
    let server = with_podman();
    agent_type(&server, json!({"base_image": BUSYBOX}));
    let made = server.client().post("/sessions", json!({"agent_type": "p"})).expect(201);
    let id = made["id"].as_str().unwrap();
    let workspace = server.client().get(&format!("/sessions/{id}")).expect(200)["workspace"]["id"].clone();
    // Poll without a pause, to catch conmon right after its start.
    let conmon = until("a conmon", || (0..500).find_map(|_| conmon_of(workspace.as_str().unwrap())));
    let _ = rustix::process::kill_process(conmon, rustix::process::Signal::KILL);
    let session = settled(&server, id);
    assert_eq!(session["status"], "active", "{session}\n{}", last_events(&server, id));
    assert_eq!(bash(&server, &session, "echo here")["stdout"], "here\n");
}

/// Finds the conmon process of the container with this name.
fn conmon_of(name: &str) -> Option<rustix::process::Pid> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut found = processes.filter(|entry| {
        let line = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        line.split('\0').next().is_some_and(|program| program.ends_with("conmon")) && line.contains(name)
    });
    found.find_map(|entry| rustix::process::Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

#[test]
fn s9_what_podman_makes_after_its_server_was_killed_goes_too() {
    let podman = podman::shared();
    let mut server = with_podman();
    let session = box_session(&server, json!({"base_image": BUSYBOX}));
    let (boxes, instance) = (server.home().join("podman/boxes"), podman_instance(server.home()));
    server.kill();
    // The state that a server leaves if it is killed while it waits for Podman's answer.
    let id = session["workspace"]["id"].as_str().unwrap();
    let mut record: Value =
        serde_json::from_slice(&std::fs::read(boxes.join(id).join("podman.json")).unwrap()).unwrap();
    let lost = format!("{}{}", &id[..id.len() - 4], "0000");
    let name = format!("stead-{instance}-{lost}");
    record["container"] = json!(name);
    record["runtime"] = json!(null);
    std::fs::create_dir(boxes.join(&lost)).unwrap();
    std::fs::write(boxes.join(&lost).join("podman.json"), record.to_string()).unwrap();
    server.restart(None);
    until("the box is gone", || (!boxes.join(&lost).exists()).then_some(()));
    let label = format!("stead.instance={instance}");
    let made = podman.run(&["create", "--network", "none", "--name", &name, "--label", &label, BUSYBOX, "true"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    until("the late container is gone", || (!podman.containers().contains(&name)).then_some(()));
    assert_eq!(bash(&server, &session, "echo here")["stdout"], "here\n");
}

/// Returns the last events of a journal, one per line, for failure messages.
fn last_events(server: &TestServer, session: &str) -> String {
    let path = format!("/sessions/{session}/events?limit=500");
    let page = server.client().send("GET", &path, &[("accept", "application/json")], None).expect(200);
    let lines = page["items"].as_array().unwrap().iter().rev().take(12).map(ToString::to_string);
    lines.collect::<Vec<_>>().join("\n")
}

/// The part of the container names that identifies this server.
fn podman_instance(home: &std::path::Path) -> String {
    let mut boxes = std::fs::read_dir(home.join("podman/boxes")).unwrap().flatten();
    let record = boxes.find_map(|entry| std::fs::read_to_string(entry.path().join("podman.json")).ok()).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    record["instance"].as_str().unwrap().to_owned()
}

fn kill_a_conmon(podman: &podman::Podman, server: &TestServer, number: usize) {
    let boxes = std::fs::read_dir(server.home().join("podman/boxes")).unwrap();
    let Some(entry) = boxes.flatten().nth(number) else { return };
    let Ok(record) = std::fs::read_to_string(entry.path().join("podman.json")) else { return };
    let record: Value = serde_json::from_str(&record).unwrap();
    let name = record["container"].as_str().unwrap();
    let found = podman.run(&["inspect", "--format", "{{.State.ConmonPid}}", name]);
    let pid = String::from_utf8_lossy(&found.stdout).trim().parse().ok().filter(|pid| *pid > 1);
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}
