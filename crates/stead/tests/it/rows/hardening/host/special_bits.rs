//! A box with a writable host directory leaves no set-id or sticky bit, file capability, device or
//! foreign owner there.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::boxes::{native, podman};
use crate::rows::{Files, server};

/// An ordinary user of the host.
const USER: u32 = 4_242;

struct Host {
    server: TestServer,
    folder: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("roots/of-root")).unwrap();
        fs::create_dir_all(folder.path().join("roots/of-user")).unwrap();
        chown(folder.path().join("roots/of-user"), Some(USER), Some(USER)).unwrap();
        native::build_init();
        let server = server();
        let host = Self { server, folder };
        host.platform(json!({}));
        host.server.agent_type("h", json!({"enabled": true, "provider": "native", "require_workspace": true}));
        host
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("roots").join(name)
    }

    fn platform(&self, more: Value) {
        let mut platform = json!({"allowed_host_roots": [self.path("").to_str().unwrap()]});
        platform.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.server.client().put("/platform", platform).expect(200);
    }

    /// Returns the reason why a mount is refused at creation.
    #[track_caller]
    fn refused(&self, name: &str, mode: &str) -> String {
        let policy = json!({"type": "mount", "host_path": self.path(name).to_str().unwrap(), "mode": mode});
        let body = json!({"agent_type": "h", "task": {"workspace_policy": policy}});
        self.server.client().post("/sessions", body).problem(422, "mount_refused")
    }

    fn mount(&self, name: &str, mode: &str) -> Value {
        let policy = json!({"type": "mount", "host_path": self.path(name).to_str().unwrap(), "mode": mode});
        self.server.session(json!({"agent_type": "h", "task": {"workspace_policy": policy}}))
    }
}

#[track_caller]
fn active(session: Value) -> Value {
    assert_eq!(session["status"], "active", "{session}");
    session
}

/// Tries every call that sets a mode, creates a node or sets a capability below the given
/// directory. Prints each with its errno.
const TRY: &str = r##"
use strict;
chdir $ARGV[0] or die "$ARGV[0]: $!";
sub attempt { my ($name, $done) = @_; print "$name ", ($done < 0 ? $!+0 : 0), "\n"; }
sub made { my $name = shift; open(my $file, ">", $name) or die "$name: $!"; print $file "#!/bin/sh\n"; close $file; return $name; }
my ($null, $zero, $here) = ("", 0, -100);
my $n;
$n = made("by-chmod");      attempt("chmod", syscall(90, $n, 06755));
$n = made("by-fchmod");     open(my $file, "<", $n); attempt("fchmod", syscall(91, fileno($file), 04755));
$n = made("by-fchmodat");   attempt("fchmodat", syscall(268, $here, $n, 02755));
$n = made("by-fchmodat2");  attempt("fchmodat2", syscall(452, $here, $n, 06755, 0));
$n = "by-open";             attempt("open", syscall(2, $n, 0101, 04755));
$n = "by-creat";            attempt("creat", syscall(85, $n, 06755));
$n = "by-openat";           attempt("openat", syscall(257, $here, $n, 0101, 06755));
my $how = pack("QQQ", 0101, 06755, 0);
$n = "by-openat2";          attempt("openat2", syscall(437, $here, $n, $how, 24));
my $nameless = syscall(257, $here, my $dot = ".", 020200001, 06755);
attempt("tmpfile", $nameless);
if ($nameless >= 0) { my $from = "/proc/self/fd/$nameless"; $n = "by-tmpfile"; syscall(265, $here, $from, $here, $n, 0x400); }
$n = "by-mkdir";            attempt("mkdir", syscall(83, $n, 01777));
$n = "by-mkdirat";          attempt("mkdirat", syscall(258, $here, $n, 03777));
$n = "by-mknod";            attempt("mknod", syscall(133, $n, 0106755, 0));
$n = "by-mknodat";          attempt("mknodat", syscall(259, $here, $n, 0106755, 0));
$n = "device";              attempt("device", syscall(133, $n, 020666, 0x103));
$n = "whiteout-device";     attempt("whiteout-device", syscall(133, $n, 020666, 0));
$n = made("by-rename"); my $m = "renamed"; attempt("rename-whiteout", syscall(316, $here, $n, $here, $m, 4));
$n = made("by-setxattr"); my $cap = "security.capability"; my $value = pack("VVVVVV", 0x03000001, 0xffffffff, 0, 0xffffffff, 0, 0);
attempt("capability", syscall(188, $n, $cap, $value, 24, 0));
my $two = pack("VVVVV", 0x02000001, 0xffffffff, 0, 0xffffffff, 0);
attempt("capability-2", syscall(188, $n, $cap, $two, 20, 0));
$n = made("by-chown"); attempt("chown", syscall(92, $n, 0, 0));
attempt("io_uring", syscall(425, 8, my $ring = "\0" x 120));
# What other programs of the box have elsewhere, brought here by its name.
my $away = "/tmp/away"; made($away); syscall(90, $away, 06755);
$n = "linked"; attempt("link", syscall(86, $away, $n));
$n = "moved"; attempt("move", syscall(82, $away, $n));
system("cp -a /tmp/away copied 2>/dev/null; install -m 4755 /tmp/away installed 2>/dev/null");
system("cd /tmp && tar cf t.tar away 2>/dev/null; cd \"$ARGV[0]\" && tar xpf /tmp/t.tar 2>/dev/null");
print "end 0\n";
"##;

