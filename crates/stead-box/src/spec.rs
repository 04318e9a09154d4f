//! The complete, serializable specification of a box.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// User and group id of all programs and files in a box. It is not 0, because programs behave
/// better as an ordinary user, and rules for uid 0 do not apply.
pub const AGENT_ID: u32 = 1000;
/// Number of ids in the private range of a box that root starts.
pub const RANGE_LENGTH: u32 = 65_536;
/// Path of the workspace in the box.
pub const WORKSPACE: &str = "/workspace";
/// Path of the agent's home directory in the box.
pub const HOME: &str = "/home/agent";
/// Path in the box of the certificates that programs trust, if the server inspects connections.
pub const TRUST: &str = "/etc/stead";

/// Resource limits of a box; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// CPU limit in thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// Limit of memory and swap together, in bytes.
    pub memory_bytes: Option<u64>,
    pub pids: Option<u64>,
    /// Limit of `/workspace`, `/tmp` and the home directory together, in bytes.
    pub disk_bytes: Option<u64>,
    pub inodes: Option<u64>,
}

/// Mapping of the box's ids to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ids {
    /// A private range, so that boxes share no per-uid resource or permission. Needs root.
    Range { first: u32 },
    /// The agent has the id of the user who starts the box, and there is no other id.
    Own,
}

/// Storage of the files that the box writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Volume {
    /// An ext4 image with the size of the limit, loop-mounted only inside the box's mount
    /// namespace. A write beyond the limit fails with `ENOSPC`, the host loses at most the size of
    /// the image, and the mount and its device end with the box. Needs root.
    ///
    /// Unlike a tmpfs, its files survive the box and a restart of the host, and use no memory.
    /// Project quotas are no alternative, because many kernels lack them.
    Image,
    /// A tmpfs with the size of the limit. It works for an unprivileged user too, but the files use
    /// memory and end with the box.
    Memory,
    /// A plain directory. Its size is not limited, and the box reports that.
    Directory,
}

/// Network of a box, apart from its own loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    #[default]
    None,
    /// Every TCP connection and every question for a name goes to sockets that the server borrows.
    Captured,
}

impl Network {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// A read-only tree below the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LayerSpec {
    /// A directory whose files belong to the user who starts the box.
    Directory { path: PathBuf },
    /// Files that a box wrote and that no longer change: a generation of the volume in
    /// `volume_directory`, with the ids of the box that wrote it.
    Generation { volume_directory: PathBuf, number: u32, ids: Ids },
    /// The home directory in the volume in `volume_directory`, which no box writes any more.
    Home { volume_directory: PathBuf, ids: Ids },
}

/// A host directory that is the workspace itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Real path, without symbolic links.
    pub path: PathBuf,
    pub access: Access,
    /// Owner of the directory when it was allowed. A box writes as the owner, so a change of the
    /// owner is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    Read,
    Write,
}

/// A volume image to make and mount before its box is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preparation {
    /// Directory for the image alone. It is created, and its parent must exist, on the same file
    /// system as the volumes.
    pub directory: PathBuf,
    pub shape: ImageShape,
}

/// Parameters of an image that do not depend on the box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageShape {
    pub disk_bytes: u64,
    pub inodes: Option<u64>,
    pub templates: PathBuf,
}

/// Specification of a box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoxSpec {
    /// Id, unique among the boxes of one server: letters, digits, `_` and `-`.
    pub id: String,
    /// Id of the server that owns the box, with the same characters.
    pub instance: String,
    /// Directory of the box on the host. It must not exist yet, and its parent must exist.
    pub directory: PathBuf,
    pub ids: Ids,
    /// Unpacked root directory of an image; `None` for the host's system directories.
    pub base: Option<PathBuf>,
    /// Read-only layers of the workspace, the topmost last.
    pub layers: Vec<LayerSpec>,
    /// Layers that a diff compares with, the topmost last; `None` if there is nothing to compare
    /// with yet.
    pub compared: Option<Vec<LayerSpec>>,
    /// Read-only layers of the home directory, the topmost last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub home_layers: Vec<LayerSpec>,
    /// Host directory that replaces the layers and the generation. Its files appear as the agent's
    /// own.
    pub bound: Option<Bound>,
    pub volume: Volume,
    /// Directory of the volume, which must exist. Other boxes may use its older generations as
    /// layers, so it may outlive the box.
    pub volume_directory: PathBuf,
    /// Generation of the volume to write. It is created if it does not exist.
    pub generation: u32,
    /// Older generations to keep. All others are removed at the start.
    pub kept_generations: Vec<u32>,
    /// Directory of formatted images to copy; `None` to format each image anew.
    pub templates: Option<PathBuf>,
    pub limits: Limits,
    #[serde(default, skip_serializing_if = "Network::is_none")]
    pub network: Network,
    /// Directory of the host with the certificates that programs in the box trust; they see it at
    /// [`TRUST`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<PathBuf>,
    /// Environment variables of all commands, in addition to `PATH`, `HOME` and the like.
    pub env: BTreeMap<String, String>,
}

impl BoxSpec {
    /// Returns true if the name only has characters that are safe in paths and cgroup names.
    pub(crate) fn name_is_plain(name: &str) -> bool {
        (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    }

    /// Returns the parameters of the volume image; `None` if the volume is no image, or cannot be
    /// made ahead.
    pub fn image_shape(&self) -> Option<ImageShape> {
        let (disk_bytes, templates) = (self.limits.disk_bytes?, self.templates.clone()?);
        (self.volume == Volume::Image).then_some(ImageShape { disk_bytes, inodes: self.limits.inodes, templates })
    }

    /// Returns the agent's id on the host; `None` without a private range.
    pub(crate) fn agent_on_host(&self) -> Option<u32> {
        match self.ids {
            Ids::Range { first } => Some(first + AGENT_ID),
            Ids::Own => None,
        }
    }
}
