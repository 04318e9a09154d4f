//! A home for boxes, as root and as an ordinary user.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use stead_box::protocol::{ExecOrder, Input, OutputLimits};
use stead_box::{
    BoxError, BoxSpec, Connection, Finished, Ids, Limits, Network, RunningBox, Spare, UidRanges, Volume, launch,
    remove, resume,
};

use crate::census::Census;

/// The user id of the ordinary user: `nobody`.
const ORDINARY: &str = "65534";

pub(crate) struct Home {
    directory: tempfile::TempDir,
    pub(crate) instance: String,
    before: Census,
    next: AtomicU32,
}

pub(crate) fn init() -> PathBuf {
    PathBuf::from(std::env::var("STEAD_TEST_INIT").unwrap_or_else(|_| env!("CARGO_BIN_EXE_stead-init").to_owned()))
}

/// Path of `wsprobe`. It is a program of another package, so cargo does not build it with these
/// tests alone.
pub(crate) fn probe() -> PathBuf {
    let probe = std::env::var_os("STEAD_TEST_PROBE").map_or_else(|| init().with_file_name("wsprobe"), PathBuf::from);
    assert!(probe.exists(), "{} does not exist: run `cargo build -p wsprobe`", probe.display());
    probe
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs the case as root, or prints that it is skipped.
pub(crate) fn as_root(case: fn(&Home)) {
    if is_root() {
        case(&Home::new());
    } else {
        eprintln!("SKIPPED: this case needs root");
    }
}

/// Runs the case as an ordinary user: in this process if it is one, else in a child process without
/// root.
pub(crate) fn as_ordinary_user(name: &str, case: fn(&Home)) {
    if !is_root() {
        return case(&Home::new());
    }
    let shelf = tempfile::tempdir().unwrap();
    let allow = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let (test, program) = (shelf.path().join("test"), shelf.path().join("stead-init"));
    std::fs::copy(std::env::current_exe().unwrap(), &test).unwrap();
    std::fs::copy(init(), &program).unwrap();
    std::fs::copy(probe(), shelf.path().join("wsprobe")).unwrap();
    allow(shelf.path(), 0o755);
    std::fs::create_dir(shelf.path().join("tmp")).unwrap();
    allow(&shelf.path().join("tmp"), 0o1777);
    let status = Command::new("setpriv")
        .args(["--reuid", ORDINARY, "--regid", ORDINARY, "--clear-groups", "--inh-caps=-all", "--"])
        .arg(&test)
        .args(["--exact", name, "--nocapture", "--include-ignored"])
        .env("STEAD_TEST_INIT", &program)
        .env("STEAD_TEST_PROBE", shelf.path().join("wsprobe"))
        .env("TMPDIR", shelf.path().join("tmp"))
        .current_dir("/")
        .status()
        .unwrap();
    assert!(status.success(), "{name} as an ordinary user: {status}");
}

impl Home {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let instance = format!("t{}", directory.path().file_name().unwrap().to_str().unwrap().replace('.', ""));
        std::fs::create_dir(directory.path().join("boxes")).unwrap();
        let before = Census::take(directory.path(), &instance);
        Self { directory, instance, before, next: AtomicU32::new(0) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn ranges(&self) -> UidRanges {
        UidRanges::new(self.path().join("uids"))
    }

    /// A spec with small limits, suited to the current user.
    pub(crate) fn spec(&self) -> BoxSpec {
        let id = format!("ws_{}", self.next.fetch_add(1, Ordering::Relaxed));
        let (ids, volume) = if is_root() {
            (Ids::Range { first: self.ranges().take(&id).unwrap() }, Volume::Image)
        } else {
            (Ids::Own, Volume::Directory)
        };
        BoxSpec {
            directory: self.path().join("boxes").join(&id),
            id: id.clone(),
            instance: self.instance.clone(),
            ids,
            base: None,
            layers: Vec::new(),
            compared: None,
            home_layers: Vec::new(),
            bound: None,
            volume,
            volume_directory: self.path().join("boxes").join(&id),
            generation: 0,
            kept_generations: Vec::new(),
            templates: Some(self.path().join("templates")),
            limits: Limits {
                cpu_millis: Some(1_000),
                memory_bytes: Some(256 << 20),
                pids: Some(128),
                disk_bytes: Some(64 << 20),
                inodes: None,
            },
            network: Network::None,
            trust: None,
            env: BTreeMap::new(),
        }
    }

    pub(crate) fn start(&self) -> Running<'_> {
        self.start_with(&self.spec())
    }

    pub(crate) fn start_with(&self, spec: &BoxSpec) -> Running<'_> {
        self.started(launch(&init(), spec), spec)
    }

    /// Starts a box with a spare.
    pub(crate) fn start_from(&self, spare: Spare, spec: &BoxSpec) -> Running<'_> {
        std::fs::create_dir(&spec.directory).unwrap();
        self.started(resume(&init(), spec, Some(spare)), spec)
    }

    fn started(&self, started: Result<RunningBox, BoxError>, spec: &BoxSpec) -> Running<'_> {
        let running = started.unwrap_or_else(|error| panic!("{}", chain(&error)));
        Running { running, id: spec.id.clone(), home: self, next: AtomicU32::new(0) }
    }

    pub(crate) fn census(&self) -> Census {
        Census::take(self.path(), &self.instance)
    }

    pub(crate) fn census_before(&self) -> Census {
        self.before.clone()
    }

    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.census(), self.before);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.assert_clean();
        }
    }
}

pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A box that is removed when it is dropped.
pub(crate) struct Running<'a> {
    pub(crate) running: RunningBox,
    id: String,
    home: &'a Home,
    next: AtomicU32,
}

impl Running<'_> {
    pub(crate) fn connect(&self) -> Connection {
        self.running.connect().unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    pub(crate) fn order(&self, command: &str) -> ExecOrder {
        ExecOrder {
            exec: format!("exec_{}", self.next.fetch_add(1, Ordering::Relaxed)),
            argv: vec!["/bin/bash".to_owned(), "-c".to_owned(), command.to_owned()],
            cwd: "/workspace".to_owned(),
            env: BTreeMap::new(),
            input: Input::Nothing,
            timeout_ms: Some(60_000),
            terminal: None,
            output: OutputLimits::default(),
        }
    }

    pub(crate) fn run(&self, order: ExecOrder, input: &[u8]) -> Finished {
        self.connect().run(order, input).unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    pub(crate) fn bash(&self, command: &str) -> Finished {
        self.run(self.order(command), &[])
    }

    /// Runs a command that must succeed and returns its output.
    pub(crate) fn says(&self, command: &str) -> String {
        let finished = self.bash(command);
        let (out, err) = (text(&finished.stdout), text(&finished.stderr));
        assert_eq!(finished.result.exit_code, 0, "{command}: {out} {err}");
        out
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let removed = remove(self.running.directory());
        if !std::thread::panicking() {
            removed.unwrap_or_else(|error| panic!("{}", chain(&error)));
            self.home.ranges().give_back(&self.id).unwrap();
        }
    }
}
