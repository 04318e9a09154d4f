//! Facts about a box that only its provider knows. They are recorded with the session.

use serde::{Deserialize, Serialize};

use crate::network::Reach;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BoxFacts {
    /// The image as the agent type names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The digest of that image when the box was created. It never changes during the life of the
    /// box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
    /// The program that runs the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// True if the box came from the warm pool.
    #[serde(default, skip_serializing_if = "is_false")]
    pub warm: bool,
    /// The storage of its files, if it depends on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trees: Option<Trees>,
    /// The user that the kernel charges for resources counted per user. `None` without a box, and
    /// in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowances: Option<Allowances>,
    /// The connections that the box can make. `None` for a box without a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Reach>,
}

/// The user that the kernel charges for resources counted per user: inotify instances and watches,
/// message queues, queued signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowances {
    /// A user of the box's own: one box cannot exhaust the resources of another.
    Own,
    /// The user of the server or of the container runtime, for all boxes together. Each box has a
    /// limit, but several boxes can exhaust the resources of the others and of that user.
    Shared,
}

impl Allowances {
    /// The warning for a session with such a box.
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Own => None,
            Self::Shared => Some(
                "the kernel counts inotify instances and watches, message queues and queued signals of this box, and its \
                 pipe buffers if the server is not root, together with those of other boxes and of the user who runs \
                 them, so several boxes can use up what the others need; the native provider as root gives each box its own",
            ),
        }
    }
}

/// The storage of a box's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trees {
    /// Shared read-only layers, with the box's own writes above them.
    Shared,
    /// A complete copy per box, on hosts that support nothing better.
    Copied,
}

impl BoxFacts {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}
