//! `wsprobe` inside a box and on the bare host.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::home::{Home, is_root, probe, text};

/// Host objects that a box must not reach.
struct Canaries {
    env: BTreeMap<String, String>,
    process: Child,
    _listeners: (UnixListener, UnixListener, TcpListener),
}

impl Canaries {
    fn new(home: &Home) -> Self {
        let (file, socket) = (home.path().join("flag"), home.path().join("canary.sock"));
        std::fs::write(&file, "flag").unwrap();
        let name = format!("stead-canary-{}", home.instance);
        let listeners = (
            UnixListener::bind(&socket).unwrap(),
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
            TcpListener::bind("127.0.0.1:0").unwrap(),
        );
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let env = [
            ("PROBE_TEXT", home.instance.clone()),
            ("PROBE_FILE", file.display().to_string()),
            ("PROBE_SOCKET", socket.display().to_string()),
            ("PROBE_ABSTRACT", name),
            ("PROBE_PORT", listeners.2.local_addr().unwrap().port().to_string()),
            ("PROBE_HOSTNAME", hostname.trim().to_owned()),
        ];
        let process = Command::new("sleep").arg("600").env("CANARY", &home.instance).spawn().unwrap();
        let mut env: BTreeMap<_, _> = env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        env.insert("PROBE_PID".to_owned(), process.id().to_string());
        let shared = format!("/dev/shm/stead-canary-{}", home.instance);
        std::fs::write(&shared, "flag").unwrap();
        env.insert("PROBE_SHARED".to_owned(), shared);
        let made = Command::new("ipcmk").args(["--shmem", "4096"]).output().unwrap();
        let segment = text(&made.stdout).trim().rsplit(' ').next().unwrap_or_default().to_owned();
        assert!(segment.parse::<u32>().is_ok(), "{made:?}");
        env.insert("PROBE_SEGMENT".to_owned(), segment);
        let of_host = std::fs::read_dir("/proc/self/ns").unwrap().flatten();
        let of_host: Vec<_> =
            of_host.map(|entry| std::fs::read_link(entry.path()).unwrap().display().to_string()).collect();
        env.insert("PROBE_NAMESPACES".to_owned(), of_host.join(" "));
        Self { env, process, _listeners: listeners }
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.env["PROBE_SHARED"]);
        let _ = Command::new("ipcrm").args(["--shmem-id", &self.env["PROBE_SEGMENT"]]).status();
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Maps each id to its verdict (true if allowed) and its line.
fn findings(output: &str) -> BTreeMap<String, (bool, String)> {
    let line = |line: &str| {
        let finding: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        (finding["id"].as_str().unwrap().to_owned(), (finding["verdict"] == "allowed", line.to_owned()))
    };
    output.lines().map(line).collect()
}

pub(crate) fn the_probe_is_refused_inside_and_allowed_outside(home: &Home) {
    let canaries = Canaries::new(home);
    let program = probe().display().to_string();
    let layer = home.path().join("layer");
    std::fs::create_dir(&layer).unwrap();
    std::fs::copy(&program, layer.join("wsprobe")).unwrap();
    std::fs::set_permissions(layer.join("wsprobe"), PermissionsExt::from_mode(0o755)).unwrap();

    let mut spec = home.spec();
    spec.layers.push(stead_box::LayerSpec::Directory { path: layer });
    let sandbox = home.start_with(&spec);
    let mut order = sandbox.order("cd /tmp && exec /workspace/wsprobe");
    order.env = canaries.env.clone();
    order.output.kept_bytes = 1 << 20;
    let finished = sandbox.run(order, &[]);
    assert_eq!(finished.result.exit_code, 0, "{}", text(&finished.stderr));
    let inside = findings(&text(&finished.stdout));
    let open: Vec<_> = inside.values().filter(|(allowed, _)| *allowed).map(|(_, line)| line).collect();
    assert!(open.is_empty(), "{open:#?}");

    // The control: outside a box the probe must report these as allowed. It gets an open file
    // descriptor, so that it can find one.
    let output = Command::new("bash")
        .args(["-c", &format!("exec 7</dev/null; exec {program}")])
        .envs(&canaries.env)
        .current_dir(home.path())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let outside = findings(&text(&output.stdout));
    assert!(outside.keys().eq(inside.keys()));
    let shut: Vec<_> = outside.iter().filter(|(_, (allowed, _))| !allowed).map(|(id, _)| id.as_str()).collect();
    eprintln!("{} probes; refused on the bare host too: {shut:?}", outside.len());
    let expected = if is_root() { 78 } else { 52 };
    assert!(outside.len() - shut.len() >= expected, "only {} allowed", outside.len() - shut.len());
}

/// Calls every system call number with meaningless arguments: it must be refused or in
/// `open_calls.txt`. 335 and 336 are in the list: they are the kernel's own probe traps, which no
/// filter sees and which end a process that calls them without a probe.
pub(crate) fn every_call_is_refused_or_on_the_list(home: &Home) {
    if std::env::consts::ARCH != "x86_64" {
        return eprintln!("skipped: the numbers of this architecture are not listed");
    }
    let sandbox = home.start();
    let found = sandbox.says(&format!("python3 - <<'END'\n{}\nEND", include_str!("every_call.py")));
    let numbers = |text: &str| -> Vec<u32> { text.split_whitespace().filter_map(|word| word.parse().ok()).collect() };
    let (found, listed) = (numbers(&found), numbers(include_str!("open_calls.txt")));
    let more: Vec<_> = found.iter().filter(|number| !listed.contains(number)).collect();
    assert!(more.is_empty(), "calls that nobody listed are open: {more:?}");
    assert!(found.len() > 200, "hardly anything is open, so the sweep does not work: {found:?}");
}
