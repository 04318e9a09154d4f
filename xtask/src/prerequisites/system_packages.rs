//! The `setup` step: checks the system packages that the tests and benchmarks need, and installs
//! missing ones.

use anyhow::{Result, bail};

use crate::process::{command, run, succeeds};

struct Need {
    what: &'static str,
    package: &'static str,
    present: fn() -> bool,
}

const NEEDS: &[Need] = &[
    Need { what: "a C compiler", package: "build-essential", present: || succeeds("cc", &["--version"]) },
    Need { what: "git", package: "git", present: || succeeds("git", &["--version"]) },
    Need { what: "git-lfs", package: "git-lfs", present: || succeeds("git-lfs", &["--version"]) },
    Need {
        what: "an ssh server",
        package: "openssh-server",
        present: || std::path::Path::new("/usr/sbin/sshd").exists(),
    },
    Need {
        what: "python3 with venv",
        package: "python3-venv",
        present: || succeeds("python3", &["-c", "import venv, ensurepip"]),
    },
    Need { what: "npm", package: "npm", present: || succeeds("npm", &["--version"]) },
    Need { what: "Chromium", package: "chromium", present: || succeeds("chromium", &["--version"]) },
    Need { what: "a PostgreSQL server", package: "postgresql", present: has_postgresql },
    Need { what: "podman", package: "podman", present: || succeeds("podman", &["--version"]) },
    Need { what: "runc", package: "runc", present: || succeeds("runc", &["--version"]) },
    Need { what: "crun", package: "crun", present: || succeeds("crun", &["--version"]) },
    Need { what: "openssl", package: "openssl", present: || succeeds("openssl", &["version"]) },
    Need { what: "gVisor", package: "runsc", present: || succeeds("runsc", &["--version"]) },
    Need { what: "Chromium", package: "chromium", present: || succeeds("chromium", &["--version"]) },
    Need { what: "chromedriver", package: "chromium-driver", present: || succeeds("chromedriver", &["--version"]) },
    Need { what: "Flask", package: "python3-flask", present: || succeeds("/usr/bin/python3", &["-c", "import flask"]) },
    Need { what: "busybox", package: "busybox-static", present: || succeeds("busybox", &["true"]) },
    Need { what: "a Java runtime", package: "default-jre-headless", present: || succeeds("java", &["-version"]) },
];

/// Peers of the benchmarks.
const PEERS: &[Need] = &[
    Need { what: "ripgrep", package: "ripgrep", present: || succeeds("rg", &["--version"]) },
    Need { what: "fd", package: "fd-find", present: || succeeds("fdfind", &["--version"]) },
    Need { what: "python3", package: "python3", present: || succeeds("python3", &["--version"]) },
    Need { what: "bubblewrap", package: "bubblewrap", present: || succeeds("bwrap", &["--version"]) },
    Need { what: "podman", package: "podman", present: || succeeds("podman", &["--version"]) },
    Need { what: "runc", package: "runc", present: || succeeds("runc", &["--version"]) },
    Need { what: "busybox", package: "busybox-static", present: || succeeds("busybox", &["true"]) },
];

/// Debian installs `initdb` outside of PATH, in one directory per major version.
fn has_postgresql() -> bool {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    debian.map(|version| version.path().join("bin/initdb")).any(|initdb| initdb.exists())
        || succeeds("initdb", &["--version"])
}

pub(crate) fn ensure() -> Result<()> {
    ensure_all(NEEDS)
}

pub(crate) fn ensure_peers() -> Result<()> {
    ensure_all(PEERS)
}

fn ensure_all(needs: &'static [Need]) -> Result<()> {
    let missing = missing(needs);
    if missing.is_empty() {
        println!("all present: {}", list(&needs.iter().collect::<Vec<_>>(), |need| need.what));
        return Ok(());
    }
    println!("missing: {}", list(&missing, |need| need.what));
    let packages = list(&missing, |need| need.package).replace(',', "");
    if !rustix::process::geteuid().is_root() {
        bail!("packages are missing that only root can install. Run: sudo apt-get install {packages}");
    }
    if !succeeds("apt-get", &["--version"]) {
        bail!("this system has no apt-get. Install what is called on Debian: {packages}");
    }
    run(apt().arg("update"))?;
    run(apt().args(["install", "--yes", "--no-install-recommends"]).args(packages.split(' ')))?;
    let still = self::missing(needs);
    if !still.is_empty() {
        bail!("installed {packages}, but still missing: {}", list(&still, |need| need.what));
    }
    Ok(())
}

fn missing(needs: &'static [Need]) -> Vec<&'static Need> {
    needs.iter().filter(|need| !(need.present)()).collect()
}

fn apt() -> std::process::Command {
    let mut apt = command("apt-get");
    // Another apt may run on a machine that has just started.
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(["-q", "-o", "DPkg::Lock::Timeout=120"]);
    apt
}

fn list(needs: &[&Need], field: fn(&Need) -> &'static str) -> String {
    needs.iter().map(|need| field(need)).collect::<Vec<_>>().join(", ")
}