/// The result of each attempt, by its name: an errno, or 0.
fn attempts(server: &TestServer, session: &Value) -> Vec<(String, i64)> {
    let command = format!("cat > /tmp/try.pl <<'END'\n{TRY}\nEND\nperl /tmp/try.pl /workspace");
    let answer = server.tool(session, "bash", json!({"command": command}));
    let text = answer["result"]["stdout"].as_str().unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let found: Vec<_> = lines.map(|(name, errno)| (name.to_owned(), errno.parse().unwrap())).collect();
    assert!(found.iter().any(|(name, _)| name == "end"), "{answer}");
    found
}

fn of(attempts: &[(String, i64)], name: &str) -> i64 {
    attempts.iter().find(|(tried, _)| tried == name).unwrap_or_else(|| panic!("{name}: {attempts:?}")).1
}

/// Lists the entries below a host directory that a box must not leave there.
fn forbidden(root: &Path, owner: u32) -> Vec<String> {
    let (mut found, mut seen, mut ahead) = (Vec::new(), 0, vec![root.to_owned()]);
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let mut say = |what: String| found.push(format!("{name}: {what}"));
            if !meta.is_symlink() && meta.mode() & 0o7000 != 0 {
                say(format!("mode {:o}", meta.mode()));
            }
            if matches!(meta.mode() & 0o170_000, 0o020_000 | 0o060_000) {
                say("a device".to_owned());
            }
            if (meta.uid(), meta.gid()) != (owner, owner) {
                say(format!("owner {}:{}", meta.uid(), meta.gid()));
            }
            let mut value = [0; 64];
            if rustix::fs::lgetxattr(&path, "security.capability", &mut value).is_ok() {
                say("a capability".to_owned());
            }
            seen += 1;
            if meta.is_dir() {
                ahead.push(path);
            }
        }
    }
    assert!(seen > 5, "the box left nothing, so nothing was looked at");
    found
}

/// A tar of one file with every special bit.
fn set_id_tar() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(2);
    header.set_mode(0o7755);
    tar.append_data(&mut header, "from-a-tar", &b"1\n"[..]).unwrap();
    tar.into_inner().unwrap()
}

