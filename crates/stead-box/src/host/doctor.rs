//! Tests which features of boxes work on this host.
//!
//! Each check starts a real temporary box. A refusal names the kernel feature, and so the cause and
//! the remedy: see [`Primitive::advice`](crate::Primitive::advice).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::client::Connection;
use super::launch::{RunningBox, launch};
use super::remove::remove;
use super::uids::UidRanges;
use crate::cgroup::Held;
use crate::error::BoxError;
use crate::protocol::{ExecOrder, Input, OutputLimits};
use crate::spec::{BoxSpec, Ids, LayerSpec, Limits, Network, Volume};

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    pub ok: bool,
    /// Cause of the failure.
    pub blocker: Option<String>,
    /// Remedy.
    pub advice: Option<String>,
}

/// Runs all checks below a directory that the caller provides, and removes everything afterwards.
pub fn doctor(init: &Path, directory: &Path) -> Vec<Check> {
    let clinic = Clinic { init, directory, root: crate::runs_as_root() };
    let plain = clinic.check("a closed box", &|_| {}, &|_, _| Ok(()));
    if !plain.ok {
        return vec![plain];
    }
    let layer = directory.join("doctor-layer");
    let _ = std::fs::create_dir(&layer);
    let mut checks = vec![
        plain,
        clinic.check("a command in it", &|_| {}, &|_, connection| run(connection, "true", None, 0)),
        clinic.check("a timeout that ends every process", &|_| {}, &|_, connection| {
            run(connection, "(setsid sleep 60 &); sleep 60", Some(50), 124)
        }),
        clinic.check(
            "layers below the workspace",
            &|spec| spec.layers.push(LayerSpec::Directory { path: layer.clone() }),
            &|_, _| Ok(()),
        ),
    ];
    let _ = std::fs::remove_dir(&layer);
    let asked = Limits { cpu_millis: Some(500), memory_bytes: Some(64 << 20), pids: Some(64), ..Limits::default() };
    let held = [
        ("a limit of cpu", (|held| held.cpu) as fn(Held) -> bool),
        ("a limit of memory", |held| held.memory),
        ("a limit of processes", |held| held.pids),
    ];
    for (name, holds) in held {
        checks.push(clinic.check(name, &|spec| spec.limits = asked, &|running, _| {
            if holds(running.held()) { Ok(()) } else { Err(not_held()) }
        }));
    }
    checks.push(clinic.check("a network", &|spec| spec.network = Network::Captured, &|_, connection| {
        Ok(connection.sockets().map(drop)?)
    }));
    checks.push(clinic.check(
        "a limit of disk",
        &|spec| (spec.volume, spec.limits.disk_bytes) = (Volume::Image, Some(32 << 20)),
        &|_, connection| run(connection, "head -c 64M /dev/zero > big", None, 1),
    ));
    checks
}

struct Clinic<'a> {
    init: &'a Path,
    directory: &'a Path,
    root: bool,
}

type Try<'a> = &'a dyn Fn(&RunningBox, &mut Connection) -> Result<(), Blocked>;

struct Blocked {
    blocker: String,
    advice: Option<String>,
}

impl From<BoxError> for Blocked {
    fn from(error: BoxError) -> Self {
        match error {
            BoxError::Refused(refused) => Self {
                blocker: format!("{}: {}", refused.doing, refused.reason),
                advice: Some(refused.primitive.advice().to_owned()),
            },
            other => Self { blocker: other.to_string(), advice: None },
        }
    }
}

impl Clinic<'_> {
    fn check(&self, name: &str, change: &dyn Fn(&mut BoxSpec), then: Try<'_>) -> Check {
        let (ok, blocked) = match self.attempt(change, then) {
            Ok(()) => (true, None),
            Err(blocked) => (false, Some(blocked)),
        };
        let (blocker, advice) = blocked.map_or((None, None), |blocked| (Some(blocked.blocker), blocked.advice));
        Check { name: name.to_owned(), ok, blocker, advice }
    }

    fn attempt(&self, change: &dyn Fn(&mut BoxSpec), then: Try<'_>) -> Result<(), Blocked> {
        let id = format!("doctor-{}", std::process::id());
        let ranges = UidRanges::new(self.directory.join("uids"));
        let mut spec = BoxSpec {
            ids: if self.root { Ids::Range { first: ranges.take(&id)? } } else { Ids::Own },
            directory: PathBuf::from(self.directory).join(&id),
            instance: "doctor".to_owned(),
            id: id.clone(),
            base: None,
            layers: Vec::new(),
            compared: None,
            home_layers: Vec::new(),
            bound: None,
            volume: Volume::Memory,
            volume_directory: PathBuf::from(self.directory).join(&id),
            generation: 0,
            kept_generations: Vec::new(),
            templates: None,
            limits: Limits::default(),
            network: Network::None,
            trust: None,
            env: BTreeMap::new(),
        };
        change(&mut spec);
        let tried = launch(self.init, &spec).map_err(Blocked::from).and_then(|running| {
            let mut connection = running.connect()?;
            then(&running, &mut connection)
        });
        let removed = remove(&spec.directory);
        ranges.give_back(&id)?;
        let _ = std::fs::remove_dir(self.directory.join("uids"));
        removed?;
        tried
    }
}

fn run(connection: &mut Connection, command: &str, timeout_ms: Option<u64>, expected: i32) -> Result<(), Blocked> {
    let order = ExecOrder {
        exec: "doctor".to_owned(),
        argv: ["/bin/sh", "-c", command].map(str::to_owned).into(),
        cwd: "/workspace".to_owned(),
        env: BTreeMap::new(),
        input: Input::Nothing,
        timeout_ms,
        terminal: None,
        output: OutputLimits::default(),
    };
    let finished = connection.run(order, &[])?;
    if finished.result.exit_code == expected && finished.result.survivors == 0 {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&finished.stderr).into_owned();
    Err(Blocked { blocker: format!("{command:?} ended with {}: {stderr}", finished.result.exit_code), advice: None })
}

fn not_held() -> Blocked {
    Blocked {
        blocker: "this user may write no control group of the kind that is needed".to_owned(),
        advice: Some("run stead as root, or delegate a cgroup with cpu, memory and pids to its user".to_owned()),
    }
}
