//! `wsprobe` in a container: everything it tries is refused, or is one of the few things that are known, each with why it harms nobody.

use serde_json::{Value, json};
use stead_testkit::podman;

use super::podman::{bash, boxed, containers_of, service, under};

/// What the probe finds open under gVisor, what it is to say of it, and why it may. All of it is asked of gVisor's kernel, a program of the host's that
/// runs as nobody: see [`the_sandbox_is_nobody`].
const OF_GVISOR: &[(&str, &str)] = &[
    // The map of gVisor's own first user namespace: its ids are numbers in that kernel. On the host they own nothing but the files of this box's
    // volume, below a directory that only root may enter.
    ("A01.user_namespace", "0          0 4294967295"),
    // This gVisor does not know that a process can be closed to others of its user. What is seen of process 1 is what the image says
    // ([`process_1_tells_nothing`]) and where its code lies. Its memory is not opened, it cannot be traced, and its sockets cannot be
    // opened again; the pipes of other commands can, by commands of the same agent in the same box.
    ("A07.process_1_environ", ""),
    ("A07.process_1_maps", ""),
    ("A07.process_1_fd", ""),
    // gVisor's own implementation of FUSE, of no use without the right to mount, which nobody in the box has (A02).
    ("A08.devices", "[\"/dev/fuse\"]"),
    // A constant of gVisor's, not the host's line: compared below.
    ("A08.proc_cmdline", "Ok(1)"),
    // This gVisor keeps no `nosuid` and `nodev`, and honours neither bit nor node: executing gives nobody rights (its `no_new_privs` is always on),
    // nobody may make a node, and its file server opens none of the host's.
    ("A13.mounts", ""),
    // Objects of gVisor's own kernel. The host counts them as memory of the sandbox and as nothing else.
    ("A14.terminals", "65"),
    ("A14.inotify", "129"),
    // gVisor keeps the number and does not ask the host for it.
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
    let session = boxed(&server, json!({}));
    let probe = std::path::Path::new(env!("CARGO_BIN_EXE_stead")).with_file_name("wsprobe");
    super::put(&server, &session, "wsprobe", &std::fs::read(probe).unwrap());
    // Things of the host that a box must not reach.
    let canary = tempfile::NamedTempFile::new().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let env = json!({"PROBE_TEXT": "stead-canary", "PROBE_FILE": canary.path(), "PROBE_SOCKET": podman::shared().place().join("podman.sock"),
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
        let told = bash(&server, &session, "cat /proc/cmdline; cat /proc/1/environ");
        process_1_tells_nothing(told["stdout"].as_str().unwrap());
        the_sandbox_is_nobody(&containers_of(&session)[0]);
        return;
    }
    assert!(text.contains("NoNewPrivs:\t1"), "{text}");
    assert!(!text.contains("gate.sock") && text.lines().count() == 4, "{text}");
}

/// Those of this process. A container has no time namespace of its own: Podman makes none, and all that one could hide is how long the
/// host has been up.
fn namespaces() -> String {
    let links = std::fs::read_dir("/proc/self/ns").unwrap().flatten().map(|entry| std::fs::read_link(entry.path()));
    let links = links.map(|link| link.unwrap().display().to_string());
    links.filter(|link| !link.starts_with("time")).collect::<Vec<_>>().join(" ")
}

fn process_1_tells_nothing(told: &str) {
    let (line, environ) = told.split_once('\n').unwrap();
    assert!(line.ends_with("-gvisor quiet"), "{line}");
    let names: Vec<&str> = environ.split('\0').filter_map(|variable| Some(variable.split_once('=')?.0)).collect();
    assert!(names.iter().all(|name| ["PATH", "TERM", "container", "HOSTNAME", "HOME"].contains(name)), "{environ}");
}

/// On the host gVisor's kernel is a process without a user, in a user namespace with room for nobody else, behind a filter.
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
