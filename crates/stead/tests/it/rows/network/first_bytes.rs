//! What a rule demands of the first bytes, checked before a packet leaves.

use serde_json::json;
use stead_testkit::Outside;

use super::{DIAL, Networked, User, nobody_was_reached, outside_cases};

outside_cases! {
    the_handshake_must_name_the_judged_host,
    plain_http_must_name_the_judged_host,
    redirects_are_judged_anew,
}

fn the_handshake_must_name_the_judged_host(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": ["api.example"]}}));
    let attempt = |name: &str| {
        let tls = format!("openssl s_client -connect api.example:443 {name} </dev/null 2>&1 | grep -c 'subject=CN'");
        networked.says(&session, &tls)
    };
    assert_eq!(attempt("-servername other.example"), "0\n");
    assert_eq!(attempt("-noservername"), "0\n");
    assert_eq!(attempt("-servername 93.184.216.34"), "0\n");
    let code = format!(
        "{DIAL}\nprint(dial('api.example', 443, b'GET / HTTP/1.1\\r\\nHost: api.example\\r\\n\\r\\n'), dial('api.example', 443, b'SSH-2.0-x\\r\\n'))"
    );
    assert_eq!(networked.python(&session, &code), "ECONNRESET ECONNRESET\n");
    nobody_was_reached(outside);
    let refused = networked.refused(&session);
    for why in ["name_mismatch", "no_server_name", "not_tls"] {
        assert!(refused.contains(&format!("api.example:443 {why}")), "{why}: {refused:?}");
    }
    // The control.
    assert_eq!(attempt("-servername api.example"), "1\n");
}

fn plain_http_must_name_the_judged_host(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": ["api.example"]}}));
    for (request, why) in [
        ("GET / HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n", "name_mismatch"),
        ("GET / HTTP/1.1\\r\\nHost: api.example\\r\\nHost: other.example\\r\\n\\r\\n", "name_mismatch"),
        ("GET http://other.example/ HTTP/1.1\\r\\nHost: api.example\\r\\n\\r\\n", "not_http"),
        ("CONNECT other.example:443 HTTP/1.1\\r\\nHost: api.example\\r\\n\\r\\n", "not_http"),
        ("PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n", "not_http"),
    ] {
        let code = format!("{DIAL}\nprint(dial('api.example', 80, b'{request}'))");
        assert_eq!(networked.python(&session, &code), "ECONNRESET\n", "{request}");
        let refused = networked.refused(&session);
        assert!(refused.contains(&format!("api.example:80 {why}")), "{request}: {refused:?}");
    }
    nobody_was_reached(outside);
    // The second request of a connection is judged too.
    let first = "GET /first HTTP/1.1\\r\\nHost: api.example\\r\\n\\r\\n";
    let code = format!(
        "{DIAL}\ndial('api.example', 80, b'{first}' + b'GET /second HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n')"
    );
    networked.python(&session, &code);
    assert!(outside.log("requests").iter().all(|line| !line.contains("second")), "{:?}", outside.log("requests"));
    let both = "curl -sS --max-time 60 http://api.example/1 http://api.example/2 -d a=b";
    assert_eq!(networked.prints(&session, both), "3\n3\n");
    // An upgrade stays HTTP/1.
    let upgraded = networked.prints(&session, "curl -sS --max-time 60 --http2 http://api.example/up");
    assert_eq!(upgraded, "hello api.example /up\n");
}

/// Rules about the requests to an address are refused before anything happens: requests name hosts.
#[test]
fn rules_about_requests_to_an_address_are_refused() {
    let server = crate::rows::boxes::native::with_boxes();
    let address = json!({"host": "93.184.216.34", "ports": [80], "protocol": "http"});
    let read = json!({"host": "93.184.216.34", "ports": [80], "protocol": "http", "methods": ["GET"]});
    server.client().put("/platform", json!({"network": {"agent": {"allow": [address]}}})).expect(200);
    let workspace = |allow: serde_json::Value| json!({"enabled": true, "provider": "native", "workspace_policy": "empty", "network": {"agent": {"allow": allow}}});
    server.agent_type("reads", workspace(json!([read])));
    let refused = server.client().post("/sessions", json!({"agent_type": "reads"}));
    let message = refused.problem(422, "network_refused");
    assert!(message.contains("93.184.216.34") && message.contains("by its name"), "{message}");
    server.agent_type("passes", workspace(json!([address])));
    assert_eq!(server.session(json!({"agent_type": "passes"}))["status"], "active");
}

fn redirects_are_judged_anew(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": ["api.example"]}}));
    let said = networked.says(&session, "curl -sSL --max-time 60 https://api.example/to/other.example/x");
    assert!(said.contains("curl: ("), "{said}");
    let reached = outside.log("connections");
    assert!(reached.iter().all(|address| address == "93.184.216.34:443"), "{reached:?}");
    assert_eq!(networked.refused(&session), ["other.example:443 not_allowed"]);
}
