//! Images from a registry with TLS and a login. Podman has the certificate and the credentials;
//! Stead never sees the password.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use stead_testkit::podman::{self, BUSYBOX};
use stead_testkit::registry::Registry;

use super::pull::{agent_type, server_of};

const PASSWORD: &str = "correct-horse-battery-staple";
/// Base64 of `agent:` and the password, as in the `Authorization` header.
const BASIC: &str = "YWdlbnQ6Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ==";

/// Configuration that Podman's user has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    Certificate,
    Login,
}

/// A TLS proxy in front of a registry, with the configuration files of Podman's user.
struct Front {
    registry: Registry,
    process: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl Front {
    fn start() -> Self {
        let (registry, directory) = (Registry::start(), tempfile::tempdir().unwrap());
        let at = |name: &str| directory.path().join(name);
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=registry"])
            .args(["-addext", "subjectAltName=IP:127.0.0.1", "-keyout"])
            .arg(at("key.pem"))
            .arg("-out")
            .arg(at("certificate.pem"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        std::fs::write(at("basic"), BASIC).unwrap();
        let behind = registry.reference("").split([':', '/']).nth(1).unwrap().to_owned();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/rows/boxes/tls_front.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(behind).arg(at("certificate.pem")).arg(at("key.pem")).arg(at("basic"));
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Self { registry, process, port, directory }
    }

    /// Creates a home directory for Podman's user with the given configuration.
    fn podman_home(&self, name: &str, given: &[Given]) -> PathBuf {
        let home = self.directory.path().join(name);
        let (settings, host) = (home.join(".config/containers"), format!("127.0.0.1:{}", self.port));
        std::fs::create_dir_all(settings.join("certs.d").join(&host)).unwrap();
        if given.contains(&Given::Certificate) {
            let certificate = settings.join("certs.d").join(&host).join("ca.crt");
            std::fs::copy(self.directory.path().join("certificate.pem"), certificate).unwrap();
        }
        if given.contains(&Given::Login) {
            let auth = json!({"auths": {host: {"auth": BASIC}}});
            std::fs::write(settings.join("auth.json"), auth.to_string()).unwrap();
        }
        home
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn x7_a_registry_with_tls_and_a_login_is_used_as_podman_is_configured() {
    let (front, podman) = (Front::start(), podman::shared());
    let name = format!("team/kept-{}", front.port);
    front.registry.offer(podman, BUSYBOX, &name);
    let image = format!("127.0.0.1:{}/{name}:1", front.port);
    let empty = front.directory.path().join("registries.conf");
    std::fs::write(&empty, "").unwrap();
    let cases: [(&str, &[Given], &[&str]); 3] = [
        ("stranger", &[Given::Login], &["x509"]),
        ("nobody", &[Given::Certificate], &["unauthorized", "authentication required"]),
        ("agent", &[Given::Certificate, Given::Login], &[]),
    ];
    for (who, given, refusals) in cases {
        let socket = podman.directory().join(format!("tls-{who}-{}.sock", front.port));
        let home = front.podman_home(who, given);
        let settings = [("CONTAINERS_REGISTRIES_CONF", empty.as_path()), ("HOME", home.as_path())];
        let service = podman.service_with(&settings, &format!("unix://{}", socket.display()));
        let server = server_of(service.url(), "missing");
        agent_type(&server, &image);
        let session = server.session(json!({"agent_type": "p"}));
        if refusals.is_empty() {
            assert_eq!(session["status"], "active", "{session}");
            assert_eq!(session["workspace"]["image"]["reference"], json!(image));
        } else {
            let failure = &session["workspace"]["failures"][0];
            assert_eq!(
                (&session["status"], &failure["code"]),
                (&json!("failed"), &json!("image_pull_failed")),
                "{session}"
            );
            let message = failure["message"].as_str().unwrap();
            assert!(refusals.iter().any(|words| message.contains(words)), "{message}");
        }
        // Neither the log nor any file of Stead contains the password.
        assert!(!server.log().contains(PASSWORD) && !server.log().contains(BASIC));
        let found =
            Command::new("grep").args(["-rlF", "-e", PASSWORD, "-e", BASIC]).arg(server.home()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    }
    podman.run(&["rmi", "--force", &image]);
}
