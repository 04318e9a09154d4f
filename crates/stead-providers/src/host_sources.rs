//! Checks the host paths of an init plan before anything is made.

use serde_json::Value;
use stead_core::Rejection;
use stead_core::plan::{Action, WORKSPACE_ROOT};
use stead_core::policy::MountMode;
use stead_fs::mount::{AllowedRoots, HostMount, MountError};

/// A host path that a plan may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedMount {
    pub host_path: String,
    pub mount_path: String,
    pub mode: AllowedMode,
}

/// The use that a plan makes of a host path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedMode {
    /// An entry of `mounts`: the provider copies its files in.
    Copy,
    /// The workspace policy `mount`.
    Mount(MountMode),
    /// A bundle read from the host.
    Bundle,
}

/// Checks every host path of a plan. The rejection names the refused path and the reason. Blocks,
/// because it opens directories.
pub fn judge_host_paths(actions: &[Action]) -> Result<Vec<AllowedMount>, Rejection> {
    let mut allowed = Vec::new();
    for action in actions {
        match action {
            Action::HydrateMounts { mounts, allowed_host_roots } => {
                for mount in mounts.iter().cloned().map(crate::fill::order) {
                    allowed.push(copy(&mount, allowed_host_roots)?);
                }
            }
            Action::MountDirectory { host_path, mode, allowed_host_roots, allowed_root_owned_mounts } => {
                let judged = AllowedRoots::open(allowed_host_roots).and_then(|roots| {
                    let directory = roots.directory(host_path)?;
                    match mode {
                        MountMode::ReadWrite => directory.check_writable(allowed_root_owned_mounts).map(drop),
                        MountMode::ReadOnly => directory.check_shown(),
                        MountMode::Overlay => Ok(()),
                    }
                });
                judged.map_err(|error| mount_refused(host_path, &error))?;
                let (host_path, mount_path) = (host_path.clone(), WORKSPACE_ROOT.to_owned());
                allowed.push(AllowedMount { host_path, mount_path, mode: AllowedMode::Mount(*mode) });
            }
            // With a digest the bytes may already be in the blob store, and then the path is not
            // read.
            Action::UnpackBundle { source, digest: None, allowed_host_roots } => {
                allowed.extend(bundle(source, allowed_host_roots)?);
            }
            _ => {}
        }
    }
    Ok(allowed)
}

fn copy(mount: &HostMount, roots: &[String]) -> Result<AllowedMount, Rejection> {
    let judged = AllowedRoots::open(roots).and_then(|roots| roots.judge(mount));
    let judged = judged.map_err(|error| mount_refused(&mount.host_path, &error))?;
    let (host_path, mount_path) = (mount.host_path.clone(), judged.mount_path.to_string());
    Ok(AllowedMount { host_path, mount_path, mode: AllowedMode::Copy })
}

fn bundle(source: &Value, roots: &[String]) -> Result<Option<AllowedMount>, Rejection> {
    let Some(path) = source.get("path").and_then(Value::as_str) else { return Ok(None) };
    let judged = AllowedRoots::open(roots).and_then(|roots| roots.judge(&HostMount::new(path)));
    let host_path = path.to_owned();
    match judged {
        Ok(_) => {
            let mount_path = WORKSPACE_ROOT.to_owned();
            Ok(Some(AllowedMount { host_path, mount_path, mode: AllowedMode::Bundle }))
        }
        Err(error) => Err(Rejection::BundleRefused { host_path, reason: error.to_string() }),
    }
}

fn mount_refused(host_path: &str, error: &MountError) -> Rejection {
    Rejection::MountRefused { host_path: host_path.to_owned(), reason: error.to_string() }
}
