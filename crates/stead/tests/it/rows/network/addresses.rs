//! Addresses that no rule, or only the right rule, opens.

use serde_json::json;
use stead_testkit::Outside;

use super::{DIAL, Networked, User, echo, nobody_was_reached, outside_cases, podman_cases};

outside_cases! {
    ip_literal_is_refused_although_its_name_is_allowed,
    loopback_and_own_api_are_unreachable,
    private_name_needs_private_in_both_layers,
    one_bad_address_refuses_all,
    other_protocols_are_refused_at_once,
}

podman_cases! {
    ip_literal_is_refused_although_its_name_is_allowed,
    loopback_and_own_api_are_unreachable,
    other_protocols_are_refused_at_once,
}

fn ip_literal_is_refused_although_its_name_is_allowed(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": [echo("db.example"), echo("93.184.216.40")]}}));
    let code = format!(
        "{DIAL}\nprint(dial('93.184.216.37', 7000), dial('169.254.169.254', 7000), dial('168.63.129.16', 7000), dial('8.8.8.8', 53))"
    );
    assert_eq!(networked.python(&session, &code), "ECONNRESET ECONNRESET ECONNRESET ECONNRESET\n");
    nobody_was_reached(outside);
    // The control: a rule that names the address, and the name of the refused one.
    let code = format!("{DIAL}\nprint(dial('93.184.216.40', 7000), dial('db.example', 7000))");
    assert_eq!(networked.python(&session, &code), "hello end hello end\n");
}

fn loopback_and_own_api_are_unreachable(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let hosts = ["loopback.example", "mapped.example", "metadata.example", "own.example"]
        .map(|host| json!({"host": host, "ports": [80, 7000, 8080], "protocol": "tcp", "private": true}));
    outside.zone(json!({"own.example": ["127.0.0.1"]}));
    let session = networked.session(json!({"agent": {"allow": hosts}}));
    let code = format!(
        "{DIAL}\nfor host in ['loopback.example', 'mapped.example', 'metadata.example', 'own.example']:\n    print(dial(host, 7000))"
    );
    let said = networked.python(&session, &code);
    assert_eq!(said, "ECONNRESET\nECONNRESET\nECONNRESET\nECONNRESET\n");
    // Inside the box these are the box's own loopback, where nothing listens.
    let code = format!(
        "{DIAL}\nfor host in ['127.0.0.1', '127.1', '0.0.0.0', '2130706433', '0x7f000001', '198.18.0.1']:\n    print(dial(host, 7000))"
    );
    assert_eq!(networked.python(&session, &code), "ECONNREFUSED\n".repeat(6));
    let capture = format!("{DIAL}\nprint(dial('127.255.255.1', 1))");
    assert_eq!(networked.python(&session, &capture), "ECONNRESET\n");
    nobody_was_reached(outside);
    let refused = networked.refused(&session);
    assert!(refused.contains(&"loopback.example:7000 address_refused".to_owned()), "{refused:?}");
}

fn private_name_needs_private_in_both_layers(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let rule = |private: bool| json!({"agent": {"allow": [{"host": "private.example", "ports": [7000], "protocol": "tcp", "private": private}]}});
    let code = format!("{DIAL}\nprint(dial('private.example', 7000))");
    for (platform, agent) in [(false, false), (true, false), (false, true)] {
        let session = networked.session_of(rule(platform), rule(agent), json!({}));
        assert_eq!(networked.python(&session, &code), "ECONNRESET\n", "{platform} {agent}");
        assert_eq!(networked.refused(&session), ["private.example:7000 private_address"]);
    }
    nobody_was_reached(outside);
    let session = networked.session_of(rule(true), rule(true), json!({}));
    assert_eq!(networked.python(&session, &code), "hello end\n");
}

fn one_bad_address_refuses_all(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": [echo("mixed.example"), echo("flip.example")]}}));
    assert_eq!(networked.python(&session, &format!("{DIAL}\nprint(dial('mixed.example', 7000))")), "ECONNRESET\n");
    nobody_was_reached(outside);
    // The answers change with every lookup, and what was judged is dialled.
    let flips: Vec<_> =
        (0..400).map(|turn| if turn % 2 == 0 { json!(["93.184.216.34"]) } else { json!(["10.9.0.5"]) }).collect();
    outside.zone(json!({"flip.example": {"sequence": flips}}));
    let code = format!("{DIAL}\nfor _ in range(50):\n    dial('flip.example', 7000)");
    networked.python(&session, &code);
    let reached = outside.log("connections");
    assert!(!reached.is_empty() && reached.iter().all(|address| address == "93.184.216.34:7000"), "{reached:?}");
}

fn other_protocols_are_refused_at_once(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": ["api.example", echo("db.example")]}}));
    let code = r#"
import errno, socket
def attempt(family, kind, protocol, address):
    try:
        with socket.socket(family, kind, protocol) as s:
            s.settimeout(30)
            s.connect(address)
            s.send(b"x")
            s.recv(1)
        return "open"
    except OSError as error:
        return errno.errorcode.get(error.errno, repr(error))
v4 = socket.gethostbyname("api.example")
print(attempt(2, 2, 0, (v4, 443)), attempt(2, 2, 0, ("8.8.8.8", 53)), attempt(10, 1, 0, ("2606:2800::1", 443)))
print(attempt(2, 3, 1, (v4, 0)), attempt(2, 1, 132, (v4, 443)), attempt(2, 1, 262, (v4, 443)))
"#;
    assert_eq!(networked.python(&session, code), "ECONNREFUSED ECONNREFUSED ENETUNREACH\nEPERM EPERM EPERM\n");
    nobody_was_reached(outside);
}
