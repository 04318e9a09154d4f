//! Inspected hosts: the server reads the requests inside TLS, judges each and adds secrets.

use std::process::Command;

use serde_json::{Value, json};
use stead_testkit::{Outside, until};

use super::services::{echoed, header, is_nowhere_in_the_box, set, status};
use super::{Networked, User, outside_cases, podman_cases};
use crate::rows::secrets::{CANARY, holders};

outside_cases! {
    n2_clients_are_inspected_without_a_setting,
    n5_an_inspected_host_gets_a_key_that_is_nowhere_in_the_box,
    an_inspected_host_gets_only_its_methods_and_paths,
    upstream_certificates_are_verified,
    two_sessions_do_not_trust_each_others_authority,
    clients_with_roots_of_their_own_are_refused_with_the_reason,
    inspection_goes_on_after_kills_and_new_keys,
    grants_for_names_without_certificates_are_refused,
}

podman_cases! {
    python_is_inspected_and_judged,
}

const LIMITS: &str = r#"{"resource_limits": {"memory": "1G", "disk": "512M", "pids": 256}}"#;

fn session(networked: &Networked, allow: Value) -> Value {
    let network = json!({"agent": {"allow": allow}});
    networked.session_of(network.clone(), network, serde_json::from_str(LIMITS).unwrap())
}

/// Returns the treatment of the first contacts with a host.
fn how(networked: &Networked, session: &Value, host: &str) -> Vec<String> {
    let opened = networked.events(session, "NetworkOpened");
    let of_host = opened.iter().filter(|one| one["host"] == host);
    of_host.map(|one| one["how"].as_str().unwrap().to_owned()).collect()
}

fn n2_clients_are_inspected_without_a_setting(outside: &Outside, user: User) {
    super::clients::serve_files(outside);
    let networked = Networked::new(user);
    let inspected = |host: &str| json!({"host": host, "ports": [443], "inspect": true});
    let session = session(&networked, json!([inspected("api.example"), inspected("files.example"), "other.example"]));
    let url = "https://api.example/x";
    for (client, command) in [
        ("curl", format!("curl -sS --max-time 60 {url}")),
        ("python", format!("python3 -c 'import urllib.request; print(urllib.request.urlopen(\"{url}\").read().decode(), end=\"\")'")),
        ("node", format!("node -e 'fetch(\"{url}\").then(a => a.text()).then(t => process.stdout.write(t))'")),
        ("java", super::clients::java(url)),
        ("openssl", "printf 'GET /x HTTP/1.0\\r\\nHost: api.example\\r\\n\\r\\n' | openssl s_client -quiet -verify_return_error -CAfile /etc/stead/ca-certificates.crt -connect api.example:443 -servername api.example 2>/dev/null | tail -n 1".to_owned()),
    ] {
        assert_eq!(networked.prints(&session, &command), "hello api.example /x\n", "{client}");
    }
    super::clients::serve_repository(outside);
    let cloned = networked.prints(&session, "git clone -q https://api.example/demo.git clone && cat clone/read.me");
    assert_eq!(cloned, "kept\n");
    for command in [
        "python3 -m pip install -q --disable-pip-version-check --index-url https://files.example/simple/ --target installed demo 2>&1",
        "export GOPROXY=https://files.example/go GONOSUMDB='*' GOFLAGS=-mod=mod GOTOOLCHAIN=local HOME=/tmp/gohome && mkdir -p /tmp/gohome gomod && cd gomod && go mod init example.test/user && go get demo.example/demo@v1.0.0",
    ] {
        networked.prints(&session, command);
    }
    assert_eq!(how(&networked, &session, "api.example"), ["inspected"]);
    assert_eq!(how(&networked, &session, "files.example"), ["inspected"]);
    // Hosts that are passed on keep working with the same roots.
    assert_eq!(
        networked.prints(&session, "curl -sS --max-time 60 https://other.example/x"),
        "hello other.example /x\n"
    );
    assert_eq!(how(&networked, &session, "other.example"), ["passed"]);
    assert_eq!(networked.refused(&session), Vec::<String>::new());
}

