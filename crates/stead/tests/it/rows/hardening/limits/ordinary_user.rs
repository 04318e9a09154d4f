//! A server that runs as an ordinary user.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use stead_testkit::{ServerOptions, TestServer};

use crate::rows::boxes::native::build_init;

/// A user that owns nothing else, so the kernel's counters per user count this test alone.
const FIRST_USER: u32 = 64_000;

/// A command that runs without root.
pub(super) fn command(user: u32, program: &str) -> Command {
    let mut command = Command::new("setpriv");
    let id = user.to_string();
    // Programs that every user may run, none from root's own directories.
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--inh-caps=-all", "--", program]);
    command
}

/// A server that runs as a user other than root.
pub(in crate::rows) struct OrdinaryServer {
    pub(in crate::rows) server: TestServer,
    pub(super) user: u32,
    /// Keeps the programs alive, from which the server starts boxes.
    pub(in crate::rows) shelf: tempfile::TempDir,
}

pub(in crate::rows) fn server() -> OrdinaryServer {
    server_with(ServerOptions::default())
}

/// The same with options.
pub(in crate::rows) fn server_with(options: ServerOptions) -> OrdinaryServer {
    build_init();
    let user = FIRST_USER + std::process::id() % 1_000;
    let shelf = tempfile::tempdir().unwrap();
    let allow = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    allow(shelf.path());
    let built = Path::new(env!("CARGO_BIN_EXE_stead"));
    for name in ["stead", "stead-init"] {
        std::fs::copy(built.with_file_name(name), shelf.path().join(name)).unwrap();
    }
    // Root creates the home, so the start script changes its owner.
    let start = shelf.path().join("start");
    let program = shelf.path().join("stead");
    let text = format!(
        "#!/bin/sh\nchown -R {user}:{user} \"$STEAD_HOME\"\nexec setpriv --reuid {user} --regid {user} --clear-groups --inh-caps=-all -- {} \"$@\"\n",
        program.display()
    );
    std::fs::write(&start, text).unwrap();
    allow(&start);
    let server = TestServer::start_with(start.to_str().unwrap(), options);
    OrdinaryServer { server, user, shelf }
}
