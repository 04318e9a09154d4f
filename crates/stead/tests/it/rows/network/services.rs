//! Services: requests that the server reads, and the secrets that it adds to them.

use serde_json::{Value, json};
use stead_testkit::{Outside, until};

use super::{Networked, User, outside_cases};
use crate::rows::secrets::{CANARY, holders};

outside_cases! {
    n5_a_service_uses_a_key_that_is_nowhere_in_the_box,
    a_service_lets_only_its_methods_and_paths_through,
    secret_only_to_its_host_over_verified_tls,
    placeholder_elsewhere_is_refused_and_audited,
    rotated_secret_is_used_by_the_next_request_and_the_old_one_never,
    narrowing_ends_a_service,
}

/// The platform defines the services; the agent type uses all of them.
fn session(networked: &Networked, services: Value, more: Value) -> Value {
    let rules: Vec<String> = services.as_object().unwrap().keys().map(|name| format!("service:{name}")).collect();
    let agent_type = json!({"agent": {"allow": rules}});
    let mut platform = agent_type.clone();
    platform["services"] = services;
    let mut workspace = json!({"resource_limits": {"memory": "256M", "disk": "64M", "pids": 64}});
    workspace.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    networked.session_of(platform, agent_type, workspace)
}

pub(super) fn set(networked: &Networked, binding: Value, value: &str) {
    let mut body = binding;
    body["value"] = value.into();
    networked.server.client().put("/secrets/api", body).json();
}

