//! Each schema agrees with its parser on examples of every body and on many generated strings.

mod content;
mod example;
mod fits;

use serde_json::{Value, json};
use stead_core::config::WorkspaceConfig;
use stead_core::parse::{self, Read};
use stead_core::registry::{AgentTypeDeclaration, Platform, Project};
use stead_core::request::SessionRequest;
use stead_core::secret::SecretRequest;

use crate::exec::{ExecRequest, ResizeRequest, SignalRequest, StdinRequest};
use crate::session::snapshot::{CloneRequest, SnapshotRequest};

use fits::fits;

/// Asserts that schema and parser both accept the value, or both reject it.
fn check<T: Read>(schema: &str, value: Value, right: bool) {
    let parsed = parse::read::<T>(value.clone()).map(|_| ());
    assert_eq!(parsed.is_ok(), right, "the parser on {value}: {parsed:?}");
    assert_eq!(fits(schema, &value), right, "the schema {schema} on {value}");
}

fn config(value: Value, right: bool) {
    check::<WorkspaceConfig>("WorkspaceConfig", value.clone(), right);
    check::<AgentTypeDeclaration>("AgentTypeDeclaration", json!({"id": "t", "workspace": value}), right);
}

#[test]
fn workspace_configs() {
    let default = serde_json::to_value(WorkspaceConfig::default()).unwrap();
    config(default.clone(), true);
    config(json!({}), true);
    // `null` means the same as an absent field, for every field.
    for name in default.as_object().unwrap().keys() {
        config(json!({ name: null }), true);
        config(json!({ name: {"unknown": 1} }), false);
    }
    for right in [
        json!({"enabled": true, "provider": "native", "fallback_provider": "podman"}),
        json!({"repo_source": {"type": "fixed", "url": "https://a/b", "branch": "x/y"}}),
        json!({"repo_source": {"type": "none"}}),
        json!({"tools": []}),
        json!({"tools": ["bash", "eval"], "resource_limits": {"cpu": "0.5", "pids": 16}}),
        json!({"mounts": [{"host_path": "a", "max_bytes": 0}]}),
        json!({"network": {"agent": {"mode": "allow", "domains": ["x"]}}}),
        json!({"limits": {"output_bytes": 1024}, "warm_pool": 0}),
    ] {
        config(right, true);
    }
    for wrong in [
        json!([]),
        json!({"colour": 1}),
        json!({"enabled": 1}),
        json!({"provider": "docker"}),
        json!({"repo_source": {"type": "fixed"}}),
        json!({"repo_source": {"type": "none", "url": "https://a/b"}}),
        json!({"repo_source": {"type": "task_context", "url": "https://a/b"}}),
        json!({"repo_source": {}}),
        json!({"tools": ["bash", "bash"]}),
        json!({"tools": ["ssh"]}),
        json!({"resource_limits": {"cpu": "banana"}}),
        json!({"resource_limits": {"pids": 0}}),
        json!({"resource_limits": {"pids": 15}}),
        json!({"mounts": [{}]}),
        json!({"mounts": [{"host_path": ""}]}),
        json!({"ttl_seconds": 0}),
        json!({"warm_pool": 1001}),
        json!({"warm_pool": 1.5}),
        json!({"base_image": "a\u{0}b"}),
        json!({"setup_commands": [""]}),
        json!({"limits": {"output_bytes": 1023}}),
    ] {
        config(wrong, false);
    }
}

#[test]
fn policies_at_every_layer() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let policies = [
        (json!("git"), true),
        (json!({"type": "empty"}), true),
        (json!({"type": "git", "url": "git@a:b", "ref": "v1", "depth": 1}), true),
        (json!({"type": "mount", "host_path": "/a", "mode": "ro"}), true),
        (json!({"type": "bundle", "source": {"blob": digest.clone()}, "digest": digest}), true),
        (json!({"type": "bundle", "source": {"content": "a@1"}}), true),
        (json!("svn"), false),
        (json!({"type": "empty", "url": "https://a/b"}), false),
        (json!({"type": "git"}), false),
        (json!({"type": "git", "url": "https://a/b", "depth": 0}), false),
        (json!({"type": "mount", "host_path": "a"}), false),
        (json!({"type": "mount", "host_path": "/a", "mode": "wr"}), false),
        (json!({"type": "bundle", "source": {}}), false),
        (json!({"type": "bundle", "source": {"path": "/a", "content": "a"}}), false),
        (json!({"type": "bundle", "source": {"blob": "sha256:0"}}), false),
        (json!({}), false),
        (json!(1), false),
    ];
    for (policy, right) in policies {
        check::<Project>("Project", json!({"workspace_policy": policy}), right);
        check::<Platform>("Platform", json!({"workspace_policy": policy}), right);
        let task = json!({"workspace_policy": policy});
        check::<SessionRequest>("SessionRequest", json!({"agent_type": "t", "task": task}), right);
        config(json!({"workspace_policy": policy}), right);
    }
}

