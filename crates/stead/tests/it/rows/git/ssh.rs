//! Repositories over ssh: a real sshd on loopback with its own keys, for this user only.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use stead_testkit::Repository;

use super::{active, agent, failed, git_ok, sh, start};
use crate::rows::server;

pub(crate) struct Sshd {
    child: Child,
    pub(crate) port: u16,
    directory: tempfile::TempDir,
}

impl Sshd {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        for key in ["host", "client"] {
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]).status();
            assert!(made.unwrap().success());
        }
        std::fs::copy(path("client.pub"), path("authorized_keys")).unwrap();
        // As root, sshd requires its privilege separation directory.
        let _ = std::fs::create_dir_all("/run/sshd");
        let deadline = Instant::now() + Duration::from_secs(60);
        // Another test can take a port that was free a moment ago; sshd then ends.
        'ports: loop {
            assert!(Instant::now() < deadline, "sshd does not listen");
            let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let config = format!(
                "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n",
                path("host"),
                path("authorized_keys")
            );
            std::fs::write(path("config"), config).unwrap();
            let child = Command::new("/usr/sbin/sshd")
                .args(["-D", "-e", "-f", &path("config")])
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let mut child =
                child.unwrap_or_else(|error| panic!("openssh-server is installed by cargo xtask test: {error}"));
            while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
                if child.try_wait().unwrap().is_some() {
                    continue 'ports;
                }
                assert!(Instant::now() < deadline, "sshd does not listen");
                std::thread::sleep(Duration::from_millis(20));
            }
            if child.try_wait().unwrap().is_none() {
                return Self { child, port, directory };
            }
        }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn known_hosts(&self) -> String {
        let key = std::fs::read_to_string(self.path("host.pub")).unwrap();
        format!("127.0.0.1 {key}[127.0.0.1]:{} {key}", self.port)
    }

    pub(crate) fn url(&self, repository: &Path) -> String {
        let user = std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "root".to_owned());
        format!("ssh://{user}@127.0.0.1:{}{}", self.port, repository.display())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn g5_over_ssh_with_a_key_and_only_to_a_known_host() {
    let sshd = Sshd::start();
    let repositories = tempfile::tempdir().unwrap();
    let repository = Repository::create(&repositories.path().join("app"), &[("a", "1\n")]);
    let mut server = server();
    let settings = format!(
        "[git]\nfresh_seconds = 0\ntries = 1\nstall_seconds = 10\n[[git_credentials]]\nhost = '127.0.0.1:{}'\nssh_key_file = '{}'\n",
        sshd.port,
        sshd.path("client").display()
    );
    std::fs::write(server.home().join("stead.toml"), settings).unwrap();
    server.restart(None);
    server.client().put("/platform", json!({"allowed_git_hosts": ["127.0.0.1"]})).expect(200);
    agent(&server, json!({}));
    let url = sshd.url(repository.bare());

    let (code, message) = failed(&start(&server, json!({"repository_url": url, "branch": "main"})));
    assert_eq!(code, "git_unauthorised", "{message}");
    assert!(message.contains("known_hosts"), "{message}");

    std::fs::write(server.home().join("known_hosts"), sshd.known_hosts()).unwrap();
    let session = active(&server, json!({"repository_url": url, "branch": "main"}));
    assert_eq!(sh(&server, &session, "cat a"), "1");
    sh(&server, &session, "echo 2 > a");
    git_ok(&server, &session, "commit", &["-a", "-m", "two"]);
    git_ok(&server, &session, "push", &[]);
    assert_eq!(repository.remote("main"), sh(&server, &session, "git rev-parse HEAD"));

    // Git LFS objects are only available over HTTP, and the error says what to do.
    let pointer = stead_testkit::pointer(&stead_testkit::sha256(b"x"), 1);
    repository.git(&["pull", "-q", "origin", "main"]);
    repository.commit(&[(".gitattributes", "*.bin filter=lfs\n"), ("a.bin", &pointer)], "pointer");
    super::change(&server, json!({"git": {"lfs": true}}));
    let (code, message) = failed(&start(&server, json!({"repository_url": url, "branch": "main"})));
    assert!(code == "git_lfs_failed" && message.contains("https://"), "{code}: {message}");

    std::fs::write(sshd.path("authorized_keys"), "").unwrap();
    let (code, message) = failed(&start(&server, json!({"repository_url": url, "branch": "main"})));
    assert_eq!(code, "git_unauthorised", "{message}");
    assert!(message.contains("Permission denied"), "{message}");
}
