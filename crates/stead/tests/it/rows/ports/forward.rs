//! `stead forward` and `stead port`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use stead_testkit::{TestServer, until};

use super::{PORT, with_app};
use crate::rows::Files;

fn stead(server: &TestServer, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
    command.arg("--home").arg(server.home()).args(args).env_remove("STEAD_URL").env_remove("STEAD_TOKEN");
    command
}

/// A running `stead forward`, ended when it is dropped.
struct Forwarding {
    child: Child,
    listen: Value,
}

impl Forwarding {
    fn start(server: &TestServer, args: &[&str]) -> Self {
        let args = [&["--json", "forward"][..], args].concat();
        let mut child = stead(server, &args).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut text = String::new();
        let listen = loop {
            text.push_str(&lines.next().expect("it says where it listens").unwrap());
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                break value;
            }
        };
        Self { child, listen }
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn ask(mut stream: impl Read + Write) -> String {
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn forward_binds_loopback_only() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let forwarding = Forwarding::start(&server, &[&id, &format!("{PORT}:0")]);
    let listen = forwarding.listen["listen"].as_str().unwrap();
    assert!(listen.starts_with("127.0.0.1:"), "{listen}");
    let port: u16 = listen.rsplit_once(':').unwrap().1.parse().unwrap();
    let url = forwarding.listen["url"].as_str().unwrap();
    assert!(
        url.starts_with(&format!("http://forward-{PORT}-ses-")) && url.ends_with(&format!(".localhost:{port}/")),
        "{url}"
    );
    for _ in 0..3 {
        assert!(ask(TcpStream::connect(listen).unwrap()).contains("From the box"));
    }
    let hex = format!("0100007F:{port:04X} ");
    let bound = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let listeners: Vec<&str> =
        bound.lines().filter(|line| line.contains(&format!(":{port:04X} 00000000:0000 0A"))).collect();
    assert_eq!(listeners.len(), 1, "{listeners:?}");
    assert!(listeners[0].contains(&hex), "{listeners:?}");
}

#[test]
fn forward_by_a_unix_socket_is_for_its_owner_alone() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("box.sock");
    let mut forwarding = Forwarding::start(&server, &[&id, &PORT.to_string(), "--unix", path.to_str().unwrap()]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(ask(UnixStream::connect(&path).unwrap()).contains("From the box"));
    let pid = rustix::process::Pid::from_child(&forwarding.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = until("it ends after Ctrl-C", || forwarding.child.try_wait().unwrap());
    assert!(ended.success() && !path.exists(), "{ended}");
}

#[test]
fn ports_are_listed_and_opened_from_the_command_line() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let run = |args: &[&str]| {
        let output = stead(&server, args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, listed, _) = run(&["port", "ls", &id]);
    assert_eq!((code, listed.as_str()), (Some(0), "port  address\n8080  0.0.0.0\n"));
    let (code, link, _) = run(&["port", "open", &id, "8080", "--path", "/docs"]);
    assert!(link.starts_with("http://8080-ses-") && link.contains("/.stead/enter?ticket="), "{link}");
    assert_eq!(code, Some(0));
    let (code, _, error) = run(&["port", "open", &id, "0"]);
    assert_eq!(code, Some(2), "{error}");
}
