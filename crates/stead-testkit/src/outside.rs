//! An Internet in a network namespace.
//!
//! The test runs itself again in new network and mount namespaces. There `lo` has *public*
//! prefixes, a name server answers on 127.0.0.1, and servers accept connections to every address.
//! So the rules about addresses hold in tests as they do elsewhere, and nothing leaves the machine:
//! the namespace has no other interface.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::wait::until;

const MARK: &str = "STEAD_TEST_OUTSIDE";
/// Prefixes that are local in the namespace, without being addresses of an interface.
const PREFIXES: &[&str] =
    &["93.184.216.0/24", "140.82.112.0/24", "10.9.0.0/16", "169.254.169.254/32", "168.63.129.16/32"];

/// The addresses of names that every test has.
const ZONE: &[(&str, &[&str])] = &[
    ("api.example", &["93.184.216.34"]),
    ("files.example", &["93.184.216.35"]),
    ("other.example", &["93.184.216.36"]),
    ("db.example", &["93.184.216.37"]),
    ("private.example", &["10.9.0.5"]),
    ("loopback.example", &["127.0.0.1"]),
    ("metadata.example", &["169.254.169.254"]),
    ("mixed.example", &["93.184.216.34", "10.9.0.5"]),
    ("mapped.example", &["::ffff:127.0.0.1"]),
];

/// Runs a test in namespaces of its own. `test` is the test's whole name in its binary. Needs root.
pub fn outside(test: &str, case: fn(&Outside)) {
    if std::env::var_os(MARK).is_some() {
        return case(&Outside::new());
    }
    let this = std::env::current_exe().unwrap();
    let ran = Command::new("unshare")
        .args(["--net", "--mount", "--"])
        .arg(this)
        .args(["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"])
        .env(MARK, "1")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{test}: {}\n{out}\n{err}", ran.status);
    assert!(out.contains("1 passed"), "no test is named {test}:\n{out}");
}

/// The servers outside of all boxes.
pub struct Outside {
    directory: tempfile::TempDir,
    servers: Child,
}

impl Outside {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("outside").tempdir().unwrap();
        let path = directory.path();
        run("ip", &["link", "set", "lo", "up"]);
        for prefix in PREFIXES {
            run("ip", &["route", "add", "local", prefix, "dev", "lo"]);
        }
        fs::write(path.join("resolv.conf"), "nameserver 127.0.0.1\n").unwrap();
        run(
            "mount",
            &["--bind", text(&path.join("resolv.conf")), text(&fs::canonicalize("/etc/resolv.conf").unwrap())],
        );
        fs::create_dir(path.join("files")).unwrap();
        certificates(path);
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/src/outside.py");
        let outside = Self {
            servers: Command::new("/usr/bin/python3")
                .args([program, text(path)])
                .stdin(Stdio::piped())
                .spawn()
                .unwrap(),
            directory,
        };
        outside.zone(json!({}));
        until("the servers outside", || outside.path("ready").exists().then_some(()));
        outside
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Adds names to the zone. A value is a list of addresses, or `{"sequence": [list…]}`.
    pub fn zone(&self, more: Value) {
        let mut zone: BTreeMap<String, Value> =
            ZONE.iter().map(|(name, addresses)| ((*name).to_owned(), json!(addresses))).collect();
        zone.extend(more.as_object().unwrap().clone());
        let new = self.path("zone.new");
        fs::write(&new, json!(zone).to_string()).unwrap();
        fs::rename(new, self.path("zone.json")).unwrap();
    }

    /// Returns the lines of a log: `dns`, `connections`, `requests`, `echo`, `sink` or `errors`.
    pub fn log(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        drop(self.servers.stdin.take());
        let _ = self.servers.kill();
        let _ = self.servers.wait();
    }
}

/// Makes certificates for all names: one by a root that this mount namespace trusts, and one by a
/// root that it does not, in `untrusted-root.pem`.
fn certificates(directory: &Path) {
    authority(directory, "");
    authority(directory, "untrusted-");
    let trusted = directory.join("certs");
    run("cp", &["-a", "/etc/ssl/certs", text(&trusted)]);
    let bundle = trusted.join("ca-certificates.crt");
    let mut all = fs::read(&bundle).unwrap_or_default();
    all.extend(fs::read(directory.join("root.pem")).unwrap());
    fs::write(&bundle, all).unwrap();
    run("mount", &["--bind", text(&trusted), "/etc/ssl/certs"]);
}

/// Makes a root and a certificate for all names.
fn authority(directory: &Path, prefix: &str) {
    let at = |name: &str| text(&directory.join(format!("{prefix}{name}"))).to_owned();
    let subject = format!("/CN={prefix}outside");
    let (root_key, root, leaf_key) = (at("root.key"), at("root.pem"), at("leaf.key"));
    let (request, leaf, names) = (at("leaf.csr"), at("leaf.pem"), at("leaf.ext"));
    let key = ["-newkey", "rsa:2048", "-nodes", "-subj", &subject];
    run("openssl", &[&["req", "-x509", "-days", "2", "-keyout", &root_key, "-out", &root], &key[..]].concat());
    let all: Vec<String> =
        ZONE.iter().map(|(name, _)| format!("DNS:{name}")).chain(["DNS:*.example".to_owned()]).collect();
    fs::write(&names, format!("subjectAltName={}\n", all.join(","))).unwrap();
    run("openssl", &[&["req", "-keyout", &leaf_key, "-out", &request], &key[..]].concat());
    let sign = ["x509", "-req", "-CAcreateserial", "-days", "2", "-in", &request, "-CA", &root, "-CAkey", &root_key];
    run("openssl", &[&sign[..], &["-extfile", &names, "-out", &leaf]].concat());
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn run(program: &str, args: &[&str]) {
    let ran = Command::new(program).args(args).output().unwrap();
    assert!(ran.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}