fn n5_an_inspected_host_gets_a_key_that_is_nowhere_in_the_box(outside: &Outside, user: User) {
    let mut networked = Networked::new(user);
    set(&networked, json!({"hosts": ["api.example"], "agent_types": ["net0"]}), CANARY);
    let session = session(&networked, json!([{"host": "api.example", "secret": "api"}, "other.example"]));
    let answer = networked.prints(
        &session,
        "curl -sS --max-time 60 -i -H 'Authorization: Bearer mine' https://api.example/echo | tee kept",
    );
    let seen = echoed(outside);
    assert_eq!(header(&seen[0], "authorization"), [format!("Bearer {CANARY}")], "{seen:?}");
    assert!(answer.contains(&format!("authorization: Bearer {}", "*".repeat(CANARY.len()))), "{answer}");
    assert!(!answer.contains(CANARY), "{answer}");
    // The secret is for this host alone, and not for its plain HTTP.
    networked.prints(&session, "curl -sS --max-time 60 https://other.example/echo");
    assert_eq!(header(&echoed(outside)[1], "authorization"), Vec::<&str>::new());
    assert!(networked.says(&session, "curl -sS --max-time 60 http://api.example/echo").contains("curl: ("));
    let used = networked.events(&session, "CredentialUsed");
    let one = json!({"secret": used[0]["secret"], "host": used[0]["host"], "purpose": used[0]["purpose"]});
    assert_eq!(one, json!({"secret": "api", "host": "api.example", "purpose": "inspected host"}));
    assert_eq!(how(&networked, &session, "api.example"), ["inspected"]);
    let requests = until("the counts", || {
        let tallied = networked.events(&session, "NetworkTallied");
        let hosts = tallied.iter().flat_map(|one| one["hosts"].as_array().unwrap().clone());
        let requests: u64 = hosts.filter_map(|host| host["requests"].as_u64()).sum();
        (requests > 0).then_some(requests)
    });
    assert_eq!(requests, 1);
    // The box has certificates and no key.
    let files = networked.prints(&session, "ls /etc/stead; grep -rl 'PRIVATE KEY' /etc/stead || true");
    assert_eq!(files, "ca-certificates.crt\njava-cacerts\n");
    is_nowhere_in_the_box(&networked, &session);
    networked.server.terminate();
    assert_eq!(holders(networked.server.home(), CANARY), Vec::<String>::new());
    assert!(!holds_a_plain_key(networked.server.home()));
}

/// Looks for a private key for P-256 that is not sealed, in every file of a server.
fn holds_a_plain_key(home: &std::path::Path) -> bool {
    let grep = |pattern: &str| {
        let found = Command::new("grep").env("LC_ALL", "C").args(["-rlaP", pattern]).arg(home).output().unwrap();
        !found.stdout.is_empty()
    };
    // The beginning of PKCS #8 for this curve, as bytes, hexadecimal digits and Base64.
    grep(r"\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01")
        || grep("020100301306072a8648ce3d0201")
        || grep("AgEAMBMGByqGSM49AgE")
}

fn an_inspected_host_gets_only_its_methods_and_paths(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let rule = json!({"host": "api.example", "methods": ["GET"], "paths": ["/v1/**"]});
    let session = session(&networked, json!([rule]));
    let of = |args: &str| status(&networked, &session, args);
    assert_eq!(of("https://api.example/v1/one"), "200");
    // A second request of a connection is judged too.
    assert_eq!(of("https://api.example/v1/two https://api.example/v2/two -o /dev/null"), "200403 request_not_allowed");
    assert_eq!(of("-d x https://api.example/v1/one"), "403 request_not_allowed");
    assert_eq!(of("https://api.example/v2/one"), "403 request_not_allowed");
    assert_eq!(of("--path-as-is https://api.example/v1/../v2"), "403 path_unclear");
    assert_eq!(of("--path-as-is https://api.example/v1/%2e%2e/v2"), "403 path_unclear");
    assert_eq!(of("-H 'Host: other.example' https://api.example/v1/one"), "403 name_mismatch");
    assert!(of("-X CONNECT https://api.example/v1/one").starts_with('4'));
    assert_eq!(of("-H 'X-HTTP-Method-Override: DELETE' https://api.example/v1/three"), "200");
    // An upgrade that no rule allows stays HTTP.
    assert_eq!(of("-H 'Connection: Upgrade' -H 'Upgrade: websocket' https://api.example/v1/four"), "200");
    // Plain HTTP of the same rule is judged alike.
    assert_eq!(of("http://api.example/v1/five"), "200");
    assert_eq!(of("http://api.example/v2/five"), "403 request_not_allowed");
    let paths = ["one", "two", "three", "four", "five"].map(|path| format!("api.example GET /v1/{path}"));
    assert_eq!(outside.log("requests"), paths);
    // HTTP/2, and bytes that are no request at all.
    let said = networked.python(&session, NOT_REQUESTS);
    assert_eq!(said, "closed\nclosed\nclosed\nclosed\n");
    assert_eq!(outside.log("requests").len(), 5);
    let refused = networked.refused(&session);
    for code in ["request_not_allowed", "path_unclear", "name_mismatch", "not_http"] {
        assert!(refused.contains(&format!("api.example:443 {code}")), "{code}: {refused:?}");
    }
}

