//! The container that the provider asks Podman for, isolated in every respect.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use hyper::StatusCode;
use serde_json::{Value, json};
use stead_box::build::{
    COMPARED_TREES, CONTAINER_MOUNTS, GATE, HIDDEN_OF_PROC, HOST_MOUNTS, INIT, OPEN_FILES, PSEUDO_TERMINALS,
    SHARED_MESSAGE_QUEUE_BYTES, SHARED_QUEUED_SIGNALS,
};
use stead_box::{AGENT_ID, HOME, Limits, RANGE_LENGTH, TRUST, WORKSPACE};
use stead_core::WorkspaceId;

use super::client::{Client, escaped};
use crate::contract::error::ProviderError;

/// Version of the shape below. Raise it when the shape changes: older warm boxes are not used then.
pub(super) const SHAPE: u32 = 5;
const CPU_PERIOD_MICROS: u64 = 100_000;
/// An empty directory.
const EMPTY: &str = "empty";
/// Directory of the texts that the container shows in place of the kernel's.
const SHOWN: &str = "shown";
const PROCESSES: u64 = 32_768;
/// Longest pause between attempts to remove a container that Podman reports as busy.
pub(super) const BUSY_PAUSE: Duration = Duration::from_millis(100);
pub(super) const BUSY_ATTEMPTS: u32 = 50;
/// Pause before the second attempt; each later pause is longer by the same amount.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Time to wait for a killed container to be reaped. Its monitor does that at once, if it is alive;
/// if not, Podman checks for itself.
const END_PATIENCE: Duration = Duration::from_millis(500);

const INSTANCE_LABEL: &str = "stead.instance";
const WORKSPACE_LABEL: &str = "stead.workspace";

/// The source of the box's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// Directories of a volume that is mounted in the box's directory.
    Volume,
    /// The mounts that were made for the box below its directory.
    OnTheHost,
    /// Mounts that are added before the box starts its work; until then it has empty directories.
    Furnished,
}

/// The parameters of one container.
pub(super) struct Container<'a> {
    pub(super) name: &'a str,
    pub(super) instance: &'a str,
    pub(super) workspace: &'a str,
    /// By id, because a name can move to another image.
    pub(super) image_id: &'a str,
    pub(super) runtime: Option<&'a str>,
    /// `None`: Podman runs without root, and its user is the agent. 0: ids are not mapped.
    pub(super) first_uid: Option<u32>,
    pub(super) init: &'a Path,
    pub(super) directory: &'a Path,
    pub(super) files: Files,
    pub(super) seccomp: &'a Path,
    pub(super) limits: &'a Limits,
    /// Paths in the container and the texts to show there.
    pub(super) shown: &'a [(String, String)],
    /// Directory with the certificates that programs trust.
    pub(super) trust: Option<&'a Path>,
}