/// What the server outside received at `/echo`.
pub(super) fn echoed(outside: &Outside) -> Vec<Value> {
    outside.log("echo").iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The values of a header in a request that the server outside received.
pub(super) fn header<'a>(request: &'a Value, name: &str) -> Vec<&'a str> {
    let lines = request["headers"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    let pairs = lines.filter_map(|line| line.split_once(": "));
    pairs.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

/// Runs curl in the box. Returns the status and the reason of a refusal.
pub(super) fn status(networked: &Networked, session: &Value, args: &str) -> String {
    let code = networked
        .says(session, &format!("curl -sS --max-time 60 -o /tmp/answer -D /tmp/head -w '%{{http_code}}' {args}"));
    let why = networked.says(session, "sed -n 's/^x-stead-refused: *//ip' /tmp/head | tr -d '\\r\\n'");
    format!("{} {why}", code.trim()).trim().to_owned()
}

fn placeholder(networked: &Networked, session: &Value) -> String {
    let env = json!({"command": "printf %s \"$KEY\"", "env": {"KEY": {"secret": "api"}}});
    let answer = networked.server.tool(session, "bash", env);
    answer["result"]["stdout"].as_str().unwrap().to_owned()
}

/// Looks for a text, which it gets reversed, in everything that a program in the box can read.
const SEARCH: &str = r#"
import glob, os, sys
wanted = open("reversed").read().strip()[::-1].encode()
found = [name for name, value in os.environb.items() if wanted in value]
paths = glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline")
for top in (".", "/tmp", "/etc", "/run", "/var", "/home", "/root"):
    for directory, _, names in os.walk(top):
        paths += [os.path.join(directory, name) for name in names]
read = 0
for path in paths:
    try:
        if path.startswith("/proc/") or (os.path.isfile(path) and os.path.getsize(path) < 4 << 20):
            read += 1
            with open(path, "rb") as file:
                if wanted in file.read(4 << 20):
                    found.append(path)
    except OSError:
        pass
print(found, read > 20)
"#;

fn n5_a_service_uses_a_key_that_is_nowhere_in_the_box(outside: &Outside, user: User) {
    let mut networked = Networked::new(user);
    set(&networked, json!({"hosts": ["api.example"], "agent_types": ["net0"]}), CANARY);
    let session = session(&networked, json!({"model": {"to": "https://api.example", "secret": "api"}}), json!({}));
    // The client's own header is replaced, the host is the target's, and the echo has no value.
    let answer = networked.prints(
        &session,
        "curl -sS --max-time 60 -i -H 'Authorization: Bearer mine' http://model.svc.stead/echo | tee kept",
    );
    let seen = echoed(outside);
    assert_eq!(header(&seen[0], "authorization"), [format!("Bearer {CANARY}")], "{seen:?}");
    assert_eq!(
        (header(&seen[0], "host"), header(&seen[0], "accept-encoding")),
        (vec!["api.example"], vec!["identity"])
    );
    assert!(answer.contains(&format!("authorization: Bearer {}", "*".repeat(CANARY.len()))), "{answer}");
    assert!(answer.to_lowercase().contains("x-echo: bearer ***") && !answer.contains(CANARY), "{answer}");
    // A placeholder in the secret's header is replaced in its place.
    let key = placeholder(&networked, &session);
    assert!(key.starts_with("stead-ph-"), "{key}");
    networked.prints(
        &session,
        &format!("curl -sS --max-time 60 -H 'Authorization: token {key}' http://model.svc.stead/echo"),
    );
    assert_eq!(header(&echoed(outside)[1], "authorization"), [format!("token {CANARY}")]);
    // On record before it was sent, with the name and without the value.
    let used = networked.events(&session, "CredentialUsed");
    assert_eq!(used.len(), 2, "{used:?}");
    let one = json!({"secret": used[0]["secret"], "kind": used[0]["kind"], "host": used[0]["host"], "purpose": used[0]["purpose"]});
    assert_eq!(one, json!({"secret": "api", "kind": "secret", "host": "api.example", "purpose": "service model"}));
    let opened = networked.events(&session, "NetworkOpened");
    assert_eq!(
        (opened.len(), &opened[0]["host"], &opened[0]["how"]),
        (1, &json!("model.svc.stead"), &json!("service"))
    );
    let audited = networked.server.client().get("/audit?type=secret_used").expect(200);
    assert_eq!(audited["items"].as_array().unwrap().len(), 2, "{audited}");
    let counted = until("the counts", || {
        let tallied = networked.events(&session, "NetworkTallied");
        let hosts = tallied.iter().flat_map(|one| one["hosts"].as_array().unwrap().clone());
        let requests: u64 = hosts.filter_map(|host| host["requests"].as_u64()).sum();
        (requests == 2).then(|| networked.network(&session)["used"][0].clone())
    });
    assert_eq!((&counted["host"], &counted["connections"]), (&json!("model.svc.stead"), &json!(2)), "{counted}");
    assert!(counted["bytes_out"].as_u64().unwrap() > 100 && counted["bytes_in"].as_u64().unwrap() > 100, "{counted}");
    is_nowhere_in_the_box(&networked, &session);
    networked.server.terminate();
    assert_eq!(holders(networked.server.home(), CANARY), Vec::<String>::new());
}

/// Searches the box, and what the server shows and logs, for the canary. The file `kept` in the
/// workspace must have an answer with a removed value.
pub(super) fn is_nowhere_in_the_box(networked: &Networked, session: &Value) {
    // The search itself finds what is there.
    let reversed = |text: &str| text.chars().rev().collect::<String>();
    let search = |text: &str| {
        networked.prints(session, &format!("printf %s '{}' > reversed", reversed(text)));
        networked.python(session, SEARCH)
    };
    assert_eq!(search(CANARY), "[] True\n");
    assert!(search("x-stead-never-written").starts_with("[]"));
    assert!(search("authorization: Bearer **").contains("kept"));
    let id = session["id"].as_str().unwrap();
    let client = networked.server.client().clone();
    for path in [
        format!("/sessions/{id}/journal"),
        "/audit?limit=1000".to_owned(),
        format!("/sessions/{id}"),
        "/secrets".to_owned(),
    ] {
        let text = client.get(&path).text;
        assert!(text.len() > 50 && !text.contains(CANARY), "{path}");
    }
    let exported = client.bytes("GET", &format!("/sessions/{id}/export?format=tar"), &[], b"").bytes;
    assert!(!exported.is_empty() && !exported.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()));
    assert!(!networked.server.log().contains(CANARY));
}

