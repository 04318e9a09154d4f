//! The network of a box, without a server: the test borrows the sockets.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use stead_box::{BoxError, BoxSpec, Network, NetworkSockets, Preparation, Spare};

use crate::home::{Home, Running, chain, init, text};

const PATIENCE: Duration = Duration::from_secs(60);

fn captured(home: &Home) -> BoxSpec {
    BoxSpec { network: Network::Captured, ..home.spec() }
}

fn sockets(sandbox: &Running<'_>) -> NetworkSockets {
    sandbox.connect().sockets().unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Accepts `count` connections, answers each with the address that it was made to, and returns
/// these addresses.
fn serve(sockets: &NetworkSockets, count: usize) -> std::thread::JoinHandle<Vec<SocketAddr>> {
    let listener = TcpListener::from(sockets.capture.try_clone().unwrap());
    std::thread::spawn(move || {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        while seen.len() < count {
            match listener.accept() {
                Ok((mut stream, _)) => {
                    let wanted = stream.local_addr().unwrap();
                    stream.set_nonblocking(false).unwrap();
                    writeln!(stream, "{wanted}").unwrap();
                    seen.push(wanted);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(Instant::now() < deadline, "{} of {count} connections came: {seen:?}", seen.len());
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => panic!("{error}"),
            }
        }
        seen
    })
}

/// A line of bash that connects and prints the first line.
fn dial(address: &str, port: u16) -> String {
    format!("exec 3<>/dev/tcp/{address}/{port} && head -n 1 <&3; exec 3>&-")
}

pub(crate) fn without_a_network_there_is_no_route(home: &Home) {
    let sandbox = home.start();
    let asked = sandbox.connect().sockets();
    assert!(matches!(asked, Err(BoxError::Guest(_))), "{asked:?}");
    assert_eq!(sandbox.says("cat /proc/net/route | tail -n +2; cat /etc/resolv.conf"), "");
    let refused = sandbox.bash(&dial("93.184.216.34", 443));
    assert!(text(&refused.stderr).contains("Network is unreachable"), "{}", text(&refused.stderr));
    // The control: the same line reaches the server in a box with a network.
    let sandbox = home.start_with(&captured(home));
    let served = serve(&sockets(&sandbox), 1);
    assert_eq!(sandbox.says(&dial("93.184.216.34", 443)), "93.184.216.34:443\n");
    served.join().unwrap();
}

pub(crate) fn every_tcp_port_of_every_address_is_caught(home: &Home) {
    let sandbox = home.start_with(&captured(home));
    let low = (1..=1024).map(|port| ("203.0.113.9", port));
    let sampled = [("169.254.169.254", 80), ("10.0.0.1", 5432), ("8.8.8.8", 53), ("198.18.7.7", 65_535)];
    let wanted: Vec<(&str, u16)> = low.chain(sampled).collect();
    let served = serve(&sockets(&sandbox), wanted.len());
    let script = wanted.iter().map(|(address, port)| dial(address, *port)).collect::<Vec<_>>().join("\n");
    let said = sandbox.says(&script);
    let expected: Vec<String> = wanted.iter().map(|(address, port)| format!("{address}:{port}")).collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    assert_eq!(served.join().unwrap().len(), wanted.len());
}

pub(crate) fn own_servers_work_and_a_foreign_address_steals_nothing(home: &Home) {
    let sandbox = home.start_with(&captured(home));
    let served = serve(&sockets(&sandbox), 2);
    let script = r#"
import socket, threading
def server(address, port):
    listener = socket.create_server((address, port))
    def run():
        while True:
            connection, _ = listener.accept()
            connection.sendall(b"own\n")
            connection.close()
    threading.Thread(target=run, daemon=True).start()
def ask(address, port):
    with socket.create_connection((address, port), 30) as connection:
        return connection.makefile().readline().strip()
server("0.0.0.0", 8080)
server("93.184.216.34", 8443)
print(ask("127.0.0.1", 8080), ask("198.18.0.1", 8080), ask("93.184.216.34", 8080), ask("93.184.216.34", 8443))
"#;
    let mut order = sandbox.order("");
    order.argv = ["python3", "-c", script].map(str::to_owned).into();
    let ran = sandbox.run(order, &[]);
    assert_eq!(text(&ran.stdout), "own own 93.184.216.34:8080 93.184.216.34:8443\n", "{}", text(&ran.stderr));
    served.join().unwrap();
}

pub(crate) fn the_resolver_is_the_servers(home: &Home) {
    let sandbox = home.start_with(&captured(home));
    let sockets = sockets(&sandbox);
    let resolver = UdpSocket::from(sockets.datagrams);
    resolver.set_nonblocking(false).unwrap();
    resolver.set_read_timeout(Some(PATIENCE)).unwrap();
    let answering = std::thread::spawn(move || {
        let mut question = [0; 512];
        let (length, from) = resolver.recv_from(&mut question).unwrap();
        // The question again, as an answer with the address 198.18.0.7.
        let mut answer = question[..length].to_vec();
        (answer[2], answer[7]) = (0x81, 1);
        answer.truncate(12 + 5 + 9 + 1 + 4);
        answer[11] = 0;
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 7]);
        resolver.send_to(&answer, from).unwrap();
    });
    let said = sandbox
        .says("cat /etc/resolv.conf; python3 -c 'import socket; print(socket.gethostbyname(\"host.internal\"))'");
    assert_eq!(said, "nameserver 198.18.0.1\n198.18.0.7\n");
    answering.join().unwrap();
}

