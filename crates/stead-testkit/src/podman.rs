//! A real Podman for the tests: a private service of this process, with its own storage and images.
//!
//! A missing Podman fails the test and never skips it. The machine's own Podman is neither seen nor
//! changed.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// An image with bash, python3 and the usual commands, based on glibc.
pub const TOOLS: &str = "localhost/stead-test/tools:1";
/// An image with one static program, no libraries and no bash.
pub const BUSYBOX: &str = "localhost/stead-test/busybox:1";
/// An image without any program.
pub const NOTHING: &str = "localhost/stead-test/nothing:1";

pub struct Podman {
    directory: PathBuf,
    /// The script removes everything and exits when the pipe to it closes.
    _script: Child,
}

/// A Podman service. Dropping it stops the service.
pub struct Service {
    child: Child,
    address: String,
}

impl Service {
    /// Returns the value of `PODMAN_BASE_URL` for this service.
    pub fn url(&self) -> &str {
        &self.address
    }

    fn answers(&self) -> bool {
        match self.address.split_once("://") {
            Some(("unix", path)) => std::os::unix::net::UnixStream::connect(path).is_ok(),
            Some((_, address)) => std::net::TcpStream::connect(address).is_ok(),
            None => false,
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the Podman that all tests of this process share.
pub fn shared() -> &'static Podman {
    static SHARED: OnceLock<Podman> = OnceLock::new();
    SHARED.get_or_init(Podman::start)
}

impl Podman {
    pub fn start() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", include_str!("podman.sh"), "podman.sh"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(script.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let directory = line.split(' ').next().unwrap_or_default();
        assert!(!directory.is_empty(), "the private Podman did not start; cargo xtask test installs what it needs");
        Self { directory: PathBuf::from(directory), _script: script }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the value of `PODMAN_BASE_URL` for this Podman.
    pub fn url(&self) -> String {
        format!("unix://{}", self.directory.join("podman.sock").display())
    }

    /// Returns the tar archive that an image was made from.
    pub fn image_tar(&self, name: &str) -> PathBuf {
        self.directory.join("images").join(format!("{name}.tar"))
    }

    /// Runs Podman's command line on the same storage.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command().args(args).output().unwrap()
    }

    fn command(&self) -> Command {
        let mut command = Command::new("podman");
        command.arg("--tmpdir").arg(self.directory.join("tmp"));
        command.env("CONTAINERS_CONF", self.directory.join("containers.conf"));
        command.env("CONTAINERS_STORAGE_CONF", self.directory.join("storage.conf"));
        command.stdin(Stdio::null());
        command
    }

    /// Starts another service on the same storage, for example with another runtime. Returns when
    /// it responds.
    pub fn service(&self, runtime: &str, address: &str) -> Service {
        self.serve(self.command(), runtime, address)
    }

    /// Starts a service that only uses this `registries.conf`.
    pub fn service_with_registries(&self, registries: &Path, address: &str) -> Service {
        self.service_with(&[("CONTAINERS_REGISTRIES_CONF", registries)], address)
    }

    /// Starts a service with these configuration files.
    pub fn service_with(&self, settings: &[(&str, &Path)], address: &str) -> Service {
        let mut command = self.command();
        command.envs(settings.iter().copied());
        self.serve(command, "runc", address)
    }

    fn serve(&self, mut command: Command, runtime: &str, address: &str) -> Service {
        command.args(["--runtime", runtime, "system", "service", "--time=0", address]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let service = Service { child, address: address.to_owned() };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !service.answers() {
            assert!(Instant::now() < deadline, "no service at {address}");
            std::thread::sleep(Duration::from_millis(20));
        }
        service
    }

    /// Returns the names of all containers.
    pub fn containers(&self) -> Vec<String> {
        let output = self.run(&["ps", "--all", "--format", "{{.Names}}"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }
}