fn a_service_lets_only_its_methods_and_paths_through(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let allow = json!([{"methods": ["GET"], "paths": ["/v1/**"]}]);
    let session = session(&networked, json!({"model": {"to": "https://api.example", "allow": allow}}), json!({}));
    let of = |args: &str| status(&networked, &session, args);
    assert_eq!(of("http://model.svc.stead/v1/one"), "200");
    assert_eq!(of("-d x http://model.svc.stead/v1/one"), "403 request_not_allowed");
    assert_eq!(of("http://model.svc.stead/v2/one"), "403 request_not_allowed");
    assert_eq!(of("--path-as-is http://model.svc.stead/v1/../v2"), "403 path_unclear");
    assert_eq!(of("-H 'Host: api.example' http://model.svc.stead/v1/one"), "403 name_mismatch");
    assert_eq!(of("-H 'X-HTTP-Method-Override: DELETE' http://model.svc.stead/v1/two"), "200");
    assert_eq!(outside.log("requests"), ["api.example GET /v1/one", "api.example GET /v1/two"]);
    // The target is not reachable by its own name, and other services are none.
    for url in ["https://api.example/v1/one", "http://other.svc.stead/", "http://model.svc.stead:8080/"] {
        let said = networked.says(&session, &format!("curl -sS --max-time 60 {url}"));
        assert!(said.contains("curl: ("), "{url}: {said}");
    }
    assert_eq!(outside.log("requests").len(), 2);
    let refused = networked.refused(&session);
    assert!(refused.contains(&"model.svc.stead:80 request_not_allowed".to_owned()), "{refused:?}");
}

fn secret_only_to_its_host_over_verified_tls(outside: &Outside, user: User) {
    let mut networked = Networked::new(user);
    let services = json!({
        "tls": {"to": "https://api.example", "secret": "api"},
        "other": {"to": "https://other.example", "secret": "api"},
        "plain": {"to": "http://api.example", "secret": "api"},
        "untrusted": {"to": "https://api.example:9443", "secret": "api"},
        "keyless": {"to": "http://api.example"},
    });
    let session = session(&networked, services, json!({}));
    let of = |networked: &Networked, name: &str| status(networked, &session, &format!("http://{name}.svc.stead/echo"));
    // There is no such secret yet.
    assert_eq!(of(&networked, "tls"), "403 secret_unavailable");
    set(&networked, json!({"hosts": ["api.example"], "agent_types": ["another"]}), CANARY);
    assert_eq!(of(&networked, "tls"), "403 secret_unavailable", "for another agent type");
    set(&networked, json!({"hosts": ["api.example:8443"], "agent_types": ["*"]}), CANARY);
    assert_eq!(of(&networked, "tls"), "403 secret_unavailable", "for another port");
    set(&networked, json!({"hosts": ["api.example"], "agent_types": ["*"]}), CANARY);
    assert_eq!(of(&networked, "other"), "403 secret_unavailable", "for another host");
    assert_eq!(of(&networked, "plain"), "403 secret_unavailable", "not encrypted");
    assert_eq!(networked.events(&session, "CredentialUsed"), Vec::<Value>::new());
    assert_eq!(of(&networked, "untrusted"), "502 certificate");
    assert_eq!(outside.log("echo"), Vec::<String>::new());
    assert_eq!(of(&networked, "keyless"), "200");
    assert_eq!(header(&echoed(outside)[0], "authorization"), Vec::<&str>::new());
    assert_eq!(of(&networked, "tls"), "200");
    set(&networked, json!({"hosts": ["api.example"], "agent_types": ["*"], "over_http": true}), CANARY);
    assert_eq!(of(&networked, "plain"), "200");
    let seen = echoed(outside);
    assert_eq!(seen.iter().filter(|one| header(one, "authorization") == [format!("Bearer {CANARY}")]).count(), 2);
    // The operator's own root.
    let home = networked.server.home().to_owned();
    std::fs::copy(outside.path("untrusted-root.pem"), home.join("roots.pem")).unwrap();
    std::fs::write(home.join("stead.toml"), format!("[network]\nextra_roots = \"{}/roots.pem\"\n", home.display()))
        .unwrap();
    networked.server.restart(None);
    assert_eq!(of(&networked, "untrusted"), "200");
    assert_eq!(of(&networked, "tls"), "200");
}