impl Container<'_> {
    pub(super) fn order(&self) -> Value {
        let gate = self.directory.join("gate");
        let mut order = json!({
            "name": self.name,
            "image": self.image_id,
            "labels": {INSTANCE_LABEL: self.instance, WORKSPACE_LABEL: self.workspace},
            "entrypoint": [INIT],
            "command": ["guest"],
            "work_dir": "/",
            "user": format!("{AGENT_ID}:{AGENT_ID}"),
            "hostname": "stead",
            // No capabilities, no way to gain any, and no network but the loopback device.
            "cap_drop": ["all"],
            "no_new_privileges": true,
            "seccomp_profile_path": self.seccomp,
            "netns": {"nsmode": "none"},
            "cgroupns": {"nsmode": "private"},
            "pidns": {"nsmode": "private"},
            "ipcns": {"nsmode": "private"},
            "utsns": {"nsmode": "private"},
            // The image is read-only; writes go to the volume or to tmpfs, which counts against the
            // memory limit.
            "read_only_filesystem": true,
            "image_volume_mode": "ignore",
            "mounts": [
                bind(self.init, INIT, "ro"),
                bind(&gate, GATE, "ro"),
                // Programs expect this directory. Only the box's root may write to it, and no
                // process can become root.
                memory("/run", "16m", "0755"),
                terminals(),
            ],
            // In addition to Podman's masks, so that every box hides the same parts of /proc.
            "mask": HIDDEN_OF_PROC.iter().map(|name| format!("/proc/{name}")).collect::<Vec<_>>(),
            "resource_limits": self.resources(),
            // Explicit, because Podman's defaults exceed what root without CAP_SYS_RESOURCE may
            // set.
            "r_limits": [
                {"type": "nofile", "soft": OPEN_FILES, "hard": OPEN_FILES},
                {"type": "nproc", "soft": PROCESSES, "hard": PROCESSES},
                // The container runtime creates the user namespace as the user it runs as, so the
                // kernel charges these to that user, for all containers together.
                {"type": "sigpending", "soft": SHARED_QUEUED_SIGNALS, "hard": SHARED_QUEUED_SIGNALS},
                {"type": "msgqueue", "soft": SHARED_MESSAGE_QUEUE_BYTES, "hard": SHARED_MESSAGE_QUEUE_BYTES},
            ],
            // The first process is not a service and writes no log. Only this server talks to it.
            "systemd": "false",
            "sdnotifyMode": "ignore",
            "healthconfig": {"Test": ["NONE"]},
            "log_configuration": {"driver": "none"},
            "restart_policy": "no",
            "stop_timeout": 0,
        });
        if let Some(mounts) = order["mounts"].as_array_mut() {
            mounts.extend(self.files());
            mounts.extend(self.shown.iter().map(|(path, _)| bind(&self.shown_file(path), path, "ro")));
            mounts.extend(self.trust.map(|directory| bind(directory, TRUST, "ro")));
        }
        match self.first_uid {
            Some(0) => order["userns"] = json!({"nsmode": "host"}),
            Some(first) => {
                let map = json!([{"container_id": 0, "host_id": first, "size": RANGE_LENGTH}]);
                order["userns"] = json!({"nsmode": "private"});
                order["idmappings"] =
                    json!({"HostUIDMapping": false, "HostGIDMapping": false, "UIDMap": map, "GIDMap": map});
            }
            None => order["userns"] = json!({"nsmode": "keep-id", "value": format!("uid={AGENT_ID},gid={AGENT_ID}")}),
        }
        if let Some(runtime) = self.runtime {
            order["oci_runtime"] = runtime.into();
        }
        order
    }

    /// Makes the directories and files that must exist before the request to Podman.
    pub(super) fn prepare(&self) -> io::Result<()> {
        if self.files == Files::Furnished {
            fs::create_dir_all(self.directory.join(EMPTY))?;
        }
        if !self.shown.is_empty() {
            fs::create_dir_all(self.directory.join(SHOWN))?;
        }
        self.shown.iter().try_for_each(|(path, text)| fs::write(self.shown_file(path), text))
    }

    /// The file on the host with the text for a path in the container.
    fn shown_file(&self, path: &str) -> PathBuf {
        self.directory.join(SHOWN).join(path.trim_start_matches('/').replace('/', "-"))
    }

    fn files(&self) -> Vec<Value> {
        match self.files {
            Files::Volume => {
                let volume = self.directory.join("volume");
                let tmp = volume.join("tmp");
                vec![
                    bind(&volume.join("upper"), WORKSPACE, "rw"),
                    bind(&volume.join("home"), HOME, "rw"),
                    bind(&tmp, "/tmp", "rw"),
                    bind(&tmp, "/var/tmp", "rw"),
                ]
            }
            Files::OnTheHost => {
                let mounts = self.directory.join(HOST_MOUNTS);
                CONTAINER_MOUNTS.iter().map(|(name, path)| bind_all(&mounts.join(name), path)).collect()
            }
            Files::Furnished => {
                let empty = self.directory.join(EMPTY);
                CONTAINER_MOUNTS.iter().map(|(_, path)| bind(&empty, path, "ro")).collect()
            }
        }
    }

    fn resources(&self) -> Value {
        let mut resources = json!({});
        if let Some(bytes) = self.limits.memory_bytes {
            resources["memory"] = json!({"limit": bytes, "swap": bytes});
        }
        if let Some(millis) = self.limits.cpu_millis {
            resources["cpu"] = json!({"quota": millis * CPU_PERIOD_MICROS / 1_000, "period": CPU_PERIOD_MICROS});
        }
        if let Some(pids) = self.limits.pids {
            resources["pids"] = json!({"limit": pids});
        }
        resources
    }
}

fn bind(source: &Path, destination: &str, access: &str) -> Value {
    json!({"type": "bind", "source": source, "destination": destination, "options": ["bind", access, "nosuid", "nodev"]})
}

/// A bind mount that includes the mounts below the source.
fn bind_all(source: &Path, destination: &str) -> Value {
    let access = if destination == COMPARED_TREES { "ro" } else { "rw" };
    let options = ["rbind", access, "nosuid", "nodev"];
    json!({"type": "bind", "source": source, "destination": destination, "options": options})
}

fn memory(destination: &str, size: &str, mode: &str) -> Value {
    let options = [format!("size={size}"), format!("mode={mode}"), "nosuid".to_owned(), "nodev".to_owned()];
    json!({"type": "tmpfs", "source": "tmpfs", "destination": destination, "options": options})
}

/// The usual `/dev/pts`, with a limit on its share of the host's pseudo-terminals.
fn terminals() -> Value {
    let most = format!("max={PSEUDO_TERMINALS}");
    let options = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", &most];
    json!({"type": "devpts", "source": "devpts", "destination": "/dev/pts", "options": options})
}

