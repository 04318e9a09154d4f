//! `wsprobe` in a container: every attempt is refused or is on a list of known exceptions, each
//! with the reason why it is harmless.

use serde_json::{Value, json};
use stead_testkit::podman;

use super::podman::{bash, box_session, containers_of, service, under};

/// Attempts that succeed under gVisor, with the expected detail. All of them reach only gVisor's
/// kernel, a host process that runs as user `nobody`: see [`the_sandbox_is_nobody`].
const OF_GVISOR: &[(&str, &str)] = &[
    // The map of gVisor's own initial user namespace: its ids exist in that kernel only. On the
    // host they own only the files of this box's volume, below a directory that only root may
    // enter.
    ("A01.user_namespace", "0          0 4294967295"),
    // This gVisor does not implement non-dumpable processes. Process 1 shows only the image's
    // environment ([`process_1_tells_nothing`]) and where its code lies. Its memory cannot be
    // opened, it cannot be traced, and its sockets cannot be reopened. Commands of the same agent
    // in the same box can open each other's pipes.
    ("A07.process_1_environ", ""),
    ("A07.process_1_maps", ""),
    ("A07.process_1_fd", ""),
    // gVisor's own FUSE implementation is useless without the right to mount, which no process in
    // the box has (A02).
    ("A08.devices", "[\"/dev/fuse\"]"),
    // A constant of gVisor, not the host's command line: compared below.
    ("A08.proc_cmdline", "Ok(1)"),
    // This gVisor does not record `nosuid` and `nodev`, but needs neither. Its `no_new_privs` is
    // always on, no process may create a device node, and its file server opens none of the host's.
    ("A13.mounts", ""),
    // Objects of gVisor's own kernel. The host counts them only as memory of the sandbox.
    ("A14.terminals", "65"),
    ("A14.inotify", "129"),
    // gVisor stores the priority and does not ask the host for it.
    ("A14.priority", "Some(0)"),
];

#[test]
fn x5_the_probe_is_refused_and_nothing_of_the_host_is_seen() {
    the_probe_is_refused("runc");
}

#[test]
fn x5_the_probe_is_refused_under_gvisor() {
    the_probe_is_refused("runsc");
}

fn the_probe_is_refused(runtime: &str) {
    let service = service(runtime);
    let server = under(&service, runtime);
    let session = box_session(&server, json!({}));
    let probe = std::path::Path::new(env!("CARGO_BIN_EXE_stead")).with_file_name("wsprobe");
    crate::rows::put(&server, &session, "wsprobe", &std::fs::read(probe).unwrap());
    // Host objects that a box must not reach.
    let canary = tempfile::NamedTempFile::new().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let env = json!({"PROBE_TEXT": "stead-canary", "PROBE_FILE": canary.path(), "PROBE_SOCKET": podman::shared().directory().join("podman.sock"),
        "PROBE_ABSTRACT": "stead-canary", "PROBE_PORT": port.local_addr().unwrap().port().to_string(), "PROBE_NAMESPACES": namespaces(),
        "PROBE_HOSTNAME": std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim()});
    let command = "chmod +x wsprobe && cd /tmp && exec /workspace/wsprobe";
    let answer = server.tool(&session, "bash", json!({"command": command, "env": env}))["result"].clone();
    assert_eq!((&answer["exit_code"], &answer["stderr"]), (&json!(0), &json!("")), "{answer}");
    let findings: Vec<Value> =
        answer["stdout"].as_str().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(findings.len() > 100, "{answer}");
    let expected = |finding: &&Value| {
        let known = OF_GVISOR.iter().find(|(id, _)| finding["id"] == *id).filter(|_| runtime == "runsc");
        known.is_none_or(|(_, detail)| finding["detail"] != *detail && !detail.is_empty())
    };
    let open: Vec<&Value> =
        findings.iter().filter(|finding| finding["verdict"] == "allowed").filter(expected).collect();
    assert_eq!(open, Vec::<&Value>::new(), "{answer}");
    let seen = bash(
        &server,
        &session,
        "cat /proc/1/status | grep -E 'NoNewPrivs|CapBnd|Seccomp:'; ls /.stead/gate; cat /proc/net/route",
    );
    let text = seen["stdout"].as_str().unwrap();
    assert!(text.contains("CapBnd:\t0000000000000000") && text.contains("Seccomp:\t2"), "{text}");
    if runtime == "runsc" {
        let reported = bash(&server, &session, "cat /proc/cmdline; cat /proc/1/environ");
        process_1_tells_nothing(reported["stdout"].as_str().unwrap());
        the_sandbox_is_nobody(&containers_of(&session)[0]);
        return;
    }
    assert!(text.contains("NoNewPrivs:\t1"), "{text}");
    assert!(!text.contains("gate.sock") && text.lines().count() == 4, "{text}");
}

/// Namespaces of this process without the time namespace. Podman creates none, and it could only
/// hide the host's uptime.
fn namespaces() -> String {
    let links = std::fs::read_dir("/proc/self/ns").unwrap().flatten().map(|entry| std::fs::read_link(entry.path()));
    let links = links.map(|link| link.unwrap().display().to_string());
    links.filter(|link| !link.starts_with("time")).collect::<Vec<_>>().join(" ")
}

fn process_1_tells_nothing(output: &str) {
    let (line, environ) = output.split_once('\n').unwrap();
    assert!(line.ends_with("-gvisor quiet"), "{line}");
    let names: Vec<&str> = environ.split('\0').filter_map(|variable| Some(variable.split_once('=')?.0)).collect();
    assert!(names.iter().all(|name| ["PATH", "TERM", "container", "HOSTNAME", "HOME"].contains(name)), "{environ}");
}

/// On the host, gVisor's kernel runs as `nobody`, in a user namespace that maps no other user,
/// behind a seccomp filter.
fn the_sandbox_is_nobody(container: &str) {
    let found = podman::shared().run(&["inspect", "--format", "{{.State.Pid}}", container]);
    let pid: u32 = String::from_utf8_lossy(&found.stdout).trim().parse().unwrap();
    let of = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    let status = of("status");
    for expect in ["Uid:\t65534\t65534\t65534\t65534", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(expect), "{status}");
    }
    assert_eq!(of("uid_map").split_whitespace().collect::<Vec<_>>(), ["65534", "65534", "1"]);
    let user = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/user")).unwrap();
    assert_ne!(user(&pid.to_string()), user("self"));
}
