//! Limits of a session's connections, and slow programs.

use serde_json::json;
use stead_testkit::{Outside, until};

use super::{Networked, User, echo, outside_cases};

outside_cases! {
    connection_rate_and_byte_limits_hold_and_say_so,
    a_flood_of_refusals_costs_a_bounded_journal,
    slow_programs_harm_only_themselves,
}

fn connection_rate_and_byte_limits_hold_and_say_so(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let sink = json!({"host": "db.example", "ports": [7001], "protocol": "tcp"});
    let limits = json!({"connections": 5, "bytes_out": "1M"});
    let session = networked.session(json!({"agent": {"allow": [echo("db.example"), sink]}, "limits": limits}));
    let many = "
import socket
held, refused = [], 0
for _ in range(9):
    try:
        s = socket.create_connection(('db.example', 7000), 30)
        s.sendall(b'x')
        s.recv(1) or s.recv(1)
        held.append(s)
    except OSError:
        refused += 1
print(len(held), refused)";
    assert_eq!(networked.python(&session, many), "5 4\n");
    assert_eq!(networked.refused(&session), ["db.example:7000 too_many_connections"]);
    let send = "
import socket
s = socket.create_connection(('db.example', 7001), 30)
try:
    for _ in range(40):
        s.sendall(b'x' * 100000)
    s.shutdown(1)
    s.recv(1)
    print('sent')
except OSError as error:
    print('cut')";
    until("the connections before to end", || {
        (networked
            .python(
                &session,
                "import socket; s = socket.create_connection(('db.example', 7000)); s.send(b'x'); print(s.recv(1))",
            )
            .contains('x'))
        .then_some(())
    });
    assert_eq!(networked.python(&session, send), "cut\n");
    until("the end of the connection", || (outside.log("sink").len() == 1).then_some(()));
    assert!(outside.log("sink")[0].parse::<u64>().unwrap() <= 1 << 20, "{:?}", outside.log("sink"));
    assert!(networked.refused(&session).contains(&"db.example:7001 too_many_bytes".to_owned()));
}

fn a_flood_of_refusals_costs_a_bounded_journal(_: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked
        .session(json!({"agent": {"allow": [echo("db.example")]}, "limits": {"connections_per_second": 10_000}}));
    let flood = "
import socket
for number in range(3000):
    try:
        s = socket.create_connection(('93.184.%d.%d' % (number // 250, number % 250 + 1), 443), 30)
        s.recv(1)
    except OSError:
        pass
print('done')";
    assert_eq!(networked.python(&session, flood), "done\n");
    let seq = networked
        .server
        .client()
        .get(&format!("/sessions/{}/state", session["id"].as_str().unwrap()))
        .expect(200)["seq"]
        .as_u64()
        .unwrap();
    assert!(seq < 1_200, "{seq} events");
    assert_eq!(networked.network(&session)["refused"].as_array().unwrap().len(), 1_000);
    // What is used afterwards is on record all the same.
    let talk = "
import socket
s = socket.create_connection(('db.example', 7000), 30)
s.sendall(b'x')
s.recv(1)";
    networked.python(&session, talk);
    until("the count of the connection", || {
        let used = networked.network(&session)["used"].clone();
        let counted = |one: &serde_json::Value| one["host"] == "db.example" && one["connections"] == 1;
        used.as_array().unwrap().iter().any(counted).then_some(())
    });
}

fn slow_programs_harm_only_themselves(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": ["api.example"]}, "limits": {"connections": 100}}));
    // These never send their handshake.
    let slow = "
import socket, time
held = [socket.create_connection(('api.example', 443), 30) for _ in range(50)]
time.sleep(1000)";
    networked.prints(
        &session,
        &format!("cat > /tmp/slow.py <<'END'{slow}\nEND\nsetsid python3 /tmp/slow.py >/dev/null 2>&1 &"),
    );
    assert_eq!(
        networked.prints(&session, "curl -sS --max-time 60 https://api.example/beside"),
        "hello api.example /beside\n"
    );
    until("the refusal of the slow ones", || {
        networked.refused(&session).contains(&"api.example:443 too_slow".to_owned()).then_some(())
    });
    assert_eq!(outside.log("connections").len(), 1);
}
