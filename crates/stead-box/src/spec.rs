//! What a box is to be: complete, serializable, nothing left to choose.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Who everything in a box runs as, and who owns its files there. Not 0: programs behave better as an ordinary user, and nothing
/// that is keyed to uid 0 applies.
pub const AGENT_ID: u32 = 1000;
/// How many ids a box started by root has for itself.
pub const RANGE_LENGTH: u32 = 65_536;
/// Where the agent's files are, in the box.
pub const WORKSPACE: &str = "/workspace";
/// The agent's home directory, in the box.
pub const HOME: &str = "/home/agent";

/// How much a box may use. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// Memory and swap together.
    pub memory_bytes: Option<u64>,
    pub pids: Option<u64>,
    /// What `/workspace`, `/tmp` and the home directory may hold together.
    pub disk_bytes: Option<u64>,
    pub inodes: Option<u64>,
}

/// How the box's ids look from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ids {
    /// A private range, so that nothing the kernel counts or permits per uid is shared between boxes. Needs root.
    Range { first: u32 },
    /// The user who starts the box is the agent, and there is no other id.
    Own,
}

/// Where what the box writes is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Volume {
    /// An ext4 image of the limit's size, loop-mounted inside the box's mount namespace alone. A write past the limit gets `ENOSPC`,
    /// the host loses at most the image, and the mount and its device go when the box goes. Needs root.
    ///
    /// Chosen over a tmpfs because the files survive the box and the host's restart, and cost no memory; over project quotas because
    /// many kernels have none.
    Image,
    /// A tmpfs of the limit's size: it holds for an ordinary user too, but the files are memory and end with the box.
    Memory,
    /// A plain directory. Its size is not limited, and the box says so.
    Directory,
}

/// A read-only tree below the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LayerSpec {
    /// A directory whose files belong to who starts the box.
    Directory { path: PathBuf },
    /// What a box once wrote and nobody writes any more: a generation of the volume in `volume_directory`, by the ids of the box that
    /// wrote it.
    Generation { volume_directory: PathBuf, number: u32, ids: Ids },
}

/// A directory of the host's that is the workspace itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The real path, with no symbolic link in it.
    pub path: PathBuf,
    pub access: Access,
    /// The user who owned the directory when it was allowed. A box writes as the owner, so another owner is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    Read,
    Write,
}

/// What can be made before it is known for which box: an image, mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preparation {
    /// It is made, for this alone, where its parent is there; on the same file system as the volumes.
    pub directory: PathBuf,
    pub shape: ImageShape,
}

/// What an image is before it is known whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageShape {
    pub disk_bytes: u64,
    pub inodes: Option<u64>,
    pub templates: PathBuf,
}

/// Everything that is needed to make a box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoxSpec {
    /// Unique among the boxes of one server: letters, digits, `_` and `-`.
    pub id: String,
    /// Which server this box belongs to: the same characters.
    pub instance: String,
    /// The box's own directory on the host; it must not exist yet, its parent must.
    pub directory: PathBuf,
    pub ids: Ids,
    /// An unpacked root; without it the host's system directories serve.
    pub base: Option<PathBuf>,
    /// Read-only trees below the workspace, the topmost last.
    pub layers: Vec<LayerSpec>,
    /// The trees a diff compares with, the topmost last; `None` if there is nothing to compare with yet.
    pub compared: Option<Vec<LayerSpec>>,
    /// Instead of layers and a generation above them: the host's own files, shown as the agent's.
    pub bound: Option<Bound>,
    pub volume: Volume,
    /// The directory the volume is kept in; it must exist. Other boxes may have its older generations as layers, so it may outlive the box.
    pub volume_directory: PathBuf,
    /// Which generation of the volume is written. It is made if it is not there.
    pub generation: u32,
    /// Older generations that stay; all others are removed at the start.
    pub kept_generations: Vec<u32>,
    /// Where formatted images are kept to be copied; without it each is formatted anew.
    pub templates: Option<PathBuf>,
    pub limits: Limits,
    /// What every process in the box is started with, beside `PATH`, `HOME` and the like.
    pub env: BTreeMap<String, String>,
}

impl BoxSpec {
    /// The only characters that reach paths and cgroup names.
    pub(crate) fn name_is_plain(name: &str) -> bool {
        (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    }

    /// Of the image it has for a volume; `None` if that is none, or none that could be made ahead.
    pub fn image_shape(&self) -> Option<ImageShape> {
        let (disk_bytes, templates) = (self.limits.disk_bytes?, self.templates.clone()?);
        (self.volume == Volume::Image).then_some(ImageShape { disk_bytes, inodes: self.limits.inodes, templates })
    }

    /// The host's ids for the agent.
    pub(crate) fn agent_on_host(&self) -> Option<u32> {
        match self.ids {
            Ids::Range { first } => Some(first + AGENT_ID),
            Ids::Own => None,
        }
    }
}
