//! A tunnel to a remote Podman: one `ssh` process that forwards a local socket to Podman's.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::Mutex;

use super::address::Address;

/// Timeout for ssh to open the tunnel.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest error message of ssh that is reported, in bytes.
const MOST_MESSAGE: u64 = 4096;

pub(super) struct Tunnel {
    socket: PathBuf,
    ssh: Mutex<Option<Child>>,
}

impl Tunnel {
    /// `socket` is created by the tunnel; its directory must be private.
    pub(super) fn new(socket: PathBuf) -> Self {
        Self { socket, ssh: Mutex::new(None) }
    }

    /// Connects to the remote Podman through the tunnel. Starts ssh if it is not running.
    pub(super) async fn connect(&self, address: &Address) -> Result<UnixStream, String> {
        let Address::Ssh { user, host, port, socket, identity } = address else {
            return Err("only an ssh address has a tunnel".to_owned());
        };
        let mut ssh = self.ssh.lock().await;
        if ssh.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
            return UnixStream::connect(&self.socket).await.map_err(|error| error.to_string());
        }
        let _ = std::fs::remove_file(&self.socket);
        if let Some(directory) = self.socket.parent() {
            std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
        }
        let mut command = Command::new("ssh");
        // Never prompt, because no user can answer. Refuse unknown host keys.
        command.args([
            "-N",
            "-T",
            "-o",
            "BatchMode=yes",
            "-o",
            "ExitOnForwardFailure=yes",
            "-o",
            "StreamLocalBindMask=0177",
        ]);
        command.args(["-o", "ServerAliveInterval=15", "-p", &port.to_string()]);
        let known = self.socket.with_file_name("known_hosts");
        command.arg("-o").arg(format!("UserKnownHostsFile=~/.ssh/known_hosts \"{}\"", known.display()));
        if let Some(identity) = identity {
            command.arg("-i").arg(identity).args(["-o", "IdentitiesOnly=yes"]);
        }
        command.arg("-L").arg(format!("{}:{}", self.socket.display(), socket.display()));
        let destination = user.as_ref().map_or_else(|| host.clone(), |user| format!("{user}@{host}"));
        command.arg("--").arg(destination);
        let spawned =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn();
        let mut child = spawned.map_err(|error| format!("cannot start ssh: {error}"))?;
        let stderr = child.stderr.take();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        // The socket file exists a moment before ssh accepts connections on it.
        let stream = loop {
            if let Ok(stream) = UnixStream::connect(&self.socket).await {
                break stream;
            }
            if let Ok(Some(status)) = child.try_wait() {
                return Err(format!("ssh ended with {status}: {}", message(stderr).await));
            }
            if tokio::time::Instant::now() > deadline {
                return Err(format!("ssh made no tunnel within {} s", PATIENCE.as_secs()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        // Later output of ssh is discarded. An unread pipe would fill up and block ssh.
        if let Some(mut stderr) = stderr {
            tokio::spawn(async move { tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await });
        }
        *ssh = Some(child);
        Ok(stream)
    }
}

/// Returns the standard error of an ssh process that has ended.
async fn message(stderr: Option<ChildStderr>) -> String {
    let mut bytes = Vec::new();
    if let Some(stderr) = stderr {
        // A part of the message is better than none.
        let _ = stderr.take(MOST_MESSAGE).read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
