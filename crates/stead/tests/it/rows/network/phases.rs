//! Phases, and changes of the policy while connections are open.

use serde_json::json;
use stead_testkit::{Outside, until};

use super::{DIAL, Networked, User, echo, outside_cases};

outside_cases! {
    setup_connections_are_cut_at_activation,
    narrowing_cuts_running_connections,
    running_session_keeps_its_policy_when_the_agent_type_changes,
}

/// A program that keeps a connection open and writes a line to `state` when it ends.
const HOLD: &str = r#"cat > /tmp/hold.py <<'END'
import socket
connection = socket.create_connection(("db.example", 7000), 60)
connection.sendall(b"held\n")
open("/tmp/state", "w").write(connection.makefile().readline())
try:
    rest = connection.recv(100)
except OSError as error:
    rest = repr(error)
open("/tmp/state", "a").write(f"ended {rest}\n")
END
"#;

fn setup_connections_are_cut_at_activation(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let setup = format!(
        "{HOLD}\nsetsid python3 /tmp/hold.py >/dev/null 2>&1 & until grep -q held /tmp/state; do sleep 0.05; done; curl -sS --max-time 60 https://files.example/setup"
    );
    let network =
        json!({"setup": {"allow": [echo("db.example"), "files.example"]}, "agent": {"allow": ["api.example"]}});
    let session = networked.session_of(network.clone(), network, json!({"setup_commands": [setup]}));
    until("the end of the connection of setup", || {
        networked.says(&session, "cat /tmp/state").contains("ended").then_some(())
    });
    let seen = outside.log("connections").len();
    let said = networked.says(&session, "curl -sS --max-time 60 https://files.example/agent");
    assert!(said.contains("curl: ("), "{said}");
    assert_eq!(outside.log("connections").len(), seen);
    let refused = networked.refused(&session);
    assert!(refused.contains(&"db.example:7000 phase_ended".to_owned()), "{refused:?}");
    assert!(refused.contains(&"files.example:443 not_allowed".to_owned()), "{refused:?}");
    assert_eq!(
        networked.prints(&session, "curl -sS --max-time 60 https://api.example/agent"),
        "hello api.example /agent\n"
    );
    let phases: Vec<_> =
        networked.events(&session, "NetworkOpened").iter().map(|event| event["phase"].clone()).collect();
    assert_eq!(phases, [json!("setup"), json!("setup"), json!("agent")]);
}

fn narrowing_cuts_running_connections(_: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": [echo("db.example"), "api.example"]}}));
    networked.prints(
        &session,
        &format!(
            "{HOLD}\nsetsid python3 /tmp/hold.py >/dev/null 2>&1 & until grep -q held /tmp/state; do sleep 0.05; done"
        ),
    );
    let path = format!("/sessions/{}/network:narrow", session["id"].as_str().unwrap());
    networked.server.client().post(&path, json!({"deny": ["db.example"]})).expect(200);
    until("the end of the connection", || networked.says(&session, "cat /tmp/state").contains("ended").then_some(()));
    assert_eq!(networked.python(&session, &format!("{DIAL}\nprint(dial('db.example', 7000))")), "ECONNRESET\n");
    assert_eq!(
        networked.prints(&session, "curl -sS --max-time 60 https://api.example/still"),
        "hello api.example /still\n"
    );
}

fn running_session_keeps_its_policy_when_the_agent_type_changes(_: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": ["api.example"]}}));
    let other = networked.session(json!({"agent": {"allow": []}}));
    assert_eq!(
        networked.prints(&session, "curl -sS --max-time 60 https://api.example/kept"),
        "hello api.example /kept\n"
    );
    let said = networked.says(&other, "curl -sS --max-time 60 https://api.example/new");
    assert!(said.contains("curl: ("), "{said}");
}