/// The owner of a container name.
pub(super) enum Found {
    Nobody,
    /// This server, according to the label.
    Ours(Own),
    Another,
}

/// A container of this server.
pub(super) struct Own {
    id: String,
    /// Its first process, while it runs.
    pid: Option<i32>,
    /// True if Podman has frozen its processes.
    pub(super) paused: bool,
}

pub(super) async fn find(client: &Client, instance: &str, name: &str) -> Result<Found, ProviderError> {
    let found = client.get(&format!("/containers/{}/json", escaped(name))).await?;
    if found.status == StatusCode::NOT_FOUND {
        return Ok(Found::Nobody);
    }
    if found.status.is_success() {
        return Ok(Found::of(&found.body, found.body.pointer("/Config/Labels"), instance));
    }
    // An interrupted removal leaves a container without files. Podman lists such a container but
    // cannot inspect it.
    let filters = json!({"name": [format!("^{name}$")]}).to_string();
    let listed = client.get(&format!("/containers/json?all=true&filters={}", escaped(&filters))).await?.ok()?;
    let listed = listed.as_array().and_then(|all| all.first());
    Ok(listed.map_or(Found::Nobody, |found| Found::of(found, found.get("Labels"), instance)))
}

/// The containers with this server's label, and the workspace of each.
pub(super) async fn of_instance(client: &Client, instance: &str) -> Result<Vec<(WorkspaceId, Own)>, ProviderError> {
    let filters = json!({"label": [format!("{INSTANCE_LABEL}={instance}")]}).to_string();
    let listed = client.get(&format!("/containers/json?all=true&filters={}", escaped(&filters))).await?.ok()?;
    let own = |container: &Value| {
        let labels = container.get("Labels");
        let workspace = labels?.get(WORKSPACE_LABEL)?.as_str()?.parse().ok()?;
        match Found::of(container, labels, instance) {
            Found::Ours(own) => Some((workspace, own)),
            Found::Nobody | Found::Another => None,
        }
    };
    Ok(listed.as_array().into_iter().flatten().filter_map(own).collect())
}

impl Found {
    fn of(container: &Value, labels: Option<&Value>, instance: &str) -> Self {
        let label = labels.and_then(|labels| labels.get(INSTANCE_LABEL)).and_then(Value::as_str);
        let id = container.get("Id").and_then(Value::as_str).filter(|_| label == Some(instance));
        let pid = container.pointer("/State/Pid").or(container.get("Pid")).and_then(Value::as_i64);
        let pid = pid.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0);
        let state = container.pointer("/State/Status").or(container.get("State")).and_then(Value::as_str);
        let paused = state == Some("paused");
        id.map_or(Self::Another, |id| Self::Ours(Own { id: id.to_owned(), pid, paused }))
    }
}

/// Removes the remains of a container that was never completed: a name that only Podman's storage
/// knows. The name contains this server's instance.
///
/// Do not call it while Podman may still be creating the container, which would then have no files.
pub(super) async fn remove_half(client: &Client, name: &str) -> Result<(), ProviderError> {
    client.delete(&format!("/containers/{}?force=true&timeout=0", escaped(name))).await.map(drop)
}

/// Freezes the processes of a container.
pub(super) async fn pause(client: &Client, own: &Own) -> Result<(), ProviderError> {
    client.post(&format!("/containers/{}/pause", escaped(&own.id)), None).await?.ok().map(drop)
}

/// Lets the processes of a frozen container run again.
pub(super) async fn unpause(client: &Client, own: &Own) -> Result<(), ProviderError> {
    client.post(&format!("/containers/{}/unpause", escaped(&own.id)), None).await?.ok().map(drop)
}

/// Removes a container of this server by its id.
pub(super) async fn remove(client: &Client, own: &Own) -> Result<(), ProviderError> {
    if own.paused {
        // With control groups of version 1, a frozen process does not die before it runs again.
        // Podman's own removal reports what goes wrong here.
        let _ = unpause(client, own).await;
    }
    if let Some(pid) = own.pid {
        // Kill the process first: Podman polls only ten times a second for the end of one that it
        // killed.
        let id = own.id.clone();
        let ended = tokio::task::spawn_blocking(move || stead_box::end_container(pid, &id, END_PATIENCE));
        ended.await.map_err(|_| ProviderError::Interrupted)?;
    }
    let mut attempts = 0;
    loop {
        let response = client.delete(&format!("/containers/{}?force=true&timeout=0", escaped(&own.id))).await?;
        if response.status.is_success() || response.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        attempts += 1;
        // An ending process keeps its mounts busy for a moment, and Podman gives up at once.
        if attempts >= BUSY_ATTEMPTS {
            return Err(ProviderError::Podman { reason: response.reason() });
        }
        tokio::time::sleep(BUSY_PAUSE.min(FIRST_PAUSE * attempts)).await;
    }
}