#[test]
fn declarations_and_requests() {
    check::<Platform>("Platform", serde_json::to_value(Platform::default()).unwrap(), true);
    check::<Project>("Project", serde_json::to_value(Project::default()).unwrap(), true);
    check::<Platform>("Platform", json!({"allowed_host_roots": ["/"], "defaults": {"provider": "memory"}}), true);
    check::<Platform>("Platform", json!({"allowed_host_roots": ["a"]}), false);
    check::<Platform>("Platform", json!({"allowed_git_hosts": [""]}), false);
    for (env, right) in [
        (json!({"A_1": "", "_": "x"}), true),
        (json!({"1A": ""}), false),
        (json!({"": ""}), false),
        (json!({"A": 1}), false),
        (json!({"A": null}), false),
        (json!({"A": "\u{0}"}), false),
    ] {
        check::<Project>("Project", json!({ "env": env }), right);
    }
    for (sides, right) in
        [(json!("host"), true), (json!(["host", "guest"]), true), (json!([]), true), (json!("x"), false)]
    {
        let body = json!({"id": "t", "capabilities": {"sandbox": {"workspace_provider": sides}}});
        check::<AgentTypeDeclaration>("AgentTypeDeclaration", body, right);
    }
    let request = |value, right| check::<SessionRequest>("SessionRequest", value, right);
    request(json!({"agent_type": "t", "content": {"workspace": "c", "version": 0}, "metadata": {"a": [1.5]}}), true);
    request(json!({"agent_type": "t", "task": {"id": "x", "context": {"pull_request_number": 1}}}), true);
    request(json!({}), false);
    request(json!({"agent_type": null}), false);
    request(json!({"agent_type": "t", "metadata": []}), false);
    request(json!({"agent_type": "t", "task": {"id": ""}}), false);
    request(json!({"agent_type": "t", "task": {"context": {"pull_request_number": 0}}}), false);
    request(json!({"agent_type": "t", "content": {}}), false);
}

#[test]
fn execs() {
    let exec = |value, right| check::<ExecRequest>("ExecRequest", value, right);
    exec(json!({"command": "ls"}), true);
    exec(json!({"argv": ["ls", ""], "command": null}), true);
    exec(
        json!({"command": "x", "cwd": "a", "env": {"A": "b"}, "stdin": "\u{0}", "timeout_seconds": 1, "background": true}),
        true,
    );
    exec(json!({"command": "x", "pty": {"rows": 1, "columns": 4096}, "stdin": true, "unread": "wait"}), true);
    exec(json!({"command": "x", "pty": true, "stdin": null, "unread": null, "timeout_seconds": null}), true);
    for wrong in [
        json!({}),
        json!({"command": null}),
        json!({"command": ""}),
        json!({"command": "a", "argv": ["a"]}),
        json!({"argv": []}),
        json!({"argv": [""]}),
        json!({"argv": "ls"}),
        json!({"command": "a\u{0}"}),
        json!({"command": "a", "timeout_seconds": 0}),
        json!({"command": "a", "timeout_seconds": 86_401}),
        json!({"command": "a", "pty": {"rows": 0, "columns": 1}}),
        json!({"command": "a", "pty": {"rows": 1}}),
        json!({"command": "a", "pty": 1}),
        json!({"command": "a", "stdin": 1}),
        json!({"command": "a", "unread": "keep"}),
        json!({"command": "a", "env": {"1": ""}}),
        json!({"command": "a", "shell": "sh"}),
    ] {
        exec(wrong, false);
    }
    for (signal, right) in
        [(json!("TERM"), true), (json!("SIGKILL"), true), (json!(9), true), (json!(31), true)].into_iter().chain([
            (json!("term"), false),
            (json!(0), false),
            (json!(32), false),
            (json!(null), false),
            (json!(1.5), false),
        ])
    {
        check::<SignalRequest>("SignalRequest", json!({ "signal": signal }), right);
    }
    check::<StdinRequest>("StdinRequest", json!({"data": "\u{0}", "encoding": "utf8", "close": true}), true);
    check::<StdinRequest>("StdinRequest", json!({}), true);
    check::<StdinRequest>("StdinRequest", json!({"data": 1}), false);
    check::<StdinRequest>("StdinRequest", json!({"data": "", "encoding": "utf16"}), false);
    check::<ResizeRequest>("ResizeRequest", json!({"rows": 1, "columns": 2}), true);
    check::<ResizeRequest>("ResizeRequest", json!({"rows": 1, "columns": 4097}), false);
}

/// Strings composed of tokens that matter to the grammars. Every run uses the same strings.
fn made_up(pieces: &[&str], count: u32) -> impl Iterator<Item = String> {
    let mut seed = 0x9e37_79b9_u32;
    let mut draw = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed as usize % below
    };
    (0..count).map(move |_| (0..draw(9)).map(|_| pieces[draw(pieces.len())]).collect())
}