pub(crate) fn udp_and_ipv6_fail_at_once(home: &Home) {
    let sandbox = home.start_with(&captured(home));
    let script = r#"
import socket, errno
def refused(family, kind, address):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(30)
            s.connect(address)
            s.send(b"x")
            s.recv(1)
        return "open"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
print(refused(socket.AF_INET, socket.SOCK_DGRAM, ("93.184.216.34", 443)))
print(refused(socket.AF_INET6, socket.SOCK_STREAM, ("2606:2800:220:1:248:1893:25c8:1946", 443)))
"#;
    let mut order = sandbox.order("");
    order.argv = ["python3", "-c", script].map(str::to_owned).into();
    let ran = sandbox.run(order, &[]);
    assert_eq!(text(&ran.stdout), "ECONNREFUSED\nENETUNREACH\n", "{}", text(&ran.stderr));
}

pub(crate) fn commands_cannot_change_the_network(home: &Home) {
    let sandbox = home.start_with(&captured(home));
    let script = r#"
import socket, struct, errno
def attempt(what):
    try:
        return what()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
def netlink(kind, body):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.send(struct.pack("=IHHII", 16 + len(body), kind, 0x405, 1, 0) + body)
        return errno.errorcode.get(-struct.unpack_from("=i", s.recv(4096), 16)[0], "allowed")
address = struct.pack("=BBBBI", 2, 32, 0, 0, 1) + struct.pack("=HH4s", 8, 2, bytes([10, 1, 1, 1]))
route = struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 3, 254, 2, 0) + struct.pack("=HHI", 8, 4, 1)
print(attempt(lambda: netlink(20, address)), attempt(lambda: netlink(24, route)), attempt(lambda: netlink(25, route)))
for protocol in [4, 12]:
    print(attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)))
def transparent():
    with socket.socket() as s:
        s.setsockopt(socket.SOL_IP, 19, 1)
        return "allowed"
print(attempt(transparent))
def steal(kind, address):
    with socket.socket(socket.AF_INET, kind) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind(address)
        if kind == socket.SOCK_STREAM:
            s.listen()
        return "allowed"
print(attempt(lambda: steal(socket.SOCK_STREAM, ("127.255.255.1", 1))), attempt(lambda: steal(socket.SOCK_DGRAM, ("198.18.0.1", 53))))
for family, kind, protocol in [(2, 3, 1), (2, 1, 132), (2, 1, 262), (40, 1, 0), (17, 3, 0)]:
    print(attempt(lambda: socket.socket(family, kind, protocol)))
"#;
    let mut order = sandbox.order("");
    order.argv = ["python3", "-c", script].map(str::to_owned).into();
    let ran = sandbox.run(order, &[]);
    let said = text(&ran.stdout);
    assert!(!said.contains("allowed") && !said.contains("<socket"), "{said}");
    assert_eq!(said.lines().next(), Some("EPERM EPERM EPERM"), "{said}{}", text(&ran.stderr));
    assert_eq!(said.lines().count(), 10, "{said}{}", text(&ran.stderr));
}

pub(crate) fn a_spare_without_a_network_serves_a_box_with_one(home: &Home) {
    let spec = captured(home);
    let volume = home.path().join("spares");
    std::fs::create_dir_all(&volume).unwrap();
    let volume = spec.image_shape().map(|shape| Preparation { directory: volume.join("0"), shape });
    let spare = Spare::prepare(&init(), volume.as_ref()).unwrap();
    let sandbox = home.start_from(spare, &spec);
    let served = serve(&sockets(&sandbox), 1);
    assert_eq!(sandbox.says(&dial("203.0.113.9", 22)), "203.0.113.9:22\n");
    served.join().unwrap();
}

pub(crate) fn sockets_are_lent_again_and_again(home: &Home) {
    let sandbox = home.start_with(&captured(home));
    for _ in 0..3 {
        // A connection that came while nobody had the listener waits for the next borrower.
        drop(sockets(&sandbox));
        let mut order = sandbox.order(&dial("203.0.113.9", 22));
        order.exec = "waits".to_owned();
        let mut connection = sandbox.connect();
        connection.start(order, &[]).unwrap();
        let served = serve(&sockets(&sandbox), 1);
        let finished = connection.wait("waits").unwrap();
        assert_eq!(text(&finished.stdout), "203.0.113.9:22\n", "{}", text(&finished.stderr));
        connection.forget("waits").unwrap();
        served.join().unwrap();
    }
}

/// The namespace of a dead box goes with the last socket that the server borrowed, and not before.
pub(crate) fn a_dead_box_leaves_no_network(home: &Home) {
    let sandbox = home.start_with(&captured(home));
    let sockets = sockets(&sandbox);
    let listener = TcpListener::from(sockets.capture.try_clone().unwrap());
    let mut connection = sandbox.connect();
    connection.start(sandbox.order("exec 3<>/dev/tcp/203.0.113.9/22; sleep 1000"), &[]).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut accepted: TcpStream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) => assert!(Instant::now() < deadline, "the command did not connect"),
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    sandbox.running.kill().unwrap();
    // The kernel ends the connection of the dead program.
    accepted.set_nonblocking(false).unwrap();
    accepted.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(accepted.read(&mut [0]), Ok(0) | Err(_)));
}