#[test]
fn a_box_leaves_no_special_bits_devices_or_owners_in_a_host_directory() {
    let host = Host::new();
    host.platform(json!({"allowed_root_owned_mounts": [host.path("of-root").to_str().unwrap()]}));
    for (name, owner) in [("of-user", USER), ("of-root", 0)] {
        let session = active(host.mount(name, "rw"));
        let tried = attempts(&host.server, &session);
        let into = format!("/sessions/{}/files/put?format=tar", session["id"].as_str().unwrap());
        host.server.client().bytes("PUT", &into, &[], &set_id_tar()).reply().expect(200);
        assert_eq!(forbidden(&host.path(name), owner), Vec::<String>::new(), "{tried:?}");
        for call in
            ["chmod", "fchmod", "fchmodat", "fchmodat2", "open", "creat", "openat", "tmpfile", "mkdir", "mkdirat"]
        {
            assert_eq!(of(&tried, call), 1, "{call} is not refused with EPERM: {tried:?}");
        }
        assert_eq!(of(&tried, "openat2"), 38, "openat2 is not unknown: {tried:?}");
        // Usual calls still work: permission bits for owner, group and others, and new directories.
        let usual = "chmod 750 by-chmod && mkdir -m 775 d && install -m 755 by-chmod d/i && git init -q r && ls -l d/i";
        let answer = host.server.tool(&session, "bash", json!({"command": usual}));
        assert_eq!(answer["result"]["exit_code"], 0, "{answer}");
    }
    // The control: in a box without a host directory the same calls set the bits, so the program
    // really tries.
    host.server.agent_type("e", json!({"enabled": true, "provider": "native", "workspace_policy": "empty"}));
    let session = active(host.server.session(json!({"agent_type": "e"})));
    let tried = attempts(&host.server, &session);
    for call in ["chmod", "fchmod", "fchmodat", "open", "creat", "openat", "openat2", "mkdir", "mkdirat", "mknod"] {
        assert_eq!(of(&tried, call), 0, "{call}: {tried:?}");
    }
    for call in ["device", "whiteout-device", "rename-whiteout", "capability", "capability-2", "io_uring"] {
        assert_ne!(of(&tried, call), 0, "{call}: {tried:?}");
    }
}

#[test]
fn a_directory_of_roots_is_writable_only_where_the_platform_names_it() {
    let host = Host::new();
    fs::create_dir(host.path("of-root/below")).unwrap();
    let refused = host.refused("of-root", "rw");
    assert!(refused.contains("allowed_root_owned_mounts") && refused.contains("of-root"), "{refused}");
    for (name, mode) in [("of-root", "ro"), ("of-root", "overlay"), ("of-user", "rw")] {
        active(host.mount(name, mode));
    }
    // The control: a listed directory is writable, and so are directories below it, but not its
    // siblings.
    host.platform(json!({"allowed_root_owned_mounts": [host.path("of-root").to_str().unwrap()]}));
    active(host.mount("of-root", "rw"));
    active(host.mount("of-root/below", "rw"));
    fs::create_dir(host.path("of-root-too")).unwrap();
    host.refused("of-root-too", "rw");
    let platform = host.server.client().get("/platform").expect(200);
    assert_eq!(platform["allowed_root_owned_mounts"], json!([host.path("of-root").to_str().unwrap()]), "{platform}");
    let invalid = host.server.client().put("/platform", json!({"allowed_root_owned_mounts": ["relative"]}));
    assert_eq!(invalid.invalid_fields(), ["allowed_root_owned_mounts"]);
}