/// Asserts that pattern and parser agree on each string, and that both accept some and reject some.
fn agree<T: std::str::FromStr>(schema: &str, pieces: &[&str]) {
    let (mut right, mut wrong) = (0, 0);
    for text in made_up(pieces, 4_000) {
        let parsed = text.parse::<T>().is_ok();
        assert_eq!(fits(schema, &json!(text)), parsed, "{schema} on {text:?}");
        *(if parsed { &mut right } else { &mut wrong }) += 1;
    }
    assert!(right > 50 && wrong > 50, "{schema}: {right} right, {wrong} wrong");
}

#[test]
fn patterns_are_the_parsers() {
    agree::<stead_core::Name>("Name", &["a", "Z", "0", ".", "_", "-", "é", " "]);
    let url = [
        "https", "http", "ssh", "file", "ext", "://", ":", "/", "//", "@", "-", "git", "h.x", ".", " ", "\n", "é", "?",
    ];
    agree::<stead_core::repository::RepositoryUrl>("RepositoryUrl", &url);
    let git_ref = ["a", "/", ".", "..", ".lock", "@", "@{", "-", "x", "~", "é", " ", "\\", "\u{7f}"];
    agree::<stead_core::repository::GitRef>("GitRef", &git_ref);
    let amount = ["0", "1", "9", "10", ".", "00", "m", "K", "G", "i", "B", "-", "e"];
    agree::<stead_core::quantity::Cpu>("ResourceLimits/properties/cpu", &amount);
    for (name, least) in [
        ("ResourceLimits/properties/memory", stead_core::config::LEAST_MEMORY_BYTES),
        ("ResourceLimits/properties/disk", stead_core::config::LEAST_DISK_BYTES),
    ] {
        for text in made_up(&amount, 4_000) {
            let taken = text.parse::<stead_core::quantity::ByteSize>().is_ok_and(|size| size.bytes() >= least);
            assert_eq!(fits(name, &json!(text)), taken, "{name} on {text:?}");
        }
    }
    let id = ["ses_", "0123456789", "abcdefghjkmnpqrs", "tvwxyz", "0", "7", "8", "i", "u"];
    for text in made_up(&id, 4_000) {
        assert_eq!(fits("SessionId", &json!(text)), text.parse::<stead_core::SessionId>().is_ok(), "{text}");
    }
    assert!(fits("SessionId", &json!(stead_core::SessionId::from_bits(u128::MAX).to_string())));
}

#[test]
fn snapshots_and_clones() {
    for (body, right) in [
        (json!({}), true),
        (json!({"name": null}), true),
        (json!({"name": "before the change"}), true),
        (json!({"name": ""}), false),
        (json!({"name": "x".repeat(257)}), false),
        (json!({"name": 1}), false),
        (json!({"title": "x"}), false),
    ] {
        check::<SnapshotRequest>("SnapshotRequest", body, right);
    }
    for (body, right) in [
        (json!({"isolation": "none"}), true),
        (json!({"isolation": "full", "count": 64}), true),
        (json!({"isolation": "full", "count": null}), true),
        (json!({}), false),
        (json!({"isolation": "half"}), false),
        (json!({"isolation": null}), false),
        (json!({"isolation": "full", "count": 0}), false),
        (json!({"isolation": "full", "count": 65}), false),
    ] {
        check::<CloneRequest>("CloneRequest", body, right);
    }
}

#[test]
fn hosts_and_names_of_services() {
    let hosts = ["a", "api.example.com:8443", "1a.x", "127.0.0.1", "[::1]:80", "[2001:db8::1:2]", "[::]"];
    let wrong =
        ["", "0", "a.1", "0x1", "a:0", "a:65536", "[::1", "1:2", "a/b", "a..b", "256.0.0.1", "[1::2::3]", "u@a"];
    let cases = hosts.map(|host| (host, true)).into_iter().chain(wrong.map(|host| (host, false)));
    for (host, right) in cases {
        let services = json!({"api": {"to": format!("http://{host}")}});
        check::<Platform>("Platform", json!({"network": {"services": services}}), right);
        let secret = json!({"value": "not-a-secret", "hosts": [host]});
        check::<SecretRequest>("SecretRequest", secret, right);
    }
    for (name, right) in [("a", true), ("1a", true), ("a_-1", true), ("0", false), ("0x1", false), ("A", false)] {
        let services = json!({name: {"to": "http://a"}});
        check::<Platform>("Platform", json!({"network": {"services": services}}), right);
    }
}

#[test]
fn an_mcp_server_gets_no_secret() {
    for (env, right) in [(json!({"A": "b"}), true), (json!({"A": {"secret": "s"}}), false)] {
        let servers = json!({"s": {"command": ["x"], "env": env}});
        check::<AgentTypeDeclaration>(
            "AgentTypeDeclaration",
            json!({"id": "t", "content": {"mcp_servers": servers}}),
            right,
        );
    }
}
