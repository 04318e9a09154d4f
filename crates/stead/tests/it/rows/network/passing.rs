//! Connections that are allowed, and what the records say about them.

use serde_json::json;
use stead_testkit::{Outside, until};

use super::{DIAL, Networked, User, echo, outside_cases, podman_cases};

outside_cases! {
    curl_reaches_what_is_allowed_and_nothing_else,
    tcp_passes_both_ways_with_half_closes,
    n4_the_record_is_what_the_servers_saw,
    the_answer_of_a_call_says_what_was_refused,
}

podman_cases! {
    tcp_passes_both_ways_with_half_closes,
    n4_the_record_is_what_the_servers_saw,
}

fn curl_reaches_what_is_allowed_and_nothing_else(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": ["api.example"]}}));
    assert_eq!(session["workspace"]["network"]["reach"], "captured", "{session}");
    let get = |url: &str| networked.says(&session, &format!("curl -sS --max-time 60 {url}"));
    assert_eq!(get("https://api.example/a"), "hello api.example /a\n");
    assert_eq!(get("http://api.example/b"), "hello api.example /b\n");
    assert_eq!(get("-4 https://api.example/c"), "hello api.example /c\n");
    let seen = outside.log("connections").len();
    let refused = get("https://other.example/");
    assert!(refused.contains("curl: ("), "{refused}");
    let port = get("https://api.example:8443/");
    assert!(port.contains("curl: ("), "{port}");
    assert_eq!(outside.log("connections").len(), seen, "{:?}", outside.log("connections"));
    assert_eq!(networked.refused(&session), ["api.example:8443 not_allowed", "other.example:443 not_allowed"]);
    let draft = networked.network(&session)["refused"][1]["draft"].clone();
    assert_eq!(draft, "other.example");
}

fn tcp_passes_both_ways_with_half_closes(_: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": [echo("db.example")]}}));
    let said = networked.python(&session, &format!("{DIAL}\nprint(dial('db.example', 7000))"));
    assert_eq!(said, "hello end\n");
    let large = r#"
import hashlib, socket, threading
data = bytes(range(256)) * 8192
connection = socket.create_connection(("db.example", 7000), 60)
def send():
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
got = b""
while piece := connection.recv(65536):
    got += piece
print(got == data + b"end\n")
"#;
    assert_eq!(networked.python(&session, large), "True\n");
}

fn n4_the_record_is_what_the_servers_saw(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let sink = json!({"host": "db.example", "ports": [7001], "protocol": "tcp"});
    let session = networked.session(json!({"agent": {"allow": [echo("db.example"), sink]}}));
    let code = format!(
        "{DIAL}\nfor size in [1, 1000, 300000]:\n    dial('db.example', 7001, b'x' * size)\n    dial('db.example', 7000, b'y' * size)"
    );
    networked.python(&session, &code);
    until("the last connection to end", || (outside.log("sink").len() == 3).then_some(()));
    let used = until("the counts", || {
        let used = networked.network(&session)["used"].clone();
        (used[1]["bytes_out"] == 301_001 && used[0]["bytes_in"] == 301_013).then_some(used)
    });
    assert_eq!(outside.log("sink"), ["1", "1000", "300000"]);
    assert_eq!(
        used,
        json!([
            {"host": "db.example", "port": 7000, "connections": 3, "bytes_out": 301_001, "bytes_in": 301_013},
            {"host": "db.example", "port": 7001, "connections": 3, "bytes_out": 301_001, "bytes_in": 0},
        ])
    );
    let opened = networked.events(&session, "NetworkOpened");
    assert_eq!(opened.len(), 2, "{opened:?}");
    assert_eq!(opened[0]["how"], "passed", "{opened:?}");
    assert_eq!(opened[0]["rules"][1]["layer"], "agent_type", "{opened:?}");
}

fn the_answer_of_a_call_says_what_was_refused(_: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": ["api.example"]}}));
    let answer = networked.bash(&session, "curl -sS --max-time 60 https://other.example/ || true");
    let refused = json!([{"host": "other.example", "port": 443, "why": "not_allowed", "layer": "platform", "draft": "other.example"}]);
    assert_eq!(answer["network"]["refused"], refused, "{answer}");
    let answer = networked.bash(&session, "curl -sS --max-time 60 https://api.example/");
    assert_eq!(answer.get("network"), None, "{answer}");
    let audited = networked.server.client().get("/audit?type=network_refused").expect(200);
    assert_eq!(audited["items"].as_array().unwrap().len(), 1, "{audited}");
    let metrics = networked.server.client().get("/metrics").text;
    assert!(metrics.contains("stead_network_refused_total{why=\"not_allowed\"} 1"), "{metrics}");
}