#[test]
fn a_host_directory_with_a_set_id_file_of_its_owner_is_not_writable() {
    let host = Host::new();
    let file = host.path("of-user/tool");
    fs::write(&file, "#!/bin/sh\n").unwrap();
    chown(&file, Some(USER), Some(USER)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
    let refused = host.refused("of-user", "rw");
    assert!(refused.contains("set-user-id") && refused.contains("tool"), "{refused}");
    // The control: the mount is accepted without the bit.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    active(host.mount("of-user", "rw"));
}

#[test]
fn a_host_directory_with_a_socket_is_not_mounted() {
    let host = Host::new();
    fs::create_dir(host.path("of-user/run")).unwrap();
    let socket = host.path("of-user/run/daemon.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for mode in ["rw", "ro"] {
        let refused = host.refused("of-user", mode);
        assert!(refused.contains("socket") && refused.contains("run/daemon.sock"), "{mode}: {refused}");
    }
    // A copy has no sockets.
    active(host.mount("of-user", "overlay"));
    // The control: without the socket both are accepted.
    drop(listener);
    fs::remove_file(&socket).unwrap();
    for mode in ["rw", "ro"] {
        active(host.mount("of-user", mode));
    }
}

#[test]
fn a_container_has_no_host_directory_and_makes_no_device() {
    let server = Files::Container.server();
    let folder = tempfile::tempdir().unwrap();
    server.client().put("/platform", json!({"allowed_host_roots": [folder.path().to_str().unwrap()]})).expect(200);
    let session = podman::box_session(&server, json!({}));
    let policy = json!({"type": "mount", "host_path": folder.path().to_str().unwrap(), "mode": "rw"});
    let body = json!({"agent_type": "p", "task": {"workspace_policy": policy}});
    server.client().post("/sessions?wait=30", body).problem(422, "policy_incompatible");
    // The control is the FIFO, which is created, so the program really tries.
    let nodes =
        [("c 1 3", "0o020666, os.makedev(1, 3)"), ("c 0 0", "0o020666, 0"), ("b 7 0", "0o060666, os.makedev(7, 0)")];
    for (name, node) in nodes.into_iter().chain([("fifo", "0o010666, 0")]) {
        let tried = format!(
            "import os\ntry: os.mknod('{name}', {node})\nexcept OSError as error: print(error.errno)\nelse: print(0)"
        );
        let output = podman::bash(&server, &session, &format!("python3 - <<'END'\n{tried}\nEND"));
        assert_eq!(output["stdout"], if name == "fifo" { "0\n" } else { "1\n" }, "{name}: {output}");
    }
    let whiteout = "import ctypes\nopen('old', 'w')\ncall = ctypes.CDLL(None, use_errno=True).syscall\n\
                    print(call(316, -100, b'old', -100, b'new', 4), ctypes.get_errno(), call(316, -100, b'old', -100, b'new', 0))";
    let output = podman::bash(&server, &session, &format!("python3 - <<'END'\n{whiteout}\nEND"));
    assert_eq!(output["stdout"], "-1 1 0\n", "{output}");
}

#[test]
fn a_session_that_writes_to_a_host_directory_says_that_its_disk_is_not_limited() {
    let host = Host::new();
    let limits = json!({"cpu": "1", "memory": "128M", "disk": "16M", "pids": 64});
    let config = json!({"enabled": true, "provider": "native", "require_workspace": true, "resource_limits": limits});
    host.server.agent_type("small", config);
    for (mode, limited) in [("rw", false), ("ro", true), ("overlay", true)] {
        let policy = json!({"type": "mount", "host_path": host.path("of-user").to_str().unwrap(), "mode": mode});
        let body = json!({"agent_type": "small", "task": {"workspace_policy": policy}});
        let plan = host.server.client().post("/sessions:plan", body.clone()).expect(200);
        let session = active(host.server.session(body));
        for (limits, warnings) in [
            (&plan["workspace"]["limits"], &plan["workspace"]["warnings"]),
            (&session["workspace"]["limits"], &session["warnings"]),
        ] {
            let enforced = limits["enforced"].as_array().unwrap();
            assert_eq!(enforced.contains(&json!("disk")), limited, "{mode}: {limits}");
            let is_warned = warnings.as_array().unwrap().iter().any(|warning| {
                warning["code"] == "limit_not_enforced" && warning["message"].as_str().unwrap().contains("disk")
            });
            assert_eq!(is_warned, !limited, "{mode}: {warnings}");
        }
    }
}

#[test]
fn a_snapshot_of_a_host_directory_is_not_put_back_over_it() {
    let host = Host::new();
    let session = active(host.mount("of-user", "rw"));
    let path = |below: &str| format!("/sessions/{}{below}", session["id"].as_str().unwrap());
    let snapshot = host.server.client().post(&path("/snapshots"), json!({})).expect(201);
    let restore = path(&format!("/snapshots/{}/restore", snapshot["id"].as_str().unwrap()));
    let detail = host.server.client().send("POST", &restore, &[], None).problem(409, "host_directory");
    assert!(detail.contains("clone the session"), "{detail}");
    // The control: the agent's own copy of the same directory can be restored.
    let session = active(host.mount("of-user", "overlay"));
    let path = |below: &str| format!("/sessions/{}{below}", session["id"].as_str().unwrap());
    let snapshot = host.server.client().post(&path("/snapshots"), json!({})).expect(201);
    let restore = path(&format!("/snapshots/{}/restore", snapshot["id"].as_str().unwrap()));
    host.server.client().send("POST", &restore, &[], None).expect(200);
}