fn placeholder_elsewhere_is_refused_and_audited(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    set(&networked, json!({"hosts": ["api.example"], "agent_types": ["*"]}), CANARY);
    let services = json!({
        "model": {"to": "https://api.example", "secret": "api"},
        "keyless": {"to": "https://other.example"},
    });
    let session = session(&networked, services, json!({}));
    let key = placeholder(&networked, &session);
    let encoded = networked.prints(&session, &format!("printf %s 'user:{key}' | base64 -w0"));
    for args in [
        format!("http://model.svc.stead/echo/{key}"),
        format!("'http://model.svc.stead/echo?key={key}'"),
        format!("-H 'X-Other: {key}' http://model.svc.stead/echo"),
        format!("-H 'X-Other: {encoded}' http://model.svc.stead/echo"),
        format!("-d 'before {key} after' http://model.svc.stead/echo"),
        format!("-H 'Authorization: Bearer {key}' http://keyless.svc.stead/echo"),
    ] {
        assert_eq!(status(&networked, &session, &args), "403 secret_misplaced", "{args}");
    }
    let leaked: Vec<String> = outside.log("echo").into_iter().filter(|line| line.contains(&key)).collect();
    assert_eq!(leaked, Vec::<String>::new());
    let audited = networked.server.client().get("/audit?type=secret_misplaced").expect(200);
    let hosts: Vec<&Value> = audited["items"].as_array().unwrap().iter().map(|one| &one["detail"]["host"]).collect();
    assert_eq!(hosts.len(), 2, "{audited}");
    assert!(!audited.to_string().contains(&key), "{audited}");
}

fn rotated_secret_is_used_by_the_next_request_and_the_old_one_never(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let binding = json!({"hosts": ["api.example"], "agent_types": ["*"], "header": "x-api-key"});
    set(&networked, binding.clone(), "first-value");
    let session = session(&networked, json!({"model": {"to": "https://api.example", "secret": "api"}}), json!({}));
    // One connection for all requests.
    let program = r#"
import http.client, os, time
connection = http.client.HTTPConnection("model.svc.stead", 80, timeout=60)
for turn in range(3):
    deadline = time.monotonic() + 90
    while not os.path.exists(f"go{turn}") and time.monotonic() < deadline:
        time.sleep(0.05)
    connection.request("GET", "/echo", headers={"X-Api-Key": "mine"})
    answer = connection.getresponse()
    answer.read()
    open(f"done{turn}", "w").write(str(answer.status))
"#;
    networked.prints(&session, &format!("cat > turns.py <<'END'\n{program}\nEND\ntouch go0"));
    let started = networked.server.tool(&session, "bash", json!({"command": "python3 turns.py", "background": true}));
    assert_eq!(started["ok"], true, "{started}");
    let done = |turn: u32| {
        until("the request", || {
            let said = networked.says(&session, &format!("cat done{turn} 2>/dev/null"));
            (!said.is_empty()).then_some(said)
        })
    };
    assert_eq!(done(0), "200");
    set(&networked, binding, "second-value");
    networked.prints(&session, "touch go1");
    assert_eq!(done(1), "200");
    assert!(networked.server.client().delete("/secrets/api").status < 300);
    networked.prints(&session, "touch go2");
    assert_eq!(done(2), "403");
    let seen = echoed(outside);
    let keys: Vec<Vec<&str>> = seen.iter().map(|one| header(one, "x-api-key")).collect();
    assert_eq!(keys, [["first-value"], ["second-value"]]);
    assert_eq!(networked.network(&session)["used"][0]["connections"], 1);
    assert_eq!(networked.events(&session, "CredentialUsed").len(), 2);
}

fn narrowing_ends_a_service(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = session(&networked, json!({"model": {"to": "https://api.example"}}), json!({}));
    assert_eq!(status(&networked, &session, "http://model.svc.stead/one"), "200");
    let started =
        json!({"command": "curl -sS http://model.svc.stead/slow -o slow; echo $? > ended", "background": true});
    assert_eq!(networked.server.tool(&session, "bash", started)["ok"], true);
    until("the slow request", || outside.log("requests").iter().any(|line| line.contains("/slow")).then_some(()));
    let path = format!("/sessions/{}/network:narrow", session["id"].as_str().unwrap());
    networked.server.client().post(&path, json!({"deny": ["service:model"]})).json();
    let ended = until("the end of the slow request", || {
        let said = networked.says(&session, "cat ended 2>/dev/null");
        (!said.is_empty()).then_some(said)
    });
    assert_ne!(ended.trim(), "0");
    let said = networked.says(&session, "curl -sS --max-time 60 http://model.svc.stead/two");
    assert!(said.contains("curl: ("), "{said}");
    assert_eq!(outside.log("requests").iter().filter(|line| line.contains("/two")).count(), 0);
}