/// Python that sends other things than requests over TLS, and prints what comes of them.
const NOT_REQUESTS: &str = r#"
import socket, ssl
def attempt(send, alpn):
    context = ssl.create_default_context()
    context.set_alpn_protocols(alpn)
    try:
        with context.wrap_socket(socket.create_connection(("api.example", 443), 60), server_hostname="api.example") as tls:
            tls.settimeout(60)
            tls.sendall(send)
            got = b""
            while piece := tls.recv(65536):
                got += piece
            return "closed" if b" 200 " not in got else "answered"
    except OSError:
        return "closed"
preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
print(attempt(preface, ["h2"]))
print(attempt(preface, ["http/1.1"]))
print(attempt(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", ["http/1.1"]))
smuggled = b"POST /v1/x HTTP/1.1\r\nHost: api.example\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v2/y HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n"
print(attempt(smuggled, ["http/1.1"]))
"#;

fn upstream_certificates_are_verified(outside: &Outside, user: User) {
    outside.zone(json!({"wrong.test": ["93.184.216.34"]}));
    let networked = Networked::new(user);
    set(&networked, json!({"hosts": ["api.example:9443", "wrong.test"], "agent_types": ["*"]}), CANARY);
    let untrusted = json!({"host": "api.example", "ports": [9443], "protocol": "tls", "secret": "api"});
    let session = session(&networked, json!([untrusted, {"host": "wrong.test", "secret": "api"}]));
    assert_eq!(status(&networked, &session, "https://api.example:9443/echo"), "502 certificate");
    assert_eq!(status(&networked, &session, "https://wrong.test/echo"), "502 certificate");
    // A client that does not verify gets no further.
    assert_eq!(status(&networked, &session, "-k https://wrong.test/echo"), "502 certificate");
    assert_eq!(outside.log("requests"), Vec::<String>::new());
    let refused = networked.refused(&session);
    assert!(refused.contains(&"wrong.test:443 certificate".to_owned()), "{refused:?}");
}

fn two_sessions_do_not_trust_each_others_authority(_: &Outside, user: User) {
    let networked = Networked::new(user);
    let allow = json!([{"host": "api.example", "inspect": true}]);
    let (one, other) = (session(&networked, allow.clone()), session(&networked, allow));
    let leaf = |session: &Value| {
        let show =
            "openssl s_client -connect api.example:443 -servername api.example </dev/null 2>/dev/null | openssl x509";
        networked.prints(session, show)
    };
    let (of_one, of_other) = (leaf(&one), leaf(&other));
    let verdict = |session: &Value, leaf: &str| {
        let verify = "openssl verify -verify_hostname api.example -CAfile /etc/stead/ca-certificates.crt leaf.pem";
        networked.says(session, &format!("cat > leaf.pem <<'END'\n{leaf}END\n{verify}"))
    };
    for (session, own, foreign) in [(&one, &of_one, &of_other), (&other, &of_other, &of_one)] {
        assert_eq!(verdict(session, own), "leaf.pem: OK\n");
        let said = verdict(session, foreign);
        assert!(said.contains("unable to get local issuer certificate"), "{said}");
    }
    // A box without inspected hosts sees no change.
    let plain = session(&networked, json!(["api.example"]));
    let said = networked.prints(&plain, "ls -d /etc/stead 2>/dev/null; env | grep -c stead/ca-certificates || true");
    assert_eq!(said, "0\n");
    assert_eq!(networked.prints(&one, "env | grep -c /etc/stead/ca-certificates.crt"), "9\n");
}

fn clients_with_roots_of_their_own_are_refused_with_the_reason(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let allow = json!([{"host": "api.example", "inspect": true}, {"host": "other.example", "inspect": true}]);
    let session = session(&networked, allow);
    let of = |args: &str| networked.bash(&session, &format!("curl -sS --max-time 60 {args}"));
    let answer = of("--cacert /etc/ssl/certs/ca-certificates.crt https://api.example/x");
    assert_ne!(answer["result"]["exit_code"], 0, "{answer}");
    let pinned = of(&format!("--pinnedpubkey sha256//{}= https://other.example/x", "A".repeat(43)));
    assert_ne!(pinned["result"]["exit_code"], 0, "{pinned}");
    let expected = ["api.example:443 inspection_rejected", "other.example:443 inspection_rejected"];
    until("the refusals", || (networked.refused(&session) == expected).then_some(()));
    assert_eq!(outside.log("requests"), Vec::<String>::new());
    // The controls: the same clients with the box's own settings.
    assert_eq!(of("https://api.example/x")["result"]["stdout"], "hello api.example /x\n");
    assert_eq!(of("https://other.example/x")["result"]["stdout"], "hello other.example /x\n");
}

fn inspection_goes_on_after_kills_and_new_keys(_: &Outside, user: User) {
    let mut networked = Networked::new(user);
    let session = session(&networked, json!([{"host": "api.example", "methods": ["GET"]}]));
    // A program that read the certificates once.
    let program = r#"
import os, ssl, time, urllib.request
context = ssl.create_default_context()
for turn in range(3):
    deadline = time.monotonic() + 120
    while not os.path.exists(f"go{turn}") and time.monotonic() < deadline:
        time.sleep(0.05)
    answer = urllib.request.urlopen(f"https://api.example/{turn}", context=context, timeout=60).read().decode()
    open(f"done{turn}.new", "w").write(answer)
    os.rename(f"done{turn}.new", f"done{turn}")
"#;
    networked.prints(&session, &format!("cat > turns.py <<'END'\n{program}\nEND\ntouch go0"));
    let command = json!({"command": "python3 turns.py", "background": true});
    assert_eq!(networked.server.tool(&session, "bash", command)["ok"], true);
    let done = |networked: &Networked, turn: u32| {
        until("the request", || {
            let said = networked.says(&session, &format!("cat done{turn} 2>/dev/null"));
            (!said.is_empty()).then_some(said)
        })
    };
    assert_eq!(done(&networked, 0), "hello api.example /0\n");
    networked.server.kill();
    networked.server.restart(None);
    networked.prints(&session, "touch go1");
    assert_eq!(done(&networked, 1), "hello api.example /1\n", "{}", networked.server.log());
    let client = networked.server.client().clone();
    assert!(client.post("/secrets:rekey", json!({})).status < 300);
    networked.server.restart(None);
    networked.prints(&session, "touch go2");
    assert_eq!(done(&networked, 2), "hello api.example /2\n", "{}", networked.server.log());
    assert_eq!(status(&networked, &session, "-d x https://api.example/x"), "403 request_not_allowed");
}

fn grants_for_names_without_certificates_are_refused(_: &Outside, user: User) {
    let networked = Networked::new(user);
    let inspected = |host: &str| json!({"host": host, "inspect": true});
    let platform = json!({"agent": {"allow": [inspected("api.example"), inspected("other.example"), "files.example"]}});
    let agent_type = json!({"agent": {"allow": ["api.example"]}});
    let session = networked.session_of(platform, agent_type, json!({}));
    let path = format!("/sessions/{}/network:grant", session["id"].as_str().unwrap());
    let grant = |rule: Value| networked.server.client().post(&path, json!({"allow": [rule], "ttl_seconds": 600}));
    let message = grant(json!("other.example")).problem(422, "network_refused");
    assert!(message.contains("other.example") && message.contains("without certificates"), "{message}");
    let message = grant(json!({"host": "files.example", "methods": ["GET"]})).problem(422, "network_refused");
    assert!(message.contains("files.example"), "{message}");
    grant(json!("files.example")).json();
    assert_eq!(status(&networked, &session, "https://files.example/x"), "200");
    assert_eq!(status(&networked, &session, "https://api.example/x"), "200");
}

fn python_is_inspected_and_judged(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    set(&networked, json!({"hosts": ["api.example"], "agent_types": ["*"]}), CANARY);
    let rule = json!({"host": "api.example", "methods": ["GET"], "secret": "api"});
    let session = networked.session(json!({"agent": {"allow": [rule, "other.example"]}}));
    let said = networked.python(
        &session,
        r#"
import os, urllib.error, urllib.request
for url, data in [("https://api.example/echo", None), ("https://api.example/echo", b"x"), ("https://other.example/x", None)]:
    try:
        lines = urllib.request.urlopen(url, data, timeout=60).read().decode().splitlines()
        print([line for line in lines if line.startswith(("authorization", "hello"))][0])
    except urllib.error.HTTPError as error:
        print(error.code, error.headers["x-stead-refused"])
print(sorted(os.listdir("/etc/stead")))
"#,
    );
    let stars = "*".repeat(CANARY.len());
    let expected = format!(
        "authorization: Bearer {stars}\n403 request_not_allowed\nhello other.example /x\n['ca-certificates.crt', 'java-cacerts']\n"
    );
    assert_eq!(said, expected, "{}", networked.server.log());
    assert_eq!(header(&echoed(outside)[0], "authorization"), [format!("Bearer {CANARY}")]);
    assert_eq!(how(&networked, &session, "api.example"), ["inspected"]);
    assert_eq!(how(&networked, &session, "other.example"), ["passed"]);
}
